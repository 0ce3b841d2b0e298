"""A quick look at the spectrum of an even, real series: its floor, its peaks, and whether it is obviously coloured.

In the Hann periodogram of the series without offset and trend, medians of `BLOCK` bins, interpolated, are the floor.
A **peak** stands out of it if noise alone would exceed it in one series out of a thousand, and if it is no leakage of a
stronger one. The noise is **obviously coloured** if the floor rises or falls more than medians of white noise ever do;
the logarithm of such a median has a standard deviation of about `SPREAD`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.noise_level import median_power, periodogram
from slotflow.data.preprocess import FALSE_ALARM, LEAKAGE, LOWEST_BIN
from slotflow.data.trend import scaled, without_line

__all__ = ["Look", "look_at"]

BLOCK = 64
"""Bins of a median of the floor."""
UNCERTAIN_FLOOR = 1.5
"""How much higher a peak must be because the floor is an estimate."""
MARGIN = 3.0
"""Bins beside a band that belong to a peak at its edge."""
FAR_LEAKAGE = 1e-9
"""Share of the highest peak below which the floor is its leakage."""
SPREAD = 0.25
"""Standard deviation of the logarithm of a median of `BLOCK` bins of white noise; Hann bins correlate."""
OBVIOUS = 6.0
"""Such standard deviations between the highest and the lowest block beside those of the band."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a spectrum looks like."""

    duration: float
    """Length of the series in seconds."""
    peaks: NDArray[np.int64]
    """Bins that stand out."""
    centres: Array
    """Middles of the blocks, in bins, (m,)."""
    levels: Array
    """Their noise power, (m,)."""

    def peaks_outside(self, band: tuple[float, float]) -> NDArray[np.int64]:
        """Bins that stand out and lie outside a band in Hz."""
        low, high = (edge * self.duration for edge in band)
        found: NDArray[np.int64] = self.peaks[
            (self.peaks < low - MARGIN) | (self.peaks > high + MARGIN)
        ]
        return found

    def is_coloured_outside(self, band: tuple[float, float]) -> bool:
        """Whether the floor outside a band in Hz is obviously not flat."""
        low, high = (edge * self.duration for edge in band)
        outside = (self.centres < low - BLOCK) | (self.centres > high + BLOCK)
        levels = np.log(self.levels[outside])
        return bool(len(levels) > 1 and np.ptp(levels) > OBVIOUS * SPREAD)


def look_at(channel: Channel) -> Look:
    """Looks at an even, real series."""
    power = periodogram(scaled(without_line(channel))[1])
    counted = np.arange(LOWEST_BIN, max(len(power), LOWEST_BIN + 1))
    power = np.pad(power, (0, max(0, counted[-1] + 1 - len(power))))
    count = max(1, len(counted) // BLOCK)
    blocks = counted[: len(counted) // count * count].reshape(count, -1)
    centres, levels = blocks.mean(1), np.maximum(median_power(power[blocks]), 1e-30)
    floor = np.exp(np.interp(counted, centres, np.log(levels)))
    here = power[counted]
    levels = np.maximum(levels, FAR_LEAKAGE * float(here.max()))  # data without noise have no floor
    threshold = UNCERTAIN_FLOOR * floor * math.log(len(power) / FALSE_ALARM)
    peaks = counted[(here > threshold) & (here > LEAKAGE * here.max())]
    return Look(channel.duration, peaks, centres, levels)
