r"""One round of the slots: each looks at a window of the spectrum around itself, and all look at each other.

Slot k stands at the frequency f_k (in bins) with the complex amplitude c_k. A round shows it

- the spectrum around f_k, less the other slots' tones, Z_j − Σ_{l≠k} c_l D(j/2 − f_l), divided by its own c_k, so that
  a tone that is where the slot believes it to be reads D(j/2 − f_k), whatever its amplitude and phase;
- what is left when its own tone is subtracted too, in units of the noise, turned by the phase of c_k;
- the short stream's residual at f_k, likewise;
- the encoder's token there, the prior's bounds as distances, and its own memory y_k;

lets the slots attend to each other, and moves f_k and c_k.

Complex numbers are pairs of channels, which compile.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.config import ZoomConfig
from slotflow.network.zoom.blocks import Block
from slotflow.network.zoom.numbers import JOINT_NUMBERS, OWN_NUMBERS, SHORT_NUMBERS
from slotflow.network.zoom.spectrum import CONDITIONS, HALF_BINS_PER_TOKEN, Spectrum
from slotflow.signal.waveforms import TONE

__all__ = ["Move", "Round", "SlotInputs", "moved", "slot_inputs"]

SEEN_LIMIT = 5.0
"""Largest value of a window's entry in units of the slot's own amplitude."""


class SlotInputs(NamedTuple):
    """What a round reads of K slots of B signals, in the network's type."""

    nearest: Tensor
    """Nearest half-bin of each slot, (B, K), int64."""
    fraction: Tensor
    """f_k less the place of that half-bin, in bins, (B, K)."""
    gaps: Tensor
    """f_k − f_l in bins, (B, K, K)."""
    c: Tensor
    """Re and Im in units of the largest amplitude, (B, K, 2)."""
    mask: Tensor
    """Which slots exist, (B, K), bool."""
    numbers: Tensor
    """Numbers about the short stream, the slot itself and the joint step, (B, K, ·)."""


class Move(NamedTuple):
    """A round's estimate, for the auxiliary loss."""

    frequency: Tensor
    """In bins, (B, K), float64; carries the round's gradient."""
    c: Tensor
    """Re and Im in units of the largest amplitude, (B, K, 2), float32."""
    log_scale: Tensor
    """Logarithm of the standard deviations of f, Re and Im in the slot's frame over a lone tone's bound, (B, K, Z)."""
    phase: Tensor
    """The frame: unit phasor, (B, K, 2)."""
    bound: Tensor
    """A lone tone's bound on f in bins and on c, (B, K, Z)."""


def slot_inputs(f: Tensor, c: Tensor, mask: Tensor, numbers: Tensor) -> SlotInputs:
    """What a round reads, from frequencies in bins and complex amplitudes, (B, K) each, in float64."""
    dtype = numbers.dtype
    nearest = (2 * f).round()
    gaps = (f[:, :, None] - f[:, None, :]).to(dtype)
    pair = torch.view_as_real(c).to(dtype)
    return SlotInputs(nearest.long(), (f - 0.5 * nearest).to(dtype), gaps, pair, mask, numbers)


