r"""The objective of preset `zoom`: two counts, the heat map, the rounds and the matched flow.

.. math:: \mathcal{L} = \mathrm{CE}(q_2, K) + λ_1 \mathrm{CE}(q_1, K) + λ_h \mathcal{L}_{heat} + λ_o
\mathcal{L}_{offset}
    + λ_r \mathcal{L}_{rounds} + λ_{flow} \mathcal{L}_{flow} .

**Whose K.** Two signals of three get as many slots as the encoder counts, one of three as many as there are. The
second count learns from the former alone: the number of slots is then a function of the data, and nothing of the
truth leaks into it. The flow learns from all signals whose number is right. That choice looks at (x, K) only, so q(θ
| x, K) is not biased by it.

**Matching.** π* minimizes −Σ log q of slots and components (the Hungarian assignment under the flow's density, all
pairs without gradient); the matched pairs are evaluated with it, and the rounds use the same π*.

**Outliers.** A slot that sits on the wrong tone has z of hundreds. Beyond `SOFT` its loss grows as a logarithm: it
still teaches the flow to be wide there, without drowning all others.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.network.config import LossConfig
from slotflow.network.matching import match_square
from slotflow.network.zoom.bound import Context, to_coordinates
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.network.zoom.proposals import heat_targets, propose, starts
from slotflow.network.zoom.slots import Move, Slots
from slotflow.network.zoom.window import spectrum
from slotflow.signal.kernels import mid_time
from slotflow.signal.likelihood import Statistics, to_complex
from slotflow.signal.simulation import Simulation

__all__ = ["ZoomLoss"]

SOFT = 20.0
"""Loss of a pair beyond which it grows as a logarithm."""
TEACHER = 3
"""One signal in so many gets its true number of slots."""
JITTER = 0.3
"""Standard deviation in bins of the starts that stand for a heat map which has yet to be learned."""


class ZoomLoss(nn.Module):
    """A model with its objective: a batch of signals in, named loss terms out."""

    def __init__(
        self, model: ZoomSlotFlow, config: LossConfig, low_precision: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.low_precision = low_precision
        self.encode = model.encoder.forward  # compile_parts puts a compiled version here

    def compile_parts(self) -> None:
        """Compiles encoder, rounds and second count; splines, starts and joint steps stay as they are."""
        self.encode = torch.compile(self.model.encoder.forward)
        for part in (*self.model.slots.rounds, self.model.slots.last, self.model.recount):
            part.forward = torch.compile(part.forward)

    def forward(self, batch: Simulation, predicted_share: float = 1.0) -> dict[str, Tensor]:
        """Computes the terms.

        Args:
            batch: Simulated signals, on the model's device.
            predicted_share: Share of the true-K signals whose slots start from the heat map (curriculum); the others
                start near the truth.

        Returns:
            "loss", "count", "first_count", "heat", "offset", "rounds", "flow", "k_accuracy" and "matched" (share of
            signals that the flow learns from), each a scalar.
        """
        model, device = self.model, batch.long.device
        assert batch.prior is not None
        long, short = batch.grids
        series = [batch.long] if batch.short is None else [batch.long, batch.short]
        grids = [long] if short is None else [long, short]
        first = model.first_bin(long, model.config.prior.frequency[0])
        with torch.no_grad():
            ratios = [1.0] * len(grids)
            view = spectrum(series, grids, ratios, batch.prior, model.sizes, first)
            statistics = Statistics.from_arrays(series, grids)
            frequency, c = to_complex(batch.theta, mid_time(long), batch.mask)
            exists = batch.mask  # (B, k_max)
            frequency = torch.where(exists, frequency * long.duration - first, 0.0)
            c = c / view.largest[:, None]
        with torch.autocast(device.type, torch.bfloat16, enabled=self.low_precision):
            tokens, heat, pooled, logits = self.encode(view)
        k = upload(batch.k, device)
        terms = {"first_count": nn.functional.cross_entropy(logits, k)}
        terms |= _heat_terms(heat, frequency, exists)

        # --- slots ---------------------------------------------------------------------------------
        rows = torch.arange(len(k), device=device)
        teacher = rows % TEACHER == 0
        k_run = torch.where(teacher, k, logits.argmax(-1))
        mask = torch.arange(model.k_max, device=device) < k_run[:, None]
        start = starts(propose(heat.detach(), view.band, model.k_max), mask)
        if self.training and predicted_share < 1:
            near = teacher & (rows < (1 - predicted_share) * len(k))
            noise = JITTER * torch.randn(frequency.shape, device=device)
            near_truth = (frequency + noise).maximum(view.band[:, :1]).minimum(view.band[:, 1:])
            start = torch.where(near[:, None] & mask, near_truth, start)
        slots = model.slots(view, statistics, tokens.float(), start, mask)
        logits_2 = logits
        if model.sizes.recount:
            logits_2 = model.recount(pooled, view.conditions, logits, slots)
        own_k = (~teacher).float()
        each = nn.functional.cross_entropy(logits_2, k, reduction="none")
        terms["count"] = (each * own_k).sum() / own_k.sum().clamp_min(1)

        # --- matching and the flow -----------------------------------------------------------------
        right = k_run == k
        context = model.flow.project(slots.y.flatten(0, 1))
        with torch.no_grad():
            order = upload(self._matching(slots, context, frequency, c, batch.k, right), device)
            frequency, c = frequency.gather(1, order), c.gather(1, order)
            z = to_coordinates(slots, frequency, c).clamp(-1e4, 1e4).float()
        nll = _softened(-model.flow.log_prob(context, z.flatten(0, 1)).view(mask.shape))
        weight = (mask & right[:, None]).float()
        weight = weight / weight.sum().clamp_min(1)
        terms["flow"] = (nll * weight).sum()
        rounds = [(_round_nll(move, frequency, c) * weight).sum() for move in slots.moves]
        if rounds:
            terms["rounds"] = torch.stack(rounds).mean()

        weights = {name: getattr(self.config, name, 1.0) for name in terms}
        loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        accuracy = ((logits_2.argmax(-1) == k).float() * own_k).sum() / own_k.sum().clamp_min(1)
        return {"loss": loss, **terms, "k_accuracy": accuracy, "matched": right.float().mean()}

    def _matching(
        self,
        slots: Slots,
        context: Context,
        frequency: Tensor,
        c: Tensor,
        counts: Tensor,
        right: Tensor,
    ) -> Tensor:
        """Component of each slot, (B, k_max), on the CPU; only pairs within a signal are evaluated."""
        k_max = frequency.shape[1]
        exists = torch.arange(k_max) < counts[:, None]
        pair = torch.nonzero((exists[:, :, None] & exists[:, None, :]).flatten()).squeeze(-1)
        if not len(pair):  # pure noise throughout
            return torch.arange(k_max).expand(len(counts), -1)
        i = upload(pair // k_max, frequency.device)  # row of the slot
        signal = upload(pair // k_max**2, frequency.device)
        j = upload(pair % k_max, frequency.device)
        chosen = slots._replace(
            frequency=slots.frequency.flatten()[i],
            c=slots.c.flatten()[i],
            factor=slots.factor.flatten(0, 1)[i],
        )
        z = to_coordinates(chosen, frequency[signal, j], c[signal, j]).clamp(-1e4, 1e4).float()
        cost = torch.full((exists.numel() * k_max,), math.inf, device=frequency.device)
        cost[signal * k_max**2 + (i % k_max) * k_max + j] = -self.model.flow.log_prob(
            context.take(i), z
        )
        return match_square(cost.view(-1, k_max, k_max), counts, right)


def _heat_terms(heat: Tensor, frequency: Tensor, exists: Tensor) -> dict[str, Tensor]:
    """Cross-entropy of the heat map, summed over bins, and squared error of its offsets, per tone."""
    present, offset = heat_targets(frequency, exists, heat.shape[1])
    entropy = nn.functional.binary_cross_entropy_with_logits(
        heat[..., 0], present, reduction="none"
    )
    error = (heat[..., 1] - offset).square() * present
    return {
        "heat": entropy.sum((1, 2)).mean(),
        "offset": error.sum() / present.sum().clamp_min(1),
    }


def _round_nll(move: Move, frequency: Tensor, c: Tensor) -> Tensor:
    """Negative log density of matched tones under a round's Gaussian, (B, K), softened."""
    d_f = (frequency - move.frequency).float()
    d = torch.view_as_real(c).float() - move.c
    cosine, sine = move.phase.unbind(-1)
    along, across = d[..., 0] * cosine + d[..., 1] * sine, d[..., 1] * cosine - d[..., 0] * sine
    scale = 4 * torch.tanh(move.log_scale / 4)
    z = torch.stack([d_f, along, across], -1) / move.bound * torch.exp(-scale)
    nll = 0.5 * z.square().sum(-1) + scale.sum(-1) + 1.5 * math.log(2 * math.pi)
    return _softened(nll)


def _softened(nll: Tensor) -> Tensor:
    """The loss up to `SOFT`, its logarithm beyond, with the same slope there."""
    beyond = SOFT * (1 + (nll.clamp_min(SOFT) / SOFT).log())
    return torch.where(nll > SOFT, beyond, nll)
