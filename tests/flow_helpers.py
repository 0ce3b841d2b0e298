"""Flows with weights made by hand: exact Gaussians, and rough ones that no training would give."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from slotflow.network.config import FlowConfig
from slotflow.network.flow import ConditionalFlow

__all__ = ["DEEP", "FLOW", "gaussian_flow", "perturb", "rough_flow"]

FLOW = FlowConfig(layers=4, hidden=16, hidden_layers=2, bins=6)
DEEP = FlowConfig(layers=8, hidden=16, hidden_layers=2, bins=6)


def rough_flow(
    dim: int, context: int, seed: int, config: FlowConfig = FLOW, roughness: float = 0.4
) -> ConditionalFlow:
    """A float64 flow away from the identity: bent splines that depend on the kept half and on the context.

    The weights shrink with the number of layers, which keeps the whole well conditioned.
    """
    flow = ConditionalFlow(dim, context, config).double()
    return perturb(flow, seed, roughness / config.layers)


def perturb(flow: ConditionalFlow, seed: int, std: float) -> ConditionalFlow:
    """Gives every network of the flow fresh weights, and its last layer ones of size `std` beside its bias."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in flow.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            if ".out." in name:
                p.add_((std * noise).to(p))
            else:
                p.copy_((noise / math.sqrt(p.shape[-1])).to(p))
    return flow


def gaussian_flow(
    mean: Sequence[float], sd: Sequence[float], context: int, config: FlowConfig = DEEP
) -> ConditionalFlow:
    """A float64 flow whose density is exactly the product of N(mean_i, sd_i²), whatever the context."""
    dim = len(mean)
    flow = ConditionalFlow(dim, context, config).double()
    place = torch.arange(dim)  # original coordinate at each position
    left = {i for i in range(dim) if (mean[i], sd[i]) != (0.0, 1.0)}  # to be moved
    with torch.no_grad():
        for layer in flow.layers:
            layer.out.weight.zero_()
            layer.out.bias.zero_()  # a spline of zeros is the identity
            place = place[layer.order]
            if layer.kind == "spline":
                continue
            bias = layer.out.bias.view(layer.moved, 2)  # shift and unconstrained log scale
            for i, coordinate in enumerate(place[layer.kept :].tolist()):
                if coordinate in left:
                    left.remove(coordinate)
                    log_scale = -math.log(sd[coordinate])
                    bias[i, 0] = -mean[coordinate] / sd[coordinate]
                    bias[i, 1] = log_scale / (1 - abs(log_scale / math.log(1e-3)))
    assert not left, f"no affine layer moves the coordinates {left}: use more layers"
    return flow
