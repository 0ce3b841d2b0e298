"""What the default network makes of a batch of signals: q(K | x), and the components for any K, when asked for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.network.zoom.batch import SlotBatch
from slotflow.network.zoom.bound import BoundFlow
from slotflow.network.zoom.slots import SlotEstimates, SlotRefiner
from slotflow.network.zoom.spectrum import Spectrum
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior_batch import PriorBatch

__all__ = ["Analysis"]


@dataclass(frozen=True, eq=False)
class Analysis:
    """What the network makes of B signals."""

    refiner: SlotRefiner
    """The part of the network that takes starting places to slots."""
    flow: BoundFlow
    """The part that gives each slot its density."""
    view: Spectrum
    """What the network saw."""
    statistics: Statistics
    """The signals' matched filters, for the joint steps."""
    prior: PriorBatch
    """The prior of each signal."""
    tokens: Tensor
    """(B, tokens, width)."""
    places: Tensor
    """Starting places, most probable first, in bins, (B, k_max)."""
    k_probs: Tensor
    """q(K | x), (B, k_max + 1), float64."""
    noise: Tensor
    """Estimate of σ, (B,), float64."""
    first: SlotEstimates
    """The slots of the first count."""
    first_k: Tensor
    """Their number, (B,), int64, on the CPU."""

    @property
    def k_map(self) -> Tensor:
        """Most probable K, (B,), int64, on the CPU."""
        return self.k_probs.argmax(-1).cpu()

    @torch.inference_mode()
    def slots(self, k: Tensor | None = None) -> SlotBatch:
        """The components given their number.

        Args:
            k: Of each signal, (B,), int64, on the CPU; None: k_map.
        """
        k = self.k_map if k is None else k
        slots = self.first
        if not torch.equal(k, self.first_k):
            slots = self.refiner.at_places(self.view, self.statistics, self.tokens, self.places, k)
        grid = self.statistics.grids[0]
        return SlotBatch(self.flow, slots, k, self.prior, grid, self.view.first)

    @torch.inference_mode()
    def slots_of(self, index: Tensor, k: Tensor) -> SlotBatch:
        """The components of some signals given their numbers.

        Args:
            index: Which signals, (S,), int64, on the CPU; a signal may come several times.
            k: Of each of them, not all 0, (S,), int64, on the CPU. Where none is another than that of the first count,
                unless it is 0, the slots are at hand.
        """
        rows = index.to(self.places.device)
        if bool(((self.first_k[index] == k) | (k == 0)).all()):
            slots = self.first.take(rows, int(k.max()))
        else:
            slots = self.refiner.at_places(
                self.view.take(rows),
                self.statistics.take(rows),
                self.tokens[rows],
                self.places[rows],
                k,
            )
        grid, prior = self.statistics.grids[0], self.prior.take(rows)
        return SlotBatch(self.flow, slots, k, prior, grid, self.view.first)

    def current(self) -> Analysis:
        """This analysis on the network's present device and in its present type."""
        weight = next(self.flow.parameters())
        device, dtype = weight.device, weight.dtype
        if (self.view.z.device, self.view.z.dtype) == (device, dtype):
            return self
        return Analysis(
            refiner=self.refiner,
            flow=self.flow,
            view=self.view.to(device, dtype),
            statistics=self.statistics.to(device),
            prior=self.prior.to(device),
            tokens=self.tokens.to(device, dtype),
            places=self.places.to(device),
            k_probs=self.k_probs.to(device),
            noise=self.noise.to(device),
            first=self.first.to(device, dtype),
            first_k=self.first_k,
        )

    def take(self, i: int) -> Analysis:
        """Signal i alone."""
        one = slice(i, i + 1)
        index = torch.tensor([i], device=self.places.device)
        return Analysis(
            refiner=self.refiner,
            flow=self.flow,
            view=self.view.take(one),
            statistics=self.statistics.take(index),
            prior=self.prior.take(one),
            tokens=self.tokens[one],
            places=self.places[one],
            k_probs=self.k_probs[one],
            noise=self.noise[one],
            first=self.first.take(one, max(1, int(self.first_k[i]))),
            first_k=self.first_k[one],
        )
