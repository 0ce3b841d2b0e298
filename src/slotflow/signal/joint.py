r"""One joint step of all components that a network can take: Gauss–Newton within reach of where it stands.

At z = (ξ, Re c, Im c) of K components, with the residual x − m and the Jacobian J of m, the step solves

.. math:: (J^T J + σ^2 Λ)\, Δz = J^T (x - m), \qquad Σ = σ^2 (J^T J + σ^2 Λ)^{-1} ,

which is the posterior mean and covariance of the linearized model under a Gaussian of precision Λ around the present
estimate. Λ says how far the estimate can be off: half a bin in ξ, the largest amplitude in c. For resolved components
it is a millionth of JᵀJ; for an unresolved pair it keeps step and covariance finite along the directions that the data
do not see, where a plain step would run away. No gradients, no waiting for a device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from slotflow.signal.gauss_newton import LARGEST_MOVE, shortened
from slotflow.signal.likelihood import Statistics
from slotflow.signal.systems import factorize, free_unknowns

__all__ = ["JointStep", "joint_step", "start_amplitudes"]

REACH = LARGEST_MOVE
"""Standard deviation of a shape under Λ, and its largest move in one step, in its bins."""


class JointStep(NamedTuple):
    """A step of B signals with K components, and the Gaussian it belongs to."""

    xi: Tensor
    """Shapes after the step, (B, K, D)."""
    c: Tensor
    """Complex amplitudes after it, (B, K, M)."""
    step: Tensor
    """Δz before any shortening, (B, K, Z)."""
    covariance: Tensor
    """Marginal covariance of each component's z per unit of σ², (B, K, Z, Z)."""
    conditional: Tensor
    """Variance of each coordinate with all others known, per unit of σ², (B, K, Z)."""
    rss: Tensor
    """Residual sum of squares before the step, (B,)."""
    rest: Tensor
    """Each channel's residual filtered by each component before the step, referred to τ, (S, B, K, M), complex."""


@torch.no_grad()
def joint_step(
    statistics: Statistics,
    xi: Tensor,
    c: Tensor,
    mask: Tensor,
    sigma: Tensor,
    largest: Tensor,
) -> JointStep:
    """One step of all components on all channels.

    Args:
        statistics: Of B signals.
        xi: Where to start, (B, K, D), float64; 0 outside the mask.
        c: Complex amplitudes referred to τ, (B, K, M); 0 outside the mask.
        mask: Which components exist, (B, K), bool.
        sigma: Noise level, (B,).
        largest: Largest amplitude that the prior allows, (B,).
    """
    waveform = statistics.waveform
    products = statistics.products_of(xi, c)
    gain, slope, matrix = products.equations(c)
    scales = waveform.scales(statistics.duration)
    matrix = matrix + _ridge(statistics, mask, sigma, largest, [REACH * scale for scale in scales])
    system = factorize(matrix, free_unknowns(waveform, mask))
    step = system.solve(slope).nan_to_num().reshape(*mask.shape, waveform.coordinates)
    root = system.whiten(
        torch.eye(slope.shape[1], device=xi.device, dtype=xi.dtype).expand_as(matrix)
    )
    blocks = root.reshape(*root.shape[:2], *step.shape[1:]).permute(0, 2, 1, 3)  # (B, K, K·Z, Z)
    diagonal = matrix.diagonal(dim1=-2, dim2=-1).reshape(step.shape)
    conditional = torch.where(mask[..., None], 1 / diagonal.clamp_min(1e-300), 0.0)
    moved = waveform.unpack(waveform.pack(xi, c) + shortened(step, statistics, REACH))
    return JointStep(
        *moved,
        step,
        blocks.mT @ blocks,
        conditional,
        statistics.energy + gain,
        products.rest(c),
    )


@torch.no_grad()
def start_amplitudes(
    statistics: Statistics, xi: Tensor, mask: Tensor, sigma: Tensor, largest: Tensor
) -> Tensor:
    """Complex amplitudes at given shapes from the first channel alone, (B, K, M); arguments of `joint_step`.

    A frequency that is off by a third of a bin turns the phase on a distant short stream by a sixth of a cycle or more,
    so that stream has to wait.
    """
    waveform, first = statistics.waveform, statistics.channel(0)
    none = torch.zeros(*mask.shape, waveform.amplitudes, device=xi.device, dtype=torch.complex128)
    _, slope, matrix = first.equations(xi, none)
    matrix = matrix + _ridge(statistics, mask, sigma, largest, [1.0] * len(waveform.shape))
    system = factorize(matrix, free_unknowns(waveform, mask, linear=True))
    step: Tensor = system.solve(slope).reshape(*mask.shape, waveform.coordinates)
    return waveform.unpack(step)[1]


def _ridge(
    statistics: Statistics, mask: Tensor, sigma: Tensor, largest: Tensor, reach: list[float]
) -> Tensor:
    """σ²Λ, (B, K·Z, K·Z), for standard deviations `reach` of the shapes and `largest` of the amplitudes."""
    size = statistics.waveform.coordinates
    shapes = [torch.full_like(largest, one) for one in reach]
    spread = torch.stack(shapes + [largest] * (size - len(reach)), -1)
    precision = (sigma[:, None] / spread) ** 2  # (B, Z)
    return torch.diag_embed(precision[:, None].expand(*mask.shape, size).flatten(1))
