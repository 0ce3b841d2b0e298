"""Harmonics and combination frequencies: those of a star are named, accidental ones as often as is said."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow.data.observation import Observation
from slotflow.posterior.combinations import Combination, find_combinations
from slotflow.posterior.draws import Draws
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

BAND, RESOLUTION, ERROR = (0.5, 40.0), 0.04, 1e-3


def labels(found: tuple[Combination, ...]) -> dict[int, str]:
    """Component, counted from 1, to label."""
    return {one.component + 1: one.label for one in found}


def look(places: list[float], amplitudes: list[float], rng: np.random.Generator) -> dict[int, str]:
    """Labels of places that are known up to an error."""
    order = np.argsort(places)
    f = np.array(places)[order] + ERROR * rng.standard_normal(len(places))
    a = np.array(amplitudes)[order]
    errors = np.full(len(f), ERROR)
    return labels(find_combinations(f, errors, a, band=BAND, resolution=RESOLUTION))


def test_a_pulsating_star(seed: int) -> None:
    """f1 and f2 with 2 f1, f1 + f2, f2 − f1 and 2 f1 + f2; and one more that is none of them."""
    rng = np.random.default_rng(seed)
    f, g = 11.137, 13.871
    places = [f, g, 2 * f, f + g, g - f, 2 * f + g, 17.5091]
    found = look(places, [10, 7, 1, 0.8, 0.5, 0.3, 0.4], rng)
    # In the order of places: g − f, f, g, 17.5, 2 f, f + g, 2 f + g.
    assert found == {1: "f3-f2", 5: "2f2", 6: "f2+f3", 7: "2f2+f3"}


def test_a_harmonic_may_be_stronger_than_its_fundamental(seed: int) -> None:
    found = look([3.137, 6.274, 9.411], [0.5, 2.0, 0.3], np.random.default_rng(seed))
    assert found == {2: "2f1", 3: "3f1"}


def test_accidental_labels_are_as_frequent_as_stated(seed: int) -> None:
    """Random places: a label with p <= 0.01 befalls at most one in a hundred."""
    rng, labelled, small, total = np.random.default_rng(seed), 0, 0, 0
    for _ in range(60):
        f = np.sort(rng.uniform(*BAND, 15))
        a = np.exp(rng.uniform(0, 4, 15))
        errors = np.full(15, 5e-4)
        everything = find_combinations(f, errors, a, band=BAND, resolution=1e-3, accidental=1.0)
        kept = find_combinations(f, errors, a, band=BAND, resolution=1e-3, accidental=0.01)
        labelled += len(everything)
        small += len(kept)
        total += 15
    assert small <= 0.01 * total + 4.5 * np.sqrt(0.01 * total)
    assert 0 < small < labelled  # the control: without the limit there are more


def test_a_posterior_names_its_combinations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = np.zeros((500, 3, 3))
    theta[..., 0] = [5.0, 1.0, 0.7]
    theta[..., 2] = [1.1, 2.2, 3.17] + 1e-4 * rng.standard_normal((500, 3))
    obs = Observation.from_arrays(np.zeros(3000), 0.1)
    draws = Draws(3, {3: theta}, {3: np.ones(500)})
    prior = Prior(k_max=3, frequency=(0.5, 4.0))
    post = Posterior(np.array([0, 0, 0, 1.0]), draws, obs, 1.0, None, "test", prior)
    (found,) = post.combinations()
    assert found.label == "2f1" and found.component == 1
    assert abs(found.deviation) < 5 * found.deviation_sd and found.chance < 0.01
    assert found.deviation_sd == pytest.approx(1e-4 * np.sqrt(5), rel=0.2)


def test_places_that_are_not_known_take_no_part() -> None:
    f, a = np.array([2.0, 4.0, 6.0]), np.array([3.0, 2.0, 1.0])
    errors = np.array([1e-3, 1e-3, 1e-3])
    sure = find_combinations(f, errors, a, band=BAND, resolution=RESOLUTION)
    assert labels(sure) == {2: "2f1", 3: "3f1"} and all(one.chance > 0 for one in sure)
    errors[0] = 10.0  # the fundamental may be anywhere
    assert labels(find_combinations(f, errors, a, band=BAND, resolution=RESOLUTION)) == {}


def test_nothing_to_combine() -> None:
    none = np.zeros(0)
    assert find_combinations(none, none, none, band=BAND, resolution=RESOLUTION) == ()
