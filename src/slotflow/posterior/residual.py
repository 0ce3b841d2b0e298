"""What a posterior leaves of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["best_draw", "residual"]

Array = NDArray[np.float64]

DRAWS = 2000
"""Draws among which the best is chosen."""


def best_draw(post: Posterior) -> Array:
    """The draw of the most probable K with the smallest sum of squared residuals, (K, 3)."""
    import torch

    from slotflow.signal.likelihood import Statistics

    draws = post.sample(DRAWS)
    best = 0
    if post.k_map:
        statistics = Statistics.from_observation(_data(post).observation)
        best = int(statistics.rss(torch.from_numpy(draws)[None])[0].argmin())
    chosen: Array = draws[best]
    return chosen


def residual(post: Posterior, theta: Array) -> list[Array]:
    """Each stream's data minus tones, over the stream's noise ratio, (N_s,) each.

    Args:
        post: The posterior, with its data.
        theta: The tones (A, φ, f), (K, 3).
    """
    from slotflow.signal.likelihood import Statistics
    from slotflow.signal.target import residuals, to_z

    statistics = Statistics.from_observation(_data(post).observation)
    return residuals(statistics, to_z(theta, statistics.reference))


def _data(post: Posterior) -> Posterior:
    """The posterior itself, refused without data."""
    if not post.has_data:
        raise ValueError(
            "expected a posterior that holds its data, received one of a file without them; read the data and "
            "set post.observation."
        )
    return post
