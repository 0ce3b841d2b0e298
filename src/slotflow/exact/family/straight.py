r"""Coordinates in which the posterior of a component is nearly a Gaussian, around a maximum of the likelihood.

In z = (ξ, Re c, Im c) it is bent in four ways, each of the order of 1/SNR or more. The error of a shape goes as 1/A.
A rate of decay is positive and known to a factor rather than to a difference. What the data know well is the energy
of a component, not its amplitude at one instant: a line that decays faster must begin higher. And the place of a broad
line is known less well than that of a narrow one. With the size σ(ξ), the root mean square of b over the record, the
breadth v(ξ) of a line (γ + 1/T of a decay) and a coordinate s(ξ) of each shape (ξ itself, or ln(ξ + 1/T) of a rate),

.. math:: u_c = c\, σ(ξ)/σ(\hat ξ) , \qquad u_ξ = (s(ξ) - s(\hat ξ))\, a , \quad a = |u_c| / |\hat c| , \qquad
          |du/dz| = a^D \left(\frac{σ(ξ)}{σ(\hat ξ)}\right)^{2M} \frac{v(\hat ξ)}{v(ξ)} \prod_d s'_d(ξ_d)

straightens all four, the place being divided by v(ξ)/v(ξ̂) besides.
"""

from __future__ import annotations

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.family.layout import Layout
from slotflow.exact.proposals.gaussian import Gaussian
from slotflow.signal.waveforms import Waveform

__all__ = ["Straight", "StraightGaussian"]


