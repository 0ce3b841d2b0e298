"""Correlations of weighted draws, between the parameters of one component and of several."""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.studies.measures.parameters import CIRCULAR, SIZE

__all__ = ["between_components", "correlation"]


def correlation(theta: Array, weights: Array) -> Array:
    """Correlation matrix of weighted draws.

    Args:
        theta: Components in the order of their places, (n, K, P); angles are unrolled around their circular mean.
        weights: Of the draws, (n,), summing to one.

    Returns:
        (KP, KP).
    """
    x = theta.copy()
    for i in CIRCULAR:
        middle = np.angle(np.einsum("n,nk->k", weights, np.exp(1j * x[..., i])))
        x[..., i] = np.remainder(x[..., i] - middle + math.pi, 2 * math.pi)
    flat = x.reshape(len(x), -1)
    flat = flat - weights @ flat
    covariance = (weights[:, None] * flat).T @ flat
    scale = 1 / np.sqrt(np.diag(covariance))
    matrix: Array = covariance * scale[:, None] * scale
    return matrix


def between_components(matrix: Array) -> Array:
    """The block of a correlation matrix of two components, (2P, 2P), between one and the other, (P, P)."""
    return matrix[:SIZE, SIZE:]
