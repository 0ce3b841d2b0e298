"""Densities of one class's components for one signal: its flow restricted to the class's prior ranges.

As with tones (`slotflow.network.paper.densities`), draws outside are drawn again: frequencies outside the band, and
shapes outside the ranges that the class was trained on. Amplitudes are positive by their logarithmic axis.
"""

from __future__ import annotations

from torch import Tensor

from slotflow.network.paper.densities import PaperSlotDensities

__all__ = ["ClassSlotDensities"]


class ClassSlotDensities(PaperSlotDensities):
    """Slot densities of a class; the target's waveform knows the ranges of its shape, the prior the band."""

    def _inside(self, theta: Tensor) -> Tensor:
        """Whether the place is in the band and the shape in its ranges, (..., P) to (...)."""
        waveform, (low, high) = self.target.waveform, self.prior.frequency
        place = waveform.place_of(theta)
        inside = (place >= low) & (place <= high)
        for name, law in waveform.ranges.items():
            value = waveform.of(theta, name)
            inside = inside & (value >= law.low) & (value <= law.high)
        return inside

    def _unreachable(self, slot: int) -> ValueError:
        waveform = self.target.waveform
        return ValueError(
            f"slot {slot} of the class {waveform.name!r} has next to no mass at places in {self.prior.frequency} and "
            f"shapes of {waveform.text}; the network is untrained or the data are far from its training."
        )
