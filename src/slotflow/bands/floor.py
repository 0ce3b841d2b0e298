r"""The noise floor of a spectrum, local in frequency, and the power from which on a peak is no noise.

**Power.** With the matched filter D(f) = Σ b̄ x and W(f), twice the energy of a tone of unit amplitude
(`Likelihood.overlap` with itself), P(f) = |D|²/W. Of white noise P/σ² is exponential with mean 1, and a tone of
amplitude A has the peak P = A² W/4, for real and complex data alike.

**Floor.** The mean of P for the noise near f, from medians of P (the median of exponential variables is ln 2 times
their mean, and tones hardly move it). Red noise rises too steeply towards zero frequency for a median over several
bins: a slope a + b |f|^{−α} is fitted to the logarithms of medians in intervals of growing width first, and the
spectrum over that slope is then looked at in pieces. A piece reaches as far as `REACH` of its frequency to either side,
between `NARROWEST` and `WIDEST` bins; the logarithm of the floor is interpolated between them. K tones that were fitted
within a piece of m bins took 3K/2 bins of noise with them, and the median falls by as much: it is raised by
m/(m − 3K/2).

**Taper.** What a strong tone leaves before it is fitted well leaks over its neighbourhood and raises the floor there.
The same data under a Hann window do not leak; with the reference at mid-record its filter is ½ D(f) + ¼ D(f − 1/T) + ¼
D(f + 1/T). It keeps two thirds of a tone's power over the noise, and its peaks are twice as wide. Both spectra are
looked at, each over its own floor.

**Threshold.** A median of m values is as uncertain as a mean of about m/2 of them, ν = m real degrees of freedom, so
that P over the floor has an F law with 2 and ν degrees of freedom: P(> z) = (1 + 2z/ν)^{−ν/2}. Over B bins of 1/T the
highest peak of noise is that of about 4 B independent values, and the threshold is the z that one of them exceeds with
the probability p/4B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from slotflow.core.arrays import Array, Complex

__all__ = ["HANN_GAIN", "Floor", "local_floor", "stands_high", "tapered"]

REACH = 0.25
"""Half width of a piece of the spectrum over its distance from zero frequency."""
NARROWEST, WIDEST = 10.0, 60.0
"""Smallest and largest half width of a piece, in bins."""
VALUES_PER_BIN = 4.0
"""Independent values of a spectrum per bin, as far as its highest peak is concerned."""
TAKEN_BINS = 1.5
"""Bins of noise that a fitted tone takes away."""
FEWEST_FREE = 4.0
"""Bins of noise that are left in a piece at least, however many tones were fitted there."""

FIRST_INTERVAL, OCTAVE_SHARE = 3.0, 1.4
"""End of the first interval of the slope in bins, and ratio of the ends of an interval."""
FEWEST_POINTS, FEWEST_INTERVALS = 4, 5
"""Points of an interval, and intervals of a slope, at least."""
HANN_POWER = 0.375
"""Mean square of a Hann window."""
HANN_GAIN = 2 / 3
"""Power of a tone over the noise under a Hann window, over that without one."""
QUIET = 0.2
"""Share of the spectrum whose level is below that of the quiet parts."""
HIGH = 4.0
"""Level over that of the quiet parts, in power, from which on it stands high."""
STEEPEST = 6.0
"""Largest exponent of the slope."""


@dataclass(frozen=True, eq=False)
class Floor:
    """The noise of a spectrum."""

    level: Array
    """Mean of P(f) for noise alone, (F,)."""
    threshold: Array
    """Power over the level from which on a peak counts, (F,)."""
    certain: float
    """The same for a level that is known."""

    def where_known(self, level: Array) -> Floor:
        """The floor with the level that is known, (F,), instead of its own; NaN: not known."""
        known = np.isfinite(level)
        return Floor(
            np.where(known, level, self.level),
            np.where(known, self.certain, self.threshold),
            self.certain,
        )

    @property
    def visible(self) -> Array:
        """The smallest power P that counts, (F,)."""
        return self.level * self.threshold


def stands_high(level: Array) -> NDArray[np.bool_]:
    """Where a floor, (F,), in power, stands far above the quiet parts of its spectrum, (F,)."""
    high: NDArray[np.bool_] = level > HIGH * np.quantile(level, QUIET)
    return high


def tapered(matched: Complex, energy: Array, points_per_bin: int) -> Array:
    """P(f) of the Hann-tapered data, (F,), with the same mean as P(f) for white noise.

    Args:
        matched: D(f), (F,), on an even grid.
        energy: W(f), (F,).
        points_per_bin: Points of the grid per bin.
    """
    p = points_per_bin
    around = (
        np.pad(matched, p, mode="reflect") if len(matched) > p else np.pad(matched, p, mode="edge")
    )
    both = around[: -2 * p] + around[2 * p :]
    power: Array = np.abs(0.5 * matched + 0.25 * both) ** 2 / (HANN_POWER * energy)
    return power


def local_floor(
    power: Array, frequencies: Array, bin_width: float, places: Array, false_alarm: float
) -> Floor:
    """The floor of a spectrum that tones have been taken out of.

    Args:
        power: P(f), (F,), on an even grid of several points per bin.
        frequencies: In Hz, (F,), rising; negative ones belong to complex data.
        bin_width: 1/T in Hz.
        places: Frequencies of the tones that were fitted, (K,).
        false_alarm: Probability that noise alone exceeds the threshold anywhere.
    """
    bins = frequencies / bin_width
    smallest = np.finfo(np.float64).tiny
    slope = _slope(power, bins)
    power = power / slope
    total = max(float(bins[-1] - bins[0]), 1.0)
    places = np.sort(places / bin_width)
    centres, levels, freedom = [], [], []
    for centre, half in _pieces(float(bins[0]), float(bins[-1])):
        low, high = np.searchsorted(bins, (centre - half, centre + half))
        inside = max(float(bins[min(high, len(bins) - 1)] - bins[low]), 1.0)
        fitted = np.diff(np.searchsorted(places, (centre - half, centre + half)))[0]
        free = max(inside - TAKEN_BINS * fitted, FEWEST_FREE)
        middle = float(np.median(power[low : max(high, low + 1)]))
        centres.append(centre)
        levels.append(middle / np.log(2) * max(inside / free, 1.0))
        freedom.append(free)
    level = slope * np.exp(np.interp(bins, centres, np.log(np.maximum(levels, smallest))))
    nu = np.interp(bins, centres, freedom)
    chance = false_alarm / (VALUES_PER_BIN * total)
    return Floor(level, 0.5 * nu * np.expm1(-2 / nu * np.log(chance)), -float(np.log(chance)))


def _slope(power: Array, bins: Array) -> Array:
    """A smooth a + b |f|^{−α} that follows the medians of a spectrum, (F,)."""
    distance = np.maximum(np.abs(bins), 0.5)
    edges = FIRST_INTERVAL * OCTAVE_SHARE ** np.arange(200)
    centres, medians, weights = [], [], []
    order = np.argsort(distance, kind="stable")
    ranked, values = distance[order], power[order]
    for low, high in zip(np.append(0.0, edges), edges, strict=False):
        first, last = np.searchsorted(ranked, (low, high))
        if last - first >= FEWEST_POINTS:
            centres.append(np.sqrt(ranked[first] * ranked[last - 1]))
            medians.append(np.median(values[first:last]))
            weights.append(np.sqrt(ranked[last - 1] - ranked[first]))
    y = np.log(np.maximum(medians, np.finfo(np.float64).tiny))
    if len(y) < FEWEST_INTERVALS:
        return np.ones_like(power)
    x, weight = np.log(centres), np.array(weights)

    def model(p: Array, at: Array) -> Array:
        slope: Array = np.logaddexp(p[0], p[1] - p[2] * at)
        return slope

    def misfit(p: Array) -> Array:
        return weight * (model(p, x) - y)

    start = np.array([np.median(y), y[0] - 2 * np.log(10) + 3 * x[0], 2.0])
    bounds = ([-np.inf, -np.inf, 0.0], [np.inf, np.inf, STEEPEST])
    found = least_squares(misfit, start, bounds=bounds, loss="soft_l1", max_nfev=60)
    fitted: Array = np.exp(model(found.x, np.log(distance)))
    return fitted


def _pieces(low: float, high: float) -> list[tuple[float, float]]:
    """Centres and half widths in bins of overlapping pieces that cover a range of bins."""
    found: list[tuple[float, float]] = []
    centre = low
    while centre < high:
        half = float(np.clip(REACH * abs(centre), NARROWEST, WIDEST))
        # A piece at the end of the spectrum moves inwards and keeps its width.
        middle = min(max(centre, low + half), max(high - half, 0.5 * (low + high)))
        if not found or middle > found[-1][0]:
            found.append((middle, half))
        centre += half
    return found or [(0.5 * (low + high), NARROWEST)]
