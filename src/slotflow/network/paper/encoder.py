r"""The paper's dual-stream encoder (sections 3.1 and 3.3): convolution, attention, pooling.

Each pathway computes

.. math:: h = \mathcal{E}(x), \qquad \tilde h = \mathrm{MHA}(h + \mathrm{PE}), \qquad
    z = \mathrm{Pool}(\tilde h) = [\mathrm{mean}, \max, \mathrm{attn}](\tilde h) ,

the frequency pathway on the orthonormal spectrum of the long stream (two channels, Re and Im), the time pathway on the
short stream (one channel). The global context is g = MLP([z_freq, z_time]).

The ablation of section 5.3.1 gives both pathways samples, or spectra (`EncoderConfig.domain`). The pathways keep their
names then, so that `frequency` is the pathway of the long stream and `time` that of the short one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.config import EncoderConfig

__all__ = ["DualStreamEncoder", "Encoding", "HybridPool", "Pathway", "mlp", "positional_encoding"]

LONGEST_WAVELENGTH = 10_000.0
"""λ of the positional encoding."""
STREAM_DOMAINS = {
    "time-frequency": ("frequency", "time"),
    "time": ("time", "time"),
    "frequency": ("frequency", "frequency"),
}
"""What the pathways of the long and of the short stream are given."""
CHANNELS = {"time": 1, "frequency": 2}
"""Channels of a stream: its samples, or Re and Im of its spectrum."""


class Encoding(NamedTuple):
    """What the encoder hands on, for a batch of B signals."""

    tokens: Tensor
    """Features of the long stream, h̃_freq, (B, L_f, d)."""
    context: Tensor
    """Global context g, (B, H)."""
    noise: Tensor | None
    """Estimate of σ, (B,), where the noise pathway exists."""


class DualStreamEncoder(nn.Module):
    """Both streams of a batch to tokens of the long one, global context and noise estimate."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        d = config.channels[-1]
        self.domains = STREAM_DOMAINS[config.domain]
        long_channels, short_channels = (CHANNELS[domain] for domain in self.domains)
        self.frequency = Pathway(long_channels, config)
        self.time = Pathway(short_channels, config)
        self.pool_frequency = HybridPool(d)
        self.pool_time = HybridPool(d)
        self.fuse = mlp(6 * d, config.context, config.context)
        self.noise = NoiseEncoder(long_channels, config) if config.noise else None
        self.spectrum = spectrum

    def before_compiling(self) -> None:
        """Excludes what does not compile; only when asked, since the compiler takes long to import."""
        self.spectrum = torch.compiler.disable(spectrum)  # type: ignore[no-untyped-call]

    def forward(self, long: Tensor, short: Tensor) -> Encoding:
        """Encodes long (B, N) and short (B, M)."""
        x_long, x_short = (
            self.spectrum(stream) if domain == "frequency" else stream[:, None]
            for stream, domain in zip((long, short), self.domains, strict=True)
        )  # (B, 2, N/2 + 1) or (B, 1, N) each
        tokens = self.frequency(x_long)  # (B, L_f, d)
        z_freq = self.pool_frequency(tokens)  # (B, 3d)
        z_time = self.pool_time(self.time(x_short))  # (B, 3d)
        with torch.autocast(long.device.type, enabled=False):  # a context of 8 bits would blur f
            context = self.fuse(torch.cat([z_freq, z_time], dim=-1))  # (B, H)
        noise = None if self.noise is None else self.noise(x_long)
        return Encoding(tokens, context, noise)


def spectrum(stream: Tensor) -> Tensor:
    """Orthonormal spectrum of (B, N), Re and Im as channels, (B, 2, N/2 + 1); complex numbers do not compile."""
    x = torch.fft.rfft(stream, norm="ortho")
    return torch.stack([x.real, x.imag], dim=1)


class NoiseEncoder(nn.Module):
    """Estimates σ with a pathway like that of the long stream (section 3.5, optional)."""

    def __init__(self, in_channels: int, config: EncoderConfig) -> None:
        super().__init__()
        d = config.channels[-1]
        self.pathway = Pathway(in_channels, config)
        self.pool = HybridPool(d)
        self.head = mlp(3 * d, config.context, 1)

    def forward(self, x_long: Tensor) -> Tensor:
        """What the long stream's pathway is given, (B, C, F), to σ̂ > 0, (B,)."""
        raw = self.head(self.pool(self.pathway(x_long)))[:, 0]
        return nn.functional.softplus(raw.float())


class Pathway(nn.Module):
    """Convolutions, positional encoding and one self-attention."""

    def __init__(self, in_channels: int, config: EncoderConfig) -> None:
        super().__init__()
        sizes = (in_channels, *config.channels)
        layers: list[nn.Module] = []
        for i, (kernel, stride) in enumerate(zip(config.kernels, config.strides, strict=True)):
            conv = PatchConv1d if i == 0 else nn.Conv1d
            padding = (kernel - 1) // 2
            layers += [conv(sizes[i], sizes[i + 1], kernel, stride, padding=padding), nn.GELU()]
        self.conv = nn.Sequential(*layers)
        self.attention = nn.MultiheadAttention(sizes[-1], config.heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Series (B, C, N) to tokens (B, L, d)."""
        h = self.conv(x).transpose(1, 2)  # (B, L, d)
        h = h + positional_encoding(h.shape[1], h.shape[2], h.device).to(h.dtype)
        attended: Tensor = self.attention(h, h, h, need_weights=False)[0]
        return attended


class PatchConv1d(nn.Conv1d):
    """A convolution as a product with patches.

    With one or two input channels cuDNN takes its slowest kernel for the gradient of the weights (a fifth of a
    training step); a plain matrix product does not.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Series (B, C, N) to (B, C', L)."""
        padded = nn.functional.pad(x, (int(self.padding[0]),) * 2)
        patches = padded.unfold(-1, self.kernel_size[0], self.stride[0])  # (B, C, L, kernel)
        weight = self.weight.transpose(0, 1)  # (C, C', kernel)
        out = torch.einsum("bclk,cok->bol", patches, weight)
        return out if self.bias is None else out + self.bias[:, None].to(out.dtype)


class HybridPool(nn.Module):
    """Mean, maximum and attention-weighted mean over the sequence."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, 1, bias=False))

    def forward(self, h: Tensor) -> Tensor:
        """Tokens (B, L, d) to (B, 3d), float32 where the tokens are bfloat16."""
        alpha = self.score(h).softmax(dim=1)  # (B, L, 1)
        h = h.float() if h.dtype == torch.bfloat16 else h
        return torch.cat([h.mean(dim=1), h.amax(dim=1), (alpha * h).sum(dim=1)], dim=-1)


def positional_encoding(length: int, d: int, device: torch.device) -> Tensor:
    """PE(p, 2i) = sin(p / λ^(2i/d)), PE(p, 2i+1) = cos(p / λ^(2i/d)); shape (length, d)."""
    position = torch.arange(length, device=device, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, d, 2, device=device) * (-math.log(LONGEST_WAVELENGTH) / d))
    angle = position * rate  # (length, ceil(d / 2))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d]


def mlp(n_in: int, hidden: int, n_out: int) -> nn.Sequential:
    """Linear, GELU, linear."""
    return nn.Sequential(nn.Linear(n_in, hidden), nn.GELU(), nn.Linear(hidden, n_out))
