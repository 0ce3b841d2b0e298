r"""The band to analyse where none is stated: everything that the data can show, or the part of it that holds all peaks.

**Everything** (`whole_band`) begins at 1.5/T, half a bin further for each order of the trend that is marginalized, and
ends half a bin below the Nyquist frequency; complex samples show the whole circle of frequencies. Wide bands are
searched as a whole and analysed in windows around what was found (`slotflow.bands`).

**One stretch** is enough where all peaks lie in it: even, real series in which nothing stands out elsewhere are
answered in one window, which is the network's own where the series shows it. A peak stands out of the local floor: in
the Hann periodogram, medians of `BLOCK` bins, interpolated, divide the power, and noise alone exceeds the threshold in
one series out of a thousand.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.noise_level import median_power, periodogram
from slotflow.data.observation import Observation
from slotflow.data.preprocess import FALSE_ALARM, LEAKAGE, LOWEST_BIN, Band, strongest_band
from slotflow.data.trend import scaled, without_line
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import FEWEST_BINS

__all__ = ["checked_band", "proposed_band", "whole_band"]

Bounds = tuple[float, float]

FIRST_BIN = 1.5
"""Lowest frequency beside an offset that is marginalized, in bins."""
BLOCK = 64
"""Bins of a median of the local floor."""
UNCERTAIN_FLOOR = 1.5
"""How much higher a peak must be because the floor is an estimate."""
MARGIN = 3.0
"""Bins beside a band that belong to a peak at its edge."""


def whole_band(observation: Observation) -> Bounds:
    """Lowest and highest frequency in Hz that the first channel can show."""
    channel = observation.long
    if channel.is_complex:
        return -channel.nyquist, channel.nyquist
    low = (FIRST_BIN + 0.5 * max(channel.trend, 0)) / channel.duration
    high = channel.nyquist - 0.5 / channel.duration
    if not low < high:
        raise ValueError(
            f"expected a series long enough to show a frequency, received {channel.n} samples; measure longer."
        )
    return low, high


def checked_band(observation: Observation, band: Bounds) -> Bounds:
    """A stated band as the data can show it; one of complex data that wraps around goes on beyond Nyquist.

    Args:
        observation: The data.
        band: Lower and upper edge in Hz; the lower one may be the larger where a band wraps around.
    """
    (low, high), channel = band, observation.long
    if not (math.isfinite(low) and math.isfinite(high)):
        return band  # the prior refuses it
    if channel.is_complex:
        rate = 2 * channel.nyquist
        if high < low:
            high += rate
        if channel.is_even and high - low > rate * (1 + 1e-9):
            raise ValueError(
                f"expected a band of at most {rate:g} Hz, the whole circle of frequencies of complex samples "
                f"{channel.step:g} s apart, received {band[0]:g}–{band[1]:g} Hz; narrow it."
            )
        return low, high
    if low < 0:
        raise ValueError(
            f"expected a band above 0 Hz, since real series do not tell f from −f, received {low:g}–{high:g} Hz; state "
            "its positive part, or give complex samples."
        )
    return band


def proposed_band(model: SlotFlow, observation: Observation) -> tuple[Bounds, Band | None]:
    """The band to analyse, and the proposal behind it; None for the network's own band and for everything.

    Args:
        model: The network, one that takes any band.
        observation: The data.
    """
    assert model.widest_band is not None
    everything, channel = whole_band(observation), observation.long
    if not observation.is_plain:
        return everything, None
    if (everything[1] - everything[0]) * channel.duration <= model.widest_band:
        return everything, None
    own = model.config.prior.frequency
    power = periodogram(scaled(without_line(channel))[1])
    band = strongest_band(channel, math.floor(model.widest_band))
    peaks = _standing_out(power)
    shown = own[1] <= channel.nyquist and _is_window(model, channel, own)
    for edges, found in ((own, None), (band.edges, band)):
        inside = [edge * channel.duration for edge in edges]
        beyond = (peaks < inside[0] - MARGIN) | (peaks > inside[1] + MARGIN)
        if (found is not None or shown) and not beyond.any():
            return edges, found
    return everything, None


def _is_window(model: SlotFlow, channel: Channel, band: Bounds) -> bool:
    """Whether a network can analyse a band at once."""
    assert model.widest_band is not None
    return FEWEST_BINS <= (band[1] - band[0]) * channel.duration <= model.widest_band


def _standing_out(power: Array) -> Array:
    """Bins of a Hann periodogram, (bins,), that stand out of the local floor and of the leakage of stronger ones."""
    counted = np.arange(LOWEST_BIN, len(power))
    blocks = np.array_split(counted, max(1, len(counted) // BLOCK))
    centres = [block.mean() for block in blocks]
    levels = [max(float(median_power(power[block])), 1e-30) for block in blocks]
    floor = np.exp(np.interp(counted, centres, np.log(levels)))
    threshold = UNCERTAIN_FLOOR * floor * math.log(len(power) / FALSE_ALARM)
    here = power[counted]
    found: Array = counted[(here > threshold) & (here > LEAKAGE * here.max())]
    return found
