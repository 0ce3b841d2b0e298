r"""Training signals of several classes in the network's units, drawn on its device under bounds that vary.

.. math:: x(u) = s \Big( \sum_k c_k\, b(u; ξ_k) + n \Big) , \qquad |c_k|^2 \sum_u |b(u; ξ_k)|^2 = ρ_k^2 ,

with ρ log-uniform and n of the variance 1. The factor s, near 1, stands for a noise level that is known to a few per
cent only, as it is where the data have to tell it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.network.config import ModelConfig
from slotflow.network.family.bounds import Bounds, draw_bounds, outer_bounds
from slotflow.network.family.units import Units
from slotflow.signal.waveforms import Classes

__all__ = ["FamilyBatch", "Mixtures"]


@dataclass(frozen=True, eq=False)
class FamilyBatch:
    """B signals with their truth; components are in the order of their places."""

    long: Tensor
    """x, (B, N), complex64."""
    k: Tensor
    """Number of components, (B,), int64, on the CPU."""
    mask: Tensor
    """Which components exist, (B, K), bool."""
    raw: Tensor
    """Raw coordinates, (B, K, D)."""
    kind: Tensor
    """Classes, (B, K), int64."""
    c: Tensor
    """Complex amplitudes, (B, K)."""
    gain: Tensor
    """ρ, (B, K)."""
    bounds: Bounds
    """What the network is told."""


class Mixtures:
    """Draws training signals for a config.

    Args:
        config: Of a network of the family.
        device: Where to draw.
    """

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        assert config.family is not None and isinstance(config.prior.waveform, Classes)
        self.config, self.sizes = config, config.family
        self.units = Units(config.prior.waveform, config.long.n, config.family.coarse).to(device)

    @torch.no_grad()
    def draw(self, n: int, seed: int, varied: bool = True) -> FamilyBatch:
        """N signals.

        Args:
            n: How many.
            seed: The same seed on the same device gives the same signals.
            varied: Whether bounds vary as in training; False: those of the config, and a known noise level.
        """
        units, config, prior = self.units, self.sizes, self.config.prior
        device = units.own.device
        host = torch.Generator().manual_seed(stream_seed(seed, RandomStream.COUNTS))
        counts = prior.sample_k(n, host)
        generator = torch.Generator(device=device)
        generator.manual_seed(stream_seed(seed, RandomStream.SIGNALS))

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, device=device)

        bounds = outer_bounds(units, prior, self.config.gain, n)
        if varied:
            bounds = draw_bounds(bounds, config, generator)
        mask = upload(torch.arange(prior.k_max) < counts[:, None], device)
        low, high = bounds.low[:, None], bounds.high[:, None]
        raw = low + uniform(n, prior.k_max, units.shapes) * (high - low)
        order = torch.where(mask, raw[..., 0], torch.inf).argsort(1)
        raw = raw.gather(1, order[..., None].expand_as(raw))
        raw = torch.where(mask[..., None], raw, 0.5 * (low + high))
        chances = uniform(n, prior.k_max, units.classes) * bounds.allowed[:, None]
        kind = torch.where(mask, chances.argmax(-1), 0)
        b = units.fine.basis(units.xi(raw, kind), kind)
        energy = b.abs().square().sum(-1)
        least, most = bounds.gain.log()[:, None].unbind(-1)
        rho = torch.exp(least + uniform(n, prior.k_max) * (most - least)) * mask
        c = torch.polar(rho / energy.sqrt(), 2 * math.pi * uniform(n, prior.k_max))
        noise = torch.randn(
            n, self.config.long.n, generator=generator, device=device, dtype=b.dtype
        )
        x = torch.einsum("bk,bkn->bn", c, b) + noise
        scale = torch.ones(n, device=device)
        if varied:
            scale = torch.exp(
                config.level_error * torch.randn(n, generator=generator, device=device)
            )
        return FamilyBatch(
            x * scale[:, None], counts, mask, raw, kind, c * scale[:, None], rho, bounds
        )
