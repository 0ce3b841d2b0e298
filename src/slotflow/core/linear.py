"""torch's linear algebra of many matrices, one call at a time on a GPU.

Beside a GPU several threads work on signals (`threads.side_by_side`). Batched decompositions are not safe there: with
two threads in them the solutions of thousands of systems came out wrong now and then, without an error, while
everything before them was right. What the calls launch runs one after the other on the device in any case, so a lock
around them costs next to nothing. The functions are those of torch by their own names.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = [
    "cholesky_ex",
    "cholesky_inverse",
    "cholesky_solve",
    "eigvalsh",
    "inv",
    "inv_ex",
    "slogdet",
    "solve",
    "solve_triangular",
]

_TURN = Lock()
Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def _in_turn(function: Callable[Arguments, Found]) -> Callable[Arguments, Found]:
    """The function, which waits for its turn where it must."""

    @wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Found:
        with _TURN if _waits(arguments[0]) else nullcontext():
            return function(*arguments, **options)

    return call


def _waits(first: object) -> bool:
    """Whether a call whose first argument this is must wait for its turn."""
    return isinstance(first, Tensor) and first.is_cuda


cholesky_ex = _in_turn(torch.linalg.cholesky_ex)
cholesky_inverse = _in_turn(torch.cholesky_inverse)
cholesky_solve = _in_turn(torch.cholesky_solve)
eigvalsh = _in_turn(torch.linalg.eigvalsh)
inv = _in_turn(torch.linalg.inv)
inv_ex = _in_turn(torch.linalg.inv_ex)
slogdet = _in_turn(torch.linalg.slogdet)
solve = _in_turn(torch.linalg.solve)
solve_triangular = _in_turn(torch.linalg.solve_triangular)
