"""Components that are no tones, with nothing stated but what they are: bounds within which they can be analysed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Observation, SlotFlow
from slotflow.infer.assume import Basis, assume
from slotflow.infer.statement import Statement
from slotflow.posterior.assumed import DATA, STATED
from slotflow.signal.likelihood.compressed import bins_needed, shown_by
from slotflow.signal.waveforms import Classes
from slotflow.waveforms import Chirp

N, DT = 1000, 1e-3
"""Of a second: a bin is 1 Hz."""
TIMES = DT * np.arange(N)
KINDS: tuple[dict[str, Any], ...] = (
    {"classes": "tone,chirp"},
    {"classes": "tone,damped"},
    {"classes": "tone,chirp,damped"},
    {"waveform": "chirp"},
    {"waveform": "quadratic"},
    {"waveform": "damped"},
    {"waveform": "harmonic"},
)


def series(*tones: tuple[float, float], drift: float = 0.0, kind: type = float) -> Observation:
    """Tones (A, f) that drift, in white noise of σ = 1."""
    rng = np.random.default_rng(0)
    x: Any = rng.normal(size=N)
    if kind is complex:
        x = (x + 1j * rng.normal(size=N)) / np.sqrt(2)
    for amplitude, f in tones:
        wave = amplitude * np.exp(2j * np.pi * (f * TIMES + 0.5 * drift * TIMES**2) + 1j)
        x = x + (wave if kind is complex else wave.real)
    return Observation([Channel(x, dt=DT)])


def assumed(zoom: SlotFlow, observation: Observation, **stated: Any) -> Basis:
    return assume(zoom, observation, Statement.of(stated))


def reached(basis: Basis) -> tuple[float, float, float]:
    """Lowest and highest frequency that components may reach, and the bins that they need."""
    prior = basis.assumed.prior
    every = prior.waveform.occupied(prior.frequency, basis.assumed.duration)
    needed = bins_needed(every, basis.observation)
    return min(low for low, _ in every), max(high for _, high in every), needed


def test_what_a_verdict_recommends_is_answered(zoom: SlotFlow) -> None:
    """As tones, the verdict on these data says: perhaps a chirp (--classes tone,chirp)."""
    observation = series((3.0, 60.0), drift=2.5)
    post = zoom.infer(observation, prior={"classes": "tone,chirp"}, max_seconds=60)
    assert post.verdict.status == "exact" and next(iter(post.counts_probs())) == (0, 1)
    assert "proposed: --band 15.0:151.0" in str(post.assumed)


@pytest.mark.parametrize("stated", KINDS)
@pytest.mark.parametrize("place", [5.2, 60.3, 496.0])
def test_components_stay_where_samples_show_them(
    zoom: SlotFlow, stated: dict[str, Any], place: float
) -> None:
    basis = assumed(zoom, series((3.0, place)), **stated)
    low, high, _ = reached(basis)
    assert low >= 0 and high <= 500
    assert basis.assumed.prior.frequency[0] < place < basis.assumed.prior.frequency[1]
    narrow = any("less than usual" in note for note in basis.assumed.warnings)
    assert narrow == (place > 450 or (place < 10 and stated != {"waveform": "harmonic"}))


def test_what_is_stated_stays(zoom: SlotFlow) -> None:
    observation = series((3.0, 60.0))
    basis = assumed(zoom, observation, band=(5, 90), classes="tone,chirp")
    assert basis.assumed.prior.frequency == (5, 90) and basis.assumed.band is None
    kinds = basis.assumed.prior.waveform
    assert isinstance(kinds, Classes) and kinds.members["chirp"].ranges["drift"].high == 7.5
    basis = assumed(zoom, observation, waveform="chirp(drift=-60:60)")
    assert basis.assumed.prior.waveform == Chirp((-60, 60)) and not basis.assumed.warnings
    assert basis.assumed.prior.frequency[0] >= 30 and basis.assumed.sources["frequency"] == DATA
    basis = assumed(zoom, observation, band=(5, 90), waveform=Chirp((-60, 60)))
    assert basis.assumed.prior.frequency == (5, 90)
    assert basis.assumed.sources["frequency"] == STATED
    with pytest.raises(ValueError, match="stay between 0 and 500 Hz"):
        zoom.infer(observation, prior={"band": (5, 90), "waveform": Chirp((-60, 60))})


def test_wide_bands_end_around_what_stands_out(zoom: SlotFlow) -> None:
    data = series((8.0, -455.0), (5.0, 32.0), (6.0, 51.0), kind=complex)
    found = assumed(zoom, data, waveform="damped")
    low, high = found.assumed.prior.frequency
    assert -470 < low < -460 and 58 < high < 70 and reached(found)[2] < 600
    data = series((8.0, -455.0), (4.0, 32.0), (3.0, 450.0), kind=complex)
    apart = assumed(zoom, data, waveform="damped")
    low, high = apart.assumed.prior.frequency
    assert low < -455 and 32 < high < 450 and reached(apart)[2] < 600
    assert any(note.startswith("450") for note in apart.assumed.warnings)
    nothing = assumed(zoom, series(kind=complex), waveform="damped")
    assert "although no peak stands out" in str(nothing.assumed)
    assert reached(nothing)[2] <= 300 and shown_by(nothing.observation)[0] == -np.inf


def test_fundamentals(zoom: SlotFlow) -> None:
    note = series((1.0, 31.2), (2.0, 62.4), (1.5, 93.6), (1.0, 124.8))
    found = assumed(zoom, note, waveform="harmonic").assumed
    low, high = found.prior.frequency
    assert low < 31.2 < high < 93 and found.band is not None
    assert abs(found.band.peak - 31.2) < 0.3
    fewer = assumed(zoom, series((2.0, 150.2), (1.5, 300.4), (1.0, 450.6)), waveform="harmonic")
    low, high = fewer.assumed.prior.frequency
    assert fewer.assumed.prior.waveform.amplitudes == 3 and low < 150.2 < high <= 500 / 3
    either = assumed(zoom, note, waveform="harmonic(most=3)").assumed.prior.waveform
    assert isinstance(either, Classes) and either.class_names == ("m1", "m2", "m3")
