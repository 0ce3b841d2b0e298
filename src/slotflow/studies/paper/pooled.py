"""The paper's network on batches of simulated signals, as the results ask for it.

It knows one sampling and one prior over the components, those of its training; `knows` says which priors it can answer
under. Draws with A <= 0 or outside the band are drawn again, as in `slots/densities.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.network.cardinality import k_posterior
from slotflow.network.paper.model import PooledSlotFlow
from slotflow.network.paper.onehot import slot_contexts, slot_index
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.studies.suites.sets import GRIDS

__all__ = ["PooledAnalyser", "PooledSlots"]

ROWS = 32_768
"""Draws that go through the flow together, which bounds the memory."""
REDRAWS = 200
"""Rounds of redrawing; what is outside after them is moved to the edge."""


class PooledAnalyser:
    """Batches through the paper's network.

    Args:
        network: The network; its sampling must be that of the test sets.
    """

    def __init__(self, network: PooledSlotFlow) -> None:
        own = (network.config.long, network.config.short)
        if own != GRIDS:
            raise ValueError(
                f"expected a network for the sampling of the paper's test sets, {GRIDS}, received "
                f"{network.config.name!r} for {own}; use one of preset zoom or paper."
            )
        self.network = network

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.network.device

    def knows(self, prior: Prior) -> bool:
        """Whether the network can answer under a prior without the exact step."""
        try:
            self.network._start(prior, self.network.config.long, refine=False)
        except ValueError:
            return False
        return True

    @torch.inference_mode()
    def analyse(self, simulation: Simulation, prior: Prior) -> PooledAnalysis:
        """Posterior of every signal of a batch under a prior."""
        known = self.network._start(prior, self.network.config.long, refine=False)
        assert simulation.short is not None  # the test sets have both streams
        kind = (self.network.device, self.network.dtype)
        encoding, logits = self.network.encode(
            simulation.long.to(*kind), simulation.short.to(*kind)
        )
        chosen = np.pad(known.k_probs_full, (0, self.network.k_max - known.k_max))
        probs = k_posterior(logits, self.network.config.prior, chosen)
        return PooledAnalysis(self.network, encoding.context, probs)


@dataclass(frozen=True, eq=False)
class PooledAnalysis:
    """What the network makes of B signals."""

    network: PooledSlotFlow
    context: Tensor
    """g, (B, H)."""
    k_probs: Tensor
    """q(K | x), (B, k_max + 1), float64."""

    def slots(self, k: Tensor | None = None) -> PooledSlots:
        """The first k slots of each signal, (B,), int64, on the CPU; of the most probable K if None."""
        return PooledSlots(
            self.network, self.context, self.k_probs.argmax(-1).cpu() if k is None else k
        )


@dataclass(frozen=True, eq=False)
class PooledSlots:
    """Densities of the slots of B signals."""

    network: PooledSlotFlow
    context: Tensor
    """g, (B, H)."""
    k: Tensor
    """Number of slots of each signal, (B,), int64, on the CPU."""

    @property
    def mask(self) -> Tensor:
        """Which slots exist, (B, k_max), bool."""
        return (torch.arange(self.network.k_max) < self.k[:, None]).to(self.context.device)

    @torch.inference_mode()
    def contexts(self) -> Tensor:
        """c_k = [g, e_k] of every slot that exists, (ΣK, H + k_max), signal after signal."""
        signal, slot = (index.to(self.context.device) for index in slot_index(self.k))
        return slot_contexts(self.context, signal, slot, self.network.k_max)

    @torch.inference_mode()
    def sample(self, n: int, seed: int) -> Tensor:
        """Draws of (A, φ, f), (B, n, k_max, 3), float64; zeros where there is no slot."""
        flow, target = self.network.flow, self.network.target
        projected = flow.project(self.contexts())  # (S, L, H)
        device = projected.device
        generator = torch.Generator(device=device).manual_seed(spread_seed(seed))
        together = max(1, ROWS // max(1, len(projected)))
        parts = [
            target.decode(flow.draw(projected, min(together, n - first), generator))
            for first in range(0, n, together)
        ]
        theta = torch.cat(parts)  # (n, S, 3)
        low, high = self.network.config.prior.frequency
        for _ in range(REDRAWS):
            a, f = theta[..., 0], theta[..., 2]
            draw, row = torch.nonzero((a <= 0) | (f < low) | (f > high), as_tuple=True)
            if draw.numel() == 0:
                break
            for some in range(0, len(row), ROWS):
                part = slice(some, some + ROWS)
                fresh = flow.draw(projected[row[part]], 1, generator)[0]
                theta[draw[part], row[part]] = target.decode(fresh)
        theta[..., 0].clamp_(min=1e-9)
        theta[..., 2].clamp_(low, high)
        found = theta.new_zeros(len(self.k), self.network.k_max, n, 3)
        signal, slot = (index.to(device) for index in slot_index(self.k))
        found[signal, slot] = theta.transpose(0, 1)
        return found.transpose(1, 2)
