"""Draws in rounds from mixtures of the same parts: evidence and draws of a flat likelihood, which are the prior's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statistics_helpers import assert_mean, assert_within
from test_importance import Flat, observe

from slotflow import Grid, Prior
from slotflow.exact.importance import Gaussian
from slotflow.exact.problem import Problem
from slotflow.exact.proposals.splits import Split
from slotflow.exact.rounds import FLOOR, Rounds

PRIOR = Prior(k_max=1, amplitude=(0.5, 1.5), frequency=(2.0, 2.4))
GOOD = Gaussian(np.array([2.2, 0.0, 0.0]), np.diag([0.15, 1.0, 1.0]) ** 2)
NARROW = Gaussian(np.array([2.05, 1.0, 0.0]), np.diag([0.02, 0.1, 0.1]) ** 2)
FAR = Gaussian(np.array([2.39, -1.2, -0.8]), np.diag([0.01, 0.05, 0.05]) ** 2)


@pytest.fixture
def target(seed: int) -> Flat:
    """One tone of which the data say nothing: the evidence is one, and draws are those of the prior."""
    return Flat(observe(np.zeros((0, 3)), 1.0, seed), PRIOR, 1)


def three_rounds(target: Flat, rng: np.random.Generator) -> Rounds:
    """A first round that wastes half of its draws, one with the shares that it tells, and one with a new part."""
    rounds = Rounds(target, [GOOD, FAR], rng)
    rounds.draw(200)
    rounds.adapt()
    rounds.draw(200)
    rounds.add([NARROW])
    rounds.adapt()
    rounds.draw(200)
    return rounds


def test_the_evidence_of_all_rounds_has_no_bias(target: Flat, seed: int) -> None:
    """Shares that the draws themselves have chosen leave the mean of Z where it is, and its error is the scatter."""
    rng = np.random.default_rng(seed)
    results = [three_rounds(target, rng).result() for _ in range(100)]
    found = np.array([r.log_evidence for r in results])
    assert all(len(r.log_weights) == 600 for r in results)
    assert_mean(np.exp(found), 1.0)
    stated = math.sqrt(np.mean([r.log_evidence_error**2 for r in results]))
    assert_within(
        found.std(), stated, 1.5 * stated / math.sqrt(200)
    )  # heavy tails scatter more than Gaussians


def test_draws_of_all_rounds_are_those_of_the_prior(target: Flat, seed: int) -> None:
    rounds = three_rounds(target, np.random.default_rng(seed))
    rounds.draw(4000)
    result = rounds.result()
    weights, amplitude = np.exp(result.log_weights), result.theta[:, 0, 0]
    mean = float((weights * amplitude).sum())
    assert_within(mean, 1.0, math.sqrt(1 / 12 / result.effective))


def test_weights_by_the_last_shares_alone_are_wrong(target: Flat, seed: int) -> None:
    """A negative control: draws of the first round do not come from the mixture of the last one."""
    rng, off = np.random.default_rng(seed), []
    for _ in range(50):
        rounds = three_rounds(target, rng)
        rounds._from = rounds._from.sum() * rounds.shares
        off.append(math.exp(rounds.result().log_evidence))
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean(off, 1.0)


def test_shares_go_to_the_part_that_fits(target: Flat, seed: int) -> None:
    rounds = Rounds.begun(target, [GOOD, NARROW, FAR], np.random.default_rng(seed))
    assert len(rounds) == 150
    assert rounds.shares.sum() == pytest.approx(1.0)
    assert rounds.shares[0] > 0.8
    assert (rounds.shares >= FLOOR / 3 / (1 + FLOOR) - 1e-12).all()
    rounds.draw(1000)
    assert rounds.share(GOOD) > 0.6
    assert rounds.share(GOOD) + rounds.share(NARROW) + rounds.share(FAR) == pytest.approx(1.0)


def test_a_single_part_needs_no_first_look(target: Flat, seed: int) -> None:
    rounds = Rounds.begun(target, [GOOD], np.random.default_rng(seed))
    assert len(rounds) == 0
    assert rounds.result().log_evidence == -math.inf
    rounds.add([])
    rounds.draw(500)
    assert_within(rounds.result().log_evidence, 0.0, rounds.result().log_evidence_error)


def test_a_part_beyond_the_prior_gives_few_draws(target: Flat, seed: int) -> None:
    outside = Gaussian(np.array([3.0, 1.0, 0.0]), np.diag([0.01, 0.1, 0.1]) ** 2)
    rounds = Rounds(target, [outside], np.random.default_rng(seed))
    rounds.draw(100, most=5)
    assert len(rounds) == 0
    assert rounds._from.sum() == 500


@pytest.mark.parametrize(("amplitude", "count"), [(1.18, 1), (0.31, 1), (0.75, 0)])
def test_a_pair_may_be_louder_than_one_tone_may(amplitude: float, count: int, seed: int) -> None:
    """Draws of one tone end at the bounds of its amplitude; a split that goes beyond them is proposed only there."""
    prior = Prior(
        k_min=1, k_max=2, amplitude=(0.3, 1.2), frequency=(2.4, 2.6), min_separation=0.0, sigma=(0.2, 2.0)
    )  # fmt: skip
    tone = np.array([[amplitude, 1.0, 2.5]])
    problem = Problem(observe(tone, 0.5, seed, (Grid(1000, 0.1),)), prior)
    problem.modes.add([np.array([2.5])])
    parts = problem.proposer.parts(problem.target(2), split=False)
    found = [part for part in parts if isinstance(part, Split)]
    assert len(found) == count
    for part in found:
        first, second = np.moveaxis(part.sample(4000, np.random.default_rng(seed))[..., 1:], 1, 0)
        total = np.hypot(*(first + second).T)
        assert ((total > 1.2) | (total < 0.3)).any()
