r"""The objective of preset `zoom`: two counts, the heat map, the rounds and the matched flow.

.. math:: \mathcal{L} = \mathrm{CE}(q_2, K) + λ_1 \mathrm{CE}(q_1, K) + λ_h \mathcal{L}_{heat} + λ_o
    \mathcal{L}_{offset} + λ_r \mathcal{L}_{rounds} + λ_{flow} \mathcal{L}_{flow} .

**Whose K.** Two signals of three get as many slots as the encoder counts, one of three as many as there are. The
second count learns from the former alone: the number of slots is then a function of the data, and nothing of the
truth leaks into it. The flow learns from all signals whose number is right. That choice looks at (x, K) only, so q(θ
| x, K) is not biased by it.

**Matching.** π* minimizes −Σ log q of slots and components (the Hungarian assignment under the flow's density of all
pairs, without gradient); the matched pairs are evaluated with gradient, and the rounds use the same π*.

**Outliers.** A slot that sits on the wrong tone has z of hundreds. Beyond `SOFT_LIMIT` its loss grows as a logarithm:
it still teaches the flow to be wide there, without drowning all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.network.matching import match_square
from slotflow.network.objective import Objective, weighted_sum
from slotflow.network.zoom.bound import FlowContext, to_coordinates
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.network.zoom.proposals import heat_targets, propose, starts
from slotflow.network.zoom.rounds import Move
from slotflow.network.zoom.slots import SlotEstimates
from slotflow.network.zoom.spectrum import SignalBatch, Spectrum, spectrum
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import Simulation
from slotflow.signal.waveforms import TONE

__all__ = ["ZoomLoss"]

SOFT_LIMIT = 20.0
"""Loss of a pair beyond which it grows as a logarithm."""
TEACHER_PERIOD = 3
"""One signal in this many gets its true number of slots."""
START_JITTER = 0.3
"""Standard deviation in bins of the starts near the truth that stand for a heat map which has yet to be learned."""
LARGEST_Z = 1e4
"""Coordinates are cut here, where a slot is nowhere near its component."""


class Truth(NamedTuple):
    """The true components of B signals in the network's units."""

    frequency: Tensor
    """In bins from the edge of the view, sorted, (B, k_max), float64; 0 where there is no component."""
    c: Tensor
    """Complex amplitudes in units of the largest, (B, k_max)."""
    mask: Tensor
    """Which components exist, (B, k_max), bool."""
    k: Tensor
    """Their number, (B,), int64."""
    counts: Tensor
    """The same on the CPU."""


