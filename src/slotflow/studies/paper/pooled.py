"""The paper's network on batches of simulated signals, as the results ask for it.

It knows one sampling and one prior over the components, those of its training; `knows` says which priors it can answer
under. Draws with A <= 0 or outside the band are drawn again, as in `network/paper/densities.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.network.cardinality import k_posterior
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.paper.onehot import slot_contexts, slot_index
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.signal.waveforms import TONE
from slotflow.studies.slots import pair_log_prob
from slotflow.studies.suites.sets import GRIDS

__all__ = ["PooledAnalyser", "PooledSlots"]

ENCODED_TOGETHER = {"cpu": 16, "cuda": 512}
"""Signals that go through the encoder together, by device. Their attention weights take 30 MB each in preset `paper`:
a batch of a hundred took 3 GB."""
FLOW_BYTES = {"cpu": 2**27, "cuda": 2**30}
"""Bytes of the context terms of the draws that go through the flow together, by device. In preset `paper` those of one
draw take 24 kB."""
REDRAWS = 200
"""Rounds of redrawing; what is outside after them is moved to the edge."""


class PooledAnalyser:
    """Batches through the paper's network.

    Args:
        network: The network; its sampling must be that of the test sets.
    """

    def __init__(self, network: PaperSlotFlow) -> None:
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
        together = ENCODED_TOGETHER["cuda" if self.network.device.type == "cuda" else "cpu"]
        parts = []
        for first in range(0, len(simulation.long), together):
            some = slice(first, first + together)
            long, short = simulation.long[some], simulation.short[some]
            parts.append(self.network.encode(long.to(*kind), short.to(*kind)))
        context = torch.cat([encoding.context for encoding, _ in parts])
        logits = torch.cat([logits for _, logits in parts])
        chosen = np.pad(known.k_probs_full, (0, self.network.k_max - known.k_max))
        probs = k_posterior(logits, self.network.config.prior, chosen)
        levels = [encoding.noise for encoding, _ in parts if encoding.noise is not None]
        return PooledAnalysis(self.network, context, probs, torch.cat(levels) if levels else None)


@dataclass(frozen=True, eq=False)
class PooledAnalysis:
    """What the network makes of B signals."""

    network: PaperSlotFlow
    context: Tensor
    """g, (B, H)."""
    k_probs: Tensor
    """q(K | x), (B, k_max + 1), float64."""
    sigma_estimate: Tensor | None = None
    """Noise level by the noise pathway, (B,); None where the network has none."""

    def slots(self, k: Tensor | None = None) -> PooledSlots:
        """The first k slots of each signal, (B,), int64, on the CPU; of the most probable K if None."""
        return PooledSlots(
            self.network, self.context, self.k_probs.argmax(-1).cpu() if k is None else k
        )


@dataclass(frozen=True, eq=False)
class PooledSlots:
    """Densities of the slots of B signals."""

    network: PaperSlotFlow
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
        flow = self.network.flow
        projected = flow.project(self.contexts())  # (S, L, H)
        generator = torch.Generator(device=projected.device).manual_seed(spread_seed(seed))
        together = max(1, self._rows(projected) // max(1, len(projected)))
        parts = [
            self.network.target.decode(flow.draw(projected, min(together, n - first), generator))
            for first in range(0, n, together)
        ]
        theta = torch.cat(parts)  # (n, S, P)
        self._draw_again(theta, projected, generator)
        found = theta.new_zeros(len(self.k), self.network.k_max, n, theta.shape[-1])
        signal, slot = (index.to(theta.device) for index in slot_index(self.k))
        found[signal, slot] = theta.transpose(0, 1)
        return found.transpose(1, 2)

    @torch.inference_mode()
    def pair_log_prob(self, theta: Tensor) -> Tensor:
        """Log density of the flow's target of component j under slot i, (B, k_max, P) to (B, k_max, k_max).

        It is that of the training's matching; −inf where there is no slot or no component.
        """
        projected = self.network.flow.project(self.contexts())
        mask, together = self.mask, self._rows(projected)
        flat = pair_log_prob(self.network, projected, theta[mask], self.k, together)
        found = flat.new_full((*mask.shape, mask.shape[1]), -torch.inf)
        found[mask[:, :, None] & mask[:, None, :]] = flat
        return found

    def _draw_again(self, theta: Tensor, projected: Tensor, generator: torch.Generator) -> None:
        """Replaces draws with A <= 0 or outside the band, (n, S, P), in place."""
        flow, target, together = self.network.flow, self.network.target, self._rows(projected)
        low, high = self.network.config.prior.frequency
        a, f = TONE.of(theta, "amplitude"), TONE.place_of(theta)
        for _ in range(REDRAWS):
            draw, row = torch.nonzero((a <= 0) | (f < low) | (f > high), as_tuple=True)
            if draw.numel() == 0:
                break
            for first in range(0, len(row), together):
                part = slice(first, first + together)
                fresh = flow.draw(projected[row[part]], 1, generator)[0]
                theta[draw[part], row[part]] = target.decode(fresh)
        a.clamp_(min=1e-9)
        f.clamp_(low, high)

    @staticmethod
    def _rows(projected: Tensor) -> int:
        """Draws that go through the flow together, so that their context terms, (L, H) each, keep to the budget."""
        each = projected[0].numel() * projected.element_size() if len(projected) else 1
        return max(1, FLOW_BYTES["cuda" if projected.is_cuda else "cpu"] // each)
