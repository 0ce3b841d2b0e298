"""Crowds of tones that hide each other, in a record with a gap, and noise that looks like one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from slotflow import Observation, Prior
from slotflow.bands.core_draws import CoreDraws, Window
from slotflow.bands.lines import as_lines
from slotflow.bands.search import search_spectrum
from slotflow.bands.unexamined import Unexamined, searched_posterior
from slotflow.core.arrays import Array
from slotflow.signal.likelihood import likelihood_of

N, STEP, GAP = 1151, 1 / 48, 2.0
"""Samples, days between them, and days without samples in the middle."""
BAND = (0.06, 23.9)
TIMES = STEP * np.arange(N) + np.where(np.arange(N) > N // 2, GAP, 0.0)
DURATION = float(TIMES[-1])
CROWD, BINS = 50, 116
"""Tones, and bins of 1/T that they lie in."""


def crowd(seed: int) -> tuple[Array, Array]:
    """Frequencies of a crowd of tones, each 22 times the noise of its amplitude, and the series."""
    rng = np.random.default_rng(seed)
    f = 3 + rng.uniform(0, BINS, CROWD) / DURATION
    size = 22 * rng.lognormal(0, 0.25, CROWD) / np.sqrt(N / 2)
    phase = rng.uniform(0, 2 * np.pi, CROWD)
    clean = (size * np.cos(2 * np.pi * np.outer(TIMES, f) + phase)).sum(1)
    return f, clean + rng.standard_normal(N)


def found_in(series: Array) -> Array:
    """Frequencies that the search finds."""
    likelihood = likelihood_of(Observation.from_arrays(values=series, times=TIMES), None, BAND)
    return likelihood.waveform.place_of(search_spectrum(likelihood, BAND).theta)


def matched(found: Array, true: Array) -> int:
    """How many frequencies have a partner within a bin, one to one."""
    distance = np.abs(found[:, None] - true) * DURATION
    rows, columns = linear_sum_assignment(np.minimum(distance, 10.0))
    return int((distance[rows, columns] < 1).sum())


@pytest.mark.parametrize("seed", [0, 1])
def test_tones_of_a_crowd_are_found_and_few_others(seed: int) -> None:
    true, series = crowd(seed)
    found = found_in(series)
    hits = matched(found, true)
    assert hits > 0.8 * CROWD  # tones closer than half a bin are one
    assert len(found) - hits <= 1
    # Control: as many places that were not looked for have fewer partners.
    elsewhere = np.random.default_rng(seed + 5).uniform(true.min(), true.max(), len(found))
    assert matched(elsewhere, true) < hits - 5


def test_noise_between_two_frequencies_is_no_crowd() -> None:
    rng = np.random.default_rng(2)
    grid = np.fft.rfftfreq(4 * N, STEP)
    loud = np.where((grid > 3) & (grid < 3 + BINS / DURATION), np.sqrt(130), 0.0)
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal(4 * N)) * loud, 4 * N)[:N]
    assert len(found_in(noise + rng.standard_normal(N))) < 10


def test_tones_of_the_search_belong_to_the_core_of_their_fit() -> None:
    """Errors of unresolved tones reach beyond narrow cores; the number of tones stays that of the search."""
    times = np.arange(100.0)
    observation = Observation.from_arrays(values=np.ones(100), times=times)
    prior = Prior(k_min=0, frequency=(0.1, 0.2), amplitude=(0.1, 3), min_separation=0.0)
    theta = np.array([[1.0, 0.5, 0.150], [1.0, 1.5, 0.156]])
    inverse = np.diag([0.004**2, 0.01, 0.01] * 2)
    cores = [(0.1, 0.153), (0.153, 0.2)]
    windows = []
    for core in cores:
        post = searched_posterior(observation, prior, theta, inverse, Unexamined(1.0, "", 0.0))
        windows.append(Window(core, post, theta, 0.1))
    draws = CoreDraws(tuple(windows), 10, prior)
    assert draws.k_probs[2] == pytest.approx(1.0)
    places = draws.sample(500, 2, seed=0)[..., 2]
    assert (np.diff(places) >= 0).all()
    assert ((places[:, 0] > 0.153) | (places[:, 1] < 0.153)).mean() > 0.2  # both on one side
    assert places.std(0).max() < 0.0045


def test_pairs_of_a_crowd_are_no_lines() -> None:
    """Elsewhere two close tones become one line unless both amplitudes are known well."""
    rng = np.random.default_rng(4)
    f = np.array([5.0, 5.0 + 0.7 / DURATION])
    size = 12 / np.sqrt(N / 2)
    series = (size * np.cos(2 * np.pi * np.outer(TIMES, f) + [0.3, 1.9])).sum(1)
    observation = Observation.from_arrays(values=series + rng.standard_normal(N), times=TIMES)
    likelihood = likelihood_of(observation, None, BAND)
    found = search_spectrum(likelihood, BAND)
    assert len(found.theta) == 2
    assert len(as_lines(likelihood, found, BAND, np.inf).theta) == 1
    crowded = replace(found, known_level=np.ones_like(found.frequencies))
    assert len(as_lines(likelihood, crowded, BAND, np.inf).theta) == 2