class Straight:
    """Straight coordinates of rows around one of them.

    Args:
        layout: Which components there are.
        centre: The row that they are straight around, (d,).
        duration: Length of the record in seconds.
    """

    def __init__(self, layout: Layout, centre: Array, duration: float) -> None:
        self.layout, self.duration = layout, duration
        self.parts = layout.parts(centre)

    def to(self, z: Array) -> tuple[Array, Array]:
        """Straight coordinates u, (n, d), of rows, (n, d), and ln |du/dz|, (n,)."""
        found, log_det = [np.zeros((len(z), 0))], np.zeros(len(z))
        for part, centre, member in self._members(z):
            d, m = len(member.shape), member.amplitudes
            size = self._size(member, part) / self._size(member, centre)  # (n, K)
            c = part[..., d:] * size[..., None]
            ratio = _norm(c) / _norm(centre[:, d:])
            away = self._coordinate(member, part) - self._coordinate(member, centre)
            broader = self._broader(member, part, centre)
            member.place_in_z(away)[:] /= broader
            u = np.concatenate([away * ratio[..., None], c], -1)
            found.append(u.reshape(len(z), centre.size))
            stretch = np.log(self._stretch(member, part)).sum((-2, -1))
            log_det += stretch + (d * np.log(ratio) + 2 * m * np.log(size)).sum(-1)
            log_det -= np.log(broader).sum(-1)
        return np.concatenate(found, -1), log_det

    def back(self, u: Array) -> Array:
        """Rows z of u, (n, d)."""
        found = [np.zeros((len(u), 0))]
        for part, centre, member in self._members(u):
            d, c = len(member.shape), part[..., len(member.shape) :]
            ratio = np.maximum(_norm(c) / _norm(centre[:, d:]), 1e-12)
            values = self._coordinate(member, centre) + part[..., :d] / ratio[..., None]
            xi = self._from_coordinate(member, values)
            places = member.place_in_z(xi)
            middle = member.place_in_z(centre)
            places[:] = middle + (places - middle) * self._broader(member, xi, centre)
            size = self._size(member, xi) / self._size(member, centre)
            found.append(np.concatenate([xi, c / size[..., None]], -1).reshape(len(u), -1))
        return np.concatenate(found, -1)

    def slopes(self) -> tuple[Array, Array]:
        """At the centre: dz/du, (d, d), and d ln σ/du of each coordinate, (d,)."""
        size, first = self.layout.size, 0
        forth, by_size = np.eye(size), np.zeros(size)
        for centre, member in zip(self.parts, self.layout.members, strict=True):
            d = len(member.shape)
            for row in centre:
                last = first + len(row)
                stretch = self._stretch(member, row)
                for i in range(d):
                    log_slope = self._log_size_slope(member, row, i)
                    forth[first + i, first + i] = stretch[i]
                    forth[first + d : last, first + i] = row[d:] * log_slope
                    by_size[first + i] = log_slope / stretch[i]
                first = last
        inverse: Array = np.asarray(np.linalg.inv(forth), dtype=np.float64)
        return inverse, by_size

    # ------------------------------------------------------------------ one class

    def _members(self, rows: Array) -> list[tuple[Array, Array, Waveform]]:
        """Coordinates of each class that has components, those of the centre, and the waveform."""
        every = zip(self.layout.parts(rows), self.parts, self.layout.members, strict=True)
        return [(part, centre, member) for part, centre, member in every if len(centre)]

    def _size(self, member: Waveform, part: Array) -> Array:
        """σ, (..., K), of coordinates or shapes, (..., K, Z) or (..., K, D)."""
        return member.size_of(part[..., : len(member.shape)], self.duration)

    def _broader(self, member: Waveform, part: Array, centre: Array) -> Array:
        """How much broader the lines of components are than those of the centre, (..., K)."""
        d = len(member.shape)
        here = member.breadth(part[..., :d], self.duration)
        return here / member.breadth(centre[:, :d], self.duration)

    def _log_size_slope(self, member: Waveform, row: Array, i: int) -> float:
        """Derivative of ln σ by ξ_i for one component, (Z,), by a difference."""
        step = np.zeros(len(row))
        step[i] = 1e-4 * member.scales(self.duration)[i]
        high, low = self._size(member, row + step), self._size(member, row - step)
        return float(np.log(high / low) / (2 * step[i]))

    def _offsets(self, member: Waveform) -> Array:
        """1/T for shapes that are positive, and infinity for the others, (D,)."""
        return np.where(
            [name in member.positive for name in member.shape], 1 / self.duration, np.inf
        )

    def _coordinate(self, member: Waveform, part: Array) -> Array:
        """The coordinate s of each shape, (..., D)."""
        xi, offset = part[..., : len(member.shape)], self._offsets(member)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(np.isinf(offset), xi, np.log(np.maximum(xi + offset, 1e-300)))

    def _from_coordinate(self, member: Waveform, s: Array) -> Array:
        """ξ of its coordinate, (..., D)."""
        offset = self._offsets(member)
        logarithm = np.exp(np.where(np.isinf(offset), 0.0, np.minimum(s, 300.0)))
        return np.where(np.isinf(offset), s, logarithm - np.where(np.isinf(offset), 0.0, offset))

    def _stretch(self, member: Waveform, part: Array) -> Array:
        """ds/dξ, (..., D)."""
        xi, offset = part[..., : len(member.shape)], self._offsets(member)
        shifted = np.where(np.isinf(offset), 1.0, xi + offset)
        return 1 / np.maximum(shifted, 1e-300)


class StraightGaussian:
    """A Gaussian in straight coordinates, as a density of rows z.

    Args:
        straight: The coordinates.
        mean: In u, (d,).
        covariance: In u, (d, d).
        widen: Factor on the standard deviations.
    """

    def __init__(
        self, straight: Straight, mean: Array, covariance: Array, widen: float = 1.0
    ) -> None:
        self.straight, self.gaussian = straight, Gaussian(mean, covariance, widen)

    def sample(self, n: int, rng: np.random.Generator, moved: float | Array = 0.0) -> Array:
        """Draws, (n, d), the mean moved by as much in u, (n, d)."""
        g = self.gaussian
        u = g.mean + moved + (rng.standard_normal((n, len(g.mean))) @ g.factor.T) * g.scale
        return self.straight.back(u)

    def log_prob(self, z: Array, moved: float | Array = 0.0) -> Array:
        """Log density of rows, (n, d), the mean moved by as much in u, (n, d); shape (n,)."""
        u, log_det = self.straight.to(z)
        return self.gaussian.log_prob_flat(u, moved) + log_det


def _norm(c: Array) -> Array:
    """Length of amplitudes, (..., 2M) to (...), never 0."""
    norm: Array = np.maximum(np.sqrt((c**2).sum(-1)), 1e-300)
    return norm
