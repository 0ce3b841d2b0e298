"""The search over a whole spectrum: every visible tone, no invented one, at any times and in noise of any colour."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from slotflow.bands.floor import local_floor
from slotflow.bands.found import FoundTones
from slotflow.bands.lines import as_lines
from slotflow.bands.search import FALSE_ALARM, search_spectrum
from slotflow.data.observation import Observation
from slotflow.signal.likelihood import likelihood_of


def found_in(obs: Observation, lowest: float = 1.5) -> FoundTones:
    """The tones of everything that an observation can show."""
    duration = obs.long.duration
    band = (lowest / duration, obs.long.nyquist - 1 / duration)
    return search_spectrum(likelihood_of(obs, None, band), band)


def tones(t: np.ndarray, f: np.ndarray, a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A sum of tones with random phases."""
    total = np.zeros(len(t))
    for place, size in zip(f, a, strict=True):
        total += size * np.cos(2 * np.pi * place * t + rng.uniform(0, 6.28))
    return total


def matched(found: FoundTones, f: np.ndarray, bins: float) -> tuple[int, int]:
    """How many true frequencies were found within half a bin, and how many found ones are no true one."""
    distance = np.abs(found.theta[:, 2][:, None] - f) / bins
    return int((distance.min(0, initial=np.inf) < 0.5).sum()), int(
        (distance.min(1, initial=np.inf) > 1).sum()
    )


def test_a_hundred_tones(seed: int) -> None:
    """Amplitudes over a factor of 100; the weakest stands 13 standard errors high."""
    rng, n, dt = np.random.default_rng(seed), 8000, 0.1
    places = np.sort(rng.uniform(0, 3800 - 5 * 100, 100)) + 5 * np.arange(100) + 20
    f, a = places / (n * dt), np.exp(rng.uniform(np.log(0.2), np.log(20), 100))
    x = tones(dt * np.arange(n), f, a, rng) + rng.standard_normal(n)
    found = found_in(Observation.from_arrays(x, dt), lowest=20)
    assert matched(found, f, 1 / (n * dt)) == (100, 0) and found.complete
    error = np.sort(found.theta[:, 2]) - f
    pulls = error * n * dt * a * np.pi * np.sqrt(n / 6)  # sd of f: √6 σ/(π A T √N)
    assert abs((pulls**2).mean() - 1) < 4.5 * np.sqrt(2 / 100)


def test_any_times_with_an_offset_and_gaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 100, 3000))
    t = t[(t < 40) | (t > 52)]
    f, a = np.array([0.31, 0.9, 2.5, 2.56, 4.4, 7.7]), np.array([8.0, 1, 2, 0.5, 0.4, 3])
    x = tones(t, f, a, rng) + rng.standard_normal(t.size) + 1000
    found = found_in(Observation.from_arrays(values=x, times=t))
    assert matched(found, f, 0.01) == (6, 0)


