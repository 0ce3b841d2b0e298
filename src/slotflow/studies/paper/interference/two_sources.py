r"""Two sources 0.01 Hz apart: signals of given signal-to-noise ratios, and the errors of draws.

The paper's ratio of a source counts the other one as noise:

.. math:: \mathrm{SNR}_i = 20 \log_{10} \frac{\mathrm{RMS}(s_i)}{\mathrm{RMS}(s_j + n)}, \qquad i ≠ j .

It does not say which amplitudes and noise levels it took. Here the ratios are given and the signals follow: with
r_i = 10^{SNR_i / 10} and the powers a_i = A_i²/2, r_1 = a_1 / (a_2 + σ²) and r_2 = a_2 / (a_1 + σ²), hence

.. math:: a_1 = σ^2 \frac{r_1 (1 + r_2)}{1 - r_1 r_2}, \qquad a_2 = σ^2 \frac{r_2 (1 + r_1)}{1 - r_1 r_2} ,

and the scale is the largest within the bounds. r_1 r_2 < 1: both ratios cannot be high, and all signals with little
noise lie on the line SNR_1 + SNR_2 = 0, where σ is set to a floor instead of 0.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.signal.simulation import Simulation
from slotflow.studies.measures.parameters import WAVEFORM, differences, relative_units
from slotflow.studies.suites.sets import GRIDS
from slotflow.studies.suites.signals import in_fresh_noise

__all__ = [
    "AMPLITUDE_BOUNDS",
    "FREQUENCIES",
    "PHASES",
    "SIGMA_BOUNDS",
    "cell",
    "errors",
    "grid",
    "simulate_cell",
]

Array = NDArray[np.float64]

FREQUENCIES, PHASES = (2.60, 2.61), (0.0, math.pi / 2)
AMPLITUDE_BOUNDS, SIGMA_BOUNDS = (0.05, 1.5), (0.01, 1.5)
"""Bounds; that of σ from below is our floor."""
LOWEST_SNR = -30.0
"""The paper's lowest SNR in dB; the highest is its opposite."""


def grid(n: int) -> list[tuple[float, float]]:
    """SNRs in dB of the cells, for a size n of the settings: every 4, 12 or 20 dB."""
    step = 4.0 if n >= 2500 else 12.0 if n >= 100 else 20.0
    axis = np.arange(LOWEST_SNR, -LOWEST_SNR + 1, step).tolist()
    return [(x, y) for x, y in itertools.product(axis, axis) if cell(x, y) is not None]


def cell(first: float, second: float) -> tuple[float, float, float] | None:
    """(A₁, A₂, σ) of a pair of SNRs in dB, the loudest within the bounds; None where there is none."""
    r, q = 10 ** (first / 10), 10 ** (second / 10)
    if first + second > 1e-9:
        return None
    if first + second > -1e-9:  # no noise except the floor
        a, b, sigma = math.sqrt(r), 1.0, 0.0
    else:
        room = 1 - r * q
        a, b, sigma = math.sqrt(2 * r * (1 + q) / room), math.sqrt(2 * q * (1 + r) / room), 1.0
    scale = min(AMPLITUDE_BOUNDS[1] / max(a, b), SIGMA_BOUNDS[1] / max(sigma, 1e-9))
    a, b, sigma = a * scale, b * scale, max(sigma * scale, SIGMA_BOUNDS[0])
    return (a, b, sigma) if min(a, b) >= AMPLITUDE_BOUNDS[0] else None


def errors(draws: Array, truth: Array) -> tuple[Array, Array]:
    """Mean |draw − truth| of two components, A relative to the truth, and the draws' sd, (2, P) each.

    Each draw's components are assigned to the sources by least Σ min(|Δf| T, 1): what is farther than a bin 1/T from a
    source is not that source.

    Args:
        draws: (A, φ, f), (n, 2, P).
        truth: (A, φ, f), (2, P).
    """
    swapped = draws[:, ::-1]
    cost = [_cost(draws, truth), _cost(swapped, truth)]
    chosen = np.where((cost[1] < cost[0])[:, None, None], swapped, draws)
    difference, unit = differences(chosen, truth), relative_units(truth)
    return np.abs(difference / unit).mean(0), (difference / unit).std(0, ddof=1)


def _cost(draws: Array, truth: Array) -> Array:
    """Σ min(|Δf| T, 1) of each draw, (n,)."""
    bins = np.abs(WAVEFORM.place_of(draws) - WAVEFORM.place_of(truth)) * GRIDS[0].duration
    cost: Array = np.minimum(bins, 1.0).sum(-1)
    return cost


def simulate_cell(first: float, second: float, repeats: int, seed: int) -> Simulation:
    """The two sources of a cell in several draws of noise, on the CPU."""
    amplitudes = cell(first, second)
    assert amplitudes is not None  # `grid` keeps no other
    *a, sigma = amplitudes
    one = torch.tensor(list(zip(a, PHASES, FREQUENCIES, strict=True)), dtype=torch.float64)
    level = torch.full((repeats,), sigma, dtype=torch.float64)
    return in_fresh_noise(one.expand(repeats, -1, -1), level, seed)
