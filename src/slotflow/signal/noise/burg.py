r"""Autoregressive noise from samples: Burg's estimate of the partial autocorrelations, and the evidence for an order.

With the errors f_t of predicting a sample from the m − 1 before it, and b_t of "predicting" the one m − 1 before from
those after it, the next partial autocorrelation is

.. math:: r_m = \frac{2 \sum f_t\, \bar b_{t-1}}{\sum |f_t|^2 + |b_{t-1}|^2} ,

whose modulus is below 1 by construction, so that the noise is stationary. Sums run over samples with m neighbours, and
no prediction reaches across a gap.

The evidence for an order, with the level integrated out and r_m uniform between −1 and 1 (in the unit disc for complex
samples), follows from Laplace's approximation: each r_m has a standard deviation of √((1 − |r_m|²)/n).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.signal.noise.filters import Samples
from slotflow.signal.noise.series import Series

__all__ = ["best_order", "order_evidence", "partial_autocorrelations"]


def partial_autocorrelations(series: Series, highest: int) -> Samples:
    """Burg's estimates for the orders 1 to `highest`, (highest,), or fewer where the stretches are short."""
    forward = backward = series.values
    valid: NDArray[np.bool_] = np.ones(series.n, dtype=bool)
    follows, found = series.joined, []
    gaps = not follows[1:].all()
    for _ in range(highest):
        f, b = forward[1:], backward[:-1]
        used = f, b
        if gaps:
            valid = valid[1:] & valid[:-1] & follows[1:]
            follows = follows[1:]
            used = f[valid], b[valid]
        if len(used[0]) < 2:
            break
        power = sum(float(np.vdot(x, x).real) for x in used)
        if power == 0.0:
            break
        r = 2 * np.vdot(used[1], used[0]) / power
        found.append(r)
        forward, backward = f - r * b, b - np.conj(r) * f
    return np.array(found, dtype=series.values.dtype)


def order_evidence(partial: Samples, n: int) -> Array:
    """Logarithm of the evidence for the orders 0 to p of n samples over that of order 0, (p + 1,)."""
    left = np.maximum(1 - np.abs(partial) ** 2, 1e-12)
    if np.iscomplexobj(
        partial
    ):  # 2n real numbers, an area of π, and a variance of half the size on each axis
        each = -n * np.log(left) + np.log(left / n)
    else:
        each = -0.5 * n * np.log(left) + 0.5 * np.log(left / n) + 0.5 * math.log(2 * math.pi / 4)
    return np.concatenate([[0.0], np.cumsum(each)])


def best_order(partial: Samples, n: int) -> int:
    """The order with the most evidence."""
    return int(np.argmax(order_evidence(partial, n)))
