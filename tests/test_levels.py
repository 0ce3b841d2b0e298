"""Slow tones, offsets and trends: what each passes for, and that tones are found beside them."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow.bands.level import Levels
from slotflow.bands.search import search_spectrum
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.slow_tone import is_slow_tone
from slotflow.exact.batch.answers import suits_batches
from slotflow.exact.slow_noise import slow_noise_doubt
from slotflow.infer.offsets import wanted_order
from slotflow.network.model import SlotFlow
from slotflow.signal.likelihood import likelihood_of
from slotflow.signal.prior import Prior

N, T = 2000, 100.0
TIMES = np.arange(N) * T / N


def tones(cycles: list[float], rng: np.random.Generator, times: np.ndarray = TIMES) -> np.ndarray:
    """A sum of tones of about one unit with so many cycles in the record."""
    phases = 2 * np.pi * np.outer(np.array(cycles) / T, times) + rng.uniform(
        0, 6.28, (len(cycles), 1)
    )
    total: np.ndarray = (rng.uniform(0.6, 1.4, (len(cycles), 1)) * np.cos(phases)).sum(0)
    return total


def everything(observation: Observation) -> tuple[float, float]:
    """All frequencies that the record shows."""
    return 1.5 / T, observation.long.nyquist - 0.5 / T


def test_the_level_is_that_of_what_the_tones_leave(seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = np.array([[1.0, 0.4, 1.7 / T], [0.7, 2.0, 13.3 / T]])
    model = sum(a * np.cos(2 * np.pi * f * TIMES + phase) for a, phase, f in theta)
    rest = 3.0 + 0.1 * rng.standard_normal(N)
    for trend in (0, 1):
        obs = Observation(Channel(model + rest, T / N, trend=trend))
        left = Levels(obs, everything(obs), theta).data.long.values - model
        assert left.mean() == pytest.approx(0.0, abs=1e-12)
        assert left == pytest.approx(rest - rest.mean(), abs=0.02 if trend else 1e-12)
    untouched = Observation(Channel(model + rest, T / N, trend=-1))
    assert Levels(untouched, everything(obs), theta).data.long.values == pytest.approx(model + rest)


def test_strong_tones_in_little_noise_are_found_without_false_ones(seed: int) -> None:
    """Of two series the shorter one holds few cycles: its mean is not its offset."""
    rng = np.random.default_rng(seed)
    cycles = [101.3, 160.8, 333.1, 420.6]
    short = TIMES[:1900] / 19  # 5 s
    obs = Observation(
        Channel(tones(cycles, np.random.default_rng(1)) + 1e-4 * rng.standard_normal(N), T / N),
        Channel(
            tones(cycles, np.random.default_rng(1), short) + 1e-4 * rng.standard_normal(1900),
            T / N / 19,
        ),
    )
    band = (90 / T, 440 / T)
    levels = Levels(obs, band)
    found = search_spectrum(levels.likelihood, band, levels=levels)
    assert found.theta[:, 2] * T == pytest.approx(cycles, abs=1e-3)
    fixed = search_spectrum(levels.likelihood, band)  # the mean stays what it was
    assert len(fixed.theta) > len(cycles)


@pytest.mark.parametrize("noise", [1.0, 1e-3])
def test_a_tone_of_few_cycles_is_no_trend(seed: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    white = noise * rng.standard_normal(N)
    u = TIMES / T
    for cycles in (1.5, 1.9, 2.3, 2.8):
        wave = tones([cycles, 5.2, 140.0], rng)
        assert is_slow_tone(Channel(wave + white, T / N), noise)
        assert wanted_order(Channel(wave + white, T / N)) == 0
    for rise in (3 * u, 3 * u + 2 * u**2, 4 * u + tones([5.2, 140.0], rng)):
        assert not is_slow_tone(Channel(rise + white, T / N), noise)
        assert wanted_order(Channel(rise + white, T / N)) >= 1
    both = Channel(4 * u + tones([2.3], rng) + white, T / N)
    assert wanted_order(both) >= 1


@pytest.mark.parametrize("noise", [1.0, 0.01])
@pytest.mark.parametrize("cycles", [[1.8], [2.4, 4.7, 7.2, 30.1], [1.9, 5.1, 160.0, 330.0]])
def test_slow_tones_are_found_where_nothing_is_stated(
    zoom: SlotFlow, seed: int, cycles: list[float], noise: float
) -> None:
    rng = np.random.default_rng(seed)
    x = 0.3 + tones(cycles, rng) + noise * rng.standard_normal(N)
    post = zoom.infer(Observation.from_arrays(x, T / N))
    assert post.k_map == len(cycles)
    assert post.verdict.status == "exact"
    summary = post.summary()
    pulls = (summary["frequency_median"] - np.array(cycles) / T) / summary["frequency_sd"]
    assert np.abs(pulls).max() < 4.5


@pytest.mark.parametrize("ratio", [1e-3, 1e-5])
def test_a_weak_tone_five_bins_from_a_strong_one(zoom: SlotFlow, seed: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    f = np.array([500.3, 505.4, 900.7]) / 3000
    a = np.array([1.0, ratio, ratio])
    x = (a[:, None] * np.cos(2 * np.pi * np.outer(f, np.arange(3000)) + 1)).sum(0)
    post = zoom.infer(Observation.from_arrays(x + 5 * ratio * rng.standard_normal(3000), 1.0))
    assert post.k_map == 3
    assert post.verdict.status == "exact"
    assert post.summary()["frequency_median"].to_numpy() == pytest.approx(f, abs=5e-5)


def test_slow_noise_is_not_called_a_tone_with_certainty(seed: int) -> None:
    """A tone that is no stronger than the lowest bins of weak slow noise is in doubt, a strong one is not."""
    rng = np.random.default_rng(seed)
    white, prior = rng.standard_normal(N), Prior(k_min=0, frequency=(1.5 / T, 1.4))
    told = []
    for amplitude in (0.2, 0.4, 1.0):
        theta = np.array([[amplitude, 1.0, 2.0 / T]])
        obs = Observation(Channel(amplitude * np.cos(2 * np.pi * 2 / T * TIMES + 1) + white, T / N))
        likelihood = likelihood_of(obs, None, prior.frequency)
        told.append(slow_noise_doubt(likelihood, theta, prior))
    assert "2.0 cycles" in told[0]
    assert told[2] == ""
    fast = np.array([[0.2, 1.0, 9.0 / T]])
    obs = Observation(Channel(0.2 * np.cos(2 * np.pi * 9 / T * TIMES + 1) + white, T / N))
    assert slow_noise_doubt(likelihood_of(obs, None, prior.frequency), fast, prior) == ""


def test_bands_in_which_slow_noise_is_asked_about_are_not_for_batches() -> None:
    for first, batches in ((1.5, False), (2.9, False), (3.1, True)):
        prior = Prior(frequency=(first / T, 1.4), min_separation=3 / T)
        assert suits_batches(prior, 1 / T) is batches


def test_fits_that_run_out_of_the_band_do_not_end_an_analysis(zoom: SlotFlow) -> None:
    """A strong tone just below the band: pairs are fitted to what it leaks, and one of them would leave for good."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        cycles = np.array([2.3, 4.6, 7.1, 30.0]) + rng.uniform(0, 1)
        a, phase = rng.uniform(0.5, 1.5, 4), rng.uniform(0, 6.28, 4)
        noise = rng.standard_normal(N)
    x = (a[:, None] * np.cos(2 * np.pi * np.outer(cycles / T, TIMES) + phase[:, None])).sum(0)
    obs = Observation.from_arrays(x + 0.1 * noise, T / N)
    post = zoom.infer(obs, prior={"frequency": (0.03, 1.51)}, max_seconds=5)
    assert np.isfinite(post.sample(100)).all()
