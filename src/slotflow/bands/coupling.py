r"""Windows of a wide band, coupled: one fit of all tones, and draws that know of the neighbours' errors.

The exact step of a window holds the tones beyond its guard at their best fit. Its draws are therefore those of a
conditional distribution: too narrow, and without correlation to other windows, by as much as the tones overlap. On
the long stream that is next to nothing. On a short stream, in which tones of different windows are not resolved, it is
not.

**Joint fit.** Gauss–Newton on all streams carries the tones of all windows to their joint maximum z*, z = (f, Re c,
Im c) of each tone (`signal/fit.py`). With the others held there, z* is each window's own maximum too.

**Map.** Around z* the joint posterior has the covariance Σ = (JᵀJ + σ²P)⁻¹ (times σ², which drops out), where P holds
tones back that are not resolved (`fisher.py`), and window w alone that of its own tones, D_w, a block of the inverse of
the same matrix restricted to the tones that are free in w, its guard's
included; all tones are free in a window that the search alone has answered. With the Cholesky factor D = L Lᵀ of all
blocks the map

.. math:: z \mapsto z^* + T (z - z^*), \qquad T = L\, (L^{-1} Σ L^{-T})^{1/2}\, L^{-1}, \qquad T D T^T = Σ

takes independent draws of the windows to joint ones. It is the identity where Σ = D, and keeps the shape of each
window's distribution otherwise; between windows the dependence is that of a Gaussian. A draw that it would take out of
the prior's support stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.bands.fisher import held
from slotflow.core.arrays import Array
from slotflow.signal.fit import fit as laplace_fit
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior
from slotflow.signal.systems import inverse
from slotflow.signal.waveforms import Waveform

__all__ = ["Coupling", "couple", "joint_fit"]


def joint_fit(statistics: Likelihood, theta: Array) -> Array | None:
    """The joint maximum of the likelihood near theta, both (K, P) and sorted by frequency; None if it is not reached.

    Args:
        statistics: Of one observation, all streams.
        theta: Parameters to start from.
    """
    if not len(theta):
        return theta
    found = laplace_fit(statistics, torch.from_numpy(theta[None].copy()), curvature=False)
    if not bool(found.converged):
        return None
    best: Array = found.theta[0].numpy()
    return statistics.waveform.sorted(best)


@dataclass(frozen=True, eq=False)
class Coupling:
    """The map from independent draws of the windows to joint ones, for given numbers of tones in the windows."""

    centre: Array
    """z*, (K, D + 2M)."""
    matrix: Array
    """T, square, of the size of z* taken flat."""
    growth: float
    """Largest ratio of a parameter's standard deviation to that in its window."""
    reference: float
    """Instant that the phase of c refers to, in seconds."""
    waveform: Waveform
    """What a tone is."""

    def apply(self, theta: Array, prior: Prior) -> Array:
        """Joint draws, (n, K, P), from independent ones of the same shape, sorted by frequency."""
        waveform = self.waveform
        step = waveform.to_z(waveform.sorted(theta), self.reference) - self.centre
        turned = (step.reshape(len(theta), -1) @ self.matrix.T).reshape(step.shape)
        moved = waveform.to_theta(self.centre + turned, self.reference)
        sorted_ = (np.diff(waveform.place_of(moved), axis=1) > 0).all(1)
        allowed = np.isfinite(prior.log_prob_theta(torch.from_numpy(moved)).numpy())
        return np.where((sorted_ & allowed)[:, None, None], moved, theta)


def couple(
    statistics: Likelihood,
    theta: Array,
    cores: Array,
    owner: NDArray[np.int64],
    reach: float,
    joint: NDArray[np.bool_] | None = None,
) -> Coupling | None:
    """The coupling of the windows.

    Args:
        statistics: Of one observation, all streams.
        theta: Parameters of the windows' own fits, (K, P), sorted by frequency.
        cores: Lower and upper edge of each window's core in Hz, (W, 2).
        owner: The window of each tone, (K,).
        reach: How far from its core, in Hz, tones are free parameters of a window.
        joint: Windows whose draws know of the errors of all tones already, (W,); None: no window.

    Returns:
        The map; None where there is no joint maximum near the fits, or the Fisher matrix is singular.
    """
    best = joint_fit(statistics, theta)
    if best is None:
        return None
    waveform, z = statistics.waveform, statistics.to_z(best)
    width, place = waveform.coordinates, waveform.place_of(best)
    equations = statistics.equations(*waveform.unpack(z[None]))
    left = float(np.ravel(statistics.energy)[0]) + float(np.ravel(equations.gain)[0])
    level = math.sqrt(max(left, 0.0) / statistics.n)
    fisher = equations.matrix[0] + np.diag(held(statistics, best, level))
    together = inverse(fisher)
    factor = np.zeros_like(fisher)  # L, block by block
    for w in np.unique(owner):
        low, high = cores[w, 0] - reach, cores[w, 1] + reach
        near = (owner == w) | ((place >= low) & (place <= high))
        free = np.flatnonzero(near | (joint is not None and joint[w]))
        rows = (width * free[:, None] + np.arange(width)).ravel()
        mine = np.repeat(owner[free] == w, width)
        block = inverse(fisher[np.ix_(rows, rows)])
        if together is None or block is None:
            return None
        own = rows[mine]
        factor[np.ix_(own, own)] = np.linalg.cholesky(block[np.ix_(mine, mine)])
    assert together is not None
    growth = math.sqrt(float((np.diag(together) / (factor**2).sum(1)).max()))
    whitened = np.linalg.solve(factor, np.linalg.solve(factor, together).T)
    values, vectors = np.linalg.eigh(0.5 * (whitened + whitened.T))
    root = (vectors * np.sqrt(values.clip(0.0))) @ vectors.T
    matrix = factor @ root @ np.linalg.inv(factor)
    return Coupling(z, matrix, growth, statistics.reference, waveform)
