"""What a slot is told about itself, in dimensionless numbers of order one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slotflow.network.zoom.window import Spectrum
from slotflow.signal.joint import JointStep
from slotflow.signal.likelihood import Statistics

__all__ = [
    "JOINT",
    "OTHER",
    "SHORT",
    "frame_factor",
    "joint_numbers",
    "neighbours",
    "own_numbers",
    "short_numbers",
]

SHORT = 5
"""Numbers per slot that describe the short stream."""
JOINT = 13
"""Numbers per slot that describe the joint step."""
OTHER = 9
"""Further numbers per slot."""


def neighbours(f: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Nearest half-bins, the distance from them, and all gaps."""
    nearest = (2 * f).round()
    gaps = (f[:, :, None] - f[:, None, :]).to(dtype)
    return nearest.long(), (f - 0.5 * nearest).to(dtype), gaps


def own_numbers(view: Spectrum, f: Tensor, c: Tensor, mask: Tensor) -> Tensor:
    """Place, amplitude and bounds, (B, K, OTHER)."""
    noise = view.noise[:, None].double()
    size = c.abs().maximum(0.1 * noise)
    low = view.conditions[:, 4, None].double()  # smallest amplitude over the largest
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
    """The short stream's residual at each slot, in its frame there, (B, K, SHORT); 0 where there is none."""
    if rest is None:
        return torch.zeros(*f.shape, SHORT, device=f.device, dtype=view.z.dtype)
    grid, long = statistics.grids[1], statistics.grids[0]
    offset = grid.t0 + 0.5 * (grid.n - 1) * grid.dt - statistics.reference
    angle = 2 * math.pi * torch.remainder((f + view.first) / long.duration * offset, 1.0)
    frame = torch.polar(torch.ones_like(angle), c.angle() + angle)
    unit = (view.sigma * math.sqrt(0.5 * grid.n))[:, None]
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
    """The joint step in units of its bound, the bound, and how much the other slots widen it, (B, K, JOINT)."""
    unit = torch.stack([torch.full_like(largest, duration), 1 / largest, 1 / largest], -1)[:, None]
    frame = torch.polar(torch.ones_like(c.real), -c.angle())
    move = torch.complex(step.step[..., 1], step.step[..., 2]) / largest[:, None] * frame
    move = torch.stack([step.step[..., 0] * duration, move.real, move.imag], -1)
    sd = factor.square().sum(-1).sqrt().clamp_min(1e-12)  # (B, K, 3), in the frame
    alone = step.conditional.sqrt() * sigma[:, None, None] * unit
    row = factor / sd[..., None]
    size = c.abs().clamp_min(1e-6)
    numbers = torch.cat(
        [
            (move / sd).asinh(),
            sd[..., :1].log() / 3 + 1,
            (sd[..., 1:] / size[..., None]).clamp_min(1e-9).log() / 3 + 1,
            (sd / alone.clamp_min(1e-12)).clamp_min(1e-3).log(),
            torch.stack([row[..., 1, 0], row[..., 2, 0], row[..., 2, 1]], -1),
            misfit.double()[:, None, None].expand(*c.shape, 1),
        ],
        -1,
    )
    return numbers.to(misfit.dtype).nan_to_num().clamp(-10, 10)


def frame_factor(
    step: JointStep, c: Tensor, sigma: Tensor, largest: Tensor, duration: float, mask: Tensor
) -> Tensor:
    """Cholesky factor of each slot's covariance in bins, in units of the largest amplitude and in its frame."""
    angle = c.angle()
    zero, cosine, sine = torch.zeros_like(angle), angle.cos(), angle.sin()
    unit = 1 / largest[:, None]
    rows = [
        torch.stack([torch.full_like(angle, duration), zero, zero], -1),
        torch.stack([zero, cosine * unit, sine * unit], -1),
        torch.stack([zero, -sine * unit, cosine * unit], -1),
    ]
    frame = torch.stack(rows, -2) * sigma[:, None, None, None]
    s = frame @ step.covariance @ frame.mT  # (B, K, 3, 3)
    # The factor of a 3 × 3 matrix by hand: thousands of small calls would cost more.
    tiny = 1e-24
    a = s[..., 0, 0].clamp_min(tiny).sqrt()
    b, d = s[..., 1, 0] / a, s[..., 2, 0] / a
    e = (s[..., 1, 1] - b * b).clamp_min(tiny).sqrt()
    g = (s[..., 2, 1] - b * d) / e
    h = (s[..., 2, 2] - d * d - g * g).clamp_min(tiny).sqrt()
    factor = [
        torch.stack([a, zero, zero], -1),
        torch.stack([b, e, zero], -1),
        torch.stack([d, g, h], -1),
    ]
    eye = torch.eye(3, device=c.device, dtype=torch.float64)
    return torch.where(mask[..., None, None], torch.stack(factor, -2), eye)
