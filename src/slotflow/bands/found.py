"""What the search over a spectrum says: tones, and how much of the noise between them is known to be empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slotflow.bands.floor import stands_high
from slotflow.core.arrays import Array

__all__ = ["FoundTones"]


@dataclass(frozen=True, eq=False)
class FoundTones:
    """The tones of a spectrum, and the noise between them."""

    theta: Array
    """Their parameters, sorted by place, (K, P)."""
    frequencies: Array
    """Grid of the spectrum in Hz, (F,)."""
    amplitude: Array
    """The smallest amplitude that would have been seen, (F,)."""
    level: Array
    """Noise level near each frequency, in units of σ of white noise, (F,)."""
    significance: Array
    """Power of each tone over the smallest one that counts at its place, (K,)."""
    likeliest: float
    """Frequency in Hz at which what is left stands out most."""
    complete: bool
    """Whether the search came to its end; time ran out otherwise."""
    seconds: float
    """Time spent."""
    known_level: Array
    """Power of the noise in crowds, where it is that of the quiet parts of the spectrum, (F,); NaN elsewhere."""

    @property
    def quiet_level(self) -> float | None:
        """Noise level of the quiet parts of the spectrum, where others stand high above them; None if none do."""
        high = stands_high(self.level**2)
        return float(np.median(self.level[~high])) if high.any() else None

    def noise_level(self, low: float, high: float) -> float:
        """Noise level between two frequencies, its median."""
        return float(np.median(self._between(self.level, low, high)))

    def smallest_amplitude(self, low: float, high: float) -> float:
        """The amplitude from which on any tone between two frequencies would have been seen."""
        return float(self._between(self.amplitude, low, high).max())

    def _between(self, values: Array, low: float, high: float) -> Array:
        first, last = np.searchsorted(self.frequencies, (low, high))
        first = min(int(first), len(values) - 1)
        return values[first : max(int(last), first + 1)]