class ZoomLoss(Objective[ZoomSlotFlow]):
    """A model with its objective: a batch of signals in, named loss terms out."""

    def encoding(self) -> Callable[[Spectrum], tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The encoder: tokens, heat map, pooled features and the logits of the first count."""
        return self.model.encoder.forward

    def compile_parts(self) -> None:
        """Compiles encoder, rounds and second count; splines, starts and joint steps stay as they are."""
        super().compile_parts()
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
        view, statistics, truth = self._seen(batch)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.low_precision):
            tokens, heat, pooled, logits = self.encode(view)
        terms = {"first_count": nn.functional.cross_entropy(logits, truth.k)}
        terms |= _heat_terms(heat, truth)

        # --- slots ---------------------------------------------------------------------------------
        rows = torch.arange(len(truth.k), device=device)
        teacher = rows % TEACHER_PERIOD == 0
        k_run = torch.where(teacher, truth.k, logits.argmax(-1))
        mask = torch.arange(model.k_max, device=device) < k_run[:, None]
        start = starts(propose(heat.detach(), view.band, model.k_max), mask)
        if self.training and predicted_share < 1:
            near = teacher & (rows < (1 - predicted_share) * len(rows))
            start = torch.where(near[:, None] & mask, _near_truth(truth, view), start)
        slots = model.slots(view, statistics, tokens.float(), start, mask)
        second = logits
        if model.sizes.recount:
            second = model.recount(pooled, view.conditions, logits, slots)
        entropy = nn.functional.cross_entropy(second, truth.k, reduction="none")
        terms["count"] = _mean_of(entropy, ~teacher)

        # --- matching and the flow -----------------------------------------------------------------
        right = k_run == truth.k
        terms |= self._matched_terms(slots, truth, right)
        accuracy = _mean_of((second.argmax(-1) == truth.k).float(), ~teacher)
        loss = weighted_sum(terms, self.config)
        return {"loss": loss, **terms, "k_accuracy": accuracy, "matched": right.float().mean()}

    @torch.no_grad()
    def _seen(self, batch: Simulation) -> tuple[Spectrum, Statistics, Truth]:
        """What the network sees of a batch, what the joint steps need of it, and the truth in the same units."""
        assert batch.prior is not None
        long, short = batch.grids
        series = [batch.long] if batch.short is None else [batch.long, batch.short]
        grids = [long] if short is None else [long, short]
        first = self.model.first_bin(long, self.model.config.prior.frequency[0])
        signals = SignalBatch(series, grids, [1.0] * len(grids))
        view = spectrum(signals, batch.prior, self.model.sizes, first)
        mask = batch.mask  # (B, k_max)
        xi, c = TONE.split_masked(batch.theta.double(), long.mid_time, mask)
        frequency, c = xi[..., 0], c[..., 0]
        frequency = torch.where(mask, frequency * long.duration - first, 0.0)
        c, k = c / view.largest[:, None], upload(batch.k, batch.long.device)
        return view, Statistics.from_arrays(series, grids), Truth(frequency, c, mask, k, batch.k)

    def _matched_terms(
        self, slots: SlotEstimates, truth: Truth, right: Tensor
    ) -> dict[str, Tensor]:
        """Losses of flow and rounds on the matched pairs of signals whose number of slots is right, (B,)."""
        context = self.model.flow.project(slots.y.flatten(0, 1))
        with torch.no_grad():
            order = upload(self._matching(slots, context, truth, right), right.device)
            frequency, c = truth.frequency.gather(1, order), truth.c.gather(1, order)
            z = to_coordinates(slots, frequency, c).clamp(-LARGEST_Z, LARGEST_Z).float()
        nll = -self.model.flow.log_prob(context, z.flatten(0, 1)).view(slots.mask.shape)
        weight = (slots.mask & right[:, None]).float()
        weight = weight / weight.sum().clamp_min(1)
        terms = {"flow": (_softened(nll) * weight).sum()}
        rounds = [(_round_nll(move, frequency, c) * weight).sum() for move in slots.moves]
        if rounds:
            terms["rounds"] = torch.stack(rounds).mean()
        return terms

    def _matching(
        self, slots: SlotEstimates, context: FlowContext, truth: Truth, right: Tensor
    ) -> Tensor:
        """Component of each slot, (B, k_max), on the CPU; only pairs within a signal are evaluated."""
        k_max, device = truth.frequency.shape[1], right.device
        exists = torch.arange(k_max) < truth.counts[:, None]
        pair = torch.nonzero((exists[:, :, None] & exists[:, None, :]).flatten()).squeeze(-1)
        if not len(pair):  # pure noise throughout
            return torch.arange(k_max).expand(len(truth.counts), -1)
        i = upload(pair // k_max, device)  # row of the slot
        signal = upload(pair // k_max**2, device)
        j = upload(pair % k_max, device)
        z = to_coordinates(slots.rows(i), truth.frequency[signal, j], truth.c[signal, j])
        z = z.clamp(-LARGEST_Z, LARGEST_Z).float()
        cost = torch.full((exists.numel() * k_max,), math.inf, device=device)
        cost[signal * k_max**2 + (i % k_max) * k_max + j] = -self.model.flow.log_prob(
            context.take(i), z
        )
        return match_square(cost.view(-1, k_max, k_max), truth.counts, right)


def _mean_of(values: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the chosen of B values, (B,) each; 0 where none is chosen."""
    weight = chosen.float()
    return (values * weight).sum() / weight.sum().clamp_min(1)


def _near_truth(truth: Truth, view: Spectrum) -> Tensor:
    """Starting places near the true ones, inside the band, (B, k_max)."""
    noise = START_JITTER * torch.randn(truth.frequency.shape, device=truth.frequency.device)
    return (truth.frequency + noise).maximum(view.band[:, :1]).minimum(view.band[:, 1:])


def _heat_terms(heat: Tensor, truth: Truth) -> dict[str, Tensor]:
    """Cross-entropy of the heat map, summed over bins, and squared error of its offsets, per tone."""
    present, offset = heat_targets(truth.frequency, truth.mask, heat.shape[1])
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
    real, imaginary = (torch.view_as_real(c).float() - move.c).unbind(-1)
    cosine, sine = move.phase.unbind(-1)
    along, across = real * cosine + imaginary * sine, imaginary * cosine - real * sine
    scale = 4 * torch.tanh(move.log_scale / 4)  # a factor between e⁻⁴ and e⁴ either way
    z = torch.stack([d_f, along, across], -1) / move.bound * torch.exp(-scale)
    nll = 0.5 * z.square().sum(-1) + scale.sum(-1) + 0.5 * z.shape[-1] * math.log(2 * math.pi)
    return _softened(nll)


def _softened(nll: Tensor) -> Tensor:
    """The loss up to `SOFT_LIMIT`, its logarithm beyond, with the same slope there."""
    beyond = SOFT_LIMIT * (1 + (nll.clamp_min(SOFT_LIMIT) / SOFT_LIMIT).log())
    return torch.where(nll > SOFT_LIMIT, beyond, nll)
