r"""Lines of a series: peaks of its whitened spectrum, and the tones that are taken off for them.

- **A peak** of the Hann periodogram of the whitened series is measured against the running median, z. Where the median
  stands for m exponentials, P(z) = (1 + z/m)^{−m} for one bin of noise; a peak counts if less than `FALSE_LINES` of its
  height are expected in the whole spectrum.
- **It is taken off** as (c + d·u) e^{2πifu}, c and d from weighted least squares of the whitened series, together with
  the lines around it: the slope d corrects the frequency to f + Im(d/c)/2π, and follows lines that are a little broad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import ndimage

from slotflow.core.arrays import Array
from slotflow.core.numeric import phasor
from slotflow.signal.noise.filters import Samples, gain
from slotflow.signal.noise.series import OVERSAMPLING, Series

__all__ = ["MOST_LINES", "Line", "fitted_lines", "peaks_of", "running_floor", "sum_of_lines"]

FALSE_LINES = 1e-3
"""Lines that noise alone makes, on average."""
MOST_LINES = 128
"""Lines that are taken off at most."""
FEWEST_BINS, MOST_BINS = 25, 201
"""Bins of the running median."""
WORTH = 0.25
"""Exponentials that a bin of the running median is worth: Hann bins correlate, and a median is not a mean."""
APART = 4
"""Bins between lines that are found in one turn."""
GROUP = 24.0
"""Bins between lines that are fitted apart: the Hann window's leakage is 1e-5 there."""
LARGEST_GROUP = 24
"""Lines that are fitted together at most."""
STEPS = 4
"""Gauss–Newton steps of a group."""
SETTLED = 1e-4
"""Shift of a frequency, in bins, at which it is found."""


@dataclass(frozen=True)
class Line:
    """One line of a series, (c + d·u) e^{2πifu}, u being time since mid-record."""

    frequency: float
    """In Hz."""
    amplitude: complex
    """C, at mid-record."""
    slope: complex
    """D, per second."""
    height: float
    """Peak of the whitened periodogram over the background when it was found."""

    def values(self, u: Array) -> Samples:
        """The complex line at times since mid-record, (n,)."""
        found: Samples = (self.amplitude + self.slope * u) * phasor(self.frequency * u)
        return found


