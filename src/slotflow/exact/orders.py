"""The answer across K: evidence and joint draws for each number of tones, as `search.py` finds them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.importance import Importance

__all__ = ["NEGLIGIBLE", "Orders"]

NEGLIGIBLE = 1e-3
"""p(K | x) of an order that does not matter: the search ends there."""


@dataclass(frozen=True, eq=False)
class Orders:
    """Evidence and draws for each number of tones K = 0..K_max."""

    log_evidence: Array
    """ln Z_K, (K_max + 1,); −inf where it was not needed."""
    log_evidence_error: Array
    """Standard errors, (K_max + 1,); inf where ln Z_K is a bound or an estimate."""
    k_probs: Array
    """p(K | x), (K_max + 1,)."""
    results: dict[int, Importance]
    """Draws of the orders that were sampled."""
    fits: dict[int, Array]
    """Parameters of the largest likelihood that the prior allows, for each order that was looked at, (K, P).

    There are fewer than K tones where the prior allows none of the maxima of that order that were found. An order that
    the weakest tone of the next one excluded was not fitted."""
    seconds: float
    """Time spent."""
    methods: dict[int, str] = field(default_factory=dict)
    """For each order "analytic", "importance", "tempering" or "bound"."""

    @property
    def k_map(self) -> int:
        """Most probable number of tones."""
        return int(self.k_probs.argmax())

    @property
    def largest(self) -> int:
        """Largest number of tones that is not negligible: what it leaves of the data should be noise."""
        return int(np.flatnonzero(self.k_probs > NEGLIGIBLE).max())

    @property
    def k_error(self) -> float:
        """Standard error of the largest p(K | x) that the errors of the evidences cause."""
        p = self.k_probs
        error = np.where(p > NEGLIGIBLE, np.nan_to_num(self.log_evidence_error, posinf=0.0), 0.0)
        j = self.k_map
        slope = p[j] * ((np.arange(len(p)) == j) - p)
        return float(np.sqrt(((slope * error) ** 2).sum()))

    def sample(self, n: int, rng: np.random.Generator, k: int | None = None) -> tuple[Array, Array]:
        """Equally weighted joint draws of one order (k_map if None): theta, (n, k, P), and sigma, (n,)."""
        k = self.k_map if k is None else k
        if k not in self.results or len(self.results[k].log_weights) == 0:
            raise ValueError(
                f"expected an order that was sampled, received k = {k}; there are draws for "
                f"{sorted(j for j, r in self.results.items() if len(r.log_weights))}."
            )
        return self.results[k].resample(n, rng)
