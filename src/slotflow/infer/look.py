"""A quick look at the spectrum of an even, real series: its floor, its peaks, and whether it is obviously coloured.

In the Hann periodogram of the series without offset and trend, medians of `BLOCK` bins, interpolated, are the floor.
A **peak** stands out of it if noise alone would exceed it in one series out of a thousand, and if it is no leakage of a
stronger one. The noise is **obviously coloured** if the floor rises or falls more than medians of white noise ever do;
the logarithm of such a median has a standard deviation of about `SPREAD`. The more blocks there are, the further apart
are the highest and the lowest one: of m normal variables by 2 Φ⁻¹((m − 3/8)/(m + 1/4)) standard deviations (Blom).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.noise_level import median_power, periodogram
from slotflow.data.preprocess import FALSE_ALARM, LEAKAGE, LOWEST_BIN
from slotflow.data.trend import hann_weights, scaled, without_line

__all__ = ["MARGIN", "Look", "hann_leakage", "look_at", "unremarkable"]

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
STRICTER = 0.95
"""Share of a limit from which on a series of many is looked at alone."""
OBVIOUS, BEYOND = 6.0, 2.1
"""Such standard deviations between the highest and the lowest block beside those of the band, at least, and beyond what
white noise is expected to have."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a spectrum looks like."""

    duration: float
    """Length of the series in seconds."""
    peaks: NDArray[np.int64]
    """Bins that stand out."""
    powers: Array
    """Their power, as many."""
    centres: Array
    """Middles of the blocks, in bins, (m,)."""
    levels: Array
    """Their noise power, (m,)."""

    def peaks_outside(self, band: tuple[float, float]) -> NDArray[np.int64]:
        """Bins that stand out and lie outside a band in Hz, and are no leakage of what lies inside."""
        low, high = (edge * self.duration for edge in band)
        outside = (self.peaks < low - MARGIN) | (self.peaks > high + MARGIN)
        distance = np.abs(np.subtract.outer(self.peaks[outside], self.peaks[~outside]))
        leaked = (self.powers[~outside] * hann_leakage(distance)).sum(-1)
        found: NDArray[np.int64] = self.peaks[outside][self.powers[outside] > leaked]
        return found

    def is_coloured_outside(self, band: tuple[float, float]) -> bool:
        """Whether the floor outside a band in Hz is obviously not flat."""
        low, high = (edge * self.duration for edge in band)
        outside = (self.centres < low - BLOCK) | (self.centres > high + BLOCK)
        levels = np.log(self.levels[outside])
        return bool(len(levels) > 1 and np.ptp(levels) > _widest(len(levels)))


def _widest(blocks: int) -> float:
    """Largest difference of the logarithms of so many blocks that is not obviously colour."""
    expected = 2 * float(special.ndtri((blocks - 0.375) / (blocks + 0.25)))
    return SPREAD * max(OBVIOUS, expected + BEYOND)


def hann_leakage(distance: Array) -> Array:
    """Largest power of a tone in a Hann periodogram so many bins from its strongest bin, over the power there.

    The window's transform is sin(πd)/(πd (1 − d²)) in units of its maximum. A tone lies up to half a bin from its
    strongest bin, which then has 0.72 of its power.
    """
    d = np.maximum(distance - 0.5, 1.5)
    leakage: Array = 1 / (0.72 * (np.pi * d * (d**2 - 1)) ** 2)
    return leakage


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
    high = (here > threshold) & (here > LEAKAGE * here.max())
    return Look(channel.duration, counted[high], here[high], centres, levels)


def unremarkable(values: Tensor, duration: float, band: tuple[float, float]) -> Tensor:
    """Which of B series have neither peaks outside a band nor an obviously coloured floor, (B,), bool.

    A screen for many series at once, a little stricter than a look at each (`look_at`, `noise_choice.first_noise`).

    Args:
        values: Even, real samples without offset or trend that stand out, (B, N).
        duration: Length of the series in seconds.
        band: Frequencies in Hz.
    """
    n = values.shape[-1]
    window = torch.as_tensor(hann_weights(n).copy(), device=values.device)
    x = values - values.mean(-1, keepdim=True)
    power = (torch.fft.rfft(x * window).abs() ** 2 / (window**2).sum())[:, : n // 2]
    largest = power[:, LOWEST_BIN:].amax(-1)
    counted = np.arange(LOWEST_BIN, power.shape[-1])
    count = max(1, len(counted) // BLOCK)
    blocks = counted[: len(counted) // count * count].reshape(count, -1)
    ordered = power[:, torch.from_numpy(blocks).to(power.device)].sort(dim=-1).values
    width = blocks.shape[1]
    middle = 0.5 * (ordered[..., (width - 1) // 2] + ordered[..., width // 2])
    levels = (middle / math.log(2)).maximum(FAR_LEAKAGE * largest[:, None])  # (B, blocks)
    low, high = (edge * duration for edge in band)
    centres = blocks.mean(1)
    beside = np.flatnonzero((centres < low - BLOCK) | (centres > high + BLOCK))
    flat = torch.ones_like(levels[:, 0], dtype=torch.bool)
    if len(beside) > 1:
        logs = levels[:, torch.from_numpy(beside).to(levels.device)].log()
        flat = logs.amax(-1) - logs.amin(-1) < STRICTER * _widest(len(beside))
    outside = counted[(counted < low - MARGIN) | (counted > high + MARGIN)]
    between = np.stack([np.interp(outside, centres, one) for one in np.eye(count)])
    floor = (levels.log() @ torch.from_numpy(between).to(levels)).exp()  # (B, bins)
    threshold = UNCERTAIN_FLOOR * floor * math.log(power.shape[-1] / FALSE_ALARM)
    here = power[:, torch.from_numpy(outside).to(power.device)]
    low_enough = here < STRICTER * threshold.maximum(LEAKAGE * largest[:, None])
    found: Tensor = flat & low_enough.all(-1)
    return found
