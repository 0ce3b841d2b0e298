r"""A slot's own coordinates in units of its joint bound, in which its flow lives.

With the slot's centre, its own phase φ = arg ĉ and the Cholesky factor L of its joint bound,

.. math:: z = L^{-1} \big( f - \hat f, \ \Re(c\, e^{-iφ}) - |ĉ|, \ \Im(c\, e^{-iφ}), \ η - \hat η \big) ,

η being what further raw coordinates the class has. The factor is lower triangular, so that the coordinates of a class
with fewer of them are the first ones. The density per unit of raw coordinates and c gets the factor 1/|det L|.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.network.family.slots import Finished
from slotflow.network.family.units import Units

__all__ = ["from_coordinates", "log_volume", "to_coordinates"]

LARGEST_LOG = 50.0
"""Largest logarithm of a positive shape that a draw may have: of an untrained network they know no bounds."""


def to_coordinates(units: Units, slots: Finished, raw: Tensor, c: Tensor) -> Tensor:
    """Coordinates of components under slots of the same classes, (..., B, K, Z), float64.

    Args:
        units: The classes.
        slots: B signals with K slots.
        raw: Raw coordinates of the components, (..., B, K, D).
        c: Their complex amplitudes, (..., B, K).
    """
    centre = slots.fit.slots
    kind = centre.kind.expand(c.shape)
    own = units.own_raw(raw, kind).double() - units.own_raw(centre.raw, centre.kind).double()
    turned = c.to(torch.complex128) * _turn(centre.c).conj()
    away = turned - centre.c.abs().double()
    place, rest = own.tensor_split((1,), -1)
    delta = torch.cat([place, away.real[..., None], away.imag[..., None], rest], -1)
    factor = slots.factor.expand(*delta.shape, delta.shape[-1])
    z: Tensor = torch.linalg.solve_triangular(factor, delta[..., None], upper=False)[..., 0]
    return z


def from_coordinates(units: Units, slots: Finished, z: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of `to_coordinates`: raw coordinates, (..., B, K, D), and amplitudes, (..., B, K), in float64."""
    centre = slots.fit.slots
    delta = (slots.factor @ z.double()[..., None])[..., 0]
    place, along, across, rest = delta.tensor_split((1, 2, 3), -1)
    kind = centre.kind.expand(z.shape[:-1])
    own = units.own_raw(centre.raw, centre.kind).double() + torch.cat([place, rest], -1)
    raw = units.with_own(centre.raw.double().expand(*z.shape[:-1], -1), kind, own)
    c = torch.complex(centre.c.abs().double() + along[..., 0], across[..., 0]) * _turn(centre.c)
    return torch.where(units.positive, raw.clamp(-LARGEST_LOG, LARGEST_LOG), raw), c


def log_volume(slots: Finished) -> Tensor:
    """Ln |det L|, (B, K), float64."""
    return slots.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _turn(c: Tensor) -> Tensor:
    """The phasor of c, complex128."""
    return torch.polar(torch.ones_like(c.real, dtype=torch.float64), c.angle().double())
