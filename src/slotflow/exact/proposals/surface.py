r"""Where in the band one more tone may be, given the frequencies of the others.

Fitted to the data at the frequencies f' of the others, their amplitudes are ĉ = G⁻¹F(f'), F being the data's matched
filter over all streams and G the tones' inner products κ. What is left for another tone at f is

.. math:: M(f) = F(f) - κ(f, f')\, \hat c, \qquad ν(f) = κ(f, f) - κ(f, f')\, G^{-1} κ(f', f) ,

and a tone (f, c) to which the others' amplitudes adapt, c' → c' − G⁻¹κ(f', f) c, changes ln L by λ(Re c̄M − ½|c|²ν)
exactly, λ = 1/σ². If only some of the others adapt, G is theirs, and the amplitudes of the rest are what they are.

With the amplitude's prior integrated out as in `births.py` this gain is the density of f, on a grid of cells. It is
needed for thousands of sets f', and for each of them with every one of its tones left out in turn. So all J choices of
who is left out are computed together from one look at the cells, and κ and the integral over A are read from tables, in
single precision and in steps: what the tables round is part of the density, and costs no exactness.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.exact.proposals.births import Amplitudes
from slotflow.exact.target import Target

__all__ = ["Fit", "Surface", "room_for_cells"]

CELLS_PER_BIN = 8
LARGEST = 4096
"""Cells of the band at most."""
STRIDE = 4
"""Cells that share one ν."""
LEVELS = 20
"""Values of ν that are told apart."""
STEPS, FURTHEST = 2048, 32.0
"""Steps of the table of gains, and its end, in units of a peak's SNR."""
COARSE = 16
"""Steps between those that are computed: ln of the gain bends little from one to the next."""
LARGEST_GAIN = 600.0
"""Nats above which gains are not told apart: the sum over all cells must stay a number."""
PRIOR_SHARE = 0.05
"""Share of the uniform density in that of f."""
FINE = 64
"""Points per cell at which the others' frequencies are looked at."""
FAR = 4.0
"""Standard deviations of an amplitude from the prior's bounds that are far."""


