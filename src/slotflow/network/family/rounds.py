r"""One round of the slots: each sees its demodulated record, all see each other.

**Zoom.** The data less the other slots, demodulated by the slot's own waveform, summed in segments and divided by its
own amplitude and energy: a slot that is right reads 1 everywhere. An error of the frequency is a linear phase, of the
drift a quadratic one, of the decay a slope of the modulus. Beside it stands what is left when the slot's own component
is subtracted too, in units of the noise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slotflow.network.architecture import FamilyConfig
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.joint import Slots, residual
from slotflow.network.family.units import Units
from slotflow.network.zoom.blocks import Block

__all__ = ["Round", "own_numbers", "zoomed"]

SEEN_LIMIT = 4.0
"""Largest value of the zoom in units of the slot's own amplitude."""
LEAST_SHARE = 1e-3
"""Share of a segment's largest energy below which it counts as empty."""


@torch.no_grad()
def zoomed(x: Tensor, units: Units, slots: Slots, segments: int) -> tuple[Tensor, Tensor]:
    """The demodulated record of each slot.

    Args:
        x: Records, (B, N).
        units: The classes.
        slots: The slots.
        segments: G.

    Returns:
        What a slot sees, complex, (B, K, G), 1 for a perfect one; and the residual in units of the noise, (B, K, G).
    """
    b = units.fine.basis(units.xi(slots.raw, slots.kind), slots.kind)
    left = residual(x, units.fine, units, slots)
    shape = (*slots.kind.shape, segments, -1)
    energy = b.abs().square().view(shape).sum(-1)
    rest = (left[:, None] * b.conj()).view(shape).sum(-1)
    turn = torch.where(slots.c.abs() > 0, slots.c / slots.c.abs().clamp_min(1e-9), 1.0)[..., None]
    rest = rest * turn.conj()
    least = LEAST_SHARE * units.fine.n / segments
    size = slots.c.abs()[..., None].clamp_min(0.02)
    seen = (rest + energy * slots.c.abs()[..., None]) / size / energy.clamp_min(least)
    return seen, rest / energy.clamp_min(least).sqrt()


def own_numbers(units: Units, slots: Slots, outer: Bounds) -> Tensor:
    """Numbers about each slot, (B, K, C + D + 4)."""
    xi = units.xi(slots.raw, slots.kind)
    energy = units.fine.basis(xi, slots.kind).abs().square().sum(-1)
    centre, half = 0.5 * (outer.low + outer.high), 0.5 * (outer.high - outer.low)
    scaled = ((slots.raw - centre[:, None]) / half[:, None]).clamp(-2, 2)
    place = slots.raw[..., 0]
    loud = torch.log1p(slots.c.abs() * energy.sqrt())
    kind = nn.functional.one_hot(slots.kind, units.classes).float()
    rest = [loud, (energy / units.fine.n).sqrt(), place.remainder(2.0) - 1, place.remainder(0.5)]
    return torch.cat([kind, scaled, torch.stack(rest, -1)], -1)


class Round(nn.Module):
    """One look of all slots.

    Args:
        config: Sizes.
        numbers: Numbers about each slot and its signal beside zoom and token.
        outputs: Numbers that the round gives for each slot.
    """

    def __init__(self, config: FamilyConfig, numbers: int, outputs: int) -> None:
        super().__init__()
        d = config.slot_width
        self.look = nn.Sequential(
            nn.Linear(4 * config.zoom + numbers + config.width, 2 * d),
            nn.GELU(),
            nn.Linear(2 * d, d),
        )
        self.blocks = nn.ModuleList(
            Block(d, config.slot_heads, few=True) for _ in range(config.slot_layers)
        )
        self.out = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Linear(d, outputs))
        nn.init.zeros_(self.out[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.out[-1].bias)  # type: ignore[arg-type]

    def forward(self, seen: Tensor, mask: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor]:
        """New memory, (B, K, d), and outputs, (B, K, ·).

        Args:
            seen: What each slot reads, (B, K, ·).
            mask: Which slots exist, (B, K), bool.
            y: Memory of the round before, (B, K, d).
        """
        h = self.look(seen)
        if y is not None:
            h = h + y
        k = mask.shape[1]
        attend = mask[:, None, None, :] | torch.eye(k, device=mask.device, dtype=torch.bool)
        for block in self.blocks:
            h = block(h, attend)
        return h, self.out(h)

    @staticmethod
    def seen(zoom: tuple[Tensor, Tensor], tokens: Tensor, place: Tensor, numbers: Tensor) -> Tensor:
        """What slots read.

        Args:
            zoom: Of `zoomed`.
            tokens: Of the encoder, (B, tokens, width), which cover the view from its lower edge on.
            place: Places in bins from the middle of the view, (B, K).
            numbers: (B, K, ·).
        """
        own, rest = zoom
        count = tokens.shape[1]
        index = (0.5 * (place + count)).floor().long().clamp(0, count - 1)  # two bins a token
        token = tokens.gather(1, index[..., None].expand(-1, -1, tokens.shape[-1]))
        parts = [
            own.real.clamp(-SEEN_LIMIT, SEEN_LIMIT),
            own.imag.clamp(-SEEN_LIMIT, SEEN_LIMIT),
            rest.real.asinh(),
            rest.imag.asinh(),
        ]
        return torch.cat([*parts, numbers, token.to(numbers.dtype)], -1)
