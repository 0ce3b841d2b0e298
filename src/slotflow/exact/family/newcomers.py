r"""Where a further component may be beside others that stand at a maximum, and how the others give way to it.

**Giving way.** With the others' Gaussian N(û, C) in straight coordinates and the slopes J of their model, a new
component of the model m moves their maximum, to first order, by

.. math:: δ(m) = -C J m / s^2 ,

s² being the noise's variance; their covariance given the new one stays C. What the data say of the new one alone, the
others being integrated out, is then a Gaussian in its amplitudes of the mean 2D/E and the variance 2s²/E of each part,

.. math:: D = \overline{Hb} \cdot (1 - Q^T Q)\, r, \qquad E = |Hb|^2 - |Q\, Hb|^2 ,

r being the residual of the others and the rows of Q an orthonormal basis of what J spans. Where the new one lies upon
one of them E is small, and the two share what they have.

**Law.** The new component is drawn in one of two ways. As the data have it: its shape is in a cell of the bank with the
probability P B, P being the prior's mass of the cell and B the factor by which a component there changes the evidence,
its amplitude integrated out under the prior (`moduli`); in the cell as the prior has it; and its amplitudes are drawn
from that Gaussian times their prior. Others that a new one lies upon give way by more than to first order: so some are
drawn as the prior has them, in shape, phase and amplitude, amplitudes as far as the data could hide them. How often
each way is taken follows from what it is worth, the mean of prior times likelihood over the law's density.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.bank import Bank
from slotflow.exact.family.evenly import basis_evenly
from slotflow.exact.family.moduli import Moduli, log_factors
from slotflow.exact.family.search import Mode
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms.ranges import Range

__all__ = ["Newcomer", "Response"]

LEAST_ENERGY = 0.03
"""Share of a component's energy that is left at least where it lies upon others."""
HIDDEN = 4.5
"""Standard deviations above which no amplitude hides in the noise."""
TRIALS = 300
"""Draws behind the estimate of how much a law is worth."""
LEAST_SHARE = 0.3
"""Share of each of the two ways, at least; at half of this a few draws beside others outweigh all others."""


class Response:
    """How the components of a maximum give way to a further one.

    Args:
        mode: The maximum.
        data: The compressed data.
        variance: Of the noise, s².
    """

    def __init__(self, mode: Mode, data: Compressed, variance: float) -> None:
        around, layout = mode.around, mode.target.layout
        self.variance = variance
        slopes = data.shown(layout.slopes(mode.fit.z, data.times))
        by_straight = around.straight.slopes()[0].T @ slopes / variance  # (d, r)
        self._moves = (around.covariance @ by_straight) @ data.image
        spanned = np.linalg.qr(slopes.T)[0]  # (r, d)
        self.left: Array = mode.fit.left - spanned @ (spanned.T @ mode.fit.left)
        self._back: Complex = self.left @ data.image
        self.shares: Complex = spanned.T @ data.image  # (d, M)

    def moved(self, basis: Complex, c: Complex) -> Array:
        """δ, (n, d), of further components of functions of time, (n, J, M), and amplitudes, (n, J)."""
        by_amplitude = basis @ self._moves.T  # (n, J, d)
        moved: Array = -(c[..., None] * by_amplitude).sum(1).real
        return moved

    def amplitudes(self, basis: Complex, energy: Array) -> tuple[Complex, Array]:
        """Mean of the further component's amplitudes and standard deviation of each part, (n, J) each.

        Args:
            basis: Its functions of time, (n, J, M).
            energy: |Hb|², (n, J).
        """
        shared = (np.abs(basis @ self.shares.T) ** 2).sum(-1)
        left = self.remaining(energy, shared)
        return 2 * (basis @ self._back).conj() / left, self.spread(left)

    def remaining(self, energy: Array, shared: Array) -> Array:
        """E of |Hb|² and |Q Hb|², all of one shape."""
        return np.maximum(energy - shared, LEAST_ENERGY * energy)

    def spread(self, energy: Array) -> Array:
        """Standard deviation of each part of an amplitude, of E, same shape."""
        return np.sqrt(2 * self.variance / energy)


