r"""The density that sampling aims at: p(Θ, x | K) with σ integrated out, in coordinates where it is nearly Gaussian.

**Noise.** σ is uniform on [σ_lo, σ_hi]. With n samples, a = (n−1)/2 and v = RSS/2σ²,

.. math:: \int σ^{-n} e^{-\mathrm{RSS}/2σ^2} dσ = \tfrac12 (\mathrm{RSS}/2)^{-a}\, Γ(a)\,
          [P(a, v_{lo}) - P(a, v_{hi})] ,

P being the regularized incomplete gamma function. So RSS alone decides, one dimension less has to be sampled, and σ
given RSS is drawn afterwards: v is a gamma variable of shape a between v_hi and v_lo. The integral has no bound as RSS
→ 0 with σ_lo = 0, so that σ_lo is never taken below `FLOOR` × the larger of the data's rms and σ_hi; below it RSS is
rounding. Where σ is known (σ_lo = σ_hi) there is no integral: σ^{−n} e^{−RSS/2σ²} itself counts.

**Coordinates.** A tone is z = (f, Re c, Im c), c = A e^{iφ} referred to the long stream's mid-time: given the
frequencies, the likelihood is exactly Gaussian in c. dA dφ = d²c / A, so the density in z is p(Θ | K) Π_k 1/A_k.

**Labels.** The K! labellings of a set of tones are equally probable. Only the one that is sorted by frequency is
looked at, with K! times the density; anything unsorted has the density zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

from slotflow.signal.kernels import fold, mid_time, moments
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.systems import inverse_one

__all__ = ["Array", "Noise", "Target", "residuals", "to_theta", "to_z"]

Array = NDArray[np.float64]
FLOOR = 1e-5
"""Smallest σ in units of the data's root mean square or of the prior's upper bound."""
CHUNK = 1024
"""Draws whose likelihood is computed at a time."""


@dataclass(frozen=True)
class Noise:
    """The uniform prior of σ, integrated out of the likelihood of n samples; equal bounds are a known σ."""

    n: int
    """Number of samples."""
    low: float
    """Lower bound of σ, above 0."""
    high: float
    """Upper bound."""

    @property
    def known(self) -> bool:
        """Whether σ is known."""
        return self.low == self.high

    def variance(self, rss: float) -> float:
        """σ² of a fit: the known one, or RSS/n."""
        return self.low**2 if self.known else rss / self.n

    def log_marginal(self, rss: Array) -> Array:
        """Logarithm of ∫ σ^{−n} e^{−RSS/2σ²} dσ between the bounds, or of the integrand at a known σ; shape of rss."""
        a = 0.5 * (self.n - 1)
        rss = np.maximum(np.asarray(rss, dtype=np.float64), 1e-300)
        if self.known:
            at_known: Array = -0.5 * rss / self.low**2 - self.n * math.log(self.low)
            return at_known
        v_low, v_high = 0.5 * rss / self.low**2, 0.5 * rss / self.high**2
        upper = v_high > a
        share = np.where(
            upper,
            special.gammaincc(a, v_high) - special.gammaincc(a, v_low),
            special.gammainc(a, v_low) - special.gammainc(a, v_high),
        )
        with np.errstate(divide="ignore"):
            result = np.log(share) - math.log(2) - a * np.log(0.5 * rss) + special.gammaln(a)
        lost = share < 1e-250
        if (
            lost.any()
        ):  # the bounds lie far from where the data want σ: an exponential at the nearer one
            edge = np.where(upper, self.high, self.low)
            tail = -0.5 * rss / edge**2 - (self.n - 1) * np.log(edge)
            slope = np.abs(rss / edge**2 - (self.n - 1))
            result = np.where(lost, tail - np.log(np.maximum(slope, 1.0)), result)
        return result

    def precision(self, rss: float) -> float:
        """1/σ² that the likelihood's curvature sees: −2 d ln ∫ / d RSS."""
        if self.known:
            return self.low**-2
        rss = max(rss, self.n * self.low**2)  # below it RSS is rounding
        step = 1e-5 * rss
        low, high = self.log_marginal(np.array([rss - step, rss + step]))
        return float(max((low - high) / step, self.high**-2 * 1e-3))

    def sample(self, rss: Array, rng: np.random.Generator) -> Array:
        """One σ for each RSS, shape (n,)."""
        if self.known:
            return np.full(rss.shape, self.low)
        a = 0.5 * (self.n - 1)
        rss = np.maximum(rss, 1e-300)
        sigma = np.full(rss.shape, np.nan)
        for _ in range(8):
            left = np.flatnonzero(np.isnan(sigma))
            if left.size == 0:
                return sigma
            drawn = np.sqrt(0.5 * rss[left] / rng.standard_gamma(a, left.size))
            inside = (drawn >= self.low) & (drawn <= self.high)
            sigma[left[inside]] = drawn[inside]
        left = np.flatnonzero(np.isnan(sigma))  # a bound cuts: ln σ on a grid that is finest at it
        upper = rss[left] > (self.n - 1) * self.high**2
        reach = np.minimum(12 / math.sqrt(2 * self.n), math.log(self.high / self.low))
        inner = np.where(upper, self.high * math.exp(-reach), self.low * math.exp(reach))
        middle = np.clip(np.sqrt(rss[left] / (self.n - 1)), self.low, self.high)
        low = np.maximum(np.minimum(inner, middle * math.exp(-reach)), self.low)
        high = np.minimum(np.maximum(inner, middle * math.exp(reach)), self.high)
        grid = np.exp(np.linspace(np.log(low), np.log(high), 2049))  # (2049, m)
        log_density = -0.5 * rss[left] / grid**2 - (self.n - 1) * np.log(grid)
        mass = np.exp(log_density - log_density.max(0)).cumsum(0)
        row = (mass < rng.random(left.size) * mass[-1]).sum(0)
        sigma[left] = grid[row, np.arange(left.size)]
        return sigma


