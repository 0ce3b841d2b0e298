r"""A posterior as the birth proposal of a trans-dimensional sampler: one component at a time, with its density.

Reversible-jump moves ask for draws of one component θ and for their log density. The proposal is

.. math:: g(θ) = ε\, p(θ) + \frac{1 - ε}{K} \sum_k \mathcal{N}_{wrapped}(θ; μ_k, s^2 Σ_k) .

A share ε of the prior's box keeps everything that is possible within reach. To it comes one Gaussian per component of
the posterior, widened by s, whose angles run around the circle. Gaussians reach beyond the box; draws outside it are
drawn again, and the density is divided by the share inside.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.core.arrays import Array
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["BirthProposal"]

TURNS = 2 * math.pi * np.arange(-1, 2)
"""Turns of an angle that are summed over; a wider Gaussian is as good as uniform."""
MASS_DRAWS = 20_000
"""Draws from which each Gaussian's share inside the box is estimated."""
JITTER = 1e-12
"""Added to the diagonal of a correlation matrix, which draws without scatter would make singular."""


class BirthProposal:
    """Draws and log densities of single components, as Eryn's `DistributionGenerate` asks for (`rvs`, `logpdf`).

    Args:
        draws: Joint draws of the posterior, (n, K, P).
        prior: Bounds of the parameters.
        prior_share: ε.
        widen: s.
        seed: Of the draws of `rvs`.
        waveform: Names the parameters.
    """

    def __init__(
        self,
        draws: Array,
        prior: Prior,
        prior_share: float = 0.1,
        widen: float = 1.5,
        seed: int = 0,
        waveform: Waveform = TONE,
    ) -> None:
        if not 0 < prior_share <= 1:
            raise ValueError(f"expected 0 < prior_share <= 1, received {prior_share}.")
        self.prior, self.rng = prior, np.random.default_rng(seed)
        self.share = prior_share if draws.shape[1] else 1.0
        self.size = waveform.size
        self.angles = [i for i, p in enumerate(waveform.parameters) if p.circular]
        self.low, self.high = _box(prior, waveform)
        self.means: list[Array] = []
        self.factors: list[Array] = []
        self.inside: list[float] = []
        for k in range(draws.shape[1]):
            x = draws[:, k].copy()
            for i in self.angles:
                centre = np.angle(np.exp(1j * x[:, i]).mean())
                x[:, i] = _wrapped(x[:, i] - centre) + centre
            covariance = np.cov(x.T) * widen**2
            scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
            correlation = covariance / np.outer(scale, scale)
            unit = np.linalg.cholesky(correlation + JITTER * np.eye(self.size))
            self.means.append(x.mean(0))
            self.factors.append(scale[:, None] * unit)
            self.inside.append(float(self._allowed(self._gaussian(k, MASS_DRAWS)).mean()))

    def rvs(self, size: int | tuple[int, ...] = 1) -> Array:
        """Draws, angles in [0, 2π), (*size, P)."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        n = math.prod(shape)
        theta = self.low + (self.high - self.low) * self.rng.random((n, self.size))
        kinds = np.where(
            self.rng.random(n) < self.share, -1, self.rng.integers(max(len(self.means), 1), size=n)
        )
        for k in range(len(self.means)):
            rows = np.flatnonzero(kinds == k)
            while rows.size:
                theta[rows] = self._gaussian(k, rows.size)
                rows = rows[~self._allowed(theta[rows])]
        theta[:, self.angles] = np.mod(theta[:, self.angles], 2 * np.pi)
        return theta.reshape(*shape, self.size)

    def logpdf(self, x: ArrayLike) -> Array:
        """Log density per unit of the parameters (A, rad, Hz), (..., P) to (...); −inf outside the prior's bounds."""
        theta = np.asarray(x, dtype=np.float64)
        box = math.log(self.share / float(np.prod(self.high - self.low)))
        terms = [np.full(theta.shape[:-1], box)]
        for mean, factor, inside in zip(self.means, self.factors, self.inside, strict=True):
            weight = math.log((1 - self.share) / len(self.means) / max(inside, 1 / MASS_DRAWS))
            constant = weight - float(np.log(np.diag(factor)).sum())
            constant -= 0.5 * self.size * math.log(2 * math.pi)
            for turns in itertools.product(TURNS, repeat=len(self.angles)):
                moved = theta - mean
                moved[..., self.angles] = _wrapped(moved[..., self.angles]) + np.array(turns)
                white = np.linalg.solve(factor, moved[..., None])[..., 0]
                terms.append(constant - 0.5 * (white**2).sum(-1))
        total: Array = np.logaddexp.reduce(np.stack(terms), axis=0)
        return np.where(self._allowed(theta), total, -np.inf)

    def _gaussian(self, k: int, n: int) -> Array:
        """Draws of the Gaussian of component k, (n, P)."""
        draws: Array = self.means[k] + self.rng.standard_normal((n, self.size)) @ self.factors[k].T
        return draws

    def _allowed(self, theta: Array) -> NDArray[np.bool_]:
        """Whether components lie in the prior's box, (..., P) to (...); angles always do."""
        inside = (theta >= self.low) & (theta <= self.high)
        inside[..., self.angles] = True
        return np.asarray(inside.all(-1))


def _box(prior: Prior, waveform: Waveform) -> tuple[Array, Array]:
    """Lower and upper bounds of the parameters, (P,) each; a full turn for angles."""
    stated = {"amplitude": prior.amplitude, "frequency": prior.frequency}
    bounds = [(0.0, 2 * math.pi) if p.circular else stated[p.name] for p in waveform.parameters]
    low, high = np.array(bounds, dtype=np.float64).T
    return low, high


def _wrapped(angle: Array) -> Array:
    """Angles in [−π, π)."""
    return np.mod(angle + np.pi, 2 * np.pi) - np.pi
