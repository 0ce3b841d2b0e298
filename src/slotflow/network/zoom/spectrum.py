r"""What the default network sees: the band's spectrum without a dimension left in it.

**View.** With T = N·dt of the long stream, frequency is counted in bins 1/T from the edge of the view, w_0 = ⌊f_lo T⌋ −
margin, and amplitude in units of the largest that the prior allows. The view holds the band's 150 bins and a margin on
both sides, at half-bin steps (a spectrum zero-padded to twice its length):

.. math:: Z_j = \frac{2}{N} \sum_n x_n e^{-2πi f_j (t_n - τ)}, \qquad f_j = (w_0 + j/2)/T ,

τ being mid-time. A tone c e^{2πif(t−τ)} gives c D(f_j T − fT), where D(x) = sin πx / (N sin πx/N) is real: neighbouring
bins share one phase. The noise of Z is 2σ²/N per quadrature; σ is measured outside the band.

**Short stream.** The same sum over the short stream about its own mid-time, at every tenth bin of the view (its own
bins are wider by T/T_short). Without a short stream it is zero, and the conditions say so.

**Conditions.** What the spectrum does not show: noise, separation, amplitude bounds and width of the band under the
prior, and where the short stream lies.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.data.noise_level import power_outside
from slotflow.data.sampling import Grid
from slotflow.network.config import ZoomConfig
from slotflow.signal.likelihood.folded import fold
from slotflow.signal.prior_batch import PriorBatch

__all__ = [
    "CONDITIONS",
    "HALF_BINS_PER_TOKEN",
    "LOWEST_AMPLITUDE",
    "SHORT_STEP",
    "SignalBatch",
    "Spectrum",
    "noise_level",
    "spectrum",
]

CONDITIONS = 11
"""Numbers that describe prior, noise and short stream to the network."""
LOWEST_AMPLITUDE = 4
"""Which of the conditions is the smallest amplitude over the largest."""
HALF_BINS_PER_TOKEN = 4
"""Half-bins of the long stream that one token of the encoder stands for."""
SHORT_STEP = 10
"""Bins between two tokens of the short stream."""
MIN_NOISE_BINS = 32
"""Number of bins outside the band from which on the noise level is measured there."""
NOISE_FLOOR = 1e-6
"""Smallest noise level in units of the largest amplitude."""


class SignalBatch(NamedTuple):
    """B signals that are sampled alike."""

    series: list[Tensor]
    """Data of the long stream, (B, N), and of the short one if there is one, (B, M)."""
    grids: list[Grid]
    """Sampling of each stream."""
    ratios: list[float]
    """Noise level of each stream in units of σ."""


class Spectrum(NamedTuple):
    """What the network sees of B signals, at L half-bins and at S places of the short stream."""

    z: Tensor
    """Re and Im of Z over the largest amplitude, (B, 2, L); 0 beyond Nyquist and below 0."""
    noise: Tensor
    """Its noise per quadrature, (B,)."""
    short: Tensor
    """The short stream's spectrum likewise, (B, 2, S); 0 without one."""
    short_noise: Tensor
    """Its noise per quadrature, (B,); 1 without a short stream."""
    inside: Tensor
    """How much of each half-bin's surroundings lies in the band, (B, L)."""
    conditions: Tensor
    """(B, CONDITIONS)."""
    band: Tensor
    """Edges of the band in bins from the edge of the view, (B, 2), float64."""
    sigma: Tensor
    """Noise level in the data's units, (B,), float64."""
    largest: Tensor
    """Largest amplitude under the prior, (B,), float64."""
    first: int
    """w_0, the first bin of the view."""

    def to(self, device: torch.device, dtype: torch.dtype) -> Spectrum:
        """The same on another device, with what the network reads in another type."""
        own = self.z.dtype

        def moved(name: str, x: Any) -> Any:
            kept = name in ("band", "sigma", "largest")
            return x.to(device, x.dtype if kept or x.dtype != own else dtype)

        parts: dict[str, Any] = {n: moved(n, x) for n, x in self._asdict().items() if n != "first"}
        return self._replace(**parts)

    def take(self, rows: slice | Tensor) -> Spectrum:
        """Some of the signals."""
        parts: dict[str, Any] = {n: x[rows] for n, x in self._asdict().items() if n != "first"}
        return self._replace(**parts)


