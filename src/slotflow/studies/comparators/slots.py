r"""The paper's network behind the interface of the leaderboard: slots that are independent of each other given x.

Encoder, classifier, one-hot slots, circle target and Hungarian loss are those of `slotflow.network.paper`, as the
ablations train them. The labelled density is the bare product of the slots' densities, component j under slot j; that
of the set is the permanent of all pairs. The radius of the paper's target is integrated out
(`slotflow.network.paper.target`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.paper.encoder import Encoding
from slotflow.network.paper.loss import PaperLoss
from slotflow.network.paper.onehot import slot_contexts
from slotflow.signal.simulation import Simulation
from slotflow.studies.comparators.interface import Comparator, Encoded
from slotflow.studies.comparators.orders import log_permanent
from slotflow.studies.slots import paper_network

__all__ = ["PaperSlots"]

RADIUS_DRAWS = 256
"""Draws of each slot that show where its radii lie."""


class PaperSlots(Comparator):
    """The paper's network.

    Args:
        config: Model and weights of the loss.
    """

    def __init__(self, config: Config) -> None:
        torch.nn.Module.__init__(self)
        self.config, self.k_max = config.model, config.model.prior.k_max
        self.network = paper_network(SlotFlow(config.model))
        self.loss_config = config.loss

    def encoding(self, batch: Simulation) -> Encoding:
        """What the encoder makes of signals."""
        assert batch.short is not None
        long, short = batch.long.to(self.dtype), batch.short.to(self.dtype)
        encoding: Encoding = self.network.encoder(long, short)
        return encoding

    def condition(self, encoding: Encoding) -> Encoded:
        """The global context, and q(K | x) from the tokens."""
        logits = self.network.cardinality(encoding.tokens)
        return Encoded(encoding.context, logits.double().log_softmax(-1))

    def loss(self, batch: Simulation, low_precision: bool = False) -> dict[str, Tensor]:
        """The paper's loss and its terms."""
        terms: dict[str, Tensor] = PaperLoss(self.network, self.loss_config, low_precision)(batch)
        return terms

    def draw(self, encoded: Encoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of the first k slots, (B, n, k, P), float64."""
        y = self.network.flow.draw(self._terms(encoded, k), n, generator)  # (n, B k, dim)
        theta = self.network.target.decode(y)
        return theta.reshape(n, -1, k, theta.shape[-1]).transpose(0, 1)

    def log_prob(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln of the product of the slots' densities, component j under slot j, (B, k, P) to (B,), float64."""
        return self._pairs(encoded, theta).diagonal(dim1=-2, dim2=-1).sum(-1)

    def log_prob_set(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln q({θ} | K = k, x), (B, k, P) to (B,), float64."""
        return log_permanent(self._pairs(encoded, theta))

    def _terms(self, encoded: Encoded, k: int) -> Tensor:
        """Context terms of the first k slots of every signal, (B k, L, H)."""
        batch = len(encoded.context)
        signal = torch.arange(batch, device=self.device).repeat_interleave(k)
        slot = torch.arange(k, device=self.device).repeat(batch)
        return self.network.flow.project(slot_contexts(encoded.context, signal, slot, self.k_max))

    def _pairs(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Log density of component j under slot i, (B, k, P) to (B, k, k), float64, index (signal, i, j)."""
        batch, k, size = theta.shape
        flow, target, terms = self.network.flow, self.network.target, self._terms(encoded, k)
        generator = torch.Generator(device=self.device).manual_seed(0)
        radii, weights = target.radial_rule(flow.draw(terms, RADIUS_DRAWS, generator))  # (R, B k)
        each = theta.transpose(0, 1)[:, :, None].expand(-1, -1, k, -1)  # (component, B, slot, P)
        each = each.reshape(k, batch * k, size)
        y = target.at_radius(each[None], radii[:, None]).to(self.dtype)  # (R, component, B k, dim)
        log_q4 = flow.log_prob(terms, y).double()
        log_q = torch.logsumexp(log_q4 + weights.log()[:, None], dim=0) + target.log_slopes(each)
        return log_q.reshape(k, batch, k).permute(1, 2, 0)
