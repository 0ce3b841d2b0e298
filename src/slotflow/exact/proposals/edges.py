r"""A proposal cut off where the prior's support ends, for data that want tones beyond it.

A tone whose amplitude the data put three standard deviations below the prior's lower bound leaves one candidate in a
thousand of a Gaussian inside the support. With the candidates written as z(u) of standard normal u, let

.. math:: μ = \arg\min |u|^2 \quad \text{where} \quad h_i(u) \ge 0 \text{ for all } i ,

h being the amplitudes', separations' and frequencies' distances from their bounds: the point of the support nearest to
the centre. If the support is convex in u, all of it lies beyond the plane u·μ = |μ|². Candidates are drawn there, with
the density q(z)/Φ(−b): the part of u along μ is a normal variable cut off at b = |μ| − `SLACK`, the slack being for
what bends. The rest of the support, if there is any, is left to the proposal as it is, beside which this one stands.

μ comes from a sequence of linearized problems, each of them one of least distance (Lawson and Hanson 1974, chapter
23): with the residual r of the non-negative least squares fit of (0, …, 0, 1) by the rows (g_i, b_i) of g_i·u ≥ b_i,
u = −r_{1…d}/r_{d+1}.
"""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.optimize import nnls

from slotflow.core.arrays import Array
from slotflow.exact.proposals.collapsed import Bent
from slotflow.exact.target import Target

__all__ = ["Cut", "cut"]

SLACK = 0.5
"""How far before the support the plane lies, in standard deviations."""
NEAR = 1.5
"""|μ| up to which enough candidates lie in the support as it is."""
FAR = 10.0
"""|μ| beyond which nothing is left of the Gaussian's shape."""
ROUNDS = 8
"""Linearized problems at most."""
STEP = 1e-4
"""Of the difference quotients, in standard deviations."""
STILL = 0.02
"""Change of μ that ends the search."""


class Cut:
    """A bent Gaussian beyond a plane of its normal variables.

    Args:
        base: The proposal.
        nearest: μ, (3K,), not zero.
    """

    def __init__(self, base: Bent, nearest: Array) -> None:
        length = float(np.linalg.norm(nearest))
        self.base, self.normal, self.bound = base, nearest / length, length - SLACK
        self.log_mass = float(special.log_ndtr(-self.bound))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        u = rng.standard_normal((n, len(self.normal)))
        along = -special.ndtri_exp(np.log1p(-rng.random(n)) + self.log_mass)
        return self.base.from_normal(u + (along - u @ self.normal)[:, None] * self.normal)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        beyond = self.base.to_normal(z) @ self.normal >= self.bound
        return np.where(beyond, self.base.log_prob(z) - self.log_mass, -np.inf)


def cut(base: Bent, target: Target) -> Cut | None:
    """The proposal beyond the edge of the support; None where it is not needed, or the edge is too far away."""
    d = target.waveform.coordinates * target.k
    u = np.zeros(d)
    for _ in range(ROUNDS):
        points = np.concatenate([u[None], u + STEP * np.eye(d)])
        values = _distances(base.from_normal(points), target)  # (1 + d, m)
        slope = (values[1:] - values[0]).T / STEP  # (m, d)
        length = np.linalg.norm(slope, axis=1)
        some = length > 0
        slope = slope[some] / length[some, None]
        bound = slope @ u - values[0, some] / length[some]
        moved = _nearest(slope, bound)
        if moved is None or np.linalg.norm(moved) > FAR:
            return None
        step, u = np.linalg.norm(moved - u), moved
        if step < STILL:
            break
    return Cut(base, u) if np.linalg.norm(u) > NEAR else None


def _nearest(slope: Array, bound: Array) -> Array | None:
    """The shortest u, (d,), with slope·u ≥ bound, (m, d) and (m,); None where there is none."""
    d = slope.shape[1]
    system = np.concatenate([slope.T, bound[None]])
    aim = np.append(np.zeros(d), 1.0)
    weights, _ = nnls(system, aim)
    rest = system @ weights - aim
    return None if not rest[-1] < -1e-12 else -rest[:-1] / rest[-1]


def _distances(z: Array, target: Target) -> Array:
    """How far z, (n, K, 3), lies inside the bounds, each in units of its own, (n, m)."""
    prior = target.prior
    (low, high), (first, last) = prior.amplitude, prior.frequency
    amplitude = target.waveform.moduli(z)[..., 0] / high
    f = target.waveform.place_in_z(z) / target.bin
    parts = [
        amplitude - low / high,
        1 - amplitude,
        np.diff(f, axis=1) - prior.min_separation / target.bin,
        f[:, :1] - first / target.bin,
        last / target.bin - f[:, -1:],
    ]
    return np.concatenate(parts, axis=1)
