"""What the objectives of all networks share: a network with its weights of the loss, and the sum of weighted terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from slotflow.network.config import LossConfig
from slotflow.network.model import SlotFlow
from slotflow.signal.simulation import Simulation

__all__ = ["Objective", "weighted_sum"]

Network = TypeVar("Network", bound=SlotFlow)


@runtime_checkable
class PartlyCompiled(Protocol):
    """A module of which something has to be excluded before it is compiled."""

    def before_compiling(self) -> None:
        """Excludes it."""


def weighted_sum(terms: Mapping[str, Tensor], config: LossConfig) -> Tensor:
    """The loss: named terms, scalars, times the weights that the config gives them; an unknown name is an error."""
    return torch.stack([config.weight(name) * term for name, term in terms.items()]).sum()


class Objective(nn.Module, Generic[Network]):
    """A model with its objective: a batch of signals in, named loss terms out.

    Args:
        model: The network.
        config: Weights of the terms.
        low_precision: bfloat16 where it costs nothing: in the encoder, and for costs that are only compared.
    """

    ordered = False
    """Whether slots take components in the order of frequency in training (preset paper); the loop says when."""

    def __init__(self, model: Network, config: LossConfig, low_precision: bool = False) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.low_precision = low_precision
        self.encode = self.encoding()  # compile_parts puts a compiled version here

    def encoding(self) -> Callable[..., Any]:
        """The function of the model that takes data to features."""
        raise NotImplementedError

    def compile_parts(self) -> None:
        """Compiles the encoding; zuko's splines, and heads whose rows vary, stay as they are."""
        for part in self.model.modules():
            if isinstance(part, PartlyCompiled):
                part.before_compiling()
        self.encode = torch.compile(self.encoding())

    def forward(self, batch: Simulation, predicted_share: float = 0.0) -> dict[str, Tensor]:
        """Computes "loss", its terms and facts such as "k_accuracy", each a scalar.

        Args:
            batch: Simulated signals, on the model's device.
            predicted_share: Share of signals whose slots follow the prediction rather than the truth (curriculum).
        """
        raise NotImplementedError
