"""Crowds of tones that hide each other, in a record with a gap, and noise that looks like one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from slotflow import Observation, Prior
from slotflow.bands.core_draws import CoreDraws, Window
from slotflow.bands.fisher import held, joint_covariance
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


def test_pairs_of_a_crowd_or_over_a_quiet_floor_are_no_lines() -> None:
    """Elsewhere two close tones become one line unless both amplitudes are known well."""
    rng = np.random.default_rng(4)
    f = np.array([5.0, 5.0 + 0.7 / DURATION])
    size = 12 / np.sqrt(N / 2)
    series = (size * np.cos(2 * np.pi * np.outer(TIMES, f) + [0.3, 1.9])).sum(1)
    observation = Observation.from_arrays(values=series + rng.standard_normal(N), times=TIMES)
    likelihood = likelihood_of(observation, None, BAND)
    found = search_spectrum(likelihood, BAND)
    assert len(found.theta) == 2
    assert len(as_lines(likelihood, found, BAND, np.inf).theta) == 2  # as quiet as everywhere
    beside = np.abs(found.frequencies - 5.0) < 20 / DURATION
    raised = replace(found, level=np.where(beside, found.level, found.level / 3))
    assert len(as_lines(likelihood, raised, BAND, np.inf).theta) == 1
    crowded = replace(raised, known_level=np.ones_like(found.frequencies))
    assert len(as_lines(likelihood, crowded, BAND, np.inf).theta) == 2


def test_a_strong_line_over_a_quiet_floor_has_a_foot() -> None:
    """A modulation by a few percent shows as a close pair, which is one line."""
    rng = np.random.default_rng(6)
    grows = 1 + 0.05 * (2 * TIMES / DURATION - 1)
    series = 600 / np.sqrt(N / 2) * grows * np.cos(2 * np.pi * 5.0 * TIMES + 0.3)
    observation = Observation.from_arrays(values=series + rng.standard_normal(N), times=TIMES)
    likelihood = likelihood_of(observation, None, BAND)
    found = search_spectrum(likelihood, BAND)
    gaps = np.diff(likelihood.waveform.place_of(found.theta)) * DURATION
    assert gaps.min() < 1.25  # the control: the search alone
    lines = likelihood.waveform.place_of(as_lines(likelihood, found, BAND, np.inf).theta)
    assert (np.diff(lines) * DURATION > 0.9).all()
    assert np.abs(lines - 5.0).min() < 0.01 / DURATION


def test_errors_of_unresolved_tones_are_held() -> None:
    """Three tones in half a bin: JᵀJ alone allows any frequency; of a resolved tone nothing changes."""
    rng = np.random.default_rng(5)
    f = np.array([5.0, 5.0 + 0.25 / DURATION, 5.0 + 0.5 / DURATION, 9.0])
    theta = np.stack([np.full(4, 20 / np.sqrt(N / 2)), [0.3, 1.9, 4.0, 1.0], f], 1)
    series = (theta[:, 0] * np.cos(2 * np.pi * np.outer(TIMES, f) + theta[:, 1])).sum(1)
    observation = Observation.from_arrays(values=series + rng.standard_normal(N), times=TIMES)
    likelihood = likelihood_of(observation, None, BAND)
    free = joint_covariance(likelihood, theta)
    known = joint_covariance(likelihood, theta, held(likelihood, theta, 1.0))
    places = 3 * np.arange(4)
    free_bins, bins = (np.sqrt(np.diag(c)[places]) * DURATION for c in (free, known))
    assert free_bins[:3].max() > 3 and bins[:3].max() < 1  # the control, and what is held
    assert bins[3] == pytest.approx(free_bins[3], rel=0.01)
    prior = Prior(k_min=0, frequency=BAND, amplitude=(0.1, 3), min_separation=0.0)
    case = Unexamined(1.0, "", likelihood.reference)
    draws = searched_posterior(observation, prior, theta, known, case).draws_of(BAND)
    assert (draws[..., 0] > 0).all()
    assert np.abs(np.median(draws[..., 2], axis=0) - f).max() < 0.3 / DURATION
