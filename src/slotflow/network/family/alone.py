"""Each slot as the likelihood has it: a Gaussian around the joint fit, of the width of the joint bound.

A slot's flow knows the law of training as well and ends where that law does. Where another law of amplitudes is asked
for (`carried.py`) it is the likelihood alone that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from slotflow.core.arrays import Array
from slotflow.network.family.coordinates import from_coordinates
from slotflow.network.family.record import Record
from slotflow.network.family.slots import Finished
from slotflow.network.family.units import Units

__all__ = ["Alone", "slots_alone"]

DRAWS = 200
"""Draws of each slot."""


class Alone(NamedTuple):
    """One slot."""

    amplitude: float
    """Of the fit."""
    spread: float
    """Its standard deviation."""
    unit: float
    """Amplitude at which ρ is 1."""
    place: Array
    """Draws, (n,)."""


@torch.inference_mode()
def slots_alone(
    units: Units, slots: Finished, records: Sequence[Record], k: int
) -> list[list[Alone]]:
    """The first K slots of B signals.

    Args:
        units: The classes.
        slots: B signals with at least K slots.
        records: Those of the signals.
        k: K.
    """
    own = slots.fit.slots
    energy = units.fine.basis(units.xi(own.raw, own.kind), own.kind).abs().square().sum(-1)
    loud = (own.c.abs() * energy.sqrt()).cpu().numpy()  # ρ, (B, K)
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(DRAWS, 1, *slots.factor.shape[1:3], generator=generator)
    normal = (normal - normal.mean(0)) / normal.std(0)  # their moments without chance
    z = torch.cat([torch.zeros_like(normal[:1]), normal]).to(own.raw.device)  # the fit first
    raw, complex_c = from_coordinates(units, slots, z * units.used(own.kind))
    xi, c = units.values(raw).cpu().numpy(), complex_c.cpu().numpy()
    kinds = own.kind.cpu().numpy()
    columns = units.own.cpu().numpy()
    found = []
    for i, record in enumerate(records):
        maps = {one.kind: one for one in record.maps}
        mine = []
        for slot, kind in enumerate(kinds[i, :k]):
            one = maps[int(kind)]
            theta = one.theta(xi[:, i, slot, columns[kind]], c[:, i, slot], record.reference)
            amplitude = one.member.of(theta, "amplitude")
            unit = float(amplitude[0]) / max(float(loud[i, slot]), 1e-12)
            place = one.member.place_of(theta[1:])
            mine.append(Alone(float(amplitude[0]), float(amplitude[1:].std()), unit, place))
        found.append(mine)
    return found
