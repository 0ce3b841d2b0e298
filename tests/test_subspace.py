"""Sets of tones from singular vectors: where a search that adds one tone at a time stays in a poor maximum."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.core.arrays import Array, Complex
from slotflow.exact.modes import Modes
from slotflow.exact.subspace import subspace_sets
from slotflow.signal.likelihood import likelihood_of
from slotflow.studies.proof.line_spectra import draw_line_spectrum, in_noise

SAMPLES = 50
PRIOR = Prior(
    k_min=1,
    k_max=10,
    amplitude=(0.02, 2.0),
    frequency=(-0.5, 0.5),
    min_separation=1 / SAMPLES,
    sigma=(0.0, 1.5),
)


@pytest.fixture(scope="module")
def crowd() -> tuple[Complex, Array]:
    """Ten tones, nine of them within twelve bins, at 50 dB, and their frequencies."""
    clean = draw_line_spectrum(np.random.default_rng([0, 202]))
    return in_noise(clean.values, 50.0, np.random.default_rng([0, 202, 5])), clean.frequencies


def test_a_crowd_is_found_all_at_once(crowd: tuple[Complex, Array]) -> None:
    x, truth = crowd
    found = subspace_sets(x, 10)
    assert len(found[0]) == 10
    assert np.abs(found[0] - truth).max() < 0.1 / SAMPLES
    # The control: one tone after another leaves far more of the data.
    likelihood = likelihood_of(Observation([Channel(x, 1.0, trend=-1)]), None, (-0.5, 0.5))
    one_by_one, at_once = (Modes(likelihood, PRIOR) for _ in range(2))
    one_by_one.pursue(10)
    at_once.add([found[0]])
    best, mode = at_once.best(10), one_by_one.best(10)
    assert best is not None and (mode is None or mode.rss > 100 * best.rss)


def test_the_count_of_a_crowd_is_right(zoom: SlotFlow, crowd: tuple[Complex, Array]) -> None:
    x, truth = crowd
    observation = Observation([Channel(x, 1.0, trend=-1)])
    post = zoom.infer(observation, prior=PRIOR, noise="white", max_seconds=20.0)
    assert post.k_map == len(truth) and post.verdict.status != "misfit"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_short_and_empty_data(size: int) -> None:
    assert subspace_sets(np.zeros(size, dtype=complex), 10) == []
    for f in subspace_sets(np.exp(2j * np.pi * 0.2 * np.arange(size)), 10):
        assert np.isfinite(f).all() and len(f) <= size
