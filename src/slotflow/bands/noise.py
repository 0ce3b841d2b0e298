"""The noise of each window of a band: decided once for the whole series, then local to each window.

White noise over the whole spectrum stays white in every window. Where the series is not white, every window has local
noise (`slotflow.signal.noise.local`): the smooth filter for the whole is found once, from what the search leaves of the
data, and each window has a level, and if need be a slope, of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.signal.noise.background import Background, background_of
from slotflow.signal.noise.choice import choose_noise, known_ratios
from slotflow.signal.noise.local import LOCAL_ORDER, local_noise
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.noise.series import series_of
from slotflow.signal.noise.stated import parse_noise

__all__ = ["WindowNoise", "window_noise"]

LONGEST = 16_384
"""Samples that a filter is fitted to at most."""

Bounds = tuple[float, float]


@dataclass(frozen=True, eq=False)
class WindowNoise:
    """What each window assumes of the noise."""

    stated: Any
    """What every window is told; None where it is local."""
    backgrounds: tuple[Background, ...] = ()
    """Filters of the channels, for local noise."""
    ratios: tuple[float, ...] = ()
    """Noise levels of the channels as far as they are known, in units of the first one's."""
    words: str = ""
    """Why it is local."""

    @property
    def is_local(self) -> bool:
        """Whether each window has noise of its own."""
        return bool(self.backgrounds)

    def of(self, band: Bounds) -> Any:
        """What to say of the noise in a window between two frequencies in Hz."""
        if not self.is_local:
            return self.stated
        return local_noise(self.backgrounds, band, self.ratios, self.words)


def window_noise(observation: Observation, stated: Any, band: Bounds, tones: Array) -> WindowNoise:
    """The noise of all windows.

    Args:
        observation: The data.
        stated: What the user says of the noise.
        band: Lowest and highest frequency in Hz of all windows.
        tones: What the search found, (K, P).
    """
    if isinstance(stated, NoiseModel):
        return WindowNoise(stated)
    if any(np.ptp(channel.values) == 0 for channel in observation.channels):
        return WindowNoise("white")  # the verdict says what constant data are
    observation = Observation([_stretch(channel) for channel in observation.channels])
    kind = parse_noise(stated).kind
    if kind not in ("auto", "local"):
        return WindowNoise(stated)
    words = "local, as stated"
    if kind == "auto":
        chosen = choose_noise(observation, stated, band, tones)
        if chosen.is_white:
            return WindowNoise("white")
        words = f"local: {chosen.words.partition(': ')[2]}"
    series = [series_of(channel, tones) for channel in observation.channels]
    backgrounds = tuple(background_of(one, LOCAL_ORDER) for one in series)
    return WindowNoise(None, backgrounds, tuple(known_ratios(observation)), words)


def _stretch(channel: Channel) -> Channel:
    """The middle of a channel that is longer than a filter needs; its times stay what they are."""
    if channel.n <= LONGEST:
        return channel
    first = (channel.n - LONGEST) // 2
    part = slice(first, first + LONGEST)
    return replace(
        channel,
        values=channel.values[part],
        times=channel.times[part],
        t0=float(channel.times[first]),
        errors=None if channel.errors is None else channel.errors[part],
        segments=None if channel.segments is None else channel.segments[part],
        filled=(),
    )
