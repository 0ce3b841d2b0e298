r"""The joint Cramér–Rao bound: the smallest standard deviation that an unbiased estimate of a component can have.

For white noise of level σ r_s in channel s the Fisher matrix of all parameters of all components is

.. math:: F_{ab} = \sum_s \frac{1}{σ^2 r_s^2} \sum_t \frac{∂m}{∂θ_a} \frac{∂m}{∂θ_b} .

σ itself does not correlate with Θ, so the bound is the same whether σ is known or not. F is JᵀJ/σ² of the likelihood's
coordinates z (`likelihood/`), carried to θ by the waveform's derivatives ∂z/∂θ: the cost is O(K²), however long
the channels are. For one tone on N samples from t = 0 (and f away from 0 and Nyquist) the inverse is the one of the
textbooks: with η = A²/2σ²,

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
from slotflow.signal.likelihood import Statistics
from slotflow.signal.systems import factorize
from slotflow.signal.waveforms import TONE

__all__ = ["crb_covariance", "crb_std", "fisher_matrix"]


def fisher_matrix(
    theta: Tensor,
    sigma: Tensor,
    grids: Sequence[Grid | None],
    mask: Tensor | None = None,
    ratios: Sequence[float] | None = None,
) -> Tensor:
    """Fisher matrix of all parameters of all components on all channels.

    Args:
        theta: True components, (B, K, P).
        sigma: Noise level, (B,), above 0.
        grids: Sampling of the channels; a None among them is a channel that is absent.
        mask: Which components exist, (B, K), bool; None: all.
        ratios: Noise level of each channel in units of σ; all 1 if None.

    Returns:
        (B, K·P, K·P), float64, the parameters of the first component first; zeros for components outside the mask.
    """
    waveform, present = TONE, [grid for grid in grids if grid is not None]
    ratios = [1.0] * len(present) if ratios is None else ratios
    if not len(present) == len(ratios) >= 1:
        raise ValueError(
            f"expected one noise ratio for each of at least one grid, received {len(ratios)} ratios "
            f"and {len(present)} grids."
        )
    if theta.ndim != 3 or theta.shape[-1] != waveform.size:
        raise ValueError(
            f"expected theta of shape (B, K, {waveform.size}), received {tuple(theta.shape)}."
        )
    exists = theta.new_ones(theta.shape[:-1], dtype=torch.bool) if mask is None else mask
    theta = torch.where(exists[..., None], theta.double(), 0.0)
    batch, k = exists.shape
    statistics = Statistics.without_data(batch, present, ratios, theta.device)
    xi, c = waveform.split(theta, statistics.reference)
    matrix = statistics.products(xi).equations(c).matrix
    change = waveform.inverse_jacobian(theta, statistics.reference)  # (B, K, Z, P)
    change = change * (exists / sigma.double()[:, None])[..., None, None]
    size, coordinates = k * waveform.size, waveform.coordinates
    rows = change.mT @ matrix.reshape(batch, k, coordinates, matrix.shape[-1])  # (B, K, P, K·Z)
    rows = rows.reshape(batch, size, k, coordinates).transpose(1, 2)  # (B, K, K·P, Z)
    fisher: Tensor = (rows @ change).transpose(1, 2)
    return fisher.reshape(batch, size, size)


def crb_covariance(
    theta: Tensor,
    sigma: Tensor,
    grids: Sequence[Grid | None],
    mask: Tensor | None = None,
    ratios: Sequence[float] | None = None,
) -> Tensor:
    """Inverse of `fisher_matrix`, same arguments, (B, K·P, K·P); zeros for components outside the mask.

    A singular Fisher matrix (two components in one place, A = 0) has no bound: its entries are infinite.
    """
    fisher = fisher_matrix(theta, sigma, grids, mask, ratios)
    exists = theta.new_ones(theta.shape[:-1], dtype=torch.bool) if mask is None else mask
    free = exists.repeat_interleave(theta.shape[-1], -1)  # (B, K·P)
    system = factorize(fisher, free)
    both = free[:, :, None] & free[:, None, :]
    return torch.where(system.regular[:, None, None] | ~both, system.inverse(), math.inf)


def crb_std(
    theta: Tensor,
    sigma: Tensor,
    grids: Sequence[Grid | None],
    mask: Tensor | None = None,
    ratios: Sequence[float] | None = None,
) -> Tensor:
    """Smallest standard deviations of θ, (B, K, P), 0 outside the mask; arguments of `fisher_matrix`."""
    covariance = crb_covariance(theta, sigma, grids, mask, ratios)
    return covariance.diagonal(dim1=-2, dim2=-1).sqrt().reshape(theta.shape)
