r"""Power laws: the exponent of values that grow with K, and whether they follow a power law at all.

**Exponent.** The slope of a straight line through (log K, log v_K) by least squares. With
w_K = (log K − mean) / Σ (log K − mean)² it is Σ w_K log v_K. With s_K the standard error of v_K, its Monte-Carlo error
is (Σ w_K² (s_K/v_K)²)^{1/2}.

An exponent means something only where the values follow a power law: where each of them lies within 10 % of the fitted
law and within a quarter of its whole growth (10 % alone would let any curve pass that grows by a fifth), or within four
of its standard errors. Widths that approach those of the prior, for example, saturate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_exponent", "follows_power_law", "largest_factor", "local_exponents"]

LARGEST_DEPARTURE, SHARE_OF_GROWTH, STANDARD_ERRORS = 0.1, 0.25, 4.0
"""How far a value may lie from a power law that is said to describe it: as a share of itself, as a share of the law's
growth on a logarithmic scale, or in its standard errors."""
ROUNDING = 1e-9
"""Departure that rounding may cause."""


def fit_exponent(k: list[int], value: list[float], error: list[float]) -> tuple[float, float]:
    """Slope of log value against log k, and its Monte-Carlo error.

    Args:
        k: Numbers of components, at least two different ones.
        value: What was measured at each, positive.
        error: Its standard error.
    """
    x = np.log(k)
    weight = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    relative = np.asarray(error) / np.asarray(value)
    return float(weight @ np.log(value)), float(np.sqrt((weight**2) @ relative**2))


def follows_power_law(k: list[int], value: list[float], error: list[float]) -> bool:
    """Whether every value lies near the fitted power law; the arguments are those of `fit_exponent`."""
    relative = np.asarray(error) / np.asarray(value)
    growth = abs(fit_exponent(k, value, error)[0]) * math.log(max(k) / min(k))
    near = max(min(math.log1p(LARGEST_DEPARTURE), SHARE_OF_GROWTH * growth), ROUNDING)
    allowed = np.maximum(near, STANDARD_ERRORS * relative)
    return bool((np.abs(_log_ratios(k, value)) <= allowed).all())


def largest_factor(k: list[int], value: list[float]) -> float:
    """Largest factor, 1 or more, between a value and the fitted power law."""
    return math.exp(float(np.abs(_log_ratios(k, value)).max()))


def local_exponents(k: list[int], value: list[float]) -> tuple[float, float]:
    """Slopes of log value against log k between the first two k, and between the last k and about half of it."""
    x, y = np.log(k), np.log(value)
    half = int(np.abs(x[:-1] - (x[-1] - math.log(2))).argmin())
    first, last = ((y[b] - y[a]) / (x[b] - x[a]) for a, b in ((0, 1), (half, -1)))
    return float(first), float(last)


def _log_ratios(k: list[int], value: list[float]) -> NDArray[np.float64]:
    """Logarithm of each value over the fitted power law, (len(k),)."""
    x, y = np.log(k), np.log(value)
    slope, _ = fit_exponent(k, value, [0.0] * len(k))
    ratios: NDArray[np.float64] = y - y.mean() - slope * (x - x.mean())
    return ratios
