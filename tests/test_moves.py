"""Moves of tempered sampling leave their density as it is, also where one tone may be on either side of another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from statistics_helpers import assert_within

from slotflow.core.arrays import Array
from slotflow.exact import moves
from slotflow.exact.moves import Moves, State
from slotflow.signal.waveforms import TONE

NARROW, STRONG, WEAK, WIDTH = 0.8, 3.0, 1.0, 0.1
"""Frequency of a strong tone; a weak one is anywhere from 0 to 1: below the other with a probability of 0.8."""
PARTICLES, SWEEPS = 2000, 30


def density(z: Array) -> tuple[Array, Array]:
    """Log density of both tones, whichever is first, and an RSS that nothing depends on, (n,) each."""
    places, c = TONE.simple(z)
    size = -0.5 * (c.imag / WIDTH) ** 2
    strong = size - 0.5 * ((places - NARROW) / 0.01) ** 2 - 0.5 * ((c.real - STRONG) / WIDTH) ** 2
    weak = size - 0.5 * ((c.real - WEAK) / WIDTH) ** 2
    weak = np.where((places > 0) & (places < 1), weak, -np.inf)
    log_p: Array = np.logaddexp(strong[:, 0] + weak[:, 1], strong[:, 1] + weak[:, 0])
    return log_p, np.ones(len(z))


def exact(rng: np.random.Generator) -> State:
    """Independent draws."""
    n = PARTICLES
    places = np.stack([rng.normal(NARROW, 0.01, n), rng.random(n)], -1)
    c = np.array([STRONG, WEAK]) + WIDTH * (
        rng.standard_normal((n, 2)) + 1j * rng.standard_normal((n, 2))
    )
    z = TONE.from_simple(places, c)
    z = np.take_along_axis(z, np.argsort(places, -1)[..., None], 1)
    log_p, rss = density(z)
    return State(z, log_p, np.zeros(n), rss)


def share_below(state: State) -> float:
    """Share of the particles whose weak tone is the first."""
    return float((TONE.simple(state.z)[1][:, 0].real < 0.5 * (STRONG + WEAK)).mean())


def moved(rng: np.random.Generator) -> tuple[State, State]:
    """Particles before and after some sweeps."""
    target: Any = SimpleNamespace(
        waveform=TONE,
        statistics=SimpleNamespace(weight=2 / WIDTH**2, duration=100.0),
        noise=SimpleNamespace(variance=lambda rss: 1.0, low=1.0),
        prior=SimpleNamespace(amplitude=(WIDTH, STRONG)),
        k=2,
        log_prob=density,
    )
    state, chain = exact(rng), Moves(target, target, None, rng)
    before = state.take(np.arange(PARTICLES))
    for _ in range(SWEEPS):
        chain.sweep(state, 1.0)
    return before, state


def test_a_tone_stays_on_its_side_as_often_as_it_should(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Control: differences by which tones may pass each other, as if each place's were the same."""
    rng, error = np.random.default_rng(seed), 1.5 * (0.8 * 0.2 / PARTICLES) ** 0.5
    before, after = moved(rng)
    assert_within([share_below(before), share_below(after)], 0.8, error)
    weak = TONE.simple(after.z)[0][:, 0][TONE.simple(after.z)[1][:, 0].real < 2.0]
    assert_within(weak.mean(), 0.4, 2 * 0.8 / (12 * PARTICLES) ** 0.5)
    monkeypatch.setattr(moves, "_if_sorted", lambda places, hastings: hastings + 0 * places[:, 0])
    with pytest.raises(AssertionError):
        assert_within(share_below(moved(rng)[1]), 0.8, error)
