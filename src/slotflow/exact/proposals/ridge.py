r"""Unresolved tones that nearly cancel: a proposal along the ridge on which distances and amplitudes trade off.

The data see the lowest moments of a cluster's spectrum (`clusters.py`). For two tones in opposition M_0 is small, so
that M_2 = ¼δ²M_0 hardly depends on their distance δ: the data determine the dipole M_1 and leave δ free, from where the
prior's largest amplitude is reached up to where the next moments matter. A Gaussian around the maximum covers a part of
this ridge only, and splits of a single tone (`splits.py`) refer to M_0, which is lost in the noise. Three unresolved
tones have more such directions.

**The ridge.** At given distances δ all other coordinates y are refitted, with amplitudes held back by a Gaussian of the
size of the prior's largest one. That gives a mean and a covariance of y at the nodes of a grid of δ
(`cluster_fits.py`). In each cell of the grid δ is uniform and y is Gaussian, around a mean that is linear in each δ,
with the mean covariance of the corners. The probabilities of the cells come from a few draws of each that the target
weighs, so that the prior's bounds count. A first round over all δ finds the cells that matter, and a second one divides
these more finely.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.proposals.cluster_fits import Nodes, fit_nodes
from slotflow.exact.proposals.clusters import Cluster, clusters
from slotflow.exact.target import Target

__all__ = ["Ridge", "ridges"]

Index = NDArray[np.int64]

UNRESOLVED = 1.25
"""Distance in bins below which neighbours of a maximum belong to one cluster."""
LARGEST_DISTANCE = 1.6
"""Largest δ in bins."""
CELLS = {2: (14, 24), 3: (9, 12)}
"""Cells along each distance in both rounds, for clusters of two and of three."""
DRAWS = {2: (500, 2000), 3: (500, 8000)}
"""Draws in all that the probabilities of the cells come from, in both rounds, for clusters of two and of three."""
NEGLIGIBLE = 1e-5
"""Probability of a slice of cells, in units of the largest one, below which the second round leaves it out."""
EVEN = 0.05
"""Share of the probability that is spread evenly over the cells."""
WIDEN = {2: 1.15, 3: 1.4}
"""Factor on the standard deviations of y, for clusters of two and of three."""
SAME = 0.1
"""Distance in bins below which the tones of two maxima belong to the same ridge."""


class Ridge:
    """K tones, a cluster of which is at any distances δ and all else where it is best for them.

    Args:
        target: What to propose for.
        z: A maximum of the likelihood, (K, Z), sorted.
        cluster: Which of its tones are unresolved.
        rng: Source of randomness of the draws that weigh the cells.

    Raises:
        numpy.linalg.LinAlgError: A fit at some distances is singular; `ridges` leaves the cluster out instead.
    """

    def __init__(
        self, target: Target, z: Array, cluster: Cluster, rng: np.random.Generator
    ) -> None:
        self.cluster, axes = cluster, cluster.size - 1
        coarse, fine = CELLS[cluster.size]
        first = target.prior.min_separation
        edges = first + LARGEST_DISTANCE * target.bin * np.linspace(0, 1, coarse + 1) ** 1.5
        edges[0] = max(first, 1e-2 * (edges[1] - first))
        grid = [edges] * axes
        _, start = cluster.split(z[None])
        nodes = fit_nodes(target, cluster, grid, np.repeat(start, (coarse + 1) ** axes, 0))
        self._set(nodes)
        mass = self._masses(target, DRAWS[cluster.size][0], rng)
        finer = []
        for axis in range(axes):
            along = mass.sum(tuple(a for a in range(axes) if a != axis))
            some = np.flatnonzero(along > NEGLIGIBLE * along.max())
            span = np.linspace(max(some[0] - 1, 0), min(some[-1] + 2, coarse), fine + 1)
            finer.append(np.interp(span, np.arange(coarse + 1), edges))
        points = np.stack(np.meshgrid(*finer, indexing="ij"), -1).reshape(-1, axes)
        self._set(fit_nodes(target, cluster, finer, self._mean(self._cells(points), points)))
        mass = self._masses(target, DRAWS[cluster.size][1], rng).ravel()
        self.share = (1 - EVEN) * mass + EVEN / len(mass)

    def _set(self, nodes: Nodes) -> None:
        """Turns fits at the nodes into Gaussians of the cells, with equal probabilities."""
        self.edges, self.mean = nodes.edges, nodes.mean
        self.counts = tuple(len(edge) - 1 for edge in nodes.edges)
        covariance, axes = nodes.covariance, len(self.counts)
        for axis in range(axes):
            low = [slice(None)] * axes
            high = list(low)
            low[axis], high[axis] = slice(None, -1), slice(1, None)
            covariance = 0.5 * (covariance[tuple(low)] + covariance[tuple(high)])
        d = self.cluster.dimension
        covariance = covariance.reshape(-1, d, d) * WIDEN[self.cluster.size] ** 2
        spread = np.sqrt(np.einsum("mii->mi", covariance))
        unit = covariance / (spread[:, :, None] * spread[:, None])
        self.factor = np.linalg.cholesky(unit) * spread[:, :, None]
        self.inverse = np.linalg.inv(self.factor)
        self.share = np.full(len(unit), 1 / len(unit))
        volume = np.diff(self.edges[0])
        for edge in self.edges[1:]:
            volume = (volume[:, None] * np.diff(edge)).ravel()
        self.normalizer = 0.5 * d * math.log(2 * math.pi) + np.log(volume)
        self.normalizer += np.log(np.einsum("mii->mi", self.factor)).sum(-1)

    def _masses(self, target: Target, draws: int, rng: np.random.Generator) -> Array:
        """Probabilities of the cells, an array with an axis for each distance, by draws of all of them."""
        count = len(self.share)
        n = -(-draws // count)
        z = self._draw(np.repeat(np.arange(count), n), rng)
        log_p, _ = target.log_prob(z)
        weight = np.full(len(z), -np.inf)
        some = np.flatnonzero(log_p > -np.inf)
        weight[some] = log_p[some] - self.log_prob(z[some])
        log_mass = log_sum_exp(weight.reshape(count, n), axis=1)
        if not np.isfinite(log_mass.max()):
            return self.share.reshape(self.counts)
        mass: Array = np.exp(log_mass - log_sum_exp(log_mass))
        return mass.reshape(self.counts)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, Z)."""
        return self._draw(rng.choice(len(self.share), n, p=self.share / self.share.sum()), rng)

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        log_prob = np.full(len(z), -np.inf)
        distances, y = self.cluster.split(z)
        low, high = (np.array([edge[at] for edge in self.edges]) for at in (0, -1))
        near = np.flatnonzero(((distances > low) & (distances < high)).all(-1))
        if near.size:
            distances, cell = distances[near], self._cells(distances[near])
            flat = np.ravel_multi_index(cell, self.counts)
            away = y[near] - self._mean(cell, distances)
            white = np.einsum("nij,nj->ni", self.inverse[flat], away)
            log_prob[near] = np.log(self.share / self.share.sum())[flat] - self.normalizer[flat]
            log_prob[near] += self.cluster.log_jacobian(distances) - 0.5 * (white**2).sum(-1)
        return log_prob

    def _draw(self, flat: Index, rng: np.random.Generator) -> Array:
        """One draw in each of given cells, (n,) to (n, K, Z)."""
        cell = tuple(index.astype(np.int64) for index in np.unravel_index(flat, self.counts))
        distances = np.stack(
            [
                edge[i] + rng.random(len(flat)) * (edge[i + 1] - edge[i])
                for edge, i in zip(self.edges, cell, strict=True)
            ],
            -1,
        )
        noise = rng.standard_normal((len(flat), self.cluster.dimension))
        y = self._mean(cell, distances) + np.einsum("nij,nj->ni", self.factor[flat], noise)
        return self.cluster.join(distances, y)

    def _cells(self, distances: Array) -> tuple[Index, ...]:
        """Index of the cell along each distance, (n,) each, of distances (n, m − 1)."""
        return tuple(
            np.clip(np.searchsorted(edge, value, side="right") - 1, 0, len(edge) - 2)
            for edge, value in zip(self.edges, distances.T, strict=True)
        )

    def _mean(self, cell: tuple[Index, ...], distances: Array) -> Array:
        """Mean of y, (n, dimension), at distances (n, m − 1) in cells."""
        parts = [
            (value - edge[i]) / (edge[i + 1] - edge[i])
            for edge, i, value in zip(self.edges, cell, distances.T, strict=True)
        ]
        mean = np.zeros((len(distances), self.cluster.dimension))
        for corner in itertools.product((0, 1), repeat=len(cell)):
            share = np.ones(len(distances))
            for side, part in zip(corner, parts, strict=True):
                share = share * (part if side else 1 - part)
            at = tuple(i + side for i, side in zip(cell, corner, strict=True))
            mean += share[:, None] * self.mean[at]
        return mean


def ridges(target: Target, maxima: list[Array], rng: np.random.Generator) -> list[Ridge]:
    """The ridges of all clusters of unresolved tones, each of them once.

    Args:
        target: What to propose for.
        maxima: Of the likelihood, (K, Z) each, sorted, the best first.
        rng: Source of randomness.
    """
    waveform, found = target.waveform, []
    known: list[tuple[tuple[int, int], Array]] = []
    column = waveform.shape.index(waveform.place)
    for z in maxima:
        place = waveform.place_in_z(z)
        for first, size in clusters(place, target.bin, UNRESOLVED):
            inside = slice(first, first + size)
            outline = np.concatenate([place[:first], [place[inside].mean()], place[first + size :]])
            if any(
                key == (first, size) and np.abs(outline - other).max() < SAME * target.bin
                for key, other in known
            ):
                continue
            known.append(((first, size), outline))
            cluster = Cluster(first, size, len(z), z.shape[1], column, target.bin)
            try:
                found.append(Ridge(target, z, cluster, rng))
            except np.linalg.LinAlgError:
                continue
    return found
