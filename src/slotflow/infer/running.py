"""The state that inference runs in: the network's mode and the number of CPU threads, left as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from slotflow.network.model import SlotFlow

__all__ = ["evaluating", "threads"]


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


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Runs a block with n CPU threads."""
    before = torch.get_num_threads()
    if n is not None:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
