r"""The second look: what the slots leave of the data, and a better count.

The encoder counts from the data. Whether a slot is a component, and whether another is hidden beside a loud one, shows
after the fit: in the gain of each slot, and in the matched filters of the residual. A second encoder reads the latter,
with the tokens of the first and a map of where slots are; its heat map shows what is still missing. A token for the
whole signal and one for each slot then attend to each other, and the change of the logits is read from the first. The
slots are as many as the encoder counted: a function of the data, so that nothing of the true K leaks in training.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.network.architecture import FamilyConfig
from slotflow.network.family.encoder import Encoded
from slotflow.network.family.joint import Slots
from slotflow.network.family.slots import Finished
from slotflow.network.family.units import Units
from slotflow.network.zoom.recount import Change

__all__ = ["Recount", "SignalNumbers", "slot_map"]


class SignalNumbers(NamedTuple):
    """What is known of B signals before the second count."""

    first: Encoded
    """Of the data."""
    second: Encoded
    """Of the residual."""
    conditions: Tensor
    """(B, ·)."""


@torch.no_grad()
def slot_map(units: Units, slots: Slots, half_bins: Tensor) -> Tensor:
    """How loud slots are around each half-bin, (B, L, 1)."""
    energy = units.fine.basis(units.xi(slots.raw, slots.kind), slots.kind).abs().square().sum(-1)
    loud = torch.log1p(slots.c.abs() * energy.sqrt()) * slots.mask
    away = 0.5 * half_bins[:, None] - slots.raw[..., 0][:, None]  # (B, L, K)
    return (torch.exp(-2 * away.square()) * loud[:, None]).sum(-1, keepdim=True)


class Recount(Change):
    """Both encoders' pooled tokens, first logits and slots to better logits."""

    def __init__(self, config: FamilyConfig, conditions: int, k_max: int) -> None:
        inputs = 6 * config.width + conditions + 3 * (k_max + 1) + 1
        super().__init__(inputs, config.slot_width, config.slot_heads, k_max)

    def forward(self, signal: SignalNumbers, slots: Finished, mask: Tensor) -> Tensor:
        """Logits of K after the slots, (B, k_max + 1).

        Args:
            signal: What is known of the signals.
            slots: Those of the first count.
            mask: Which of them exist, (B, K), bool.
        """
        first, second = signal.first, signal.second
        k = nn.functional.one_hot(mask.sum(-1), self.k_max + 1).to(first.logits.dtype)
        log_q = first.logits.log_softmax(-1).clamp_min(-20) / 5
        told = [first.pooled, second.pooled, signal.conditions, log_q, second.logits, k]
        misfit = slots.misfit[:, None].to(k.dtype).asinh()
        return first.logits + self.change(torch.cat([*told, misfit], -1), slots.y, mask)
