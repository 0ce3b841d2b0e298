"""One tone of draws of K − 1 in two: against draws of the prior, in a band so narrow that no tones are resolved."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from evidence_helpers import assert_weighted_means, prior_weighted
from statistics_helpers import assert_within
from test_importance import observe
from tone_helpers import to_z

from slotflow import Grid, Prior
from slotflow.core.arrays import Array
from slotflow.exact.importance import Importance, importance_sample
from slotflow.exact.proposals.division import Division
from slotflow.exact.proposals.splits import PairTable, divided, merged
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Statistics

GRIDS = (Grid(1000, 0.1), Grid(640, 1 / 64))
PRIOR = Prior(
    k_min=1,
    k_max=3,
    amplitude=(0.3, 1.2),
    frequency=(2.496, 2.504),
    min_separation=0.0,
    sigma=(1.0, 4.0),
)
PAIR = np.array([[0.7, 1.0, 2.499], [0.8, 2.2, 2.5015]])
BRUTE = 200_000
"""Draws of the prior."""


def brute(statistics: Statistics, k: int, seed: int) -> tuple[Array, Array, float, float]:
    """Draws of the prior, their weights, ln Z and its error."""
    return prior_weighted(Target(statistics, PRIOR, k), BRUTE, seed)


def drawn(statistics: Statistics, k: int, seed: int) -> Importance:
    """The result of order k from draws of the prior."""
    theta, weights, log_z, error = brute(statistics, k, seed)
    rng = np.random.default_rng(seed)
    at = rng.choice(len(theta), 4000, p=weights)
    even = np.full(4000, -math.log(4000))
    return Importance(theta[at], np.ones(4000), even, log_z, error, 1.0, 0.0, 1.0, 0.0)


def division(statistics: Statistics, lower: Importance) -> Division:
    """Divides draws; the Gaussian is that around the best of them."""
    target = Target(statistics, PRIOR, lower.theta.shape[1])
    z = to_z(lower.theta, statistics.reference)
    mean = z[int(target.rss(z).argmin())]
    gaussian = target.gaussian(mean)
    if gaussian is None:
        gaussian = mean.ravel(), np.eye(mean.size)
    return Division(target, lower, [PairTable(target, gaussian, j) for j in range(target.k)])


@pytest.mark.parametrize("k", [2, 3])
def test_evidence_and_draws_are_those_of_the_prior_weighted(k: int, seed: int) -> None:
    statistics, rng = observe(PAIR, 3.0, seed, GRIDS), np.random.default_rng(seed)
    proposal = division(statistics, drawn(statistics, k - 1, seed + 1))
    target = Target(statistics, PRIOR, k)
    result = proposal.carried(importance_sample(target, proposal, rng, draws=8000))
    theta, weights, log_z, error = brute(statistics, k, seed)
    assert error < 0.2
    assert_within(result.log_evidence, log_z, math.hypot(error, result.log_evidence_error))
    statistic = (lambda t: t[..., 0].max(-1), lambda t: np.diff(t[..., 2]).min(-1))
    assert_weighted_means(result, theta, weights, statistic)


def test_a_density_that_is_not_normalized_is_caught(seed: int) -> None:
    """Control: if the tables hold a tenth of their mass, the evidence is off by more than its error."""
    statistics, rng = observe(PAIR, 3.0, seed, GRIDS), np.random.default_rng(seed)
    proposal = division(statistics, drawn(statistics, 1, seed + 1))
    for table in proposal.tables:
        table.log_density = table.log_density + math.log(0.1)
    result = importance_sample(Target(statistics, PRIOR, 2), proposal, rng, draws=8000)
    _, _, log_z, error = brute(statistics, 2, seed)
    with pytest.raises(AssertionError):
        assert_within(result.log_evidence, log_z, math.hypot(error, result.log_evidence_error))


def test_errors_of_the_draws_below_are_carried(seed: int) -> None:
    statistics, rng = observe(PAIR, 3.0, seed, GRIDS), np.random.default_rng(seed)
    lower = drawn(statistics, 1, seed)
    proposal = division(statistics, replace(lower, log_evidence_error=0.3))
    result = importance_sample(Target(statistics, PRIOR, 2), proposal, rng, draws=2000)
    assert proposal.carried(result).log_evidence_error > 0.3 > result.log_evidence_error


def test_division_and_merger_undo_each_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tone = rng.normal(size=(50, 3)) + np.array([100.0, 0, 0])
    inner = rng.uniform(0.01, 0.3, 50), rng.uniform(0.3, 1.2, 50), rng.uniform(-1.5, 4.5, 50)
    back, *found = merged(divided(tone, *inner))
    np.testing.assert_allclose(back, tone, atol=1e-9)
    for ours, theirs in zip(found[:2], inner[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(np.cos(found[2]), np.cos(inner[2]), atol=1e-9)


def test_tables_are_right_where_a_fit_has_far_to_move(seed: int) -> None:
    """To first order a strong dipole seems to fit as well as none; the likelihood itself says how well it does."""
    theta = np.array([[1.0, 1.0, 2.5]])
    prior = replace(PRIOR, frequency=(2.4, 2.6), amplitude=(0.3, 3.0), sigma=(0.05, 4.0))
    statistics = observe(theta, 0.3, seed, GRIDS)
    target = Target(statistics, prior, 1)
    gaussian = target.gaussian(to_z(theta, statistics.reference))
    assert gaussian is not None
    table = PairTable(target, gaussian, 0)
    rng = np.random.default_rng(seed)
    cell, *inner = table.sample(4000, rng)
    pairs = divided(gaussian[0].reshape(1, 3) + table.moved(cell)[:, 0], *inner)
    rss = Target(statistics, prior, 2).rss(pairs)
    best = target.noise.log_marginal(target.rss(gaussian[0].reshape(1, 1, 3)))[0]
    loss = best - target.noise.log_marginal(rss)
    assert np.mean(loss < 15) > 0.6
