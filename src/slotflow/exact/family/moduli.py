r"""The law of a complex amplitude under its prior and a Gaussian likelihood, to be drawn and to be integrated.

With the likelihood's maximum ĉ and its standard deviation s of each part, a prior p(A) of the modulus and any phase,

.. math:: p(A, φ) ∝ p(A)\, e^{-|A e^{iφ} - ĉ|^2 / 2 s^2} , \qquad
          p(A) ∝ p(A)\, e^{-(A^2 + |ĉ|^2)/2s^2}\, I_0(A |ĉ| / s^2) ,

the phase given the modulus being von Mises's of the concentration A|ĉ|/s². The modulus is drawn from steps: p(A) at
the middle of each of some cells, which are even in the coordinate in which the prior is flat and cover what has any
weight. The integral over both, relative to no component, is the factor

.. math:: B(g, s) = \int p(A)\, e^{-A^2/2s^2}\, I_0(A g / s)\, dA , \qquad g = |ĉ|/s ,

by which a component of this shape changes the evidence; where many are needed it is read from a table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import i0e

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import log_sum_exp
from slotflow.signal.waveforms.ranges import Range

__all__ = ["Moduli", "log_factors"]

CELLS = 40
"""Cells of a modulus."""
REACH = 5.0
"""Standard deviations beside ĉ within which moduli are drawn."""
NARROWEST = 1.02
"""Ratio of the largest to the smallest modulus that is drawn, at least."""
TABLE = (32, 24)
"""Values of g and of s in a table of B."""


class _Steps(NamedTuple):
    """Densities that are constant in cells of the coordinate in which the prior is flat."""

    low: Array
    """Where the cells begin, (...)."""
    width: Array
    """Of a cell, (...)."""
    log_p: Array
    """Log probability of each cell, (..., CELLS), that sums to one."""


class Moduli:
    """Complex amplitudes under a prior of their modulus and Gaussian likelihoods, any number of them at once.

    Args:
        prior: Of the modulus.
        centre: ĉ, (...).
        spread: s, (...).
    """

    def __init__(self, prior: Range, centre: Complex, spread: Array) -> None:
        self.prior, self.centre, self.spread = prior, centre, spread
        self.size = np.abs(centre)
        low, high = prior.low, prior.high
        top = np.clip(self.size + REACH * spread, min(NARROWEST * low, high), high)
        bottom = np.clip(self.size - REACH * spread, low, np.maximum(top / NARROWEST, low))
        first = _flat(prior, bottom)
        width = (_flat(prior, top) - first) / CELLS
        middle = first[..., None] + width[..., None] * (np.arange(CELLS) + 0.5)
        log_p = self._log_likelihood(_modulus(prior, middle))
        log_p -= log_sum_exp(log_p, axis=-1)[..., None]
        self._steps = _Steps(first, width, log_p)

    def _log_likelihood(self, a: Array) -> Array:
        """Of moduli, (..., n), the phase integrated out, up to a constant of each ĉ."""
        size, spread = self.size[..., None], self.spread[..., None]
        found: Array = -0.5 * ((a - size) / spread) ** 2 + np.log(i0e(a * size / spread**2))
        return found

    def sample(self, rng: np.random.Generator) -> Complex:
        """One amplitude of each, (...)."""
        steps = self._steps
        total = np.cumsum(np.exp(steps.log_p), -1)
        u = rng.random(self.size.shape) * total[..., -1]
        cell = (total < u[..., None]).sum(-1).clip(0, CELLS - 1)
        a = _modulus(self.prior, steps.low + steps.width * (cell + rng.random(self.size.shape)))
        angle = rng.vonmises(np.angle(self.centre), a * self.size / self.spread**2)
        found: Complex = a * np.exp(1j * angle)
        return found

    def log_prob(self, c: Complex) -> Array:
        """Log density of one amplitude of each, (...), by its two parts."""
        steps, a = self._steps, np.maximum(np.abs(c), 1e-300)
        place = (_flat(self.prior, a) - steps.low) / steps.width
        cell: NDArray[np.int64] = np.floor(place).clip(0, CELLS - 1).astype(np.int64)
        along = np.take_along_axis(steps.log_p, cell[..., None], -1)[..., 0] - np.log(steps.width)
        along -= np.log(a) if self.prior.law == "loguniform" else 0.0  # by the modulus
        kappa = a * self.size / self.spread**2
        turned = kappa * (np.cos(np.angle(c) - np.angle(self.centre)) - 1)
        phase = turned - np.log(2 * math.pi * i0e(kappa))
        inside = (place >= 0) & (place <= CELLS)
        return np.where(inside, along + phase - np.log(a), -np.inf)


def log_factors(prior: Range, g: Array, spread: Array) -> Array:
    """Ln B of some maxima in units of their standard deviation, and of these, same shape; read from a table."""
    rows = np.linspace(0.0, max(float(g.max(initial=0.0)), 1.0), TABLE[0])
    edges = np.log([spread.min(initial=np.inf), spread.max(initial=0.0)])
    columns = np.linspace(edges[0], max(edges[1], edges[0] + 1e-6), TABLE[1])
    table = _exact_log_factors(prior, rows[:, None], np.exp(columns))
    # ln B goes as g² where g is large, which is not read from the table.
    table -= 0.5 * rows[:, None] ** 2
    return _bilinear(rows, columns, table, g, np.log(spread)) + 0.5 * g**2


def _exact_log_factors(prior: Range, g: Array, spread: Array) -> Array:
    """Ln B by a sum over moduli, of shapes that go together."""
    g, spread = np.broadcast_arrays(g, spread)
    top = np.clip((g + REACH) * spread, min(NARROWEST * prior.low, prior.high), prior.high)
    bottom = np.clip((g - REACH) * spread, prior.low, np.maximum(top / NARROWEST, prior.low))
    first, last = _flat(prior, bottom), _flat(prior, top)
    t = (np.arange(CELLS) + 0.5) / (CELLS)
    a = _modulus(prior, first[..., None] + (last - first)[..., None] * t)
    away = a / spread[..., None] - g[..., None]
    log_l = -0.5 * away**2 + np.log(i0e(a * g[..., None] / spread[..., None]))
    whole = float(np.diff(_flat(prior, np.array([prior.low, prior.high])))[0])
    mean = log_sum_exp(log_l, axis=-1) - math.log(len(t))
    found: Array = mean + np.log((last - first) / whole) + 0.5 * g**2
    return found


def _bilinear(rows: Array, columns: Array, table: Array, x: Array, y: Array) -> Array:
    """A table over even rows and columns between its entries, at points x and y of one shape."""
    i = (x - rows[0]) / (rows[1] - rows[0])
    j = (y - columns[0]) / (columns[1] - columns[0])
    i0 = np.floor(i).clip(0, len(rows) - 2).astype(np.int64)
    j0 = np.floor(j).clip(0, len(columns) - 2).astype(np.int64)
    di, dj = i - i0, j - j0
    low = table[i0, j0] * (1 - dj) + table[i0, j0 + 1] * dj
    high = table[i0 + 1, j0] * (1 - dj) + table[i0 + 1, j0 + 1] * dj
    found: Array = low * (1 - di) + high * di
    return found


def _flat(prior: Range, a: Array) -> Array:
    """The coordinate in which a prior is flat, of moduli, same shape."""
    return np.log(np.maximum(a, 1e-300)) if prior.law == "loguniform" else np.asarray(a)


def _modulus(prior: Range, coordinate: Array) -> Array:
    """The inverse of `_flat`."""
    return np.exp(coordinate) if prior.law == "loguniform" else coordinate
