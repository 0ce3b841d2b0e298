r"""How a channel with red noise is made white: by a filter, or by sinusoids whose amplitudes are integrated out.

**Few red bins, or odd times**: modes. The red part is a sum over frequencies j/T', T' = 2T, and two below, of sinusoids
whose amplitudes have the variance 2 dt S_red/T' each: exact but for what repeats after T' and what lies above the
highest mode, where the red part is below `NEGLIGIBLE` of the floor. With the modes' Gram matrix M under the white part
and their variances D, the noise's determinant is that of 1 + D^{½} M D^{½}.

**Many red bins of an even series**: a filter (`filters.py`), of one order for all nodes so that all of them explain the
same samples. It costs as many samples as it has coefficients, modes cost time: the filter is taken where the modes
would be many for the number of samples and it loses less than `FILTER_LOSS` of the logarithm of the likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from slotflow.core.arrays import Array
from slotflow.core.numeric import phasor
from slotflow.signal.noise.filters import filter_loss, taps_of_power, whitened
from slotflow.signal.noise.model import ChannelNoise, Modes
from slotflow.signal.noise.series import Series

__all__ = [
    "FILTER_LOSS",
    "Filtered",
    "Shape",
    "Whitener",
    "WithModes",
    "mode_frequencies",
    "mode_variances",
    "red_power",
    "whitener_of",
]

NEGLIGIBLE = 0.03
"""Red power over the floor above the highest mode."""
MOST_MODES = 240
"""Modes of a channel at most; an even series with more of them is filtered instead."""
LONGEST_FILTER = 512
"""Highest order of a filter."""
FEW_MODES = 0.06
"""Modes for each sample up to which an even series is not filtered."""
FILTER_LOSS = 0.3
"""What a filter may lose of the logarithm of the likelihood where modes would do."""
PERIODS = 2
"""T'/T."""
SLOW, SLOW_CELLS = np.array([0.18, 0.35]), np.array([0.125, 0.25])
"""Modes below 1/T', and the widths of their cells, in units of 1/T'."""

Shape = tuple[float, float]
"""Knee in Hz and exponent."""


def red_power(f: Array, knee: float, exponent: float) -> Array:
    """The red part of the spectrum over σ², same shape as f."""
    red: Array = (np.abs(f) / knee) ** -exponent
    return red


def mode_frequencies(duration: float, count: int) -> Array:
    """Frequencies of modes in Hz, (count + 2,): two below 1/T' for what drifts over the record, then j/T'."""
    return np.concatenate([SLOW, np.arange(1, count + 1)]) / (PERIODS * duration)


def mode_variances(f: Array, shape: Shape, step: float) -> Array:
    """Variance of the cosine's and the sine's amplitude of modes, (Q,), in units of σ².

    White noise of S = 1 at a step dt has 1/dt of power per hertz on both sides together, so that a cell of the width w
    holds 2·dt·w·S; half of A² is the power of an amplitude A.

    Args:
        f: Of `mode_frequencies`.
        shape: Knee in Hz and exponent.
        step: dt, in seconds.
    """
    width = np.concatenate([SLOW_CELLS, np.ones(len(f) - len(SLOW))]) * f[len(SLOW)]
    variances: Array = 2 * step * width * red_power(f, *shape)
    return variances


@dataclass(frozen=True, eq=False)
class Filtered:
    """An even series with many red bins."""

    series: Series
    order: int

    def noise(self, shape: Shape, ratio: float) -> ChannelNoise:
        """The filter of a node."""
        taps, level = taps_of_power(
            _spectrum(shape),
            self.series.step,
            self.series.n,
            is_complex=self.series.is_complex,
            longest=self.order,
            order=self.order,
        )
        return ChannelNoise(taps, ratio * level)

    def quadratic(self, shape: Shape) -> tuple[float, float, int]:
        """RSS at σ = 1, half the logarithm of the covariance's determinant, and the real numbers that are explained."""
        noise, series = self.noise(shape, 1.0), self.series
        left = whitened(series.values, noise.taps, series.stretches)
        reals = len(left) * (2 if series.is_complex else 1)
        rss = float((np.abs(left) ** 2).sum()) / noise.ratio**2
        return rss, reals * math.log(noise.ratio), reals


