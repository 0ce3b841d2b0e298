"""Posteriors of known quality, right or wrong, to hold the diagnostics to.

The oracle knows the truth. Its estimate is the truth plus a draw of the joint Cramér–Rao Gaussian, and its draws are
the same Gaussian around the estimate, so that truth and draws follow one law: a calibrated, efficient posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow import Prior, Simulation
from slotflow.core.seeds import spread_seed
from slotflow.signal.bounds import crb_covariance

__all__ = ["Oracle", "OracleAnalysis", "OracleSlots"]


@dataclass(frozen=True, eq=False)
class OracleSlots:
    """Independent Gaussians per slot, as many as asked for; slots beyond the true ones sit anywhere in the band."""

    k: Tensor
    estimate: Tensor
    factor: Tensor

    @property
    def mask(self) -> Tensor:
        device = self.estimate.device
        return torch.arange(self.estimate.shape[1], device=device) < self.k.to(device)[:, None]

    def sample(self, n: int, seed: int) -> Tensor:
        size, slots, _ = self.estimate.shape
        z = _normal(self.estimate.device, seed, size, n, slots, 3, 1)
        draws = self.estimate[:, None] + (self.factor[:, None] @ z).squeeze(-1)
        draws[..., 1] = torch.remainder(draws[..., 1], 2 * math.pi)
        return torch.where(self.mask[:, None, :, None], draws, 0.0)


@dataclass(frozen=True, eq=False)
class OracleAnalysis:
    k_probs: Tensor
    estimate: Tensor
    factor: Tensor

    def slots(self, k: Tensor | None = None) -> OracleSlots:
        return OracleSlots(
            self.k_probs.argmax(-1).cpu() if k is None else k, self.estimate, self.factor
        )


@dataclass(frozen=True)
class Oracle:
    """A posterior of known quality."""

    width: float = 1.0
    """Factor on the standard deviation of the draws; 1 is calibrated."""
    error: float = 1.0
    """Factor on the error of the estimate."""
    doubt: float = 0.0
    """Largest probability of the wrong one of two counts, drawn uniformly; 0: the count is certain."""
    boast: float = 1.0
    """Factor by which the stated doubt is too small."""

    @torch.inference_mode()
    def analyse(
        self, simulation: Simulation, prior: Prior, k_prior: object = None
    ) -> OracleAnalysis:
        truth, mask = simulation.theta, simulation.mask
        size, slots, _ = truth.shape
        generator = torch.Generator().manual_seed(spread_seed(simulation.seed + 1))
        device = truth.device
        covariance = crb_covariance(truth, simulation.sigma, simulation.grids, mask)
        covariance = torch.where(covariance.isfinite(), covariance, 0.0)
        covariance = covariance + 1e-24 * torch.eye(3 * slots, dtype=torch.float64, device=device)
        z = _normal(device, spread_seed(simulation.seed + 2), size, 3 * slots, 1)
        shift = (_cholesky(covariance) @ z).reshape(size, slots, 3)
        band = torch.rand(size, slots, generator=generator, dtype=torch.float64).to(device)
        spare = torch.stack([torch.ones_like(band), band, 2.5 + 0.5 * band], -1)
        estimate = torch.where(mask[..., None], truth + self.error * shift, spare)
        blocks = covariance.reshape(size, slots, 3, slots, 3).diagonal(dim1=1, dim2=3)
        factor = self.width * _cholesky(blocks.permute(0, 3, 1, 2))
        count = self._count(simulation.k, prior, generator).to(device)
        return OracleAnalysis(count, estimate, factor)

    def _count(self, k: Tensor, prior: Prior, generator: torch.Generator) -> Tensor:
        doubt = self.doubt * torch.rand(len(k), generator=generator, dtype=torch.float64)
        wrong = torch.rand(len(k), generator=generator, dtype=torch.float64) < doubt
        other = torch.where(k < prior.k_max, k + 1, k - 1)
        first, second = torch.where(wrong, other, k), torch.where(wrong, k, other)
        stated = (doubt / self.boast)[:, None]
        probs = torch.zeros(len(k), prior.k_max + 1, dtype=torch.float64)
        return probs.scatter(1, first[:, None], 1 - stated).scatter(1, second[:, None], stated)


def _normal(device: torch.device, seed: int, *shape: int) -> Tensor:
    """Normal numbers on a device."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device=device)


def _cholesky(covariance: Tensor) -> Tensor:
    """Factor of (..., d, d), through a unit diagonal."""
    scale = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    unit = covariance / (scale[..., :, None] * scale[..., None, :])
    jitter = 1e-12 * torch.eye(covariance.shape[-1], dtype=torch.float64, device=scale.device)
    return scale[..., None] * torch.linalg.cholesky_ex(unit + jitter)[0]
