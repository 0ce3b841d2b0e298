r"""White noise of one level σ, uniform between bounds or known.

With σ uniform on [σ_lo, σ_hi], n samples, a = (n−1)/2 and v = RSS/2σ²,

.. math:: \int σ^{-n} e^{-\mathrm{RSS}/2σ^2} dσ = \tfrac12 (\mathrm{RSS}/2)^{-a}\, Γ(a)\,
          [P(a, v_{lo}) - P(a, v_{hi})] ,

P being the regularized incomplete gamma function. So RSS alone decides, one dimension less has to be sampled, and σ
given RSS is drawn afterwards: v is a gamma variable of shape a between v_hi and v_lo. The integral has no bound as RSS
→ 0 with σ_lo = 0, so that σ_lo is never taken below `SMALLEST_LEVEL` × the larger of the data's rms and σ_hi; below it
RSS is rounding. Where σ is known (σ_lo = σ_hi) there is no integral: σ^{−n} e^{−RSS/2σ²} itself counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from slotflow.core.arrays import Array, namespace
from slotflow.signal.noise.base import Noise

__all__ = ["SMALLEST_LEVEL", "WhiteNoise", "log_marginal", "lowest_level", "precision"]

SMALLEST_LEVEL = 1e-5
"""Smallest σ in units of the data's root mean square or of the prior's upper bound."""
NOTHING = 1e-17
"""Share of the density of σ that rounding swallows."""


@dataclass(frozen=True)
class WhiteNoise(Noise):
    """The uniform prior of σ, integrated out of the likelihood of n samples; equal bounds are a known σ."""

    n: int
    """Number of samples."""
    low: float
    """Lower bound of σ, above 0."""
    high: float
    """Upper bound."""

    @classmethod
    def under(cls, bounds: tuple[float, float], n: int, rms: float) -> WhiteNoise:
        """The noise of some data.

        Args:
            bounds: Of σ under the prior; equal bounds are a known σ.
            n: Number of samples, less the degrees of freedom that were spent on them before.
            rms: Root mean square of the data.
        """
        low, high = bounds
        if low != high:
            low = float(lowest_level(bounds, np.asarray(rms)))
        elif low < SMALLEST_LEVEL * rms:
            raise ValueError(
                f"expected a known σ of at least {SMALLEST_LEVEL:g} times the data's rms of {rms:.4g}, received "
                f"{low:g}: what components leave of the data is rounding there; state σ in the data's units, or "
                "bounds of it."
            )
        return cls(n, low, high)

    @property
    def known(self) -> bool:
        """Whether σ is known."""
        return self.low == self.high

    def variance(self, rss: float) -> float:
        """σ² of a fit: the known one, or RSS/n."""
        return self.low**2 if self.known else rss / self.n

    def log_marginal(self, rss: Array) -> Array:
        """Logarithm of ∫ σ^{−n} e^{−RSS/2σ²} dσ between the bounds, or of the integrand at a known σ; shape of rss."""
        found: Array = log_marginal(np.asarray(rss, dtype=np.float64), self.n, self.low, self.high)
        return found

    def precision(self, rss: float) -> float:
        """1/σ² that the likelihood's curvature sees: −2 d ln ∫ / d RSS."""
        return float(precision(np.asarray(rss, dtype=np.float64), self.n, self.low, self.high))

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
        left = np.flatnonzero(np.isnan(sigma))
        if left.size == 0:
            return sigma
        same = (
            left[:1] if (rss[left] == rss[left[0]]).all() else left
        )  # as with no component at all
        grid, mass = self._cut(rss[same])
        share = rng.random(left.size)
        if same.size == 1:
            sigma[left] = grid[np.searchsorted(mass[:, 0], share * mass[-1, 0]), 0]
        else:
            row = (mass < share * mass[-1]).sum(0)
            sigma[left] = grid[row, np.arange(left.size)]
        return sigma

    def _cut(self, rss: Array) -> tuple[Array, Array]:
        """Where a bound cuts: values of σ on a grid that is finest at it, and their cumulated mass, (G, m) each."""
        upper = rss > (self.n - 1) * self.high**2
        reach = np.minimum(12 / math.sqrt(2 * self.n), math.log(self.high / self.low))
        inner = np.where(upper, self.high * math.exp(-reach), self.low * math.exp(reach))
        middle = np.clip(np.sqrt(rss / (self.n - 1)), self.low, self.high)
        low = np.maximum(np.minimum(inner, middle * math.exp(-reach)), self.low)
        high = np.minimum(np.maximum(inner, middle * math.exp(reach)), self.high)
        grid = np.exp(np.linspace(np.log(low), np.log(high), 2049))  # (2049, m)
        log_density = -0.5 * rss / grid**2 - (self.n - 1) * np.log(grid)
        return grid, np.exp(log_density - log_density.max(0)).cumsum(0)


