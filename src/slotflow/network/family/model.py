"""The network for several classes as its user sees it (preset `family`)."""

from __future__ import annotations

from slotflow.network.config import ModelConfig
from slotflow.network.family.network import FamilyParts
from slotflow.network.model import SlotFlow

__all__ = ["FamilySlotFlow"]


class FamilySlotFlow(SlotFlow):
    """Mixtures of tones, chirps and damped tones under any prior within the bounds of its training.

    Args:
        config: What to build; its `family` part must be there.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.parts = FamilyParts(config)
