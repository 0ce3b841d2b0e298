r"""The linear system of a Gauss–Newton step, in units in which hertz and amplitudes never meet.

JᵀJ is scaled to a unit diagonal, D JᵀJ D with D = diag(JᵀJ)^{−½}, before it is factorized: a single tone on the long
stream gives the identity but for terms of order 1/N, and only overlap between components makes the system ill
conditioned. Unknowns that are held (absent components, or shapes in a linear fit) have the scale 0 and a row of the
identity, so that signals with different K share one batch.

Formulas are written once for NumPy arrays and torch tensors; the four functions of LAPACK that the two libraries call
by different names are at the end of the module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from slotflow.core import linear
from slotflow.core.arrays import Array, namespace
from slotflow.signal.waveforms import Waveform

__all__ = ["System", "factorize", "free_unknowns", "inverse", "positive_solver", "theta_covariance"]

SINGULAR = 1e-13
"""A scaled system whose smallest pivot falls below this is singular."""
SMALLEST_EIGENVALUE = 1e-10
"""Smallest eigenvalue of a scaled matrix that is inverted."""


class System(NamedTuple):
    """Factorized systems of B signals with d unknowns."""

    scale: Any
    """Of each unknown, (B, d); 0 for those that are held."""
    factor: Any
    """Lower Cholesky factor of the scaled matrix, (B, d, d), the identity where the system is singular."""
    regular: Any
    """Whether the system is regular, (B,), bool."""

    def solve(self, slope: Any) -> Any:
        """Δz, (B, d), for Jᵀ(x − m) of the same shape."""
        return _solve_factored(self.factor, slope * self.scale) * self.scale

    def inverse(self) -> Any:
        """Inverse of the matrix, (B, d, d); zeros for unknowns that are held."""
        return _inverse_factored(self.factor) * self.scale[..., None] * self.scale[..., None, :]

    def whiten(self, slope: Any) -> Any:
        """L⁻¹ D b, (B, d, …), for b of the same shape, L being the factor."""
        scale = self.scale.reshape(*self.scale.shape, *(1,) * (slope.ndim - 2))
        return _solve_lower(self.factor, slope * scale, False)

    def colour(self, white: Any) -> Any:
        """D L⁻ᵀ b, (B, d), for b of the same shape: a step of so many standard deviations."""
        return _solve_lower(self.factor, white, True) * self.scale


def free_unknowns(waveform: Waveform, mask: Any, linear: bool = False) -> Any:
    """Which coordinates z of K components are unknown, (B, K·Z), bool.

    Args:
        waveform: The form of a component.
        mask: Which components exist, (B, K), bool.
        linear: Whether shapes are held, so that amplitudes alone are unknown.
    """
    xp, size = namespace(mask), waveform.coordinates
    free = xp.broadcast_to(mask[..., None], (*mask.shape, size))
    if linear:
        held = len(waveform.shape)
        none = xp.zeros_like(free[..., :held])
        free = xp.concat([none, free[..., held:]], -1)
    return free.reshape(len(mask), mask.shape[1] * size)


def factorize(matrix: Any, free: Any, damping: Any = 0.0) -> System:
    """Scales matrices, (B, d, d), to unit diagonals, adds λ to them and factorizes.

    Args:
        matrix: JᵀJ.
        free: Which unknowns are not held, (B, d), bool.
        damping: λ, (B,) or one number.
    """
    xp, (batch, size, _) = namespace(matrix), matrix.shape
    every = slice(None, None, size + 1)  # the diagonal of a matrix in one row
    diagonal = matrix.reshape(batch, -1)[:, every]
    positive = (diagonal > 0) & (diagonal < math.inf)
    used = positive & free
    scale = used / xp.sqrt(xp.where(used, diagonal, 1.0))
    system = matrix * scale[..., None]
    system *= scale[..., None, :]
    if isinstance(system, Tensor) or not np.isfinite(system).all():
        system = xp.nan_to_num(system)
    pivot = system.reshape(batch, -1)[:, every]
    pivot += damping[:, None] if isinstance(damping, Tensor | np.ndarray) else damping
    pivot += ~used
    factor, sound = _cholesky(system)
    sound = sound & (xp.linalg.diagonal(factor) ** 2 > SINGULAR).all(-1)
    if isinstance(factor, Tensor):
        eye = torch.eye(size, device=factor.device, dtype=factor.dtype)
        factor = torch.where(sound[:, None, None], factor, eye)
    elif not sound.all():
        factor[~sound] = np.eye(size)
    return System(scale, factor, sound & (positive | ~free).all(-1))


def theta_covariance(waveform: Waveform, inverse: Any, z: Any, sigma: Any, reference: float) -> Any:
    """Covariance of θ of K components from that of z.

    Args:
        waveform: The form of a component.
        inverse: (JᵀJ)⁻¹, (B, K·Z, K·Z).
        z: Where it was taken, (B, K, Z).
        sigma: Noise level, (B,).
        reference: τ.

    Returns:
        (B, K·P, K·P).
    """
    xp, (batch, k, size) = namespace(inverse), z.shape
    xi, c = waveform.unpack(z)
    c = xp.where(xp.abs(c) > 0, c, 1.0)
    block = waveform.jacobian(xi, c, reference) * sigma[:, None, None, None]  # (B, K, P, Z)
    rows = block @ inverse.reshape(batch, k, size, k * size)  # (B, K, P, K·Z)
    rows = rows.reshape(batch, k * waveform.size, k, size).swapaxes(1, 2)  # (B, K, K·P, Z)
    covariance = (rows @ block.mT).swapaxes(1, 2)  # (B, K·P, K, P)
    covariance = covariance.reshape(batch, k * waveform.size, k * waveform.size)
    return 0.5 * (covariance + covariance.mT)


def inverse(matrix: Array) -> Array | None:
    """Inverse of one positive symmetric matrix through unit diagonals, same shape; None where it is not positive."""
    diagonal = np.diag(matrix)
    if len(matrix) == 0:
        return matrix
    if not (np.isfinite(matrix).all() and (diagonal > 0).all()):
        return None
    scale = 1 / np.sqrt(diagonal)
    unit = matrix * scale[:, None] * scale
    values, vectors = np.linalg.eigh(0.5 * (unit + unit.T))
    if values[0] < SMALLEST_EIGENVALUE:
        return None
    found: Array = (vectors / values) @ vectors.T * scale[:, None] * scale
    return found


def positive_solver(matrix: Any) -> tuple[Callable[[Any], Any], Any]:
    """What solves G x = b, (..., d), for positive matrices, (..., d, d), and ln det G, (...).

    torch factorizes once, with NaN for a matrix that is not positive. NumPy has no triangular solver for stacks of
    matrices, and solves anew for each b.
    """
    if not isinstance(matrix, Tensor):
        return lambda b: np.linalg.solve(matrix, b[..., None])[..., 0], np.linalg.slogdet(matrix)[1]
    factor, info = linear.cholesky_ex(matrix)
    factor = torch.where((info == 0)[..., None, None], factor, math.nan)
    return partial(_solve_factored, factor), 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


# ---------------------------------------------------------------------- LAPACK by the names of either library


def _cholesky(matrix: Any) -> tuple[Any, Any]:
    """Lower factors, (B, d, d), and whether each matrix is positive, (B,)."""
    if isinstance(matrix, Tensor):
        factor, info = linear.cholesky_ex(matrix)
        return factor, info == 0
    found = [lapack.dpotrf(one.T, lower=1, clean=1) for one in matrix]
    positive = np.array([one[1] == 0 for one in found])
    return found[0][0][None] if len(found) == 1 else np.array([one[0] for one in found]), positive


def _solve_factored(factor: Any, right: Any) -> Any:
    """Solves L Lᵀ x = b for (B, d, d) and (B, d)."""
    if isinstance(factor, Tensor):
        return linear.cholesky_solve(right[..., None], factor)[..., 0]
    return np.array([lapack.dpotrs(a, b, lower=1)[0] for a, b in zip(factor, right, strict=True)])


def _inverse_factored(factor: Any) -> Any:
    """(L Lᵀ)⁻¹ of (B, d, d)."""
    if isinstance(factor, Tensor):
        return linear.cholesky_inverse(factor)
    lower = np.array([np.tril(lapack.dpotri(one, lower=1)[0]) for one in factor])
    return lower + np.tril(lower, -1).mT


def _solve_lower(factor: Any, right: Any, transposed: bool) -> Any:
    """Solves L x = b or Lᵀ x = b for (B, d, d) and (B, d, …)."""
    if isinstance(factor, Tensor):
        columns = right if right.ndim == 3 else right[..., None]
        left = factor.mT if transposed else factor
        solved = linear.solve_triangular(left, columns, upper=transposed)
        return solved if right.ndim == 3 else solved[..., 0]
    pairs = zip(factor, right, strict=True)
    return np.array([lapack.dtrtrs(a, b, lower=1, trans=int(transposed))[0] for a, b in pairs])
