r"""What the encoder reads: the spectrum in time segments, and matched filters of all classes, at every half-bin.

**Segments.** The record is cut into S pieces; the spectrum of each on one fine grid of frequencies, with all phases
referred to the middle of the record, shows how the power at a frequency comes and goes and how its phase runs.

**Filters.** For each class and each shape of its `search_grid` the gain of a component at a half-bin,

.. math:: \frac{|\sum_u \bar b(u; ξ)\, x(u)|^2}{\sum_u |b(u; ξ)|^2} ,

which is what it would add to the log-likelihood, 1 on average in noise alone. A chirp over 60 bins is invisible in the
plain spectrum and stands out here. Filters that the prior excludes show 0. Neighbouring shapes are grouped, and of each
group the largest gain is shown; so is, of each class, the shape of its best filter.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.architecture import FamilyConfig
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.units import Units

__all__ = ["Filters", "View", "channels", "view_of"]


class View(NamedTuple):
    """What the encoder reads of B signals."""

    features: Tensor
    """(B, L, channels)."""
    conditions: Tensor
    """Numbers about the prior, (B, ·)."""


class Filters(nn.Module):
    """Matched filters of all classes at L half-bins.

    Args:
        units: The classes.
        config: Sizes.
        bins: Bins of the view.
    """

    kernels: Tensor
    energy: Tensor
    shape: Tensor
    step: Tensor
    row: Tensor
    half_bins: Tensor

    def __init__(self, units: Units, config: FamilyConfig, bins: int) -> None:
        super().__init__()
        self.config, self.bins, self.n = config, bins, units.fine.n
        device = units.own.device
        kernels, rows, steps, groups = [], [], [], []
        for kind, member in enumerate(units.waveform.members.values()):
            grid = torch.from_numpy(member.search_grid(1.0)).float()  # (S, D_c − 1)
            own = torch.cat([torch.zeros(len(grid), 1), grid], 1)
            raw = torch.zeros(len(grid), units.shapes)
            for column, name in enumerate(member.shape):
                raw[:, units.names.index(name)] = own[:, column]
            raw = units.raw(raw.to(device))
            kinds = torch.full((len(grid),), kind, device=device)
            kernels.append(units.fine.basis(units.xi(raw, kinds), kinds))
            rows.append(raw)
            steps.append(
                (raw[1:] - raw[:-1]).abs().amax(0).expand_as(raw) if len(raw) > 1 else 0 * raw
            )
            groups.append(len(grid))
        self.groups = groups
        every = torch.cat(kernels)
        self.register_buffer("kernels", every.conj(), persistent=False)  # (S, N)
        self.register_buffer("energy", every.abs().square().sum(-1), persistent=False)
        self.register_buffer("shape", torch.cat(rows), persistent=False)  # (S, D)
        self.register_buffer("step", torch.cat(steps), persistent=False)
        row = torch.repeat_interleave(torch.arange(len(groups)), torch.tensor(groups))
        self.register_buffer("row", row.to(device), persistent=False)
        half = torch.arange(-bins, bins, device=device)
        self.register_buffer("half_bins", half, persistent=False)  # f = half_bins / 2

    def allowed(self, units: Units, bounds: Bounds) -> Tensor:
        """Which filters the prior allows, (B, S), bool: those within a step of its bounds."""
        shape, step = self.shape, self.step
        inside = (shape >= bounds.low[:, None] - step) & (shape <= bounds.high[:, None] + step)
        place = torch.arange(units.shapes, device=shape.device) == 0
        relevant = units.present[self.row] & ~place  # (S, D)
        return (inside | ~relevant).all(-1) & bounds.allowed[:, self.row]

    def gains(self, x: Tensor) -> Tensor:
        """Gains at the half-bins, (B, S, L), of records (B, N)."""
        spectrum = torch.fft.fft(x[:, None] * self.kernels, 2 * self.n)
        gains: Tensor = spectrum[..., self.half_bins].abs().square() / self.energy[:, None]
        return gains

    def segments(self, x: Tensor) -> Tensor:
        """Spectra of the segments in units of the whole record's noise, (B, S, L), complex."""
        pieces = self.config.segments
        eye = torch.eye(pieces, device=x.device).repeat_interleave(self.n // pieces, 1)
        spectrum = torch.fft.fft(x[:, None] * eye, 2 * self.n)[..., self.half_bins]
        turn = (
            math.pi * self.half_bins * (self.n - 1) / (2 * self.n)
        )  # from the first sample to the middle
        phase = torch.polar(torch.ones_like(turn), turn)
        spectra: Tensor = spectrum * phase / math.sqrt(self.n)
        return spectra


def channels(filters: Filters, units: Units) -> int:
    """Number of channels of a view."""
    shown = sum(min(size, filters.config.groups) for size in filters.groups)
    return 3 * (filters.config.segments + 1) + shown + units.classes + 2


@torch.no_grad()
def view_of(x: Tensor, filters: Filters, units: Units, bounds: Bounds) -> Tensor:
    """Features of records (B, N), (B, L, channels), float32."""
    spectra = filters.segments(x)
    pieces = filters.config.segments
    spectra = torch.cat([spectra * (0.5 * math.sqrt(pieces)), spectra.sum(1, keepdim=True)], 1)
    size = spectra.abs()
    scaled = torch.asinh(size)
    turned = spectra * (scaled / size.clamp_min(1e-6))
    gains = filters.gains(x) * filters.allowed(units, bounds)[..., None]
    level = torch.log1p(0.25 * gains)  # (B, S, L)
    half = 0.5 * (bounds.high - bounds.low)[:, :1]
    inside = (0.5 * filters.half_bins).abs() <= half
    shown = [turned.real, turned.imag, scaled]
    best = []
    scale = (0.5 * (filters.shape.amax(0) - filters.shape.amin(0))).clamp_min(1e-6)
    shapes = torch.split(filters.shape / scale, filters.groups)  # (S_c, D) each
    for kind, own in enumerate(torch.split(level, filters.groups, 1)):
        shown.append(_grouped(own, filters.config.groups))
        chosen = shapes[kind][own.argmax(1)]  # (B, L, D)
        best.append((chosen * units.present[kind])[..., 1:].sum(-1)[:, None])
    largest = level.amax(1, keepdim=True)
    shown += [*best, largest, inside[:, None].float()]
    return torch.cat(shown, 1).transpose(1, 2)


def _grouped(level: Tensor, groups: int) -> Tensor:
    """The largest of each group of neighbours, (B, S, L) to (B, at most `groups`, L)."""
    size = level.shape[1]
    if size <= groups:
        return level
    edges = [round(i * size / groups) for i in range(groups + 1)]
    return torch.stack([level[:, a:b].amax(1) for a, b in pairwise(edges)], 1)
