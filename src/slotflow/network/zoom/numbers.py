"""What a slot is told about itself, in dimensionless numbers of order one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slotflow.network.zoom.spectrum import LOWEST_AMPLITUDE, Spectrum
from slotflow.signal.joint import JointStep
from slotflow.signal.likelihood import Statistics
from slotflow.signal.waveforms import TONE

__all__ = [
    "JOINT_NUMBERS",
    "OWN_NUMBERS",
    "SHORT_NUMBERS",
    "frame_factor",
    "joint_numbers",
    "own_numbers",
    "short_numbers",
]

SHORT_NUMBERS = 5
"""Numbers per slot that describe the short stream."""
OWN_NUMBERS = 9
"""Numbers per slot that describe its place, its amplitude and the prior's bounds."""
JOINT_NUMBERS = 3 * TONE.coordinates + TONE.coordinates * (TONE.coordinates - 1) // 2 + 1
"""Numbers per slot that describe the joint step: move, bound and widening, correlations, and the misfit."""
TINY_VARIANCE = 1e-24
"""Smallest variance of a coordinate."""


def own_numbers(view: Spectrum, f: Tensor, c: Tensor, mask: Tensor) -> Tensor:
    """Place, amplitude and bounds, (B, K, OWN_NUMBERS)."""
    noise = view.noise[:, None].double()
    size = c.abs().maximum(0.1 * noise)
    low = view.conditions[:, LOWEST_AMPLITUDE, None].double()
    snr = size / noise
    edges = torch.stack([f - view.band[:, :1], view.band[:, 1:] - f], -1).clamp(-1, 5) / 5
    amplitudes = torch.stack([size - low, 1 - size], -1) / (3 * noise[..., None])
    gap = _nearest_gap(f, mask).clamp(max=5.0) / 5
    count = (mask.sum(-1, keepdim=True) / 10).expand_as(f).double()
    rest = torch.stack([4 * f - (2 * f).round() * 2, snr.log() / 3, size.log(), count, gap], -1)
    numbers = torch.cat([rest, amplitudes.asinh() / 2, edges], -1)
    return numbers.to(view.z.dtype) * mask[..., None]


def _nearest_gap(f: Tensor, mask: Tensor) -> Tensor:
    """Distance to the nearest other slot in bins, (B, K)."""
    gap = (f[:, :, None] - f[:, None, :]).abs()
    alone = torch.eye(f.shape[1], device=f.device, dtype=torch.bool) | ~mask[:, None, :]
    return gap.masked_fill(alone, 99.0).amin(-1)


def short_numbers(
    view: Spectrum, statistics: Statistics, f: Tensor, c: Tensor, rest: Tensor | None
) -> Tensor:
    """The short stream's residual at each slot, in its frame there; zeros without a short stream.

    Args:
        view: The spectrum of B signals.
        statistics: Of the same signals.
        f: Places of the slots in bins, (B, K).
        c: Their complex amplitudes in units of the largest, (B, K).
        rest: The short stream's residual filtered by each slot about its mid-time, (B, K), complex; None without it.

    Returns:
        (B, K, SHORT_NUMBERS), in the network's type.
    """
    if rest is None:
        return torch.zeros(*f.shape, SHORT_NUMBERS, device=f.device, dtype=view.z.dtype)
    long, short = statistics.grids[:2]
    offset = short.mid_time - statistics.reference
    angle = 2 * math.pi * torch.remainder((f + view.first) / long.duration * offset, 1.0)
    frame = torch.polar(torch.ones_like(angle), c.angle() + angle)
    unit = (view.sigma * math.sqrt(0.5 * short.n))[:, None]
    turned = rest * frame.conj() / unit
    noise = view.short_noise[:, None].double()
    numbers = [
        turned.real.asinh(),
        turned.imag.asinh(),
        torch.log1p(turned.abs()),
        (c.abs().maximum(0.1 * noise) / noise).log() / 3,
        torch.ones_like(angle),
    ]
    return torch.stack(numbers, -1).to(view.z.dtype)


