"""What one tone more than the data ask for is worth, by tables and without draws: against draws that cover it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from test_importance import observe
from tone_helpers import to_z

from slotflow import Grid, Prior
from slotflow.core.arrays import Array
from slotflow.exact.importance import importance_sample
from slotflow.exact.ledger import BOUND, Ledger
from slotflow.exact.problem import Problem
from slotflow.exact.proposals.births import Births
from slotflow.exact.proposals.collapsed import bent
from slotflow.exact.proposals.division import Division
from slotflow.exact.proposals.gaussian import Mixture, Proposal
from slotflow.exact.search import across_orders
from slotflow.exact.spared import OUT_OF_REACH, bound_without_fit
from slotflow.signal.likelihood import Statistics

GRIDS = (Grid(1000, 0.1),)
TONES = np.array([[0.9, 1.0, 2.43], [1.1, 2.2, 2.57]])
ACCURACY = 2.0
"""Nats by which the tables may undervalue one tone more."""


def prior(law: str = "uniform") -> Prior:
    """Tones are strong and may be unresolved, but not closer than half a bin."""
    return Prior(
        k_min=0,
        k_max=4,
        amplitude=(0.5, 1.5),
        amplitude_law=law,
        frequency=(2.4, 2.6),
        min_separation=0.005,
        sigma=(0.1, 4.0),
    )


def examined(statistics: Statistics, law: str = "uniform") -> tuple[Problem, Ledger]:
    """A signal of two tones whose order is known, and which one is to be excluded next."""
    problem = Problem(statistics, prior(law), rng=np.random.default_rng(0))
    problem.modes.add([TONES[:, 2]])
    mode, target = problem.modes.best(2), problem.target(2)
    assert mode is not None
    gaussian = bent(target, mode.z, mode.covariance)
    assert gaussian is not None
    ledger = Ledger(problem.prior)
    ledger.keep(2, importance_sample(target, gaussian, problem.rng, draws=4000))
    return problem, ledger


def by_draws(problem: Problem, ledger: Ledger) -> tuple[float, float]:
    """ln Z of three tones, and its error, by draws of a free tone or of a divided one."""
    mode = problem.modes.best(2)
    assert mode is not None
    pairs, births = problem.proposer.pairs(mode), problem.proposer.table(mode)
    assert pairs is not None
    assert births is not None
    divided = Division(problem.target(2), ledger.results[2], pairs[1])
    parts: list[Proposal] = [divided, Births(*births, 1)]
    found = importance_sample(problem.target(3), Mixture(parts), problem.rng, draws=20_000)
    return found.log_evidence, found.log_evidence_error


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_one_tone_more_is_worth_what_draws_say(law: str, seed: int) -> None:
    problem, ledger = examined(observe(TONES, 0.42, seed, GRIDS), law)
    bound = bound_without_fit(problem, ledger, 3)
    assert bound is not None
    reference, error = by_draws(problem, ledger)
    assert error < 0.3
    assert reference < ledger.log_z[2] - OUT_OF_REACH
    assert bound > reference - ACCURACY - 4 * error


def test_a_tone_that_the_data_ask_for_is_not_excluded(seed: int) -> None:
    third = np.vstack([TONES, [[0.8, 0.3, 2.50]]])
    problem, ledger = examined(observe(third, 0.5, seed, GRIDS))
    assert bound_without_fit(problem, ledger, 3) is None


def test_a_pair_that_the_data_ask_for_is_not_excluded(seed: int) -> None:
    """Two tones at half a bin are one tone to the spectrum, and two to the evidence."""
    close = np.vstack([TONES, [[0.8, 0.3, 2.5645]]])
    problem, ledger = examined(observe(close, 0.2, seed, GRIDS))
    assert bound_without_fit(problem, ledger, 3) is None


def test_unresolved_tones_are_sampled(seed: int) -> None:
    """The tables are not trusted where tones share what they explain."""
    pair: Array = np.array([[0.9, 1.0, 2.495], [1.1, 2.2, 2.505]])
    statistics = observe(pair, 0.5, seed, GRIDS)
    problem = Problem(statistics, prior(), rng=np.random.default_rng(0))
    problem.modes.add([pair[:, 2]])
    ledger = Ledger(problem.prior)
    ledger.log_z[2] = ledger.log_z[1] = 0.0
    assert not problem.modes.found[2][0].resolved(statistics.bin)
    assert bound_without_fit(problem, ledger, 3) is None


def test_the_search_does_not_fit_what_nothing_asks_for(seed: int) -> None:
    statistics = observe(TONES, 0.5, seed, GRIDS)
    start = to_z(TONES, statistics.reference)
    orders = across_orders(statistics, prior(), starts=[statistics.to_theta(start)])
    assert orders.k_probs[2] > 0.999
    assert orders.methods[3] == BOUND
    assert len(orders.fits[3]) == 2  # the fit of two tones stands in


def test_tables_are_never_those_of_a_maximum_that_is_gone(seed: int) -> None:
    """A maximum that was dropped may leave its place in memory to another one."""
    problem, _ = examined(observe(TONES, 0.5, seed, GRIDS))
    first = problem.modes.found.pop(2)[0]
    problem.proposer.pairs(first), problem.proposer.table(first)
    kept = weakref.ref(first)
    del first
    gc.collect()
    assert kept() is not None
