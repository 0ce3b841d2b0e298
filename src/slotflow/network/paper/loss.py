r"""The training objective (paper, section 3.5): named terms, weighted in one place.

.. math:: \mathcal{L} = \mathcal{L}_{CE} + \lambda_{flow} \mathcal{L}_{flow} + \lambda_{noise} \mathcal{L}_{noise}

.. math::
    \mathcal{L}_{CE} = -\log q(K \mid x), \qquad
    \mathcal{L}_{flow} = -\frac1K \sum_k \log q(y_{\pi^*(k)} \mid c_k), \qquad
    \mathcal{L}_{noise} = (\hat\sigma - \sigma)^2 ,

each averaged over the batch. π* is the Hungarian assignment under the cost −log q of all pairs of one signal
(`slotflow.network.matched`).

Teacher forcing gives each signal its true number of slots. With a curriculum a growing share of the signals gets the
predicted number instead, and the min(K̂, K) matched pairs count.

**Order instead of assignment.** The ΣK² costs are most of the flow's work, and the assignment of a fresh network
changes from step to step. For a share of training (`LossConfig.ordered`) slot k takes the k-th tone in the order of
frequency instead. That is one of the assignments, so that this loss is an upper bound of the matched one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.network.matched import Density, matched_loss
from slotflow.network.objective import Objective, weighted_sum
from slotflow.network.paper.encoder import Encoding
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.paper.onehot import slot_index
from slotflow.network.replayed import ReplayedDensity
from slotflow.signal.simulation import Simulation

__all__ = ["PaperLoss"]


class PaperLoss(Objective[PaperSlotFlow]):
    """A model with its objective: a batch of signals in, named loss terms out."""

    density: Density | None = None
    """The flow's log density as it is replayed; the flow itself computes it where there is none."""

    def compile_parts(self) -> None:
        """Compiles the encoding, and on a GPU has the flow's kernels recorded and replayed."""
        super().compile_parts()
        if self.model.device.type == "cuda":
            self.density = ReplayedDensity(self.model.flow)

    def encoding(self) -> Callable[[Tensor, Tensor], tuple[Encoding, Tensor]]:
        """The encoder with the logits of K."""
        return self.model.encode

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
        model = self.model
        component_signal, component = (upload(i, g.device) for i in slot_index(counts))
        components = batch.theta  # (B, k_max, P)
        ordered = self.ordered and model.training and bool((slots == counts).all())
        if model.target.jitter or ordered:  # whatever the order of components in the batch
            place = torch.where(batch.mask, model.target.waveform.place_of(components), torch.inf)
            order = place.argsort(dim=1, stable=True)
            components = components.gather(1, order[..., None].expand_as(components))
        theta = components[component_signal, component]  # (ΣK, P)
        y = model.target.encode_for_training(theta, batch.seed).to(model.dtype)  # (ΣK, 4)
        return matched_loss(
            [model.flow],
            g,
            [y],
            slots[:, None],
            counts[:, None],
            densities=None if self.density is None else [self.density],
            low_precision=self.low_precision,
            ordered=ordered,
        )
