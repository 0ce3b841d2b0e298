"""Tones that cancel each other are named as what their sum is."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow import Channel, Observation
from slotflow.bands.cancelling import cancelling
from slotflow.core.arrays import Array

N, STEP = 2000, 0.1
T = np.arange(N) * STEP
BIN = 1 / (N * STEP)


def described(series: Array, count: int = 8) -> tuple[Observation, Array]:
    """A complex series, and close tones that describe it by least squares, (count, 3), beside one that is steady."""
    places = 2.0 + 0.15 * BIN * np.arange(count)
    waves = np.exp(2j * np.pi * np.outer(T, places))
    c = np.linalg.lstsq(waves, series, rcond=1e-9)[0]
    steady = np.exp(2j * np.pi * 2.4 * T)
    theta = np.column_stack([np.abs(c), np.angle(c) % (2 * np.pi), places])
    return Observation([Channel(series + steady, dt=STEP)]), np.vstack([theta, [1.0, 0.0, 2.4]])


@pytest.mark.parametrize(
    ("kind", "envelope"),
    [
        ("damped", np.exp(-T / 12)),
        ("growing", np.exp((T - T[-1]) / 12)),
        ("modulated", np.exp(-(((T - T.mean()) / 20) ** 2))),
    ],
)
def test_what_cancels_is_named(kind: str, envelope: Array) -> None:
    observation, theta = described(envelope * np.exp(2j * np.pi * 2.002 * T))
    named = cancelling(observation, theta)
    assert [one.kind for one in named] == [kind]
    assert len(named[0].places) == 8 and max(named[0].places) < 2.1
    assert "tones" in named[0].words and "instead of 8 tones" in named[0].words


def test_tones_that_do_not_cancel_are_not_named() -> None:
    """The control: two tones half a bin apart, and no tone at all."""
    f = np.array([2.0, 2.0 + 0.5 * BIN])
    series = np.exp(2j * np.pi * np.outer(T, f)) @ np.array([1.0, 0.8])
    observation = Observation([Channel(series, dt=STEP)])
    theta = np.array([[1.0, 0.0, f[0]], [0.8, 0.0, f[1]]])
    assert cancelling(observation, theta) == ()
    assert cancelling(observation, np.zeros((0, 3))) == ()
