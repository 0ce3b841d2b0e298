"""What a model must offer to be evaluated."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation

__all__ = ["Analyser", "AnalysisLike", "NoiseEstimate", "PairedSlots", "SlotsLike"]


class SlotsLike(Protocol):
    """Posteriors of the slots of B signals, for a given K of each."""

    @property
    def mask(self) -> Tensor:
        """Which slots exist, (B, K), bool."""

    def sample(self, n: int, seed: int) -> Tensor:
        """Draws of (A, φ, f), (B, n, K, P), float64."""


@runtime_checkable
class PairedSlots(Protocol):
    """Slots with densities, by which they can be matched to components."""

    def pair_log_prob(self, theta: Tensor) -> Tensor:
        """Log density of component j under slot i, up to a constant for each slot, (B, K, P) to (B, slots, K)."""


class AnalysisLike(Protocol):
    """Posterior of B signals."""

    @property
    def k_probs(self) -> Tensor:
        """q(K | x), (B, k_max + 1), index = K."""

    def slots(self, k: Tensor | None = None) -> SlotsLike:
        """Slots for K = k, (B,), int64, on the CPU; for the most probable K if None."""


@runtime_checkable
class NoiseEstimate(Protocol):
    """A posterior of B signals whose network may have a pathway for the noise level."""

    @property
    def sigma_estimate(self) -> Tensor | None:
        """σ̂ of each signal, (B,); None without such a pathway."""


@runtime_checkable
class Analyser(Protocol):
    """Anything that can be evaluated: a network, or an exact posterior in a test."""

    def analyse(self, simulation: Simulation, prior: Prior, /) -> AnalysisLike:
        """Posterior of every signal of a batch under a prior."""
