"""What a search across K knows of each order so far: evidence or a bound of it, draws, and which order is to beat."""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance
from slotflow.exact.orders import NEGLIGIBLE
from slotflow.signal.prior import Prior

__all__ = ["BOUND", "Ledger"]

BOUND = "bound"
"""Method of an order whose evidence is a bound or an estimate."""


class Ledger:
    """Evidences and draws of the orders 0 to k_max.

    Args:
        prior: Gives p(K).
    """

    def __init__(self, prior: Prior) -> None:
        self.log_z = np.full(prior.k_max + 1, -np.inf)
        """ln Z_K, (K_max + 1,)."""
        self.error = np.full(prior.k_max + 1, np.inf)
        """Its standard error; inf where ln Z_K is a bound."""
        with np.errstate(divide="ignore"):
            self.log_prior = np.log(prior.k_probs_full)
        self.way_prior = np.where(np.isfinite(self.log_prior), self.log_prior, self.log_prior.max())
        """ln p(K) with weight for orders of p(K) = 0, which the search must pass to reach those beyond."""
        self.results: dict[int, Importance] = {}
        self.methods: dict[int, str] = {}
        self.unfitted: set[int] = set()
        """Orders that were excluded without a fit."""

    def reached(self, k: int) -> bool:
        """Whether there is an evidence or a bound of order k."""
        return k >= 0 and bool(np.isfinite(self.log_z[k]))

    def to_beat(self, k: int) -> float:
        """Ln Z_K at which order k would be as probable as the best one so far."""
        return float((self.log_z + self.log_prior).max()) - float(self.way_prior[k])

    def matters(self, k: int) -> bool:
        """Whether a neighbour of order k is worth a look."""
        largest = (self.log_z + self.log_prior).max()  # of the orders that the prior allows
        score = self.log_z[k] + self.way_prior[k]
        return bool(score > largest + math.log(NEGLIGIBLE) or not np.isfinite(largest))

    def bound(self, k: int, log_evidence: float) -> None:
        """Notes a bound or an estimate of order k."""
        self.log_z[k], self.methods[k] = log_evidence, BOUND

    def keep(self, k: int, result: Importance) -> None:
        """Notes the draws of order k."""
        self.results[k], self.methods[k] = result, result.method
        self.log_z[k], self.error[k] = result.log_evidence, result.log_evidence_error

    @property
    def k_probs(self) -> Array | None:
        """p(K | x), (K_max + 1,); None where no order that the prior allows has an evidence."""
        score = self.log_z + self.log_prior
        if not np.isfinite(score).any():
            return None
        probs: Array = np.exp(score - log_sum_exp(score))
        return probs
