r"""Evidence of K tones by Laplace's approximation, cut at the prior's edges.

Around the maximum the likelihood is a Gaussian of covariance Σ in the 3K parameters, and σ has the
relative variance 1/2n. The prior is flat across it but for its edges, so that

.. math:: \ln Z_K = \ln L(\hatθ, \hatσ) + \ln K! + \ln p(\hatθ \mid K) + \ln p(\hatσ)
    + \tfrac{3K}{2} \ln 2π + \tfrac12 \ln |Σ| + \tfrac12 \ln \frac{2π \hatσ^2}{2n} + \ln P ,

where K! counts the equal modes of the labelled tuples, p(θ̂ | K) is the prior's density inside its support and P the
share of the Gaussian that lies there, estimated from draws. Then p(K | x) ∝ Z_K p(K). Where σ is known, the terms of
its width and of its prior are left out.

A Gaussian whose every parameter keeps `CLEARANCE` standard deviations from every edge needs no draws, and one with an
amplitude as far outside none either: all of them, or none, would lie inside.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from slotflow.signal.fit import Laplace
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["gaussian_draws", "log_evidence"]

EDGE_DRAWS = 512
"""Draws from which the share of the Gaussian inside the prior's support is estimated."""
CLEARANCE = 6.0
"""Distance from an edge, in standard deviations, at which it no longer matters to so many draws."""


def log_evidence(found: Laplace, prior: Prior, n: int) -> Tensor:
    """Ln Z_K of each signal, (B,); −inf where the fit did not converge.

    Args:
        found: The fits, at the known σ if the prior has one.
        prior: The prior.
        n: Number of samples.
    """
    k = found.theta.shape[1]
    full = _log_density(prior, k) + math.log((EDGE_DRAWS + 0.5) / (EDGE_DRAWS + 1))
    inner, outer = _sides(found, prior)
    density = torch.full_like(found.sigma, full)
    if not bool(inner.all()):
        tail = _log_density(prior, k) + _log_tail(found, prior)
        density = torch.where(inner, density, tail)
    rows = (~(inner | outer) & found.converged).nonzero().squeeze(-1)
    if len(rows):
        shares = _share(found.theta[rows], found.covariance[rows], prior)
        density[rows] = torch.where(shares > -math.inf, shares, density[rows])
    total = found.log_likelihood + math.lgamma(k + 1) + density
    total += 0.5 * TONE.size * k * math.log(2 * math.pi) + 0.5 * _log_determinant(found.covariance)
    if prior.known_sigma is None:
        sigma, sd = found.sigma, found.sigma / math.sqrt(2 * n)
        total += _log_mass(sigma, sd, prior.sigma) - math.log(prior.sigma[1] - prior.sigma[0])
        total += 0.5 * (math.pi * sigma**2 / n).log()
    return torch.where(found.converged, total, -math.inf)


def _share(theta: Tensor, covariance: Tensor, prior: Prior) -> Tensor:
    """Mean of ln p over the draws inside plus ln of their share, (B,), of (B, k, P); −inf where none is inside."""
    draws = gaussian_draws(theta, covariance, _normals(theta.shape[1]))
    log_prior = prior.log_prob_theta(draws)  # (B, draws)
    inside = log_prior > -math.inf
    share = (inside.sum(-1) + 0.5) / (EDGE_DRAWS + 1)
    mean = torch.where(inside, log_prior, 0.0).sum(-1) / inside.sum(-1).clamp_min(1)
    return torch.where(inside.any(-1), mean + share.log(), -math.inf)


def _sides(found: Laplace, prior: Prior) -> tuple[Tensor, Tensor]:
    """Whether no edge is near, and whether an amplitude is far outside, (B,) each, bool."""
    bounded = [TONE.column("amplitude"), TONE.column("frequency")]  # (B, k, 2) below
    variance = found.covariance.diagonal(dim1=-2, dim2=-1).reshape(*found.theta.shape)
    reach = CLEARANCE * variance[..., bounded].clamp_min(0.0).sqrt()
    value = found.theta[..., bounded]
    low, high = value.new_tensor([prior.amplitude, prior.frequency]).unbind(-1)
    room = torch.minimum(value - low, high - value)
    inner = (room > reach).flatten(1).all(-1)
    if prior.amplitude_law != "uniform":
        inner = torch.zeros_like(inner)  # the density is not flat: its mean takes draws
    if prior.min_separation > 0:
        frequency, order = value[..., 1].sort(-1)
        wide = reach[..., 1].gather(-1, order)
        gap = frequency.diff(dim=-1) - prior.min_separation
        inner &= (gap > wide[:, 1:] + wide[:, :-1]).all(-1)
    return inner, (room < -reach)[..., 0].any(-1)


def _log_tail(found: Laplace, prior: Prior) -> Tensor:
    """Logarithm of the Gaussian's mass between the amplitudes' bounds, tone by tone, (B,)."""
    variance = found.covariance.diagonal(dim1=-2, dim2=-1).reshape(*found.theta.shape)
    sd = TONE.of(variance, "amplitude").clamp_min(1e-300).sqrt()  # (B, k)
    mass = _log_mass(TONE.of(found.theta, "amplitude"), sd, prior.amplitude).sum(-1)
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


@functools.lru_cache(maxsize=256)
def _log_density(prior: Prior, k: int) -> float:
    """Logarithm of the prior's density where all k tones sit well inside, at the mean amplitude."""
    low, high = prior.frequency
    places = torch.linspace(low, high, max(k, 1), dtype=torch.float64)[:k, None]
    theta = TONE.without_phase(places, torch.full_like(places, sum(prior.amplitude) / 2))
    return float(prior.log_prob_theta(theta))


def _log_determinant(covariance: Tensor) -> Tensor:
    """Ln |Σ| of (B, d, d), through unit diagonals; 0 for d = 0."""
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).sqrt()
    unit = covariance / (scale[:, :, None] * scale[:, None, :])
    log_determinant: Tensor = torch.linalg.slogdet(unit).logabsdet + 2 * scale.log().sum(-1)
    return log_determinant


@functools.lru_cache(maxsize=64)
def _normals(k: int) -> Tensor:
    """The same normal numbers for every fit of k components, (draws, k·P)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(EDGE_DRAWS, TONE.size * k, generator=generator, dtype=torch.float64)


def gaussian_draws(theta: Tensor, covariance: Tensor, z: Tensor) -> Tensor:
    """Draws of components around fits.

    Args:
        theta: The fits, (B, k, P).
        covariance: Their covariances, (B, k·P, k·P).
        z: Normal numbers that all fits share, (n, k·P), float64.

    Returns:
        θ, angles in [0, 2π), (B, n, k, P); not cut to any prior.
    """
    size, k = theta.shape[:2]
    scale = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).sqrt()  # (B, k·P)
    unit = covariance / (scale[:, :, None] * scale[:, None, :])
    factor, _ = torch.linalg.cholesky_ex(unit)
    draws: Tensor = (z @ factor.mT) * scale[:, None, :]  # (B, n, k·P)
    draws = theta[:, None] + draws.reshape(size, len(z), k, TONE.size)
    for column, parameter in enumerate(TONE.parameters):
        if parameter.circular:
            draws[..., column] = torch.remainder(draws[..., column], 2 * math.pi)
    return draws