def joint_numbers(
    step: JointStep,
    factor: Tensor,
    c: Tensor,
    sigma: Tensor,
    largest: Tensor,
    duration: float,
    misfit: Tensor,
) -> Tensor:
    """The joint step in units of its bound, the bound, and how much the other slots widen it.

    Args:
        step: The last joint step of B signals.
        factor: What `frame_factor` makes of it, (B, K, Z, Z).
        c: Complex amplitudes in units of the largest, (B, K).
        sigma: Noise level, (B,).
        largest: Largest amplitude that the prior allows, (B,).
        duration: Of the long stream, in seconds.
        misfit: Of the residual, (B,), in the network's type.

    Returns:
        (B, K, JOINT_NUMBERS), in the type of the misfit.
    """
    unit = torch.stack([torch.full_like(largest, duration), 1 / largest, 1 / largest], -1)[:, None]
    frame = torch.polar(torch.ones_like(c.real), -c.angle())
    move_f, move_real, move_imaginary = step.step.unbind(-1)
    move_c = torch.complex(move_real, move_imaginary) / largest[:, None] * frame
    move = torch.stack([move_f * duration, move_c.real, move_c.imag], -1)
    sd = factor.square().sum(-1).sqrt().clamp_min(1e-12)  # (B, K, Z), in the frame
    alone = step.conditional.sqrt() * sigma[:, None, None] * unit
    correlation = factor / sd[..., None]
    below = [correlation[..., i, j] for i in range(factor.shape[-1]) for j in range(i)]
    size = c.abs().clamp_min(1e-6)
    numbers = torch.cat(
        [
            (move / sd).asinh(),
            sd[..., :1].log() / 3 + 1,
            (sd[..., 1:] / size[..., None]).clamp_min(1e-9).log() / 3 + 1,
            (sd / alone.clamp_min(1e-12)).clamp_min(1e-3).log(),
            torch.stack(below, -1),
            misfit.double()[:, None, None].expand(*c.shape, 1),
        ],
        -1,
    )
    return numbers.to(misfit.dtype).nan_to_num().clamp(-10, 10)


def frame_factor(
    step: JointStep, c: Tensor, sigma: Tensor, largest: Tensor, duration: float, mask: Tensor
) -> Tensor:
    """Cholesky factor of each slot's covariance in its own frame: f in bins, c in units of the largest amplitude.

    Args:
        step: The last joint step of B signals.
        c: Complex amplitudes in units of the largest, whose phases turn the frames, (B, K).
        sigma: Noise level, (B,).
        largest: Largest amplitude that the prior allows, (B,).
        duration: Of the long stream, in seconds.
        mask: Which slots exist, (B, K), bool; the others get the unit matrix.

    Returns:
        Lower triangles, (B, K, Z, Z), float64.
    """
    angle = c.angle()
    zero, cosine, sine = torch.zeros_like(angle), angle.cos(), angle.sin()
    unit = 1 / largest[:, None]
    rows = [
        torch.stack([torch.full_like(angle, duration), zero, zero], -1),
        torch.stack([zero, cosine * unit, sine * unit], -1),
        torch.stack([zero, -sine * unit, cosine * unit], -1),
    ]
    frame = torch.stack(rows, -2) * sigma[:, None, None, None]
    factor = _small_cholesky(frame @ step.covariance @ frame.mT)
    eye = torch.eye(factor.shape[-1], device=c.device, dtype=torch.float64)
    return torch.where(mask[..., None, None], factor, eye)


def _small_cholesky(s: Tensor) -> Tensor:
    """Lower factors of small matrices (..., Z, Z), column by column: thousands of library calls would cost more."""
    size = s.shape[-1]
    entries: dict[tuple[int, int], Tensor] = {}
    for column in range(size):
        for row in range(column, size):
            value = s[..., row, column]
            for before in range(column):
                value = value - entries[column, before] * entries[row, before]
            if row == column:
                entries[row, column] = value.clamp_min(TINY_VARIANCE).sqrt()
            else:
                entries[row, column] = value / entries[column, column]
    zero = torch.zeros_like(s[..., 0, 0])
    rows = [
        torch.stack([entries.get((row, column), zero) for column in range(size)], -1)
        for row in range(size)
    ]
    return torch.stack(rows, -2)
