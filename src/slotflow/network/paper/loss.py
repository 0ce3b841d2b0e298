r"""The training objective (paper, section 3.5): named terms, weighted in one place.

.. math:: \mathcal{L} = \mathcal{L}_{CE} + \lambda_{flow} \mathcal{L}_{flow} + \lambda_{noise} \mathcal{L}_{noise}

.. math::
    \mathcal{L}_{CE} = -\log q(K \mid x), \qquad
    \mathcal{L}_{flow} = -\frac1K \sum_k \log q(y_{\pi^*(k)} \mid c_k), \qquad
    \mathcal{L}_{noise} = (\hat\sigma - \sigma)^2 ,

each averaged over the batch. π* is the Hungarian assignment under the cost −log q of all pairs of one signal,
computed in one call without gradient; only the matched pairs are evaluated with it. The cost of a batch is O(ΣK²)
network rows without and O(ΣK) with gradient, and K_max does not enter.

Teacher forcing gives each signal its true number of slots. With a curriculum a growing share of the signals gets the
predicted number instead, and the min(K̂, K) matched pairs count.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.network.config import LossConfig
from slotflow.network.matching import all_pairs, match
from slotflow.network.objective import weighted_sum
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.paper.onehot import slot_contexts, slot_index
from slotflow.signal.simulation import Simulation

__all__ = ["PaperLoss"]


class PaperLoss(nn.Module):
    """A model with its objective: a batch of signals in, named loss terms out."""

    def __init__(
        self, model: PaperSlotFlow, config: LossConfig, low_precision: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.low_precision = low_precision
        self.encode = model.encode  # compile_parts puts a compiled version here

    def compile_parts(self) -> None:
        """Compiles the encoder; the splines stay as they are."""
        self.model.encoder.before_compiling()
        self.encode = torch.compile(self.model.encode)

    def forward(self, batch: Simulation, predicted_share: float = 0.0) -> dict[str, Tensor]:
        """Computes the terms.

        Args:
            batch: Simulated signals, on the model's device.
            predicted_share: Share of signals whose slots follow the predicted K (curriculum).

        Returns:
            "loss", "ce", "flow", "noise" (where the model estimates σ) and "k_accuracy", each a scalar.
        """
        device = batch.long.device
        counts, k = batch.k, upload(batch.k, device)  # (B,) on the CPU and on the device
        assert batch.short is not None
        with torch.autocast(device.type, torch.bfloat16, enabled=self.low_precision):
            encoding, logits = self.encode(batch.long, batch.short)
        guess = logits.argmax(dim=-1)
        terms = {"ce": nn.functional.cross_entropy(logits, k)}

        slots = counts
        if predicted_share > 0:
            chosen = torch.arange(counts.shape[0]) < round(predicted_share * counts.shape[0])
            slots = torch.where(chosen, guess.cpu(), counts)
        terms["flow"] = self.flow_loss(encoding.context, batch, slots, counts)
        if encoding.noise is not None:
            terms["noise"] = nn.functional.mse_loss(encoding.noise, batch.sigma.to(encoding.noise))
        loss = weighted_sum(terms, self.config)
        accuracy = (guess == k).float().mean()
        return {"loss": loss, **terms, "k_accuracy": accuracy}

    def flow_loss(self, g: Tensor, batch: Simulation, slots: Tensor, counts: Tensor) -> Tensor:
        """Hungarian-matched negative log-likelihood, a scalar.

        Args:
            g: Global contexts, (B, H).
            batch: The signals.
            slots: Slots of each signal, (B,), on the CPU.
            counts: Components of each signal, (B,), on the CPU.
        """
        device, model = g.device, self.model
        row_signal, row_slot = slot_index(slots)
        component_signal, component = slot_index(counts)
        components = batch.theta  # (B, k_max, P)
        if model.target.jitter:  # radii belong to components, whatever their order in the batch
            place = torch.where(batch.mask, model.target.waveform.place_of(components), torch.inf)
            order = place.argsort(dim=1, stable=True)
            components = components.gather(1, order[..., None].expand_as(components))
        theta = components[upload(component_signal, device), upload(component, device)]  # (ΣK, P)
        y = model.target.encode_for_training(theta, batch.seed).to(model.dtype)  # (ΣK, 4)

        with torch.autocast(device.type, torch.bfloat16, enabled=self.low_precision):
            rows_of = upload(row_signal, device), upload(row_slot, device)
            contexts = slot_contexts(g, *rows_of, model.k_max)
            projected = model.flow.project(contexts)  # (Σ slots, L, H)
            with torch.no_grad():
                i, j = (upload(index, device) for index in all_pairs(slots, counts))
                cost = -model.flow.log_prob(projected[i], y[j])  # (Σ slots·K,)
            rows, columns = match(cost, slots, counts)
            if rows.shape[0] < projected.shape[0]:  # otherwise every slot is matched, in order
                projected = projected[upload(rows, device)]
            nll = -model.flow.log_prob(projected, y[upload(columns, device)])  # (Σ min,)

        signal = row_signal[rows]
        pairs = torch.bincount(signal, minlength=counts.shape[0])  # (B,)
        share = (1.0 / pairs[signal].double()).to(nll.dtype)
        loss: Tensor = (nll * upload(share, device)).sum() / counts.shape[0]
        return loss
