r"""Where rows of components are drawn from: Gaussians around maxima, and one component anywhere beside the others.

**Births.** A weak component may be in many places, each of which is a maximum of its own. Draws of the others come from
the Gaussian of a maximum with one component less; the new one's shape from the cells of its bank, each with the
probability p ∝ V e^{gain/2s²}, V being the cell's volume, uniform in the cell; its amplitudes from their Gaussians
given that shape, N(2D/E, s²/E · 2). The new one is put in its place among those of its class, so that at a sorted row

.. math:: q(z) = \sum_j q_{others}(z_{\setminus j})\, q_{new}(z_j) ,

the sum running over all components of the class. Others that are not sorted make a row that the target excludes.

A component that the data hardly see is where the prior has it: `PriorBirth` draws the new one from there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.bank import Bank
from slotflow.exact.family.search import Mode
from slotflow.exact.family.straight import StraightGaussian
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms.ranges import Range

__all__ = ["Birth", "PriorBirth", "gaussian_at"]


def gaussian_at(mode: Mode, widen: float = 1.0) -> StraightGaussian:
    """The Gaussian around a maximum, its standard deviations widened by a factor."""
    around = mode.around
    return StraightGaussian(around.straight, around.mean, around.covariance, widen)


class Birth:
    """The components of a maximum and a further one anywhere.

    Args:
        others: The maximum.
        bank: Matched filters of the further one's class.
        index: Number of that class.
        variance: Of the noise, s².
    """

    def __init__(self, others: Mode, bank: Bank, index: int, variance: float) -> None:
        self.others = gaussian_at(others)
        self.layout, self.bank, self.index = others.target.layout, bank, index
        self.member, self.variance = bank.member, variance
        self.back: Complex = others.fit.left @ bank.data.image.conj()
        self.edges = bank.edges()
        volume = np.diff(self.edges[-1])[:, None] * np.ones(len(bank.frequencies))
        volume = volume * np.diff(self.edges[0])
        log_p = bank.gains(others.fit.left) / (2 * variance) + np.log(volume)
        self.log_cells = (log_p - log_sum_exp(log_p.ravel())) - np.log(volume)  # a density
        self.cells = np.exp(self.log_cells) * volume

    @property
    def _columns(self) -> int:
        """Number of shape parameters."""
        return len(self.member.shape)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, d)."""
        return self._inserted(self.others.sample(n, rng), self._new(n, rng))

    def _new(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of the further component, (n, Z)."""
        flat = rng.choice(self.cells.size, size=n, p=self.cells.ravel() / self.cells.sum())
        cell = np.unravel_index(flat, self.cells.shape)
        columns = [_inside(self.edges[0], cell[1], rng)]
        if self._columns > 1:
            columns.append(_inside(self.edges[1], cell[0], rng))
        xi = np.stack(columns, -1)
        centre, spread = self._amplitudes(xi)
        normal = rng.standard_normal((2, *centre.shape))
        c = centre + spread * (normal[0] + 1j * normal[1])
        return np.concatenate([xi, c.real, c.imag], -1)

    def _amplitudes(self, xi: Array) -> tuple[Complex, Array]:
        """Mean of the complex amplitudes given shapes, (n, D) to (n, J), and the standard deviation of each part."""
        basis = self.member.basis(self.bank.data.times, xi)  # (n, J, M)
        filtered = basis.conj() @ self.back
        energy = self.bank.energy_at(xi)  # (n, J)
        return 2 * filtered / energy, np.sqrt(2 * self.variance / energy)

    def _inserted(self, rows: Array, new: Array) -> Array:
        """Rows with a component in its place among those of its class."""
        parts = self.layout.parts(rows)
        old = parts[self.index]
        rank = (self.member.place_in_z(old) < self.member.place_in_z(new[:, None])).sum(-1)
        joined = np.empty((len(rows), old.shape[1] + 1, old.shape[2]))
        for r in range(old.shape[1] + 1):
            here = rank == r
            joined[here] = np.concatenate([old[here, :r], new[here, None], old[here, r:]], axis=1)
        parts[self.index] = joined
        return np.concatenate([part.reshape(len(rows), -1) for part in parts], -1)

    def log_prob(self, z: Array) -> Array:
        """Log density at sorted rows, (n, d); shape (n,)."""
        size = self.member.coordinates
        before = sum(
            count * member.coordinates
            for count, member in zip(
                self.layout.counts[: self.index], self.layout.members[: self.index], strict=True
            )
        )
        terms = []
        for j in range(self.layout.counts[self.index] + 1):
            first = before + j * size
            rest = np.delete(z, np.s_[first : first + size], axis=1)
            terms.append(self.others.log_prob(rest) + self._log_new(z[:, first : first + size]))
        total: Array = log_sum_exp(np.stack(terms), axis=0)
        return total

    def _log_new(self, new: Array) -> Array:
        """Log density of the further component, (n, Z) to (n,)."""
        d, m = self._columns, self.member.amplitudes
        xi, c = new[:, :d], new[:, d : d + m] + 1j * new[:, d + m :]
        row = np.zeros(len(new), dtype=np.int64)
        good = np.ones(len(new), dtype=bool)
        column = np.searchsorted(self.edges[0], xi[:, 0], side="right") - 1
        good &= (column >= 0) & (column < len(self.edges[0]) - 1)
        if d > 1:
            row = np.searchsorted(self.edges[1], xi[:, 1], side="right") - 1
            good &= (row >= 0) & (row < len(self.edges[1]) - 1)
        log_prob = np.full(len(new), -np.inf)
        if good.any():
            centre, spread = self._amplitudes(xi[good])
            away = np.abs(c[good] - centre) ** 2 / (2 * spread**2)
            amplitude = -away - np.log(2 * math.pi * spread**2)
            log_prob[good] = self.log_cells[row[good], column[good]] + amplitude.sum(-1)
        return log_prob


class PriorBirth(Birth):
    """The components of a maximum and a further one from the prior.

    Args:
        others: The maximum.
        bank: Matched filters of the further one's class.
        index: Number of that class.
        variance: Of the noise, s².
        prior: Bounds and law of the amplitudes, and the band.
    """

    def __init__(self, others: Mode, bank: Bank, index: int, variance: float, prior: Prior) -> None:
        super().__init__(others, bank, index, variance)
        self.size = Range(*prior.amplitude, prior.amplitude_law)
        self.band = Range(*prior.frequency)

    def _new(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of the further component, (n, Z)."""
        columns = [self.band.draw(rng.random(n))]
        columns += [law.draw(rng.random(n)) for law in self.member.ranges.values()]
        size = self.size.draw(rng.random((n, self.member.amplitudes)))
        angle = 2 * math.pi * rng.random(size.shape)
        xi = np.stack(columns, -1)
        return np.concatenate([xi, size * np.cos(angle), size * np.sin(angle)], -1)

    def _log_new(self, new: Array) -> Array:
        """Log density of the further component, (n, Z) to (n,)."""
        d, m = self._columns, self.member.amplitudes
        size = np.hypot(new[:, d : d + m], new[:, d + m :])
        log_prob: Array = self.band.log_prob(new[:, 0])
        for column, law in enumerate(self.member.ranges.values(), 1):
            log_prob = log_prob + law.log_prob(new[:, column])
        around = np.log(2 * math.pi * np.maximum(size, 1e-300))
        total: Array = log_prob + (self.size.log_prob(size) - around).sum(-1)
        return total


def _inside(edges: Array, cell: NDArray[Any], rng: np.random.Generator) -> Array:
    """Uniform numbers inside cells, same shape as cell."""
    low, high = edges[cell], edges[cell + 1]
    inside: Array = low + rng.random(len(low)) * (high - low)
    return inside
