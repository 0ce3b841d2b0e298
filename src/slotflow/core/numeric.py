"""Elementary functions for inner loops, where starting an operation costs as much as the operation.

Sines of long arrays are several times faster in torch than in NumPy. SciPy's general functions spend more time on
checks than a small system takes to solve.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from slotflow.core.arrays import AnyArray, Array

__all__ = ["Array", "cos_sin", "cosine", "log_sum_exp", "phasor", "sine", "solve_lower"]

LONG_ARRAY = 256
"""Elements from which on torch's sines of a NumPy array are faster than NumPy's."""


def sine(x: AnyArray) -> AnyArray:
    """Sine of an array, same shape."""
    if isinstance(x, Tensor):
        return x.sin()
    if x.size < LONG_ARRAY:
        short: AnyArray = np.sin(x)
        return short
    result: AnyArray = torch.from_numpy(x).sin().numpy()
    return result


def cosine(x: AnyArray) -> AnyArray:
    """Cosine of an array, same shape."""
    if isinstance(x, Tensor):
        return x.cos()
    if x.size < LONG_ARRAY:
        short: AnyArray = np.cos(x)
        return short
    result: AnyArray = torch.from_numpy(x).cos().numpy()
    return result


def phasor(turns: AnyArray) -> AnyArray:
    """e^{2πi·turns} of an array, same shape; whole turns are taken off first, exactly."""
    if isinstance(turns, Tensor):
        angle = 2 * math.pi * (turns - turns.floor())
        return torch.complex(angle.cos(), angle.sin())
    whole = 2 * math.pi * (turns - np.floor(turns))
    result = np.empty(turns.shape, dtype=np.complex128)
    if turns.size < LONG_ARRAY:
        np.cos(whole, out=result.real)
        np.sin(whole, out=result.imag)
        return result
    long = torch.from_numpy(whole)
    result.real, result.imag = long.cos().numpy(), long.sin().numpy()
    return result


def cos_sin(angle: AnyArray) -> AnyArray:
    """Cosine and sine of an array, (2, *shape)."""
    if isinstance(angle, Tensor):
        return torch.stack([angle.cos(), angle.sin()])
    result = np.empty((2, *angle.shape))
    np.cos(angle, out=result[0])
    np.sin(angle, out=result[1])
    return result


def log_sum_exp(x: Array, axis: int | None = None) -> Array:
    """Logarithm of the sum of exponentials along an axis, or of all values if None; −inf where all values are −inf."""
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Array = np.log(np.exp(x - top).sum(axis=axis))
    return total + (top.reshape(()) if axis is None else top.squeeze(axis))


def solve_lower(factor: Array, right: Array, transposed: bool = False) -> Array:
    """Solves L x = b, or Lᵀ x = b, for a regular lower triangle L, (d, d), and b, (d, n); same shape."""
    solution: Array = lapack.dtrtrs(factor, right, lower=1, trans=int(transposed))[0]
    return solution
