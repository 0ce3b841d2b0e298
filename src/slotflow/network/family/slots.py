r"""From starting places to slots: a round that moves them, a joint fit, a round that decides their classes, a last one.

1. The first round sees each slot at the place and in the class that the heat map gave it, moves it, and names a class.
2. All slots are fitted together, and each is tried as every class (`hypotheses.py`).
3. The second round reads that and gives the class of each slot: its logits are those of Laplace's evidences and a
   correction.
4. Under the chosen classes all slots are fitted together again. The last round reads the joint bound and leaves a
   memory of each slot, which flow and second count read.

Steps 1 to 3 are `begin`, step 4 is `finish`: in training, and for the posterior given classes, others choose the
classes. Nothing here is differentiated but the rounds themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.architecture import FamilyConfig
from slotflow.network.family.batches import each
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.hypotheses import Hypotheses, hypotheses
from slotflow.network.family.joint import Fit, Slots, amplitudes, joint_fit
from slotflow.network.family.places import Places
from slotflow.network.family.rounds import Round, own_numbers, zoomed
from slotflow.network.family.units import Units

__all__ = ["Begun", "Finished", "Move", "Seen", "SlotRounds", "kept"]

REACH_BINS = 1.5
"""Largest move of a place in the first round, in bins."""
REACH_SHARE = 0.5
"""Largest move of another raw coordinate, in units of half its outer range."""


class Seen(NamedTuple):
    """B signals as the slots see them."""

    x: Tensor
    """Records, (B, N), complex64."""
    tokens: Tensor
    """Of the encoder, (B, tokens, width), float32."""
    conditions: Tensor
    """Numbers about the prior, (B, ·)."""
    bounds: Bounds
    """The priors."""
    outer: Bounds
    """The widest bounds, (1, ·)."""


class Move(NamedTuple):
    """What the first round says, for its loss."""

    raw: Tensor
    """Raw coordinates, (B, K, D), with the round's gradient."""
    log_scale: Tensor
    """Logarithms of their standard deviations in units of the reach, (B, K, D)."""
    reach: Tensor
    """(1 or B, 1, D)."""
    logits: Tensor
    """Of the classes, (B, K, C)."""


class Begun(NamedTuple):
    """Slots whose classes are about to be decided."""

    move: Move
    """The first round's word."""
    fit: Fit
    """The first joint fit."""
    tried: Hypotheses
    """Each slot as every class."""
    logits: Tensor
    """Of the classes, (B, K, C)."""
    y: Tensor
    """Memory, (B, K, d)."""


class Finished(NamedTuple):
    """Slots given their classes."""

    fit: Fit
    """The last joint fit."""
    factor: Tensor
    """Cholesky factors of the joint bound of each slot's own coordinates, (B, K, Z, Z), float64."""
    misfit: Tensor
    """Excess of the residual over what noise leaves, in its standard deviations, (B,)."""
    y: Tensor
    """Memory, (B, K, d)."""
    real: Tensor
    """Logit of whether a slot is on a component, (B, K)."""


