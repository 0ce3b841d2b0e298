"""The encoder: half-bins to tokens of two bins, a heat map of every class, and a count.

Two of them are in use. The first reads the data. The second reads what the first fit leaves of them, beside the tokens
of the first and a map of the slots, and looks for what is missing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.architecture import FamilyConfig
from slotflow.network.zoom.blocks import Block, Convolution

__all__ = ["Encoded", "Encoder"]

PER_TOKEN = 2
"""Bins of a token."""


class Encoded(NamedTuple):
    """What an encoder makes of B signals."""

    tokens: Tensor
    """(B, bins/2, d)."""
    heat: Tensor
    """(B, bins, C, 1 + D): logit of the presence of a component of a class in a bin, its offset from the bin's centre
    in bins, and its other raw coordinates in units of half their outer range."""
    pooled: Tensor
    """(B, 3d), float32."""
    logits: Tensor
    """Of K, (B, k_max + 1), float32."""


class Encoder(nn.Module):
    """Features to tokens.

    Args:
        config: Sizes.
        inputs: Channels of the features.
        outputs: Bins, classes C and shape parameters D.
        layers: Blocks.
        conditions: Numbers about the prior, and others about the signal.
        k_max: Largest number of components.
    """

    def __init__(
        self,
        config: FamilyConfig,
        inputs: int,
        outputs: tuple[int, int, int],
        layers: int,
        conditions: int,
        k_max: int,
    ) -> None:
        super().__init__()
        d = config.width
        self.bins, self.classes, self.shapes = outputs
        self.first = Convolution(inputs, config.stem, 6, 2)
        self.stem = nn.Sequential(nn.GELU(), Convolution(config.stem, d, 4, 2))
        self.condition = nn.Sequential(nn.Linear(conditions, 64), nn.GELU(), nn.Linear(64, d))
        self.position = nn.Parameter(0.02 * torch.randn(1, self.bins // PER_TOKEN, d))
        self.blocks = nn.ModuleList(Block(d, config.heads, 5) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.heat = nn.Linear(d, PER_TOKEN * self.classes * (1 + self.shapes))
        self.score = nn.Linear(d, 1)
        self.count = nn.Sequential(
            nn.Linear(3 * d + conditions, 256), nn.GELU(), nn.Linear(256, k_max + 1)
        )

    def forward(
        self, features: Tensor, conditions: Tensor, before: Tensor | None = None
    ) -> Encoded:
        """Encodes B signals.

        Args:
            features: (B, 2 bins, channels).
            conditions: (B, ·).
            before: Tokens of another encoder to add, (B, bins/2, d).
        """
        with torch.autocast(
            features.device.type, enabled=False
        ):  # the first look in full precision
            h = self.first(features)
        h = self.stem(h) + self.position + self.condition(conditions)[:, None]
        if before is not None:
            h = h + before
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        heat = _wide(self.heat(h)).reshape(len(h), self.bins, self.classes, 1 + self.shapes)
        logit, offset, rest = heat.tensor_split((1, 2), -1)
        heat = torch.cat([logit - 4.0, 0.6 * offset.tanh(), rest], -1)
        weight = self.score(h).softmax(1)
        pooled = _wide(torch.cat([h.mean(1), h.amax(1), (weight * h).sum(1)], -1))
        logits = _wide(self.count(torch.cat([pooled, conditions], -1)))
        return Encoded(h, heat, pooled, logits)


def _wide(x: Tensor) -> Tensor:
    """At least float32."""
    return x if x.dtype == torch.float64 else x.float()
