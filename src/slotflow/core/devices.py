"""Devices: checking that one exists, tensors to a GPU and back, and work that its memory may be too small for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["as_tensor", "check_device", "download", "in_halves", "upload", "upload_rows"]

Found = TypeVar("Found")
STAGE_BYTES = 2**25
"""Page-locked memory that a large tensor is copied through at a time."""


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


def as_tensor(x: Tensor | NDArray[Any]) -> Tensor:
    """A tensor, or an array as one; what torch cannot share (strides below 0, read only) is copied."""
    if isinstance(x, Tensor):
        return x
    return torch.from_numpy(np.require(x, requirements=["C", "W"]))


def upload_rows(tensor: Tensor, device: torch.device) -> Tensor:
    """Copies a large CPU tensor to a device, through a little page-locked memory, which takes long to get.

    Where the device's memory is too small, the tensor stays where it is.
    """
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor
    try:
        found = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    except torch.OutOfMemoryError:
        return tensor
    for rows in _pieces(tensor):
        found[rows].copy_(tensor[rows].pin_memory(), non_blocking=True)
    return found


def download(tensor: Tensor, out: Tensor) -> None:
    """Copies a tensor into one of the same shape on the CPU.

    A GPU writes to page-locked memory many times quicker than to ordinary memory that was never touched; from there
    all threads of the CPU copy, a piece at a time.
    """
    if tensor.device.type != "cuda":
        out.copy_(tensor)
        return
    if not tensor.numel():
        return
    pieces = _pieces(tensor)
    shape = pieces[0].stop, *tensor.shape[1:]
    locked = torch.empty(shape, dtype=tensor.dtype, pin_memory=True)
    for rows in pieces:
        out[rows].copy_(locked[: rows.stop - rows.start].copy_(tensor[rows]))


def _pieces(tensor: Tensor) -> list[slice]:
    """Rows of a tensor in pieces of `STAGE_BYTES`."""
    row = max(tensor.element_size() * math.prod(tensor.shape[1:]), 1)
    size, count = max(STAGE_BYTES // row, 1), len(tensor)
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def in_halves(
    work: Callable[[NDArray[Any]], Found], items: NDArray[Any]
) -> Iterator[tuple[NDArray[Any], Found]]:
    """Works on all items at once, or on halves of them, and halves of these, where the device's memory is too small.

    Args:
        work: What to do with some items.
        items: At least one item, (n,).

    Yields:
        Some of the items, in their order, and what came of the work on them.
    """
    try:
        found = work(items)
    except torch.OutOfMemoryError:
        if len(items) == 1:
            raise
        found = None
    if found is not None:
        yield items, found
        return
    torch.cuda.empty_cache()
    for half in np.array_split(items, 2):
        yield from in_halves(work, half)