class Newcomer:
    """The law of a further component of one class beside others.

    Args:
        bank: Matched filters of its class.
        response: How the others give way.
        prior: Prior of everything.
        rng: Source of randomness for the estimate of its worth.
    """

    def __init__(
        self, bank: Bank, response: Response, prior: Prior, rng: np.random.Generator
    ) -> None:
        self.bank, self.response, self.member = bank, response, bank.member
        self.amplitude = Range(*prior.amplitude, prior.amplitude_law)
        self.ranges = [Range(*prior.frequency), *self.member.ranges.values()]
        self.edges = bank.edges()
        masses = [law.mass(edges) for law, edges in zip(self.ranges, self.edges, strict=True)]
        mass = reduce(np.multiply.outer, [*masses[1:], masses[0]])  # (S_1, …, F)
        log_b = self._log_factors().reshape(mass.shape)
        log_p = log_b + np.log(np.maximum(mass, 1e-300))
        self.log_cells = log_b - log_sum_exp(log_p.ravel())  # density over that of the prior
        self.cells = np.exp(self.log_cells) * mass
        self.cells /= self.cells.sum()
        self.share = 0.5
        self.worth = self._weighed(rng)

    def _log_factors(self) -> Array:
        """Ln B in each cell of the bank, (S, F)."""
        total = np.zeros(self.bank.energy[0].shape)
        every = zip(
            self.bank.filtered(self.response.left),
            self.bank.shared(self.response.shares),
            strict=True,
        )
        for (filtered, energy), shared in every:
            left = self.response.remaining(energy, shared)
            spread = self.response.spread(left)
            total += log_factors(self.amplitude, 2 * filtered / left / spread, spread)
        return total

    def _weighed(self, rng: np.random.Generator) -> float:
        """Settles the share of components that are seen; about ln of the factor by which one changes the evidence."""
        new, _ = self.sample(TRIALS, rng)
        xi, c = self.member.unpack(new)
        basis = self._basis(xi)
        centre, spread = self._seen(xi, basis)
        gain = (np.abs(centre) ** 2 - np.abs(c - centre) ** 2) / (2 * spread**2)
        peak, hidden = self._log_laws(new, basis)
        both = np.logaddexp(peak, hidden) + math.log(0.5)
        log_w = self._log_prior(new) + gain.sum(-1) - both
        weight = np.exp(log_w - log_w.max())
        share = float(weight @ np.exp(peak + math.log(0.5) - both) / weight.sum())
        self.share = min(max(share, LEAST_SHARE), 1 - LEAST_SHARE)
        return float(log_w.max()) + math.log(float(weight.mean()))

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws, (n, Z), and by how much the others give way to them in straight coordinates, (n, d)."""
        peaks, order = int(rng.binomial(n, self.share)), rng.permutation(n)
        both = [self._at_peaks(peaks, rng), self._anywhere(n - peaks, rng)]
        new, moved = (np.concatenate(parts)[order] for parts in zip(*both, strict=True))
        return new, moved

    def density(self, new: Array) -> tuple[Array, Array]:
        """Log density, (n,), of components, (n, Z), and by how much the others give way, (n, d)."""
        basis = self._basis(new[:, : len(self.member.shape)])
        peak, hidden = self._log_laws(new, basis)
        mixed: Array = np.logaddexp(peak + math.log(self.share), hidden + math.log(1 - self.share))
        return mixed, self.response.moved(basis, self.member.unpack(new)[1])

    def _basis(self, xi: Array) -> Complex:
        """Functions of time of shapes, (n, D), at the instants, (n, J, M)."""
        return basis_evenly(self.member, self.bank.data.times, xi)

    def _seen(self, xi: Array, basis: Complex) -> tuple[Complex, Array]:
        """Mean and standard deviation of the amplitudes at shapes, (n, D), of functions (n, J, M); (n, J) each."""
        return self.response.amplitudes(basis, self.bank.energy_at(xi))

    # ------------------------------------------------------------------ the two kinds

    def _at_peaks(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws of components that filters see, (n, Z), and how others give way, (n, d)."""
        flat = rng.choice(self.cells.size, size=n, p=self.cells.ravel())
        *rows, column = np.unravel_index(flat, self.cells.shape)
        cells = zip(self.ranges, self.edges, [column, *rows], strict=True)
        xi = np.stack([_inside(law, edges, cell, rng) for law, edges, cell in cells], -1)
        basis = self._basis(xi)
        c = Moduli(self.amplitude, *self._seen(xi, basis)).sample(rng)
        return self.member.pack(xi, c), self.response.moved(basis, c)

    def _anywhere(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws of components that hide, (n, Z), and how others give way, (n, d)."""
        xi = np.stack([law.draw(rng.random(n)) for law in self.ranges], -1)
        u, angle = rng.random((2, n, self.member.amplitudes))
        basis = self._basis(xi)
        low, high = self.amplitude.low, self._highest(*self._seen(xi, basis))
        size = low * (high / low) ** u if self._is_log else low + u * (high - low)
        c = size * np.exp(2j * math.pi * angle)
        return self.member.pack(xi, c), self.response.moved(basis, c)

    def _log_laws(self, new: Array, basis: Complex) -> tuple[Array, Array]:
        """Log densities of the two kinds, (n,) each, of components, (n, Z), with their functions of time, (n, J, M)."""
        xi, c = self.member.unpack(new)
        shape = self._log_shape(xi)
        (centre, spread), size = self._seen(xi, basis), np.maximum(np.abs(c), 1e-300)
        along = Moduli(self.amplitude, centre, spread).log_prob(c).sum(-1)
        column, *rows = (_cell(edges, x) for edges, x in zip(self.edges, xi.T, strict=True))
        peak = shape + self.log_cells[(*rows, column)] + along
        low, high = self.amplitude.low, self._highest(centre, spread)
        width = size * np.log(high / low) if self._is_log else high - low
        inside = (size >= low) & (size <= high)
        along = np.where(inside, -np.log(width * 2 * math.pi * size), -np.inf).sum(-1)
        return peak, shape + along

    def _log_shape(self, xi: Array) -> Array:
        """Log of the prior's density of shapes, (n, D) to (n,)."""
        total = np.zeros(len(xi))
        for column, law in enumerate(self.ranges):
            total = total + law.log_prob(xi[:, column])
        return total

    def _log_prior(self, new: Array) -> Array:
        """Log of the prior's density of components, (n,), in their coordinates, (n, Z)."""
        xi, size = new[:, : len(self.member.shape)], np.maximum(self.member.moduli(new), 1e-300)
        along = (self.amplitude.log_prob(size) - np.log(2 * math.pi * size)).sum(-1)
        total: Array = self._log_shape(xi) + along
        return total

    @property
    def _is_log(self) -> bool:
        """Whether amplitudes are log-uniform."""
        return self.amplitude.law == "loguniform"

    def _highest(self, centre: Complex, spread: Array) -> Array:
        """The largest amplitude that may hide, given mean and standard deviation, same shape."""
        low, high = self.amplitude.low, self.amplitude.high
        highest: Array = np.clip(np.abs(centre) + HIDDEN * spread, min(1.3 * low, high), high)
        return highest


def _cell(edges: Array, values: Array) -> NDArray[np.int64]:
    """Numbers of the cells that hold values, the outermost ones outside, same shape."""
    return (np.searchsorted(edges, values, side="right") - 1).clip(0, len(edges) - 2)


def _inside(law: Range, edges: Array, cell: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Numbers inside cells as a law has them, same shape as cell."""
    low, high = law.cumulative(edges[cell]), law.cumulative(edges[cell + 1])
    inside: Array = law.draw(low + rng.random(len(low)) * (high - low))
    return inside
