"""The state that inference runs in: the network's mode, left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slotflow.network.model import SlotFlow

__all__ = ["evaluating"]


@contextmanager
def evaluating(model: SlotFlow) -> Iterator[None]:
    """Runs a block with the model ready for inference, and leaves its mode as it was."""
    was_training = model.training
    if was_training:  # a walk through all modules, which takes its time
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()
