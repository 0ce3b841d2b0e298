"""The facts of one signal of a batch: everything about a result that needs no draw, without the work that draws need.

Records and tables of many signals ask for no more than this. Densities are made when a draw is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.facts import Facts
from slotflow.posterior.tuples import Slots
from slotflow.signal.prior import Prior

if TYPE_CHECKING:
    from slotflow.posterior.verdict import Verdict

__all__ = ["LateSlots", "SignalFacts"]


class LateSlots:
    """Densities of components that are made when they are first asked.

    Args:
        make: Makes them.
        k_max: Largest number of components.
    """

    def __init__(self, make: Callable[[], Slots], k_max: int) -> None:
        self.make, self.k_max = make, k_max

    @cached_property
    def made(self) -> Slots:
        """The densities."""
        return self.make()

    def sample(self, n: int, k: int, seed: int) -> Array:
        """Draws, (n, k, P)."""
        return self.made.sample(n, k, seed)

    def log_prob(self, theta: Array) -> Array:
        """Log density of component j under slot i, (n, k, P) to (n, k, k)."""
        return self.made.log_prob(theta)

    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the constraints."""
        return self.made.constrained_fraction(k)


class SignalFacts(Facts):
    """What is known of one signal of a batch.

    Args:
        k_probs: p(K | x), (K_max + 1,).
        slots: Makes the densities of its components.
        observation: The data.
        noise: Estimate of σ, and its standard error where there is one.
        method: Where the answer comes from.
        prior: The prior it was found under, where it is known.
        verdict: How far it can be trusted.
    """

    def __init__(
        self,
        k_probs: Array,
        slots: Callable[[], Slots],
        observation: Observation,
        noise: tuple[float, float | None],
        method: str,
        prior: Prior | None,
        verdict: Verdict,
    ) -> None:
        late = LateSlots(slots, len(k_probs) - 1)
        super().__init__(k_probs, late, observation, *noise, method, prior)
        self._verdict = verdict

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted."""
        return self._verdict
