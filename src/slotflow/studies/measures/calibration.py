r"""Coverage: how often the central interval of level α holds the truth.

The level u of the truth among the draws (`tones.py`) is uniform for a calibrated posterior. The central interval of
level α holds the truth if |u − 1/2| < α/2, so

.. math:: \mathrm{coverage}(α) = \frac1N \sum_{i=1}^N \big[\, |u_i - \tfrac12| < \tfrac{α}{2} \,\big] .

Tones of one signal share its noise. The standard error therefore counts signals, not tones: with d_s the sum over the
tones of signal s of (indicator − coverage), it is (Σ_s d_s²)^{1/2} / N.

What a perfect posterior would show at the same N follows from uniform u: the counts between neighbouring levels are
multinomial.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["LEVELS", "Coverage", "coverage", "deviation_of_perfect"]

LEVELS = tuple(round(0.05 * i, 2) for i in range(2, 20))
"""α = 0.10, 0.15, …, 0.95."""


@dataclass(frozen=True, eq=False)
class Coverage:
    """Coverage of the central intervals of each parameter."""

    levels: NDArray[np.float64]
    """α, (L,)."""
    coverage: NDArray[np.float64]
    """Share of tones inside, (L, P)."""
    standard_error: NDArray[np.float64]
    """Its Monte-Carlo error, (L, P), signals independent."""
    n_tones: int
    """Tones that were counted."""

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Coverage − α, (L, P)."""
        return self.coverage - self.levels[:, None]

    def worst(self, parameter: int) -> tuple[float, float]:
        """The α at which a parameter strays furthest, and by how much (signed)."""
        column = self.deviation[:, parameter]
        at = int(np.abs(column).argmax())
        return float(self.levels[at]), float(column[at])


def coverage(level: Tensor, mask: Tensor, levels: tuple[float, ...] = LEVELS) -> Coverage:
    """Coverage of central intervals.

    Args:
        level: u of the truth, shape (n, K, P).
        mask: Which tones exist, shape (n, K), bool; at least one.
        levels: The α.

    Returns:
        The curve, (L, P).
    """
    n_tones = int(mask.sum())
    if n_tones == 0:
        raise ValueError("coverage expects at least one tone, received none; draw more signals.")
    width = 2 * (level.double() - 0.5).abs()  # the smallest α that holds the truth
    shares, errors = [], []
    for alpha in levels:
        inside = (width < alpha).double() * mask[..., None]  # (n, K, P)
        share = inside.sum((0, 1)) / n_tones  # (P,)
        excess = ((inside - share) * mask[..., None]).sum(1)  # (n, P)
        shares.append(share)
        errors.append((excess**2).sum(0).sqrt() / n_tones)
    return Coverage(
        np.asarray(levels), torch.stack(shares).numpy(), torch.stack(errors).numpy(), n_tones
    )


def deviation_of_perfect(
    n_tones: int,
    levels: tuple[float, ...] = LEVELS,
    quantile: float = 0.95,
    repeats: int = 2000,
    seed: int = 0,
) -> float:
    """Largest |coverage − α| over the levels that a calibrated posterior keeps below with a given probability.

    Args:
        n_tones: Number of tones, taken as independent.
        levels: The α, ascending.
        quantile: That probability.
        repeats: Simulated experiments.
        seed: The same seed gives the same value.
    """
    edges = np.concatenate([[0.0], levels, [1.0]])
    counts = np.random.default_rng(seed).multinomial(n_tones, np.diff(edges), size=repeats)
    shares = counts.cumsum(1)[:, :-1] / n_tones  # (repeats, L)
    return float(np.quantile(np.abs(shares - edges[1:-1]).max(1), quantile))
