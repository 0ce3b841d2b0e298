r"""Distances between sets of posterior draws, marginal by marginal.

The 1-D Wasserstein-2 distance of two sets of n draws is that of their sorted values,

.. math:: W_2(x, y) = \Big( \frac1n \sum_i (x_{(i)} - y_{(i)})^2 \Big)^{1/2} ,

in the units of the parameter. For Gaussians of means m, m' and standard deviations s, s' its square is (m − m')² +
(s − s')². Two sets of draws of one law are not at distance zero: their means alone differ by √(2/n) s.
"""

from __future__ import annotations

import numpy as np

from slotflow.core.arrays import Array
from slotflow.studies.measures.parameters import WAVEFORM, differences

__all__ = ["residuals", "wasserstein"]


def wasserstein(x: Array, y: Array) -> Array:
    """W₂ of each marginal of two sets of as many draws, (n, ...) each; shape (...)."""
    if x.shape != y.shape:
        raise ValueError(f"expected two sets of one shape, received {x.shape} and {y.shape}.")
    distance: Array = np.sqrt(((np.sort(x, 0) - np.sort(y, 0)) ** 2).mean(0))
    return distance


def residuals(draws: Array, truth: Array) -> Array:
    """Draws less the truth, each draw's components in the order of their frequencies.

    Args:
        draws: Components, (n, K, P).
        truth: True components sorted by frequency, (K, P).

    Returns:
        (n, K, P); differences of phases in [−π, π).
    """
    return differences(WAVEFORM.sorted(draws), truth)
