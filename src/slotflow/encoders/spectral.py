r"""The spectral encoder: the band's spectrum as tokens, without a dimension left in it.

**Window.** With T = N·dt of the long stream, frequency is counted in bins 1/T from the window's edge, w_0 = ⌊f_lo T⌋ −
margin, and amplitude in units of the prior's largest. The window holds the band's 150 bins and a margin on both sides, at
half-bin steps (a spectrum zero-padded to twice its length):

.. math:: Z_j = \frac{2}{N} \sum_n x_n e^{-2πi f_j (t_n - τ)}, \qquad f_j = (w_0 + j/2)/T ,

τ being mid-time. A tone c e^{2πif(t−τ)} gives c D(f_j T − fT), D(x) = sin πx / (N sin πx/N) real: neighbouring bins
share one phase. Its noise is 2σ²/N per quadrature.

**Short stream.** The same sum over the short stream about its own mid-time, at every tenth bin of the window (its own
bins are wider by T/T_short), gives tokens of its own. Absent, they are zero, and the conditions say so.

**Conditions.** What the spectrum does not show: noise, separation, amplitude bounds and width of the band under the
prior, and how the short stream lies. They enter every token.

Convolutions see half-bins; a token is two bins; attention runs over all tokens. Nothing is pooled on the way to the slots.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.config import Grid, ZoomConfig
from slotflow.exact.kernels import fold, mid_time
from slotflow.priors import PriorBatch
from slotflow.streams import GUARD_BINS

__all__ = ["CONDITIONS", "Block", "SpectralEncoder", "Spectrum", "noise_level", "spectrum"]

CONDITIONS = 11
"""Numbers that describe prior, noise and short stream to the network."""
SHORT_STEP = 10
"""Bins between two tokens of the short stream."""
ENOUGH = 32
"""Bins outside the band from which on the noise level is taken from there."""
FLOOR = 1e-6
"""Smallest noise level in units of the largest amplitude."""


class Spectrum(NamedTuple):
    """What the network sees of B signals; L half-bins, S places of the short stream."""

    z: Tensor
    """Re and Im of Z over the largest amplitude, (B, 2, L); 0 beyond Nyquist and below 0."""
    noise: Tensor
    """Its noise per quadrature, (B,)."""
    short: Tensor
    """The short stream's spectrum likewise, (B, 2, S); 0 if absent."""
    short_noise: Tensor
    """Its noise per quadrature, (B,); 1 if absent."""
    inside: Tensor
    """How much of each half-bin's surroundings lies in the band, (B, L)."""
    conditions: Tensor
    """(B, CONDITIONS)."""
    band: Tensor
    """Edges of the band in bins from the window's edge, (B, 2), float64."""
    sigma: Tensor
    """Noise level in the data's units, (B,), float64."""
    largest: Tensor
    """Largest amplitude under the prior, (B,), float64."""
    first: int
    """w_0, the window's first bin."""


