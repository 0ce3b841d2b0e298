"""The time domain, written out: what the closed forms must agree with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slotflow import Grid

__all__ = ["LONG", "SHORT", "model", "phase_error", "reference_rss"]

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
