r"""Slots that are beside their component, or on none, restarted where a matched filter explains more.

A start with a wrong drift or decay can end in a maximum of the likelihood beside the right one, and a slot on a weak
peak may leave a louder component without any. Slots are therefore looked at again one after another, the weakest first:
the data less the other slots are filtered, and if some filter within the band and the prior gains more than the fitted
slot does, the slot starts again there, and what it leaves is what the next slot sees. All slots are then fitted
together from there, and the new fit is kept where its residual is smaller. Nothing here is learned.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.network.family.bounds import Bounds
from slotflow.network.family.joint import Fit, Slots, amplitudes, joint_fit
from slotflow.network.family.places import Places
from slotflow.network.family.units import Units
from slotflow.network.family.view import Filters

__all__ = ["closer_places", "closer_slots"]

MARGIN = 2.0
"""Gain by which a filter must exceed the fitted slot."""


@torch.no_grad()
def closer_places(
    x: Tensor, units: Units, filters: Filters, slots: Slots, bounds: Bounds
) -> Places:
    """Where slots should start again: where they are, or at the filter that explains most.

    Args:
        x: Records, (B, N).
        units: The classes.
        filters: Of all classes.
        slots: Fitted slots.
        bounds: The priors.
    """
    b = units.fine.basis(units.xi(slots.raw, slots.kind), slots.kind)
    shown = (slots.c * slots.mask)[..., None] * b
    left = x - shown.sum(1)
    place = 0.5 * filters.half_bins
    inside = (place >= bounds.low[:, :1]) & (place <= bounds.high[:, :1])
    allowed = filters.allowed(units, bounds)[..., None] & inside[:, None]  # (B, S, L)
    loud = torch.where(slots.mask, shown.abs().square().sum(-1), torch.inf)
    raw, kind = slots.raw.clone(), slots.kind.clone()
    rows = torch.arange(len(x), device=x.device)
    for slot in loud.argsort(1)[:, : _most(slots.mask)].unbind(1):
        own = left + shown[rows, slot]
        best, index = (filters.gains(own) * allowed).flatten(1).max(1)
        reached, _ = _explained(own, b[rows, slot])
        better = (best > reached + MARGIN) & slots.mask[rows, slot]
        shape = filters.shape[index // len(place)]
        found = torch.cat([place[index % len(place)][:, None], shape[:, 1:]], 1)
        raw[rows, slot] = torch.where(better[:, None], found, raw[rows, slot])
        kind[rows, slot] = torch.where(better, filters.row[index // len(place)], kind[rows, slot])
        _, rest = _explained(own, _one(units, raw[rows, slot], kind[rows, slot]))
        left = torch.where(better[:, None], rest, left)
    raw = raw.maximum(bounds.low[:, None]).minimum(bounds.high[:, None])
    return Places(raw, kind, torch.ones_like(raw[..., 0]))


@torch.no_grad()
def closer_slots(
    x: Tensor, units: Units, filters: Filters, fit: Fit, bounds: Bounds, passes: int, steps: int
) -> Slots:
    """Fitted slots after some passes of `closer_places`, each kept where it moves a slot and the residual is smaller.

    On the CPU it ends as soon as no slot moves; a GPU would have to wait for that word.

    Args:
        x: Records, (B, N).
        units: The classes.
        filters: Of all classes.
        fit: Fitted slots.
        bounds: The priors.
        passes: How many.
        steps: Gauss–Newton steps after each of them.
    """
    slots, rss = fit.slots, fit.rss
    for _ in range(passes):
        places = closer_places(x, units, filters, slots, bounds)
        moved = (places.raw != slots.raw).any(-1).any(-1) | (places.kind != slots.kind).any(-1)
        if x.device.type == "cpu" and not moved.any():
            break
        start = slots._replace(raw=places.raw, kind=places.kind)
        start = amplitudes(x, units.fine, units, start)
        trial = joint_fit(x, units.fine, units, start, bounds, steps)
        better = moved & (trial.rss < rss)
        slots = Slots(*(_where(better, *pair) for pair in zip(trial.slots, slots, strict=True)))
        rss = torch.where(better, trial.rss, rss)
    return slots


def _most(mask: Tensor) -> int:
    """How many slots to look at: on the CPU as many as there are, on a GPU, which would have to wait, all places."""
    return int(mask.sum(1).amax()) if mask.device.type == "cpu" else mask.shape[1]


def _explained(x: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """What one component b, (B, N), explains of records, (B,), and what it leaves of them, (B, N)."""
    energy = b.abs().square().sum(-1)
    product = torch.einsum("bn,bn->b", b.conj(), x)
    return product.abs().square() / energy, x - (product / energy)[:, None] * b


def _one(units: Units, raw: Tensor, kind: Tensor) -> Tensor:
    """Functions of time of one component of each signal, (B, N)."""
    return units.fine.basis(units.xi(raw, kind), kind)


def _where(better: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """The new values of the chosen signals, (B, ...)."""
    return torch.where(better.view(-1, *(1,) * (new.dim() - 1)), new, old)
