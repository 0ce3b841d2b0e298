r"""The objective of preset `family`: two counts, two heat maps, the slots' classes, and a matched flow for each class.

.. math:: \mathcal{L} = \mathrm{CE}(q_2, K) + λ_1 \mathrm{CE}(q_1, K) + λ_h \mathcal{L}_{heat} + λ_o
    \mathcal{L}_{offset} + λ_r \mathcal{L}_{rounds} + λ_c \mathcal{L}_{class} + λ_{flow} \mathcal{L}_{flow} .

**Whose K and whose classes.** One signal of three gets as many slots as there are components, and their true classes:
the flows learn from it. The others get what the network counts and decides, one slot fewer or more now and then. The
second count learns from these alone, so that nothing of the truth leaks into it. The flow of a class learns from their
slots too, where number and class are right.

**Matching.** π* joins slots and components by the overlap of their functions of time,
|⟨b_k, b_j⟩|² / (⟨b_k, b_k⟩⟨b_j, b_j⟩), which compares components of all classes.

**Outliers.** A slot on the wrong component has coordinates of hundreds of bounds. Beyond `SOFT_LIMIT` its loss grows as
a logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.network.config import LossConfig
from slotflow.network.family.coordinates import to_coordinates
from slotflow.network.family.encoder import Encoded
from slotflow.network.family.joint import Slots
from slotflow.network.family.mixtures import FamilyBatch
from slotflow.network.family.model import FamilySlotFlow
from slotflow.network.family.places import Places, heat_terms, propose
from slotflow.network.family.recount import SignalNumbers
from slotflow.network.family.slots import Begun, Finished, Move, Seen
from slotflow.network.matching import match_square
from slotflow.network.objective import Objective, weighted_sum
from slotflow.signal.simulation import Simulation

__all__ = ["FamilyLoss", "overlap"]

SOFT_LIMIT = 20.0
"""Loss of a slot beyond which it grows as a logarithm."""
TEACHER_PERIOD = 3
"""One signal in this many gets its true number of slots and their classes."""
OTHER_PERIOD = 5
"""Of the others, one in this many gets a slot fewer than the network counts, and one a slot more."""
START_JITTER = 0.02
"""Spread of starts near the truth, in units of half the outer ranges; they stand for a heat map yet to be learned."""
LARGEST_Z = 1e3
"""Coordinates are cut here, where a slot is nowhere near its component."""
FOUND = 0.5
"""Overlap from which on a slot is on a component."""


FLOW_ROWS = 4
"""One slot in this many goes through the flow of a class; about half as many are of it."""


class Matched(NamedTuple):
    """Components in the order of the slots."""

    raw: Tensor
    """(B, K, D)."""
    kind: Tensor
    """(B, K)."""
    c: Tensor
    """(B, K), complex."""


class Stage(NamedTuple):
    """The slots of B signals in training."""

    taught: Tensor
    """Which signals get their true number of slots and their classes, (B,), bool."""
    right: Tensor
    """Which have as many slots as components, (B,), bool."""
    mask: Tensor
    """Which slots exist, (B, K), bool."""
    begun: Begun
    """Before the decision on their classes."""
    truth: Matched
    """Components in their order."""
    slots: Finished
    """After it."""


@torch.no_grad()
def overlap(model: FamilySlotFlow, slots: Slots, batch: FamilyBatch) -> Tensor:
    """Squared overlap of every slot with every component, (B, K, K), 0 where either is not there."""
    units = model.parts.units
    ours = units.fine.basis(units.xi(slots.raw, slots.kind), slots.kind)
    theirs = units.fine.basis(units.xi(batch.raw, batch.kind), batch.kind)
    products = torch.einsum("bkn,bjn->bkj", ours.conj(), theirs).abs().square()
    sizes = [b.abs().square().sum(-1) for b in (ours, theirs)]
    share = products / (sizes[0][:, :, None] * sizes[1][:, None]).clamp_min(1e-9)
    return share * slots.mask[:, :, None] * batch.mask[:, None]


class FamilyLoss(Objective[FamilySlotFlow]):
    """A model with its objective: a batch of mixtures in, named loss terms out."""

    def __init__(
        self, model: FamilySlotFlow, config: LossConfig, low_precision: bool = False
    ) -> None:
        super().__init__(model, config, low_precision)
        self.look = model.parts.look.forward  # compile_parts puts a compiled version here

    def encoding(self) -> Callable[..., Encoded]:
        """The first encoder."""
        return self.model.parts.encoder.forward

    def compile_parts(self) -> None:
        """Compiles encoders, rounds and second count; complex numbers, fits and splines stay as they are."""
        super().compile_parts()
        parts = self.model.parts
        self.look = torch.compile(parts.look.forward)
        rounds: list[nn.Module] = [parts.slots.first, parts.slots.second, parts.slots.last]
        for part in [*rounds, parts.recount]:
            part.forward = torch.compile(part.forward)

    def forward(
        self, batch: Simulation | FamilyBatch, predicted_share: float = 1.0
    ) -> dict[str, Tensor]:
        """Computes the terms.

        Args:
            batch: Simulated mixtures, on the model's device.
            predicted_share: Share of the taught signals whose slots start from the heat map; the others start near the
                truth.

        Returns:
            "loss", "count", "first_count", "heat", "offset", "rounds", "classes", "flow", "k_accuracy",
            "class_accuracy" and "matched" (share of signals with the right number of slots), each a scalar.
        """
        assert isinstance(batch, FamilyBatch)
        parts, device = self.model.parts, batch.long.device
        truth_k = upload(batch.k, device)
        features, told = parts.features(batch.long, batch.bounds)
        first = self._encoded(self.encode, features, told, None)
        outer, present = parts.outer, parts.units.present
        terms = {"first_count": nn.functional.cross_entropy(first.logits, truth_k)}
        terms |= heat_terms(first.heat, batch.raw, batch.kind, batch.mask, outer, present)

        seen = Seen(batch.long, first.tokens.float(), told, batch.bounds, outer)
        stage = self._staged(batch, seen, first, truth_k, predicted_share)

        # --- second count --------------------------------------------------------------------------
        left = parts.residual_features(seen, stage.slots)
        second = self._encoded(self.look, left, told, parts.before(first.tokens.float()))
        logits = parts.recount(SignalNumbers(first, second, told), stage.slots, stage.mask)
        entropy = nn.functional.cross_entropy(logits, truth_k, reduction="none")
        terms["count"] = _mean_of(entropy, ~stage.taught)
        after = overlap(self.model, stage.slots.fit.slots, batch)
        missing = batch.mask & (after.amax(1) < FOUND)
        more = heat_terms(second.heat, batch.raw, batch.kind, missing, outer, present)
        terms = {name: term + more.get(name, 0.0) for name, term in terms.items()}
        terms |= self._matched_terms(stage, (after.amax(2) > FOUND).float())
        right_class = stage.begun.logits.argmax(-1) == stage.truth.kind
        facts = {
            "k_accuracy": _mean_of((logits.argmax(-1) == truth_k).float(), ~stage.taught),
            "class_accuracy": _mean_of(right_class.float(), stage.mask & stage.right[:, None]),
            "matched": stage.right.float().mean(),
        }
        return {"loss": weighted_sum(terms, self.config), **terms, **facts}

    def _staged(
        self, batch: FamilyBatch, seen: Seen, first: Encoded, k: Tensor, predicted_share: float
    ) -> Stage:
        """The slots: taught ones of the true number and classes, the others as the network counts and decides."""
        parts, training = self.model.parts, self.model.training
        rows = torch.arange(len(k), device=k.device)
        taught = rows % TEACHER_PERIOD == 0
        number = first.logits.argmax(-1)
        if training:
            turn = rows % OTHER_PERIOD
            number = (number - (turn == 0).long() + (turn == 1).long()).clamp(0, parts.k_max)
        number = torch.where(taught, k, number)
        mask = torch.arange(parts.k_max, device=k.device) < number[:, None]
        places = propose(first.heat.detach(), seen.bounds, seen.outer, parts.k_max).first(mask)
        if training and predicted_share < 1:
            near = taught & (rows < (1 - predicted_share) * len(rows))
            places = self._near_truth(batch, places, near)
        begun = parts.begun(seen, places, mask)
        right = number == k
        truth = self._matched(batch, begun.fit.slots, right)
        kind = torch.where(taught[:, None] & mask, truth.kind, begun.logits.detach().argmax(-1))
        slots = parts.slots.finish(parts.units, seen, begun, kind)
        return Stage(taught, right, mask, begun, truth, slots)

    def _matched_terms(self, stage: Stage, on: Tensor) -> dict[str, Tensor]:
        """Terms of the slots, given whether each is on a component, (B, K)."""
        mask, truth, logits = stage.mask, stage.truth, stage.begun.logits
        weight = mask & stage.right[:, None]
        real = nn.functional.binary_cross_entropy_with_logits(
            stage.slots.real, on, reduction="none"
        )
        rounds = _mean_of(real, mask) + self._round_loss(stage.begun.move, truth, weight)
        entropy = nn.functional.cross_entropy(
            logits.flatten(0, 1), truth.kind.flatten(), reduction="none"
        )
        same = stage.slots.fit.slots.kind == truth.kind
        return {
            "rounds": rounds,
            "classes": _mean_of(entropy.view(mask.shape), weight),
            "flow": self._flow_loss(stage.slots, truth, weight & same),
        }

    # ------------------------------------------------------------------ parts

    def _encoded(
        self, encoder: Callable[..., Encoded], features: Tensor, told: Tensor, before: Tensor | None
    ) -> Encoded:
        """An encoder's word, in low precision if that is asked for."""
        with torch.autocast(features.device.type, torch.bfloat16, enabled=self.low_precision):
            found: Encoded = encoder(features, told, before)
        return found

    @torch.no_grad()
    def _near_truth(self, batch: FamilyBatch, places: Places, chosen: Tensor) -> Places:
        """Places of the chosen signals, (B,), near the true ones and in the true classes."""
        outer = self.model.parts.outer
        spread = START_JITTER * 0.5 * (outer.high - outer.low)[:, None]
        raw = batch.raw + spread * torch.randn_like(batch.raw)
        raw = raw.maximum(batch.bounds.low[:, None]).minimum(batch.bounds.high[:, None])
        return Places(
            torch.where(chosen[:, None, None], raw, places.raw),
            torch.where(chosen[:, None], batch.kind, places.kind),
            places.p,
        )

    @torch.no_grad()
    def _matched(self, batch: FamilyBatch, slots: Slots, right: Tensor) -> Matched:
        """Components in the order of the slots that they belong to, in signals with as many of both."""
        shared = overlap(self.model, slots, batch)
        away = (slots.raw[..., 0][:, :, None] - batch.raw[..., 0][:, None]).abs()
        order = upload(match_square(1e-3 * away - shared, batch.k, right), right.device)
        raw = batch.raw.gather(1, order[..., None].expand_as(batch.raw))
        return Matched(raw, batch.kind.gather(1, order), batch.c.gather(1, order))

    def _round_loss(self, move: Move, truth: Matched, weight: Tensor) -> Tensor:
        """Classes and places after the first round: cross-entropy, and negative log density of a Gaussian."""
        entropy = nn.functional.cross_entropy(
            move.logits.flatten(0, 1), truth.kind.flatten(), reduction="none"
        )
        z = (truth.raw - move.raw) / move.reach * torch.exp(-move.log_scale)
        nll = _softened(0.5 * z.square() + move.log_scale)
        present = self.model.parts.units.present[truth.kind]
        return _mean_of(entropy.view(weight.shape) + (nll * present).sum(-1), weight)

    def _flow_loss(self, slots: Finished, truth: Matched, weight: Tensor) -> Tensor:
        """Negative log density of the matched components of each slot's class, in units of its bound."""
        parts = self.model.parts
        with torch.no_grad():
            z = to_coordinates(parts.units, slots, truth.raw, truth.c)
            z = z.clamp(-LARGEST_Z, LARGEST_Z).float().flatten(0, 1).nan_to_num()
        kind, y = slots.fit.slots.kind.flatten(), slots.y.flatten(0, 1)
        total = y.new_zeros(())
        for i, size in enumerate(parts.units.sizes):
            own = ((kind == i) & weight.flatten()).float()
            share, rows = own.topk(
                -(-len(own) // FLOW_ROWS), sorted=False
            )  # a fixed number: no waiting
            flow = parts.flow(i)
            nll = -flow.log_prob(flow.project(y[rows]), z[rows, :size] * share[:, None])
            total = total + (_softened(nll) * share).sum()
        return total / weight.sum().clamp_min(1)


def _mean_of(values: Tensor, chosen: Tensor) -> Tensor:
    """Mean of the chosen values, same shape; 0 where none is chosen."""
    weight = chosen.float()
    return (values * weight).sum() / weight.sum().clamp_min(1)


def _softened(nll: Tensor) -> Tensor:
    """The loss up to `SOFT_LIMIT`, its logarithm beyond, with the same slope there."""
    beyond = SOFT_LIMIT * (1 + (nll.clamp_min(SOFT_LIMIT) / SOFT_LIMIT).log())
    return torch.where(nll > SOFT_LIMIT, beyond, nll)
