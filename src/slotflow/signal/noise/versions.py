"""What choices of a noise are made of: known and measured levels, the data with and without lines that may be noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.signal.noise.background import Background, background_of
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode
from slotflow.signal.noise.series import Series, series_of
from slotflow.signal.waveforms import TONE, Waveform

__all__ = [
    "SLOW_BINS",
    "known_ratios",
    "measured_level",
    "red_versions_of",
    "versions_of",
    "white_noise",
]

SLOW_BINS = 20.0
"""Frequencies in units of 1/T up to which lines may be red noise."""


def known_ratios(observation: Observation) -> list[float]:
    """Noise levels that the channels know in units of the first one's; 1 where they do not."""
    levels = [channel.sigma for channel in observation.channels]
    first = levels[0]
    return [1.0 if one is None or first is None else one / first for one in levels]


def white_noise(observation: Observation, words: str) -> NoiseModel:
    """White noise, at the levels that the channels know."""
    node = NoiseNode(tuple(ChannelNoise(ratio=ratio) for ratio in known_ratios(observation)))
    return NoiseModel("white", (node,), words=words)


def measured_level(
    channel: Channel, tones: Array | None = None, waveform: Waveform = TONE
) -> float | None:
    """The noise level of a channel in units of its errors, that of what its lines leave; None where nothing is left.

    Args:
        channel: The data.
        tones: Components that were found, (K, P), which are taken off first.
        waveform: Their form.
    """
    errors = 1.0 if channel.errors is None else channel.errors
    rest = background_of(series_of(channel, tones, waveform), 0).rest.values / errors
    level = float(np.sqrt(np.mean(np.abs(rest) ** 2)))
    return level if level > 0 else None


def versions_of(backgrounds: Sequence[Background]) -> list[list[Series]]:
    """The channels without lines, and, where some lines are doubtful, also with these left in."""
    versions = [[b.rest for b in backgrounds]]
    if any(b.doubtful is not None for b in backgrounds):
        versions.append([b.rest if b.doubtful is None else b.doubtful for b in backgrounds])
    return versions


def red_versions_of(backgrounds: Sequence[Background]) -> list[list[Series]]:
    """The channels without lines but for slow ones, which may be red noise, and without any."""
    rests, with_slow, slow = [b.rest for b in backgrounds], [], False
    for b in backgrounds:
        lines = b.slow_lines(SLOW_BINS / b.rest.duration)
        slow |= bool(lines.any())
        with_slow.append(replace(b.rest, values=b.rest.values + lines))
    return [with_slow, rests] if slow else [rests]
