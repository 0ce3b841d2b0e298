"""Draws of each number of components: the form in which samplers and files know a posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = ["Draws", "WeightedDraws"]


class WeightedDraws(NamedTuple):
    """Draws of p(Θ, σ | x, K) with their weights."""

    theta: Array
    """Parameters of the components, sorted by their places, (n, K, P)."""
    sigma: Array
    """Noise level, (n,)."""
    log_weights: Array
    """Logarithms of weights that sum to one, (n,)."""

    @property
    def weights(self) -> Array:
        """The weights, (n,)."""
        return np.exp(self.log_weights)


@dataclass
class Draws:
    """Equally weighted draws of each number of components, as the densities behind a Posterior."""

    k_max: int
    """Largest K."""
    theta: Mapping[int, Array]
    """Parameters of the components for each K that was visited, (n_K, K, P), sorted by their places."""
    sigma: Mapping[int, Array]
    """Noise level of the same draws, (n_K,)."""

    def sampled(self, k: int) -> bool:
        """Whether there are draws of k components."""
        return len(self.theta.get(k, ())) > 0

    def rows(self, n: int, k: int, seed: int) -> NDArray[np.int64]:
        """Which draws to hand out, (n,): each is used once before any is used again."""
        if not self.theta:
            raise ValueError("the file holds no draws; save the posterior again, with some.")
        if not self.sampled(k):
            visited = ", ".join(str(j) for j in sorted(self.theta))
            raise ValueError(
                f"expected a K that was visited, one of {visited}, received {k}: there are no draws of it; "
                "sample or save more draws, or choose another."
            )
        size = len(self.theta[k])
        rng = np.random.default_rng(seed)
        again = [rng.permutation(size) for _ in range(n // size)]
        return np.concatenate([*again, rng.choice(size, n % size, replace=False)])

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws, (n, k, P)."""
        rows = self.rows(n, k, seed)
        return self.theta[k][rows]

    def sample_sigma(self, n: int, k: int, seed: int) -> Array:
        """Noise levels of the draws that `sample` gives for the same arguments, (n,)."""
        rows = self.rows(n, k, seed)
        return self.sigma[k][rows]

    def log_prob(self, theta: Array) -> Array:
        """Refused: the draws are joint, so that no slot has a density of its own."""
        raise NotImplementedError("the components of sampled draws have a joint density only.")

    def joint_log_prob(self, theta: Array) -> Array:
        """NaN, (n,): a sampler knows its density up to a factor only."""
        return np.full(len(theta), math.nan)

    def constrained_fraction(self, k: int) -> float:
        """Zero: no draw was moved."""
        return 0.0
