"""One time budget for a call: counted where it is spent, known to what is called, and kept."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from slotflow import Observation, Prior, SlotFlow
from slotflow.core.budget import Budget, time_left
from slotflow.signal.noise.background import background_of
from slotflow.signal.noise.quadrature import MOST_NODES, nodes_of
from slotflow.signal.noise.series import series_of

SECONDS = 2.0
UNIT_OF_WORK = 1.5
"""CPU seconds of the longest piece of work that is not interrupted, and of what the first call sets up."""


def test_what_is_spent_counts_and_the_first_end_is_the_one_that_is_told() -> None:
    assert time_left() == math.inf
    budget = Budget(100.0)
    with budget.running() as seconds:
        assert seconds == 100.0
        assert 99 < time_left() <= 100
        with Budget(10.0).running():
            assert 9 < time_left() <= 10
        with Budget(1000.0).running():  # an inner one cannot have more
            assert time_left() <= 100
    assert time_left() == math.inf
    assert 0 < budget.spent < 5
    budget.spent = 99.0
    with budget.running(least=0.2) as seconds:
        assert seconds == pytest.approx(20.0)
    spent = budget.spent
    time.sleep(0.01)  # outside, nothing is spent
    assert budget.spent == spent


def test_noise_is_looked_at_no_longer_than_there_is_time() -> None:
    """Lines that were found in the first round stay; a lattice keeps the point that it began with."""
    t = np.arange(2000)
    rng = np.random.default_rng(1)
    lines = sum(np.cos(2 * np.pi * f * t) / (1 + i) for i, f in enumerate((0.1, 0.1011, 0.2, 0.31)))
    series = series_of(
        Observation.from_arrays(values=lines + 0.1 * rng.standard_normal(2000), dt=1.0).long
    )
    whole = len(background_of(series, 4).lines)
    over = Budget(0.0)
    with over.running():
        found = background_of(series, 4)
        nodes = nodes_of(
            lambda x: np.array([-50.0 * float((x**2).sum())]),
            lambda x: 0.0,
            [np.zeros(2)],
            np.ones(2),
        )
    assert 0 < len(found.lines) < whole
    assert 1 <= len(nodes.points) < MOST_NODES


def growing_seasons() -> Observation:
    """Twelve years of months that grow, seasons and all: red to the end of the spectrum, with many plausible counts."""
    t, rng = np.arange(144), np.random.default_rng(2)
    season = 1 + 0.2 * np.cos(2 * np.pi * t / 12 + 3) + 0.1 * np.cos(2 * np.pi * t / 6 + 1)
    return Observation.from_arrays(
        values=110 * np.exp(0.01 * t) * season + 5 * rng.standard_normal(144), dt=1.0
    )


def one_site() -> Observation:
    """Ninety-six nights of one observatory: aliases a day apart."""
    rng = np.random.default_rng(3)
    t = np.sort(rng.choice(400, 96, replace=False) + rng.uniform(0.0, 0.25, 96))
    values = (
        np.cos(2 * np.pi * 0.37 * t)
        + 0.4 * np.cos(2 * np.pi * 0.81 * t)
        + 0.5 * rng.standard_normal(96)
    )
    return Observation.from_arrays(values=values, times=t)


@pytest.mark.parametrize("made", [growing_seasons, one_site])
def test_a_short_budget_is_kept(zoom: SlotFlow, made: object) -> None:
    assert callable(made)
    observation = made()
    began = time.process_time()
    post = zoom.infer(observation, max_seconds=SECONDS)
    assert post.verdict.reason
    assert time.process_time() - began < 1.2 * SECONDS + UNIT_OF_WORK


def test_the_classical_search_ends_with_its_budget(zoom: SlotFlow) -> None:
    t, rng = np.arange(4000), np.random.default_rng(4)
    places = np.linspace(0.201, 0.229, 8)
    values = np.cos(2 * np.pi * np.outer(t, places)).sum(1) + rng.standard_normal(4000)
    observation, prior = (
        Observation.from_arrays(values=values, dt=1.0),
        Prior(k_min=0, frequency=(0.2, 0.23), min_separation=0.001),
    )
    every = zoom.infer(observation, prior=prior, method="classical")
    assert every.k_map == 8 and "time budget" not in every.verdict.reason
    some = zoom.infer(observation, prior=prior, method="classical", max_seconds=1e-6)
    assert some.k_map < 8 and "time budget" in some.verdict.reason
