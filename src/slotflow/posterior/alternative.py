"""What may stand in for tones: one component that drifts, decays or is modulated, with its odds.

An analysis for tones has tones only. Where one of them changes slowly, its numbers are biased, or a cluster of close
tones takes its place; the verdict then names what would explain the data better, and is not exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["CLASSES", "Alternative"]

WORDS = {
    "chirp": "a chirp",
    "damped": "a damped tone",
    "growing": "a tone that grows",
    "modulated": "a tone of modulated amplitude",
    "wandering": "a tone whose phase wanders",
}
"""Kinds of components, in words."""
SEVERAL = {
    "chirp": "chirps",
    "damped": "damped tones",
    "growing": "tones that grow",
    "modulated": "tones of modulated amplitude",
    "wandering": "tones whose phases wander",
}
"""The same where there may be more than one."""
MANY = 6
"""Tones from more than which on several components may stand for them."""
CLASSES = ("chirp", "damped")
"""Kinds that are waveforms of the package."""


@dataclass(frozen=True)
class Alternative:
    """One component that may stand in for one or more tones, or several that may for many."""

    kind: str
    """A key of `WORDS`."""
    places: tuple[float, ...]
    """Frequencies of the tones in Hz."""
    log_odds: float
    """Logarithm of the odds of all alternatives of a verdict together against tones of any number."""
    p_value: float | None = None
    """Probability of so large a change of a single tone by chance; None of several tones."""
    margin: float = 0.0
    """Logarithm of by how much its odds, or its p-value, pass the limit from which on it is named."""

    def holds(self, share: float, within: tuple[float, float] | None) -> bool:
        """Whether it is named at a share of the usual rate of false alarms, of tones between two frequencies in Hz."""
        place = sum(self.places) / len(self.places)
        inside = within is None or within[0] <= place < within[1]
        return inside and self.margin >= -math.log(share)

    @property
    def words(self) -> str:
        """What stands in for what."""
        if len(self.places) == 1:
            found = f"{WORDS[self.kind]} at {self.places[0]:.6g} Hz"
            return found if self.p_value is None else f"{found} (p = {self.p_value:.1g})"
        low, high = min(self.places), max(self.places)
        names = SEVERAL if len(self.places) > MANY else WORDS
        return f"{names[self.kind]} instead of {len(self.places)} tones from {low:.6g} to {high:.6g} Hz"
