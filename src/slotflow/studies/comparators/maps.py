"""Monotone maps of single numbers, made from what a network says: the layers of the comparators' own flows.

They are those of the paper's flow (`slotflow.network.flow`), rational-quadratic splines and affine maps, without its
coupling of the two halves of a component.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from zuko.transforms import MonotonicAffineTransform

from slotflow.network.config import FlowConfig
from slotflow.network.flow import CONTEXT_GAIN, OUTPUT_GAIN, Spline

__all__ = ["Map", "heard_context", "near_identity", "outputs_of", "standard_normal"]


class Map:
    """A monotone map of each number, with its inverse.

    Args:
        h: What a network says of each number, (..., outputs), as many as `outputs_of` the kind.
        kind: "spline" or "affine".
        config: Bins and bound of splines.
    """

    def __init__(self, h: Tensor, kind: str, config: FlowConfig) -> None:
        h = h if h.dtype == torch.float64 else h.float()  # splines need more than bfloat16
        self.map: MonotonicAffineTransform | Spline
        if kind == "affine":
            self.map = MonotonicAffineTransform(h[..., 0], h[..., 1])
        else:
            bins = config.bins
            widths, heights, slopes = torch.tensor_split(h, (bins, 2 * bins), dim=-1)
            self.map = Spline(widths, heights, slopes, config.bound)

    def forward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """What becomes of numbers (...), and ln of the slopes there, (...)."""
        z, slope = self.map.call_and_ladj(y)
        return z, slope

    def inverse(self, z: Tensor) -> Tensor:
        """The numbers that become z, same shape."""
        y: Tensor = self.map._inverse(z)
        return y


def outputs_of(kind: str, config: FlowConfig) -> int:
    """How many numbers a map of a kind is made from."""
    return 2 if kind == "affine" else 3 * config.bins - 1


def heard_context(context: int, hidden: int) -> nn.Linear:
    """The first layer for contexts, at the scale that the paper's flow has (`network/flow` says why)."""
    layer = nn.Linear(context, hidden)
    nn.init.normal_(layer.weight, std=CONTEXT_GAIN / (3 * context) ** 0.5)
    return layer


def near_identity(layer: nn.Linear) -> nn.Linear:
    """The same last layer with small weights, so that maps begin near the identity."""
    nn.init.normal_(layer.weight, std=OUTPUT_GAIN)
    nn.init.zeros_(layer.bias)
    return layer


def standard_normal(z: Tensor) -> Tensor:
    """Log density of the standard normal law, elementwise."""
    return -0.5 * (z**2 + math.log(2 * math.pi))
