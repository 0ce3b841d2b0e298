r"""Sums over samples at any times as smooth functions of frequency: one nonuniform FFT, then eight products a value.

**Sums.** Let u be time since the reference, |u| ≤ U. The moments

.. math:: M_p(f) = \sum_i a_i\, u_i^p\, e^{2πifu_i}

are needed at thousands of frequencies. On an even grid of frequencies f_0 + l h they are a nonuniform FFT of the first
kind: the a_i are spread over the W nearest points of an even grid of times with the kernel ψ of `table.py`, an FFT
follows, and the transform of ψ is divided out. The error is of the order of rounding.

**Curves.** Between two neighbouring frequencies of the grid M_p is the polynomial of degree seven that has its value
and its first three derivatives at both ends; since dM_p/df = 2πi M_{p+1}, these are known exactly. The error is below
(πUh)^8/8! of the largest possible value: with h = 1/20U it is 1e-11, whatever the number of samples. A value then costs
eight complex products and no sine.

**Symmetry.** If the a_i are real, M_p(−f) is the conjugate of M_p(f): half of a range around zero is enough.
"""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft, sparse

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import phasor
from slotflow.signal.likelihood.table import BETA, WIDTH, fast_size, kernel_weights

__all__ = [
    "Curve",
    "Moments",
    "MomentsOver",
    "Spread",
    "kept_moments",
    "spread_of",
    "sums_on_a_grid",
    "window_moments",
]

FINE, COARSE = 20, 10
"""Frequencies of the grid per 1/U, and how many where the range is wide."""
WIDE = 8000.0
"""Range of frequencies, in units of 1/U, from which on the coarser grid serves."""
MARGIN = 2
"""Points of the grid beyond either end of the range."""
KEPT, MOST_KEPT = 8, 20_000
"""Samplings that are kept, and samples and points of a curve up to which they are: 8 MB each at most."""
DERIVATIVES = 3
"""Derivatives that are known on the grid."""
HIGHER = np.array([[35.0, -15, 5, -1], [-84, 39, -14, 3], [70, -34, 13, -3], [-20, 10, -4, 1]])
"""What the four highest powers of a polynomial on (0, 1) are of its Taylor coefficients at 1, if the others vanish."""
LOWER = HIGHER @ [[float(math.comb(p, d)) for p in range(4)] for d in range(4)]
"""What those at 0, which are the four lowest powers, take from them."""


class Curve:
    """A complex function of frequency between the points of an even grid.

    Args:
        low: First frequency of the grid, in Hz.
        step: Its step, in Hz.
        derivatives: The function and its first three derivatives by frequency on the grid, (4, L, …).
    """

    def __init__(self, low: float, step: float, derivatives: NDArray[Any]) -> None:
        self.low, self.step = low, step
        scale = [step**d / math.factorial(d) for d in range(DERIVATIVES + 1)]
        size, count, *rest = derivatives.shape
        self.powers: Complex = np.empty((2 * size, count - 1, *rest), dtype=np.complex128)
        table = np.ascontiguousarray(derivatives, dtype=np.complex128).reshape(size, count, -1)
        both = table.view(np.float64) * np.reshape(scale, (-1, 1, 1))  # real and imaginary parts
        here, there = (part.reshape(size, -1) for part in (both[:, :-1], both[:, 1:]))
        powers = self.powers.reshape(2, size, -1).view(np.float64)
        powers[0] = here
        np.matmul(HIGHER, there, out=powers[1])
        powers[1] -= LOWER @ here

    @property
    def high(self) -> float:
        """Last frequency of the grid, in Hz."""
        return float(self.low + self.step * self.powers.shape[1])

    def part(self, kept: NDArray[np.bool_]) -> Curve:
        """Some of R functions, of a curve of (…, R) or (…, R, P)."""
        if kept.all():
            return self
        other = copy.copy(self)
        other.powers = np.ascontiguousarray(self.powers[:, :, kept])
        return other

    @property
    def zeroth(self) -> Curve:
        """The first of P functions, of a curve of (…, P)."""
        other = copy.copy(self)
        other.powers = np.ascontiguousarray(self.powers[..., 0])
        return other

    def times(self, factor: float) -> Curve:
        """The function times a number."""
        other = copy.copy(self)
        other.powers = factor * self.powers
        return other

    def __call__(self, f: Array) -> Complex:
        """The function at frequencies, (*shape of f, …); the nearest piece goes on beyond the ends of the grid."""
        place = (f - self.low) / self.step
        # A frequency that a step has thrown out of the numbers gives NaN, as anywhere else.
        piece = np.fmin(np.fmax(place, 0), self.powers.shape[1] - 1).astype(np.int64)
        x = (place - piece).reshape(*np.shape(f), *(1,) * (self.powers.ndim - 2))
        total: Complex = self.powers[-1].take(piece, 0)
        for power in self.powers[-2::-1]:
            total *= x
            total += power.take(piece, 0)
        return total


