r"""Is the noise of a whole band steady? What the tones of all windows leave, in cells of time and frequency.

Every window is tested, but most of a band may lie in none. A sweep, a burst or noise that is on for part of the record
is no tone, and averaged over the record it looks like a floor that is coloured. Its power over time tells it from one:

1. The tones of all windows are taken off, and an autoregressive filter takes the steep part of the colour.
2. Each Fourier coefficient of the band is divided by the root of the mean power of those around it, so that the noise
   is white within any part of the band.
3. The W coefficients of a sub-band, transformed back, are W complex samples that fill the record, as in
   `posterior/whiteness/left.py`. They are cut into parts, and the share of a part in their power has a beta law if the
   noise is steady (`share_test`).

**Cells.** A sweep is in one cell at a time if it crosses a sub-band while a part of the record lasts; noise that is on
for a while is seen best by sub-bands of its own width. The narrowest sub-bands have `FEWEST` samples in each part, the
next ones are four times as wide, and so on up to the band. The smallest p-value is that of as many tests as there are
cells.

**What is not there.** Where samples are missing, a part of the record has so much less power and so many fewer degrees
of freedom. A tone takes two of these evenly over the record, and one as the square of the time since its middle.

**What is not tested.** Channels with errors of each sample, with samples that do not follow each other at one step,
or with so many gaps that a filter cannot be fitted or half the record is missing; sub-bands of which tones take more
than the share `CROWDED`; parts of the record of which half is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import fft

from slotflow.core.arrays import Array, Complex
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.posterior.verdict import FALSE_ALARM, DrawQuality, Verdict, judge
from slotflow.posterior.whiteness.laws import Check, any_of, share_test
from slotflow.posterior.whiteness.made import ROUNDING
from slotflow.signal.noise.burg import best_order, partial_autocorrelations
from slotflow.signal.noise.filters import taps_of_partial
from slotflow.signal.noise.local import LOCAL_ORDER
from slotflow.signal.noise.series import series_of
from slotflow.signal.waveforms import TONE

__all__ = ["band_steadiness", "with_steadiness"]

PARTS = (4, 16, 64)
"""Numbers of parts into which the record is cut."""
FEWEST = 4
"""Complex samples of a sub-band in each part of the record, at least."""
WIDER = 4
"""Width of sub-bands in units of the next narrower ones'."""
NEAREST, FARTHEST = 3, 16
"""Bins to either side over which power is averaged, at zero frequency and far from it."""
REACH = 0.25
"""These bins in units of the distance from zero frequency, in between."""
CROWDED = 0.2
"""Share of the degrees of freedom of a sub-band that tones may take."""
EVENLY, SQUARE = 2.0, 1.0
"""Degrees of freedom that a tone takes evenly over the record, and as the square of the time since its middle."""
SHORTEST_FILTER = 8
"""Order of a filter that must be possible: gaps hold less, and the noise of a steep spectrum leaks where they are."""
MOSTLY = 0.5
"""Share of the record, and of a part of it, that must have been measured."""


@dataclass(frozen=True, eq=False)
class _WhiteBand:
    """What the tones leave of a channel in a band."""

    coefficients: Complex
    """White Fourier coefficients, (m,), at steps of 1/T."""
    first: int
    """Which multiple of 1/T the first is."""
    bin: float
    """1/T in Hz."""
    measured: Complex
    """Transform of the record, 1 where it was measured and 0 elsewhere, over its number of steps, (N//2 + 1,)."""
    tones: Array
    """Places of the tones in units of 1/T, in rising order, (K,)."""


@dataclass(frozen=True, eq=False)
class _Cells:
    """Sub-bands of one width, in parts of the record."""

    start: NDArray[np.int64]
    """Multiple of 1/T at which each begins, (B,)."""
    width: int
    """Of each, in units of 1/T."""
    times_mean: Array
    """Power of each cell in units of the mean of its sub-band, (B, P)."""
    p_value: Array
    """Of each cell alone, (B, P)."""


