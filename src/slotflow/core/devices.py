"""Devices: checking that one exists, and small tensors to a GPU without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_device", "upload"]


def check_device(device: str | torch.device | None) -> None:
    """Refuses a device that this machine does not have."""
    if device is None:
        return
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"expected a device of this machine such as cpu or cuda, received {str(device)!r} ({reason})."
        ) from error


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a CPU tensor to a device.

    A copy from ordinary memory makes the CPU wait until the GPU has finished all earlier work; a copy from
    page-locked memory is queued like any other operation.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
