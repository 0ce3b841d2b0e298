"""A series cut to a band: components stay what they are, others go, and white noise stays white."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow import Channel
from slotflow.preprocess import narrow

RATE, BAND = 4000.0, (430.0, 470.0)


def line(t: np.ndarray, frequency: float, rate: float, phase: float) -> np.ndarray:
    """exp of a decaying line, (n,)."""
    return np.exp((2j * np.pi * frequency - rate) * t + 1j * phase)


@pytest.mark.parametrize("real", [True, False])
def test_lines_keep_frequency_phase_and_decay(real: bool) -> None:
    """A line of the band comes out as itself; one 40 Hz off the band, a hundred times stronger, is gone."""
    t = 0.25 + np.arange(8000) / RATE
    inside, outside = line(t, 447.3, 3.0, 0.7), 100 * line(t, 520.0, 2.0, 1.1)
    values = inside + outside
    found = narrow(Channel(values.real if real else values, dt=1 / RATE, t0=0.25), BAND)
    assert found.is_complex and found.dt > 0.015 and found.n > 70
    assert found.values == pytest.approx(line(found.times, 447.3, 3.0, 0.7), abs=0.25)
    alone = narrow(Channel(inside.real if real else inside, dt=1 / RATE, t0=0.25), BAND)
    assert alone.values == pytest.approx(line(alone.times, 447.3, 3.0, 0.7), abs=2e-3)
    assert "one sample kept of 83" in found.notes[-1] and found.trend == -1


def test_white_noise_stays_nearly_white() -> None:
    """Its power is the band's share, and correlations at the first lags are small, unlike a smoothed one."""
    values = np.random.default_rng(3).normal(size=400_000)
    cut = narrow(Channel(values, dt=1 / RATE), BAND)
    found = cut.values
    power = np.mean(np.abs(found) ** 2)
    for lag in (1, 2, 3):
        correlation = np.mean(found[lag:] * found[:-lag].conj()) / power
        assert abs(correlation) < 0.06 + 4 / np.sqrt(found.size)  # the roll-off within the margins
    assert power == pytest.approx(
        4 / (RATE * cut.dt), rel=0.1
    )  # g² times the share of the spectrum
    control = found[1:] + found[:-1]  # what a filter of half the width would leave
    assert abs(np.mean(control[1:] * control[:-1].conj())) > 0.3 * np.mean(np.abs(control) ** 2)


@pytest.mark.parametrize(
    ("changes", "band", "margin", "words"),
    [
        ({"errors": np.ones(8000)}, BAND, None, "errors of their own"),
        ({}, (430.0, 2100.0), None, "expected a band between 0 and 2000"),
        ({}, (470.0, 430.0), None, "expected a band between"),
        ({}, (100.0, 1900.0), None, "narrow beside the sampling rate"),
        ({}, BAND, 0.5, "widen the margin"),
        ({}, BAND, 0.0, "expected a margin above 0"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    changes: dict[str, np.ndarray],
    band: tuple[float, float],
    margin: float | None,
    words: str,
) -> None:
    """Each with what was expected."""
    channel = Channel(np.arange(8000.0), dt=1 / RATE, **changes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        narrow(channel, band, margin)
    with pytest.raises(ValueError, match="uneven times"):
        narrow(Channel(np.arange(100.0), times=np.arange(100.0) ** 1.5), BAND)
