r"""Errors of draws that come from draws: who shares an ancestor.

Draws of K tones that grow out of those of K − 1 (`growth.py`) are not independent: two that come from one draw share
its tones, and so on down to the first order that was drawn at all, whose draws are the roots. Let W_e be the sum of the
weights of all draws that come from root e. If the weights told nothing, two draws would still share a root by chance,

.. math:: c_K = \frac1{n_K} + s^2 c_{K-1} ,

where n_K is the number of draws and s the weight of those that have grown. What goes beyond is the variance of the
evidence, errors below and all that they have in common with those above included (Chan and Lai 2013, Lee and Whiteley
2018),

.. math:: \frac{\mathrm{var} \hat Z_K}{\hat Z_K^2} = \sum_e W_e^2 - c_K ,

which is the usual (1/ESS − 1)/n for draws that are their own roots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = ["Lineage", "descended", "own_roots"]


@dataclass(frozen=True, eq=False)
class Lineage:
    """Where weighted draws come from."""

    roots: NDArray[np.int64]
    """Number of each draw's root, (n,)."""
    chance: float
    """c: the share of pairs of draws that have one root by chance alone."""

    def shared(self, log_weights: Array) -> float:
        """Σ W_e² of weights that sum to one, (n,)."""
        return float((np.bincount(self.roots, np.exp(log_weights)) ** 2).sum())

    def variance(self, log_weights: Array) -> float:
        """Of ln Z; an estimate that is zero where it would be negative."""
        return max(self.shared(log_weights) - self.chance, 0.0)


def own_roots(n: int) -> Lineage:
    """The lineage of n independent draws."""
    return Lineage(np.arange(n), 1 / max(n, 1))


def descended(lower: Lineage, parents: NDArray[np.int64], log_weights: Array) -> Lineage:
    """The lineage of draws some of which come from others.

    Args:
        lower: Of these others.
        parents: Which of them each draw comes from, (n,); −1 for none.
        log_weights: Of the draws, (n,).
    """
    n, has = len(parents), parents >= 0
    first = int(lower.roots.max(initial=-1)) + 1
    roots = np.where(has, lower.roots[np.maximum(parents, 0)], first + np.arange(n))
    _, roots = np.unique(roots, return_inverse=True)  # numbers do not rise from order to order
    share = math.fsum(np.exp(log_weights[has]))
    return Lineage(roots.ravel(), 1 / n + share**2 * lower.chance)
