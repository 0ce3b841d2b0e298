"""Steps of the classical matching pursuit: which tone comes next, which one is left out, and when it ends."""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.data.sampling import Grid
from slotflow.exact.classical_fits import Classical, evidence_of
from slotflow.signal.fit import Laplace
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import tones
from slotflow.signal.waveforms import TONE

__all__ = ["HOPELESS", "crowded", "strongest", "weakest", "without_one", "worth_going_on"]

PADDING = 4
"""The periodogram has this many points per bin."""
CLEAR = 12.0
"""A peak this many times above the noise's mean power is taken for a tone, or for the leakage of one."""
SAME = 0.2
"""Tones that start within so many bins of those of a fit would end there too."""
TOO_DEAR = 50.0
"""A tone whose removal costs so much more log L than an order lacks is not left out of the order above it."""
PATIENCE = 2
"""The pursuit ends after so many orders without a better BIC and with less evidence than the best by `HOPELESS`."""
HOPELESS = 25.0
"""Logarithm of the odds beyond which an order no longer counts."""


def strongest(series: Tensor, theta: Tensor, noise: Tensor, grid: Grid, prior: Prior) -> Tensor:
    """Frequency of the strongest peak of the residual inside the band.

    Peaks right beside a tone that is already there come last: as long as others remain, what is left beside it is
    mostly their leakage, and two tones on one peak cancel each other with ever larger amplitudes.

    Args:
        series: The long streams, (B, N).
        theta: Tones found so far, (B, k, 3).
        noise: Estimates of σ, (B,), or NaN.
        grid: Sampling of the long stream.
        prior: Gives band and separation.

    Returns:
        Frequencies in Hz, (B,).
    """
    residual = series - tones(theta, grid).double()
    n = PADDING * grid.n
    first, last = (int(f * n * grid.dt) for f in prior.frequency)
    power = torch.fft.rfft(residual, n=n)[:, first : last + 2].abs() ** 2  # of noise alone N σ²
    frequency = torch.arange(first, first + power.shape[1], dtype=torch.float64) / (n * grid.dt)
    inside = (frequency >= prior.frequency[0]) & (frequency <= prior.frequency[1])
    power = torch.where(inside, power, 0.0)  # (B, F)
    radius = max(0.7 * prior.min_separation, 0.75 / grid.duration)
    beside = ((frequency - TONE.place_of(theta)[..., None]).abs() < radius).any(1)  # (B, F)
    apart, peak = torch.where(beside, 0.0, power).max(-1)
    clear = apart > CLEAR * noise**2 * grid.n
    return frequency[torch.where(clear, peak, power.argmax(-1))]


def without_one(
    fits: list[Laplace], k: int, dropped: Tensor, rows: Tensor, grid: Grid
) -> tuple[Tensor, Tensor]:
    """Order k + 1 without one tone, and whether that could improve on the fit of order k.

    It could not if the rest stands where the fit of order k ended, or if the tone is worth too much: without it log L
    falls by (A/sd A)²/2 until the others move.

    Args:
        fits: Of each order.
        k: Order.
        dropped: Which tone to leave out, (R,).
        rows: Which signals, (R,).
        grid: Sampling of the long stream.

    Returns:
        Frequencies in Hz, (R, k), and whether they are worth a fit, (R,), bool.
    """
    larger, smaller, each = fits[k + 1], fits[k], torch.arange(len(rows))
    keep = torch.arange(k + 1) != dropped[:, None]
    frequency = TONE.place_of(larger.theta[rows])[keep].reshape(len(rows), k)
    distance = frequency.sort(-1).values - TONE.place_of(smaller.theta[rows]).sort(-1).values
    same = smaller.converged[rows] & (distance.abs() * grid.duration < SAME).all(-1)
    amplitude = TONE.of(larger.theta[rows, dropped], "amplitude")
    variance = larger.covariance[rows].diagonal(dim1=-2, dim2=-1).reshape(len(rows), k + 1, -1)
    variance = TONE.of(variance[each, dropped], "amplitude")
    cost = 0.5 * amplitude**2 / variance  # inf without a fit
    lead = larger.log_likelihood[rows] - smaller.log_likelihood[rows]
    dear = larger.converged[rows] & smaller.converged[rows] & (cost > lead + TOO_DEAR)
    return frequency, ~(same | dear)


def worth_going_on(result: Classical, rows: Tensor, k: int, n: int) -> Tensor:
    """Whether a tone beyond order k may still help, (R,)."""
    stale = result.bic[rows, : k + 1].argmin(-1) <= k - PATIENCE
    if not bool(stale.any()):
        return ~stale
    evidence = evidence_of(result, rows[stale], n)[:, : k + 1]
    hopeless = evidence[:, max(k - PATIENCE + 1, 0) :].amax(-1) < evidence.amax(-1) - HOPELESS
    return ~stale.masked_scatter(stale, hopeless)


def weakest(theta: Tensor) -> Tensor:
    """Index of the tone of smallest amplitude, (R,), of (R, k, 3)."""
    return TONE.of(theta, "amplitude").argmin(-1)


def crowded(theta: Tensor) -> Tensor:
    """Index of the weaker tone of the closest pair, (R,), of (R, k, 3)."""
    frequency, order = TONE.place_of(theta).sort(-1)
    rows = torch.arange(len(theta))
    if theta.shape[1] < 2:
        return torch.zeros_like(rows)
    first = frequency.diff(dim=-1).argmin(-1)
    left, right = order[rows, first], order[rows, first + 1]
    amplitude = TONE.of(theta, "amplitude")
    return torch.where(amplitude[rows, left] < amplitude[rows, right], left, right)
