"""Maxima of the likelihood of B signals with K tones each, and which of them a single bent Gaussian describes.

The criteria are those by which the search of one signal (`search.py`, `proposals/assembly.py`) does with one Gaussian:
the fit has converged to amplitudes that the prior allows, every tone is beyond doubt, and none comes near another.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.core import linear
from slotflow.exact.batch.near import error
from slotflow.exact.first_order import KEPT_APART
from slotflow.exact.mode import TOUCH, near_bounds, strength_of
from slotflow.exact.proposals.assembly import NEAR, WEAK
from slotflow.signal.fit import fit, linear_amplitudes
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.systems import factorize

__all__ = ["Fits", "fitted"]

FURTHEST = 2.0
"""Bins by which a fit may stray from its start."""
STEPS = 40
"""Steps of a fit."""
LARGEST_ERROR = 1e-3
"""Error of ln L of a draw that the tables may make."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Maxima of B signals with K tones each."""

    z: Tensor
    """Coordinates, sorted by place, (B, K, Z)."""
    rss: Tensor
    """Residual sums of squares, (B,)."""
    covariance: Tensor
    """Of z, σ² (JᵀJ)⁻¹, (B, K·Z, K·Z)."""
    strength: Tensor
    """Squared SNRs, (B, K)."""
    places: Tensor
    """Frequencies in Hz, (B, K)."""
    failures: dict[str, Tensor]
    """Why a maximum is not described by a single bent Gaussian, each (B,), bool."""

    @property
    def failed(self) -> Tensor:
        """Which maxima are not, for any reason, (B,), bool."""
        return torch.stack(list(self.failures.values())).any(0)

    def take(self, rows: Tensor) -> Fits:
        """Those of some signals, the failures left out."""
        return Fits(
            self.z[rows],
            self.rss[rows],
            self.covariance[rows],
            self.strength[rows],
            self.places[rows],
            {},
        )

    @property
    def blocks(self) -> Tensor:
        """Covariance of each tone's coordinates, (B, K, Z, Z)."""
        return _own_blocks(self.covariance, self.z.shape[1])

    @property
    def place_covariance(self) -> Tensor:
        """Covariance of the frequencies, (B, K, K)."""
        size = self.z.shape[-1]
        return self.covariance[:, ::size, ::size]

    @property
    def spread(self) -> Tensor:
        """Standard deviations of the frequencies in Hz, (B, K)."""
        return self.place_covariance.diagonal(dim1=-2, dim2=-1).sqrt()


def fitted(statistics: Statistics, starts: Tensor, prior: Prior) -> Fits:
    """Fits from given frequencies.

    Args:
        statistics: Of B signals.
        starts: In Hz, (B, K), K ≥ 1.
        prior: Gives bounds of amplitudes and separation.
    """
    waveform, known = statistics.waveform, prior.known_sigma
    sigma = None if known is None else torch.full_like(starts[:, 0], known)
    theta = linear_amplitudes(statistics, starts)
    found = fit(
        statistics, theta, sigma=sigma, max_iterations=STEPS, max_shift=FURTHEST, curvature=False
    )
    converged = found.converged
    z = statistics.to_z(torch.where(converged[:, None, None], found.theta, theta))
    equations = statistics.equations(*waveform.unpack(z))
    free = torch.ones_like(equations.slope, dtype=torch.bool)
    system = factorize(equations.matrix, free)
    covariance = system.inverse() * (found.sigma**2)[:, None, None]
    first = len(waveform.shape)
    c, blocks = z[..., first:], _own_blocks(covariance, z.shape[1])[..., first:, first:]
    strength = strength_of(c, linear.inv_ex(blocks).inverse)
    places = waveform.place_in_z(z)
    amplitude = waveform.moduli(z)[..., 0]
    allowed = near_bounds(c, amplitude, blocks, prior).all(-1)
    fits = Fits(z, found.rss, covariance, strength, places, {})
    bins, smallest = statistics.bin, prior.min_separation
    gap = torch.full_like(found.rss, torch.inf)
    if places.shape[1] > 1:
        gap = places.diff(dim=-1).amin(-1)
    apart = max(NEAR * bins, KEPT_APART * smallest, smallest - TOUCH * bins)
    fits.failures.update(
        {
            "no fit": ~(converged & system.regular),
            "amplitude": ~allowed,
            "weak tone": ~(strength.amin(-1) >= WEAK),
            "close tones": ~(gap > apart),
            "wide tone": ~(error(statistics, fits.spread, strength) < LARGEST_ERROR),
        }
    )
    return fits


def _own_blocks(covariance: Tensor, k: int) -> Tensor:
    """Covariance of each of k components alone, (B, K, Z, Z), of (B, K·Z, K·Z)."""
    batch, size = len(covariance), covariance.shape[-1] // k
    blocks = covariance.reshape(batch, k, size, k, size)
    return blocks.diagonal(dim1=1, dim2=3).movedim(-1, 1)
