r"""The flow's log density as one straight function of tensors, which a CUDA graph can record (`replayed`).

It computes the same number as `ConditionalFlow.log_prob`, its test, without gathers, sorts or anything that a device
has to wait for. The bin that x lies in is a mask m over all bins j, with knots x_j,

.. math:: m_j = [x_j < x \le x_{j+1}], \qquad x_0 = \sum_j m_j x_j, \quad w = \sum_j m_j (x_{j+1} - x_j), \; \dots

so that everything is a sum over bins, forwards and backwards. Each bin ends with the number that the next begins with:
were its lower end computed as upper end less width, some x would lie in two bins, or in none, by rounding. Elsewhere
zuko's own code is as quick.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from slotflow.network.flow import SMALLEST_SLOPE, ConditionalFlow, CouplingLayer

__all__ = ["StraightDensity", "rational_quadratic"]


class StraightDensity(nn.Module):
    """Log density of a flow, whose weights it shares.

    Args:
        flow: The flow.
    """

    def __init__(self, flow: ConditionalFlow) -> None:
        super().__init__()
        self.flow = flow
        self.layers = [layer for layer in flow.layers if isinstance(layer, CouplingLayer)]
        self.orders: list[list[int]] = [layer.order.tolist() for layer in self.layers]

    def forward(self, projected: Tensor, y: Tensor) -> Tensor:
        """Log density of coordinates (S, dim) given rows of `ConditionalFlow.project`, (S, L, H); (S,)."""
        columns = list(y.unbind(-1))
        total = torch.zeros_like(columns[0])
        for layer, order, term in zip(self.layers, self.orders, projected.unbind(-2), strict=True):
            columns = [columns[i] for i in order]
            kept, moved = columns[: layer.kept], torch.stack(columns[layer.kept :], -1)
            h = layer.outputs(_with_kept(layer, term, kept))  # (S, moved, outputs)
            if layer.kind == "affine":
                log_scale = h[..., 1] / (1 + (h[..., 1] / math.log(SMALLEST_SLOPE)).abs())
                moved, log_slope = moved * log_scale.exp() + h[..., 0], log_scale
            else:
                moved, log_slope = rational_quadratic(moved, h, layer.bins, layer.bound)
            columns, total = [*kept, *moved.unbind(-1)], total + log_slope.sum(-1)
        square = torch.stack(columns).square().sum(0)
        return total - 0.5 * square - 0.5 * len(columns) * math.log(2 * math.pi)


def _with_kept(layer: CouplingLayer, term: Tensor, kept: list[Tensor]) -> Tensor:
    """What the network of a layer begins with, (S, H): the context's term and the kept half, column by column."""
    for column, weight in zip(kept, layer.from_kept.weight.unbind(-1) if kept else (), strict=True):
        term = term + column[..., None] * weight
    return term


def rational_quadratic(x: Tensor, h: Tensor, bins: int, bound: float) -> tuple[Tensor, Tensor]:
    """The monotonic rational-quadratic spline of `flow.Spline` and the logarithm of its slope, (...) each.

    Args:
        x: Where, (...).
        h: Unconstrained widths, heights and inner slopes, (..., 3 bins − 1).
        bins: How many.
        bound: The spline lives on [−bound, bound] and is the identity outside.
    """
    limit = -math.log(SMALLEST_SLOPE)
    widths, heights, slopes = torch.tensor_split(h, (bins, 2 * bins), dim=-1)
    left, right = _ends(widths, limit, bound)
    bottom, top = _ends(heights, limit, bound)
    slopes = torch.nn.functional.pad(slopes / (1 + (slopes / limit).abs()), (1, 1)).exp()
    at = x[..., None]
    mask = (left < at) & (at <= right)
    inside = mask.any(-1)

    def chosen(values: Tensor, otherwise: float) -> Tensor:
        return torch.where(inside, torch.where(mask, values, 0.0).sum(-1), otherwise)

    width, height = chosen(right - left, 1.0), chosen(top - bottom, 1.0)
    d0, d1 = chosen(slopes[..., :-1], 1.0), chosen(slopes[..., 1:], 1.0)
    z = torch.where(inside, (x - chosen(left, 0.0)) / width, 0.0)
    s, mixed = height / width, z * (1 - z)
    below = s + (d0 + d1 - 2 * s) * mixed
    y = chosen(bottom, 0.0) + height * (s * z**2 + d0 * mixed) / below
    slope = s**2 * (2 * s * mixed + d0 * (1 - z) ** 2 + d1 * z**2) / below**2
    return torch.where(inside, y, x), torch.where(inside, slope.log(), 0.0)


def _ends(sizes: Tensor, limit: float, bound: float) -> tuple[Tensor, Tensor]:
    """Lower and upper ends of the bins, (..., bins) each, from unconstrained sizes."""
    sums = (sizes / (1 + (2 * sizes / limit).abs())).exp().cumsum(-1)
    upper = sums * (2 * bound / sums[..., -1:]) - bound
    return torch.nn.functional.pad(upper[..., :-1], (1, 0), value=-bound), upper