def lowest_level(bounds: tuple[float, float], rms: Any) -> Any:
    """Lower bound of an unknown σ that is never taken too small, shape of rms; arguments as of `WhiteNoise.under`."""
    xp, (low, high) = namespace(rms), bounds
    return xp.clip(SMALLEST_LEVEL * xp.clip(rms, high, None), low, 0.999 * high)


def log_marginal(rss: Any, n: int, low: Any, high: float, cut: bool | None = None) -> Any:
    """Logarithm of ∫ σ^{−n} e^{−RSS/2σ²} dσ between bounds, or of the integrand at a known σ; shape of rss.

    Args:
        rss: Residual sums of squares, any shape.
        n: Number of samples.
        low: Lower bound of σ, a number or an array that broadcasts against rss; the upper one where σ is known.
        high: Upper bound.
        cut: Whether the bounds matter, where it is known already.
    """
    xp, a = namespace(rss), 0.5 * (n - 1)
    rss = xp.clip(rss, 1e-300, None)
    if isinstance(low, float) and low == high:
        return -0.5 * rss / high**2 - n * math.log(high)
    incomplete = torch.special if isinstance(rss, Tensor) else special
    free = math.lgamma(a) - math.log(2) - a * xp.log(0.5 * rss)
    if not (_bounds_matter(rss, a, low, high) if cut is None else cut):
        return free
    v_low, v_high = 0.5 * rss / low**2, 0.5 * rss / high**2
    shape, upper = xp.full_like(rss, a), v_high > a
    share = xp.where(
        upper,
        incomplete.gammaincc(shape, v_high) - incomplete.gammaincc(shape, v_low),
        incomplete.gammainc(shape, v_low) - incomplete.gammainc(shape, v_high),
    )
    lost = share < 1e-250
    # The bounds may lie far from where the data want σ: an exponential at the nearer one is left.
    edge = xp.where(upper, high + 0 * rss, low + 0 * rss)
    tail = -0.5 * rss / edge**2 - (n - 1) * xp.log(edge)
    slope = xp.abs(rss / edge**2 - (n - 1))
    beyond = tail - xp.log(xp.clip(slope, 1.0, None))
    return xp.where(lost, beyond, xp.log(xp.where(lost, 1.0, share)) + free)


def _bounds_matter(rss: Any, a: float, low: Any, high: float) -> bool:
    """Whether the bounds of σ cut anything off its density that rounding would not, at any of some RSS."""
    if 0 in rss.shape:
        return False
    least, most = float((rss / low**2).min()), float(rss.max())
    if not (math.isfinite(least) and math.isfinite(most)):
        return True
    below = float(special.gammaincc(a, 0.5 * least))
    above = float(special.gammainc(a, 0.5 * most / high**2))
    return max(below, above) > NOTHING


def precision(rss: Any, n: int, low: Any, high: float) -> Any:
    """1/σ² that the likelihood's curvature sees, −2 d ln ∫ / d RSS, shape of rss; arguments as of `log_marginal`."""
    xp = namespace(rss)
    if isinstance(low, float) and low == high:
        return xp.full_like(rss, high**-2)
    rss = xp.maximum(rss, n * low**2 + 0 * rss)  # below it RSS is rounding
    step = 1e-5 * rss
    below, above = (log_marginal(one, n, low, high) for one in (rss - step, rss + step))
    return xp.clip((below - above) / step, high**-2 * 1e-3, None)
