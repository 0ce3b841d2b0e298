"""The spectral encoder: half-bins to tokens of two bins, by convolution and attention; nothing is pooled on the way.

The short stream's places are tokens of their own beside the long stream's. The conditions (prior, noise, short stream)
enter every token. The encoder gives three things: the tokens, which the slots look up; a heat map of where tones are;
and a first count of them, from pooled tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slotflow.network.config import ZoomConfig
from slotflow.network.zoom.blocks import Block, Convolution
from slotflow.network.zoom.spectrum import CONDITIONS, SHORT_STEP, Spectrum

__all__ = ["SpectralEncoder"]


class SpectralEncoder(nn.Module):
    """A `Spectrum` to tokens of two bins, the heat map and the first logits of K."""

    def __init__(self, config: ZoomConfig, k_max: int) -> None:
        super().__init__()
        d, stem = config.width, config.stem
        self.tokens = config.view_bins // 2
        self.edges = Convolution(6, stem, 9)
        self.stem = nn.Sequential(
            nn.GELU(), Convolution(stem, stem, 5), nn.GELU(), Convolution(stem, d, 4, 4)
        )
        self.short = nn.Linear(4, d)
        self.condition = nn.Sequential(nn.Linear(CONDITIONS, 64), nn.GELU(), nn.Linear(64, d))
        length = self.tokens + config.view_bins // SHORT_STEP
        self.position = nn.Parameter(0.02 * torch.randn(1, length, d))
        self.blocks = nn.ModuleList(Block(d, config.heads, 5) for _ in range(config.layers))
        self.norm = nn.LayerNorm(d)
        self.heat = nn.Linear(d, 8)
        self.score = nn.Linear(d, 1)
        self.count = nn.Sequential(
            nn.Linear(3 * d + CONDITIONS, 256), nn.GELU(), nn.Linear(256, k_max + 1)
        )

    def forward(self, view: Spectrum) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Encodes B signals.

        Returns:
            Tokens of the long stream (B, L/4, d); the heat map (B, L/2, 2, 2), for each bin and for a first and a
            second tone in it the logit of its presence and its offset from the bin's centre; pooled tokens (B, 3d);
            logits of K (B, k_max + 1), float32.
        """
        with torch.autocast(view.z.device.type, enabled=False):  # the first look in full precision
            h = self.edges(self.features(view).transpose(1, 2))  # (B, L, stem)
        h = self.stem(h)  # (B, tokens, d)
        short = self.short(_compressed(view.short, view.short_noise).transpose(1, 2))
        h = torch.cat([h, short], 1) + self.position + self.condition(view.conditions)[:, None]
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)[:, : self.tokens]
        heat = _wide(self.heat(h)).reshape(h.shape[0], -1, 2, 2)  # two bins a token
        logit, offset = heat[..., 0] - 3.0, 0.5 * heat[..., 1].tanh()
        weight = self.score(h).softmax(1)
        pooled = torch.cat([h.mean(1), h.amax(1), (weight * h).sum(1)], -1)
        pooled = _wide(pooled)
        logits = _wide(self.count(torch.cat([pooled, view.conditions], -1)))
        return h, torch.stack([logit, offset], -1), pooled, logits

    def features(self, view: Spectrum) -> Tensor:
        """Channels of the half-bins, (B, 6, L)."""
        compressed = _compressed(view.z, view.noise)
        size = (compressed[:, 2:] ** 2).sum(1, keepdim=True).sqrt()
        return torch.cat([compressed, size, view.inside[:, None]], 1)


def _wide(x: Tensor) -> Tensor:
    """At least float32."""
    return x if x.dtype == torch.float64 else x.float()


def _compressed(z: Tensor, noise: Tensor) -> Tensor:
    """Re, Im (B, 2, L) of a spectrum to the same and its direction times log(1 + |z|/noise)/3, (B, 4, L)."""
    magnitude = (z**2).sum(1, keepdim=True).sqrt()
    size = torch.log1p(magnitude / noise[:, None, None]) / 3
    return torch.cat([z, z / magnitude.clamp_min(1e-9) * size], 1)
