"""What a spectrum shows: peaks of the residual of some components, and the side lobes of an uneven sampling."""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Likelihood, Statistics
from slotflow.signal.prior import Prior

__all__ = ["peaks", "residual_power", "side_lobes"]

PADDING = 8
"""Points of the spectrum per bin."""
SIDE_LOBE, SIDE_LOBES = 0.5, 4
"""Height of a side lobe of the sampling, in units of the main one, that may be taken for a tone; and how many are."""


def peaks(statistics: Likelihood, z: Array, prior: Prior, count: int) -> list[float]:
    """Frequencies of the strongest peaks of the residual in the band, on the long stream, the strongest first.

    Args:
        statistics: Of one signal.
        z: Tones that are subtracted first, (K, 3).
        prior: Gives the band.
        count: Peaks at most.
    """
    f, power = residual_power(statistics, z, prior.frequency)
    inside = power[1:-1]
    top = (inside >= power[:-2]) & (inside > power[2:])
    top &= (f[1:-1] >= prior.frequency[0]) & (f[1:-1] <= prior.frequency[1])
    index = np.flatnonzero(top)
    return [float(f[1 + i]) for i in index[np.argsort(-inside[index])][:count]]


def residual_power(
    statistics: Likelihood, z: Array, band: tuple[float, float]
) -> tuple[Array, Array]:
    """Power of the residual of tones z, (K, Z), in units of the noise's mean, and its frequencies in Hz, (G,) each.

    Even channels have an FFT for it, the first of them alone; any other likelihood knows its matched filter.
    """
    low, high = band
    if isinstance(statistics, Statistics):
        grid, rest = statistics.grids[0], statistics.residuals(z)[0]
        size = 2 ** math.ceil(math.log2(PADDING * grid.n))
        step = 1 / (size * grid.dt)
        first, last = max(math.ceil(low / step) - 1, 0), min(math.ceil(high / step), size // 2)
        spectrum = np.abs(np.fft.rfft(rest, size)[first : last + 1]) ** 2
        level = max(float((rest**2).sum()), 1e-300)  # N σ² if nothing but noise is left
        return step * np.arange(first, first + len(spectrum)), spectrum / level
    step = statistics.bin / PADDING
    f = np.arange(low - step, high + 1.5 * step, step)
    left = statistics.less(z)
    variance = max(float(left.energy), 1e-300) / statistics.n
    power = np.abs(left.matched(f[None, :, None])[0, :, 0]) ** 2
    power /= np.maximum(statistics.weight_at(f), 1e-300)
    apart = statistics.apart_with_one_more(z, f)
    if apart is not None:  # half the fall of RSS is a power
        power = power + 0.5 * apart[0]
    return f, power / variance


def side_lobes(statistics: Likelihood, band: tuple[float, float]) -> list[tuple[float, float]]:
    """Distances in Hz, and heights, of the strongest side lobes of an uneven sampling, the highest first.

    Args:
        statistics: Of one signal; even samples have no side lobe that counts.
        band: Lowest and highest frequency in Hz.
    """
    if isinstance(statistics, Statistics):
        return []
    distance = np.arange(1.5 * statistics.bin, band[1] - band[0], statistics.bin / PADDING)
    if len(distance) < 3:
        return []
    height = np.abs(statistics.kernel(distance))
    height /= abs(complex(statistics.kernel(np.zeros(1))[0]))
    middle = height[1:-1]
    top = np.flatnonzero((middle >= height[:-2]) & (middle > height[2:]) & (middle > SIDE_LOBE))
    best = top[np.argsort(-middle[top])][:SIDE_LOBES]
    return [(float(distance[1 + i]), float(middle[i])) for i in best]
