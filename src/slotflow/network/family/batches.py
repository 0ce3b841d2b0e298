"""Nested named tuples of tensors whose first axis is that of the signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

__all__ = ["each", "taken"]


def each(work: Callable[..., Tensor], *values: Any) -> Any:
    """A function of each tensor of one or several nested tuples of the same form, as such a tuple."""
    first = values[0]
    if isinstance(first, Tensor):
        return work(*values)
    return type(first)(*(each(work, *parts) for parts in zip(*values, strict=True)))


def taken(value: Any, rows: Tensor | slice) -> Any:
    """The same of some of the signals, (S,), int64, or a slice; tensors of length 1 are common to all and stay.

    A slice copies nothing, which of many small tensors on a GPU saves most of the time.
    """
    return each(lambda tensor: tensor if len(tensor) == 1 else tensor[rows], value)
