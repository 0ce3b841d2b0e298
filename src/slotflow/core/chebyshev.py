r"""Chebyshev polynomials: smooth functions of one variable from few values.

A function on [−1, 1] is Σ_p a_p T_p(x) to the accuracy of its first P coefficients, and these are a linear transform of
its values at P nodes. A sum of phases e^{2πifu} with |u| ≤ s/2, on an interval of f of half the width h, turns by πhs
from the middle to an end: its coefficients fall faster than any power beyond p = πhs, and `BEYOND` more than that leave
10⁻¹⁰ of each phase.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from slotflow.core.arrays import Array

__all__ = ["nodes_and_transform", "polynomials", "terms_of_phases"]

BEYOND = 20
"""Polynomials beyond πhs."""


def terms_of_phases(half_width: float, span: float) -> int:
    """P for sums of phases e^{2πifu}, |u| ≤ span/2, on an interval of f of half the width `half_width`."""
    return math.ceil(math.pi * half_width * span) + BEYOND


@functools.lru_cache(maxsize=64)
def nodes_and_transform(terms: int) -> tuple[Array, Array]:
    """Chebyshev's nodes, (P,), and the transform from values there to coefficients of the polynomials, (P, P)."""
    angle = math.pi * (np.arange(terms) + 0.5) / terms
    transform = 2 / terms * np.cos(np.outer(np.arange(terms), angle))
    transform[0] *= 0.5
    return np.cos(angle), transform


def polynomials(x: Array, terms: int) -> Array:
    """T_p(x), p = 0 .. P − 1, of x in [−1, 1], (n,) to (P, n)."""
    found = np.empty((terms, len(x)))
    found[0] = 1.0
    found[1] = x
    double = 2 * x
    for p in range(2, terms):
        np.multiply(double, found[p - 1], out=found[p])
        found[p] -= found[p - 2]
    return found
