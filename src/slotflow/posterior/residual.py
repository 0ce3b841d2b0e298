"""What a posterior leaves of the data."""

from __future__ import annotations

import torch

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.signal.likelihood import Statistics

__all__ = ["best_draw", "residual"]


def best_draw(draws: Array, observation: Observation) -> Array:
    """The draw with the smallest sum of squared residuals, (n, K, P) to (K, P)."""
    best = 0
    if draws.shape[1]:
        statistics = Statistics.from_observation(observation)
        best = int(statistics.rss(torch.from_numpy(draws)[None])[0].argmin())
    chosen: Array = draws[best]
    return chosen


def residual(observation: Observation, theta: Array) -> list[Array]:
    """Each stream's data minus some components, over the stream's noise ratio, (N_s,) each.

    Args:
        observation: The data.
        theta: Parameters of the components, (K, P).
    """
    statistics = Statistics.from_observation(observation)
    return statistics.residuals(statistics.to_z(theta))
