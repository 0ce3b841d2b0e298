"""The default network `zoom`, as it is released, behind the interface of the leaderboard.

It was trained for longer, on other priors as well, and takes steps on the likelihood while it answers; it stands beside
the methods of equal budget to show what they leave on the table, and is not one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed
from slotflow.network.zoom.analysis import Analysis
from slotflow.network.zoom.batch import SlotBatch
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.simulation import Simulation
from slotflow.studies.comparators.interface import Reference
from slotflow.studies.comparators.orders import log_permanent

__all__ = ["Released", "ReleasedEncoded"]


@dataclass(frozen=True, eq=False)
class ReleasedEncoded:
    """Some signals of an analysis."""

    analysis: Analysis
    index: Tensor
    """Which of its signals, (B,), int64, on the CPU."""

    @property
    def log_counts(self) -> Tensor:
        """Ln q(K | x), (B, k_max + 1), float64, index = K."""
        return self.analysis.k_probs[self.index.to(self.analysis.k_probs.device)].log()

    def take(self, rows: Tensor) -> ReleasedEncoded:
        """Some of the signals, rows (S,), int64."""
        return ReleasedEncoded(self.analysis, self.index[rows.cpu()])

    def slots(self, k: int) -> SlotBatch:
        """The slots of the signals given that there are k."""
        return self.analysis.slots_of(self.index, torch.full((len(self.index),), k))


class Released(Reference[ZoomSlotFlow]):
    """The network under a prior of its user; components have the numbers of their slots."""

    @torch.inference_mode()
    def encode(self, batch: Simulation) -> ReleasedEncoded:
        """The analysis of signals."""
        return ReleasedEncoded(self.network.analyse(batch, self.prior), torch.arange(len(batch.k)))

    @torch.inference_mode()
    def draw(self, encoded: ReleasedEncoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P), float64, slot by slot."""
        seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        return encoded.slots(k).sample(n, spread_seed(seed) >> 2)[:, :, :k]

    @torch.inference_mode()
    def log_prob(self, encoded: ReleasedEncoded, theta: Tensor) -> Tensor:
        """Ln of the product of the slots' densities, component j under slot j, (B, k, P) to (B,), float64."""
        return self._pairs(encoded, theta).diagonal(dim1=-2, dim2=-1).sum(-1)

    @torch.inference_mode()
    def log_prob_set(self, encoded: ReleasedEncoded, theta: Tensor) -> Tensor:
        """Ln q({θ} | K = k, x), (B, k, P) to (B,), float64."""
        return log_permanent(self._pairs(encoded, theta))

    def _pairs(self, encoded: ReleasedEncoded, theta: Tensor) -> Tensor:
        """Log density of component j under slot i, (B, k, P) to (B, k, k)."""
        return encoded.slots(theta.shape[1]).log_prob(theta[None].double())[0]
