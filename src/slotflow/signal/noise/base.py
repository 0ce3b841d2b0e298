"""What a noise model answers.

The likelihood sums over samples under the noise's inner product and leaves one number of the data and the components:
RSS, the residual's squared length in units of the noise's shape. What is unknown of the noise (its level) is integrated
out here, so that samplers never see it, and drawn afterwards given RSS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from slotflow.core.arrays import Array

__all__ = ["Noise"]


class Noise(ABC):
    """The marginal likelihood of data whose noise has unknowns, as a function of RSS."""

    @property
    @abstractmethod
    def known(self) -> bool:
        """Whether nothing of the noise is unknown."""

    @abstractmethod
    def variance(self, rss: float) -> float:
        """σ² of a fit that leaves RSS."""

    @abstractmethod
    def log_marginal(self, rss: Array) -> Array:
        """Logarithm of the likelihood with the unknowns integrated out, but for what RSS has no part in; same shape."""

    @abstractmethod
    def precision(self, rss: float) -> float:
        """1/σ² that the likelihood's curvature sees: −2 d log_marginal / d RSS."""

    @abstractmethod
    def sample(self, rss: Array, rng: np.random.Generator) -> Array:
        """One noise level for each RSS, same shape (n,)."""
