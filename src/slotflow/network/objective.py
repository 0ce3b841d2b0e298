"""The one place where loss terms are weighted and added."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from slotflow.network.config import LossConfig

__all__ = ["weighted_sum"]


def weighted_sum(terms: Mapping[str, Tensor], config: LossConfig) -> Tensor:
    """The loss: named terms, scalars, times the weights that the config gives them; an unknown name is an error."""
    return torch.stack([config.weight(name) * term for name, term in terms.items()]).sum()
