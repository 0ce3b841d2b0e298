r"""The likelihood of tones in one signal from tables, for samplers that evaluate it for a few hundred states at a time.

With tones of frequencies f and complex amplitudes c at the reference time τ, and channels s whose mid-times lie δ_s
after τ, RSS is made of three functions of one frequency:

.. math:: \mathrm{RSS} = \sum x^2 - 2 \Re \sum_k \bar c_k M(f_k) + \tfrac12 n' \sum_k |c_k|^2
          + \tfrac12 \Re \sum_k c_k^2 Q(2 f_k) + \Re \sum_{a<b} [c_a \bar c_b Q(f_a - f_b) + c_a c_b Q(f_a + f_b)] ,

the matched filter M(f) = Σ_s Σ_t x_s e^{−2πif(t−τ)}/r_s², Q(f) = Σ_s e^{2πifδ_s} S_0(f)/r_s², which is the sum of
e^{2πif(t−τ)} over all samples, and n' = Q(0). None of them turns faster than e^{2πifT/2}, so cubic pieces between
points 1/128T apart, with the exact values and slopes at both ends, give RSS to 1e-8 of the energy of the data. σ is
integrated out as in `exact/target.py`. The result depends on ln RSS alone and is tabulated as a spline, unless σ is
known.

Samplers move tones in the coordinates z of the waveform, (…, Z), whose method `simple` gives (f, c).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from slotflow.core.arrays import Array, Complex
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Tone

__all__ = ["Curve", "Tabulated"]

POINTS_PER_BIN = 128
"""Number of points of a table in each bin 1/T."""
NOISE_POINTS = 32_768
"""Number of points of the spline in ln RSS."""


class Curve:
    """A complex function of frequency, interpolated between equidistant points by a cubic in each interval.

    Args:
        low: The first point.
        step: Distance between neighbouring points.
        values: The function at the points, (G,).
        slopes: Its derivative at the points, (G,).
    """

    def __init__(self, low: float, step: float, values: Complex, slopes: Complex) -> None:
        self.low, self.step = low, step
        rise, first, last = np.diff(values), step * slopes[:-1], step * slopes[1:]
        self.cubic = np.stack(
            [values[:-1], first, 3 * rise - 2 * first - last, first + last - 2 * rise], -1
        )

    def __call__(self, f: Array) -> Complex:
        """The function at f, any shape; outside the table the nearest cubic is continued."""
        position = (f - self.low) * (1 / self.step)
        index = np.clip(position.astype(np.int64), 0, len(self.cubic) - 1)
        t, piece = position - index, self.cubic[index]
        value: Complex = ((piece[..., 3] * t + piece[..., 2]) * t + piece[..., 1]) * t + piece[
            ..., 0
        ]
        return value


class Tabulated:
    """Log-likelihood of any number of tones, with σ integrated out or known.

    Args:
        statistics: Sufficient statistics of one signal, whose components are tones.
        prior: Gives the band that the tables cover and the bounds of A and σ.
    """

    def __init__(self, statistics: Statistics, prior: Prior) -> None:
        if not isinstance(statistics.waveform, Tone):
            raise ValueError(
                f"expected components that are tones, received the waveform {statistics.waveform.name!r}; the "
                "tabulated likelihood is a sum of functions of one frequency."
            )
        low, high = prior.frequency
        self.waveform = statistics.waveform
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
        """Residual sum of squares, (n,), of z, (n, K, Z), in any order."""
        f, c = self.waveform.simple(z)
        square = c.real**2 + c.imag**2
        gain = 0.5 * self.weight * square - 2 * (c.conj() * self.filter(f)).real
        gain += 0.5 * (c * c * self.far(2 * f)).real
        total: Array = self.energy + gain.sum(-1)
        a, b = np.triu_indices(z.shape[1], 1)
        if a.size:
            near = self._at_difference(f[:, a] - f[:, b])
            product = c[:, b].conj() * near + c[:, b] * self.far(f[:, a] + f[:, b])
            total += (c[:, a] * product).real.sum(-1)
        return total

    def filtered(self, f: Array, c: Complex, at: Array) -> Complex:
        """What the matched filter sees at some frequencies of tones (f, c); the three broadcast against each other."""
        seen: Complex = 0.5 * (c * self._at_difference(f - at) + (c * self.far(f + at)).conj())
        return seen

    def _at_difference(self, apart: Array) -> Complex:
        """Q at a difference of two frequencies of the band, of either sign: Q(−f) is the conjugate of Q(f)."""
        near = self.near(np.abs(apart))
        return np.where(apart < 0, near.conj(), near)

    def log_likelihood(self, rss: Array) -> Array:
        """Log-likelihood with σ integrated out or known, of the same shape as RSS."""
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
            z: The tones of all states, one state after the other, (N, Z).
            group: Index of the state that each tone belongs to, (N,), from 0 and not decreasing.

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
        """Points of a table from low to high, and one or more beyond either end."""
        index = np.arange(-1, math.ceil((high - low) / self.step) + 2, dtype=np.float64)
        return low + self.step * index

    def _matched(self, low: float, high: float) -> Curve:
        """Table of the matched filter M(f)."""
        f = self._grid(low, high)
        values, slopes = self.statistics.matched_slope(f[:, None])
        return Curve(float(f[0]), self.step, values[:, 0], slopes[:, 0])

    def _overlap(self, low: float, high: float) -> Curve:
        """Table of the overlap Q(f)."""
        f = self._grid(low, high)
        zeroth, first = self.statistics.window(f, powers=2)
        return Curve(float(f[0]), self.step, zeroth, 2j * math.pi * first)
