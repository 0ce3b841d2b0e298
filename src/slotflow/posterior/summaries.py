"""Draws of a posterior as tables: one row per component, and correlations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.posterior.alignment import Labels, existence, match, relabel

if TYPE_CHECKING:
    import pandas as pd

    from slotflow.posterior.posterior import Posterior

__all__ = ["PARAMETERS", "components", "correlation", "moments", "summary", "unwrapped"]

Array = NDArray[np.float64]

PARAMETERS = ("amplitude", "phase", "frequency")
JOINT = 500
"""Joint draws behind the existence probabilities of a summary, at most."""
NEGLIGIBLE = 1e-3
"""Probability of all other K together below which they are not asked whether a component exists."""


def unwrapped(draws: Array) -> tuple[Array, Array]:
    """Draws with phases as distances in [−π, π) from their circular mean, (n, k, 3), and that mean, (k,)."""
    centre: Array = np.angle(np.exp(1j * draws[..., 1]).mean(axis=0))
    shifted = draws.copy()
    shifted[..., 1] = np.mod(draws[..., 1] - centre + np.pi, 2 * np.pi) - np.pi
    return shifted, centre


def moments(draws: Array) -> dict[str, Array]:
    """Median, sd, 5 % and 95 % of each parameter of each component, (k,) each.

    Args:
        draws: (A, φ, f), (n, k, 3), n >= 1.
    """
    shifted, centre = unwrapped(draws)
    columns: dict[str, Array] = {}
    for i, name in enumerate(PARAMETERS):
        x = shifted[..., i]
        q05, q50, q95 = np.quantile(x, [0.05, 0.5, 0.95], axis=0)
        if name == "phase":
            q05, q50, q95 = (np.mod(q + centre, 2 * np.pi) for q in (q05, q50, q95))
        columns |= {f"{name}_median": q50, f"{name}_sd": x.std(axis=0)}
        columns |= {f"{name}_q05": q05, f"{name}_q95": q95}
    return columns


def components(post: Posterior, k: int, n: int, seed: int) -> tuple[Array, Labels, Array]:
    """Components given K in the order of their frequencies, with the same labels in all draws.

    Returns:
        Draws (A, φ, f), (n, k, 3); the column of `Posterior.sample` in which each was, (n, k); existence, (k,).
    """
    draws, source, reference = relabel(post.sample(n, k, seed), post.resolution)
    theta, counts = draws, np.full(n, k)
    if k > 0 and 1 - post.k_probs[k] > NEGLIGIBLE:
        theta, counts = post.sample_joint(min(n, JOINT), seed)
    labels = match(theta[..., 2], reference)
    return draws, source, existence(labels, counts, post.k_probs, k)


def summary(post: Posterior, k: int, n: int, seed: int) -> pd.DataFrame:
    """The table of `Posterior.summary`; `slot` is where `Posterior.sample` had a component most often."""
    import pandas as pd

    draws, source, exists = components(post, k, n, seed)
    slots = np.array([np.bincount(column).argmax() for column in source.T], dtype=np.int64)
    columns: dict[str, Any] = {"slot": slots, "existence": exists} | moments(draws)
    frame = pd.DataFrame(columns)
    frame.index = pd.RangeIndex(1, k + 1, name="component")
    verdict = post.verdict
    frame["verdict"] = pd.Series([verdict.status] * k, frame.index, dtype=str)
    frame.attrs["verdict"] = str(verdict)
    limit = post.upper_limit()
    if limit is not None:
        frame.attrs["upper_limit"] = limit.record()
    return frame


def correlation(draws: Array, resolution: float = 0.0) -> Array:
    """Correlations of (A₁, φ₁, f₁, A₂, …), components in the order of their frequencies.

    Args:
        draws: (A, φ, f), (n, k, 3), n >= 2, components in any order.
        resolution: 1/T in Hz; 0 if it is not known.

    Returns:
        (3k, 3k); 0 between parameters of which one does not vary.
    """
    n, k = draws.shape[:2]
    if k == 0:
        return np.zeros((0, 0))
    aligned = unwrapped(relabel(draws, resolution)[0])[0].reshape(n, 3 * k)
    centred = aligned - aligned.mean(0)
    scale = np.sqrt((centred**2).sum(0))
    unit = centred / np.where(scale > 0, scale, 1.0)
    matrix: Array = np.clip(unit.T @ unit, -1, 1)
    np.fill_diagonal(matrix, 1.0)
    return matrix
