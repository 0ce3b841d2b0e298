"""Complex samples whose band is the whole circle of frequencies: a tone by one edge is one by the other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior
from slotflow.exact.modes import Modes
from slotflow.exact.search import across_orders
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.noise.model import ChannelNoise, NoiseNode

PRIOR = Prior(k_max=5, amplitude=(0.02, 2.0), frequency=(-0.5, 0.5), min_separation=0.02)
FREQUENCIES = np.array([-0.494, 0.31, 0.478])
"""The first one lies two bins from the last one, across the edge."""
SAMPLES, NOISE = 50, 0.003


def likelihood_of(values: np.ndarray, times: np.ndarray) -> GeneralTones:
    """The likelihood of one channel in white noise, without an offset."""
    observation = Observation([Channel(values, times=times, trend=-1)])
    return GeneralTones(observation, NoiseNode((ChannelNoise(),)), PRIOR.frequency)


def on_the_circle(seed: int, missing: int = 0) -> GeneralTones:
    """Three tones of any phase, some samples missing."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.permutation(SAMPLES)[missing:]).astype(np.float64)
    c = rng.uniform(0.5, 1.0, 3) * np.exp(2j * np.pi * rng.random(3))
    noise = NOISE * (rng.standard_normal(len(t)) + 1j * rng.standard_normal(len(t)))
    return likelihood_of(np.exp(2j * np.pi * np.outer(t, FREQUENCIES)) @ c + noise, t)


@pytest.mark.parametrize("missing", [0, 5])
def test_a_maximum_beyond_the_band_is_found_at_its_alias(missing: int, seed: int) -> None:
    likelihood = on_the_circle(seed, missing)
    beyond = np.array([0.3101, 0.4781, 0.5058])  # the first tone's alias
    modes = Modes(likelihood, PRIOR)
    modes.add([beyond])
    found = modes.best(3)
    assert found is not None
    np.testing.assert_allclose(found.places, FREQUENCIES, atol=1e-3)
    control = Modes(likelihood, PRIOR)
    control.add([beyond], fold=False)
    outside = control.best(3)
    assert outside is not None
    assert outside.places[-1] > 0.5
    assert outside.rss == pytest.approx(found.rss, rel=1e-6)


def test_all_tones_are_counted(seed: int) -> None:
    orders = across_orders(on_the_circle(seed), PRIOR, draws=500, rng=np.random.default_rng(seed))
    assert orders.k_map == 3
    assert orders.k_probs[3] > 0.99
    np.testing.assert_allclose(orders.fits[3][:, 2], FREQUENCIES, atol=1e-3)


def test_only_complex_samples_on_a_grid_have_aliases() -> None:
    t = np.arange(20.0)
    assert likelihood_of(np.exp(1j * t), t).period == pytest.approx(1.0)
    assert likelihood_of(np.exp(1j * np.delete(t, 7)), np.delete(t, 7)).period == pytest.approx(1.0)
    uneven = t + np.random.default_rng(0).uniform(-0.3, 0.3, 20)
    assert likelihood_of(np.exp(1j * uneven), uneven).period == math.inf
