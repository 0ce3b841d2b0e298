r"""The flow of a slot in units of its bound: whitening, a full-covariance affine layer, spline couplings.

Slot k comes with a centre (f̂, ĉ) and the Cholesky factor L of its marginal covariance in the joint fit. Coordinates
are

.. math:: z = L^{-1} \big( f - \hat f, \ \Re(c\, e^{-i \arg ĉ}) - |ĉ|, \ \Im(c\, e^{-i \arg ĉ}) \big) ,

f in bins and c in units of the largest amplitude: standard normal where the posterior is Gaussian. Two learned
layers follow, both the identity at first: an affine one, u = M (z − m) with M lower triangular, and a small coupling
flow. Their parameters come from the slot's context, which is projected once; a draw costs neither the context's
network nor its width.

The density per unit of (A, rad, Hz) gets the factor A · T / (a² |det L|), a being the largest amplitude, from dc = A
dA dφ, from bins to hertz, and from z.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.config import FlowConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.zoom.slots import Slots

__all__ = ["BoundFlow", "Context", "from_coordinates", "to_coordinates"]


class Context(NamedTuple):
    """What the flow needs to know of S slots."""

    shift: Tensor
    """m, (S, 3)."""
    log_scale: Tensor
    """Minus the logarithm of M's diagonal, (S, 3)."""
    lower: Tensor
    """M's entries below the diagonal: (1, 0), (2, 0), (2, 1), (S, 3)."""
    terms: Tensor
    """The couplings' context terms, (S, layers, hidden)."""

    def take(self, index: Tensor) -> Context:
        """The slots of an index, (S',)."""
        return Context(*(x[index] for x in self))


class BoundFlow(nn.Module):
    """Density of z given slot contexts of width d."""

    def __init__(self, d: int, config: FlowConfig) -> None:
        super().__init__()
        self.affine = nn.Linear(d, 9)
        nn.init.zeros_(self.affine.weight)
        nn.init.zeros_(self.affine.bias)
        self.couplings = ConditionalFlow(3, d, config, context_gain=1.0, output_gain=0.01)

    def project(self, y: Tensor) -> Context:
        """Contexts (S, d) to what the flow needs of them."""
        shift, log_scale, lower = self.affine(y).split(3, -1)
        return Context(shift, 3 * torch.tanh(log_scale / 3), lower, self.couplings.project(y))

    def log_prob(self, context: Context, z: Tensor) -> Tensor:
        """Log density of z (..., S, 3) under slots (S,); (..., S)."""
        d = (z - context.shift) * torch.exp(-context.log_scale)
        u_0 = d[..., 0]
        u_1 = d[..., 1] - context.lower[..., 0] * u_0
        u_2 = d[..., 2] - context.lower[..., 1] * u_0 - context.lower[..., 2] * u_1
        u = torch.stack([u_0, u_1, u_2], -1)
        return self.couplings.log_prob(context.terms, u) - context.log_scale.sum(-1)

    def draw(self, context: Context, n: int, generator: torch.Generator) -> Tensor:
        """N draws of z for each slot, (n, S, 3)."""
        u_0, u_1, u_2 = self.couplings.draw(context.terms, n, generator).unbind(-1)
        d_1 = u_1 + context.lower[..., 0] * u_0
        d_2 = u_2 + context.lower[..., 1] * u_0 + context.lower[..., 2] * u_1
        d = torch.stack([u_0, d_1, d_2], -1)
        return d * torch.exp(context.log_scale) + context.shift


def to_coordinates(slots: Slots, frequency: Tensor, c: Tensor) -> Tensor:
    """Z of tones under slots, (B, K, 3), float64; tones and slots broadcast against each other.

    Args:
        slots: B signals with K slots, or rows of them.
        frequency: In bins, (..., B, K).
        c: In units of the largest amplitude, (..., B, K), complex.
    """
    turned = c * torch.polar(torch.ones_like(slots.frequency), -slots.c.angle())
    d_0 = frequency - slots.frequency
    d_1, d_2 = turned.real - slots.c.abs(), turned.imag
    f = slots.factor
    z_0 = d_0 / f[..., 0, 0]
    z_1 = (d_1 - f[..., 1, 0] * z_0) / f[..., 1, 1]
    z_2 = (d_2 - f[..., 2, 0] * z_0 - f[..., 2, 1] * z_1) / f[..., 2, 2]
    return torch.stack([z_0, z_1, z_2], -1)


def from_coordinates(slots: Slots, z: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of `to_coordinates`: frequency in bins and c, each (..., B, K)."""
    z_0, z_1, z_2 = z.double().unbind(-1)
    f = slots.factor
    frequency = slots.frequency + f[..., 0, 0] * z_0
    real = slots.c.abs() + f[..., 1, 0] * z_0 + f[..., 1, 1] * z_1
    imaginary = f[..., 2, 0] * z_0 + f[..., 2, 1] * z_1 + f[..., 2, 2] * z_2
    c = torch.complex(real, imaginary) * torch.polar(torch.ones_like(f[..., 0, 0]), slots.c.angle())
    return frequency, c


def log_volume(slots: Slots) -> Tensor:
    """Ln |det L|, (B, K)."""
    return slots.factor.diagonal(dim1=-2, dim2=-1).clamp_min(math.exp(-200)).log().sum(-1)
