r"""Slots and the components that they take: matching, specialization, consistency.

Slots are matched to the true components one-to-one at the least total distance between the median frequency of a slot's
draws and the component's.

**Specialization.** With f_ki the frequency that slot k takes in mixture i, the share of its variance that the slot's
number explains,

.. math:: η^2 = \frac{\mathrm{Var}_k(\overline{f_k})}{\mathrm{Var}_{ki}(f_{ki})} ,

is near 0 where the number says nothing and largest where slots are in the order of their frequencies.

**Consistency.** The share of slots with the same component, averaged over all pairs of R runs: with c_kj runs in which
slot k took component j, it is the mean over k of Σ_j c_kj (c_kj − 1) / (R (R − 1)). Matching by the density of a slot,
as in the paper, involves no draw, so that a hundred runs on one signal agree with certainty; here each run is matched
by one draw of its own. Fresh noise on the same components is the test that can fail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

__all__ = ["assign", "consistency", "explained", "match_matrix"]

Array = NDArray[np.float64]


def assign(slots: Array, truth: Array) -> NDArray[np.int64]:
    """Component of each slot at the least total distance.

    Args:
        slots: Frequencies of the slots, (n, K).
        truth: Frequencies of the components, (n, K).

    Returns:
        Shape (n, K).
    """
    cost = np.abs(slots[:, :, None] - truth[:, None, :])
    return np.stack([linear_sum_assignment(one)[1] for one in cost])


def match_matrix(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often slot k took component j, (K, K), from assignments (R, K)."""
    k = chosen.shape[1]
    return np.stack([np.bincount(column, minlength=k) for column in chosen.T])


def consistency(matrix: NDArray[np.int64]) -> float:
    """Share of slots with the same component over all pairs of runs."""
    runs = int(matrix[0].sum())
    return float((matrix * (matrix - 1)).sum(1).mean() / (runs * (runs - 1)))


def explained(value: Array) -> float:
    """Share of the variance of (n, K) numbers that the column explains."""
    return float(value.mean(0).var() / value.var())
