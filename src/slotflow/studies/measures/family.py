r"""How good the network `family` is on mixtures of its own law: counts, classes, errors over the bound, coverage.

**Counts.** Share of right K, expected calibration error, and what a perfect answer would show.

**Given K.** Slots are those of the true number of components, matched to them by the overlap of their functions of
time. Class right is the share of slots, of components louder than `CLEAR`, whose most probable class is the true one.

**Errors.** Under the true classes the error of each of a slot's own coordinates is divided by the joint Cramér–Rao
bound at the truth; the median of the absolute values over 0.6745 is 1 for an efficient estimator.

The same of a fit that starts at the truth, which no search can beat, stands beside it: where noise has moved the
maximum of the likelihood by more than the bound, or against the edge of the prior, its error is not 1 either.

**Coverage.** Draws of the flow of the true class within the prior, as the posterior gives them, in terms of place, |c|,
phase and further shapes; the level of the truth among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slotflow.core.seeds import EVALUATION_SEED
from slotflow.network.family.coordinates import from_coordinates
from slotflow.network.family.joint import Slots, joint_fit
from slotflow.network.family.loss import overlap
from slotflow.network.family.mixtures import FamilyBatch, Mixtures
from slotflow.network.family.model import FamilySlotFlow
from slotflow.network.family.slots import Finished
from slotflow.network.matching import match_square
from slotflow.studies.measures.calibration import coverage, deviation_of_perfect
from slotflow.studies.measures.cardinality import ece, ece_of_perfect, top_label
from slotflow.studies.row import Row, Target

__all__ = ["CLEAR", "FamilyScores", "family_rows", "family_scores"]

CLEAR = 10.0
"""Gain from which on the class of a component is asked for."""
DRAWS = 200
"""Draws of each slot behind the coverage."""
WRONG_PLACE, BY_CHANCE = "wrong place", "by chance"
"""What stands beside the coordinates of a class."""
SIMPLE = 4
"""Entries of the errors of a class without further shapes, whose target is the tones'."""
REFERENCE_STEPS = 12
"""Gauss–Newton steps of the fit that starts at the truth."""
FAR = 5.0
"""Bounds beyond which an error is one of the wrong place."""


@dataclass(frozen=True, eq=False)
class _Part:
    """What a batch says; K slots in the order of the components."""

    k_probs: Tensor
    """(B, k_max + 1)."""
    k: Tensor
    """(B,)."""
    class_right: Tensor
    """(B, K), bool."""
    error: Tensor
    """Errors over the bound of the own coordinates, (B, K, Z)."""
    limit: Tensor
    """Those of a fit that starts at the truth, (B, K, Z)."""
    level: Tensor
    """Level of the truth among the draws, (B, K, Z)."""
    batch: FamilyBatch


@dataclass(frozen=True, eq=False)
class FamilyScores:
    """Scores over many mixtures."""

    counts: dict[str, float]
    """Of K."""
    classes: dict[str, float]
    """Shares of right classes given K."""
    errors: dict[str, dict[str, float]]
    """Robust error over the bound of each class and coordinate, and the share of errors of the wrong place."""
    limits: dict[str, dict[str, float]]
    """The same of a fit that starts at the truth."""
    coverage: dict[str, dict[str, float]]
    """Largest coverage minus level of each class and coordinate, and what chance allows."""

    def plain(self) -> dict[str, Any]:
        """As a record of plain values."""
        return {
            "K": self.counts,
            "classes": self.classes,
            "error over the bound": self.errors,
            "error over the bound from the truth": self.limits,
            "coverage minus level": self.coverage,
        }


def family_scores(
    model: FamilySlotFlow, size: int, seed: int = 0, batch_size: int = 250
) -> FamilyScores:
    """Scores of a model on fresh mixtures of its own law, all classes and the widest bounds.

    Args:
        model: The network, on its device.
        size: How many mixtures.
        seed: Of the mixtures; never one of a training.
        batch_size: Mixtures at a time.
    """
    source = Mixtures(model.config, model.device)
    parts = []
    for first in range(0, size, batch_size):
        n = min(batch_size, size - first)
        batch = source.draw(n, EVALUATION_SEED + seed * 2**20 + first, varied=False)
        parts.append(_measured(model, batch))
    return _gathered(model, parts)


