"""Small tensors from the CPU to a GPU without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["upload"]


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a CPU tensor to a device.

    A copy from ordinary memory makes the CPU wait until the GPU has finished all earlier work; a copy from
    page-locked memory is queued like any other operation.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