def band_steadiness(
    observation: Observation, tones: Array, band: tuple[float, float]
) -> Check | None:
    """Tests whether what tones leave of the data in a band is steady; None where no part of it can be tested.

    Args:
        observation: The data.
        tones: The best fit, (K, P).
        band: Lowest and highest frequency in Hz.
    """
    found = [
        (white, cells)
        for channel in observation.channels
        if (white := _white_band(channel, tones, band)) is not None
        for cells in _all_cells(white)
    ]
    count = sum(cells.p_value.size for _, cells in found)
    if not count:
        return None
    white, worst = min(found, key=lambda one: float(one[1].p_value.min()))
    p_value = float(any_of(worst.p_value.min(), count))
    return Check("steadiness (band)", p_value, _words(worst, white.bin, count))


def with_steadiness(
    verdict: Verdict, check: Check | None, false_alarm: float, tones: int
) -> Verdict:
    """The verdict on a band with the test of its steadiness.

    Where nothing was found, a band that fails is a misfit: what is there is no noise. Tones in windows that pass are
    not touched by what happens elsewhere, and the answer is approximate.

    Args:
        verdict: That of the windows.
        check: From `band_steadiness`.
        false_alarm: Rate of false alarms of this test.
        tones: How many were found.
    """
    if check is None:
        return verdict
    checks = tuple(sorted((*verdict.checks, check), key=lambda one: one.p_value))
    alone = judge((check,), DrawQuality(1.0), false_alarm=false_alarm)
    if alone.status != "misfit":
        return replace(verdict, checks=checks)
    if verdict.status == "misfit":
        return replace(verdict, reason=f"{verdict.reason}; {check.words}", checks=checks)
    if tones:
        reason = f"{check.words}; {verdict.reason}"
        return replace(verdict, status="approximate", reason=reason, checks=checks)
    return replace(verdict, status="misfit", reason=alone.reason, checks=checks)