@dataclass(frozen=True, eq=False)
class WithModes:
    """A series at any times with few red bins."""

    series: Series
    count: int

    @cached_property
    def frequencies(self) -> Array:
        """Of the modes, in Hz, (Q,)."""
        return mode_frequencies(self.series.duration, self.count)

    @cached_property
    def sums(self) -> tuple[Array, Array, float, float]:
        """Gram matrix of the modes (2Q, 2Q), their products with the data (2Q,) or (2Q, 2), Σ|x|²/e², Σ ln e."""
        series = self.series
        inverse = np.ones(series.n) if series.errors is None else 1 / series.errors
        size = 2 * len(self.frequencies)
        gram, seen = np.zeros((size, size)), np.zeros((size, 2))
        for part in np.array_split(np.arange(series.n), 1 + series.n // 4096):
            waves = phasor(np.multiply.outer(self.frequencies, series.times[part]))
            columns = np.concatenate([waves.real, waves.imag]) * inverse[part]
            y = series.values[part] * inverse[part]
            gram += columns @ columns.T
            seen += columns @ np.stack([y.real, y.imag], 1)
        energy = float((np.abs(series.values * inverse) ** 2).sum())
        return gram, seen, energy, -float(np.log(inverse).sum())

    def noise(self, shape: Shape, ratio: float) -> ChannelNoise:
        """The modes of a node."""
        variances = mode_variances(self.frequencies, shape, self.series.step) * ratio**2
        return ChannelNoise(ratio=ratio, modes=Modes(self.frequencies, variances))

    def quadratic(self, shape: Shape) -> tuple[float, float, int]:
        """RSS at σ = 1, half the logarithm of the covariance's determinant, and the real numbers that are explained."""
        gram, seen, energy, log_errors = self.sums
        sd = np.sqrt(np.tile(mode_variances(self.frequencies, shape, self.series.step), 2))
        matrix = np.eye(len(sd)) + sd[:, None] * gram * sd
        factor = linalg.cholesky(matrix, lower=True, check_finite=False)
        solved = linalg.solve_triangular(factor, sd[:, None] * seen, lower=True, check_finite=False)
        reals = 2 if self.series.is_complex else 1
        half = float(np.log(factor.diagonal()).sum()) + log_errors
        return energy - float((solved**2).sum()), reals * half, reals * self.series.n


Whitener = Filtered | WithModes
"""Either of the two."""


def whitener_of(series: Series, shape: Shape) -> Whitener:
    """How a series with about that noise is whitened best."""
    knee, exponent = shape
    highest = min(knee * NEGLIGIBLE ** (-1 / exponent), series.nyquist)
    count = max(math.ceil(1.5 * PERIODS * series.duration * highest), 8)
    longest = min(series.longest_filter, LONGEST_FILTER)
    if longest > 0 and (count > MOST_MODES or _is_filtered_well(series, shape, count, longest)):
        best, _ = taps_of_power(
            _spectrum(shape), series.step, series.n, is_complex=series.is_complex, longest=longest
        )
        return Filtered(series, min(2 * len(best), longest))  # other nodes may want more
    most = math.ceil(PERIODS * series.duration * series.nyquist) - 1
    return WithModes(series, max(min(count, MOST_MODES, most), 1))


def _is_filtered_well(series: Series, shape: Shape, modes: int, longest: int) -> bool:
    """Whether a filter does what so many modes would, many for the number of samples, and loses little."""
    if modes <= FEW_MODES * series.n:
        return False
    loss = filter_loss(_spectrum(shape), series.step, series.n, longest, series.is_complex)
    return loss < FILTER_LOSS


def _spectrum(shape: Shape) -> Callable[[Array], Array]:
    """S over σ² of a node."""
    return lambda f: 1 + red_power(f, *shape)
