r"""The joint Cramér–Rao bound: the smallest standard deviation that an unbiased estimate of (A, φ, f) can have.

For white noise of level σ r_s in stream s the Fisher matrix of all parameters of all tones is

.. math:: F_{ab} = \sum_s \frac{1}{σ^2 r_s^2} \sum_t \frac{∂m}{∂θ_a} \frac{∂m}{∂θ_b} ,

m = Σ_k A_k cos(2πf_k t + φ_k). σ itself does not correlate with Θ, so the bound is the same whether it is known. With
u = t − t_s, t_s the stream's mid-time, and e = e^{i(φ + 2πf t_s)}, each derivative is Re((α + β u) e^{2πifu}):

======  ====================  ===============
∂/∂A    α = e                 β = 0
∂/∂φ    α = i A e             β = 0
∂/∂f    α = 2πi A e t_s       β = 2πi A e
======  ====================  ===============

and the sums over t are the Gram matrices of `exact/kernels.py`: O(K²) however long the streams are. For one tone on N
samples from t = 0 (and f away from 0 and Nyquist) the inverse is the textbook's: with η = A²/2σ²,

.. math:: \mathrm{var} A ≈ \frac{2σ^2}{N}, \quad \mathrm{var} φ ≈ \frac{2 (2N - 1)}{η N (N + 1)}, \quad
          \mathrm{var} f ≈ \frac{12}{(2π\,dt)^2 η N (N^2 - 1)} .

Phase and frequency correlate (φ is the phase at t = 0), so the system is scaled to a unit diagonal before inversion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from slotflow.data.sampling import Grid
from slotflow.signal.kernels import gram, mid_time
from slotflow.signal.likelihood import design

__all__ = ["crb_covariance", "crb_std", "fisher_matrix"]


def fisher_matrix(
    theta: Tensor,
    sigma: Tensor,
    grids: Sequence[Grid | None],
    mask: Tensor | None = None,
    ratios: Sequence[float] | None = None,
) -> Tensor:
    """Fisher matrix of (A, φ, f) of all tones on all streams.

    Args:
        theta: True (A, φ, f), shape (B, K, 3).
        sigma: Noise level, shape (B,), above 0.
        grids: Sampling of the streams; a None among them is a stream that is absent.
        mask: Which tones exist, shape (B, K), bool; None: all.
        ratios: Noise level of each stream in units of σ; all 1 if None.

    Returns:
        Shape (B, 3K, 3K), float64, A, φ, f of the first tone first; zeros for tones outside the mask.
    """
    present = [grid for grid in grids if grid is not None]
    ratios = [1.0] * len(present) if ratios is None else ratios
    if not len(present) == len(ratios) >= 1:
        raise ValueError(
            f"expected one noise ratio for each of at least one grid, received {len(ratios)} ratios "
            f"and {len(present)} grids."
        )
    if theta.ndim != 3 or theta.shape[-1] != 3:
        raise ValueError(f"expected theta of shape (B, K, 3), received {tuple(theta.shape)}.")
    amplitude, phase, frequency = theta.double().unbind(-1)
    exists = torch.ones_like(amplitude, dtype=torch.bool) if mask is None else mask
    amplitude, phase, frequency = (
        torch.where(exists, value, 0.0) for value in (amplitude, phase, frequency)
    )
    zero = torch.zeros_like(amplitude)
    total = torch.zeros((), dtype=torch.float64, device=theta.device)
    for grid, ratio in zip(present, ratios, strict=True):
        t_s = mid_time(grid)
        angle = phase + 2 * math.pi * torch.remainder(frequency * t_s, 1.0)
        e = torch.polar(exists.double(), angle)
        turning = 1j * amplitude * e
        alpha = torch.stack([e, turning, 2 * math.pi * t_s * turning], -1)  # (B, K, 3)
        beta = torch.stack([torch.complex(zero, zero)] * 2 + [2 * math.pi * turning], -1)
        even, odd = gram(frequency, grid)
        j_even, j_odd = design(alpha, beta)
        total = total + (j_even @ even @ j_even.mT + j_odd @ odd @ j_odd.mT) / ratio**2
    return total / (sigma.double() ** 2)[:, None, None]


def crb_covariance(
    theta: Tensor,
    sigma: Tensor,
    grids: Sequence[Grid | None],
    mask: Tensor | None = None,
    ratios: Sequence[float] | None = None,
) -> Tensor:
    """Inverse of `fisher_matrix`, same arguments, shape (B, 3K, 3K); zeros for tones outside the mask.

    A singular Fisher matrix (two tones in one place, A = 0) has no bound: its entries are infinite.
    """
    fisher = fisher_matrix(theta, sigma, grids, mask, ratios)
    diagonal = fisher.diagonal(dim1=-2, dim2=-1)
    exists = torch.ones_like(theta[..., 0], dtype=torch.bool) if mask is None else mask
    free = exists.repeat_interleave(3, -1)  # (B, 3K)
    usable = free & (diagonal > 0)
    scale = torch.where(usable, diagonal, 1.0).rsqrt() * usable
    scaled = fisher * scale[:, :, None] * scale[:, None, :] + torch.diag_embed((~usable).double())
    factor, info = torch.linalg.cholesky_ex(scaled)
    regular = (info == 0) & (usable | ~free).all(-1)
    eye = torch.eye(fisher.shape[-1], device=fisher.device, dtype=fisher.dtype)
    inverse = torch.cholesky_inverse(torch.where(regular[:, None, None], factor, eye))
    inverse = inverse * scale[:, :, None] * scale[:, None, :]
    both = free[:, :, None] & free[:, None, :]
    return torch.where(regular[:, None, None] | ~both, inverse, math.inf)


def crb_std(
    theta: Tensor,
    sigma: Tensor,
    grids: Sequence[Grid | None],
    mask: Tensor | None = None,
    ratios: Sequence[float] | None = None,
) -> Tensor:
    """Smallest standard deviations of (A, φ, f), shape (B, K, 3), 0 outside the mask; arguments of `fisher_matrix`."""
    covariance = crb_covariance(theta, sigma, grids, mask, ratios)
    return covariance.diagonal(dim1=-2, dim2=-1).sqrt().reshape(theta.shape)
