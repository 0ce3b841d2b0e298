"""The law of the protocol's line spectra: densities integrate to one, and a posterior is carried over to them."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest

from slotflow.studies.proof.line_spectra import SAMPLES, SPREAD, circular, draw_line_spectrum
from slotflow.studies.proof.protocol_law import log_law_of_amplitudes, log_law_of_places


def test_places_against_all_orders(seed: int) -> None:
    """The recursion over subsets is the sum over permutations."""
    f = np.random.default_rng(seed).uniform(-0.5, 0.5, (5, 4))

    def step(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        d = (circular(a - b) - 1 / SAMPLES) / SPREAD
        return np.exp(-0.5 * d**2) / (SPREAD * math.sqrt(2 * math.pi))

    total = np.zeros(5)
    for order in permutations(range(4)):
        total += np.prod([step(f[:, a], f[:, b]) for a, b in pairwise(order)], axis=0)
    difference = log_law_of_places(f) - np.log(total)
    assert np.ptp(difference) < 1e-9
    assert 0 < difference[0] < 2  # less than one sequence in e² keeps apart


def test_places_integrate_to_one() -> None:
    """Of two tones: an integral over their distance, each set counted once."""
    y = np.linspace(1 / SAMPLES, 0.5, 4001)
    density = np.exp(log_law_of_places(np.stack([np.zeros_like(y), y], 1)))
    assert float(((density[1:] + density[:-1]) / 2 * np.diff(y)).sum()) == pytest.approx(
        1, abs=0.01
    )


def test_drawn_sets_are_likely(seed: int) -> None:
    """Signals of the protocol have a higher density than the same number of tones anywhere."""
    rng = np.random.default_rng(seed)
    drawn = [s.frequencies for s in (draw_line_spectrum(rng) for _ in range(200))]
    four = np.array([f for f in drawn if len(f) == 4])
    anywhere = rng.uniform(-0.5, 0.5, four.shape)
    assert log_law_of_places(four).mean() > log_law_of_places(anywhere).mean() + 3


def test_amplitudes_integrate_to_one() -> None:
    """Of one tone, over all amplitudes and scales; of two, equal ones are as likely in either order."""
    a = np.exp(np.linspace(math.log(1e-3), math.log(500), 40_001))
    density = a * np.exp(log_law_of_amplitudes(a[:, None]))  # by the logarithm of A
    assert float(density.sum() * math.log(a[1] / a[0])) == pytest.approx(1, abs=1e-3)
    pair = np.array([[0.2, 0.9], [0.9, 0.2]])
    assert np.ptp(log_law_of_amplitudes(pair)) < 1e-12
