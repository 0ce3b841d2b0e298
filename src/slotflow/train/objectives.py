"""The objective that belongs to a network."""

from __future__ import annotations

from typing import Any

from slotflow.network.config import LossConfig
from slotflow.network.family.loss import FamilyLoss
from slotflow.network.family.model import FamilySlotFlow
from slotflow.network.model import SlotFlow
from slotflow.network.multiclass.loss import MulticlassLoss
from slotflow.network.multiclass.model import MulticlassSlotFlow
from slotflow.network.objective import Objective
from slotflow.network.paper.loss import PaperLoss
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.zoom.loss import ZoomLoss
from slotflow.network.zoom.model import ZoomSlotFlow

__all__ = ["build_objective"]


def build_objective(model: SlotFlow, config: LossConfig, low_precision: bool) -> Objective[Any]:
    """The network with its loss; low precision is bfloat16 in the encoder and in the coupling networks."""
    if isinstance(model, ZoomSlotFlow):
        return ZoomLoss(model, config, low_precision)
    if isinstance(model, FamilySlotFlow):
        return FamilyLoss(model, config, low_precision)
    if isinstance(model, MulticlassSlotFlow):
        return MulticlassLoss(model, config, low_precision)
    assert isinstance(model, PaperSlotFlow)
    return PaperLoss(model, config, low_precision)
