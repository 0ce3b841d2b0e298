r"""Where in the band one more tone may be, given the frequencies of the others.

Fitted to the data at the frequencies f' of the others, their amplitudes are ĉ = G⁻¹F(f'), F being the data's matched
filter over all streams and G the tones' inner products κ. What is left for another tone at f is

.. math:: M(f) = F(f) - κ(f, f')\, \hat c, \qquad ν(f) = κ(f, f) - κ(f, f')\, G^{-1} κ(f', f) ,

and a tone (f, c) to which the others' amplitudes adapt, c' → c' − G⁻¹κ(f', f) c, changes ln L by λ(Re c̄M − ½|c|²ν)
exactly, λ = 1/σ². If only some of the others adapt, G is theirs, and the amplitudes of the rest are what they are.

With the amplitude's prior integrated out as in `births.py` this gain is the density of f, on a grid of cells. It is
needed for thousands of sets f', so that κ and the integral over A are read from tables, in single precision: what the
tables round is part of the density, and costs no exactness.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import i0e

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.proposals.births import Amplitudes
from slotflow.exact.target import Target

__all__ = ["Fit", "Others", "Surface", "room_for_cells"]

CELLS_PER_BIN = 8
LARGEST = 4096
"""Cells of the band at most."""
STRIDE = 4
"""Cells that share one ν."""
LEVELS = 20
"""Values of ν that are told apart."""
STEPS, FURTHEST = 400, 32.0
"""Steps of the table of gains, and its end, in units of a peak's SNR."""
PRIOR_SHARE = 0.05
"""Share of the uniform density in that of f."""
FINE = 64
"""Points per cell at which the others' frequencies are looked at."""
FAR = 4.0
"""Standard deviations of an amplitude from the prior's bounds that are far."""


class Fit(NamedTuple):
    """The amplitudes of n sets of K tones, and how they adapt."""

    c: Complex
    """Amplitudes that the new tone is looked for with, (n, K)."""
    inverse: Complex
    """G⁻¹ of those that adapt, zeros elsewhere, (n, K, K)."""

    def take(self, index: NDArray[np.int64] | slice) -> Fit:
        """Some of the sets."""
        return Fit(self.c[index], self.inverse[index])

    def beside(self, j: int) -> Fit:
        """The same with a tone of no amplitude as the j-th of K + 1."""
        n, k = self.c.shape
        kept = np.delete(np.arange(k + 1), j)
        c = np.zeros((n, k + 1), dtype=np.complex64)
        inverse = np.zeros((n, k + 1, k + 1), dtype=np.complex64)
        c[:, kept] = self.c
        inverse[:, kept[:, None], kept] = self.inverse
        return Fit(c, inverse)


class Others(NamedTuple):
    """What the cells see of n sets of K tones."""

    band: NDArray[np.complex64]
    """κ(cells, f), (n, K, cells)."""
    coarse: NDArray[np.complex64]
    """The conjugate at every `STRIDE`-th cell, (n, K, cells / STRIDE)."""
    near: NDArray[np.int64]
    """Cells within the separation of each tone as places in an array of (n, cells), (n, K, W)."""
    is_near: NDArray[np.bool_]
    """Which of these count, same shape."""
    shut: NDArray[np.int64]
    """How many tones shut each cell, (n, cells)."""

    def take(self, rows: NDArray[np.int64]) -> Others:
        """Some of the sets."""
        if len(rows) == len(self.band):
            return self
        cells = self.shut.shape[1]
        near = self.near[rows] + ((np.arange(len(rows)) - rows) * cells)[:, None, None]
        shut = self.shut[rows]
        return Others(self.band[rows], self.coarse[rows], near, self.is_near[rows], shut)


