"""Offsets and trends: what would leak into the band is taken out before the analysis, or marginalized in it, and said.

Far above zero frequency an offset of an even series is subtracted (a Hann-weighted fit, which leaves tones of three
cycles and more alone), and the likelihood keeps its closed forms. Nearer to zero the offset is a nuisance of the
likelihood, and so are offset and slope wherever the likelihood is not that of plain data.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from slotflow.data.channel import HIGHEST_TREND, Channel
from slotflow.data.observation import Observation
from slotflow.data.preprocess import SIGNIFICANT, describe
from slotflow.data.slow_tone import is_slow_tone
from slotflow.data.trend import check_remainder, detrend, removed_order, without_line
from slotflow.infer.request import with_channels

__all__ = ["plain_data", "wanted_order", "with_trends", "without_offsets"]

FEWEST_CYCLES = 3.0
"""Cycles of the band's lowest frequency in a record from which on a Hann-weighted line leaves tones alone."""
FAR_CYCLES = 20.0
"""Cycles from which on a stated trend may be subtracted by least squares instead of being marginalized."""
FEWEST_SAMPLES = 16
"""Samples below which an offset that stands out is nothing but chance."""
STEEP = 30.0
"""How much stronger than slow noise a part of a trend must be."""
MARGINALIZED = "a trend stands out: a polynomial of order {} is marginalized"


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
    return with_channels(observation, channels)


def plain_data(
    observation: Observation, lowest: float, network_alone: bool = False
) -> Observation | None:
    """Even, real data without what would leak into the band; None where that must be marginalized instead.

    Args:
        observation: Even, real data.
        lowest: Lower edge of the band, in Hz.
        network_alone: Whether nobody marginalizes anything; what stands out is then subtracted in any case.
    """
    orders = [channel.trend for channel in observation.channels]
    if max(orders) > 0:
        far = all(lowest * channel.duration >= FAR_CYCLES for channel in observation.channels)
        if not far and not network_alone:
            return None
        channels = [detrend(channel, max(channel.trend, 0)) for channel in observation.channels]
        return with_channels(observation, channels)
    stays = any(
        channel.trend == 0
        and channel.n >= FEWEST_SAMPLES
        and lowest * channel.duration < FEWEST_CYCLES
        and _standing_out(channel) is not None
        for channel in observation.channels
    )
    if stays and not network_alone:
        return None
    return without_offsets(observation, math.inf if network_alone else lowest)


def with_trends(observation: Observation) -> Observation:
    """The observation with the trend among its nuisances that stands out of the noise, where none is asked for."""
    orders = [wanted_order(c) if c.trend == 0 else 0 for c in observation.channels]
    if not any(orders):
        return observation
    channels = [
        replace(channel, trend=order, notes=(*channel.notes, MARGINALIZED.format(order)))
        if order
        else channel
        for channel, order in zip(observation.channels, orders, strict=True)
    ]
    return with_channels(observation, channels)


def wanted_order(channel: Channel) -> int:
    """Order of the polynomial that stands out of a series: 0 for an offset or nothing, up to `HIGHEST_TREND`.

    A slope is measured beside tones (`slotflow.data.trend`), and a tone of a few cycles is none. Higher orders count
    if their part of the series is `STEEP` times stronger than what a polynomial of the highest order leaves at the
    frequencies 2/T to 6/T: slow noise and slow tones are there too, a trend is not.
    """
    if channel.is_complex or channel.n < FEWEST_SAMPLES or _standing_out(channel) != 1:
        return 0
    x = channel.values - channel.values.mean()
    u = 2 * (channel.times - channel.mid_time) / (channel.times[-1] - channel.times[0])
    basis = np.linalg.qr(np.polynomial.legendre.legvander(u, HIGHEST_TREND))[0].T  # (orders, n)
    parts = basis @ x
    rest = x - parts @ basis
    waves = np.exp(-1j * np.pi * np.arange(2, 7)[:, None] * u)
    level = float(np.mean(np.abs(waves @ rest) ** 2)) / channel.n
    steep = np.flatnonzero(parts**2 > STEEP * level)
    return max(1, int(steep.max(initial=1)))


def _standing_out(channel: Channel) -> int | None:
    """Order of the polynomial that stands out of a real series: 0, 1, or None for nothing."""
    if not channel.values.any():
        return None
    found = describe(channel)
    steep = abs(found.trend_sigmas) > SIGNIFICANT
    order = 1 if steep and not is_slow_tone(channel, found.noise) else 0
    if order == 0 and not abs(found.offset_sigmas) > SIGNIFICANT:
        return None
    # A caller's fit, which tones of few cycles have shifted, is left alone.
    return None if removed_order(channel.notes) >= order else order


def _without_offset(channel: Channel, lowest: float) -> Channel:
    """One series without an offset or a trend that stands out; its notes say what was subtracted."""
    if lowest * channel.duration < FEWEST_CYCLES:
        return channel
    order = _standing_out(channel)
    if order is None:
        return channel
    rest = without_line(channel, order)
    check_remainder(channel, rest)
    return rest
