"""Few samples at odd times: what stands out of a band, and where a tone lies."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow import Observation
from slotflow.bands.elsewhere import place_doubt
from slotflow.bands.peeling import level_of, peeled
from slotflow.signal.fit import linear_amplitudes
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.observed import likelihood_of

BAND = (0.003, 0.45)


def nights(seed: int, tones: list[tuple[float, float]], n: int = 60) -> GeneralTones:
    """One sample in each of n nights of three seasons, with tones (A, f) in noise of σ = 1."""
    rng = np.random.default_rng(seed)
    season = np.array([day for day in range(3 * 365) if day % 365 < 230])
    t = np.sort(rng.choice(season, n, replace=False)) + rng.uniform(-0.15, 0.15, n)
    x = rng.standard_normal(n)
    for a, f in tones:
        x += a * np.cos(2 * np.pi * f * t + rng.uniform(0, 6.28))
    found = likelihood_of(Observation.from_arrays(values=x, times=t), None, BAND)
    assert isinstance(found, GeneralTones)
    return found


def fitted(likelihood: GeneralTones, places: list[float]) -> np.ndarray:
    """Tones at given frequencies with the amplitudes that fit best, (K, 3)."""
    from torch import tensor

    found: np.ndarray = linear_amplitudes(likelihood, tensor([places], dtype=float))[0].numpy()
    return found


def test_what_stands_out_is_found_one_after_the_other(seed: int) -> None:
    tones = [(3.0, 0.0853), (4.0, 0.2117)]
    likelihood = nights(seed, tones)
    found = peeled(likelihood, BAND)
    assert found.places == pytest.approx([f for _, f in tones], abs=5e-4)
    assert 0.6 < found.level < 1.4 and level_of(likelihood, BAND) > 2
    nothing = peeled(nights(seed, []), BAND)
    assert len(nothing.places) <= 1 and nothing.level == pytest.approx(1.0, abs=0.35)


def test_a_tone_at_a_side_lobe_is_doubted(seed: int) -> None:
    """Controls: the tone at its own place, and more samples than have such side lobes."""
    likelihood = nights(seed, [(3.0, 0.0853), (4.0, 0.2117)])
    right = fitted(likelihood, [0.0853, 0.2117])
    assert place_doubt(likelihood, right, 1.0, BAND) == ""
    wrong = place_doubt(likelihood, fitted(likelihood, [0.0308, 0.2117]), 1.0, BAND)
    assert "0.0308 Hz may as well lie at 0.085" in wrong
    assert place_doubt(likelihood, right[:0], 1.0, BAND) == ""
