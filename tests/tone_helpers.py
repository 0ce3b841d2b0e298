"""The time domain, written out: what the closed forms must agree with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slotflow import Grid
from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import Simulation
from slotflow.signal.systems import factorize, free_unknowns, theta_covariance
from slotflow.signal.waveforms import TONE

__all__ = [
    "LONG",
    "SHORT",
    "from_complex",
    "gauss_newton_step",
    "model",
    "phase_error",
    "reference_rss",
    "statistics_of",
    "to_complex",
    "to_theta",
    "to_z",
]

LONG, SHORT = Grid(3000, 0.1), Grid(5120, 1 / 512)


def model(theta: Tensor, grid: Grid) -> Tensor:
    """Sum of cosines of theta, (..., K, 3), on a grid, (..., N), float64."""
    amplitude, phase, frequency = theta[..., None].unbind(-2)
    t = torch.as_tensor(grid.times)
    turns = torch.remainder(frequency * t, 1.0)
    return (amplitude * (2 * math.pi * turns + phase).cos()).sum(-2)


def reference_rss(series: Sequence[Tensor], grids: Sequence[Grid], theta: Tensor) -> Tensor:
    """Σ (x − m)² of series (B, N) each for theta (B, n, K, 3), shape (B, n)."""
    return torch.stack(
        [
            ((x.double()[:, None] - model(theta, grid)) ** 2).sum(-1)
            for x, grid in zip(series, grids, strict=True)
        ]
    ).sum(0)


def phase_error(error: np.ndarray) -> np.ndarray:
    """Differences of phases brought to [−π, π)."""
    return (error + np.pi) % (2 * np.pi) - np.pi


def statistics_of(simulation: Simulation, short: bool = True) -> Statistics:
    """Statistics of a simulated batch; short = False leaves the short streams out."""
    long_grid, short_grid = simulation.grids
    if not short or short_grid is None or simulation.short is None:
        return Statistics.from_arrays([simulation.long], [long_grid])
    return Statistics.from_arrays([simulation.long, simulation.short], [long_grid, short_grid])


def to_complex(
    theta: Tensor, reference: float, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Frequencies and complex amplitudes of tones, (..., K) each."""
    xi, c = TONE.split_masked(theta.double(), reference, mask)
    return xi[..., 0], c[..., 0]


def from_complex(frequency: Tensor, c: Tensor, reference: float) -> Tensor:
    """(A, φ, f) of frequencies and complex amplitudes, (..., K) each."""
    return TONE.join(frequency[..., None], c[..., None], reference)


def to_z(theta: Array, reference: float) -> Array:
    """Coordinates (f, Re c, Im c) of tones, sorted by frequency."""
    return TONE.to_z(TONE.sorted(theta), reference)


def to_theta(z: Array, reference: float) -> Array:
    """(A, φ, f) of coordinates (f, Re c, Im c)."""
    return TONE.to_theta(z, reference)


def gauss_newton_step(
    statistics: Statistics, theta: Tensor, mask: Tensor, sigma: Tensor
) -> tuple[Tensor, Tensor]:
    """One undamped step of all tones, and the covariance of (A, φ, f) where it began."""
    xi, c = TONE.split_masked(theta, statistics.reference, mask)
    z, equations = TONE.pack(xi, c), statistics.equations(xi, c)
    system = factorize(equations.matrix, free_unknowns(TONE, mask))
    new = TONE.to_theta(z + system.solve(equations.slope).reshape(z.shape), statistics.reference)
    covariance = theta_covariance(TONE, system.inverse(), z, sigma, statistics.reference)
    outside = ~mask.repeat_interleave(3, 1)
    covariance[outside[:, :, None] | outside[:, None, :]] = 0.0
    return torch.where(mask[..., None], new, 0.0), covariance
