r"""Evidence of K tones by Laplace's approximation, cut at the prior's edges.

Around the maximum the likelihood is a Gaussian of covariance Σ in the 3K parameters, and σ has the
relative variance 1/2n. The prior is flat across it but for its edges, so that

.. math:: \ln Z_K = \ln L(\hatθ, \hatσ) + \ln K! + \ln p(\hatθ \mid K) + \ln p(\hatσ)
    + \tfrac{3K}{2} \ln 2π + \tfrac12 \ln |Σ| + \tfrac12 \ln \frac{2π \hatσ^2}{2n} + \ln P ,

where K! counts the equal modes of the labelled tuples, p(θ̂ | K) is the prior's density inside its support and P the
share of the Gaussian that lies there, estimated from draws. Then p(K | x) ∝ Z_K p(K).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slotflow.exact.laplace import Laplace
from slotflow.priors import Prior

__all__ = ["gaussian_draws", "log_evidence"]

EDGE_DRAWS = 512
"""Draws from which the share of the Gaussian inside the prior's support is estimated."""


def log_evidence(found: Laplace, prior: Prior, n: int) -> Tensor:
    """Ln Z_K of each signal, (B,); −inf where the fit did not converge."""
    k = found.theta.shape[1]
    draws = gaussian_draws(
        found.theta, found.covariance, EDGE_DRAWS, torch.Generator().manual_seed(0)
    )  # (B, draws, k, 3)
    log_prior = prior.log_prob_theta(draws)  # (B, draws)
    inside = log_prior > -math.inf
    share = (inside.sum(-1) + 0.5) / (EDGE_DRAWS + 1)
    mean = torch.where(inside, log_prior, 0.0).sum(-1) / inside.sum(-1).clamp_min(1)
    density = torch.where(
        inside.any(-1), mean + share.log(), _log_density(prior, k) + _log_tail(found, prior)
    )
    sigma, sd = found.sigma, found.sigma / math.sqrt(2 * n)
    density = (
        density + _log_mass(sigma, sd, prior.sigma) - math.log(prior.sigma[1] - prior.sigma[0])
    )
    total = found.log_likelihood + math.lgamma(k + 1) + density
    total += 1.5 * k * math.log(2 * math.pi) + 0.5 * _log_determinant(found.covariance)
    total += 0.5 * (math.pi * found.sigma**2 / n).log()
    return torch.where(found.converged, total, -math.inf)


def _log_tail(found: Laplace, prior: Prior) -> Tensor:
    """Logarithm of the Gaussian's mass between the amplitudes' bounds, tone by tone, (B,)."""
    sd = found.covariance.diagonal(dim1=-2, dim2=-1)[:, ::3].clamp_min(1e-300).sqrt()  # (B, k)
    mass = _log_mass(found.theta[..., 0], sd, prior.amplitude).sum(-1)
    return mass - math.log(2 * EDGE_DRAWS)


def _log_mass(mean: Tensor, sd: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Logarithm of a Gaussian's mass between two bounds, accurate in the tails; same shape as mean."""
    low, high = (bounds[0] - mean) / sd, (bounds[1] - mean) / sd
    low, high = (
        torch.where(low > 0, -high, low),
        torch.where(low > 0, -low, high),
    )  # the lighter tail
    upper, lower = torch.special.log_ndtr(high), torch.special.log_ndtr(low)
    mass: Tensor = upper + torch.log1p(-torch.exp(lower - upper).clamp(max=1 - 1e-16))
    return mass


def _log_density(prior: Prior, k: int) -> float:
    """Logarithm of the prior's density where all k tones sit well inside, at the mean amplitude."""
    low, high = prior.frequency
    theta = torch.zeros(k, 3, dtype=torch.float64)
    theta[:, 0] = sum(prior.amplitude) / 2
    theta[:, 2] = torch.linspace(low, high, max(k, 1), dtype=torch.float64)[:k]
    return float(prior.log_prob_theta(theta))


def _log_determinant(covariance: Tensor) -> Tensor:
    """Ln |Σ| of (B, d, d), through unit diagonals; 0 for d = 0."""
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).sqrt()
    unit = covariance / (scale[:, :, None] * scale[:, None, :])
    log_determinant: Tensor = torch.linalg.slogdet(unit).logabsdet + 2 * scale.log().sum(-1)
    return log_determinant


def gaussian_draws(theta: Tensor, covariance: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Draws of (A, φ, f) around fits.

    Args:
        theta: The fits, (B, k, 3).
        covariance: Their covariances, (B, 3k, 3k).
        n: Draws of each.
        generator: Source of randomness; all fits share its normal numbers.

    Returns:
        (A, φ in [0, 2π), f), (B, n, k, 3); not cut to any prior.
    """
    size, k = theta.shape[:2]
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).sqrt()  # (B, 3k)
    unit = covariance / (scale[:, :, None] * scale[:, None, :])
    factor, _ = torch.linalg.cholesky_ex(unit)
    z = torch.randn(n, 3 * k, generator=generator, dtype=torch.float64)
    draws: Tensor = (z @ factor.mT) * scale[:, None, :]  # (B, n, 3k)
    draws = theta[:, None] + draws.reshape(size, n, k, 3)
    draws[..., 1] = torch.remainder(draws[..., 1], 2 * math.pi)
    return draws
