r"""The density p(Θ, x | K_1, …, K_C) of a row of coordinates, with σ integrated out.

It is `exact.target.Target` with two differences: the likelihood is that of the compressed data (`compressed.py`), and
components are sorted within their class alone. A set of components has K! labellings, of which one is looked at, with
K! times the density; the prior's factor 1/C for the class of each component is in p(Θ | K).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.layout import Layout
from slotflow.exact.family.straight import Straight
from slotflow.exact.target import CHUNK, Level, Target
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.prior import Prior
from slotflow.signal.systems import inverse

__all__ = ["Around", "FamilyTarget"]

UNLIKELY = 1e-3
"""Probability below which a value of the noise's shape does not count in a Gaussian."""


@dataclass(frozen=True, eq=False)
class Around:
    """A Gaussian in straight coordinates around a maximum."""

    straight: Straight
    """The coordinates."""
    mean: Array
    """(d,)."""
    covariance: Array
    """(d, d)."""


class FamilyTarget(Target):
    """p(Θ, x | K_1, …, K_C) of one observation as a density of rows z.

    Args:
        nodes: The data under each value of the noise's shape.
        prior: Prior of Θ and σ.
        layout: Numbers of components of each class.
    """

    largest_round = 4000  # a candidate costs its functions of time

    def __init__(self, nodes: Sequence[Compressed], prior: Prior, layout: Layout) -> None:
        self.compressed, self.layout, self.prior = list(nodes), layout, prior
        self.k, self.waveform = layout.k, layout.waveform
        self._set_levels([Level(node, prior) for node in nodes])

    def to_theta(self, z: Array) -> Array:
        """θ of rows, (n, d), in the order of places, (n, K, P)."""
        return self.layout.theta(z)

    def log_prior(self, z: Array) -> Array:
        """Logarithm of p(Θ | K) Π 1/A of rows, (n, d); −inf where unsorted or outside the support. Shape (n,)."""
        theta = self.layout.unphased(z)
        log_prior: Array = self.prior.log_prob_theta(torch.from_numpy(theta)).numpy().copy()
        log_prior[~self.layout.is_sorted(z)] = -np.inf
        for (real, imag), _ in self.layout.amplitude_pairs():
            log_prior -= np.log(np.maximum(np.hypot(z[:, real], z[:, imag]), 1e-300))
        return log_prior

    def rss(self, z: Array, node: int = 0) -> Array:
        """Residual sum of squares, (n,), of rows, (n, d), under the first or another node of the noise."""
        data = self.compressed[node]
        parts = [
            data.rss(self.layout.model(z[i : i + CHUNK], data.times))
            for i in range(0, len(z), CHUNK)
        ]
        rss: Array = np.concatenate([np.zeros(0), *parts])
        return rss

    def node_log_likelihoods(self, z: Array) -> Array:
        """Log-likelihood under each node of the noise, its weight included, (nodes, n), of rows, (n, d)."""
        rss = np.empty((len(self.levels), len(z)))
        for i in range(0, len(z), CHUNK):
            model = self.layout.model(z[i : i + CHUNK], self.compressed[0].times)  # of all nodes
            for row, data in zip(rss, self.compressed, strict=True):
                row[i : i + CHUNK] = data.rss(model)
        every = zip(self.levels, rss, strict=True)
        return np.stack([level.noise.log_marginal(row) + level.constant for level, row in every])

    def log_volume(self, z: Array, node: int = 0) -> float:
        """0: no amplitude is integrated out."""
        return 0.0

    def around(self, z: Array, duration: float, every_node: bool = False) -> Around | None:
        """The Gaussian around a maximum of the likelihood, in straight coordinates; None where there is none.

        The curvature is that of −ln p̃ itself: the Fisher matrix less the second derivatives of the model times the
        residual, and the prior's part. One Newton step carries the maximum of the likelihood to that of the posterior.

        Args:
            z: The maximum under the first value of the noise's shape, (d,).
            duration: Length of the record in seconds.
            every_node: Whether to count all values of the noise's shape, by their probabilities at the maximum.
        """
        straight = Straight(self.layout, z, duration)
        back, by_size = straight.slopes()
        slope, curvature = self._prior_terms(z, by_size)
        if every_node and len(self.levels) > 1:
            uphill, hessian, fisher = self._over_nodes(z)
            slope = slope + back.T @ uphill
        else:
            _, hessian, fisher = self._curvature(z, 0)
        centre = straight.to(z[None])[0][0]
        with_prior = back.T @ hessian @ back + curvature
        for trial in (with_prior, back.T @ hessian @ back, back.T @ fisher @ back):
            found = inverse(trial)
            if found is not None:
                step = found @ slope if trial is with_prior else np.zeros(len(z))
                return Around(straight, self._stepped(straight, centre, step), found)
        return None

    def _curvature(self, z: Array, node: int) -> tuple[Array, Array, Array]:
        """Slope of the log-likelihood, (d,), minus its second derivatives, (d, d), and the Fisher matrix, (d, d)."""
        data, layout = self.compressed[node], self.layout
        left = data.data - data.shown(layout.model(z[None], data.times)[0])
        precision = self.levels[node].noise.precision(data.beside + float(left @ left))
        jacobian = data.shown(layout.slopes(z, data.times))  # (d, r)
        fisher = precision * (jacobian @ jacobian.T)
        bends = layout.bends(z, data.times, left @ data.image)
        return precision * (jacobian @ left), fisher - precision * bends, fisher

    def _over_nodes(self, z: Array) -> tuple[Array, Array, Array]:
        """The same for the sum over all values of the noise's shape, of the probabilities p and the slopes g.

        −∂² ln Σ L = Σ p H − Σ p (g − ḡ)(g − ḡ)ᵀ.
        """
        logs = self.node_log_likelihoods(z[None])[:, 0]
        share = np.exp(logs - logs.max())
        share /= share.sum()
        nodes = np.flatnonzero(share > UNLIKELY)
        every = [self._curvature(z, int(i)) for i in nodes]
        p = share[nodes] / share[nodes].sum()
        slopes, hessians, fishers = (np.stack(part) for part in zip(*every, strict=True))
        away = slopes - p @ slopes
        hessian = np.einsum("i,ide->de", p, hessians) - np.einsum("i,id,ie->de", p, away, away)
        return p @ slopes, hessian, np.einsum("i,ide->de", p, fishers)

    def _stepped(self, straight: Straight, centre: Array, step: Array) -> Array:
        """The best of a Newton step, parts of it and none, (d,): where lines overlap it may lead far astray."""
        trials = centre + np.array([1.0, 0.5, 0.25, 0.0])[:, None] * step
        best: Array = trials[int(np.argmax(self.log_straight(straight, trials)))]
        return best

    def log_straight(self, straight: Straight, u: Array) -> Array:
        """Log density of straight coordinates, (n, d) to (n,); what lies outside the prior counts as at its bound."""
        inside = np.stack([self.clipped(row) for row in straight.back(u)])
        log_prob: Array = self.log_prob(inside)[0] - straight.to(inside)[1]
        return log_prob

    def _prior_terms(self, z: Array, by_size: Array) -> tuple[Array, Array]:
        """Gradient of ln p in straight coordinates, (d,), and minus its curvature, (d, d), as far as it is not flat.

        Args:
            z: The maximum, (d,).
            by_size: Derivatives of ln σ, (d,).
        """
        power = 2.0 if self.prior.amplitude_law == "loguniform" else 1.0
        slope, curvature = (power - 2) * by_size, np.zeros((len(z), len(z)))
        for pair, extra in self.layout.amplitude_pairs():
            c, total = z[list(pair)], power + extra
            square = max(float(c @ c), 1e-300)
            slope[list(pair)] = -total * c / square
            block = total * (np.eye(2) / square - 2 * np.outer(c, c) / square**2)
            curvature[np.ix_(pair, pair)] = block
        for column, member, d in self.layout.shape_columns():
            name = member.shape[d]
            if name in member.positive:  # by the law, and by the breadth of the line
                slope[column] += 2.0 if member.ranges[name].law == "uniform" else 1.0
        return slope, curvature

    def log_laplace(self, around: Around) -> float:
        """Laplace's ln Z of a Gaussian; where a parameter lies outside the prior, the density at its bound counts.

        An evidence is never larger than the largest likelihood inside the prior times the prior's mass. A Gaussian that
        is broad beside the prior's bounds would otherwise promise what no draw can keep.
        """
        log_prob = float(self.log_straight(around.straight, around.mean[None])[0])
        if not math.isfinite(log_prob):
            return log_prob
        log_det = float(np.linalg.slogdet(around.covariance)[1])
        laplace = log_prob + 0.5 * (self.layout.size * math.log(2 * math.pi) + log_det)
        return min(laplace, self.log_largest(around) + self.layout.log_mass())

    def log_largest(self, around: Around) -> float:
        """The largest log-likelihood inside the prior beside a maximum, about: that of its mean, put inside."""
        inside = self.clipped(around.straight.back(around.mean[None])[0])[None]
        likelihood = float(log_sum_exp(self.node_log_likelihoods(inside), axis=0)[0])  # with K!
        return likelihood - math.lgamma(self.k + 1)

    def clipped(self, z: Array) -> Array:
        """A row, (d,), with every parameter inside the prior's bounds, a little from the edge."""
        z, (low, high) = z.copy(), self.prior.amplitude
        margin = 1e-9 * (high - low)
        for (real, imag), _ in self.layout.amplitude_pairs():
            size = max(math.hypot(z[real], z[imag]), 1e-300)
            factor = min(max(size, low + margin), high - margin) / size
            z[real], z[imag] = factor * z[real], factor * z[imag]
        for column, bounds in self.shape_bounds().items():
            edge = 1e-9 * (bounds[1] - bounds[0])
            z[column] = min(max(z[column], bounds[0] + edge), bounds[1] - edge)
        return z

    def shape_bounds(self) -> dict[int, tuple[float, float]]:
        """Bounds of each column of a row that holds a shape parameter."""
        found = {}
        for column, member, d in self.layout.shape_columns():
            name = member.shape[d]
            law = member.ranges.get(name)
            found[column] = self.prior.frequency if law is None else (law.low, law.high)
        return found
