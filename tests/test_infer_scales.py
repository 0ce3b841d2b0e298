"""Bounds that a narrow band gives: a strong tone's side lobes are no noise."""

from __future__ import annotations

import numpy as np

from slotflow import Prior, SlotFlow
from slotflow.data.noise_level import median_power
from slotflow.data.observation import Observation
from slotflow.infer.from_data import rough_level, scales_of
from slotflow.infer.look import look_at
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


def few(seed: int, n: int, tones: list[tuple[float, float]]) -> Observation:
    """A few samples of tones (A, f) at random times of 100 s, in noise of σ = 1."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 100, n))
    x = rng.standard_normal(n)
    for a, f in tones:
        x += a * np.cos(2 * np.pi * f * t + rng.uniform(0, 6.28))
    return Observation.from_arrays(values=x, times=t)


def test_tones_at_random_times_are_no_noise(seed: int) -> None:
    """The side lobes of each are the floor of the others, so that the search alone finds none."""
    tones, band = [(2.5, 0.09), (3.0, 0.21), (3.5, 0.33)], (0.015, 0.5)
    levels = []
    for i in range(6):
        likelihood = likelihood_of(few(seed + i, 80, tones), None, band)
        assert isinstance(likelihood, GeneralTones)
        found = scales_of(likelihood, band)
        levels.append(found.level)
        assert len(found.places) >= 3 and found.amplitude()[0] < 2.5
        assert rough_level(likelihood, band) > 2  # the control: the median, tones and all
    assert 0.7 < np.mean(levels) < 1.2  # scatter of each: a tenth, for 80 samples


def test_a_few_dozen_samples_are_no_crowd_of_tones(zoom: SlotFlow, seed: int) -> None:
    """BIC alone would begin with ten tones, which have no draws, and nothing would be left of the time."""
    for n, tones in ((35, [(2.5, 0.056)]), (60, [(1.85, 0.17), (3.85, 0.252)])):
        post = zoom.infer(few(seed, n, tones), prior={"band": (0.015, 0.5)})
        assert post.k_map == len(tones)
        assert len(post.orders.methods) > 2 and post.orders.methods[len(tones)] == "importance"
        place = np.sort(post.best_fit()[:, 2])
        assert np.abs(place - [f for _, f in tones]).max() < 0.2 / 100


def quiet(seed: int, line: float = 0.0) -> Observation:
    """A tone by the lower edge of the band, a thousand times the noise of a sample; perhaps a line at 2.4 Hz."""
    t = 0.1 * np.arange(3000)
    x = 1.4 * np.cos(2 * np.pi * 2.50437 * t + 0.5) + np.cos(2 * np.pi * 2.8 * t)
    x += 1e-3 * np.random.default_rng(seed).standard_normal(3000)
    return Observation.from_arrays(x + line * np.cos(2 * np.pi * 2.4 * t), dt=0.1)


def test_leakage_of_tones_in_the_band_is_no_line_outside(seed: int) -> None:
    band = Prior().frequency
    assert len(look_at(quiet(seed).long).peaks) > 0
    assert len(look_at(quiet(seed).long).peaks_outside(band)) == 0
    assert 720 in look_at(quiet(seed, line=0.01).long).peaks_outside(band)


def test_tones_without_noise_under_local_noise(zoom: SlotFlow, seed: int) -> None:
    """RSS is rounding there, of either sign: an answer all the same."""
    post = zoom.infer(quiet(seed), prior=Prior(), noise="white", max_seconds=5)
    assert post.k_map == 2 and post.verdict.status == "exact"
    local = zoom.infer(quiet(seed), prior=Prior(), noise="local", max_seconds=1)
    assert local.k_map == 2