def test_complex_samples_have_negative_frequencies(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 600
    t = 0.1 * np.arange(n)
    z = np.exp(-2j * np.pi * 3.1 * t) + 0.5 * np.exp(2j * np.pi * 1.2 * t)
    z = z + 0.5 * (rng.standard_normal(n) + 1j * rng.standard_normal(n))
    band = (-4.9, 4.9)
    obs = Observation.from_arrays(values=z, dt=0.1)
    found = search_spectrum(likelihood_of(obs, None, band), band)
    assert found.theta[:, 2] == pytest.approx([-3.1, 1.2], abs=0.005)
    assert found.theta[:, 0] == pytest.approx([1, 0.5], abs=0.15)


@pytest.mark.parametrize("colour", ["white", "red", "walk"])
def test_noise_of_any_colour_has_no_tones(colour: str, seed: int) -> None:
    """False alarms over the whole spectrum at the stated rate or below it; tones are still found."""
    rng, n, size = np.random.default_rng(seed), 800, 40

    def noise() -> np.ndarray:
        white = rng.standard_normal(n + 100)
        if colour == "red":
            white = lfilter([1.0], [1.0, -0.9], white)
        elif colour == "walk":
            white = np.cumsum(white) + 3 * rng.standard_normal(n + 100)
        return np.asarray(white[100:])

    alarms = sum(
        len(found_in(Observation.from_arrays(noise(), 0.1), 20).theta) > 0 for _ in range(size)
    )
    expected = FALSE_ALARM * size
    assert alarms < expected + 4.5 * np.sqrt(expected) + 1
    x = noise() + 2 * np.cos(2 * np.pi * 2.9 * 0.1 * np.arange(n))  # the control: a tone
    found = found_in(Observation.from_arrays(x, 0.1), 20)
    assert np.abs(found.theta[:, 2] - 2.9).min() < 0.005


def test_the_smallest_amplitude_is_the_smallest_that_is_found(seed: int) -> None:
    rng, n, dt = np.random.default_rng(seed), 2000, 0.1
    noise = rng.standard_normal(n)
    limit = found_in(Observation.from_arrays(noise, dt), 20).smallest_amplitude(2.0, 3.0)
    seen = []
    for share in (0.6, 1.4):
        hits = 0
        for f in rng.uniform(2, 3, 12):
            x = rng.standard_normal(n) + share * limit * np.cos(2 * np.pi * f * dt * np.arange(n))
            hits += matched(
                found_in(Observation.from_arrays(x, dt), 20), np.array([f]), 1 / n / dt
            )[0]
        seen.append(hits)
    assert seen[0] <= 3 and seen[1] >= 9


def test_the_floor_follows_the_noise(seed: int) -> None:
    """Exponential power around a steep floor with a few tones in it: the level is right within a factor of 1.8."""
    bins = np.arange(1.5, 800, 0.25)
    truth = 1 + (30 / bins) ** 2
    power = truth * np.random.default_rng(seed).exponential(size=bins.size)
    power[[400, 1000, 2000]] = 1e6
    floor = local_floor(power, bins, 1.0, np.zeros(0), 0.01)
    assert np.abs(np.log(floor.level / truth)).max() < 0.6
    assert (power > floor.visible).sum() == 3


def test_time_runs_out(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 2000
    x = tones(0.1 * np.arange(n), np.linspace(0.5, 4.5, 40), np.geomspace(0.5, 50, 40), rng)
    obs = Observation.from_arrays(x + rng.standard_normal(n), 0.1)
    band = (0.2, 4.9)
    found = search_spectrum(likelihood_of(obs, None, band), band, max_seconds=0.0)
    assert not found.complete
    assert np.abs(found.theta[:, 2] - 4.5).min() < 0.005  # the strongest tone comes first


def test_tones_that_hide_each_other_are_found(seed: int) -> None:
    """60 tones in 100 bins, a bin apart or more, 20 to 60 standard errors high: no peak stands out of a local floor."""
    rng, n, right = np.random.default_rng(seed), 1200, 0
    for _ in range(2):
        f = (np.sort(rng.uniform(0, 40, 60)) + np.arange(60) + 150) / (0.1 * n)
        x = tones(0.1 * np.arange(n), f, rng.uniform(20, 60, 60) * np.sqrt(2 / n), rng)
        found = found_in(Observation.from_arrays(x + rng.standard_normal(n), 0.1))
        hits, wrong = matched(found, f, 10 / n)
        assert wrong <= 1 and len(found.theta) <= 63 and found.complete
        right += hits
    assert right >= 104


def test_a_broad_hump_of_noise_is_no_crowd(seed: int) -> None:
    """The control: as much power in as many bins, of noise; as a crowd it would be taken for some fifty tones."""
    rng, n = np.random.default_rng(seed), 1200
    hump = 15 * np.exp(-0.5 * ((np.arange(n // 2 + 1) - 200) / 30) ** 2)
    for _ in range(4):
        shape = hump * (rng.standard_normal(hump.size) + 1j * rng.standard_normal(hump.size))
        x = np.fft.irfft(shape, n) * np.sqrt(n / 2) + rng.standard_normal(n)
        found = found_in(Observation.from_arrays(x, 0.1))
        assert len(found.theta) < 20 and found.noise_level(1.6, 1.7) > 4


def test_two_close_tones_are_not_described_by_three(seed: int) -> None:
    """Pairs half a bin apart, far from each other: after pruning there are two tones at each place, or one."""
    rng, n = np.random.default_rng(seed), 4000
    centres = np.arange(200, 1800, 160) / (0.1 * n)
    f = np.sort(np.concatenate([centres, centres + 0.5 / (0.1 * n)]))
    a = np.full(len(f), 60 * np.sqrt(2 / n))
    x = tones(0.1 * np.arange(n), f, a, rng) + rng.standard_normal(n)
    found = found_in(Observation.from_arrays(x, 0.1))
    at = np.abs(found.theta[:, 2][:, None] - centres).argmin(1)
    assert np.bincount(at, minlength=len(centres)).max() <= 2
    assert len(found.theta) >= 1.5 * len(centres)


def test_a_modulated_line_is_no_pair(seed: int) -> None:
    """A line whose amplitude grows is found as close tones that cancel, and is one line; two bins apart are two."""
    rng, n, dt = np.random.default_rng(seed), 3000, 0.1
    t, width = dt * np.arange(n), 1 / (n * dt)
    grows = (1 + 0.4 * (2 * t / t[-1] - 1)) * np.cos(2 * np.pi * 1.3 * t)
    red = lfilter([1.0], [1.0, -0.9], rng.standard_normal(n + 100))[100:]
    x = 2.5 * grows + tones(t, np.array([2.0, 2.0 + 2 * width]), np.array([2.0, 2.0]), rng) + red
    band = (1.0, 4.0)
    likelihood = likelihood_of(Observation.from_arrays(x, dt), None, band)
    found = search_spectrum(likelihood, band)
    lines = as_lines(likelihood, found, band, math.inf)
    assert np.diff(found.theta[:, 2]).min() < 0.75 * width  # the control: the search alone
    place = lines.theta[:, 2]
    assert np.diff(place).min() > 0.6 * width and len(lines.significance) == len(place)
    main = int(np.abs(place - 1.3).argmin())
    assert lines.theta[main, 0] == pytest.approx(2.5, rel=0.15)
    assert ((place > 1.99) & (place < 2.02)).sum() == 2
