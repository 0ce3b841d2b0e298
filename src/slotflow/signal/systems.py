r"""The 3K × 3K system of a Gauss–Newton step, in units in which hertz and amplitudes never meet.

JᵀJ is scaled to a unit diagonal, D JᵀJ D with D = diag(JᵀJ)^{−½}, before it is factorized: a single tone on the long
stream gives the identity but for terms of order 1/N, and only overlap between tones makes the system ill conditioned.
Unknowns that are held (absent tones, or frequencies in a linear fit) have the scale 0 and a row of the identity, so
that signals with different K share one batch.

The covariance σ² (JᵀJ)⁻¹ of z = (f, Re c, Im c) is carried to θ = (A, φ, f) by A = |c|, φ = arg c − 2πfτ:

.. math:: dA = (\Re c\, d\Re c + \Im c\, d\Im c)/A, \quad dφ = (\Re c\, d\Im c - \Im c\, d\Re c)/A^2 - 2πτ\, df .
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from torch import Tensor

__all__ = ["factorize", "factorize_one", "inverse_one", "solve", "solve_one", "theta_covariance"]

SINGULAR = 1e-13
"""A scaled system whose smallest pivot falls below this is singular."""
SMALLEST = 1e-10
"""Smallest eigenvalue of a scaled matrix that is inverted."""


def factorize(
    matrix: Tensor, mask: Tensor, damping: Tensor, linear: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Scales JᵀJ, shape (B, 3K, 3K), to a unit diagonal, adds λ, shape (B,), and factorizes.

    Returns:
        The scale of each unknown, shape (B, 3K), 0 for those that are held (absent tones; the frequencies if linear);
        the lower Cholesky factor, shape (B, 3K, 3K), the identity where the system is singular; whether it is regular,
        shape (B,), bool.
    """
    if len(matrix) == 1 and matrix.shape[1] > 0 and _on_cpu(matrix, mask, damping):
        given = np.repeat(mask[0].numpy(), 3)
        if linear:
            given[::3] = False
        one = factorize_one(matrix[0].detach().numpy(), float(damping), given)
        return (
            torch.from_numpy(one[0])[None],
            torch.from_numpy(one[1])[None],
            torch.tensor([one[2]]),
        )
    free = mask[..., None].expand(-1, -1, 3)
    if linear:
        free = free & torch.tensor([False, True, True], device=mask.device)
    free = free.flatten(1)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    positive = (diagonal > 0) & diagonal.isfinite()
    scale = torch.where(free & positive, diagonal, 1.0).rsqrt() * (free & positive)
    eye = torch.eye(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
    held = (~(free & positive)).double()
    system = matrix.nan_to_num() * scale[:, :, None] * scale[:, None, :]
    system = system + eye * (held + damping[:, None])[:, None, :]
    factor, info = torch.linalg.cholesky_ex(system)
    pivots = factor.diagonal(dim1=-2, dim2=-1) ** 2
    sound = (info == 0) & (pivots > SINGULAR).all(-1)
    factor = torch.where(sound[:, None, None], factor, eye)
    return scale, factor, sound & (positive | ~free).all(-1)


def factorize_one(
    matrix: NDArray[np.float64], damping: float, free: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """`factorize` of one signal in NumPy, which is faster.

    Args:
        matrix: JᵀJ, shape (3K, 3K), K > 0.
        damping: λ.
        free: Which unknowns are not held, shape (3K,).

    Returns:
        The scale, shape (3K,), the lower Cholesky factor, shape (3K, 3K), and whether the system is regular.
    """
    diagonal = matrix.diagonal()
    positive = (diagonal > 0) & np.isfinite(diagonal)
    used = positive & free
    scale = used / np.sqrt(np.where(used, diagonal, 1.0))
    system = matrix * scale[:, None] * scale
    if not np.isfinite(system).all():
        system = np.nan_to_num(matrix) * scale[:, None] * scale
    system.ravel()[:: len(system) + 1] += damping + ~used
    factor, info = lapack.dpotrf(system.T, lower=1, clean=1)
    if info != 0 or (factor.diagonal() ** 2).min() <= SINGULAR:
        return scale, np.eye(len(scale)), False
    return scale, factor, bool((positive | ~free).all())


def solve_one(
    scale: NDArray[np.float64], factor: NDArray[np.float64], slope: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`solve` of one signal in NumPy: Δz, shape (3K,)."""
    step: NDArray[np.float64] = lapack.dpotrs(factor, slope * scale, lower=1)[0]
    return step * scale


def inverse_one(matrix: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Inverse of a positive symmetric matrix through unit diagonals, same shape; None where it is not positive."""
    diagonal = np.diag(matrix)
    if len(matrix) == 0:
        return matrix
    if not (np.isfinite(matrix).all() and (diagonal > 0).all()):
        return None
    scale = 1 / np.sqrt(diagonal)
    unit = matrix * scale[:, None] * scale
    values, vectors = np.linalg.eigh(0.5 * (unit + unit.T))
    if values[0] < SMALLEST:
        return None
    inverse: NDArray[np.float64] = (vectors / values) @ vectors.T * scale[:, None] * scale
    return inverse


def solve(scale: Tensor, factor: Tensor, slope: Tensor) -> Tensor:
    """Δz, shape (B, 3K), for Jᵀ(x − m) of the same shape."""
    scaled = torch.cholesky_solve((slope * scale)[..., None], factor)
    return scaled.squeeze(-1) * scale


def theta_covariance(
    scale: Tensor, factor: Tensor, c: Tensor, mask: Tensor, sigma: Tensor, reference: float
) -> Tensor:
    """Covariance of (A, φ, f), shape (B, 3K, 3K), from the factorized JᵀJ."""
    inverse = torch.cholesky_inverse(factor) * scale[:, :, None] * scale[:, None, :]
    amplitude = torch.where(c.abs() > 0, c.abs(), 1.0)
    a, b = c.real / amplitude, c.imag / amplitude
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    rows = [
        torch.stack([zero, a, b], -1),
        torch.stack([-2 * math.pi * reference * one, -b / amplitude, a / amplitude], -1),
        torch.stack([one, zero, zero], -1),
    ]
    # (B, K, 3, 3): d(A, φ, f)/d(f, Re c, Im c)
    block = torch.stack(rows, -2) * (mask * sigma.double()[:, None])[..., None, None]
    batch, k = mask.shape
    covariance = (block @ inverse.view(batch, k, 3, 3 * k)).view(batch, 3 * k, k, 3)
    covariance = (covariance.transpose(1, 2) @ block.mT).transpose(1, 2)  # (B, 3K, K, 3)
    covariance = covariance.reshape(batch, 3 * k, 3 * k)
    return 0.5 * (covariance + covariance.mT)


def _on_cpu(*tensors: Tensor) -> bool:
    """Whether NumPy may take these over: on the CPU, no graph, no compiler."""
    graph = torch.is_grad_enabled() and any(value.requires_grad for value in tensors)
    return (
        not torch.compiler.is_compiling()
        and not graph
        and all(value.device.type == "cpu" for value in tensors)
    )
