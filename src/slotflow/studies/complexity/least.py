r"""The least training set for a given loss, and how it grows with K.

**Least N.** The loss is known at some N. Between two of them ln N is interpolated linearly in the loss,

.. math:: \ln N = \ln N_i + \frac{L_i - ε}{L_i - L_{i+1}} (\ln N_{i+1} - \ln N_i) ,

at the first i with L_i > ε ≥ L_{i+1}. If already the smallest set is enough, its size is an upper bound; if the largest
is not enough, there is no value. The paper takes the first N of its grid instead, which is never smaller.

**Growth.** Rank correlation, slope and exponent of (K, N) are those of `theory/minimum_samples`; K without a value are
left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotflow.studies.theory.minimum_samples import Trend, trend

__all__ = ["Least", "growth", "least_size"]

FEWEST_COUNTS = 3
"""K with a value from which on a growth is looked at."""


@dataclass(frozen=True)
class Least:
    """The least training set that reaches a loss."""

    size: float | None
    """N; None if no set is enough."""
    at_most: bool = False
    """Whether the smallest set is enough, so that the size is only an upper bound."""
    on_grid: float | None = None
    """The first N that was tried and is enough."""


def least_size(sizes: Sequence[float], losses: Sequence[float], target: float) -> Least:
    """The least training set.

    Args:
        sizes: N of the trainings, rising, (n,).
        losses: Validation loss of each, (n,).
        target: ε, the loss to reach.
    """
    if losses[0] <= target:
        return Least(float(sizes[0]), True, float(sizes[0]))
    for i in range(1, len(sizes)):
        if losses[i] <= target:
            share = (losses[i - 1] - target) / (losses[i - 1] - losses[i])
            size = sizes[i - 1] * (sizes[i] / sizes[i - 1]) ** share
            return Least(float(size), False, float(sizes[i]))
    return Least(None)


def growth(found: Mapping[int, Least]) -> Trend | None:
    """How the least N grows with K; None if too few K have one, or if all of them have the same.

    Args:
        found: The least training set of each K.
    """
    reached = {k: one.size for k, one in sorted(found.items()) if one.size is not None}
    sizes = list(reached.values())
    if len(reached) < FEWEST_COUNTS or math.isclose(min(sizes), max(sizes)):
        return None
    return trend(list(reached), sizes)
