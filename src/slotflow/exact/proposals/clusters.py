r"""Coordinates of a cluster of unresolved components: its distances, and what the data see of it at given distances.

Of m neighbours with the places f_i and the amplitudes c_i the data see the lowest moments of their spectrum best,

.. math:: M_r = \sum_i \big((f_i - \bar f)\, T\big)^r c_i , \qquad r = 0 \dots m - 1 ,

with f̄ the mean of the places.

The coordinates are the m − 1 distances of neighbours, apart from all others, and y = (f̄, M_0 … M_{m−1}, the components
outside the cluster). At given distances z is a linear function of y. From z to (distances, y) the Jacobian is
|det V|^{Z−1}, V being the Vandermonde matrix of the (f_i − f̄) T and Z the number of coordinates of a component.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = ["Cluster", "clusters"]

LARGEST_CLUSTER = 3
"""Neighbours that are taken together at most; the distances of more have too many dimensions for a grid."""


@dataclass(frozen=True)
class Cluster:
    """Some neighbours among K components."""

    first: int
    """Index of the lowest one."""
    size: int
    """m, how many there are."""
    components: int
    """K."""
    coordinates: int
    """Z."""
    place: int
    """Which of the Z coordinates is the place."""
    bin: float
    """1/T in Hz."""

    @property
    def members(self) -> slice:
        """Their indices."""
        return slice(self.first, self.first + self.size)

    @property
    def dimension(self) -> int:
        """Number of coordinates y."""
        return self.components * self.coordinates - self.size + 1

    def split(self, z: Array) -> tuple[Array, Array]:
        """Distances, (n, m − 1), and y, (n, dimension), of z, (n, K, Z), sorted."""
        place = z[:, self.members, self.place]
        distances = np.diff(place, axis=1)
        centre = place.mean(1, keepdims=True)
        y = z.copy()
        y[:, self.members] = self._powers(place - centre) @ z[:, self.members]
        y[:, self.members, self.place] = centre
        return distances, np.delete(
            y.reshape(len(z), self.components * self.coordinates), self._redundant, axis=1
        )

    def join(self, distances: Array, y: Array) -> Array:
        """z, (n, K, Z), of distances, (n, m − 1), and y, (n, dimension)."""
        n, at = len(y), self._redundant - np.arange(self.size - 1)
        z = np.insert(y, at, 0.0, axis=1).reshape(n, self.components, self.coordinates)
        away = self._offsets(distances)
        centre = z[:, self.first, self.place, None].copy()
        z[:, self.members] = np.linalg.solve(self._powers(away), z[:, self.members])
        z[:, self.members, self.place] = centre + away
        return z

    def log_jacobian(self, distances: Array) -> Array:
        """Logarithm of |d(distances, y)/dz|, (n,)."""
        _, log_det = np.linalg.slogdet(self._powers(self._offsets(distances)))
        log_jacobian: Array = (self.coordinates - 1) * log_det
        return log_jacobian

    def directions(self, distances: Array) -> Array:
        """dz/dy at given distances, transposed: (n, dimension, K·Z)."""
        n, d = len(distances), self.dimension
        origin = self.join(distances, np.zeros((n, d))).reshape(n, 1, -1)
        unit = self.join(np.repeat(distances, d, 0), np.tile(np.eye(d), (n, 1)))
        slopes: Array = unit.reshape(n, d, -1) - origin
        return slopes

    @property
    def _redundant(self) -> NDArray[np.int64]:
        """Where the places of all members but the first stand among the K·Z coordinates."""
        index = (self.first + np.arange(1, self.size)) * self.coordinates
        return index + self.place

    def _offsets(self, distances: Array) -> Array:
        """f_i − f̄, (n, m), of distances (n, m − 1)."""
        place = np.concatenate([np.zeros((len(distances), 1)), distances.cumsum(1)], 1)
        offsets: Array = place - place.mean(1, keepdims=True)
        return offsets

    def _powers(self, offsets: Array) -> Array:
        """V, (n, m, m), of f_i − f̄, (n, m)."""
        powers: Array = (offsets[:, None] / self.bin) ** np.arange(self.size)[:, None]
        return powers


def clusters(place: Array, bin_width: float, distance: float) -> list[tuple[int, int]]:
    """First index and size of each cluster of neighbours that are closer than `distance` bins, (K,) sorted places.

    A run of more than `LARGEST_CLUSTER` gives all its stretches of that length.
    """
    close = np.append(np.diff(place) < distance * bin_width, False)
    found, start = [], 0
    for end in np.flatnonzero(~close):
        length = int(end) - start + 1
        size = min(length, LARGEST_CLUSTER)
        if size > 1:
            found += [(start + i, size) for i in range(length - size + 1)]
        start = int(end) + 1
    return found
