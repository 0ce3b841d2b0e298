r"""The flow of a slot in units of its bound: whitening, a full-covariance affine layer, spline couplings.

Slot k comes with a centre (f̂, ĉ) and the Cholesky factor L of its marginal covariance in the joint fit. Its
coordinates are

.. math:: z = L^{-1} \big( f - \hat f, \ \Re(c\, e^{-i \arg ĉ}) - |ĉ|, \ \Im(c\, e^{-i \arg ĉ}) \big) ,

with f in bins and c in units of the largest amplitude. They are standard normal where the posterior is Gaussian. Two
learned layers follow, both of which start as the identity: an affine one, u = M (z − m) with M lower triangular, and a
small coupling flow. Their parameters come from the slot's context, which is projected once, so that a draw pays neither
for the context's network nor for its width.

The density per unit of (A, rad, Hz) gets the factor A · T / (a² |det L|), a being the largest amplitude: from dc = A
dA dφ, from bins to hertz, and from z.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.config import FlowConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.zoom.slots import SlotEstimates
from slotflow.signal.waveforms import TONE

__all__ = ["BoundFlow", "FlowContext", "from_coordinates", "log_volume", "to_coordinates"]


class FlowContext(NamedTuple):
    """What the flow needs to know of S slots with Z coordinates each."""

    shift: Tensor
    """m, (S, Z)."""
    log_scale: Tensor
    """Minus the logarithm of M's diagonal, (S, Z)."""
    lower: Tensor
    """M's entries below the diagonal, row by row: (1, 0), (2, 0), (2, 1), …, (S, Z(Z − 1)/2)."""
    terms: Tensor
    """The couplings' context terms, (S, layers, hidden)."""

    def take(self, index: Tensor) -> FlowContext:
        """The slots of an index, (S',)."""
        return FlowContext(*(x[index] for x in self))


class BoundFlow(nn.Module):
    """Density of z given slot contexts of width d."""

    def __init__(self, d: int, config: FlowConfig, size: int = TONE.coordinates) -> None:
        super().__init__()
        self.sizes = [size, size, size * (size - 1) // 2]
        self.affine = nn.Linear(d, sum(self.sizes))
        nn.init.zeros_(self.affine.weight)
        nn.init.zeros_(self.affine.bias)
        self.couplings = ConditionalFlow(size, d, config, context_gain=1.0, output_gain=0.01)

    def project(self, y: Tensor) -> FlowContext:
        """Contexts (S, d) to what the flow needs of them."""
        shift, log_scale, lower = self.affine(y).split(self.sizes, -1)
        # A factor between e⁻³ and e³ either way.
        return FlowContext(shift, 3 * torch.tanh(log_scale / 3), lower, self.couplings.project(y))

    def log_prob(self, context: FlowContext, z: Tensor) -> Tensor:
        """Log density of z (..., S, Z) under slots (S,); (..., S)."""
        columns = ((z - context.shift) * torch.exp(-context.log_scale)).unbind(-1)
        lower = context.lower.unbind(-1)
        u: list[Tensor] = []
        for row, value in enumerate(columns):
            for column in range(row):
                value = value - lower[_below(row, column)] * u[column]
            u.append(value)
        return self.couplings.log_prob(context.terms, torch.stack(u, -1)) - context.log_scale.sum(
            -1
        )

    def draw(self, context: FlowContext, n: int, generator: torch.Generator) -> Tensor:
        """N draws of z for each slot, (n, S, Z)."""
        return self._affine(context, self.couplings.draw(context.terms, n, generator))

    def from_normal(self, context: FlowContext, normal: Tensor) -> Tensor:
        """The z that standard normal numbers stand for, (n, S, Z) each."""
        return self._affine(context, self.couplings.from_normal(context.terms, normal))

    def _affine(self, context: FlowContext, couplings: Tensor) -> Tensor:
        """What the affine layer makes of the couplings' draws, (n, S, Z) each."""
        u = couplings.unbind(-1)
        lower = context.lower.unbind(-1)
        columns = []
        for row, value in enumerate(u):
            for column in range(row):
                value = value + lower[_below(row, column)] * u[column]
            columns.append(value)
        return torch.stack(columns, -1) * torch.exp(context.log_scale) + context.shift


def _below(row: int, column: int) -> int:
    """Place of an entry below the diagonal of a triangle that is stored row by row."""
    return row * (row - 1) // 2 + column


def to_coordinates(slots: SlotEstimates, frequency: Tensor, c: Tensor) -> Tensor:
    """Coordinates of tones under slots, (B, K, Z), float64; tones and slots broadcast against each other.

    Args:
        slots: B signals with K slots, or rows of them.
        frequency: In bins, (..., B, K).
        c: In units of the largest amplitude, (..., B, K), complex.
    """
    turned = c * torch.polar(torch.ones_like(slots.frequency), -slots.c.angle())
    differences = (frequency - slots.frequency, turned.real - slots.c.abs(), turned.imag)
    factor = slots.factor
    z: list[Tensor] = []
    for row, value in enumerate(differences):
        for column in range(row):
            value = value - factor[..., row, column] * z[column]
        z.append(value / factor[..., row, row])
    return torch.stack(z, -1)


def from_coordinates(slots: SlotEstimates, z: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of `to_coordinates`: frequency in bins and c, each (..., B, K)."""
    columns, factor = z.double().unbind(-1), slots.factor
    parts = []
    for row, centre in enumerate((slots.frequency, slots.c.abs(), None)):
        part = factor[..., row, 0] * columns[0]
        part = part if centre is None else centre + part
        for column in range(1, row + 1):
            part = part + factor[..., row, column] * columns[column]
        parts.append(part)
    frequency, along, across = parts
    turn = torch.polar(torch.ones_like(slots.frequency), slots.c.angle())
    return frequency, torch.complex(along, across) * turn


def log_volume(slots: SlotEstimates) -> Tensor:
    """Ln |det L|, (B, K)."""
    return slots.factor.diagonal(dim1=-2, dim2=-1).clamp_min(math.exp(-200)).log().sum(-1)
