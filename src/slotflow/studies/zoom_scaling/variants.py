"""Sizes of `zoom`, and `zoom` with one part switched off: what the study `zoom_scaling` trains.

Three sizes have about 0.5, 2 and 8 million parameters. They differ in their widths alone: blocks, rounds and the flow
are those of the preset, which has 5.4 million. The parts are switched off in the network of 2 million:

- without joint steps, the slots stay where their last round has put them. The bound in whose units the flow speaks is
  still computed there, and so is the residual; the last look is still told how far a step would go
  (`network/zoom/numbers`). The network lacks the move and nothing else, and its flow may learn to make up for it;
- without the second count, q(K | x) is the encoder's own.

Signals, loss and precision are those of the preset. The recipe is one for short trainings: smaller batches, hence more
steps, a learning rate that rises within few of them, and orthogonal steps for matrices (`slotflow.train.muon`). In a
trial of 150 steps of 32 signals with the network of 0.5 million parameters these ended at a loss of 4.2, AdamW at 5.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow

__all__ = ["BASE", "PARTS", "VARIANTS", "Variant", "variant_config", "with_switches"]


@dataclass(frozen=True)
class Variant:
    """One network to train."""

    sizes: Mapping[str, Any]
    """Fields of `ZoomConfig`: widths and heads."""
    switches: Mapping[str, Any]
    """Fields of `ZoomConfig`: parts that are off."""


HALF, TWO, EIGHT = (
    {"stem": 24, "width": 64, "heads": 4, "slot_width": 24},
    {"stem": 64, "width": 120, "heads": 5, "slot_width": 72},
    {"stem": 120, "width": 240, "heads": 6, "slot_width": 152},
)
TINY: dict[str, Any] = {
    "stem": 8,
    "width": 16,
    "heads": 2,
    "slot_width": 8,
    "layers": 1,
    "slot_layers": 1,
}
"""What a quick look trains instead of each of them."""
PARTS: dict[str, dict[str, Any]] = {
    "without joint steps": {"joint": False},
    "without the second count": {"recount": False},
}
"""Parts on the likelihood that are switched off."""
BASE = "2 M"
"""The variant that the others are compared with."""
VARIANTS = {
    BASE: Variant(TWO, {}),
    **{f"{BASE}, {words}": Variant(TWO, switches) for words, switches in PARTS.items()},
    "0.5 M": Variant(HALF, {}),
    "8 M": Variant(EIGHT, {}),
}
"""What is trained, by name, in the order of the rounds."""
QUICK_RECIPE: dict[str, Any] = {
    "learning_rate": 1e-3,
    "warmup_steps": 1,
    "bfloat16": False,
    "compile": False,
}
SHORT_RECIPE: dict[str, Any] = {
    "optimizer": "muon",
    "learning_rate": 8e-4,
    "matrix_learning_rate": 0.02,
    "warmup_steps": 40,
    "ema": 0.99,
}
"""What differs from the preset's training, besides the size of the batches."""


def variant_config(name: str, batch: int, quick: bool, device: torch.device) -> Config:
    """The config of a variant.

    Args:
        name: One of `VARIANTS`.
        batch: Signals of a step.
        quick: Whether a tiny network stands in for it.
        device: Where it is trained; only a GPU has enough of compiled code to pay for the compiler.
    """
    variant, config = VARIANTS[name], Config.from_preset("zoom")
    assert config.model.zoom is not None
    sizes = replace(config.model.zoom, **(TINY if quick else variant.sizes), **variant.switches)
    own = QUICK_RECIPE if quick else {**SHORT_RECIPE, "compile": device.type == "cuda"}
    return replace(
        config,
        model=replace(config.model, zoom=sizes),
        train=replace(config.train, batch_size=batch, schedule="constant", **own),
    )


def with_switches(network: SlotFlow, switches: Mapping[str, Any]) -> ZoomSlotFlow:
    """A copy of a trained network with parts of it switched off, though it was trained with them."""
    assert network.config.zoom is not None
    sizes = replace(network.config.zoom, **switches)
    copy = SlotFlow(replace(network.config, zoom=sizes)).to(network.device)
    copy.load_state_dict(network.state_dict())
    assert isinstance(copy, ZoomSlotFlow)
    return copy.eval()
