r"""How much of a component's parameters a vector explains: regressions that are tested on other signals.

Half of the signals teach a regression, the other half test it, and the other way round, with

.. math:: R^2 = 1 - \frac{\sum |v - \hat v|^2}{\sum |v - \overline v|^2} ,

v = A, f or (cos φ, sin φ). The regression is the mean of the nearest neighbours, or linear with a small ridge. R² is 0
where a vector says nothing, and can be negative: then a regression was misled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from slotflow.core.arrays import Array
from slotflow.studies.measures.parameters import CIRCULAR

__all__ = ["explained_by", "linear", "neighbours", "standardised"]

Regression = Callable[[Array, Array, Array], Array]
"""Points, their values and places to predict at, to predictions."""

NEIGHBOURS = 10
RIDGE = 1e-2
"""Weight of the penalty for each taught point, in units of a coordinate's variance."""


def neighbours(x: Array, y: Array, at: Array, count: int = NEIGHBOURS) -> Array:
    """Mean of the values of the nearest neighbours.

    Args:
        x: Points, (n, d).
        y: Their values, (n, p).
        at: Where to predict, (m, d).
        count: Number of neighbours.

    Returns:
        Shape (m, p).
    """
    _, index = cKDTree(x).query(at, k=min(count, len(x)))
    predicted: Array = y[np.asarray(index).reshape(len(at), -1)].mean(1)
    return predicted


def linear(x: Array, y: Array, at: Array) -> Array:
    """Ridge regression; shapes as in `neighbours`."""
    centre, level = x.mean(0), y.mean(0)
    z = x - centre
    weight = np.linalg.solve(
        z.T @ z + RIDGE * len(z) * np.eye(z.shape[1]), z.T @ (y - level)
    )  # (d, p)
    predicted: Array = level + (at - centre) @ weight
    return predicted


def explained_by(
    x: Array, theta: Array, signal: NDArray[np.int64], method: Regression
) -> list[float]:
    """R² of each parameter, from points of half of the signals to those of the other half and back.

    Args:
        x: Points, (n, d).
        theta: The component of each, (n, P).
        signal: Which signal each belongs to, (n,).
        method: `neighbours` or `linear`.
    """
    values = [
        np.stack([np.cos(column), np.sin(column)] if i in CIRCULAR else [column], -1)
        for i, column in enumerate(theta.T)
    ]
    half = signal % 2 == 0
    shares = []
    for y in values:
        predicted = np.empty_like(y)
        for test in (half, ~half):
            predicted[test] = method(x[~test], y[~test], x[test])
        shares.append(float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()))
    return shares


def standardised(x: Array) -> Array:
    """Coordinates with unit variance; constant ones are left out."""
    spread = x.std(0)
    keep = spread > 1e-9 * max(float(spread.max()), 1e-300)
    standard: Array = (x - x.mean(0))[:, keep] / spread[keep]
    return standard
