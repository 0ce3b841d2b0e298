"""What a waveform knows of a record of some length: settings that suit it, what a search tries, how components spread.

The answers here are those of a tone, a component that lasts and stays where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from slotflow.core.arrays import Array

__all__ = ["Recorded"]


class Recorded(ABC):
    """A waveform on a record."""

    @classmethod
    def suggested(cls, duration: float, share: float = 1.0) -> Mapping[str, str]:
        """Settings, as text, for what a user leaves open: what a record can show.

        Args:
            duration: Length of the record in seconds.
            share: How far components may reach beyond their places, as a share of how far they usually may.
        """
        return {}

    @classmethod
    def replaces(cls, setting: str) -> str:
        """The suggested setting that a stated one takes the place of; itself unless it is another way to say it."""
        return setting

    @abstractmethod
    def scales(self, duration: float) -> tuple[float, ...]:
        """By how much each ξ must change to make a difference over a record of some length: its bin, (D,)."""

    def occupied(self, band: tuple[float, float], duration: float) -> list[tuple[float, float]]:
        """Frequencies in Hz, as intervals, in which components with places in a band have nearly all their power.

        Args:
            band: Bounds of the place.
            duration: Length of the record in seconds.
        """
        return [band]

    def search_axes(self, duration: float) -> tuple[Array, ...]:
        """Rising values that a search tries, for each shape parameter but the place.

        Args:
            duration: Length of the record in seconds.
        """
        return ()

    def search_grid(self, duration: float) -> Array:
        """Every combination of them, (S, D − 1), the last parameter the fastest."""
        axes = np.meshgrid(*self.search_axes(duration), indexing="ij")
        return np.stack([a.ravel() for a in axes], -1) if axes else np.zeros((1, 0))

    def of_pole(self, frequency: float, rate: float) -> Array | None:
        """ξ, (D,), of the component that is most like e^{(2πif − γ)t}; None where none is.

        Args:
            frequency: f in Hz.
            rate: γ in 1/s; negative if it grows.
        """
        return None

    def dilution(self, duration: float) -> float:
        """By how much an amplitude may exceed the peak that the component has in the spectrum of a record."""
        return 1.0

    def size_of(self, xi: Array, duration: float) -> Array:
        """Root mean square of |b| over a record, about, (..., D) to (...)."""
        return np.ones(xi.shape[:-1])

    def breadth(self, xi: Array, duration: float) -> Array:
        """How broad a line is, up to a factor, (..., D) to (...): the error of its place goes with it."""
        return np.ones(xi.shape[:-1])
