r"""One test of a residual, and the laws that its p-values come from, of one signal or of many.

- **Peaks.** Of noise, P/σ² is exponential at one frequency; over a band W the highest of many peaks follows 1 − (1 −
  e^{−z}) exp(−W T_e √z e^{−z}), T_e = √(4π var t) (Baluev 2008), which is T√(π/3) for even samples.
- **Ratios of powers** have an F law.
- **Correlations.** For white ε of n values, of which a fit has taken some directions (the projection is M, ν = tr M),
  the ratio r = εᵀMCMε/εᵀMε has the mean tr(MC)/ν and the variance 2(tr(MC)² − tr²(MC)/ν)/(ν(ν + 2)), exactly. It lies
  between −1 and 1, and a beta law on that interval with these two moments gives its tail: at the lag 1 of 98 values
  less eight tones the tail of 10⁻⁴ is right to 10 %.
- **Moments of the values**, each turned into a standard normal variable (skewness: D'Agostino 1970; kurtosis:
  Anscombe and Glynn 1983).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from slotflow.core.arrays import Array

__all__ = [
    "Check",
    "any_of",
    "beta_test",
    "chi_square_test",
    "f_test",
    "kurtosis_score",
    "normal_test",
    "peak_probability",
    "share_test",
    "skewness_score",
]

FULL_T = math.sqrt(math.pi / 3)
"""T_e/T of even samples."""


class Check(NamedTuple):
    """One test of the residual."""

    name: str
    """Which test."""
    p_value: float
    """Probability of so large a deviation if the residual were white noise."""
    words: str
    """What was found, in words."""
    doubt: float = 0.0
    """P-value below which a result is not called exact although it is no misfit: where the test has little power."""
    frequency: float | None = None
    """Where a peak lies, in Hz; None of other tests."""
    size: float | None = None
    """How large it is: a peak's power over the noise's, a ratio of powers, a kurtosis; None of other tests."""


def peak_probability(z: Any, bins: float) -> Any:
    """P(largest peak of a noise periodogram > z) over a range of `bins` = W T independent frequencies; shape of z."""
    z = np.minimum(z, 700.0)
    single = np.exp(-z)
    rate = bins * FULL_T * np.sqrt(np.maximum(z, 0.0)) * single
    return -np.expm1(np.log1p(-np.minimum(single, 1 - 1e-16)) - rate)


def any_of(p: Any, tests: int) -> Any:
    """P(the smallest of so many independent p-values < p), shape of p."""
    return -np.expm1(tests * np.log1p(-np.minimum(p, 1 - 1e-16)))


def f_test(ratio: Any, dof: Any, dof_below: Any) -> Any:
    """Two-sided p-value of a ratio of mean powers with so many degrees of freedom above and below; shape of ratio."""
    ratio = np.asarray(ratio)
    with np.errstate(divide="ignore"):
        turned, below = 1 / ratio, ratio < 1
    # The lower tail of a ratio is the upper tail of the inverse one.
    above, under = np.where(below, dof_below, dof), np.where(below, dof, dof_below)
    return _both_sides(special.fdtrc(above, under, np.where(below, turned, ratio)))


def chi_square_test(power: Any, dof: float) -> Any:
    """Two-sided p-value of a sum of squares of unit normal variables, shape of power."""
    low, high = special.chdtr(dof, power), special.chdtrc(dof, power)
    return np.minimum(2 * np.minimum(low, high), 1.0)


def share_test(share: Array, dof: Array) -> Array:
    """Two-sided p-values of the shares that parts of a series have in its power, (..., parts).

    The share of a part is a beta variable.

    Args:
        share: (..., parts).
        dof: Degrees of freedom of each part of the whole series, (parts,) or (..., parts).
    """
    return _beta_tails(0.5 * dof, 0.5 * (dof.sum(-1, keepdims=True) - dof), share)


def beta_test(r: Array, mean: Array, variance: Array) -> Array:
    """Two-sided p-values of correlations in (−1, 1) of given means and variances, same shape; 1 without a variance."""
    seen = variance > 0
    centre, spread = 0.5 * (1 + mean), 0.25 * np.where(seen, variance, 1.0)
    total = centre * (1 - centre) / spread - 1
    p = _beta_tails(centre * total, (1 - centre) * total, np.clip(0.5 * (1 + r), 0.0, 1.0))
    found: Array = np.where(seen, p, 1.0)
    return found


def _beta_tails(a: Array, b: Array, x: Array) -> Array:
    """Two-sided p-values of beta variables x, shapes that broadcast; only the tail on the side of x is computed."""
    below = x < a / (a + b)
    first, second = np.where(below, a, b), np.where(below, b, a)
    p: Array = _both_sides(special.betainc(first, second, np.where(below, x, 1 - x)))
    return p


def _both_sides(tail: Any) -> Any:
    """Two-sided p-values of tails on that side of the mean on which values lie; near the median either is smaller."""
    return 2 * np.minimum(tail, 1 - tail)


def normal_test(score: Any) -> Any:
    """Two-sided p-value of a standard normal variable, shape of score."""
    return special.erfc(np.abs(score) / math.sqrt(2))


def skewness_score(skewness: Any, n: int) -> Any:
    """A standard normal variable if the n values are Gaussian: an inverse hyperbolic sine of their skewness."""
    y = skewness * math.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    spread = 3.0 * (n * n + 27 * n - 70) * (n + 1) * (n + 3)
    spread /= (n - 2) * (n + 5) * (n + 7) * (n + 9)
    w = math.sqrt(2 * (spread - 1)) - 1
    return np.arcsinh(y * math.sqrt((w - 1) / 2)) / math.sqrt(0.5 * math.log(w))


def kurtosis_score(kurtosis: Any, n: int) -> Any:
    """A standard normal variable if the n values are Gaussian: a cube root of their kurtosis, 0 on average."""
    variance = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    x = (kurtosis + 6 / (n + 1)) / math.sqrt(variance)
    skew = 6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9))
    skew *= math.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6 + 8 / skew * (2 / skew + math.sqrt(1 + 4 / skew**2))
    below = 1 + x * math.sqrt(2 / (a - 4))
    root = np.copysign(((1 - 2 / a) / np.maximum(np.abs(below), 1e-300)) ** (1 / 3), below)
    return (1 - 2 / (9 * a) - root) / math.sqrt(2 / (9 * a))
