r"""Distances between sets of posterior draws, marginal by marginal.

The 1-D Wasserstein-2 distance of two sets of n draws is that of their sorted values,

.. math:: W_2(x, y) = \Big( \frac1n \sum_i (x_{(i)} - y_{(i)})^2 \Big)^{1/2} ,

in the units of the parameter. For Gaussians of means m, m' and standard deviations s, s' its square is (m − m')² +
(s − s')². Two sets of draws of one law are not at distance zero: their means alone differ by √(2/n) s.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from slotflow.studies.measures.tones import PHASE

__all__ = ["residuals", "wasserstein", "wrap"]

Array = NDArray[np.float64]


def wasserstein(x: Array, y: Array) -> Array:
    """W₂ of each marginal of two sets of as many draws, (n, ...) each; shape (...)."""
    if x.shape != y.shape:
        raise ValueError(f"expected two sets of one shape, received {x.shape} and {y.shape}.")
    distance: Array = np.sqrt(((np.sort(x, 0) - np.sort(y, 0)) ** 2).mean(0))
    return distance


def residuals(draws: Array, truth: Array) -> Array:
    """Draws less the truth, each draw's components in the order of their frequencies.

    Args:
        draws: (A, φ, f), (n, K, 3).
        truth: (A, φ, f) sorted by frequency, (K, 3).

    Returns:
        (n, K, 3); differences of phases in [−π, π).
    """
    order = np.argsort(draws[..., 2], axis=1)
    difference: Array = np.take_along_axis(draws, order[..., None], 1) - truth
    difference[..., PHASE] = wrap(difference[..., PHASE])
    return difference


def wrap(angle: Array) -> Array:
    """Angles in [−π, π)."""
    wrapped: Array = np.mod(angle + math.pi, 2 * math.pi) - math.pi
    return wrapped
