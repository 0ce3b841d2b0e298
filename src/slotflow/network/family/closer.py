r"""Slots that landed beside their component, restarted where a matched filter explains more.

A start with a wrong drift or decay can end in a maximum of the likelihood beside the right one. For each slot the data
less the other slots are therefore filtered once more: if some filter of any class within a few bins gains more than the
fitted slot does, the slot starts again there. Nothing here is learned, and training does without it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.network.family.bounds import Bounds
from slotflow.network.family.joint import Slots, residual
from slotflow.network.family.places import Places
from slotflow.network.family.units import Units
from slotflow.network.family.view import Filters

__all__ = ["closer_places"]

REACH_BINS = 4.0
"""How far from a slot its filters may be."""
MARGIN = 2.0
"""Gain by which a filter must exceed the fitted slot."""


@torch.no_grad()
def closer_places(
    x: Tensor, units: Units, filters: Filters, slots: Slots, bounds: Bounds
) -> Places:
    """Where slots should start again: where they are, or at the best filter near them.

    Args:
        x: Records, (B, N).
        units: The classes.
        filters: Of all classes.
        slots: Fitted slots.
        bounds: The priors.
    """
    b = units.fine.basis(units.xi(slots.raw, slots.kind), slots.kind)
    left = residual(x, units.fine, units, slots)
    allowed = filters.allowed(units, bounds)[..., None]  # (B, S, 1)
    place = 0.5 * filters.half_bins
    inside = (place >= bounds.low[:, :1]) & (place <= bounds.high[:, :1])
    raw, kind = [], []
    for slot in range(slots.kind.shape[1]):
        own, at = left + slots.c[:, slot, None] * b[:, slot], slots.raw[:, slot]
        shown = torch.einsum("bn,bn->b", b[:, slot].conj(), own).abs().square()
        reached = shown / b[:, slot].abs().square().sum(-1)
        near = inside & ((place - at[:, :1]).abs() < REACH_BINS)
        gains = (filters.gains(own) * allowed * near[:, None]).flatten(1)
        best, index = gains.max(1)
        shape = filters.shape[index // len(place)]
        found = torch.cat([place[index % len(place)][:, None], shape[:, 1:]], 1)
        better = best > reached + MARGIN
        raw.append(torch.where(better[:, None], found, at))
        kind.append(torch.where(better, filters.row[index // len(place)], slots.kind[:, slot]))
    every = torch.stack(raw, 1).maximum(bounds.low[:, None]).minimum(bounds.high[:, None])
    return Places(every, torch.stack(kind, 1), torch.ones_like(every[..., 0]))
