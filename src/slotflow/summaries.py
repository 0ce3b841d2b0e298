"""Draws of a posterior as tables: one row per component, correlations, labelled arrays for files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from slotflow.posterior import Posterior

__all__ = ["PARAMETERS", "correlation", "dataset", "summarize", "unwrapped"]

Array = NDArray[np.float64]

PARAMETERS = ("amplitude", "phase", "frequency")


def unwrapped(draws: Array) -> tuple[Array, Array]:
    """Draws with phases as distances in [−π, π) from their circular mean, (n, k, 3), and that mean, (k,)."""
    centre: Array = np.angle(np.exp(1j * draws[..., 1]).mean(axis=0))
    shifted = draws.copy()
    shifted[..., 1] = np.mod(draws[..., 1] - centre + np.pi, 2 * np.pi) - np.pi
    return shifted, centre


def summarize(draws: Array, verdict: str = "") -> pd.DataFrame:
    """Median, sd, 5 % and 95 % of each parameter, one row per component in the order of their frequencies.

    Args:
        draws: (A, φ, f), (n, k, 3).
        verdict: How far the draws can be trusted, kept in the table's `attrs`.
    """
    import pandas as pd

    shifted, centre = unwrapped(draws)
    columns: dict[str, Any] = {"slot": np.arange(draws.shape[1])}
    for i, name in enumerate(PARAMETERS):
        x = shifted[..., i]
        q05, q50, q95 = np.quantile(x, [0.05, 0.5, 0.95], axis=0)
        if name == "phase":
            q05, q50, q95 = (np.mod(q + centre, 2 * np.pi) for q in (q05, q50, q95))
        columns |= {f"{name}_median": q50, f"{name}_sd": x.std(axis=0)}
        columns |= {f"{name}_q05": q05, f"{name}_q95": q95}
    frame = pd.DataFrame(columns).sort_values("frequency_median", ignore_index=True)
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="component")
    frame["verdict"] = pd.Series([verdict.partition(":")[0]] * len(frame), frame.index, dtype=str)
    frame.attrs["verdict"] = verdict
    return frame


def correlation(draws: Array) -> Array:
    """Correlations of (A₁, φ₁, f₁, A₂, …), components in the order of their frequencies.

    Args:
        draws: (A, φ, f), (n, k, 3), n >= 2.

    Returns:
        (3k, 3k).
    """
    n, k = draws.shape[:2]
    if k == 0:
        return np.zeros((0, 0))
    order = np.argsort(np.median(draws[..., 2], axis=0))
    flat = unwrapped(draws[:, order])[0].reshape(n, 3 * k)
    matrix: Array = np.corrcoef(flat, rowvar=False)
    return matrix


def dataset(post: Posterior, n: int, seed: int) -> xr.Dataset:
    """Equally weighted joint draws and p(K | x) with units; evidence and σ of each draw where they are known.

    Among the attributes, `t_ref` is the instant on the file's clock that phases refer to, in seconds, `unit` that of
    the data (empty if unknown), and `filled_samples` says how many samples were no measurements.
    """
    import xarray as xr

    from slotflow import __version__

    theta, counts = post.sample_joint(n, seed)
    unit = post.observation.long.unit or "data units"
    variables: dict[str, Any] = {
        name: (("draw", "component"), theta[..., i], {"units": units})
        for i, (name, units) in enumerate(zip(PARAMETERS, (unit, "rad", "Hz"), strict=True))
    }
    variables["phase"][2]["long_name"] = "phase at t_ref"
    variables["k"] = (("draw",), counts, {"long_name": "number of components of the draw"})
    variables["k_probs"] = (("k_value",), post.k_probs, {"long_name": "p(K | x)"})
    variables["noise_std"] = ((), post.noise_std, {"units": unit})
    attributes = {
        "method": post.method,
        "seed": seed,
        "slotflow_version": __version__,
        "verdict": post.verdict.status,
        "verdict_reason": post.verdict.reason,
        "unit": post.observation.long.unit,
        "t_ref": post.observation.t_ref,
        "filled_samples": sum(
            last - first + 1 for s in post.observation.streams for first, last in s.filled
        ),
        "description": "draws of p(K, Theta | x), equally weighted; NaN where a draw has no such component",
    }
    extra, facts = post.extra_variables(n, seed)
    coordinates = {"k_value": np.arange(post.k_probs.size)}
    return xr.Dataset(variables | extra, coords=coordinates, attrs=attributes | facts)
