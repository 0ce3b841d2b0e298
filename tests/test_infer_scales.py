"""Bounds that a narrow band gives: a strong tone's side lobes are no noise."""

from __future__ import annotations

import numpy as np

from slotflow.data.noise_level import median_power
from slotflow.data.observation import Observation
from slotflow.infer.from_data import scales_of
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.observed import likelihood_of


def test_side_lobes_of_a_strong_tone_are_no_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 1000, 2000))
    x = rng.standard_normal(2000) + 150 * np.cos(2 * np.pi * 0.2003 * t)
    x += 0.5 * np.cos(2 * np.pi * 0.1891 * t + 1)
    band = (0.18, 0.22)
    likelihood = likelihood_of(Observation.from_arrays(values=x, times=t), None, band)
    assert isinstance(likelihood, GeneralTones)
    found = scales_of(likelihood, band)
    f = np.linspace(*band, 82)
    power = np.abs(likelihood.matched(f[None, :, None])[0, :, 0]) ** 2 / likelihood.weight_at(f)
    # a median of about 40 independent powers scatters by a fifth of itself; side lobes would give many times σ
    assert 0.5 < found.level < 1.6
    assert np.sqrt(median_power(power)) > 3
    low, high = found.amplitude()
    assert low < 0.5 and high > 150
