"""The family network's count under the user's prior: amplitudes and distances that it was not trained with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.core.arrays import Array
from slotflow.network.family import carried as module
from slotflow.network.family.alone import Alone
from slotflow.network.family.carried import carried
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
        assert carried(slots.signal, flat)[:3] == pytest.approx(flat[:3] / flat.sum(), abs=0.02)
    louder: Any = family.answer(observation, prior(5.0, 400.0)).slots  # the control
    assert carried(louder.signal, flat)[2] < 0.2


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


def alone(amplitude: float, spread: float, place: Array | None = None) -> Alone:
    """A slot in noise of |n|² = 1."""
    return Alone(amplitude, spread, 1 / SIZE, np.zeros(100) if place is None else place)


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("centre", [1.0, 0.55, 0.2, 2.5, 0.0])
def test_integrals_over_amplitudes(is_log: bool, centre: float) -> None:
    """Against a sum over the complex plane, for amplitudes inside the law's range, at its edge and far outside."""
    sd, law = 0.1, module._Law(0.5, 1.5, is_log)
    a, angle = np.linspace(0.5, 1.5, 20_001)[:, None], np.linspace(-np.pi, np.pi, 400, False)
    away = (a**2 + centre**2 - 2 * a * centre * np.cos(angle)) / (2 * sd**2)
    inner = np.logaddexp.reduce(-away, axis=1) - math.log(len(angle))
    density = -np.log(a[:, 0]) - math.log(math.log(3)) if is_log else np.zeros(len(a))
    expected = np.logaddexp.reduce(inner + density) - math.log(len(a))
    assert module._log_integral(alone(centre, sd), law) == pytest.approx(expected, abs=3e-3)


def test_a_slot_weaker_than_the_prior_allows_costs_its_likelihood() -> None:
    """ρ̂ = 2.5 where ρ is at least 8: e^−(5.5² − 2.5²), and what the laws have beside their bounds."""
    gain, spread = (5.0, 40.0), math.sqrt(0.5) / SIZE  # |noise|² = 1
    slot = alone(2.5 / SIZE, spread)
    ratio = module._log_ratio([slot], prior(8.0), gain)
    # The likelihood falls by e within 1/(2 (ρ − ρ̂)) beyond a bound; L(A) goes as A^−1/2, p(A) as 1/A.
    expected = -(5.5**2 - 2.5**2) + math.log(2.5 / 5.5) - 1.5 * math.log(8 / 5)
    expected += math.log(math.log(8) / math.log(5))
    assert ratio == pytest.approx(expected, abs=0.15)
    real = alone(20.0 / SIZE, spread)
    laws = math.log(math.log(8) / math.log(5))
    assert module._log_ratio([real], prior(8.0), gain) == pytest.approx(laws, abs=1e-3)
    assert module._log_ratio([slot, real], prior(5.0), gain) == pytest.approx(0.0, abs=1e-9)
    loud = alone(
        60.0 / SIZE, spread
    )  # beyond what the network was trained with, and counted as well
    assert abs(module._log_ratio([loud], prior(8.0, 80.0), gain)) < 0.2


def test_distances_are_counted() -> None:
    """Two slots that are apart in half of the draws, in a band that leaves nine tenths of its width."""
    stated = prior(5.0, frequency=(0.0, 1.0), min_separation=0.1)
    there = alone(1.0, 0.03)
    beside = alone(1.0, 0.03, np.where(np.arange(100) % 2, 0.05, 0.5))
    one, two = (
        module._log_ratio(slots, stated, (5.0, 40.0)) for slots in ([there], [there, beside])
    )
    assert two - 2 * one == pytest.approx(math.log(0.5 / 0.9**2), abs=1e-9)


def test_slots_are_what_the_fit_says(family: FamilySlotFlow) -> None:
    """Amplitude, its bound and that of the place, whether signals are answered alone or together."""
    observations = [tones((20.0, -20.3), (14.0, 10.6), seed=s) for s in range(3)]
    posts = family.answers(observations, [prior(5.0)] * 3)
    for observation, post in zip(observations, posts, strict=True):
        signal: Any = post.slots.signal
        single: Any = family.answer(observation, prior(5.0)).slots.signal
        every = sorted(signal.alone(2), key=lambda one: one.place.mean())
        same = sorted(single.alone(2), key=lambda one: one.place.mean())
        for one, other, loud, place in zip(every, same, (20.0, 14.0), (-20.3, 10.6), strict=True):
            sd, bound = math.sqrt(0.5) / SIZE, math.sqrt(1.5) / (math.pi * loud) / N
            assert abs(one.amplitude - loud / SIZE) < 5 * sd and one.unit * SIZE == pytest.approx(1)
            assert one.spread == pytest.approx(sd, rel=0.1)
            assert one.place.std() == pytest.approx(bound, rel=0.1)
            assert abs(one.place.mean() - place / N) < 5 * bound
            assert other.amplitude == pytest.approx(one.amplitude, rel=1e-3)


def test_together_as_alone(family: FamilySlotFlow) -> None:
    """Counts that are carried over in a batch: those of signals answered one by one."""
    observations = [tones((20.0, -20.3), (5.5, 10.6), seed=s) for s in range(6)]
    together = family.answers(observations, [prior(7.0)] * 6)
    for observation, post in zip(observations, together, strict=True):
        single = family.answer(observation, prior(7.0))
        assert single.k_probs == pytest.approx(post.k_probs, abs=5e-3)
