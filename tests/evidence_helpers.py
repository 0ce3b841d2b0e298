"""Posteriors and evidences by brute force: draws of the prior, boxes around a maximum, what must agree with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import logsumexp
from statistics_helpers import assert_within
from tone_helpers import to_theta, to_z

from slotflow.core.arrays import Array
from slotflow.exact.importance import Importance
from slotflow.exact.target import Target

__all__ = [
    "assert_draws_as_on_grid",
    "assert_weighted_means",
    "grid_around",
    "log_integral",
    "prior_weighted",
]


def prior_weighted(target: Target, draws: int, seed: int) -> tuple[Array, Array, float, float]:
    """Draws of the prior, (draws, K, 3), their weights, ln Z and its error."""
    k, generator = target.k, torch.Generator().manual_seed(seed)
    theta = target.prior.sample_theta(torch.full((draws,), k), generator).numpy()[:, :k]
    rss = target.rss(to_z(theta, target.statistics.reference))
    log_l = target.log_likelihood(rss) - math.lgamma(k + 1)
    total = float(logsumexp(log_l))
    weights = np.exp(log_l - total)
    return theta, weights, total - math.log(draws), math.sqrt(float((weights**2).sum()))


def assert_weighted_means(
    result: Importance,
    theta: Array,
    weights: Array,
    statistics: Sequence[Callable[[Array], Array]],
) -> None:
    """Asserts that functions of components have the same mean over a result and over other weighted draws."""
    mine = np.exp(result.log_weights)
    for statistic in statistics:
        ours, theirs = statistic(result.theta), statistic(theta)
        means = float(mine @ ours), float(weights @ theirs)
        errors = [
            math.sqrt(float((w**2) @ (x - m) ** 2))
            for w, x, m in zip((mine, weights), (ours, theirs), means, strict=True)
        ]
        assert_within(means[0], means[1], 1.5 * math.hypot(*errors))


def log_integral(target: Target, axes: Sequence[Array]) -> float:
    """Logarithm of the integral of prior times likelihood of one tone over a box of (A, φ, f), by Simpson's rule."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 1, len(axes))
    rss = target.statistics.rss(torch.as_tensor(points)[None])[0].numpy()
    log_f = target.log_likelihood(rss)
    log_f += target.prior.log_prob_theta(torch.as_tensor(points)).numpy()
    cube = np.exp(log_f - log_f.max()).reshape([len(axis) for axis in axes])
    for axis in reversed(range(len(axes))):
        cube = integrate.simpson(cube, x=axes[axis], axis=axis)
    return float(log_f.max()) + math.log(float(cube))


def grid_around(target: Target, theta: Array, points: int = 41) -> tuple[Array, Array, float]:
    """Tones on a grid of (f, Re c, Im c) six standard deviations around one, their weights, and ln Z."""
    reference = target.statistics.reference
    mean, covariance = target.gaussian(to_z(theta, reference)) or (0, 0)
    assert isinstance(mean, np.ndarray) and isinstance(covariance, np.ndarray)
    spread = np.sqrt(np.diag(covariance))
    axes = [m + s * np.linspace(-6, 6, points) for m, s in zip(mean, spread, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 1, 3)
    log_p, _ = target.log_prob(grid)
    weights = np.exp(log_p - log_p.max())
    volume = math.prod(float(axis[1] - axis[0]) for axis in axes)
    log_z = math.log(weights.sum() * volume) + float(log_p.max())
    return to_theta(grid[:, 0], reference), weights / weights.sum(), log_z


def assert_draws_as_on_grid(draws: Array, n: float, theta: Array, weights: Array) -> None:
    """Asserts mean and sd of A and f of draws, (·, 3), worth n independent ones, and that other means are noticed."""
    for i in (0, 2):
        centre = weights @ theta[:, i]
        width = math.sqrt(weights @ (theta[:, i] - centre) ** 2)
        assert_within(draws[:, i].mean(), centre, width / math.sqrt(n))
        assert_within(draws[:, i].std(), width, 1.5 * width / math.sqrt(2 * n))
        with pytest.raises(AssertionError):
            assert_within(draws[:, i].mean() + 0.5 * width, centre, width / math.sqrt(n))
