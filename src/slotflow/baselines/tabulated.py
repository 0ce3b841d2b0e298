r"""The likelihood of one signal from tables, for samplers that ask for it a few hundred states at a time.

With tones z = (f, Re c, Im c) as in `exact/target.py` and the streams s at the offset δ_s from the long stream's
mid-time τ, RSS is made of three functions of one frequency:

.. math:: \mathrm{RSS} = \sum x^2 - 2 \Re \sum_k \bar c_k M(f_k) + \tfrac12 n' \sum_k |c_k|^2
          + \tfrac12 \Re \sum_k c_k^2 Q(2 f_k) + \Re \sum_{a<b} [c_a \bar c_b Q(f_a - f_b) + c_a c_b Q(f_a + f_b)] ,

the matched filter M(f) = Σ_s Σ_t x_s e^{−2πif(t−τ)}/r_s², Q(f) = Σ_s e^{2πifδ_s} S_0(f)/r_s², which is the sum of
e^{2πif(t−τ)} over all samples, and n' = Q(0). None turns faster than e^{2πifT/2}, so that cubic pieces between points
1/128T apart, with the exact values and slopes at both ends, give RSS to 1e-8 of the data's energy. σ is
integrated out as in `exact/target.py`; that function of ln RSS alone is a spline, unless σ is known.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from slotflow.core.arrays import Array
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["Curve", "Tabulated"]

Complex = NDArray[np.complex128]
POINTS_PER_BIN = 128
"""Points of a table per bin 1/T."""
NOISE_POINTS = 32_768
"""Points of the spline in ln RSS."""


class Curve:
    """A complex function of frequency between even points, cubic in each interval.

    Args:
        low: First point.
        step: Distance of the points.
        values: At the points, (G,).
        slopes: Derivatives there, (G,).
    """

    def __init__(self, low: float, step: float, values: Complex, slopes: Complex) -> None:
        self.low, self.step = low, step
        rise, first, last = np.diff(values), step * slopes[:-1], step * slopes[1:]
        self.cubic = np.stack(
            [values[:-1], first, 3 * rise - 2 * first - last, first + last - 2 * rise], -1
        )

    def __call__(self, f: Array) -> Complex:
        """The function at f, any shape; outside the table the nearest cubic goes on."""
        position = (f - self.low) * (1 / self.step)
        index = np.clip(position.astype(np.int64), 0, len(self.cubic) - 1)
        t, piece = position - index, self.cubic[index]
        value: Complex = ((piece[..., 3] * t + piece[..., 2]) * t + piece[..., 1]) * t + piece[
            ..., 0
        ]
        return value


class Tabulated:
    """Log-likelihood of any number of tones, σ integrated out or known.

    Args:
        statistics: Of one signal.
        prior: Its band and its bounds of A and σ.
    """

    def __init__(self, statistics: Statistics, prior: Prior) -> None:
        low, high = prior.frequency
        self.statistics, self.noise = statistics, Target(statistics, prior, 1).noise
        self.constant = Target(statistics, prior, 0).constant
        self.energy = float(statistics.energy)
        self.weight = statistics.weight
        self.step = 1 / (POINTS_PER_BIN * statistics.span)
        self.filter = self._matched(low, high)
        self.near = self._overlap(0.0, high - low)
        self.far = self._overlap(2 * low, 2 * high)
        largest = self.energy + self.weight * (prior.k_max * prior.amplitude[1]) ** 2
        edges = math.log(max(1e-4 * self.energy, 1e-300)), math.log(4 * largest + 1e-300)
        self.log_rss = np.linspace(*edges, NOISE_POINTS)
        self.marginal = CubicSpline(self.log_rss, self.noise.log_marginal(np.exp(self.log_rss)))

    def rss(self, z: Array) -> Array:
        """Residual sum of squares, (n,), of z, (n, K, 3), in any order."""
        f, c = TONE.simple(z)
        square = c.real**2 + c.imag**2
        gain = 0.5 * self.weight * square - 2 * (c.conj() * self.filter(f)).real
        gain += 0.5 * (c * c * self.far(2 * f)).real
        total: Array = self.energy + gain.sum(-1)
        a, b = np.triu_indices(z.shape[1], 1)
        if a.size:
            apart, sign = f[:, a] - f[:, b], f[:, a] < f[:, b]
            near = self.near(np.abs(apart))
            near = np.where(sign, near.conj(), near)
            product = c[:, b].conj() * near + c[:, b] * self.far(f[:, a] + f[:, b])
            total += (c[:, a] * product).real.sum(-1)
        return total

    def log_likelihood(self, rss: Array) -> Array:
        """Log-likelihood with σ integrated out or known, same shape."""
        if self.noise.known:
            return self.noise.log_marginal(rss) + self.constant
        x = np.log(np.maximum(rss, 1e-300))
        result: Array = self.marginal(np.maximum(x, self.log_rss[0])) + self.constant
        outside = (x < self.log_rss[0]) | (x > self.log_rss[-1])
        if outside.any():
            result[outside] = self.noise.log_marginal(rss[outside]) + self.constant
        return result

    def __call__(self, z: Array, group: NDArray[np.int64]) -> Array:
        """Log-likelihood of several states.

        Args:
            z: Their tones one after the other, (N, 3).
            group: Which state each belongs to, (N,), whole numbers from 0 that do not decrease.

        Returns:
            (number of states,).
        """
        counts = np.bincount(group.astype(np.int64))
        first = np.concatenate([[0], counts.cumsum()[:-1]]) if counts.size else counts
        rss = np.empty(counts.size)
        for k in np.unique(counts):
            rows = np.flatnonzero(counts == k)
            rss[rows] = self.rss(z[first[rows, None] + np.arange(k)])
        return self.log_likelihood(rss)

    @property
    def log_likelihood_of_none(self) -> float:
        """Log-likelihood without tones."""
        return float(self.log_likelihood(np.array([self.energy]))[0])

    def _grid(self, low: float, high: float) -> Array:
        index = np.arange(-1, math.ceil((high - low) / self.step) + 2, dtype=np.float64)
        return low + self.step * index

    def _matched(self, low: float, high: float) -> Curve:
        """M(f) with its slope."""
        f = self._grid(low, high)
        values, slopes = self.statistics.matched_slope(f[:, None])
        return Curve(float(f[0]), self.step, values[:, 0], slopes[:, 0])

    def _overlap(self, low: float, high: float) -> Curve:
        """Q(f) with its slope."""
        f = self._grid(low, high)
        zeroth, first = self.statistics.window(f, powers=2)
        return Curve(float(f[0]), self.step, zeroth, 2j * math.pi * first)
