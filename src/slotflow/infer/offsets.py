"""Offsets and trends: what would leak into the band is taken out before the analysis, and said."""

from __future__ import annotations

from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.preprocess import SIGNIFICANT, describe
from slotflow.data.trend import check_remainder, removed_order, without_line

__all__ = ["without_offsets"]

FEWEST_CYCLES = 3.0
"""Cycles of the band's lowest frequency in a record from which on a Hann-weighted line leaves tones alone."""


def without_offsets(observation: Observation, lowest: float) -> Observation:
    """The observation without the offsets and trends that stand out of its noise.

    A series is left as it is where nothing stands out, and where tones of a few cycles may lie in the band: part of
    such a tone would pass for a trend.

    Args:
        observation: The data.
        lowest: Lower edge of the band, in Hz.
    """
    channels = [_without_offset(channel, lowest) for channel in observation.channels]
    if all(new is old for new, old in zip(channels, observation.channels, strict=True)):
        return observation
    return Observation(channels, removed=observation.removed)


def _without_offset(channel: Channel, lowest: float) -> Channel:
    """One series without an offset or a trend that stands out; its notes say what was subtracted."""
    if lowest * channel.duration < FEWEST_CYCLES or not channel.values.any():
        return channel
    found = describe(channel)
    order = 1 if abs(found.trend_sigmas) > SIGNIFICANT else 0
    if order == 0 and not abs(found.offset_sigmas) > SIGNIFICANT:
        return channel
    if (
        removed_order(channel.notes) >= order
    ):  # a caller's fit, which tones of few cycles have shifted
        return channel
    rest = without_line(channel, order)
    check_remainder(channel, rest)
    return rest
