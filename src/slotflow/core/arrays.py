"""One formula for NumPy arrays and torch tensors.

NumPy starts a small operation several times sooner than torch; torch takes batches, graphs and GPUs. A formula that is
written with what both libraries call by the same name (`sin`, `where`, `stack`, `concat`, …, axes as positions) runs in
either: `namespace(x).sin(x)`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["AnyArray", "Array", "Complex", "argsort", "namespace", "take_along"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
AnyArray = TypeVar("AnyArray", NDArray[Any], Tensor)


def namespace(x: object) -> Any:
    """The library that an array belongs to: `torch` for a tensor, `numpy` for anything else."""
    return torch if isinstance(x, Tensor) else np


def argsort(x: AnyArray) -> AnyArray:
    """Indices that sort the last axis, equal values in the order in which they came; same shape."""
    if isinstance(x, Tensor):
        return torch.argsort(x, dim=-1, stable=True)
    return np.argsort(x, axis=-1, kind="stable")


def take_along(x: AnyArray, index: AnyArray, axis: int) -> AnyArray:
    """Entries of x along an axis by an index that broadcasts against it."""
    if isinstance(x, Tensor):
        assert isinstance(index, Tensor)
        return torch.take_along_dim(x, index, axis)
    return np.take_along_axis(x, np.asarray(index), axis)
