"""Side lobes of the sampling in the posterior: a tone of nightly samples may be a cycle per day away."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slotflow import Observation, Prior
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.modes import Modes
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Statistics, likelihood_of

PRIOR = Prior(
    frequency=(0.5, 4.5),
    amplitude=(0.1, 2.0),
    sigma=(0.1, 3.0),
    k_min=0,
    k_max=2,
    min_separation=0.0,
)
PLACE = 2.37
NIGHTS = np.array([-1.0, 0.0, 1.0])


def nightly(seed: int, amplitude: float = 0.42) -> Observation:
    """A tone in samples of 25 nights, of 0.3 days each."""
    rng = np.random.default_rng(seed)
    t = np.sort(np.concatenate([night + rng.uniform(0, 0.3, 12) for night in range(25)]))
    tone = amplitude * np.cos(2 * math.pi * PLACE * t + 1)
    return Observation.from_arrays(values=tone + rng.standard_normal(len(t)), times=t)


@pytest.mark.parametrize("seed", [3, 4])
def test_probabilities_of_aliases_agree_with_a_sum_over_everything(seed: int):
    likelihood = likelihood_of(nightly(seed), None, PRIOR.frequency)
    found = across_orders(likelihood, PRIOR, rng=np.random.default_rng(0)).results[1]
    weights, f = np.exp(found.log_weights), likelihood.waveform.place_of(found.theta)[:, 0]
    ours = np.array([weights[np.abs(f - PLACE - shift) < 0.1].sum() for shift in NIGHTS])

    grid = np.arange(0.5, 4.5, 0.004)
    amplitude, phase = np.linspace(0.1, 2.0, 40), 2 * math.pi * np.arange(24) / 24
    a, b = (x.ravel() for x in np.meshgrid(amplitude, phase))
    target, mass = Target(likelihood, PRIOR, 1), np.zeros(len(grid))
    for i, place in enumerate(grid):
        theta = np.stack([a, b, np.full_like(a, place)], -1)[:, None]
        rss = target.rss(likelihood.to_z(theta))
        mass[i] = float(log_sum_exp(target.log_likelihood(rss)))
    mass = np.exp(mass - log_sum_exp(mass))
    exact = np.array([mass[np.abs(grid - PLACE - shift) < 0.1].sum() for shift in NIGHTS])
    assert exact[1] < 0.95  # there is something to be found elsewhere
    error = np.sqrt(exact * (1 - exact) / found.effective)
    assert (np.abs(ours - exact) < 4 * error + 0.01).all()


def test_side_lobes_are_those_of_nights_and_even_series_have_none():
    modes = Modes(likelihood_of(nightly(0), None, PRIOR.frequency), PRIOR)
    distance, height = modes._side_lobes[0]
    assert distance == pytest.approx(1.0, abs=0.01)
    assert 0.5 < height < 1
    even = Observation.from_arrays(values=np.random.default_rng(0).standard_normal(300), dt=0.1)
    assert Modes(Statistics.from_observation(even), PRIOR)._side_lobes == []


def test_a_strong_tone_has_no_alias():
    likelihood = likelihood_of(nightly(1, amplitude=5.0), None, PRIOR.frequency)
    modes = Modes(likelihood, PRIOR)
    modes.add([np.array([PLACE])])
    before = len(modes.found[1])
    modes.aliases(1)
    assert len(modes.found[1]) == before == 1