def family_rows(scores: FamilyScores) -> list[Row]:
    """The scores as rows of a card, with their targets."""
    signals = f"{scores.counts['signals']:.0f} signals"
    rows = [
        Row.judged("K right", scores.counts["right"], Target(low=0.93), note=signals),
        Row.judged("ECE of K", scores.counts["ece"], Target(high=0.02)),
        Row.judged(
            f"class right above {CLEAR:g}, K given",
            scores.classes[f"above {CLEAR:g}"],
            Target(low=0.97),
        ),
    ]
    for kind, errors in scores.errors.items():
        target = Target(high=1.05 if len(errors) <= SIMPLE else 1.08)
        for name, value in errors.items():
            if name != WRONG_PLACE:
                measure = f"robust error over the bound, {kind}, {name}"
                note = f"a fit from the truth: {scores.limits[kind][name]:g}"
                rows.append(Row.judged(measure, value, target, note=note))
    for kind, worst in scores.coverage.items():
        for name, value in worst.items():
            if name != BY_CHANCE:
                measure = f"largest coverage minus level, {kind}, {name}"
                rows.append(Row.judged(measure, value, Target(low=-0.02, high=0.02)))
    return rows


@torch.inference_mode()
def _measured(model: FamilySlotFlow, batch: FamilyBatch) -> _Part:
    """What the network makes of a batch."""
    parts, units = model.parts, model.parts.units
    answer = model.analyse(batch.long, batch.bounds)
    k = batch.mask.sum(1)
    begun = parts.given(answer, k)
    slots = begun.fit.slots
    away = (slots.raw[..., 0][:, :, None] - batch.raw[..., 0][:, None]).abs()
    cost = 1e-3 * away - overlap(model, slots, batch)
    order = match_square(cost, batch.k, torch.ones_like(k, dtype=torch.bool)).to(k.device)
    kind = batch.kind.gather(1, order)  # true class of each slot
    done = parts.slots.finish(units, answer.seen, begun, kind)
    back = order.argsort(1)  # slot of each component
    right = (begun.logits.argmax(-1) == kind).gather(1, back)
    truth = Slots(batch.raw, batch.kind, batch.c, batch.mask)
    bound = joint_fit(batch.long, units.fine, units, truth, batch.bounds, 0).covariance
    sd = bound.diagonal(dim1=-2, dim2=-1).sqrt()
    scale = torch.where(sd > 0, sd, 1.0)
    mine = _ordered(done, back)
    nearest = joint_fit(batch.long, units.fine, units, truth, batch.bounds, REFERENCE_STEPS)
    error, limit = (
        _differences(model, batch, fit.slots.raw.double(), fit.slots.c.to(torch.complex128)) / scale
        for fit in (mine.fit, nearest)
    )
    level = _levels(model, batch, mine)
    probs = answer.logits.double().softmax(-1)
    return _Part(probs.cpu(), batch.k, right.cpu(), error.cpu(), limit.cpu(), level.cpu(), batch)


def _ordered(slots: Finished, order: Tensor) -> Finished:
    """Slots in another order, (B, K)."""
    own = slots.fit.slots
    wide = order[..., None]
    taken = Slots(
        own.raw.gather(1, wide.expand_as(own.raw)),
        own.kind.gather(1, order),
        own.c.gather(1, order),
        own.mask.gather(1, order),
    )
    factor = slots.factor.gather(1, wide[..., None].expand_as(slots.factor))
    y = slots.y.gather(1, wide.expand_as(slots.y))
    return slots._replace(fit=slots.fit._replace(slots=taken), factor=factor, y=y)


def _differences(model: FamilySlotFlow, batch: FamilyBatch, raw: Tensor, c: Tensor) -> Tensor:
    """Own coordinates of components less the true ones, in the true phase, (n, B, K, Z)."""
    units = model.parts.units
    kind = batch.kind.expand(c.shape)
    own = units.own_raw(raw, kind) - units.own_raw(batch.raw.double(), batch.kind)
    turn = torch.polar(torch.ones_like(batch.c.abs()).double(), -batch.c.angle().double())
    turned = c * turn
    place, rest = own.tensor_split((1,), -1)
    along = turned.abs() - batch.c.abs()
    across = turned.angle() * batch.c.abs()
    return torch.cat([place, along[..., None], across[..., None], rest], -1)


