r"""Widths and errors in units of the joint Cramér–Rao bound, K by K.

For a tone with the true θ, the posterior's standard deviation s, its median m and the bound b (`bounds.py`, at the
truth, all tones and streams):

- width: the median over tones of s / b. At high signal-to-noise it is 1 for the exact posterior; a box prior that
  cuts the posterior makes it smaller.
- error: a robust standard deviation of e = (m − θ) / b, half the distance between the quantiles Φ(−1) and Φ(1) of e,
  which is 1 for an efficient estimate. With p = Φ(−1), φ₁ the normal density at 1 and N tones, its standard error is

.. math:: \frac{1}{2 φ_1} \sqrt{\frac{2p(1-p) - 2p^2}{N}} ≈ \frac{0.962}{\sqrt N}

for Gaussian e (the two quantiles have the variance p(1−p)/φ₁²N each and the covariance p²/φ₁²N), times the value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from slotflow.studies.measures.parameters import differences, relative_units

__all__ = ["Precision", "mean_relative", "precision", "robust_sd"]

LOWER_TAIL = 0.5 * math.erfc(1 / math.sqrt(2))
"""Φ(−1)."""
RELATIVE_ERROR = math.sqrt(2 * LOWER_TAIL * (1 - 2 * LOWER_TAIL)) / (
    2 * math.exp(-0.5) / math.sqrt(2 * math.pi)
)
"""Standard error of the robust standard deviation of one Gaussian sample, times √N, over its value."""


@dataclass(frozen=True)
class Precision:
    """Width and error in units of the bound, one number for each parameter."""

    tones: int
    """Tones that were counted."""
    width: tuple[float, ...]
    """Median of posterior sd / bound."""
    error: tuple[float, ...]
    """Robust sd of (median − truth) / bound."""
    error_se: tuple[float, ...]
    """Standard error of `error`."""


def robust_sd(x: Tensor) -> tuple[float, float]:
    """Half the distance between the quantiles Φ(−1) and Φ(1) of x, shape (N,), and its standard error."""
    low, high = np.quantile(x.double().numpy(), [LOWER_TAIL, 1 - LOWER_TAIL])
    value = float(high - low) / 2
    return value, RELATIVE_ERROR * value / math.sqrt(len(x))


def precision(
    median: Tensor, sd: Tensor, truth: Tensor, bound: Tensor, keep: Tensor
) -> Precision | None:
    """Width and error over the bound.

    Args:
        median: Posterior medians, shape (n, K, P).
        sd: Posterior standard deviations, shape (n, K, P).
        truth: True components, shape (n, K, P).
        bound: Cramér–Rao bound at the truth, shape (n, K, P).
        keep: Which tones count, shape (n, K), bool.

    Returns:
        The figures, or None where fewer than two tones count.
    """
    if int(keep.sum()) < 2:
        return None
    scaled = (differences(median, truth) / bound)[keep]  # (N, P)
    robust = [robust_sd(column) for column in scaled.unbind(-1)]
    return Precision(
        tones=len(scaled),
        width=tuple((sd / bound)[keep].median(0).values.tolist()),
        error=tuple(value for value, _ in robust),
        error_se=tuple(error for _, error in robust),
    )


def mean_relative(width: Tensor, truth: Tensor, keep: Tensor) -> tuple[float, ...]:
    """Mean of the widths of each parameter over the tones in keep, those of A over A.

    Args:
        width: Standard deviations or bounds, shape (n, K, P).
        truth: True components, shape (n, K, P).
        keep: Which tones count, shape (n, K), bool.
    """
    return tuple((width / relative_units(truth))[keep].mean(0).tolist())