class Fit(NamedTuple):
    """The amplitudes of n sets of K tones, and how they adapt, for J choices of who is left out (none, or each)."""

    c: Complex
    """Amplitudes that the new tone is looked for with, zero where a tone is left out, (n, J, K)."""
    inverse: Complex
    """G⁻¹ of those that adapt, zeros elsewhere, (n, J, K, K)."""

    def take(self, index: Any) -> Fit:
        """Some of the sets, or of the choices."""
        return Fit(self.c[index], self.inverse[index])


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
        filtered = self.matched(self.middle[None])[0]
        self.filtered = np.stack([filtered.real, filtered.imag]).astype(np.float32)
        """F of the cells, Re and Im, (2, cells)."""
        self.energy = 0.5 * statistics.weight
        self.amplitudes = Amplitudes(prior, precision)
        margin = FAR / math.sqrt(precision * self.energy)
        self.bounds = prior.amplitude[0] + margin, prior.amplitude[1] - margin
        self.gains = self._table(precision)  # (LEVELS · STEPS,)
        beside = np.zeros((0, target.waveform.coordinates)) if sure is None else sure
        apart = statistics.apart_with_one_more(beside, self.middle)
        self.apart: Array | None = None
        """Gain of a tone in each cell where its amplitude is integrated out, over the largest, (cells,)."""
        if apart is not None:
            log_gain = 0.5 * precision * apart[0] + apart[1]
            self.apart = np.exp(log_gain - log_gain.max())
        # κ as a function of the distance to a cell: one row for each part of a cell, read from where the tone is.
        away = self.cells - 0.5 - np.arange(2 * self.cells) + np.arange(FINE)[:, None] / FINE
        kappa = self.kernel(np.zeros(1), away * self.width)  # (FINE, 2 cells)
        planes = np.stack([kappa.real, kappa.imag]).astype(np.float32)
        self.shifted = np.lib.stride_tricks.sliding_window_view(planes, self.cells, axis=2)

    def _table(self, precision: float) -> Array:
        """The evidence's gain in steps of ν and of |M|, (LEVELS · STEPS,), e^`LARGEST_GAIN` at most."""
        root = math.sqrt(precision)
        self.step = FURTHEST * math.sqrt(self.energy) / STEPS / root
        nu = self.energy * (np.arange(LEVELS) + 0.5) / LEVELS
        slope = self.step * (np.arange(STEPS) + 0.5)
        coarse = np.append(slope[::COARSE], slope[-1])
        log_gain = [self.amplitudes.log_gain(coarse, np.full(len(coarse), left)) for left in nu]
        between = np.stack([np.interp(slope, coarse, gain) for gain in log_gain])
        table: Array = np.exp(np.minimum(between, LARGEST_GAIN))
        return table.ravel()

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

    def cell(self, f: Array) -> NDArray[np.int64]:
        """Cell of each frequency, same shape."""
        return np.clip((f - self.low) / self.width, 0, self.cells - 1).astype(np.int64)

    def gram(self, f: Array, other: Array) -> Complex:
        """κ between all tones of sets (n, K) and (n, L), (n, K, L)."""
        return self.kernel(f[:, :, None], other[:, None, :])

    def fits(
        self, gram: Complex, filtered: Complex, c: Complex, there: NDArray[np.bool_]
    ) -> list[Fit]:
        """What the others' amplitudes do: those far from the prior's bounds adapt, or none does.

        Args:
            gram: κ between the tones of n sets, (n, K, K).
            filtered: F at their frequencies, (n, K).
            c: Amplitudes, (n, K); of those that adapt nothing depends on.
            there: Which tones are not left out, (J, K).
        """
        index = np.arange(gram.shape[1])
        both = there[:, :, None] & there[:, None, :]  # (J, K, K)
        own = gram[:, index, index] * (1 + 1e-6)
        gram = np.where(both, gram[:, None], 0.0)  # (n, J, K, K)
        gram[..., index, index] = np.where(there, own[:, None], 1.0)
        filtered, c = np.where(there, filtered[:, None], 0.0), np.where(there, c[:, None], 0.0)
        size = np.abs(np.linalg.solve(gram, filtered[..., None])[..., 0])
        low, high = self.bounds
        adapts = (size > low) & (size < high)  # (n, J, K)
        some = np.zeros_like(gram)
        at = adapts.any(-1)
        pairs = adapts[at][:, :, None] & adapts[at][:, None, :]
        reduced = np.where(pairs, gram[at], 0.0)
        reduced[:, index, index] = np.where(adapts[at], gram[at][:, index, index], 1.0)
        some[at] = np.linalg.inv(reduced) * pairs
        kept = np.where(adapts, 0.0, c)
        rest = filtered - (gram @ kept[..., None])[..., 0]
        mixed = kept + (some @ rest[..., None])[..., 0]
        return [Fit(mixed, some), Fit(c, np.zeros_like(some))]

    def mass(self, f: Array, fit: Fit, there: NDArray[np.bool_]) -> Array:
        """What each cell has to offer to one more tone, over a common factor, (n, J, cells).

        Args:
            f: Rounded frequencies of n sets of tones, (n, K).
            fit: Of these tones.
            there: Which of them are not left out, (J, K).
        """
        point = np.rint((f - self.low) * (FINE / self.width)).astype(np.int64)
        cell, part = np.divmod(np.clip(point, 0, FINE * self.cells), FINE)
        band = self.shifted[:, part.T, self.cells - cell.T]  # κ(cells, f), (2, K, n, cells)
        left = self._left(band, fit.c)  # M / step, (n, 2, J, cells)
        np.multiply(left, left, out=left)
        at = np.add(left[:, 0], left[:, 1], out=left[:, 0])
        np.minimum(np.sqrt(at, out=at), np.float32(STEPS - 1), out=at)
        index = at.astype(np.int32)
        taken = self._taken(np.ascontiguousarray(band[..., STRIDE // 2 :: STRIDE]), fit.inverse)
        level = ((1 - taken / self.energy) * LEVELS).clip(0, LEVELS - 1).astype(np.int32)
        level *= STEPS
        index.reshape(*level.shape, STRIDE)[...] += level[..., None]
        mass: Array = self.gains.take(index)
        if self.apart is not None:
            mass *= self.apart
        if self.separation > 0:
            self._shut(mass, f, there)
        return mass

    def _left(self, band: NDArray[np.float32], c: Complex) -> NDArray[np.float32]:
        """M at the cells in steps of the table, Re and Im, (n, 2, J, cells), by κ(cells, f) and amplitudes (n, J, K).

        Real matrices take half the time of complex ones, and leave the parts where the next operation reads them.
        """
        (_, k, n, cells), choices = band.shape, c.shape[1]
        turns = np.empty((n, 2, choices, 2, k), dtype=np.float32)  # −Re c κ and −Im c κ
        turns[:, 0, :, 0] = turns[:, 1, :, 1] = -c.real / self.step
        turns[:, 0, :, 1] = c.imag / self.step
        turns[:, 1, :, 0] = -c.imag / self.step
        rows = band.reshape(2 * k, n, cells).swapaxes(0, 1)
        left = turns.reshape(n, 2 * choices, 2 * k) @ rows
        left = left.reshape(n, 2, choices, cells)
        left += (self.filtered / np.float32(self.step))[:, None]
        return left

    @staticmethod
    def _taken(band: NDArray[np.float32], inverse: Complex) -> NDArray[np.float32]:
        """κ(f, f') G⁻¹ κ(f', f) of cells f, (n, J, G), by κ(cells, f'), (2, K, n, G): each pair of tones once."""
        real, imag = band
        k, n, cells = real.shape
        a, b, count = _pairs(k)
        weight = inverse[..., a, b] * count  # G⁻¹ is Hermitian; (n, J, pairs)
        weights = np.concatenate([weight.real, -weight.imag], -1).astype(np.float32)
        products = np.empty((2, len(a), n, cells), dtype=np.float32)
        first = 0
        for j in range(k):  # with itself and those behind it, as `_pairs` has them
            rest = slice(first, first + k - j)
            np.multiply(real[j], real[j:], out=products[0, rest])
            products[0, rest] += imag[j] * imag[j:]
            np.multiply(imag[j], real[j:], out=products[1, rest])
            products[1, rest] -= real[j] * imag[j:]
            first = rest.stop
        rows = products.reshape(2 * len(a), n, cells).swapaxes(0, 1)
        taken: NDArray[np.float32] = weights @ rows
        return taken

    def _shut(self, mass: Array, f: Array, there: NDArray[np.bool_]) -> None:
        """Empties the cells of `mass` that lie wholly within the separation of a tone that is there, in place."""
        low = np.floor((f - self.separation - self.low) / self.width + 1).astype(np.int64)
        high = np.floor((f + self.separation - self.low) / self.width).astype(np.int64)
        cell = low[..., None] + np.arange(int((high - low).max(initial=0)))  # (n, K, W)
        near = (cell < high[..., None]) & (cell >= 0) & (cell < self.cells)
        row, tone, _ = near.nonzero()
        place, flat = row * mass[0].size + cell[near], mass.reshape(-1)
        for j, present in enumerate(there):
            flat[place[present[tone]] + j * self.cells] = 0.0

    def shares(self, mass: Array) -> Array:
        """Probabilities of the cells, (..., cells), by what they offer; anywhere will do where there is no room."""
        total = mass.sum(-1, keepdims=True)
        even: Array = (1 - PRIOR_SHARE) / np.where(total > 0, total, 1.0) * mass
        even += np.where(total > 0, PRIOR_SHARE, 1.0) / self.cells
        return even

    def log_density(self, mass: Array, cell: NDArray[np.int64]) -> Array:
        """Log density of f in one cell of each set, (...), of what the cells offer, (..., cells)."""
        total, own = mass.sum(-1), np.take_along_axis(mass, cell[..., None], -1)[..., 0]
        share = (1 - PRIOR_SHARE) * own / np.where(total > 0, total, 1.0)
        share += np.where(total > 0, PRIOR_SHARE, 1.0) / self.cells
        log_density: Array = np.log(share / self.width)
        return log_density

    def slope(self, kappa: Complex, filtered: Complex, fit: Fit) -> tuple[Complex, Array, Complex]:
        """M, ν and how the others' amplitudes move per unit of c.

        Args:
            kappa: κ between the new tone and the others, (n, J, K).
            filtered: F at the new tone's frequency, (n, J).
            fit: Of the others.

        Returns:
            (n, J), (n, J) and (n, J, K).
        """
        moved = -(fit.inverse @ kappa.conj()[..., None])[..., 0]
        m: Complex = filtered - (kappa * fit.c).sum(-1)
        nu = self.energy + (kappa * moved).real.sum(-1)
        return m, np.maximum(nu, self.energy / LEVELS), moved


@functools.cache
def _pairs(k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Both tones of each pair of k, a tone with itself included, and how often the pair counts."""
    a, b = np.triu_indices(k)
    return a, b, np.where(a == b, 1.0, 2.0)


def room_for_cells(target: Target) -> bool:
    """Whether the band is short enough for a density over all of it."""
    low, high = target.prior.frequency
    return (high - low) / target.bin * CELLS_PER_BIN <= LARGEST