@dataclass(frozen=True, eq=False)
class Moments:
    """M_p as functions of frequency."""

    zeroth: Curve
    """M_0, (…, R), or (…) of a single sum."""
    every: Curve
    """All of them, (…, R, P) or (…, P)."""

    def times(self, factor: float) -> Moments:
        """The same of values that are larger by a factor."""
        if factor == 1.0:
            return self
        every = self.every.times(factor)
        return Moments(every.zeroth, every)


class Spread:
    """Samples at given times, and how their values spread over even grids, each of which is made once.

    Args:
        u: Times since the reference in seconds, (N,).
    """

    def __init__(self, u: Array) -> None:
        self.u, self.half = u, max(float(np.abs(u).max(initial=0.0)), 1e-300)
        self._known: dict[tuple[float, int], sparse.csc_array] = {}

    def over(self, step: float, points: int) -> sparse.csc_array:
        """The matrix that spreads values for sums at `points` frequencies a step in Hz apart."""
        size = max(fast_size(2 * points), 2 * WIDTH)
        if (step, size) not in self._known:
            self._known[step, size] = _spreading(step * self.u, size)
        return self._known[step, size]


class MomentsOver:
    """The way from values at given times to their moments over a range of frequencies, many times over.

    Args:
        samples: The times.
        span: Lowest and highest frequency in Hz.
        mirrored: Whether the values are real and the moments wanted at the negative frequencies too; the lowest
            frequency must then be 0.
    """

    def __init__(self, samples: Spread, span: tuple[float, float], mirrored: bool = False) -> None:
        u, self.half, (low, high), self.mirrored = samples.u, samples.half, span, mirrored
        fine = FINE if (high - low) * self.half < WIDE else COARSE
        self.step = 1 / (fine * self.half)
        self.lowest = low if mirrored else low - MARGIN * self.step
        self.count = max(math.ceil((high - self.lowest) / self.step) + MARGIN + 1, 4)
        self.unit = u / self.half
        self.spread = samples.over(self.step, self.count)
        middle = self.lowest + self.step * (self.count // 2)
        self.turn = phasor(middle * u)

    @property
    def grid(self) -> Array:
        """Frequencies in Hz at which the moments are known, (L,)."""
        first = 1 - self.count if self.mirrored else 0
        return self.lowest + self.step * np.arange(first, self.count, dtype=np.float64)

    def __call__(self, rows: NDArray[Any], count: int) -> Moments:
        """M_p for p = 0 to count − 1.

        Args:
            rows: a of each of R sums, (R, N), or of a single one, (N,).
            count: P, how many moments.
        """
        most = count + DERIVATIVES
        powers = np.empty((most, *np.atleast_2d(rows).shape), dtype=np.complex128)
        powers[0] = rows * self.turn
        for p in range(1, most):
            np.multiply(powers[p - 1], self.unit, out=powers[p])
        sums = _on_grid(powers.reshape(-1, len(self.unit)), self.spread, self.count)
        if self.mirrored:
            sums = np.concatenate([sums[:, :0:-1].conj(), sums], -1)
        shape = (most, *rows.shape[:-1], -1)
        found = np.moveaxis(sums.reshape(shape), (-1, 0), (0, -1))  # (L, R, moments)
        turn, scale = 2j * math.pi * self.half, self.half ** np.arange(count)
        table = np.empty((DERIVATIVES + 1, *found.shape[:-1], count), dtype=np.complex128)
        for d in range(DERIVATIVES + 1):
            np.multiply(found[..., d : d + count], turn**d * scale, out=table[d])
        every = Curve(float(self.grid[0]), self.step, table)
        return Moments(every.zeroth, every)


def spread_of(u: Array) -> Spread:
    """How samples at times u, (N,), spread; the latest are kept, since signals and noises often share their times."""
    return _kept_spread(u.tobytes()) if len(u) <= MOST_KEPT else Spread(u)


def window_moments(
    samples: Spread, weights: Array, span: tuple[float, float], mirrored: bool = False
) -> Moments:
    """W_0, W_1 and W_2 of a sampling; the latest are kept.

    Args:
        samples: The times.
        weights: Of the samples, (N,).
        span: Lowest and highest frequency in Hz.
        mirrored: Whether they are wanted at the negative frequencies too.
    """
    scale = float(weights[0])
    return kept_moments(samples, weights / scale, span, 3, mirrored).times(scale)


def kept_moments(
    samples: Spread,
    rows: NDArray[Any],
    span: tuple[float, float],
    count: int,
    mirrored: bool = False,
) -> Moments:
    """Moments of values that signals of one sampling share; the latest are kept, if they are real.

    Args:
        samples: The times.
        rows: Of each of R sums, (R, N), or of a single one, (N,).
        span: Lowest and highest frequency in Hz.
        count: How many moments.
        mirrored: Whether they are wanted at the negative frequencies too.
    """
    points = FINE * samples.half * (span[1] - span[0])
    if max(rows.size, points) > MOST_KEPT or rows.dtype.kind == "c":
        return MomentsOver(samples, span, mirrored)(rows, count)
    return _kept_moments(samples.u.tobytes(), rows.tobytes(), rows.shape, span, count, mirrored)


@functools.lru_cache(maxsize=KEPT)
def _kept_spread(u: bytes) -> Spread:
    """`Spread` of times, float64."""
    return Spread(np.frombuffer(u))


@functools.lru_cache(maxsize=3 * KEPT)
def _kept_moments(
    u: bytes,
    rows: bytes,
    shape: tuple[int, ...],
    span: tuple[float, float],
    count: int,
    mirrored: bool,
) -> Moments:
    """`kept_moments` of times and values, float64."""
    values = np.frombuffer(rows).reshape(shape)
    return MomentsOver(_kept_spread(u), span, mirrored)(values, count)


def sums_on_a_grid(u: Array, rows: NDArray[Any], first: float, step: float, count: int) -> Complex:
    """Σ_i a_i e^{2πifu_i} at f = first + l·step for l = 0 to count − 1.

    Args:
        u: Times in seconds, (N,); step times the largest of them must stay below one half.
        rows: a, (R, N).
        first: In Hz.
        step: In Hz.
        count: Number of frequencies, L.

    Returns:
        (R, L).
    """
    middle = first + step * (count // 2)
    turned = np.asarray(rows * phasor(middle * u))
    return _on_grid(turned, _spreading(step * u, max(fast_size(2 * count), 2 * WIDTH)), count)


def _on_grid(rows: Complex, spread: sparse.csc_array, count: int) -> Complex:
    """The sums of the first kind, (R, L), of values (R, N) that turn with the middle frequency of the grid."""
    size, parts = spread.shape[0], np.ascontiguousarray(rows.T).view(np.float64)  # (N, 2R)
    even = np.ascontiguousarray(np.asarray(spread @ parts).view(np.complex128).T)
    fine = fft.ifft(even, norm="forward", overwrite_x=True)  # Σ_j b_j e^{+2πi m j/R}
    centred = np.concatenate([fine[:, size - count // 2 :], fine[:, : count - count // 2]], -1)
    centred *= kernel_weights(count, size)
    return centred


def _spreading(x: Array, size: int) -> sparse.csc_array:
    """The matrix, (size, N), that spreads values at x, (N,), in periods of the grid, over the W nearest points."""
    position = np.remainder(x, 1.0) * size
    start = np.ceil(position - WIDTH / 2)
    taps = np.arange(WIDTH)
    away = (2 / WIDTH) * ((position - start)[:, None] - taps)  # (N, W)
    kernel = np.exp(BETA * (np.sqrt(np.maximum(1 - away**2, 0.0)) - 1))
    index = start.astype(np.int64)[:, None] + taps
    index += size * (index < 0)
    index -= size * (index >= size)
    ends = WIDTH * np.arange(len(x) + 1)
    return sparse.csc_array((kernel.ravel(), index.ravel(), ends), shape=(size, len(x)))