def spectrum(
    signals: SignalBatch,
    prior: PriorBatch,
    config: ZoomConfig,
    first: int,
    sigma: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Spectrum:
    """Computes the network's view of B signals.

    Args:
        signals: The data.
        prior: The prior of each signal.
        config: Sizes.
        first: w_0.
        sigma: Noise level, (B,), where it is known better than from outside the band.
        dtype: Of the network.
    """
    grid, long = signals.grids[0], signals.series[0]
    n, device = grid.n, long.device
    largest = prior.amplitude[:, 1]
    full = torch.fft.rfft(long, n=2 * n)  # (B, N + 1)
    index = 2 * first + torch.arange(2 * config.view_bins, device=device)
    valid = (index >= 0) & (index <= n)
    half = index.clamp(0, n)
    angle = 2 * math.pi * torch.remainder(half.double() * ((n - 1) / (4 * n)), 1.0)
    turn = torch.polar(valid.double() * (2 / n), angle)
    z = full[:, half] * turn.to(full.dtype) / largest[:, None].to(long.dtype)
    band = prior.frequency * grid.duration - first
    if sigma is None:
        sigma = noise_level(signals, prior, full)
    sigma = sigma.maximum(NOISE_FLOOR * largest)
    noise = sigma / largest * math.sqrt(2 / n)

    short, short_noise, lie = _short(signals, sigma, largest, config, first)
    position = torch.arange(2 * config.view_bins, device=device) * 0.5
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
    signals: SignalBatch, sigma: Tensor, largest: Tensor, config: ZoomConfig, first: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The short stream's spectrum, (B, 2, S), its noise, (B,), and where it lies, (B, 4)."""
    places, size = config.view_bins // SHORT_STEP, len(sigma)
    if len(signals.series) == 1:
        return (
            torch.zeros(size, 2, places, device=sigma.device, dtype=torch.float64),
            torch.ones_like(sigma),
            torch.zeros(size, 4, device=sigma.device, dtype=torch.float64),
        )
    long, grid = signals.grids
    bins = first + SHORT_STEP * torch.arange(places, device=sigma.device, dtype=torch.float64)
    frequency = (bins / long.duration)[None]  # (1, S)
    data = _at(signals.series[1], frequency, grid) * (2 / grid.n) / largest[:, None]
    within = (bins > 0) & (bins < 0.5 / grid.dt * long.duration)
    data = data * within
    noise = sigma * signals.ratios[1] / largest * math.sqrt(2 / grid.n)
    shape = [1.0, grid.duration / long.duration, (grid.mid_time - long.mid_time) / long.duration]
    lie = upload(torch.tensor(shape, dtype=torch.float64), sigma.device).expand(size, -1)
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


def noise_level(signals: SignalBatch, prior: PriorBatch, full: Tensor) -> Tensor:
    """σ from the power of all streams outside the band (see `slotflow.data.noise_level`).

    Args:
        signals: The data.
        prior: The prior of each signal, whose band is left out.
        full: The long stream's spectrum at half-bins, (B, N + 1).

    Returns:
        σ, (B,), float64; NaN where fewer than `MIN_NOISE_BINS` bins lie outside the band.
    """
    spectra = [full[:, ::2]] + [torch.fft.rfft(x) for x in signals.series[1:]]
    power, count = full.new_zeros((), dtype=torch.float64), full.new_zeros((), dtype=torch.int64)
    for x, grid, ratio in zip(spectra, signals.grids, signals.ratios, strict=True):
        low, high = (prior.frequency * grid.duration).unbind(-1)
        found, bins = power_outside(x, grid.n, low, high)
        power, count = power + found / ratio**2, count + bins
    return torch.where(count >= MIN_NOISE_BINS, (power / count.clamp_min(1)).sqrt(), math.nan)
