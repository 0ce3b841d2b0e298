r"""A posterior as the birth proposal of a trans-dimensional sampler: one component at a time, with its density.

Reversible-jump moves ask for draws of one component θ = (A, φ, f) and for their log density. The proposal is

.. math:: g(θ) = ε\, p(θ) + \frac{1 - ε}{K} \sum_k \mathcal{N}_{wrapped}(θ; μ_k, s^2 Σ_k) ,

a share ε of the prior's box, so that nothing that is possible is out of reach, and one Gaussian per component of the
posterior, widened by s, whose phase runs around the circle. Gaussians reach beyond the box; such draws are drawn
again and the density is divided by the share inside.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.signal.prior import Prior

__all__ = ["BirthProposal"]

Array = NDArray[np.float64]
TURNS = 2 * math.pi * np.arange(-1, 2)
"""Turns of the phase that are summed over; a wider Gaussian is as good as uniform."""
MASS_DRAWS = 20_000
"""Draws from which each Gaussian's share inside the box is estimated."""


class BirthProposal:
    """Draws and log densities of single components, as Eryn's `DistributionGenerate` asks for (`rvs`, `logpdf`).

    Args:
        draws: Joint draws of the posterior, (n, K, 3).
        prior: Bounds of A and f.
        prior_share: ε.
        widen: s.
        seed: Of the draws of `rvs`.
    """

    def __init__(
        self,
        draws: Array,
        prior: Prior,
        prior_share: float = 0.1,
        widen: float = 1.5,
        seed: int = 0,
    ) -> None:
        if not 0 < prior_share <= 1:
            raise ValueError(f"expected 0 < prior_share <= 1, received {prior_share}.")
        self.prior, self.rng = prior, np.random.default_rng(seed)
        self.share = prior_share if draws.shape[1] else 1.0
        self.means: list[Array] = []
        self.factors: list[Array] = []
        self.inside: list[float] = []
        for k in range(draws.shape[1]):
            x = draws[:, k].copy()
            centre = np.angle(np.exp(1j * x[:, 1]).mean())
            x[:, 1] = np.mod(x[:, 1] - centre + np.pi, 2 * np.pi) - np.pi + centre
            covariance = np.cov(x.T) * widen**2
            scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
            unit = np.linalg.cholesky(covariance / np.outer(scale, scale) + 1e-12 * np.eye(3))
            self.means.append(x.mean(0))
            self.factors.append(scale[:, None] * unit)
            self.inside.append(float(self._allowed(self._gaussian(k, MASS_DRAWS)).mean()))

    def rvs(self, size: int | tuple[int, ...] = 1) -> Array:
        """Draws (A, φ in [0, 2π), f), (*size, 3)."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        n = math.prod(shape)
        theta = self._box(n)
        kinds = np.where(
            self.rng.random(n) < self.share, -1, self.rng.integers(max(len(self.means), 1), size=n)
        )
        for k in range(len(self.means)):
            rows = np.flatnonzero(kinds == k)
            while rows.size:
                theta[rows] = self._gaussian(k, rows.size)
                rows = rows[~self._allowed(theta[rows])]
        theta[:, 1] = np.mod(theta[:, 1], 2 * np.pi)
        return theta.reshape(*shape, 3)

    def logpdf(self, x: ArrayLike) -> Array:
        """Log density per unit of (A, rad, Hz), (..., 3) to (...); −inf outside the prior's bounds."""
        theta = np.asarray(x, dtype=np.float64)
        (a_lo, a_hi), (f_lo, f_hi) = self.prior.amplitude, self.prior.frequency
        terms = [
            np.full(
                theta.shape[:-1],
                math.log(self.share / ((a_hi - a_lo) * 2 * math.pi * (f_hi - f_lo))),
            )
        ]
        for mean, factor, inside in zip(self.means, self.factors, self.inside, strict=True):
            weight = math.log((1 - self.share) / len(self.means) / max(inside, 1 / MASS_DRAWS))
            constant = weight - float(np.log(np.diag(factor)).sum()) - 1.5 * math.log(2 * math.pi)
            for turn in TURNS:
                moved = theta - mean
                moved[..., 1] = np.mod(moved[..., 1] + np.pi, 2 * np.pi) - np.pi + turn
                white = np.linalg.solve(factor, moved[..., None])[..., 0]
                terms.append(constant - 0.5 * (white**2).sum(-1))
        total: Array = np.logaddexp.reduce(np.stack(terms), axis=0)
        return np.where(self._allowed(theta), total, -np.inf)

    def _gaussian(self, k: int, n: int) -> Array:
        draws: Array = self.means[k] + self.rng.standard_normal((n, 3)) @ self.factors[k].T
        return draws

    def _box(self, n: int) -> Array:
        (a_lo, a_hi), (f_lo, f_hi) = self.prior.amplitude, self.prior.frequency
        low, high = np.array([a_lo, 0.0, f_lo]), np.array([a_hi, 2 * math.pi, f_hi])
        draws: Array = low + (high - low) * self.rng.random((n, 3))
        return draws

    def _allowed(self, theta: Array) -> NDArray[np.bool_]:
        (a_lo, a_hi), (f_lo, f_hi) = self.prior.amplitude, self.prior.frequency
        a, f = theta[..., 0], theta[..., 2]
        allowed: NDArray[np.bool_] = (a >= a_lo) & (a <= a_hi) & (f >= f_lo) & (f <= f_hi)
        return allowed
