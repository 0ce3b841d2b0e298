"""The prior of one shape parameter: uniform or log-uniform between two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slotflow.core.arrays import Array, namespace

__all__ = ["LAWS", "Range"]

LAWS = ("uniform", "loguniform")
"""Laws that a parameter may have between its bounds."""


@dataclass(frozen=True)
class Range:
    """Bounds of a parameter and its law between them."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    law: str = "uniform"
    """One of `LAWS`."""

    @classmethod
    def checked(
        cls,
        name: str,
        bounds: Sequence[float] | str,
        law: str = "uniform",
        least: float = -math.inf,
    ) -> Range:
        """A range from what a user states.

        Args:
            name: What the parameter is called, for error messages.
            bounds: Two numbers, or text such as "0.01:0.2" or "0.01:0.2:loguniform".
            law: One of `LAWS`; text that names one overrides it.
            least: Smallest value that makes sense.
        """
        if isinstance(bounds, str):
            parts = [part.strip() for part in bounds.split(":")]
            law, bounds = (parts[2] if len(parts) == 3 else law), _numbers(parts[:2])
        try:
            pair = tuple(float(b) for b in bounds)
        except (TypeError, ValueError):
            pair = ()  # refused below
        if law not in LAWS:
            raise ValueError(f"{name}: expected a law, one of {LAWS}, received {law!r}.")
        if len(pair) != 2 or not all(map(math.isfinite, pair)) or not pair[0] < pair[1]:
            raise ValueError(
                f"{name}: expected two finite bounds, lower < upper, received {bounds!r}."
            )
        if pair[0] < least:
            raise ValueError(
                f"{name}: expected bounds of at least {least:g}, received {pair}; raise the lower one."
            )
        if law == "loguniform" and pair[0] <= 0:
            raise ValueError(
                f"{name}: expected a lower bound above 0 for a log-uniform law, received {pair}; raise it, or use "
                "law='uniform'."
            )
        return cls(*pair, law)

    @property
    def text(self) -> str:
        """As `checked` reads it."""
        text = f"{self.low!r}:{self.high!r}"
        return text if self.law == "uniform" else f"{text}:{self.law}"

    def steps(self, size: float) -> Array:
        """Values from one bound to the other, evenly, at most a size apart, (S,), S >= 2."""
        return np.linspace(
            self.low, self.high, max(math.ceil((self.high - self.low) / size), 1) + 1
        )

    def draw(self, u: Any) -> Any:
        """Values of uniform numbers u in [0, 1); same shape."""
        if self.law == "loguniform":
            return self.low * namespace(u).exp(u * math.log(self.high / self.low))
        return self.low + u * (self.high - self.low)

    def cumulative(self, x: Array) -> Array:
        """Probability below values, same shape: the inverse of `draw`."""
        inside = np.clip(x, self.low, self.high)
        if self.law == "loguniform":
            return np.asarray(np.log(inside / self.low) / math.log(self.high / self.low))
        return np.asarray((inside - self.low) / (self.high - self.low))

    def mass(self, edges: Array) -> Array:
        """Probability between neighbouring edges, (S + 1,) to (S,)."""
        return np.diff(self.cumulative(edges))

    def log_prob(self, x: Any) -> Any:
        """Log density, same shape; −inf outside the bounds."""
        xp = namespace(x)
        inside = (x >= self.low) & (x <= self.high)
        if self.law == "loguniform":
            positive = xp.where(inside, x, self.low)
            density = -xp.log(positive) - math.log(math.log(self.high / self.low))
        else:
            density = xp.zeros_like(x) - math.log(self.high - self.low)
        return xp.where(inside, density, -math.inf)


def _numbers(parts: Sequence[str]) -> tuple[float, ...]:
    """Numbers of words; nothing where one is no number, which `checked` then refuses."""
    try:
        return tuple(float(part) for part in parts)
    except ValueError:
        return ()
