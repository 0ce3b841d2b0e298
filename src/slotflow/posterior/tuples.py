r"""Densities of components behind a posterior, and what they say of tuples that have no order.

Given K, slot k has a density q_k(θ) of its own and the draws of different slots are independent (paper, eq. 9). As a
statement about labelled tuples it is symmetrized over the K! ways to assign components to slots (theorem 4.1):

.. math::
    q(\theta_1, \dots, \theta_K, K \mid x)
    = q(K \mid x) \, \frac{1}{K!} \sum_{\pi \in S_K} \prod_k q_{\pi(k)}(\theta_k) ,

a matrix permanent. All its terms are positive, so the recursion over subsets, P(S ∪ {i}) += P(S) q_i(θ_{|S|+1}), is
stable in logarithms and costs K 2^K instead of K!.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["CentredSlots", "JointSlots", "SampledSlots", "Slots", "log_permanent"]


class Slots(Protocol):
    """The per-slot densities behind a Posterior."""

    k_max: int

    def sample(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Draws, (n, k, P)."""

    def log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of component j under slot i, (n, k, P) to (n, k, k), index (draw, i, j)."""

    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the constraints."""


@runtime_checkable
class CentredSlots(Slots, Protocol):
    """Densities that know their components' places without a draw."""

    def centres(self, k: int) -> NDArray[np.float64]:
        """Best estimate of k components, (k, P)."""


@runtime_checkable
class JointSlots(Slots, Protocol):
    """Densities of components that are not independent of each other."""

    def joint_log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of labelled tuples given K, (n, k, P) to (n,)."""


@runtime_checkable
class SampledSlots(Slots, Protocol):
    """Draws of some numbers of components, each with a noise level that belongs to it."""

    def sampled(self, k: int) -> bool:
        """Whether there are draws of k components from the posterior itself."""

    def sample_sigma(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Noise levels of the draws that `sample` gives for the same arguments, (n,)."""


def log_permanent(log_matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of Σ_π Π_j exp(M[π(j), j]) for matrices of log entries.

    Args:
        log_matrix: (n, k, k), −inf allowed.

    Returns:
        (n,).
    """
    n, k = log_matrix.shape[:2]
    subsets = np.arange(2**k)
    sizes = np.array([bin(s).count("1") for s in subsets])
    total = np.full((2**k, n), -np.inf)
    total[0] = 0.0
    for j in range(k):
        before = subsets[sizes == j]
        for i in range(k):
            free = before[(before >> i) & 1 == 0]
            after = free | (1 << i)
            total[after] = np.logaddexp(total[after], total[free] + log_matrix[:, i, j])
    result: NDArray[np.float64] = total[-1]
    return result
