r"""The second count: what the slots found out corrects q(K | x).

The encoder counts from the long stream's spectrum. Whether a peak is one tone or two, and whether the short stream
agrees, shows only after the slots have been fitted to all streams together. A token for the whole signal and one for
each slot attend to each other, and the change of the logits is read from the first. The slots are K̂_1 in number,
the encoder's own guess: a function of the data, so that nothing of the true K leaks in training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slotflow.network.config import ZoomConfig
from slotflow.network.zoom.blocks import Block
from slotflow.network.zoom.slots import SlotEstimates
from slotflow.network.zoom.spectrum import CONDITIONS

__all__ = ["Change", "Recount"]


class Change(nn.Module):
    """What is known of a signal, and its slots, to a change of the logits of K.

    Args:
        inputs: Numbers for the whole signal.
        d: Width of the tokens.
        heads: Of their attention.
        k_max: Largest K.
    """

    def __init__(self, inputs: int, d: int, heads: int, k_max: int) -> None:
        super().__init__()
        self.k_max = k_max
        self.signal = nn.Sequential(nn.Linear(inputs, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.blocks = nn.ModuleList(Block(d, heads, few=True) for _ in range(2))
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, k_max + 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def change(self, told: Tensor, slots: Tensor, mask: Tensor) -> Tensor:
        """The change, (B, k_max + 1), of inputs (B, ·), slots (B, K, d) and which of these exist, (B, K)."""
        h = torch.cat([self.signal(told)[:, None], slots], 1)  # (B, 1 + K, d)
        attend = nn.functional.pad(mask, (1, 0), value=True)[:, None, None]
        for block in self.blocks:
            h = block(h, attend)
        change: Tensor = self.out(self.norm(h[:, 0]))
        return change


class Recount(Change):
    """Pooled tokens, first logits and slots to better logits."""

    def __init__(self, config: ZoomConfig, k_max: int) -> None:
        inputs = 3 * config.width + CONDITIONS + 2 * (k_max + 1) + 1
        super().__init__(inputs, config.slot_width, config.slot_heads, k_max)

    def forward(
        self, pooled: Tensor, conditions: Tensor, logits: Tensor, slots: SlotEstimates
    ) -> Tensor:
        """Logits of K after the slots.

        Args:
            pooled: Of the encoder, (B, 3 width).
            conditions: (B, CONDITIONS).
            logits: Of the encoder, (B, k_max + 1).
            slots: Those of K̂_1.
        """
        k = nn.functional.one_hot(slots.mask.sum(-1), self.k_max + 1)
        log_q = logits.log_softmax(-1).clamp_min(-20) / 5
        told = torch.cat([pooled, conditions, log_q, k.to(logits.dtype), slots.misfit[:, None]], -1)
        return logits + self.change(told, slots.y, slots.mask)
