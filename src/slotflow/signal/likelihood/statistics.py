"""The data of B signals on the same even grids, as the likelihood takes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from slotflow.data.observation import Observation, as_list
from slotflow.data.sampling import Grid
from slotflow.signal.likelihood.even import EvenTones
from slotflow.signal.likelihood.folded import fold
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Statistics"]


@dataclass(frozen=True, eq=False)
class Statistics(EvenTones):
    """What the likelihood needs to know of B signals on the same grids."""

    grids: tuple[Grid, ...]
    """Sampling of each channel, the long one first."""
    ratios: tuple[float, ...]
    """r_s: each channel's noise level in units of σ."""
    folded: tuple[Any, ...]
    """Each channel's data over r_s, (B, I, J), float64."""
    energy: Any
    """Σ x² over all channels, each over r_s², (B,), float64."""
    reference: float
    """τ, mid-time of the first channel, in seconds."""
    removed: int = 0
    """Components that were fitted to the data and taken out of them before: each took its degrees of freedom."""
    waveform: Waveform = TONE
    """The form of each component."""
    single: Statistics | None = None
    """The one signal that all of these are, where many starts or draws of it are looked at together."""

    @classmethod
    def from_arrays(
        cls,
        series: Sequence[Tensor],
        grids: Sequence[Grid],
        ratios: Sequence[float] | None = None,
        removed: int = 0,
    ) -> Statistics:
        """Builds the statistics of B signals.

        Args:
            series: Data of each channel, shape (B, N_s) each, the long one first.
            grids: Sampling of each channel.
            ratios: Noise level of each channel in units of σ; all 1 if None.
            removed: Components that were taken out of the data before.
        """
        ratios = [1.0] * len(grids) if ratios is None else list(ratios)
        if not len(series) == len(grids) == len(ratios) >= 1:
            raise ValueError(
                f"expected as many series as grids and ratios, at least one, received {len(series)}, "
                f"{len(grids)} and {len(ratios)}."
            )
        for values, grid in zip(series, grids, strict=True):
            if values.ndim != 2 or values.shape[1] != grid.n or len(values) != len(series[0]):
                raise ValueError(
                    f"expected series of shape ({len(series[0])}, {grid.n}), received "
                    f"{tuple(values.shape)}; give one row per signal and its own grid."
                )
        if not all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
            raise ValueError(f"expected positive noise ratios, received {ratios}.")
        scaled = [x.double() / ratio for x, ratio in zip(series, ratios, strict=True)]
        energy = torch.stack([(x * x).sum(-1) for x in scaled]).sum(0)
        folded = tuple(fold(x) for x in scaled)
        return cls(tuple(grids), tuple(ratios), folded, energy, grids[0].mid_time, removed)

    @classmethod
    def from_observation(
        cls,
        observation: Observation | Sequence[Observation],
        device: str | torch.device = "cpu",
    ) -> Statistics:
        """Statistics of one observation (B = 1) or of several on the same grids.

        Args:
            observation: If all of its channels know their noise level, σ stands for that of the first one.
            device: Where to compute.
        """
        several = as_list(observation)
        if not several:
            raise ValueError("expected at least one observation, received none.")
        layouts = {_layout(one) for one in several}
        if len(layouts) != 1:
            raise ValueError(
                f"expected observations on the same grids, received {len(layouts)} different "
                "layouts; build one Statistics for each."
            )
        grids, ratios, removed = layouts.pop()
        series = [
            torch.stack([torch.as_tensor(one.channels[s].values) for one in several]).to(device)
            for s in range(len(grids))
        ]
        return cls.from_arrays(series, grids, ratios, removed)

    @classmethod
    def joined(cls, parts: Sequence[Statistics]) -> Statistics:
        """The statistics of the signals of several, which are sampled alike."""
        first = parts[0]
        if len(parts) == 1:
            return first
        folded = tuple(torch.cat(own) for own in zip(*(part.folded for part in parts), strict=True))
        return replace(
            first, folded=folded, energy=torch.cat([part.energy for part in parts]), single=None
        )

    @classmethod
    def without_data(
        cls, batch: int, grids: Sequence[Grid], ratios: Sequence[float], device: torch.device
    ) -> Statistics:
        """The sampling of B signals alone: whatever the data would enter is 0, and costs nothing."""
        energy = torch.zeros(batch, dtype=torch.float64, device=device)
        return cls(tuple(grids), tuple(ratios), (), energy, grids[0].mid_time)

    def __getstate__(self) -> dict[str, Any]:
        """Its fields, without the tables that were made of them: these are larger, and can be made anew."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # ------------------------------------------------------------------ views

    def to(self, device: str | torch.device) -> Statistics:
        """The same on another device."""
        folded = tuple(x.to(device) for x in self.folded)
        return replace(self, folded=folded, energy=self.energy.to(device), single=None)

    def take(self, index: Tensor) -> Statistics:
        """The signals of an index, shape (B',), int64, or of a mask, shape (B,), bool."""
        if len(self.energy) == len(index) == 1 and (index.dtype != torch.bool or bool(index)):
            return self  # what is kept of a single signal stays
        energy = self.energy[index]
        if (
            len(self.energy) == 1 and len(energy) and isinstance(energy, Tensor)
        ):  # no copies of one signal's data
            folded = tuple(x.expand(len(energy), -1, -1) for x in self.folded)
        else:
            folded = tuple(x[index] for x in self.folded)
        single = self if len(self.energy) == 1 else self.single
        if len(energy) == 1 and self.single is not None:
            return self.single if isinstance(energy, Tensor) else self.single.in_numpy
        return replace(self, folded=folded, energy=energy, single=single)

    def channel(self, s: int) -> Statistics:
        """One channel alone, with the reference time of all."""
        if s not in self._channels:
            energy = (self.folded[s] ** 2).sum((-2, -1))
            self._channels[s] = replace(
                self,
                grids=self.grids[s : s + 1],
                ratios=self.ratios[s : s + 1],
                folded=self.folded[s : s + 1],
                energy=energy,
                single=None,
            )
        return self._channels[s]

    @cached_property
    def _channels(self) -> dict[int, Statistics]:
        return {}

    @property
    def in_numpy(self) -> Statistics:
        """The same in NumPy arrays, which share the tensors' memory."""
        return self._in_numpy if isinstance(self.energy, Tensor) else self

    @cached_property
    def _in_numpy(self) -> Statistics:
        return replace(
            self, folded=tuple(x.numpy() for x in self.folded), energy=self.energy.numpy()
        )

    def less(self, z: Any) -> Statistics:
        """One signal with components z, (K, Z), taken out of its data."""
        folded = tuple(fold(torch.as_tensor(rest)[None]) for rest in self.residuals(z))
        energy = torch.stack([(x * x).sum((-2, -1)) for x in folded]).sum(0)
        return replace(self, folded=folded, energy=energy, single=None)


def _layout(observation: Observation) -> tuple[tuple[Grid, ...], tuple[float, ...], int]:
    """Grids and noise ratios of an observation's channels, and how many components were removed from it."""
    levels = [channel.sigma for channel in observation.channels]
    first = levels[0]
    ratios = (1.0 if level is None or first is None else level / first for level in levels)
    return tuple(c.grid for c in observation.channels), tuple(ratios), observation.removed