class Target:
    """p(Θ, x | K) of one observation as a density of sorted z = (f, Re c, Im c).

    Args:
        statistics: Of one signal.
        prior: Prior of Θ and σ.
        k: Number of tones.
    """

    def __init__(self, statistics: Statistics, prior: Prior, k: int) -> None:
        if len(statistics.energy) != 1:
            raise ValueError(
                f"expected the statistics of one signal, received {len(statistics.energy)}; choose one with take()."
            )
        self.statistics, self.prior, self.k = statistics, prior, k
        rms = math.sqrt(float(statistics.energy) / statistics.n)
        low, high = prior.sigma
        if prior.known_sigma is None:
            low = min(max(low, FLOOR * max(rms, high)), 0.999 * high)
        elif low < FLOOR * rms:
            raise ValueError(
                f"expected a known σ of at least {FLOOR:g} times the data's rms of {rms:.4g}, received {low:g}: what "
                "tones leave of the data is rounding there; state σ in the data's units, or bounds of it."
            )
        # Each tone that was removed before took three degrees of freedom.
        self.noise = Noise(max(statistics.n - 3 * statistics.removed, 2), low, high)
        ratios = sum(
            g.n * math.log(r) for g, r in zip(statistics.grids, statistics.ratios, strict=True)
        )
        self.constant = (
            math.lgamma(k + 1)
            - 0.5 * self.noise.n * math.log(2 * math.pi)
            - ratios
            - (0.0 if self.noise.known else math.log(prior.sigma[1] - prior.sigma[0]))
        )
        self.evaluations = 0

    @property
    def bin(self) -> float:
        """1/T of the long stream, in Hz."""
        return 1 / self.statistics.grids[0].duration

    def log_prior(self, z: Array) -> Array:
        """Logarithm of p(Θ | K) Π 1/A of z, (n, K, 3); −inf where unsorted or outside the support. Shape (n,)."""
        f, amplitude = z[..., 0], np.hypot(z[..., 1], z[..., 2])
        theta = np.stack([amplitude, np.zeros_like(f), f], -1)
        log_prior: Array = self.prior.log_prob_theta(torch.from_numpy(theta)).numpy().copy()
        log_prior[~(np.diff(f, axis=-1) > 0).all(-1)] = -np.inf
        log_prior -= np.log(np.maximum(amplitude, 1e-300)).sum(-1)
        return log_prior

    def rss(self, z: Array) -> Array:
        """Residual sum of squares, (n,), of z, (n, K, 3)."""
        self.evaluations += len(z)
        if self.k == 0:
            return np.full(len(z), float(self.statistics.energy))
        f, c = z[..., 0], z[..., 1] + 1j * z[..., 2]
        single, starts = self.statistics.single, range(0, len(z), CHUNK)
        parts = [single.gains(f[i : i + CHUNK], c[i : i + CHUNK]) for i in starts]
        gains: Array = np.concatenate(parts) if parts else np.zeros(0)
        return float(self.statistics.energy) + gains

    def log_likelihood(self, rss: Array) -> Array:
        """Log-likelihood with σ integrated out, K! included, same shape."""
        return self.noise.log_marginal(rss) + self.constant

    def log_prob(self, z: Array) -> tuple[Array, Array]:
        """Log density and RSS of z, (n, K, 3), shape (n,) each; the likelihood is computed inside the support only."""
        log_prob, rss = self.log_prior(z), np.full(len(z), np.nan)
        inside = np.flatnonzero(log_prob > -np.inf)
        rss[inside] = self.rss(z[inside])
        log_prob[inside] += self.log_likelihood(rss[inside])
        return log_prob, rss

    def gaussian(self, z: Array, extra: float = 0.0) -> tuple[Array, Array] | None:
        """Mean and covariance of the Gaussian around a maximum of the likelihood.

        The curvature is that of −ln p̃ itself, not the Fisher matrix alone: second derivatives of the model times the
        residual (which couple the parameters of one tone only), and the prior's −ln A or −2 ln A. One Newton step
        carries the maximum of the likelihood to that of the posterior.

        Args:
            z: The maximum, (K, 3), sorted.
            extra: The density is that of p̃ Π A^{−extra}, as other coordinates than z ask for.

        Returns:
            (3K,) and (3K, 3K), or None where the curvature is not positive.
        """
        statistics, k = self.statistics, len(z)
        f, c = torch.from_numpy(z[None, :, 0]), torch.from_numpy(z[None, :, 1] + 1j * z[None, :, 2])
        rss, _, matrix = statistics.normal_equations(f, c)
        first, second = _residual_moments(statistics, z)  # (K,) each, complex
        hessian = matrix[0].numpy().copy()
        c_k = z[:, 1] + 1j * z[:, 2]
        rows = 3 * np.arange(k)
        cross = np.stack([2 * math.pi * first.imag, -2 * math.pi * first.real], -1)
        hessian[rows, rows] -= -4 * math.pi**2 * (c_k * second.conj()).real
        for axis in (1, 2):
            hessian[rows, rows + axis] -= cross[:, axis - 1]
            hessian[rows + axis, rows] -= cross[:, axis - 1]
        hessian *= self.noise.precision(float(rss))
        power = extra + (2.0 if self.prior.amplitude_law == "loguniform" else 1.0)
        square = np.maximum(np.abs(c_k) ** 2, 1e-300)
        slope = np.zeros((k, 3))
        slope[:, 1:] = -power * z[:, 1:] / square[:, None]
        curvature = power * (
            np.eye(2) / square[:, None, None]
            - 2 * z[:, 1:, None] * z[:, None, 1:] / square[:, None, None] ** 2
        )
        with_prior = hessian.copy()
        for i in range(2):
            for j in range(2):
                with_prior[rows + 1 + i, rows + 1 + j] += curvature[:, i, j]
        for trial in (with_prior, hessian, matrix[0].numpy() * self.noise.precision(float(rss))):
            inverse = inverse_one(trial)
            if inverse is not None:
                step = inverse @ slope.ravel() if trial is with_prior else np.zeros(3 * k)
                return z.ravel() + step, inverse
        return None


