r"""Slots that look closer: rounds of refinement on windows of the spectrum, then joint steps on all streams.

Slot k stands at the frequency f_k (in bins) with the complex amplitude c_k. A round shows it

- the spectrum around f_k, less the other slots' tones, Z_j − Σ_{l≠k} c_l D(j/2 − f_l), divided by its own c_k, so
that a
  tone that is where the slot believes it to be reads D(j/2 − f_k), whatever its amplitude and phase;
- what is left when its own tone is subtracted too, in units of the noise, turned by the phase of c_k;
- the short stream's residual at f_k, likewise;
- the encoder's token there, the prior's bounds as distances, and its own memory y_k;

lets the slots attend to each other, and moves f_k and c_k. The first rounds are the network's. Then two joint
Gauss–Newton steps over all slots and streams (`exact/joint.py`) settle the estimate and give its covariance: the joint
Cramér–Rao bound where tones are resolved. A last round looks once more and leaves y_k as the slot's context: the flow
has to learn only what is not Gaussian.

Windows and networks are float32 throughout, positions and joint steps float64: bfloat16 and TF32 round at the size
of the bound. Complex numbers are pairs of channels, which compile.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.config import ZoomConfig
from slotflow.network.zoom.blocks import Block
from slotflow.network.zoom.numbers import (
    JOINT,
    OTHER,
    SHORT,
    frame_factor,
    joint_numbers,
    neighbours,
    own_numbers,
    short_numbers,
)
from slotflow.network.zoom.window import CONDITIONS, Spectrum
from slotflow.signal.joint import JointStep, joint_step, start_amplitudes
from slotflow.signal.likelihood import Statistics

__all__ = ["Slots", "ZoomSlots"]


class Move(NamedTuple):
    """A round's estimate, for the auxiliary loss."""

    frequency: Tensor
    """In bins, (B, K), float64; carries the round's gradient."""
    c: Tensor
    """Re and Im in units of the largest amplitude, (B, K, 2), float32."""
    log_scale: Tensor
    """Logarithm of the standard deviations of f, Re and Im in the slot's frame over a lone tone's bound, (B, K, 3)."""
    phase: Tensor
    """The frame: unit phasor, (B, K, 2)."""
    bound: Tensor
    """A lone tone's bound on f in bins and on c, (B, K, 3)."""


class Slots(NamedTuple):
    """K slots of B signals after the last round."""

    mask: Tensor
    """Which slots exist, (B, K), bool."""
    frequency: Tensor
    """Centre of the affine layer, in bins, (B, K), float64."""
    c: Tensor
    """Its complex amplitude in units of the largest, (B, K), complex128."""
    factor: Tensor
    """Lower Cholesky factor of the covariance of (f in bins, c turned by −arg c), (B, K, 3, 3), float64."""
    y: Tensor
    """Contexts, (B, K, d), float32."""
    misfit: Tensor
    """asinh of (RSS/σ² − n)/√(2n)/3, (B,)."""
    sigma: Tensor
    """Noise level of the residual, (B,), float64."""
    moves: list[Move]
    """The network's rounds."""

    def to(self, device: torch.device, dtype: torch.dtype) -> Slots:
        """On another device, with contexts of another type, without their history."""
        kept = (self.mask, self.frequency, self.c, self.factor)
        mask, frequency, c, factor = (x.to(device) for x in kept)
        y, misfit = self.y.to(device, dtype), self.misfit.to(device, dtype)
        return Slots(mask, frequency, c, factor, y, misfit, self.sigma.to(device), [])

    def take(self, i: int, k: int) -> Slots:
        """The first k slots of signal i, without their history."""
        one = slice(i, i + 1)
        return Slots(
            mask=self.mask[one, :k],
            frequency=self.frequency[one, :k],
            c=self.c[one, :k],
            factor=self.factor[one, :k],
            y=self.y[one, :k],
            misfit=self.misfit[one],
            sigma=self.sigma[one],
            moves=[],
        )


