"""Elementary functions of NumPy arrays for inner loops, where starting an operation costs as much as the operation.

Sines of long arrays are several times faster in torch than in NumPy. SciPy's general functions spend more time on
checks than a small system takes to solve.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.linalg import lapack

from slotflow.core.arrays import Array, Complex

__all__ = ["Array", "log_sum_exp", "phasor", "sine", "solve_lower"]


def sine(x: Array) -> Array:
    """Sine of an array, same shape."""
    result: Array = torch.from_numpy(x).sin().numpy()
    return result


def phasor(turns: Array) -> Complex:
    """e^{2πi·turns} of an array, same shape; whole turns are taken off first, exactly."""
    angle = torch.from_numpy(2 * math.pi * (turns - np.floor(turns)))
    result: Complex = np.empty(turns.shape, dtype=np.complex128)
    result.real, result.imag = angle.cos().numpy(), angle.sin().numpy()
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