def _white_band(channel: Channel, tones: Array, band: tuple[float, float]) -> _WhiteBand | None:
    """What tones leave of a channel in a band; None where there is nothing to test."""
    series = series_of(_as_measured(channel), tones)
    size = float(np.sqrt(np.mean(np.abs(series.values) ** 2)))
    nothing_left = size <= ROUNDING * float(np.abs(channel.values).max())
    if nothing_left or series.longest_filter < SHORTEST_FILTER:
        return None
    partial = partial_autocorrelations(series, min(LOCAL_ORDER, series.longest_filter))
    series = series.filtered(taps_of_partial(partial[: best_order(partial, series.n)]))
    place = np.rint((series.times - series.times[0]) / series.step).astype(np.int64)
    n = int(place[-1]) + 1
    if series.n < MOSTLY * n:
        return None
    grid, present = np.zeros(n, dtype=series.values.dtype), np.zeros(n)
    grid[place], present[place] = series.values, 1.0
    duration = n * series.step
    first, last = int(np.ceil(band[0] * duration)), int(np.floor(band[1] * duration))
    if series.is_complex:
        last = min(last, first + n - 1)
    else:
        first, last = max(first, 1), min(last, (n - 1) // 2)
    if last - first + 1 < FEWEST * PARTS[0]:
        return None
    k = np.arange(first, last + 1)
    coefficients = fft.fft(grid)[k % n]
    places = np.sort(TONE.place_of(tones)) * duration
    level = _level(np.abs(coefficients) ** 2, np.abs(k))
    measured = fft.rfft(present) / n
    return _WhiteBand(coefficients / np.sqrt(level), first, 1 / duration, measured, places)


def _as_measured(channel: Channel) -> Channel:
    """A channel without the samples that were filled."""
    if not channel.filled:
        return channel
    values = channel.values.copy()
    for first, last in channel.filled:
        values[first : last + 1] = np.nan
    return replace(channel, values=values, filled=())


def _level(power: Array, distance: NDArray[np.int64]) -> Array:
    """The mean power around each coefficient, (m,).

    Args:
        power: Of the coefficients, (m,).
        distance: From zero frequency, in bins, (m,).
    """
    m = len(power)
    half = np.clip((REACH * distance).astype(np.int64), NEAREST, FARTHEST)
    low, high = np.maximum(np.arange(m) - half, 0), np.minimum(np.arange(m) + half + 1, m)
    total = np.concatenate([[0.0], np.cumsum(power)])
    level: Array = np.maximum((total[high] - total[low]) / (high - low), 1e-300)
    return level


def _all_cells(white: _WhiteBand) -> Iterator[_Cells]:
    """Sub-bands of all widths, each in all numbers of parts."""
    m, width = len(white.coefficients), FEWEST * PARTS[0]
    while width <= m:
        start, taken, power = _sub_bands(white, width)
        seen = _seen(white.measured, width)
        for parts in PARTS if len(start) else ():
            if width >= FEWEST * parts:
                yield _cells(start, taken, power, seen, parts)
        width *= WIDER


def _sub_bands(white: _WhiteBand, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Sub-bands of one width that overlap by half, the last one flush with the end of the band.

    Returns:
        Where each begins, in units of 1/T, (B,); how many tones are in it, (B,); the power of its samples, (B, width).
    """
    m = len(white.coefficients)
    offset = np.append(np.arange(0, m - width, width // 2), m - width)
    start = white.first + offset
    taken = np.searchsorted(white.tones, start + width) - np.searchsorted(white.tones, start)
    free = (EVENLY + SQUARE) * taken <= CROWDED * 2 * width
    rows = sliding_window_view(white.coefficients, width)[offset[free]]
    return start[free], taken[free], np.abs(fft.ifft(rows, axis=-1)) ** 2


def _cells(
    start: NDArray[np.int64], taken: NDArray[np.int64], power: Array, seen: Array, parts: int
) -> _Cells:
    """Sub-bands, from `_sub_bands`, in parts of the record of which each sample has seen so much, (width,)."""
    width = power.shape[1]
    edges = np.arange(parts) * (width // parts)
    power = np.add.reduceat(power, edges, axis=-1)
    measured = np.add.reduceat(seen, edges)
    squares = np.diff(np.linspace(-1, 1, parts + 1) ** 3) / 2  # the shares of u² in the parts
    dof = 2 * measured - taken[:, None] * (EVENLY / parts + SQUARE * squares)
    dof = np.maximum(dof, 1.0)
    share = power / np.maximum(power.sum(-1, keepdims=True), 1e-300)
    p_value = np.where(measured > MOSTLY * width / parts, share_test(share, dof), 1.0)
    return _Cells(start, width, share * dof.sum(-1, keepdims=True) / dof, p_value)


def _seen(measured: Complex, width: int) -> Array:
    """How much of what each sample of a sub-band sees was measured, (width,), from 0 to 1.

    A sample sees the record through the kernel of the sub-band; the transform of its square is a triangle.
    """
    part = measured[: width // 2 + 1]
    triangle = 1 - np.arange(len(part)) / width
    seen: Array = np.clip(fft.irfft(part * triangle, width) * width, 0.0, 1.0)
    return seen


def _words(cells: _Cells, bin_width: float, count: int) -> str:
    """Where the noise is not steady: the sub-bands around the worst one that are not, and what is so in that one."""
    each = any_of(cells.p_value.min(-1), count)
    worst, part = np.unravel_index(int(cells.p_value.argmin()), cells.p_value.shape)
    low = high = int(worst)
    while low > 0 and each[low - 1] < FALSE_ALARM:
        low -= 1
    while high + 1 < len(each) and each[high + 1] < FALSE_ALARM:
        high += 1
    first, last = cells.start[low] * bin_width, (cells.start[high] + cells.width) * bin_width
    where = "there"
    if low < high:
        one = cells.start[worst] * bin_width, (cells.start[worst] + cells.width) * bin_width
        where = f"at {one[0]:.4g}–{one[1]:.4g} Hz"
    return (
        f"the noise at {first:.4g}–{last:.4g} Hz is not steady: its power {where} in part {part + 1} of "
        f"{cells.p_value.shape[1]} is {cells.times_mean[worst, part]:.2g} times its mean (a signal that sweeps or "
        "comes and goes?)"
    )
