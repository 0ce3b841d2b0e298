"""What a posterior leaves of the data."""

from __future__ import annotations

import torch

from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Likelihood

__all__ = ["best_draw", "residual"]


def best_draw(draws: Array, statistics: Likelihood) -> Array:
    """The draw with the smallest sum of squared residuals, (n, K, P) to (K, P)."""
    best = 0
    if draws.shape[1]:
        best = int(statistics.rss(torch.from_numpy(draws)[None])[0].argmin())
    chosen: Array = draws[best]
    return chosen


def residual(statistics: Likelihood, theta: Array) -> list[Array]:
    """Each stream's data minus some components, over the stream's noise ratio, (N_s,) each.

    Args:
        statistics: The likelihood of the data.
        theta: Parameters of the components, (K, P).
    """
    return statistics.residuals(statistics.to_z(theta))
