r"""What a series is made of, roughly: lines above a smooth background.

Noise is fitted to what remains without lines, and lines stand out only against a background that is known. The two are
found in turns: a filter for the background, lines in the whitened spectrum, the lines taken off, the filter again.

- **The filter** with which lines are looked for comes from a periodogram clipped to a few times its running median:
  lines hardly enter, neither those that were found nor others. The last one, for what remains, is Burg's (`burg.py`),
  of the order that has the most evidence.
- **Lines** are peaks of the whitened spectrum, each taken off together with those around it (`lines.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import fft

from slotflow.core.budget import time_left
from slotflow.signal.noise.burg import best_order, partial_autocorrelations
from slotflow.signal.noise.filters import (
    Samples,
    autocovariance,
    partial_of_taps,
    taps_of_covariance,
    taps_of_partial,
)
from slotflow.signal.noise.lines import (
    MOST_LINES,
    Line,
    fitted_lines,
    peaks_of,
    running_floor,
    sum_of_lines,
)
from slotflow.signal.noise.series import Series

__all__ = ["LEAKED", "OUTSIDE", "Background", "background_of", "robust_filter"]

FEWEST_LINES = 24
"""Lines that are taken off of a very long series at most."""
ROUNDS = 16
"""Turns at most between lines and filter."""
LONG, FEW_ROUNDS = 10_000, 4
"""Samples from which on a series is long, and turns that are then made at most."""
BEYOND_DOUBT = 50.0
"""Height of a line from which on no analysis will do without it."""
LEAKED = 0.03
"""Power over the noise that a line outside the band may leave in it."""
MOST_LEAKING = 24
"""Lines outside the band that are integrated out at most."""
OUTSIDE = 1.0
"""Bins beside the band from which on a line is outside."""
CLIPPED_AT = 3.0
"""Power over the running median's level above which a bin does not shape the first filter."""


@dataclass(frozen=True, eq=False)
class Background:
    """A series as lines and noise."""

    rest: Series
    """The series without lines."""
    taps: Samples
    """A filter that makes the rest white, (p + 1,)."""
    lines: tuple[Line, ...] = ()
    """What was taken off, in the order of finding."""
    doubtful: Series | None = None
    """The series with those lines left in that are not beyond all doubt; None if there are none."""
    partial: Samples | None = None
    """Partial autocorrelations of the rest, (highest order,), where they were looked at."""

    @property
    def order(self) -> int:
        """Order of the filter."""
        return len(self.taps) - 1

    @cached_property
    def white(self) -> Series:
        """The whitened rest."""
        return self.rest.filtered(self.taps)

    @property
    def variance(self) -> float:
        """Mean power of the whitened rest."""
        return float(np.mean(np.abs(self.white.values) ** 2))

    def slow_lines(self, below: float) -> Samples:
        """The sum of the lines below a frequency in Hz, at the samples, (n,)."""
        return sum_of_lines(self.rest, [line for line in self.lines if abs(line.frequency) < below])

    def leaking(self, band: tuple[float, float]) -> tuple[float, ...]:
        """Frequencies of lines outside a band that leak into it, the worst first.

        At d bins beside the band a line of height z leaves about z/(πd)² of the noise there.
        """
        found = []
        for line in self.lines:
            away = self.rest.duration * self._beside(line.frequency, band)
            leak = line.height / (math.pi * max(away, 1.0)) ** 2
            if away > OUTSIDE and leak > LEAKED:
                found.append((leak, line.frequency))
        distinct: list[float] = []
        for _, f in sorted(found, reverse=True):
            if all(abs(f - other) * self.rest.duration > 1.0 for other in distinct):
                distinct.append(f)
        return tuple(distinct[:MOST_LEAKING])

    def _beside(self, f: float, band: tuple[float, float]) -> float:
        """Distance of a frequency from a band in Hz, around the circle for complex samples."""
        turns = (0, -1, 1) if self.rest.is_complex else (0,)
        places = [f + turn / self.rest.step for turn in turns]
        return min(max(band[0] - place, place - band[1], 0.0) for place in places)


def background_of(series: Series, highest: int, above: float = 0.0) -> Background:
    """Finds lines and background.

    Args:
        series: The samples less their nuisances.
        highest: Highest order of the filter; 0 for white noise, which is all that can be said of odd times.
        above: Frequency in Hz below which what stands out is background.
    """
    highest = min(highest, series.longest_filter)
    rest, lines = series, list[Line]()
    rounds = ROUNDS if series.n <= LONG else FEW_ROUNDS
    most = max(MOST_LINES * LONG // max(series.n, LONG), FEWEST_LINES)
    for done in range(rounds):
        if done and time_left() < 0:  # the lines so far are those that matter most
            break
        taps = robust_filter(rest, highest)
        peaks = peaks_of(rest.filtered(taps), above)[: most - len(lines)]
        if not peaks:
            break
        lines = fitted_lines(series, taps, lines, peaks)
        total = sum_of_lines(series, lines)
        rest = series.less(total)
        series = replace(rest, values=rest.values + total)  # nuisances as they are without lines
    partial = partial_autocorrelations(rest, highest)
    taps = taps_of_partial(partial[: best_order(partial, series.n)])
    doubtful = [line for line in lines if line.height < BEYOND_DOUBT]
    kept = replace(rest, values=rest.values + sum_of_lines(series, doubtful)) if doubtful else None
    return Background(rest, taps, tuple(lines), kept, partial)


def robust_filter(series: Series, highest: int) -> Samples:
    """A filter that lines hardly shape: the steepest slope by one tap, the rest from a clipped spectrum."""
    if highest == 0:
        return np.ones(1)
    steep = taps_of_partial(partial_autocorrelations(series, 1))
    _, power = series.filtered(steep).spectrum()
    floor, _ = running_floor(power, series.is_complex)
    clipped = np.minimum(power, CLIPPED_AT * floor)
    if series.is_complex:
        clipped = np.asarray(fft.ifftshift(clipped[:-1]))
    covariance = autocovariance(clipped, series.is_complex)
    covariance[0] *= 1 + 1e-9  # a spectrum may be empty somewhere
    taps, _ = taps_of_covariance(covariance, highest)
    partial = partial_of_taps(taps)
    return np.convolve(steep, taps_of_partial(partial[: best_order(partial, series.n)]))
