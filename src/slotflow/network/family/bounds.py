r"""What the network is told of the prior: classes that may be, bounds of every shape, how loud components are.

Bounds are in raw coordinates (`units.py`): bins from the middle of the band, ḟT², ln γT. In training a share of the
signals has the outer bounds of the config and all its classes. The others vary: a narrower band, a part of each range,
some of the classes, and louder components. So one network serves every prior within the outer bounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from slotflow.network.architecture import FamilyConfig
from slotflow.network.family.units import Units
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Classes

__all__ = ["Bounds", "conditions", "draw_bounds", "outer_bounds"]


class Bounds(NamedTuple):
    """Priors of B signals."""

    low: Tensor
    """Lower bounds of the raw coordinates, (B, D)."""
    high: Tensor
    """Upper ones, (B, D)."""
    allowed: Tensor
    """Which classes may be, (B, C), bool."""
    gain: Tensor
    """Smallest and largest ρ, (B, 2)."""

    @property
    def size(self) -> int:
        """B."""
        return len(self.low)

    @property
    def volume(self) -> Tensor:
        """Logarithm of the extent of each raw coordinate, (B, D)."""
        return (self.high - self.low).clamp_min(1e-6).log()


def outer_bounds(units: Units, prior: Prior, gain: tuple[float, float], size: int) -> Bounds:
    """The widest bounds that a config allows, for B signals, on the units' device."""
    assert isinstance(prior.waveform, Classes)
    ranges = {units.waveform.place: prior.frequency}
    for member in prior.waveform.members.values():
        ranges |= {name: (law.low, law.high) for name, law in member.ranges.items()}
    device = units.own.device
    edges = torch.tensor([ranges[name] for name in units.names], device=device)
    low, high = (units.raw(edge) for edge in edges.T)
    allowed = torch.ones(size, units.classes, dtype=torch.bool, device=device)
    return Bounds(
        low.expand(size, -1),
        high.expand(size, -1),
        allowed,
        torch.tensor(gain, device=device).expand(size, -1),
    )


def draw_bounds(outer: Bounds, config: FamilyConfig, generator: torch.Generator) -> Bounds:
    """Bounds of training signals: a share of `config.varied` within the outer ones, the rest the outer ones."""
    size, d = outer.low.shape
    device = outer.low.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    varied = uniform(size, 1) < config.varied
    ends = uniform(size, d, 2).sort(-1).values  # a part of each range
    span = outer.high - outer.low
    low, high = outer.low + ends[..., 0] * span, outer.low + ends[..., 1] * span
    centre, half = 0.5 * (low + high), (0.5 * (high - low)).maximum(0.02 * span)
    low, high = centre - half, centre + half
    share = config.narrowest ** uniform(size)  # of the band, which is always around 0
    edge = share * outer.high[:, 0]
    low, high = _placed(low, -edge), _placed(high, edge)
    allowed = uniform(size, outer.allowed.shape[1]) < 0.6
    allowed = allowed | ~allowed.any(1, keepdim=True)
    loud = outer.gain[:, 1] * config.loudest ** uniform(size)
    gain = torch.stack([outer.gain[:, 0], loud], -1)
    return Bounds(
        torch.where(varied, low, outer.low),
        torch.where(varied, high, outer.high),
        torch.where(varied, allowed, outer.allowed),
        torch.where(varied, gain, outer.gain),
    )


def conditions(bounds: Bounds, outer: Bounds) -> Tensor:
    """Numbers about the prior, (B, C + 2D + 2)."""
    centre, half = 0.5 * (outer.low + outer.high), 0.5 * (outer.high - outer.low)
    ends = [(edge - centre[:1]) / half[:1] for edge in (bounds.low, bounds.high)]
    return torch.cat([bounds.allowed.float(), *ends, bounds.gain.log() / math.log(40.0) - 1], -1)


def _placed(values: Tensor, first: Tensor) -> Tensor:
    """Values (B, D) with those of the place, the first coordinate, replaced by (B,)."""
    return torch.cat([first[:, None], values[:, 1:]], 1)
