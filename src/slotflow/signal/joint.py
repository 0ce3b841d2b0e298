r"""One joint step of all tones that a network can take: Gauss–Newton within reach of where it stands.

At z = (f, Re c, Im c) of K tones, with the residual x − m and the Jacobian J of m, the step solves

.. math:: (J^T J + σ^2 Λ)\, Δz = J^T (x - m), \qquad Σ = σ^2 (J^T J + σ^2 Λ)^{-1} ,

which is the posterior mean and covariance of the linearized model under a Gaussian of precision Λ around the present
estimate. Λ says how far the estimate can be off: half a bin in f, the largest amplitude in c. For resolved tones it
is a millionth of JᵀJ; for an unresolved pair it keeps step and covariance finite along the directions that the data do
not see, where a plain step would run away. No gradients, no waiting for a device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from slotflow.signal.likelihood import Statistics
from slotflow.signal.systems import factorize, solve

__all__ = ["JointStep", "joint_step", "start_amplitudes"]

REACH = 0.5
"""Standard deviation of f under Λ, and its largest move in one step, in bins 1/T of the long stream."""


class JointStep(NamedTuple):
    """A step of B signals with K tones, and the Gaussian it belongs to."""

    frequency: Tensor
    """Frequencies after the step, in Hz, (B, K)."""
    c: Tensor
    """Complex amplitudes after it, (B, K)."""
    step: Tensor
    """Δz before any shortening, (B, K, 3)."""
    covariance: Tensor
    """Marginal covariance of each tone's (f, Re c, Im c) per unit of σ², (B, K, 3, 3)."""
    conditional: Tensor
    """Variance of each parameter with all others known, per unit of σ², (B, K, 3)."""
    rss: Tensor
    """Residual sum of squares before the step, (B,)."""
    rest: tuple[Tensor, ...]
    """Each stream's residual matched filter at each tone before the step, (B, K), complex."""


@torch.no_grad()
def joint_step(
    statistics: Statistics,
    frequency: Tensor,
    c: Tensor,
    mask: Tensor,
    sigma: Tensor,
    largest: Tensor,
) -> JointStep:
    """One step of all tones on all streams.

    Args:
        statistics: Of B signals.
        frequency: Where to start, in Hz, (B, K), float64; 0 outside the mask.
        c: Complex amplitudes referred to τ, (B, K); 0 outside the mask.
        mask: Which tones exist, (B, K), bool.
        sigma: Noise level, (B,).
        largest: Largest amplitude that the prior allows, (B,).
    """
    parts = [statistics.stream_equations(s, frequency, c) for s in range(len(statistics.grids))]
    rss, slope, matrix = statistics.energy, parts[0].slope, parts[0].matrix
    for part in parts:
        rss = rss + part.gain
    for part in parts[1:]:
        slope, matrix = slope + part.slope, matrix + part.matrix
    reach = REACH / statistics.grids[0].duration
    ridge = sigma[:, None, None] ** 2 * _precision(frequency, reach, largest)  # (B, K, 3)
    matrix = matrix + torch.diag_embed(ridge.flatten(1))
    scale, factor, _ = factorize(matrix, mask, torch.zeros_like(sigma))
    step = solve(scale, factor, slope).nan_to_num().reshape(*mask.shape, 3)
    root = torch.linalg.solve_triangular(factor, torch.diag_embed(scale), upper=False)
    blocks = root.reshape(*root.shape[:2], -1, 3).permute(0, 2, 1, 3)  # (B, K, 3K, 3)
    covariance = blocks.mT @ blocks
    diagonal = matrix.diagonal(dim1=-2, dim2=-1).reshape(*mask.shape, 3)
    conditional = torch.where(mask[..., None], 1 / diagonal.clamp_min(1e-300), 0.0)
    shrink = (reach / step[..., 0].abs().clamp_min(reach)).clamp(max=1.0)
    move = torch.complex(step[..., 1] * shrink, step[..., 2] * shrink)
    return JointStep(
        frequency + step[..., 0] * shrink,
        c + move,
        step,
        covariance,
        conditional,
        rss,
        tuple(part.rest for part in parts),
    )


@torch.no_grad()
def start_amplitudes(
    statistics: Statistics, frequency: Tensor, mask: Tensor, sigma: Tensor, largest: Tensor
) -> Tensor:
    """Complex amplitudes of tones at given frequencies from the long stream alone, (B, K); arguments of `joint_step`.

    A frequency that is off by a third of a bin turns the phase on a distant short stream by a sixth of a cycle or more,
    so that stream has to wait.
    """
    zero = torch.zeros_like(frequency)
    part = statistics.stream_equations(0, frequency, torch.complex(zero, zero))
    precision = _precision(frequency, 1.0, largest)
    matrix = part.matrix + torch.diag_embed((sigma[:, None, None] ** 2 * precision).flatten(1))
    scale, factor, _ = factorize(matrix, mask, torch.zeros_like(sigma), linear=True)
    step = solve(scale, factor, part.slope).reshape(*mask.shape, 3)
    return torch.complex(step[..., 1], step[..., 2])


def _precision(frequency: Tensor, reach: float, largest: Tensor) -> Tensor:
    """Diagonal of Λ, (B, K, 3)."""
    f = torch.full_like(frequency, reach**-2)
    c = (largest[:, None] ** -2).expand_as(frequency)
    return torch.stack([f, c, c], -1)