class SlotRounds(nn.Module):
    """The rounds of the slots.

    Args:
        config: Sizes.
        units: The classes.
        conditions: Numbers about the prior.
    """

    def __init__(self, config: FamilyConfig, units: Units, conditions: int) -> None:
        super().__init__()
        classes, d, z = units.classes, units.shapes, units.coordinates
        own = classes + d + 4 + conditions
        tried = 2 * classes + 1
        joint = 2 * z + z * (z - 1) // 2 + 1
        self.config = config
        self.first = Round(config, own, classes + 2 * d)
        self.second = Round(config, own + tried, classes)
        self.last = Round(config, own + tried + joint, 1)

    def begin(self, units: Units, seen: Seen, places: Places, mask: Tensor) -> Begun:
        """Takes slots from their starts to the decision on their classes.

        Args:
            units: The classes.
            seen: The signals.
            places: Where slots start, in the order of their places.
            mask: Which of them exist, (B, K), bool.
        """
        x, bounds = seen.x, seen.bounds
        empty = torch.zeros(mask.shape, dtype=x.dtype, device=x.device)
        slots = amplitudes(x, units.fine, units, Slots(places.raw, places.kind, empty, mask))
        y, out = self._round(self.first, units, seen, slots, (), None)
        move = _moved(units, seen, slots, out)
        with torch.no_grad():
            raw = move.raw.maximum(bounds.low[:, None]).minimum(bounds.high[:, None])
            kind = move.logits.argmax(-1)
            slots = amplitudes(x, units.fine, units, Slots(raw, kind, empty, mask))
            fit = joint_fit(x, units.fine, units, slots, bounds, self.config.steps)
            tried = hypotheses(x, units, fit.slots, bounds)
        y, out = self._round(self.second, units, seen, fit.slots, (_tried(tried),), y)
        logits = (out + tried.log_odds).masked_fill(~bounds.allowed[:, None], -1e4)
        return Begun(move, fit, tried, logits, y)

    def finish(self, units: Units, seen: Seen, begun: Begun, kind: Tensor) -> Finished:
        """Takes slots from their classes, (B, K), to their memories."""
        x, bounds = seen.x, seen.bounds
        with torch.no_grad():
            before = begun.fit.slots
            index = kind[..., None, None].expand(-1, -1, 1, before.raw.shape[-1])
            raw = begun.tried.raw.gather(2, index)[:, :, 0]
            same = (kind == before.kind)[..., None]
            start = before._replace(raw=torch.where(same, before.raw, raw), kind=kind)
            start = amplitudes(x, units.fine, units, start)
            fit = joint_fit(x, units.fine, units, start, bounds, self.config.steps)
            used = units.used(kind) & start.mask[..., None]
            expected = units.fine.n - 0.5 * used.sum((1, 2))
            misfit = (fit.rss - expected) / units.fine.n**0.5
            factor = _factor(fit, used)
            told = _tried(begun.tried), _joint(fit, factor, misfit)
        y, out = self._round(self.last, units, seen, fit.slots, told, begun.y)
        return Finished(fit, factor, misfit, y, out[..., 0])

    def _round(
        self,
        part: Round,
        units: Units,
        seen: Seen,
        slots: Slots,
        told: tuple[Tensor, ...],
        y: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """One round's memory and outputs."""
        with torch.no_grad():
            zoom = zoomed(seen.x, units, slots, self.config.zoom)
            own = own_numbers(units, slots, seen.outer)
        shared = seen.conditions[:, None].expand(-1, slots.kind.shape[1], -1)
        numbers = torch.cat([own, shared, *told], -1)
        read = part.seen(zoom, seen.tokens, slots.raw[..., 0], numbers)
        memory, out = part(read, slots.mask, y)
        return memory, out


def kept(chosen: Tensor, new: Begun, old: Begun) -> Begun:
    """The new slots of the chosen signals, (B,), and the old ones of the others."""
    found: Begun = each(
        lambda one, other: torch.where(chosen.view(-1, *(1,) * (one.dim() - 1)), one, other),
        new,
        old,
    )
    return found


def _moved(units: Units, seen: Seen, slots: Slots, out: Tensor) -> Move:
    """The first round's word, of its outputs, (B, K, C + 2D)."""
    logits, moves, log_scale = out.tensor_split((units.classes, units.classes + units.shapes), -1)
    half = 0.5 * (seen.outer.high - seen.outer.low)[0]
    is_place = torch.arange(units.shapes, device=out.device) == 0
    reach = torch.where(is_place, REACH_BINS, REACH_SHARE * half)
    # The class of the start is what the round corrects.
    before = 2.0 * nn.functional.one_hot(slots.kind, units.classes).to(logits.dtype)
    logits = (logits + before).masked_fill(~seen.bounds.allowed[:, None], -1e4)
    raw = slots.raw + reach * moves.tanh()
    return Move(raw, log_scale.clamp(-6, 2), reach[None, None], logits)


def _tried(tried: Hypotheses) -> Tensor:
    """Numbers about a slot as every class, (B, K, 2C + 1)."""
    best = tried.gain.amax(-1, keepdim=True)
    evidence = tried.log_z.logsumexp(-1, keepdim=True)
    return torch.cat(
        [tried.log_odds / 5, (tried.gain - best).asinh() / 3, (evidence / 5).asinh()], -1
    )


def _factor(fit: Fit, used: Tensor) -> Tensor:
    """Cholesky factors of the slots' blocks of the bound, the unit matrix for what is empty."""
    covariance = fit.covariance
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-18).sqrt()
    unit = covariance / scale[..., None] / scale[..., None, :]
    eye = torch.eye(unit.shape[-1], device=unit.device, dtype=unit.dtype)
    factor = torch.linalg.cholesky_ex(unit + 1e-9 * eye)[0].nan_to_num()
    factor = torch.where(
        factor.diagonal(dim1=-2, dim2=-1).amin(-1)[..., None, None] > 0, factor, eye
    )
    there = used[..., None] & used[..., None, :]
    return torch.where(there, factor * scale[..., None], eye)


def _joint(fit: Fit, factor: Tensor, misfit: Tensor) -> Tensor:
    """Numbers about the joint bound, (B, K, 2Z + Z(Z − 1)/2 + 1), float32."""
    sd = factor.square().sum(-1).sqrt().clamp_min(1e-9)
    unit = factor / sd[..., None]
    below = [unit[..., i, j] for i in range(unit.shape[-1]) for j in range(i)]
    shared = misfit.double()[:, None, None].expand(*sd.shape[:2], 1)
    rows = [(fit.step / sd).asinh(), sd.log() / 3 + 1, torch.stack(below, -1), shared.asinh()]
    return torch.cat(rows, -1).float().nan_to_num().clamp(-10, 10)
