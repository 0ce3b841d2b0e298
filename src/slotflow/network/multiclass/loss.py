r"""The training objective for several classes (paper, sections 3.5 and 3.7): named terms, weighted in one place.

.. math:: \mathcal{L} = \mathcal{L}_{CE} + λ_{class} \mathcal{L}_{class} + λ_{flow} \mathcal{L}_{flow}
          + λ_{noise} \mathcal{L}_{noise}

.. math::
    \mathcal{L}_{CE} = -\log q(K \mid x), \qquad
    \mathcal{L}_{class} = -\sum_k \log q(c_k \mid c_1, \dots, c_{k-1}, K, x), \qquad
    \mathcal{L}_{flow} = -\frac1K \sum_k \log q_{c_k}(y_{\pi^*(k)} \mid s_k) ,

each averaged over the batch. With λ_class = 1 the first two are −log q(n | x), whose minimum over all networks is the
posterior of n. π* never joins a slot and a component of different classes (`slotflow.network.matched`).

Teacher forcing gives each signal its true number of slots of each class, so that the assignment is always possible.
With a curriculum a growing share of the signals gets the most probable numbers instead; what cannot be matched within
its class then does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.core.seeds import spread_seed
from slotflow.network.matched import matched_loss
from slotflow.network.multiclass.counts import slot_rows
from slotflow.network.multiclass.model import MulticlassSlotFlow
from slotflow.network.objective import Objective, weighted_sum
from slotflow.network.paper.encoder import Encoding
from slotflow.signal.simulation import Simulation
from slotflow.signal.simulation_classes import ClassSimulation

__all__ = ["MulticlassLoss"]


class MulticlassLoss(Objective[MulticlassSlotFlow]):
    """A model with its objective: a batch of mixtures in, named loss terms out."""

    def encoding(self) -> Callable[[Tensor, Tensor], tuple[Encoding, Tensor, Tensor]]:
        """The encoder with the logits of K."""
        return self.model.encode

    def forward(self, batch: Simulation, predicted_share: float = 0.0) -> dict[str, Tensor]:
        """Computes the terms.

        Args:
            batch: Simulated mixtures, on the model's device.
            predicted_share: Share of signals whose slots follow the predicted numbers (curriculum).

        Returns:
            "loss", "ce", "classes", "flow", "noise" (where the model estimates σ), "k_accuracy", and, while the model
            is evaluated, "counts_accuracy", the share of signals with the right number of every class; scalars.
        """
        device, k = batch.long.device, upload(batch.k, batch.long.device)
        assert isinstance(batch, ClassSimulation) and batch.short is not None
        with torch.autocast(device.type, torch.bfloat16, enabled=self.low_precision):
            encoding, embedding, logits = self.encode(batch.long, batch.short)
        counts, theta = batch.by_class()  # (B, C) on the CPU; (ΣK_c, P_c) for each class
        terms = {"ce": nn.functional.cross_entropy(logits, k)}
        rows = slot_rows(counts)
        steps = self.model.class_head(embedding[upload(rows.signal, device)], rows)
        terms["classes"] = -steps.sum() / len(counts)

        facts = {"k_accuracy": (logits.argmax(-1) == k).float().mean()}
        slots = counts
        if predicted_share > 0 or not self.model.training:
            guess = self.most_probable(embedding.detach(), logits.detach())
            chosen = torch.arange(len(counts)) < round(predicted_share * len(counts))
            slots = torch.where(chosen[:, None], guess, counts)
            facts["counts_accuracy"] = upload((guess == counts).all(1).float().mean(), device)
        y = self.coordinates(theta, batch.seed)
        terms["flow"] = self.flow_loss(encoding.context, y, slots, counts)
        if encoding.noise is not None:
            terms["noise"] = nn.functional.mse_loss(encoding.noise, batch.sigma.to(encoding.noise))
        return {"loss": weighted_sum(terms, self.config), **terms, **facts}

    def coordinates(self, theta: Sequence[Tensor], seed: int) -> list[Tensor]:
        """The flows' targets, (ΣK_c, d_c) for each class, of θ, (ΣK_c, P_c); radii of circles follow from the seed."""
        seed, model = spread_seed(seed), self.model
        return [
            target.encode_for_training(own, spread_seed(seed + i)).to(model.dtype)
            for i, (target, own) in enumerate(zip(model.targets, theta, strict=True))
        ]

    def flow_loss(self, g: Tensor, y: Sequence[Tensor], slots: Tensor, counts: Tensor) -> Tensor:
        """Matched negative log-likelihood, a scalar.

        Args:
            g: Global contexts, (B, H).
            y: Coordinates of each class's components, (ΣK_c, d_c).
            slots: Slots of each signal and class, (B, C), on the CPU.
            counts: Components of each signal and class, (B, C), on the CPU.
        """
        flows = [self.model.flow_of(name) for name in self.model.classes]
        return matched_loss(flows, g, y, slots, counts, low_precision=self.low_precision)

    @torch.no_grad()
    def most_probable(self, embedding: Tensor, logits: Tensor) -> Tensor:
        """The most probable numbers of each class, (B, C), int64, on the CPU."""
        model = self.model
        log_probs = model.class_head.table_log_probs(
            embedding, logits.log_softmax(-1), model.tables
        )
        return model.tables[log_probs.argmax(-1).cpu()]