def spectrum(
    series: list[Tensor],
    grids: list[Grid],
    ratios: list[float],
    prior: PriorBatch,
    config: ZoomConfig,
    first: int,
    sigma: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Spectrum:
    """Computes the network's view of B signals on the same grids.

    Args:
        series: Data of the long stream, (B, N), and of the short one if there is one, (B, M).
        grids: Their sampling.
        ratios: Noise level of each stream in units of σ.
        prior: The prior of each signal.
        config: Sizes.
        first: w_0.
        sigma: Noise level, (B,), where it is known better than from outside the band.
        dtype: Of the network.
    """
    grid, long = grids[0], series[0]
    n, device = grid.n, long.device
    largest = prior.amplitude[:, 1]
    full = torch.fft.rfft(long, n=2 * n)  # (B, N + 1)
    index = 2 * first + torch.arange(2 * config.window_bins, device=device)
    valid = (index >= 0) & (index <= n)
    half = index.clamp(0, n)
    angle = 2 * math.pi * torch.remainder(half.double() * ((n - 1) / (4 * n)), 1.0)
    turn = torch.polar(valid.double() * (2 / n), angle)
    z = full[:, half] * turn.to(full.dtype) / largest[:, None].to(long.dtype)
    band = prior.frequency * grid.duration - first
    if sigma is None:
        sigma = noise_level(series, grids, ratios, prior, full)
    sigma = sigma.maximum(FLOOR * largest)
    noise = sigma / largest * math.sqrt(2 / n)

    short, short_noise, lie = _short(series, grids, ratios, sigma, largest, config, first)
    position = torch.arange(2 * config.window_bins, device=device) * 0.5
    inside = (position - band[:, :1] + 0.5).clamp(0, 1) * (band[:, 1:] - position + 0.5).clamp(0, 1)
    separation = (prior.min_separation * grid.duration).clamp(max=8.0)
    told = [
        noise.clamp_min(1e-5).log() / 3 + 1,
        separation / 4,
        torch.exp(-separation),
        torch.exp(-8 * separation),
        prior.amplitude[:, 0] / largest,
        (prior.amplitude[:, 0] / largest / noise).asinh() / 3,
        (band[:, 1] - band[:, 0]).clamp_min(1.0).log() / 3 - 1,
    ]
    conditions = torch.cat([torch.stack(told, -1), lie], -1)
    return Spectrum(
        torch.stack([z.real, z.imag], 1).to(dtype),
        noise.to(dtype),
        short.to(dtype),
        short_noise.to(dtype),
        inside.to(dtype),
        conditions.to(dtype),
        band,
        sigma,
        largest,
        first,
    )


def _short(
    series: list[Tensor],
    grids: list[Grid],
    ratios: list[float],
    sigma: Tensor,
    largest: Tensor,
    config: ZoomConfig,
    first: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The short stream's spectrum, (B, 2, S), its noise, (B,), and how it lies, (B, 4)."""
    places, size = config.window_bins // SHORT_STEP, len(sigma)
    if len(series) == 1:
        return (
            torch.zeros(size, 2, places, device=sigma.device, dtype=torch.float64),
            torch.ones_like(sigma),
            torch.zeros(size, 4, device=sigma.device, dtype=torch.float64),
        )
    long, grid = grids
    bins = first + SHORT_STEP * torch.arange(places, device=sigma.device, dtype=torch.float64)
    frequency = (bins / long.duration)[None]  # (1, S)
    data = _at(series[1], frequency, grid) * (2 / grid.n) / largest[:, None]
    within = (bins > 0) & (bins < 0.5 / grid.dt * long.duration)
    data = data * within
    noise = sigma * ratios[1] / largest * math.sqrt(2 / grid.n)
    shape = [1.0, grid.duration / long.duration, (mid_time(grid) - mid_time(long)) / long.duration]
    lie = torch.tensor(shape, device=sigma.device, dtype=torch.float64).expand(size, 3)
    lie = torch.cat([lie, (noise.clamp_min(1e-5).log() / 3 + 1)[:, None]], -1)
    return torch.stack([data.real, data.imag], 1), noise, lie


def _at(values: Tensor, frequency: Tensor, grid: Grid) -> Tensor:
    """Σ x e^{−2πifu} of (B, M) at frequencies (1, S) that all signals share, (B, S), complex128."""
    batch = values.shape[0]
    folded = fold(values.double())  # (B, I, J)
    rows, cols = folded.shape[1:]
    # As one signal of B·I rows the columns' product is a single matrix product; the rows' is a sum of B parts.
    start = -0.5 * (grid.n - 1) * grid.dt
    index = torch.arange(max(rows, cols), device=values.device, dtype=torch.float64)
    fine = -2 * math.pi * frequency[0, :, None] * (grid.dt * index[:cols])  # (S, J)
    coarse = -2 * math.pi * frequency[0, :, None] * (start + grid.dt * cols * index[:rows])
    waves = torch.cat([fine.cos(), fine.sin()])  # (2S, J)
    inner = (folded.reshape(-1, cols) @ waves.T).reshape(batch, rows, 2, -1)  # (B, I, 2, S)
    real, imaginary = inner[:, :, 0], inner[:, :, 1]
    cosine, sine = coarse.cos().T, coarse.sin().T  # (I, S)
    return torch.complex(
        (real * cosine - imaginary * sine).sum(1), (real * sine + imaginary * cosine).sum(1)
    )


def noise_level(
    series: list[Tensor],
    grids: list[Grid],
    ratios: list[float],
    prior: PriorBatch,
    full: Tensor,
) -> Tensor:
    """σ from the Hann-windowed power of all streams outside the band (see streams.py), (B,), float64.

    NaN where fewer than `ENOUGH` bins lie outside. `full` is the long stream's spectrum at half-bins, (B, N + 1).
    """
    spectra = [full[:, ::2]] + [torch.fft.rfft(x) for x in series[1:]]
    power: Tensor | float = 0.0
    count: Tensor | float = 0.0
    for x, grid, ratio in zip(spectra, grids, ratios, strict=True):
        hann = 0.5 * x[:, 1:-1] - 0.25 * (x[:, :-2] + x[:, 2:])  # bins 1 .. n/2 − 1
        p = (hann.real.double() ** 2 + hann.imag.double() ** 2) / (0.375 * grid.n * ratio**2)
        bins = torch.arange(1, x.shape[1] - 1, device=x.device, dtype=torch.float64)
        low, high = (prior.frequency * grid.duration).unbind(-1)
        outside = (bins < low[:, None] - GUARD_BINS) | (bins > high[:, None] + GUARD_BINS)
        outside = outside & (bins > 2)
        power = power + (p * outside).sum(-1)
        count = count + outside.sum(-1)
    assert isinstance(power, Tensor) and isinstance(count, Tensor)
    return torch.where(count >= ENOUGH, (power / count.clamp_min(1)).sqrt(), math.nan)


class Convolution(nn.Module):
    """A convolution over tokens (B, L, C) as a product with patches.

    With few input channels, or in bfloat16 with channels last, cuDNN spends more time on its layouts and on the gradient
    of the weights than a plain matrix product takes.
    """

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.linear = nn.Linear(n_in * kernel, n_out)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, L, C) to (B, L/stride, C')."""
        sides = (self.kernel - self.stride) // 2, (self.kernel - self.stride + 1) // 2
        padded = nn.functional.pad(x, (0, 0, *sides))
        patches = padded.unfold(1, self.kernel, self.stride)  # (B, L', C, kernel)
        result: Tensor = self.linear(patches.flatten(2))
        return result


class Block(nn.Module):
    """Depthwise convolution (optional), self-attention and a two-layer network, each added to what came in.

    Args:
        d: Width of the tokens.
        heads: Of the attention.
        kernel: Length of the convolution; 0 for none.
        few: Whether there are so few tokens that attention is best written out.
    """

    def __init__(self, d: int, heads: int, kernel: int = 0, few: bool = False) -> None:
        super().__init__()
        self.heads, self.kernel, self.few = heads, kernel, few
        if kernel:
            self.conv = nn.Parameter(torch.randn(kernel, d) / kernel**0.5)
            self.conv_norm, self.conv_out = nn.LayerNorm(d), nn.Linear(d, d)
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tokens (B, L, d) to tokens; mask, (B, 1, 1, L) or (B, 1, L, L), says which may be attended to."""
        if self.kernel:
            x = x + self.conv_out(nn.functional.gelu(self._convolved(self.conv_norm(x))))
        batch, length, d = x.shape
        q, k, v = (
            self.qkv(self.norm_1(x))
            .view(batch, length, 3, self.heads, d // self.heads)
            .permute(2, 0, 3, 1, 4)
        )  # (B, heads, L, d/heads)
        if self.few:
            score = (q[:, :, :, None] * k[:, :, None]).sum(-1) * (d // self.heads) ** -0.5
            if mask is not None:
                score = score.masked_fill(~mask, -1e9)
            attended = (score.softmax(-1)[..., None] * v[:, :, None]).sum(3)
        else:
            attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, d))
        result: Tensor = x + self.mlp(self.norm_2(x))
        return result

    def _convolved(self, x: Tensor) -> Tensor:
        """Each channel of (B, L, d) with a filter of its own; sums of shifted copies fuse into one kernel."""
        half, length = self.kernel // 2, x.shape[1]
        padded = nn.functional.pad(x, (0, 0, half, half))
        weight = self.conv.to(x.dtype)
        total = padded[:, :length] * weight[0]
        for i in range(1, self.kernel):
            total = total + padded[:, i : i + length] * weight[i]
        return total


class SpectralEncoder(nn.Module):
    """A `Spectrum` to tokens of two bins, the heat map and the first logits of K."""

    def __init__(self, config: ZoomConfig, k_max: int) -> None:
        super().__init__()
        d, stem = config.width, config.stem
        self.tokens = config.window_bins // 2
        self.edges = Convolution(6, stem, 9)
        self.stem = nn.Sequential(
            nn.GELU(), Convolution(stem, stem, 5), nn.GELU(), Convolution(stem, d, 4, 4)
        )
        self.short = nn.Linear(4, d)
        self.condition = nn.Sequential(nn.Linear(CONDITIONS, 64), nn.GELU(), nn.Linear(64, d))
        length = self.tokens + config.window_bins // SHORT_STEP
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
            Tokens of the long stream (B, L/4, d); the heat map (B, L/2, 2, 2), for each bin and for a first and a second tone in
            it the logit of its presence and its offset from the bin's centre; pooled tokens (B, 3d); logits of
            K (B, k_max + 1), float32.
        """
        with torch.autocast(view.z.device.type, enabled=False):  # the first look in full precision
            h = self.edges(self.features(view).transpose(1, 2))  # (B, L, stem)
        h = self.stem(h)  # (B, tokens, d)
        short = self.short(_compressed(view.short, view.short_noise).transpose(1, 2))
        h = torch.cat([h, short], 1) + self.position + self.condition(view.conditions)[:, None]
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)[:, : self.tokens]
        heat = _wide(self.heat(h)).unflatten(-1, (2, 2, 2)).flatten(1, 2)
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
