"""Signals on even grids in white noise: their channels, and what is known of them without a single sum."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch

from slotflow.data.sampling import Grid
from slotflow.signal.likelihood.base import Likelihood
from slotflow.signal.likelihood.folded import unfolded
from slotflow.signal.likelihood.placed import Placed, placed_channels

__all__ = ["EvenData"]


class EvenData(Likelihood):
    """B signals of the same even channels; how to sum over their samples is for others to know (`even.py`)."""

    grids: tuple[Grid, ...]
    """Sampling of each channel, the long one first."""
    ratios: tuple[float, ...]
    """r_s: each channel's noise level in units of σ."""
    folded: tuple[Any, ...]
    """Each channel's data over r_s, (B, I, J), float64; empty where there are none."""
    single: Any
    """The one signal that all B are, or None."""

    @property
    def n(self) -> int:
        """Number of samples of all channels of one signal."""
        return sum(grid.n for grid in self.grids)

    @property
    def duration(self) -> float:
        """Length of the first channel in seconds."""
        return self.grids[0].duration

    @property
    def limits(self) -> tuple[float, float]:
        """0 and the first channel's Nyquist frequency, in Hz."""
        return 0.0, self.grids[0].nyquist

    @property
    def log_scale(self) -> float:
        """Σ_s n_s ln r_s."""
        return sum(g.n * math.log(r) for g, r in zip(self.grids, self.ratios, strict=True))

    @property
    def weight(self) -> float:
        """Σ_s n_s/r_s², twice the energy of a tone of unit amplitude."""
        return sum(g.n / r**2 for g, r in zip(self.grids, self.ratios, strict=True))

    @property
    def span(self) -> float:
        """Twice the time from the reference to the furthest end of a channel, in seconds."""
        ends = zip(self.placed.offsets, self.grids, strict=True)
        return max(2 * (abs(offset) + 0.5 * grid.duration) for offset, grid in ends)

    @cached_property
    def placed(self) -> Placed:
        """The channels about the reference time."""
        offsets = tuple(grid.mid_time - self.reference for grid in self.grids)
        return placed_channels(tuple(self.grids), offsets, tuple(self.ratios))

    @cached_property
    def _alone(self) -> list[Placed]:
        """Each channel about its own mid-time."""
        return [placed_channels((grid,), (0.0,), (1.0,)) for grid in self.grids]

    @property
    def repeats(self) -> bool:
        """Whether all signals are one and the same."""
        return self.single is not None

    def is_single(self, *arguments: Any) -> bool:
        """Whether NumPy may answer: one signal (or one many times) with components on the CPU, no graph, no compiler.

        Args:
            arguments: Shapes, complex amplitudes or theta, (B, K, …).
        """
        first, graph = arguments[0], torch.is_grad_enabled()
        return (
            (len(self.energy) == 1 or self.repeats)
            and len(self.energy) == first.shape[0]
            and first.shape[1] > 0
            and not torch.compiler.is_compiling()
            and self.energy.device.type == "cpu"
            and all(
                x.dtype in (torch.float64, torch.complex128) and not (graph and x.requires_grad)
                for x in arguments
            )
        )

    def series(self, s: int) -> Any:
        """The data of a channel over r_s, (B, N_s)."""
        return unfolded(self.folded[s], self.grids[s])
