"""The family network's count under the user's prior: amplitudes and distances that it was not trained with."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.core.arrays import Array
from slotflow.network.family import carried as module
from slotflow.network.family.carried import carried
from slotflow.network.family.densities import Alone
from slotflow.network.family.model import FamilySlotFlow
from slotflow.waveforms import Tone

N = 512
SIZE = math.sqrt(N)  # ρ of a complex tone of amplitude 1 in noise of |n|² = 1


def prior(weakest: float, strongest: float = 40.0, **changes: Any) -> Prior:
    """Tones of a ρ between two bounds."""
    stated: dict[str, Any] = {
        "classes": {"tone": Tone()},
        "k_min": 0,
        "k_max": 6,
        "frequency": (-60 / N, 60 / N),
        "amplitude": (weakest / SIZE, strongest / SIZE),
        "amplitude_law": "loguniform",
        "min_separation": 0.0,
        "sigma": (math.sqrt(0.5), math.sqrt(0.5)),
    }
    return Prior(**(stated | changes))


def tones(*pairs: tuple[float, float], seed: int = 0) -> Observation:
    """Complex tones, each of a ρ at a place in bins, in noise."""
    rng, t = np.random.default_rng(seed), np.arange(N)
    x = math.sqrt(0.5) * (rng.normal(size=N) + 1j * rng.normal(size=N))
    for i, (loud, place) in enumerate(pairs):
        x += loud / SIZE * np.exp(2j * np.pi * place / N * t + 1j * i)
    return Observation([Channel(x, dt=1.0, trend=-1)])


@pytest.fixture(scope="module")
def family() -> FamilySlotFlow:
    model = SlotFlow.from_pretrained("family")
    assert isinstance(model, FamilySlotFlow)
    return model


def test_the_network_s_own_law_changes_nothing(family: FamilySlotFlow) -> None:
    """Amplitudes log-uniform from 5 to 40 are what it was trained with; weaker ones it does not see."""
    observation = tones((20.0, -20.3), (14.0, 10.6))
    for weakest in (5.0, 1.0):
        slots: Any = family.answer(observation, prior(weakest)).slots
        flat = np.full(7, 1 / 7)
        flat[3:] = 0.0
        assert carried(slots, flat)[:3] == pytest.approx(flat[:3] / flat.sum(), abs=0.02)
    louder: Any = family.answer(observation, prior(5.0, 400.0)).slots  # the control
    assert carried(louder, flat)[2] < 0.2


def test_a_tone_that_the_prior_does_not_allow_is_not_counted(family: FamilySlotFlow) -> None:
    """What may be a tone of ρ = 5 counts as one, unless the prior begins at 10; the exact step agrees with both."""
    observation = tones((20.0, -20.3), (4.0, 10.6), seed=5)
    for weakest, k, least in ((5.0, 2, 0.6), (10.0, 1, 0.9)):
        stated = prior(weakest)
        post = family.answer(observation, stated)
        exact = family.infer(observation, prior=stated)
        assert post.k_map == exact.k_map == k and post.k_probs[k] > least
        draws = post.sample(200, k=k, seed=0)[..., 0]
        assert (draws >= stated.amplitude[0]).all() and (draws <= stated.amplitude[1]).all()


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
@pytest.mark.parametrize("mean", [1.0, 0.55, 0.2, 2.5])
def test_means_over_amplitudes(law: str, mean: float) -> None:
    """Against a fine sum over the prior's range, for amplitudes inside of it, at its edge and far outside."""
    stated = prior(5.0, amplitude=(0.5, 1.5), amplitude_law=law)
    amplitude = mean + 0.1 * np.random.default_rng(0).standard_normal(400)
    m, s = amplitude.mean(), amplitude.std()
    a = np.linspace(0.5, 1.5, 2_000_001)
    density: Array = np.exp(-0.5 * ((a - m) / s) ** 2) / (math.sqrt(2 * math.pi) * s)
    weight = a if law == "uniform" else np.full_like(a, 1 / math.log(3))
    expected = math.log((density * weight).mean())
    assert module._log_mean(amplitude, 0.0, stated) == pytest.approx(expected, abs=2e-3)


def test_distances_are_counted() -> None:
    """Two slots that are apart in half of the draws, in a band that leaves nine tenths of its width."""
    stated = prior(5.0, frequency=(0.0, 1.0), min_separation=0.1)
    amplitude = np.full(module.DRAWS, math.sqrt(200.0) / SIZE)
    there = np.zeros(module.DRAWS)
    beside = np.where(np.arange(module.DRAWS) % 2, 0.05, 0.5)
    slots: Any = SimpleNamespace(
        drawn_alone=lambda k, n: [Alone(amplitude, place, 0.0) for place in (there, beside)][:k]
    )
    one, two = (module._log_ratio(slots, k, stated, (5.0, 40.0)) for k in (1, 2))
    assert two - 2 * one == pytest.approx(math.log(0.5 / 0.9**2), abs=1e-9)