class Round(nn.Module):
    """One look of all slots at their windows, and at each other.

    Args:
        config: Sizes.
        k_max: Largest number of slots.
        joint: Whether the slots are told of a joint step.
        outputs: Numbers that the round gives for each slot; a round that moves the slots gives `MOVE_OUTPUTS`.
    """

    MOVE_OUTPUTS = 2 * TONE.coordinates
    """A move of each coordinate, and the logarithm of its standard deviation."""

    def __init__(self, config: ZoomConfig, k_max: int, joint: bool, outputs: int) -> None:
        super().__init__()
        self.config, d = config, config.slot_width
        samples = 2 * config.window + 1
        extra = SHORT_NUMBERS + OWN_NUMBERS + CONDITIONS + (JOINT_NUMBERS if joint else 0)
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
        self, view: Spectrum, tokens: Tensor, n: int, slots: SlotInputs, y: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """New memory (B, K, d) and outputs (B, K, outputs).

        Args:
            view: The spectrum.
            tokens: Of the encoder, (B, tokens, width).
            n: Samples of the long stream.
            slots: Where the slots stand.
            y: Memory of the round before, (B, K, d); None in the first round.
        """
        k = slots.mask.shape[1]
        token = (slots.nearest // HALF_BINS_PER_TOKEN).clamp(0, tokens.shape[1] - 1)
        token = tokens.to(slots.c.dtype).gather(
            1, token[..., None].expand(-1, -1, tokens.shape[-1])
        )
        told = view.conditions[:, None].expand(-1, k, -1)
        window = self.window(view, n, slots).permute(0, 2, 1, 3).flatten(2)
        h = self.look(torch.cat([window, slots.numbers, told, token], -1))
        h = h + self.identity[:k]
        if y is not None:
            h = h + y
        attend = slots.mask[:, None, None, :] | torch.eye(
            k, device=slots.mask.device, dtype=torch.bool
        )
        for block in self.blocks:
            h = block(h, attend)
        return h, self.out(h)

    def window(self, view: Spectrum, n: int, slots: SlotInputs) -> Tensor:
        """The spectrum around each slot, without the other slots and without all of them, (B, 4, K, W)."""
        config, c = self.config, slots.c
        offset = torch.arange(-config.window, config.window + 1, device=c.device)
        place = (slots.nearest[..., None] + offset).clamp(0, view.z.shape[-1] - 1)  # (B, K, W)
        z = view.z.gather(2, place.flatten(1)[:, None].expand(-1, 2, -1))
        z = z.view(*z.shape[:2], *place.shape[1:])  # (B, 2, K, W)
        x = (0.5 * offset - slots.fraction[..., None])[..., None] + slots.gaps[:, :, None, :]
        kernel = torch.sinc(x) / torch.sinc(x / n) * slots.mask[:, None, None, :]  # (B, K, W, K)
        model = torch.einsum("bkwl,blr->brkw", kernel, c)  # all slots
        own = (
            kernel.diagonal(dim1=1, dim2=3).transpose(1, 2)[:, None] * c.permute(0, 2, 1)[..., None]
        )
        others = model - own if config.subtract else torch.zeros_like(own)
        left, rest = z - others, z - model  # (B, 2, K, W)
        size = (c**2).sum(-1).sqrt()
        turn = c / size.clamp_min(1e-9)[..., None] if config.canonical else _upright(size)
        scale = size.maximum(view.noise[:, None])[..., None]
        seen = _turned(left, turn) / (scale[:, None] if config.canonical else 1.0)
        rest = torch.asinh(_turned(rest, turn) / view.noise[:, None, None, None])
        window = torch.cat([seen.clamp(-SEEN_LIMIT, SEEN_LIMIT), rest], 1)
        return window if config.zoom else torch.zeros_like(window)


def moved(view: Spectrum, f: Tensor, slots: SlotInputs, out: Tensor, reach: float) -> Move:
    """The estimate after a round.

    Args:
        view: The spectrum.
        f: Frequencies before the round, in bins, (B, K), float64.
        slots: What the round read.
        out: What it gave, (B, K, MOVE_OUTPUTS): the moves of f, Re and Im in the slot's frame, then their scales.
        reach: Largest move of a frequency, in bins.
    """
    c = slots.c
    size = (c**2).sum(-1).sqrt()
    noise = view.noise[:, None]
    phase = c / size.clamp_min(1e-9)[..., None]
    scale = size.maximum(noise)
    moves, log_scale = out.chunk(2, -1)
    move_f, along, across = moves.unbind(-1)
    new_f = f + (reach * torch.tanh(move_f)).double()
    # c + scale · (along + i across) · phase
    (c_real, c_imaginary), (cosine, sine) = c.unbind(-1), phase.unbind(-1)
    real = c_real + scale * (along * cosine - across * sine)
    imaginary = c_imaginary + scale * (along * sine + across * cosine)
    new = torch.stack([real, imaginary], -1) * slots.mask[..., None]
    bound_c = noise.expand_as(scale)
    bound = torch.stack([math.sqrt(3) / math.pi * noise / scale, bound_c, bound_c], -1)
    return Move(new_f, new, log_scale, phase, bound)


def _upright(size: Tensor) -> Tensor:
    """The phasor 1 for each slot, (B, K) to (B, K, 2)."""
    return torch.stack([torch.ones_like(size), torch.zeros_like(size)], -1)


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """x, (B, 2, K, W), times the conjugate of unit phasors, (B, K, 2)."""
    cosine, sine = (part[:, None, :, None] for part in turn.unbind(-1))
    real, imaginary = x[:, :1], x[:, 1:]
    return torch.cat([real * cosine + imaginary * sine, imaginary * cosine - real * sine], 1)
