"""Slots that are on no component begin again where one is missing."""

from __future__ import annotations

import torch
from family_helpers import small_config, small_model

from slotflow.network.family.closer import closer_slots
from slotflow.network.family.joint import Slots, amplitudes, joint_fit
from slotflow.network.family.loss import overlap
from slotflow.network.family.mixtures import FamilyBatch, Mixtures

STEPS, PASSES = 5, 2


def clear_mixtures(n: int, seed: int) -> FamilyBatch:
    """Signals with two components or more, all of them loud."""
    batch = Mixtures(small_config().model, torch.device("cpu")).draw(n, seed, varied=False)
    chosen = (batch.gain + 40.0 * ~batch.mask).amin(1) > 8
    rows = (chosen & (batch.mask.sum(1) >= 2)).nonzero()[:, 0]
    parts = [
        getattr(batch, name)[rows] for name in ("long", "k", "mask", "raw", "kind", "c", "gain")
    ]
    return FamilyBatch(*parts, type(batch.bounds)(*(part[rows] for part in batch.bounds)))


@torch.no_grad()
def found_shares(start: torch.Tensor, batch: FamilyBatch) -> tuple[float, float]:
    """Share of the components with a slot, and of the signals whose slots did not move, from starting places."""
    model = small_model()
    parts = model.parts
    units, bounds = parts.units, batch.bounds
    slots = Slots(start, batch.kind, torch.zeros_like(batch.c), batch.mask)
    slots = amplitudes(batch.long, units.fine, units, slots)
    fit = joint_fit(batch.long, units.fine, units, slots, bounds, STEPS)
    after = closer_slots(batch.long, units, parts.filters, fit, bounds, PASSES, STEPS)
    on = overlap(model, after, batch).amax(1) > 0.8
    still = (after.raw == fit.slots.raw).flatten(1).all(1)
    return float(on[batch.mask].double().mean()), float(still.double().mean())


def test_a_slot_on_noise_finds_the_missing_component() -> None:
    batch = clear_mixtures(120, 7)
    assert len(batch.k) > 20
    lost = batch.raw.clone()
    weakest = torch.where(batch.mask, batch.gain, torch.inf).argmin(1)
    rows = torch.arange(len(lost))
    place = lost[rows, weakest, 0]
    lost[rows, weakest, 0] = torch.where(place > 0, place - 45.0, place + 45.0)
    before = 1 - 1 / batch.mask.sum(1).double().mean()
    found, _ = found_shares(lost, batch)
    assert found > 0.9 > before


def test_slots_on_their_components_stay() -> None:
    batch = clear_mixtures(120, 7)
    found, still = found_shares(batch.raw, batch)
    assert found > 0.95 and still > 0.9
