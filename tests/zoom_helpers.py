"""Tones in noise for the default model, and the comparison of its answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tone_helpers import phase_error
from torch import Tensor

from slotflow import Grid, Observation, Posterior, Prior, Stream
from slotflow.signal.simulation import tones

__all__ = ["CROWD", "FREE", "TWO", "assert_same_answer", "moments", "observe", "spread", "white"]

TWO = torch.tensor([[[1.0, 1.0, 2.62], [0.8, 4.0, 2.81]]], dtype=torch.float64)
"""Two resolved tones."""
CROWD = torch.tensor(
    [[[1.0, 1.0, 2.62], [0.8, 4.0, 2.63], [0.6, 2.0, 2.71], [1.4, 6.0, 2.7145], [0.5, 3.0, 2.95]]],
    dtype=torch.float64,
)
"""Five tones, two pairs of them close."""
FREE = Prior(k_min=0, min_separation=0.0, sigma=(0.1, 2.0))


def white(grid: Grid, seed: int) -> NDArray[np.float64]:
    """Standard normal noise on a grid, (N,)."""
    return np.random.default_rng(seed).standard_normal(grid.n)


def observe(
    theta: Tensor, long: Grid, short: Grid | None, sigma: float, seed: int, scale: float = 1.0
) -> Observation:
    """Tones (1, K, 3) in noise, times a scale, in float64."""
    streams = []
    for i, grid in enumerate((long, short)):
        if grid is not None:
            x = tones(theta, grid)[0].double().numpy() + sigma * white(grid, seed + i)
            streams.append(Stream(scale * x, grid.dt, grid.t0))
    return Observation(*streams)


def moments(post: Posterior, k: int, n: int = 1500) -> tuple[NDArray[Any], NDArray[Any]]:
    """Median and standard deviation of (A, φ, f) of each slot, (k, 3) each; phases around their circular mean."""
    draws = post.sample(n, k=k, seed=1)
    centre = np.angle(np.exp(1j * draws[..., 1]).mean(0))
    draws[..., 1] = phase_error(draws[..., 1] - centre)
    middle = np.median(draws, axis=0)
    middle[:, 1] += centre
    return middle, draws.std(axis=0)


def assert_same_answer(
    a: Posterior, b: Posterior, k: int, change: Any = None, tolerance: float = 0.01
) -> None:
    """Posterior b is what `change` makes of a: centres in units of the sd, log sd, and q(K).

    Args:
        a: A posterior.
        b: That of the transformed data.
        k: Number of tones to compare.
        change: Takes medians and sds of a, (k, 3) each, to those expected of b.
        tolerance: Largest difference of centres in sds, of the log of the sds, and of the probabilities.
    """
    (centre_a, sd_a), (centre_b, sd_b) = moments(a, k), moments(b, k)
    if change is not None:
        centre_a, sd_a = change(centre_a, sd_a)
    error = centre_b - centre_a
    error[:, 1] = phase_error(error[:, 1])
    assert np.abs(error / sd_a).max() < tolerance
    assert np.abs(np.log(sd_b / sd_a)).max() < tolerance
    np.testing.assert_allclose(b.k_probs, a.k_probs, atol=tolerance)


def spread(draws: Tensor) -> Tensor:
    """Standard deviations of draws (B, n, K, 3), those of phases around their circular mean, (B, K, 3)."""
    draws = draws.clone()
    centre = (
        torch.polar(torch.ones_like(draws[..., 1]), draws[..., 1]).mean(1, keepdim=True).angle()
    )
    draws[..., 1] = torch.remainder(draws[..., 1] - centre + math.pi, 2 * math.pi) - math.pi
    return draws.std(1)
