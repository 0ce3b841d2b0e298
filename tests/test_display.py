"""Units of frequencies and the instant that phases refer to, in tables."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from posterior_helpers import gaussian_posterior

from slotflow import Observation, Posterior, Prior, SlotFlow
from slotflow.core.units import (
    FREQUENCY_UNITS,
    duration_in_seconds,
    frequency_unit,
    natural_unit,
)
from slotflow.posterior.display import Epoch, epoch_of
from slotflow.signal.waveforms import TONE

START = 5000.0
"""Time of the first sample: t = 0 lies far outside the record."""


@pytest.fixture(scope="module")
def late() -> Posterior:
    """One tone in a record of 300 s that starts at t = 5000 s, its phase at t = 0 badly known."""
    rng = np.random.default_rng(4)
    t = START + 0.1 * np.arange(3000)
    x = np.cos(2 * np.pi * 1.5 * t + 1.0) + 0.7 * rng.standard_normal(t.size)
    observation = Observation.from_arrays(long=x, dt_long=0.1, t0_long=START)
    prior = Prior(frequency=(1.4, 1.6), k_min=0, k_max=2, min_separation=0.0)
    return SlotFlow.from_pretrained().infer(observation, prior=prior)


def test_units_are_what_they_say() -> None:
    assert frequency_unit("c/d").factor == pytest.approx(86_400)
    assert frequency_unit("µHz") is FREQUENCY_UNITS["uHz"]
    assert frequency_unit("1/yr").text(1 / 31_557_600) == "1 1/yr"
    assert [natural_unit(u).name for u in ("d", "yr", "h", "ms", "")] == [
        "c/d",
        "1/yr",
        "1/h",
        "Hz",
        "Hz",
    ]
    with pytest.raises(ValueError, match="expected a unit of frequency, one of GHz"):
        frequency_unit("per fortnight")


def test_ranges_of_frequencies() -> None:
    assert frequency_unit("Hz").span(1e-5, 7) == "1e-05–7 Hz"
    assert frequency_unit("mHz").span(-0.05, -0.02, 3) == "−50 to −20 mHz"


def test_words_in_hertz_are_put_in_another_unit() -> None:
    words = "a peak outside the band at 0.00012963 Hz, 180 times the noise; --band 1e-3:2e-3"
    unit = frequency_unit("c/d")
    assert unit.reword(words) == words.replace("0.00012963 Hz", "11.2 c/d")
    assert unit.reword("between -1.5e-05 Hz and 3 kHz") == "between -1.296 c/d and 3 kHz"
    assert unit.reword("6e-05–0.00012 Hz: K = 3") == "5.184–10.368 c/d: K = 3"
    assert frequency_unit("Hz").reword(words) == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12.5", 12.5), ("3 h", 10_800), ("-1e3d", -86.4e6), ("2yr", 63_115_200), ("3 weeks", None)],
)
def test_times_with_a_unit(text: str, seconds: float | None) -> None:
    assert duration_in_seconds(text) == (None if seconds is None else pytest.approx(seconds))


def test_phase_at_an_instant_is_the_tones_own() -> None:
    theta = np.array([[[0.7, 1.0, 1.5], [1.2, 4.0, 0.31]]])
    shifted = Epoch(12.3).shift(theta, TONE)
    expected = np.mod(theta[..., 1] + 2 * np.pi * theta[..., 2] * 12.3, 2 * np.pi)
    np.testing.assert_allclose(TONE.of(shifted, "phase"), expected, atol=1e-12)
    np.testing.assert_allclose(shifted[..., [0, 2]], theta[..., [0, 2]], rtol=1e-15)
    assert Epoch(0.0).shift(theta, TONE) is theta


def test_mid_series_by_default_where_zero_lies_outside(late: Posterior) -> None:
    auto, zero = late.summary(), late.summary(phase_at="zero")
    assert auto.attrs["phase_at"] == f"mid-series, t = {START + 149.95:.12g} s"
    assert zero.attrs["phase_at"] == "t = 0"
    # sd of the phase grows by sqrt(1 + 12 n²), n the distance in record lengths
    grown = math.sqrt(1 + 12 * ((START + 150) / 300) ** 2)
    ratio = zero["phase_sd"].iloc[0] / auto["phase_sd"].iloc[0]
    assert grown > 50 and (ratio > 0.8 * grown or zero["phase_sd"].iloc[0] > 1.5)
    expected = np.mod(1.0 + 2 * np.pi * 1.5 * (START + 149.95), 2 * np.pi)
    distance = np.mod(auto["phase_median"].iloc[0] - expected + np.pi, 2 * np.pi) - np.pi
    assert abs(distance) < 5 * auto["phase_sd"].iloc[0] < 0.5
    pd.testing.assert_frame_equal(
        auto.filter(regex="^(amp|freq)"), zero.filter(regex="^(amp|freq)")
    )


def test_a_late_first_sample_changes_no_phase(late: Posterior) -> None:
    """Control: a record that begins a third of its length after t = 0."""
    for first, name in ((0.0, ""), (0.1, ""), (-320.0, ""), (99.0, "mid-series")):
        post = copy.copy(late)
        post.observation = Observation.from_arrays(long=np.zeros(3000), dt_long=0.1, t0_long=first)
        assert epoch_of(post).name == name


def test_stated_instants(late: Posterior) -> None:
    assert epoch_of(late, "start").seconds == START
    assert epoch_of(late, 5100).seconds == epoch_of(late, "5100").seconds == 5100
    assert epoch_of(late, "2 h").seconds == 7200
    assert epoch_of(late, "1970-01-02").seconds == 86_400
    with pytest.raises(ValueError, match="expected the instant that phases refer to as one of"):
        epoch_of(late, "noon")


def test_zero_stays_where_the_record_holds_it(late: Posterior) -> None:
    x = late.observation.long.values
    late = SlotFlow.from_pretrained().infer(
        Observation.from_arrays(long=x, dt_long=0.1, t0_long=-10.0), prior=late.prior, refine=False
    )
    assert epoch_of(late) == Epoch()


def test_tables_name_the_unit_of_their_columns(late: Posterior, tmp_path: Path) -> None:
    plain, daily = late.summary(), late.summary(frequency_unit="c/d")
    np.testing.assert_allclose(
        daily["frequency_sd [c/d]"], 86_400 * plain["frequency_sd"], rtol=1e-12
    )
    assert "frequency_median" not in daily and daily["amplitude_sd"].equals(plain["amplitude_sd"])
    assert daily.attrs == plain.attrs
    hertz = late.to_catalogue()
    late.to_catalogue(tmp_path / "tones.csv", frequency_unit="c/d")
    written = pd.read_csv(tmp_path / "tones.csv", index_col="component")
    for name, power in (("cov_frequency_frequency", 2), ("cov_phase_frequency", 1)):
        np.testing.assert_allclose(written[f"{name} [c/d]"], 86_400**power * hertz[name])
    assert "cov_amplitude_phase" in written


def test_harmonics_have_a_column_where_there_are_any() -> None:
    tones = np.array([[1.0, 1.0, 2.5102], [0.5, 2.0, 2.9], [0.8, 3.0, 5.0204]])
    prior = Prior(frequency=(1.0, 6.0), k_min=0, k_max=3)
    post = gaussian_posterior([0, 0, 0, 1.0], tones=tones, widths=[0.01, 0.01, 1e-5], prior=prior)
    table = post.summary(frequency_unit="mHz")
    assert table["combination"].tolist() == ["", "", "2f1"]
    assert 0 < table["combination_chance"].iloc[2] < 0.01
    assert np.isnan(table["combination_chance"].iloc[0])
    assert post.to_catalogue()["combination"].tolist() == ["", "", "2f1"]
    tones[2, 2] = 5.13
    other = gaussian_posterior([0, 0, 0, 1.0], tones=tones, widths=[0.01, 0.01, 1e-5], prior=prior)
    assert "combination" not in other.summary()