def running_floor(power: Array, is_complex: bool = False) -> tuple[Array, float]:
    """The level of a background under a spectrum that is oversampled (see `Series.spectrum`).

    Args:
        power: (F,).
        is_complex: Whether the spectrum closes to a circle.

    Returns:
        The mean power of the noise at every frequency, (F,), and how many exponentials each value stands for.
    """
    bins = power[::OVERSAMPLING]
    width = min(max(FEWEST_BINS, len(bins) // 2), MOST_BINS, len(bins))
    width -= 1 - width % 2
    level = ndimage.median_filter(bins, width, mode="wrap" if is_complex else "mirror")
    places = np.arange(len(power)) / OVERSAMPLING
    floor = np.interp(places, np.arange(len(bins)), level / math.log(2))
    return np.maximum(floor, 1e-300), max(WORTH * width, 1.0)


def _since_middle(series: Series, times: Array) -> Array:
    """Times since the middle of a series."""
    since: Array = times - 0.5 * (series.times[0] + series.times[-1])
    return since


def sum_of_lines(series: Series, lines: Sequence[Line]) -> Samples:
    """All lines at the samples of a series, (n,)."""
    u, total = _since_middle(series, series.times), np.zeros_like(series.values)
    for line in lines:
        values = line.values(u)
        total = total + (values if series.is_complex else values.real)
    return total


def fitted_lines(
    series: Series, taps: Samples, lines: Sequence[Line], peaks: Sequence[tuple[float, float]]
) -> list[Line]:
    """Old lines and new peaks, fitted together to the whitened series wherever a new one is near.

    Args:
        series: With all lines.
        taps: The filter under which they are fitted.
        lines: Those found before.
        peaks: Frequency and height of the new ones.
    """
    white, bin_ = series.filtered(taps), 1 / series.duration
    u = _since_middle(series, white.times)
    weights = np.cos(np.pi * (white.times - white.times.mean()) / (white.duration + white.step))
    weights = weights if white.errors is None else weights / white.errors
    rest = white.values - _whitened_sum(lines, taps, series, u)
    everything = [*lines, *(Line(f, 0j, 0j, height) for f, height in peaks)]
    everything.sort(key=lambda line: line.frequency)
    found: list[Line] = []
    for group in _groups(everything, GROUP * bin_):
        if all(line.amplitude for line in group):
            found += group
            continue
        target = rest + _whitened_sum(group, taps, series, u)
        for _ in range(STEPS):
            group = _solved(target, group, u, weights, bin_)
            if all(abs(_shift(line)) < SETTLED * bin_ for line in group):
                break
        rest = target - _as_kind(np.sum([line.values(u) for line in group], 0), series)
        gains = gain(taps, series.step, np.array([line.frequency for line in group]))
        found += [
            replace(line, amplitude=line.amplitude / complex(g), slope=line.slope / complex(g))
            for line, g in zip(group, gains, strict=True)
        ]
    return found


def _whitened_sum(lines: Sequence[Line], taps: Samples, series: Series, u: Array) -> Samples:
    """Lines after the filter at times u since mid-record."""
    total = np.zeros(len(u), dtype=np.complex128)
    if lines:
        gains = gain(taps, series.step, np.array([line.frequency for line in lines]))
        for line, g in zip(lines, gains, strict=True):
            total += g * line.values(u)
    return _as_kind(total, series)


def _as_kind(values: Samples, series: Series) -> Samples:
    """Complex values, or their real part for a real series."""
    return values if series.is_complex else values.real


def _groups(lines: Sequence[Line], apart: float) -> list[list[Line]]:
    """Lines in the order of frequency, cut where two neighbours are far apart or a group has become large."""
    groups: list[list[Line]] = []
    for line in lines:
        near = groups and line.frequency - groups[-1][-1].frequency < apart
        if near and len(groups[-1]) < LARGEST_GROUP:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _solved(
    target: Samples, group: Sequence[Line], u: Array, weights: Array, bin_: float
) -> list[Line]:
    """One Gauss–Newton step of a few lines: c and d by weighted least squares, and the frequencies that d asks for."""
    f = np.array([line.frequency for line in group])
    f = f + np.clip([_shift(line) for line in group], -0.3 * bin_, 0.3 * bin_)
    waves = phasor(np.multiply.outer(f, u)) * weights
    both = np.concatenate([waves, waves * (u * bin_)])  # (2L, n)
    if target.dtype.kind == "c":
        gram, seen = both.conj() @ both.T, both.conj() @ (target * weights)
    else:
        columns = np.concatenate([both.real, -both.imag])
        gram, seen = columns @ columns.T, columns @ (target * weights)
    gram = gram + 1e-12 * np.trace(gram).real / len(gram) * np.eye(len(gram))
    x = np.linalg.solve(gram, seen)
    if target.dtype.kind != "c":
        x = x[: len(both)] + 1j * x[len(both) :]
    c, d = x[: len(group)], x[len(group) :] * bin_
    return [
        replace(line, frequency=float(a), amplitude=complex(b), slope=complex(s))
        for line, a, b, s in zip(group, f, c, d, strict=True)
    ]


def _shift(line: Line) -> float:
    """By how much the slope wants the frequency to change, in Hz."""
    return (line.slope / line.amplitude).imag / (2 * math.pi) if line.amplitude else 0.0


def peaks_of(white: Series, above: float) -> list[tuple[float, float]]:
    """Frequency and height of peaks that noise would hardly make, the highest first, none close to another."""
    if white.n < 16:
        return []
    f, power = white.spectrum()
    floor, worth = running_floor(power, white.is_complex)
    height = power / floor
    expected = FALSE_LINES / (0.5 * white.n if not white.is_complex else white.n)
    threshold = worth * (expected ** (-1 / worth) - 1)
    inner = np.abs(f) >= above
    if not white.is_complex:
        inner &= (f > 1 / white.duration) & (f < white.nyquist - 1 / white.duration)
    top = inner[1:-1] & (height[1:-1] >= height[:-2]) & (height[1:-1] > height[2:])
    places = 1 + np.flatnonzero(top & (height[1:-1] > threshold))
    places = places[np.argsort(-power[places])]
    chosen = np.zeros(0, dtype=np.int64)
    for place in places:
        if len(chosen) >= MOST_LINES:
            break
        away = np.abs(place - chosen) / OVERSAMPLING
        leaked = (
            4 * power[chosen] / np.maximum(math.pi * away**3, 1e-3) ** 2
        )  # a Hann window's side lobes
        if (away > APART).all() and (power[place] > leaked).all():
            chosen = np.append(chosen, place)
    return [(_refined(f, power, int(i)), float(height[i])) for i in chosen]


def _refined(f: Array, power: Array, top: int) -> float:
    """Frequency of a peak by a parabola through the logarithms of three powers."""
    below, at, above = np.log(np.maximum(power[top - 1 : top + 2], 1e-300))
    bend = below - 2 * at + above
    shift = 0.5 * (below - above) / bend if bend < 0 else 0.0
    return float(f[top] + shift * (f[1] - f[0]))
