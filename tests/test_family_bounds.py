"""Bounds of amplitudes that come from the data, for components that are short beside the record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.exact.family.analysed import largest_amplitude, searched
from slotflow.exact.family.sample import NothingFits, _by_maximum
from slotflow.infer import family
from slotflow.waveforms import Damped

AMPLITUDE, PLACES, RATE = 4.0, (0.1, 0.21), 0.05
STATED: dict[str, Any] = {"waveform": Damped(rate=(0.002, 0.1)), "frequency": (0.08, 0.3)}


@pytest.fixture(scope="module")
def decays() -> Observation:
    """Two decays within the first tenth of a long record, with hardly any noise."""
    rng, t = np.random.default_rng(3), np.arange(1024.0)
    values = sum(AMPLITUDE * np.exp((2j * np.pi * f - RATE) * t) for f in PLACES)
    values = values + 0.01 * (rng.standard_normal(1024) + 1j * rng.standard_normal(1024))
    return Observation([Channel(values, dt=1.0, trend=-1)])


def test_filters_see_how_strong_a_decay_is(zoom: SlotFlow, decays: Observation) -> None:
    post: Any = zoom.infer(decays, prior=STATED | {"k_max": 3}, seed=0, draws=500)
    assert post.k_map == len(PLACES)
    assert post.prior.amplitude[1] > AMPLITUDE
    np.testing.assert_allclose(post.summary()["amplitude_median"], AMPLITUDE, atol=0.05)
    seen = largest_amplitude(decays, post.prior)
    assert AMPLITUDE < seen < 3 * AMPLITUDE  # filters of a wrong rate overstate it


def test_a_bound_that_presses_is_raised(
    zoom: SlotFlow, decays: Observation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the filters the bound comes from a spectrum whose window begins with zeros, and is below the truth."""
    monkeypatch.setattr(family, "largest_amplitude", lambda *_: 0.0)
    bounds = []
    answered = family._answered_under

    def noted(model: Any, case: Any, call: Any, assumed: Any) -> Any:
        bounds.append(assumed.prior.amplitude[1])
        return answered(model, case, call, assumed)

    monkeypatch.setattr(family, "_answered_under", noted)
    post: Any = zoom.infer(decays, prior=STATED | {"k_max": 3}, seed=0, draws=500, max_seconds=10)
    assert bounds[0] < AMPLITUDE < bounds[-1]
    assert post.prior.amplitude[1] > AMPLITUDE
    assert post.k_map == len(PLACES)
    np.testing.assert_allclose(post.summary()["amplitude_median"], AMPLITUDE, atol=0.05)


def test_the_bound_is_named_where_nothing_fits(decays: Observation) -> None:
    prior = Prior(
        **STATED, k_min=1, k_max=2, amplitude=(0.1, 0.2), sigma=(0.0, 0.1), min_separation=0.0
    )
    search = searched(decays, prior, max_seconds=0.0)
    search.found.clear()
    with pytest.raises(NothingFits, match=r"amplitudes are 0\.1 to 0\.2, and the data show up to"):
        _by_maximum(search, (1,), np.random.default_rng(0))