def _levels(model: FamilySlotFlow, batch: FamilyBatch, slots: Finished) -> Tensor:
    """Level of the truth among draws of each slot's flow, (B, K, Z)."""
    units, kind = model.parts.units, slots.fit.slots.kind.flatten()
    y = slots.y.flatten(0, 1)
    generator = torch.Generator(device=y.device).manual_seed(0)
    z = torch.zeros(DRAWS, len(y), units.coordinates, device=y.device)
    for i, size in enumerate(units.sizes):
        own = (kind == i).nonzero()[:, 0]
        flow = model.parts.flow(i)
        z[:, own, :size] = flow.draw(flow.project(y[own]), DRAWS, generator)
    wide = z.view(DRAWS, *slots.fit.slots.kind.shape, -1)
    raw, c = from_coordinates(units, slots, wide)
    within = (raw >= batch.bounds.low[:, None]) & (raw <= batch.bounds.high[:, None])
    inside = (within | ~units.present[batch.kind]).all(-1)[..., None]
    below = (_differences(model, batch, raw, c) < 0) & inside
    return (below.double().sum(0) + 0.5) / (inside.double().sum(0) + 1)


def _gathered(model: FamilySlotFlow, parts: list[_Part]) -> FamilyScores:
    """Scores of all batches."""
    units = model.parts.units
    probs, k = torch.cat([p.k_probs for p in parts]), torch.cat([p.k for p in parts])
    top, confidence = top_label(probs)
    mask, kind, gain = (
        torch.cat([getattr(p.batch, name).cpu() for p in parts])
        for name in ("mask", "kind", "gain")
    )
    right = torch.cat([p.class_right for p in parts])
    level = torch.cat([p.level for p in parts])
    clear = mask & (gain > CLEAR)
    counts = {
        "signals": float(len(k)),
        "right": float((top == k).double().mean()),
        "mean confidence": float(confidence.mean()),
        "ece": float(ece(confidence, top == k)),
        "ece by chance": ece_of_perfect(probs)[1],
    }
    classes = {
        "all": float(right[mask].double().mean()),
        f"above {CLEAR:g}": float(right[clear].double().mean()),
    }
    owns = {name: mask & (kind == i) for i, name in enumerate(units.class_names)}
    names = {name: _names(model, i) for i, name in enumerate(units.class_names)}
    errors, limits = (
        {name: _robust(torch.cat(values)[own], names[name]) for name, own in owns.items()}
        for values in ([p.error for p in parts], [p.limit for p in parts])
    )
    covered: dict[str, dict[str, float]] = {}
    for name, own in owns.items():
        curve = coverage(level[..., : len(names[name])], own)
        covered[name] = {n: curve.worst(j)[1] for j, n in enumerate(names[name])}
        covered[name][BY_CHANCE] = deviation_of_perfect(curve.n_tones)
    return FamilyScores(
        _rounded(counts), _rounded(classes), _each(errors), _each(limits), _each(covered)
    )


def _robust(errors: Tensor, names: list[str]) -> dict[str, float]:
    """Robust error of each coordinate, and the share of errors of the wrong place, of errors (n, Z)."""
    values = errors[:, : len(names)].abs()
    robust = dict(zip(names, (values.median(0).values / 0.6745).tolist(), strict=True))
    return robust | {WRONG_PLACE: float((values.amax(-1) > FAR).double().mean())}


def _names(model: FamilySlotFlow, kind: int) -> list[str]:
    """Names of the own coordinates of a class, in their order."""
    place, *rest = list(model.parts.units.waveform.members.values())[kind].shape
    return [place, "amplitude", "phase", *rest]


def _rounded(values: dict[str, float]) -> dict[str, float]:
    """Four digits after the point."""
    return {name: round(value, 4) for name, value in values.items() if math.isfinite(value)}


def _each(values: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The same for each class."""
    return {name: _rounded(inner) for name, inner in values.items()}