def residuals(statistics: Statistics, z: Array) -> list[Array]:
    """Each stream's data minus the tones z, (K, 3), over its noise ratio, (N_s,) each."""
    rest, f = [], z[:, 0]
    for grid, ratio, folded in zip(
        statistics.grids, statistics.ratios, statistics.folded, strict=True
    ):
        rows, cols = folded.shape[1:]  # t = t_i + t_j: a product of waves on I and on J points
        start = grid.t0 - statistics.reference + grid.dt * cols * np.arange(rows)
        coarse = np.exp(2j * math.pi * np.remainder(start[:, None] * f, 1.0))
        coarse *= (z[:, 1] + 1j * z[:, 2]) / ratio
        fine = np.exp(2j * math.pi * np.remainder(f[:, None] * (grid.dt * np.arange(cols)), 1.0))
        tones = coarse.real @ fine.real - coarse.imag @ fine.imag
        rest.append((folded[0].numpy() - tones).reshape(-1)[: grid.n])
    return rest


def to_theta(z: Array, reference: float) -> Array:
    """(A, φ in [0, 2π), f) of z = (f, Re c, Im c), same shape."""
    f, re, im = np.moveaxis(z, -1, 0)
    turns = np.remainder(np.arctan2(im, re) / (2 * math.pi) - f * reference, 1.0)
    return np.stack([np.hypot(re, im), 2 * math.pi * turns, f], -1)


def to_z(theta: Array, reference: float) -> Array:
    """Coordinates (f, Re c, Im c) of (A, φ, f), (..., K, 3), sorted by frequency; same shape."""
    theta = np.asarray(theta, dtype=np.float64)
    order = np.argsort(theta[..., 2], axis=-1, kind="stable")
    amplitude, phase, f = np.moveaxis(np.take_along_axis(theta, order[..., None], -2), -1, 0)
    angle = phase + 2 * math.pi * np.remainder(f * reference, 1.0)
    return np.stack([f, amplitude * np.cos(angle), amplitude * np.sin(angle)], -1)


def _residual_moments(
    statistics: Statistics, z: Array
) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Σ r w e^{−2πifw} and Σ r w² e^{−2πifw} over all streams at each tone, w = t − τ, (K,) each."""
    frequency = torch.from_numpy(np.ascontiguousarray(z[None, :, 0]))
    first = np.zeros(len(z), dtype=np.complex128)
    second = np.zeros(len(z), dtype=np.complex128)
    for grid, ratio, rest in zip(
        statistics.grids, statistics.ratios, residuals(statistics, z), strict=True
    ):
        offset = mid_time(grid) - statistics.reference
        m0, m1, m2 = (
            m[0].numpy()
            for m in moments(fold(torch.from_numpy(rest[None])), frequency, grid, powers=3)
        )
        turn = np.exp(-2j * math.pi * np.remainder(z[:, 0] * offset, 1.0)) / ratio
        first += turn * (m1 + offset * m0)
        second += turn * (m2 + 2 * offset * m1 + offset**2 * m0)
    return first, second
