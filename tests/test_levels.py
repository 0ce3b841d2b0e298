"""Channels whose noise levels nobody has stated: one level where the data allow it, and otherwise measured ratios."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotflow import Channel, Observation, Posterior, SlotFlow
from slotflow.infer.levels import MEASURED, unexplained

TRUTH = np.array([1.0, 0.8, 12.3])
"""Amplitude, phase and frequency in Hz of the tone."""
PRIOR = {"frequency": (11.0, 14.0)}


@pytest.fixture(scope="module")
def model() -> SlotFlow:
    return SlotFlow.from_pretrained()


def tone(t: NDArray[np.float64], gain: complex = 1.0) -> Any:
    """The tone in a complex channel, (n,)."""
    amplitude, phase, f = TRUTH
    return gain * amplitude * np.exp(1j * (2 * np.pi * f * t + phase))


def channel(
    seed: int, level: float, n: int = 1000, dt: float = 0.01, seen: complex = 1.0, **said: Any
) -> Channel:
    """A real channel that sees the tone with some gain, in noise of a level that it does not state."""
    noise = level * np.random.default_rng(seed).standard_normal(n)
    return Channel(tone(dt * np.arange(n), seen).real + noise, dt=dt, **said)


def assert_tone(post: Posterior) -> None:
    """The one tone is found exactly, within five standard deviations."""
    assert post.verdict.status == "exact", post.verdict
    assert post.k_map == 1
    draws = post.sample(1000, k=1)[:, 0]
    assert (np.abs(draws.mean(0) - TRUTH) < 5 * draws.std(0)).all()


def assert_ratio(post: Posterior, ratio: float, n: int) -> None:
    """The second channel's level over the first one's, within five standard errors for n samples in the shorter."""
    assert post.noise is not None
    assert abs(np.log(post.noise.channels[1][1] / ratio)) < 5 / np.sqrt(n)
    assert MEASURED in post.noise.words


def test_levels_that_differ_are_measured(model: SlotFlow, seed: int) -> None:
    data = Observation([channel(seed, 2.0), channel(seed + 1, 0.7)])
    post = model.infer(data, prior=PRIOR)
    assert_tone(post)
    assert_ratio(post, 0.35, 1000)
    stated = model.infer(
        Observation([channel(seed, 2.0, sigma=2.0), channel(seed + 1, 0.7, sigma=0.7)]), prior=PRIOR
    )
    widths = [one.sample(1000, k=1)[:, 0].std(0) for one in (post, stated)]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.25)  # ratio 5 sd of 2.2 %, widths 2.2 %
    assert stated.noise is not None and MEASURED not in stated.noise.words


def test_channels_of_other_rates_and_gains(model: SlotFlow, seed: int) -> None:
    gain = 0.8 * np.exp(0.7j)
    other = channel(seed + 1, 0.3, n=400, dt=0.023, seen=gain, gain=gain)
    post = model.infer(Observation([channel(seed, 1.5), other]), prior=PRIOR)
    assert_tone(post)
    assert_ratio(post, 0.2, 400)


def test_complex_channels(model: SlotFlow, seed: int) -> None:
    t, rng, gain = 0.01 * np.arange(500), np.random.default_rng(seed), 1.3 * np.exp(-0.4j)
    noise = rng.normal(size=(2, 500)) + 1j * rng.normal(size=(2, 500))
    channels = [
        Channel(tone(t) + 1.5 * noise[0], dt=0.01),
        Channel(tone(t, gain) + 0.4 * noise[1], dt=0.01, gain=gain),
    ]
    post = model.infer(Observation(channels), prior=PRIOR)
    assert_tone(post)
    assert_ratio(post, 0.4 / 1.5, 1000)


def test_a_level_that_one_channel_states_is_kept(model: SlotFlow, seed: int) -> None:
    """The other one's is measured in its units."""
    data = Observation([channel(seed, 2.0, sigma=4.0), channel(seed + 1, 0.7)])
    post = model.infer(data, prior=PRIOR)
    assert_tone(post)
    first, second = (one.sigma for one in post.observation.channels)
    assert first == 4.0 and second is not None
    assert abs(second / 1.4 - 1) < 5 / np.sqrt(1000)


def test_one_level_stays_one_level(model: SlotFlow, seed: int) -> None:
    data = Observation([channel(seed, 0.5), channel(seed + 1, 0.5, n=400)])
    post = model.infer(data, prior=PRIOR)
    assert post.verdict.status == "exact"
    assert [one.sigma for one in post.observation.channels] == [None, None]
    assert post.noise is not None and MEASURED not in post.noise.words


def test_a_wide_band_of_channels(model: SlotFlow, seed: int) -> None:
    """Windows share the ratio, which is measured once."""
    t = 0.01 * np.arange(6000)
    two = np.cos(2 * np.pi * 12.3 * t) + np.cos(2 * np.pi * 31.0 * t)
    rng = np.random.default_rng(seed)
    data = Observation([Channel(two + s * rng.normal(size=6000), dt=0.01) for s in (2.0, 0.6)])
    post = model.infer(data)
    assert post.verdict.status == "exact" and post.k_map == 2
    assert_ratio(post, 0.3, 6000)


@pytest.mark.parametrize(
    ("seen", "levels"), [(0.6, (1.0, 0.3)), (0.6, (0.3, 1.0)), (0.0, (0.4, 1.0))]
)
def test_a_wrong_gain_is_no_noise(
    model: SlotFlow, seed: int, seen: float, levels: tuple[float, float]
) -> None:
    """Channels that do not see the same tone stay a misfit, whatever their levels."""
    data = Observation([channel(seed, levels[0]), channel(seed + 1, levels[1], seen=seen)])
    post = model.infer(data, prior=PRIOR)
    assert post.verdict.status == "misfit"


def test_a_line_that_is_left_in_another_channel_is_told(model: SlotFlow, seed: int) -> None:
    post = model.infer(Observation([channel(seed, 0.5), channel(seed + 1, 0.5)]), prior=PRIOR)
    assert not unexplained(post)
    post.observation.channels = (channel(seed, 0.5), channel(seed + 1, 0.5, seen=0.5))
    assert "channel 2 has a line at 12." in unexplained(post)
