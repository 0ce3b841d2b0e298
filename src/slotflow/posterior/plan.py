"""Which K each joint draw (K, Θ) has: the same plan for one posterior and for many.

All signals of a batch share the uniform numbers behind K, and the draws of Θ given K have seeds that depend on the
user's seed alone. What a signal's draws are thus does not depend on the company in which they were made, and signals
that agree in K and in the number of draws agree in the random numbers behind them too, which are then made once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = ["JointPlan", "joint_plan"]

SEEDS_BELOW = 2**31
"""Seeds of the draws given K are smaller."""


class JointPlan(NamedTuple):
    """Which K the joint draws of B signals have, and from which seeds the draws given K come."""

    counts: NDArray[np.int64]
    """K of each draw, (B, n)."""
    sizes: NDArray[np.int64]
    """Number of draws of each K, (B, K_max + 1)."""
    seeds: NDArray[np.int64]
    """Seed of the draws of each K, (B, K_max + 1); meaningless where no draw has that K."""


def joint_plan(k_probs: Array, n: int, seed: int) -> JointPlan:
    """Draws K of n joint draws for each of B signals.

    Args:
        k_probs: p(K | x), (B, K_max + 1).
        n: Draws of each signal.
        seed: The same seed gives the same plan.
    """
    rng = np.random.default_rng(seed)
    distribution = np.cumsum(k_probs / k_probs.sum(-1, keepdims=True), axis=-1)
    distribution /= distribution[:, -1:]
    uniform = rng.random(n)
    size = k_probs.shape[-1]
    counts = np.zeros((len(k_probs), n), dtype=np.int64)
    sizes = np.zeros(k_probs.shape, dtype=np.int64)
    if n:  # K is the number of values of the distribution that are not above u
        least, most = ((distribution <= u).sum(1) for u in (uniform.min(), uniform.max()))
        counts[:] = least[:, None]
        sizes[np.arange(len(sizes)), least] = n
        several = np.flatnonzero(most > least)
        further = [distribution[several, k, None] <= uniform for k in range(size)]
        counts[several] = np.sum(further, axis=0)
        sizes[several] = np.stack([(counts[several] == k).sum(1) for k in range(size)], 1)
    later = np.array([int(rng.integers(SEEDS_BELOW)) for _ in range(size)], dtype=np.int64)
    order = np.maximum(np.cumsum(sizes > 0, axis=1) - 1, 0)
    return JointPlan(counts, sizes, later[order])