class Round(nn.Module):
    """One look of all slots at their windows, and at each other."""

    def __init__(self, config: ZoomConfig, k_max: int, joint: bool, outputs: int) -> None:
        super().__init__()
        self.config, d = config, config.slot_width
        samples = 2 * config.window + 1
        extra = SHORT + OTHER + CONDITIONS + (JOINT if joint else 0)
        self.look = nn.Sequential(
            nn.Linear(4 * samples + extra + config.width, 2 * d), nn.GELU(), nn.Linear(2 * d, d)
        )
        self.identity = nn.Parameter(0.02 * torch.randn(k_max, d))
        self.blocks = nn.ModuleList(
            Block(d, config.slot_heads, few=True) for _ in range(config.slot_layers)
        )
        self.out = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Linear(d, outputs))
        nn.init.zeros_(self.out[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.out[-1].bias)  # type: ignore[arg-type]

    def forward(
        self,
        view: Spectrum,
        tokens: Tensor,
        n: int,
        at: tuple[Tensor, Tensor, Tensor],
        c: Tensor,
        mask: Tensor,
        extra: Tensor,
        y: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """New memory (B, K, d) and outputs (B, K, outputs).

        Args:
            view: The spectrum.
            tokens: Of the encoder, (B, tokens, width).
            n: Samples of the long stream.
            at: Nearest half-bin of each slot, (B, K), int64; f_k less its place, (B, K); f_k − f_l, (B, K, K).
            c: Re and Im, (B, K, 2).
            mask: Which slots exist, (B, K), bool.
            extra: Short stream, joint step and other numbers, (B, K, ·).
            y: Memory of the round before, (B, K, d).
        """
        nearest, fraction, gaps = at
        k = mask.shape[1]
        noise = view.noise[:, None, None]
        offset = torch.arange(-self.config.window, self.config.window + 1, device=c.device)
        place = (nearest[..., None] + offset).clamp(0, view.z.shape[-1] - 1)  # (B, K, W)
        z = view.z.gather(2, place.flatten(1)[:, None].expand(-1, 2, -1))
        z = z.view(*z.shape[:2], *place.shape[1:])  # (B, 2, K, W)
        x = (0.5 * offset - fraction[..., None])[..., None] + gaps[:, :, None, :]  # (B, K, W, K)
        kernel = torch.sinc(x) / torch.sinc(x / n) * mask[:, None, None, :]
        model = torch.einsum("bkwl,blr->brkw", kernel, c)  # all slots
        own = (
            kernel.diagonal(dim1=1, dim2=3).transpose(1, 2)[:, None] * c.permute(0, 2, 1)[..., None]
        )
        others = model - own if self.config.subtract else torch.zeros_like(own)
        left, rest = z - others, z - model  # (B, 2, K, W)
        size = (c**2).sum(-1).sqrt()
        turn = c / size.clamp_min(1e-9)[..., None] if self.config.canonical else _upright(c)
        scale = size.maximum(view.noise[:, None])[..., None]
        seen = _turned(left, turn) / (scale[:, None] if self.config.canonical else 1.0)
        rest = torch.asinh(_turned(rest, turn) / noise[:, None])
        window = torch.cat([seen.clamp(-5, 5), rest], 1)  # (B, 4, K, W)
        if not self.config.zoom:
            window = torch.zeros_like(window)
        token = (nearest // 4).clamp(0, tokens.shape[1] - 1)
        token = tokens.to(c.dtype).gather(1, token[..., None].expand(-1, -1, tokens.shape[-1]))
        told = view.conditions[:, None].expand(-1, k, -1)
        h = self.look(torch.cat([window.permute(0, 2, 1, 3).flatten(2), extra, told, token], -1))
        h = h + self.identity[:k]
        if y is not None:
            h = h + y
        attend = mask[:, None, None, :] | torch.eye(k, device=mask.device, dtype=torch.bool)
        for block in self.blocks:
            h = block(h, attend)
        return h, self.out(h)


class ZoomSlots(nn.Module):
    """Starting places to slots."""

    def __init__(self, config: ZoomConfig, k_max: int) -> None:
        super().__init__()
        self.config = config
        self.rounds = nn.ModuleList(
            Round(config, k_max, joint=False, outputs=6) for _ in range(config.rounds)
        )
        self.last = Round(config, k_max, joint=True, outputs=config.slot_width)
        self.norm = nn.LayerNorm(config.slot_width)

    def forward(
        self,
        view: Spectrum,
        statistics: Statistics,
        tokens: Tensor,
        start: Tensor,
        mask: Tensor,
    ) -> Slots:
        """Refines slots.

        Args:
            view: The spectrum of B signals.
            statistics: Of the same signals.
            tokens: Of the encoder, (B, tokens, width).
            start: Frequencies in bins, (B, K), float64.
            mask: Which slots exist, (B, K), bool.
        """
        n, duration = statistics.grids[0].n, statistics.grids[0].duration
        largest, sigma, dtype = view.largest, view.sigma, view.z.dtype

        def hertz(f: Tensor) -> Tensor:
            return torch.where(mask, (f + view.first) / duration, 0.0)

        f = start
        c = start_amplitudes(statistics, hertz(f), mask, sigma, largest) / largest[:, None]
        y: Tensor | None = None
        moves: list[Move] = []
        for i, module in enumerate(self.rounds):
            rest = None
            if i > 0 and len(statistics.grids) > 1:
                part = statistics.stream_equations(1, hertz(f), c * largest[:, None])
                rest = part.rest
            extra = torch.cat(
                [short_numbers(view, statistics, f, c, rest), own_numbers(view, f, c, mask)], -1
            )
            pair = torch.view_as_real(c).to(dtype)
            y, out = module(view, tokens, n, neighbours(f, dtype), pair, mask, extra, y)
            moves.append(_move(view, f, pair, mask, out, 1.0 / 2**i))
            f = moves[-1].frequency.detach().maximum(view.band[:, :1]).minimum(view.band[:, 1:])
            f = torch.where(mask, f, 0.0)
            c = torch.view_as_complex(moves[-1].c.detach().double()) * mask

        step = self._joint(statistics, hertz(f), c * largest[:, None], mask, view)
        step = self._joint(statistics, step.frequency * mask, step.c * mask, mask, view)
        # The centre keeps to the band and to amplitudes that the prior can almost reach.
        f = torch.where(mask, step.frequency * duration - view.first, 0.0)
        f = torch.where(
            mask, f.maximum(view.band[:, :1] - 0.5).minimum(view.band[:, 1:] + 0.5), 0.0
        )
        c = torch.where(mask, step.c / largest[:, None], 0.0)
        degrees = statistics.n - 3 * mask.sum(-1)
        left = (step.rss / degrees).clamp_min(0.0).sqrt()
        sigma = left.minimum(1.1 * sigma).maximum(1e-3 * sigma)
        factor = frame_factor(step, c, sigma, largest, duration, mask)
        misfit = (step.rss / view.sigma**2 - statistics.n) / math.sqrt(2 * statistics.n)
        misfit = (misfit / 3).asinh().to(dtype)
        rest = step.rest[1] if len(step.rest) > 1 else None
        joint = joint_numbers(step, factor, c, sigma, largest, duration, misfit)
        extra = torch.cat(
            [short_numbers(view, statistics, f, c, rest), own_numbers(view, f, c, mask), joint], -1
        )
        h, out = self.last(
            view, tokens, n, neighbours(f, dtype), torch.view_as_real(c).to(dtype), mask, extra, y
        )
        return Slots(mask, f, c, factor, self.norm(h + out), misfit, left, moves)

    def _joint(
        self, statistics: Statistics, frequency: Tensor, c: Tensor, mask: Tensor, view: Spectrum
    ) -> JointStep:
        """A joint step, or its covariance alone where the config has none."""
        step = joint_step(statistics, frequency, c, mask, view.sigma, view.largest)
        return step if self.config.joint else step._replace(frequency=frequency, c=c)


def _upright(c: Tensor) -> Tensor:
    """The phasor 1 for each slot, (B, K, 2)."""
    return torch.stack([torch.ones_like(c[..., 0]), torch.zeros_like(c[..., 0])], -1)


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """x, (B, 2, K, W), times the conjugate of unit phasors, (B, K, 2)."""
    cosine, sine = turn[:, None, :, 0, None], turn[:, None, :, 1, None]
    real, imaginary = x[:, :1], x[:, 1:]
    return torch.cat([real * cosine + imaginary * sine, imaginary * cosine - real * sine], 1)


def _move(view: Spectrum, f: Tensor, c: Tensor, mask: Tensor, out: Tensor, reach: float) -> Move:
    """The estimate after a round whose outputs are (B, K, 6)."""
    size = (c**2).sum(-1).sqrt()
    noise = view.noise[:, None]
    phase = c / size.clamp_min(1e-9)[..., None]
    scale = size.maximum(noise)
    new_f = f + (reach * torch.tanh(out[..., 0])).double()
    # c + scale · (a + ib) · phase
    real = c[..., 0] + scale * (out[..., 1] * phase[..., 0] - out[..., 2] * phase[..., 1])
    imaginary = c[..., 1] + scale * (out[..., 1] * phase[..., 1] + out[..., 2] * phase[..., 0])
    new = torch.stack([real, imaginary], -1) * mask[..., None]
    bound = torch.stack(
        [math.sqrt(3) / math.pi * noise / scale, noise.expand_as(scale), noise.expand_as(scale)], -1
    )
    return Move(new_f, new, out[..., 3:6], phase, bound)
