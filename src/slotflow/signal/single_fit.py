r"""The fit of one signal in NumPy: the steps of `laplace.py`, without the cost of starting small operations in torch.

The damped decrement never exceeds the undamped one, so that the system at λ = 0, which says whether a fit has
converged, is solved only when the damped one is small already.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack

from slotflow.signal.single import Array, Complex, Single
from slotflow.signal.systems import factorize_one, solve_one

__all__ = [
    "FIRST_DAMPING",
    "LARGEST_DAMPING",
    "LARGEST_MOVE",
    "ROUNDING",
    "End",
    "amplitudes_one",
    "climb_one",
    "covariance_one",
]

LARGEST_MOVE = 0.5
"""Largest change of a frequency in one step, in bins 1/T of the long stream."""
FIRST_DAMPING = 1e-3
"""λ of a fit's first step."""
LARGEST_DAMPING = 1e9
"""λ beyond which a fit gives up."""
ROUNDING = 2e-13
"""Accuracy of RSS in units of the data's energy: a rise within it does not count."""


class End(NamedTuple):
    """Where a fit ended, with the normal equations there."""

    frequency: Array
    """In Hz, (K,)."""
    c: Complex
    """Complex amplitudes referred to τ, (K,)."""
    rss: float
    slope: Array
    """Jᵀ(x − m), (3K,)."""
    matrix: Array
    """JᵀJ, (3K, 3K)."""
    iterations: int
    converged: bool


def climb_one(
    single: Single,
    energy: float,
    n: int,
    frequency: Array,
    c: Complex,
    variance: float | None,
    floor: float,
    max_iterations: int,
    tolerance: float,
) -> End:
    """Damped Gauss–Newton from K > 0 tones.

    Args:
        single: The signal.
        energy: Σ x² over its streams.
        n: Number of its samples.
        frequency: Start, in Hz, (K,).
        c: Start, (K,).
        variance: σ²; RSS/n if None.
        floor: Smallest σ².
        max_iterations: Steps at most.
        tolerance: Decrement below which the fit has converged.
    """
    limit, free = LARGEST_MOVE / single.grids[0].duration, np.ones(3 * len(c), dtype=np.bool_)
    gain, slope, matrix, _ = single.equations(frequency, c)
    rss, damping, iterations, converged = energy + gain, FIRST_DAMPING, 0, False
    if not factorize_one(matrix, 0.0, free)[2]:
        return End(frequency, c, rss, slope, matrix, iterations, converged)
    while True:
        small = tolerance * max(floor, rss / n if variance is None else variance)
        scale, factor, regular = factorize_one(matrix, damping, free)
        step = solve_one(scale, factor, slope)
        if regular and float(step @ slope) < small:
            scale, factor, sound = factorize_one(matrix, 0.0, free)
            converged = sound and float(solve_one(scale, factor, slope) @ slope) < small
        if converged or iterations >= max_iterations or damping > LARGEST_DAMPING:
            return End(frequency, c, rss, slope, matrix, iterations, converged)
        iterations += 1
        move = step.reshape(-1, 3)
        move = move * (limit / np.maximum(np.abs(move[:, :1]), limit))
        trial_f, trial_c = frequency + move[:, 0], c + (move[:, 1] + 1j * move[:, 2])
        trial = single.equations(trial_f, trial_c)
        if regular and energy + trial.gain <= rss + ROUNDING * energy:
            frequency, c, rss = trial_f, trial_c, energy + trial.gain
            slope, matrix, damping = trial.slope, trial.matrix, damping * 0.03
        else:
            damping = damping * 8 + 1e-6


def covariance_one(
    single: Single, end: End, sigma: float, displacement: float | None, reference: float
) -> tuple[Array, float]:
    """Covariance of (A, φ, f), (3K, 3K), at the end of a fit, and its mismatch, NaN without a displacement ε."""
    k = len(end.c)
    scale, factor, _ = factorize_one(end.matrix, 0.0, np.ones(3 * k, dtype=np.bool_))
    inverse = torch.cholesky_inverse(torch.from_numpy(factor)).numpy() * (scale[:, None] * scale)
    amplitude = np.abs(end.c)
    a, b = end.c.real / amplitude, end.c.imag / amplitude
    change = np.zeros((k, 3, k, 3))  # d(A, φ, f)/d(f, Re c, Im c)
    block = np.einsum("kikj->kij", change)  # a view of what is not 0
    block[:, 0, 1], block[:, 0, 2] = a, b
    block[:, 1, 0], block[:, 1, 1], block[:, 1, 2] = (
        -2 * math.pi * reference,
        -b / amplitude,
        a / amplitude,
    )
    block[:, 2, 0] = 1.0
    turn = sigma * change.reshape(3 * k, 3 * k)
    covariance = turn @ inverse @ turn.T
    covariance = 0.5 * (covariance + covariance.T)
    if displacement is None:
        return covariance, math.nan
    size = displacement * sigma
    d = lapack.dtrtrs(factor, np.ones(3 * k), lower=1, trans=1)[0] * scale * size
    away = single.equations(end.frequency + d[0::3], end.c + (d[1::3] + 1j * d[2::3]))
    slope = lapack.dtrtrs(factor, (away.slope - end.slope) * scale, lower=1)[0]
    return covariance, float(np.abs(1 + slope / size).max())


def amplitudes_one(single: Single, frequency: Array) -> Complex:
    """Best complex amplitudes at K > 0 frequencies in Hz, (K,); each alone where the system is singular."""
    zero = np.zeros(len(frequency), dtype=np.complex128)
    _, slope, matrix, _ = single.equations(frequency, zero)
    free: NDArray[np.bool_] = np.ones(3 * len(frequency), dtype=np.bool_)
    free[::3] = False
    scale, factor, _ = factorize_one(matrix, 0.0, free)
    step = solve_one(scale, factor, slope)
    c: Complex = step[1::3] + 1j * step[2::3]
    return c