class Surface:
    """Density of one more tone given the frequencies of the others.

    Args:
        target: Of any K.
        precision: λ = 1/σ².
        sure: Tones beyond doubt, (D, Z), which those that are looked for stand beside where amplitudes are integrated
            out; none if None.
    """

    def __init__(self, target: Target, precision: float, sure: Array | None = None) -> None:
        prior, statistics = target.prior, target.statistics
        low, high = prior.frequency
        count = int(np.clip((high - low) / target.bin * CELLS_PER_BIN, 64, LARGEST))
        self.cells = STRIDE * -(-count // STRIDE)
        self.low, self.width = low, (high - low) / self.cells
        self.separation = prior.min_separation
        self.statistics = statistics
        self.middle: Array = low + self.width * (np.arange(self.cells, dtype=np.float64) + 0.5)
        self.filtered = self.matched(self.middle[None])[0].astype(np.complex64)  # F of the cells
        self.energy = 0.5 * statistics.weight
        self.amplitudes = Amplitudes(prior, precision)
        margin = FAR / math.sqrt(precision * self.energy)
        self.bounds = prior.amplitude[0] + margin, prior.amplitude[1] - margin
        self.gains = self._table(precision)  # (LEVELS, STEPS)
        beside = np.zeros((0, target.waveform.coordinates)) if sure is None else sure
        apart = statistics.apart_with_one_more(beside, self.middle)
        self.apart: NDArray[np.float32] | None = None
        """Logarithm of the gain of a tone in each cell where its amplitude is integrated out, (cells,)."""
        if apart is not None:
            self.apart = (0.5 * precision * apart[0] + apart[1]).astype(np.float32)
        # κ as a function of the distance to a cell: one row for each part of a cell, read from where the tone is.
        away = self.cells - 0.5 - np.arange(2 * self.cells) + np.arange(FINE)[:, None] / FINE
        kappa = self.kernel(np.zeros(1), away * self.width).astype(np.complex64)  # (FINE, 2 cells)
        self.shifted = np.lib.stride_tricks.sliding_window_view(kappa, self.cells, axis=1)

    def _table(self, precision: float) -> NDArray[np.float32]:
        """Logarithm of the evidence's gain in steps of ν and of |M|, (LEVELS, STEPS)."""
        root = math.sqrt(precision)
        self.step = FURTHEST * math.sqrt(self.energy) / (STEPS - 1) / root
        nu = self.energy * (np.arange(LEVELS) + 0.5) / LEVELS
        amplitude = self.amplitudes.middle
        x = precision * self.step * np.arange(STEPS)[:, None] * amplitude  # (STEPS, amplitudes)
        log_bessel = np.log(i0e(x)) + x
        gain = log_bessel - 0.5 * precision * nu[:, None, None] * amplitude**2
        return np.asarray(log_sum_exp(gain, axis=-1), dtype=np.float32)

    def matched(self, f: Array) -> Complex:
        """F at frequencies (n, K), same shape."""
        filtered: Complex = self.statistics.matched(f[None, ..., None])[0, ..., 0]
        return filtered

    def kernel(self, f: Array, other: Array) -> Complex:
        """κ(f, other): what a tone of amplitude 1 at `other` adds to the matched filter at f; shapes broadcast."""
        kappa: Complex = 0.5 * self.statistics.kernel(other - f)
        return kappa

    def rounded(self, f: Array) -> Array:
        """Frequencies at the nearest point of the grid on which the others are looked at, same shape."""
        grid: Array = np.rint((f - self.low) * (FINE / self.width))
        return self.low + grid * (self.width / FINE)

    def others(self, f: Array) -> Others:
        """What the cells see of tones at rounded frequencies (n, K), in single precision."""
        point = np.rint((f - self.low) * (FINE / self.width)).astype(np.int64)
        cell, part = np.divmod(np.clip(point, 0, FINE * self.cells), FINE)
        band: NDArray[np.complex64] = self.shifted[part, self.cells - cell]
        coarse = band[..., STRIDE // 2 :: STRIDE].conj()
        return Others(band, coarse, *self._near(f))

    def _near(self, f: Array) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
        """Cells that lie wholly within the separation of tones (n, K): the last three parts of `Others`."""
        n, size = len(f), len(f) * self.cells
        low = np.floor((f - self.separation - self.low) / self.width + 1).astype(np.int64)
        high = np.floor((f + self.separation - self.low) / self.width).astype(np.int64)
        cell = low[..., None] + np.arange(int((high - low).max(initial=0)))  # (n, K, W)
        is_near = (cell < high[..., None]) & (cell >= 0) & (cell < self.cells)
        near = cell + self.cells * np.arange(n)[:, None, None]
        shut = np.bincount(near[is_near], minlength=size).reshape(n, self.cells)
        return near, is_near, shut

    def gram(self, f: Array, other: Array) -> Complex:
        """κ between all tones of sets (n, K) and (n, L), (n, K, L)."""
        return self.kernel(f[:, :, None], other[:, None, :])

    def fits(self, gram: Complex, filtered: Complex, c: Complex) -> list[Fit]:
        """What the others' amplitudes do: those far from the prior's bounds adapt, or none does.

        Args:
            gram: κ between the others, (n, K, K).
            filtered: F at their frequencies, (n, K).
            c: Amplitudes, (n, K); of those that adapt nothing depends on.
        """
        index = np.arange(gram.shape[1])
        gram = gram.copy()
        gram[:, index, index] *= 1 + 1e-6
        size = np.abs(np.linalg.solve(gram, filtered[..., None])[..., 0])
        low, high = self.bounds
        adapts = (size > low) & (size < high)
        both = adapts[:, :, None] & adapts[:, None, :]
        some = np.zeros_like(gram)
        at = np.flatnonzero(adapts.any(-1))
        reduced = np.where(both[at], gram[at], 0.0)
        reduced[:, index, index] = np.where(adapts[at], gram[at][:, index, index], 1.0)
        some[at] = np.linalg.inv(reduced) * both[at]
        kept = np.where(adapts, 0.0, c)
        rest = filtered - (gram @ kept[..., None])[..., 0]
        mixed = kept + (some @ rest[..., None])[..., 0]
        return [Fit(mixed, some), Fit(c, np.zeros_like(some))]

    def mass(self, others: Others, fit: Fit, but: int | None = None) -> NDArray[np.float32]:
        """Probabilities of the cells, (n, cells).

        Args:
            others: n sets of K tones.
            fit: Of these tones, or of all but one.
            but: The one that is not there.
        """
        n, band = len(others.band), others.band
        c, inverse = fit if but is None else fit.beside(but)
        left = self.filtered - (c.astype(np.complex64)[:, None] @ band)[:, 0]
        seen = inverse.astype(np.complex64) @ others.coarse
        seen *= band[..., STRIDE // 2 :: STRIDE]
        taken = seen.real.sum(1)  # (n, cells / STRIDE)
        level = ((1 - taken / self.energy) * LEVELS).clip(0, LEVELS - 1).astype(np.int64)
        at = np.minimum(np.abs(left) * np.float32(1 / self.step), np.float32(STEPS - 1.001))
        below = at.astype(np.int64)
        at -= below
        below.reshape(n, -1, STRIDE)[...] += (level * STEPS)[..., None]
        table = self.gains.ravel()
        gain = table.take(below)
        below += 1
        at *= table.take(below) - gain
        gain += at
        if self.apart is not None:
            gain += self.apart
        if self.separation > 0:
            gain[self._shut(others, but)] = -np.inf
        top = gain.max(-1, keepdims=True)
        gain[~np.isfinite(top[:, 0])] = top[~np.isfinite(top)] = 0.0  # no room: anywhere will do
        gain -= top
        mass: NDArray[np.float32] = np.exp(gain, out=gain)
        mass *= (1 - PRIOR_SHARE) / mass.sum(-1, keepdims=True)
        mass += np.float32(PRIOR_SHARE / self.cells)
        return mass

    def _shut(self, others: Others, but: int | None) -> NDArray[np.bool_]:
        """Cells that lie wholly within the separation of a tone, or of any but one, (n, cells)."""
        if but is None:
            return others.shut > 0
        count = others.shut.copy()
        count.reshape(-1)[others.near[:, but][others.is_near[:, but]]] -= 1
        return count > 0

    def slope(self, kappa: Complex, filtered: Complex, fit: Fit) -> tuple[Complex, Array, Complex]:
        """M, ν and how the others' amplitudes move per unit of c.

        Args:
            kappa: κ between the new tone and the others, (n, K).
            filtered: F at the new tone's frequency, (n,).
            fit: Of the others.

        Returns:
            (n,), (n,) and (n, K).
        """
        moved = -(fit.inverse @ kappa.conj()[..., None])[..., 0]
        m: Complex = filtered - (kappa * fit.c).sum(-1)
        nu = self.energy + (kappa * moved).real.sum(-1)
        return m, np.maximum(nu, self.energy / LEVELS), moved


def room_for_cells(target: Target) -> bool:
    """Whether the band is short enough for a density over all of it."""
    low, high = target.prior.frequency
    return (high - low) / target.bin * CELLS_PER_BIN <= LARGEST
