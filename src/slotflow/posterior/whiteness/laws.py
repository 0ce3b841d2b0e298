r"""One test of a residual, and the laws that its p-values come from.

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
from dataclasses import dataclass

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
    "skewness_score",
]

FULL_T = math.sqrt(math.pi / 3)
"""T_e/T of even samples."""


@dataclass(frozen=True)
class Check:
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


def peak_probability(z: float, bins: float) -> float:
    """P(largest peak of a noise periodogram > z) over a range of `bins` = W T independent frequencies."""
    z = min(z, 700.0)
    single = math.exp(-z)
    rate = bins * FULL_T * math.sqrt(max(z, 0.0)) * single
    return float(-math.expm1(math.log1p(-min(single, 1 - 1e-16)) - rate))


def any_of(p: float, tests: int) -> float:
    """P(the smallest of so many independent p-values < p)."""
    return float(-math.expm1(tests * math.log1p(-min(p, 1 - 1e-16))))


def f_test(ratio: float, dof: float, dof_below: float) -> float:
    """Two-sided p-value of a ratio of mean powers with so many degrees of freedom above and below."""
    low, high = special.fdtr(dof, dof_below, ratio), special.fdtrc(dof, dof_below, ratio)
    return float(min(2 * min(low, high), 1.0))


def chi_square_test(power: float, dof: float) -> float:
    """Two-sided p-value of a sum of squares of unit normal variables."""
    low, high = special.chdtr(dof, power), special.chdtrc(dof, power)
    return float(min(2 * min(low, high), 1.0))


def beta_test(r: Array, mean: Array, variance: Array) -> Array:
    """Two-sided p-values of correlations in (−1, 1) of given means and variances, same shape; 1 without a variance."""
    seen = variance > 0
    centre, spread = 0.5 * (1 + mean), 0.25 * np.where(seen, variance, 1.0)
    total = centre * (1 - centre) / spread - 1
    a, b, x = centre * total, (1 - centre) * total, np.clip(0.5 * (1 + r), 0.0, 1.0)
    tail = np.minimum(special.betainc(a, b, x), special.betainc(b, a, 1 - x))
    found: Array = np.where(seen, np.minimum(2 * tail, 1.0), 1.0)
    return found


def normal_test(score: float) -> float:
    """Two-sided p-value of a standard normal variable."""
    return float(special.erfc(abs(score) / math.sqrt(2)))


def skewness_score(skewness: float, n: int) -> float:
    """A standard normal variable if the n values are Gaussian: an inverse hyperbolic sine of their skewness."""
    y = skewness * math.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    spread = 3.0 * (n * n + 27 * n - 70) * (n + 1) * (n + 3)
    spread /= (n - 2) * (n + 5) * (n + 7) * (n + 9)
    w = math.sqrt(2 * (spread - 1)) - 1
    return math.asinh(y * math.sqrt((w - 1) / 2)) / math.sqrt(0.5 * math.log(w))


def kurtosis_score(kurtosis: float, n: int) -> float:
    """A standard normal variable if the n values are Gaussian: a cube root of their kurtosis, 0 on average."""
    variance = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    x = (kurtosis + 6 / (n + 1)) / math.sqrt(variance)
    skew = 6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9))
    skew *= math.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6 + 8 / skew * (2 / skew + math.sqrt(1 + 4 / skew**2))
    below = 1 + x * math.sqrt(2 / (a - 4))
    root = math.copysign(((1 - 2 / a) / max(abs(below), 1e-300)) ** (1 / 3), below)
    return (1 - 2 / (9 * a) - root) / math.sqrt(2 / (9 * a))
