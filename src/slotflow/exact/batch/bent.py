r"""The bent proposal of `proposals/collapsed.py` for B signals of K tones each, one Gaussian to a signal.

The formulas are those of its docstring. Normal variables are common to all signals, so that a signal's draws do not
depend on who else is in its batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slotflow.core import linear
from slotflow.core.numeric import phasor
from slotflow.exact.batch.near import Near
from slotflow.exact.proposals.collapsed import FLATTEST, conditionals, differences, nodes_of
from slotflow.signal.waveforms import TONE

__all__ = ["BentBatch", "bent_batch"]


@dataclass(frozen=True, eq=False)
class BentBatch:
    """Gaussians of the frequencies of B signals, and of amplitudes whose mean bends with them."""

    root: Tensor
    """L, factor of the scale of the frequencies in Hz, (B, K, K)."""
    mean: Tensor
    """Mean of y, (B, K)."""
    spread: Tensor
    """Factor of its covariance, (B, K, K)."""
    colour: Tensor
    """What turns normal variables into errors of (Re c, Im c), (B, 2K, 2K)."""
    theta: Tensor
    """How fast the phase of each amplitude turns with its frequency, in rad/Hz, (B, K)."""
    bend: Tensor
    """Coefficients of the mean of (Re c, Im c) in 1, y and y_a y_b, (B, 1 + K + K (K + 1)/2, 2K)."""
    normalizer: Tensor
    """Minus the logarithm of the density at u = 0, (B,)."""
    sound: Tensor
    """Whether there is such a Gaussian, (B,), bool."""

    def take(self, rows: Tensor) -> BentBatch:
        """Those of some signals."""
        return BentBatch(**{name: value[rows] for name, value in vars(self).items()})

    def from_normal(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Distances f − f̂ in Hz and c, (B, n, K) each, of normal variables, (n, 3K): those of f first."""
        k, u = (
            self.mean.shape[-1],
            u.T.contiguous(),
        )  # draws last, so that every operation is on long rows
        y = self.mean[..., None] + self.spread @ u[:k]
        straight = torch.baddbmm(self.colour @ u[k:], self.bend.mT, _features(y))
        away = self.root @ y
        c = torch.complex(straight[:, :k], straight[:, k:])
        c *= phasor(self.theta[..., None] / (2 * math.pi) * away)
        return away.mT, c.mT


def bent_batch(
    tables: Near, covariance: Tensor, precision_of: Callable[[Tensor], Tensor], power: float
) -> BentBatch:
    """The proposals around the maxima that some tables belong to.

    Args:
        tables: Of B signals.
        covariance: Of the frequencies at the maxima, (B, K, K), as a scale.
        precision_of: Gives σ⁻² of the gain in RSS, (B,) each.
        power: p of the prior's Π A^{−p}.
    """
    k = covariance.shape[-1]
    root, sound = _factor(covariance)
    nodes = torch.as_tensor(nodes_of(k), device=root.device)  # (m, K)
    away = nodes @ root.mT  # (B, m, K)
    log_density, mean, precision = conditionals(*tables.systems(away), precision_of, power)
    slope, curvature, _ = differences(log_density.T, k)  # (K, B) and (K, K, B)
    curvature = curvature.movedim(-1, 0)
    curvature, usable = _usable(curvature)
    spread, positive = _factor(linear.inv(curvature))
    centre = linear.solve(curvature, slope.T[..., None])[..., 0]
    factor, found = _factor(precision)
    sound = sound & usable & positive & found
    # The phase of each tone turns with its own frequency; what is left is smooth.
    slope = differences(mean.movedim(1, 0), k)[0].movedim(1, 0)  # (B, K, K)
    slope = linear.solve(root.mT + 0j, slope)
    theta = (slope.diagonal(dim1=-2, dim2=-1) / mean[:, 0]).imag
    straight = mean * torch.exp(-1j * theta[:, None] * away)
    slope, bends, level = differences(straight.movedim(1, 0), k)
    a, b = np.tril_indices(k)
    half = (
        -bends[a, b]
        * torch.as_tensor(np.where(a == b, 0.5, 1.0), device=root.device)[:, None, None]
    )
    bend = torch.cat([level[None], slope, half]).movedim(1, 0)  # (B, F, K)
    eye = torch.eye(2 * k, dtype=root.dtype, device=root.device)
    colour = linear.solve_triangular(factor.mT, eye.expand_as(factor), upper=True)
    normalizer = (
        0.5 * TONE.coordinates * k * math.log(2 * math.pi)
        + _log_diagonal(spread)
        + _log_diagonal(root)
        - _log_diagonal(factor)
    )
    bend = torch.cat([bend.real, bend.imag], -1)
    finite = normalizer.isfinite() & bend.isfinite().all(-1).all(-1) & theta.isfinite().all(-1)
    return BentBatch(root, centre, spread, colour, theta, bend, normalizer, sound & finite)


def _features(y: Tensor) -> Tensor:
    """1, y and y_a y_b, (B, K, n) to (B, 1 + K + K (K + 1)/2, n)."""
    batch, k, n = y.shape
    a, b = torch.tril_indices(k, k, device=y.device)
    found = y.new_empty(batch, 1 + k + len(a), n)
    found[:, 0], found[:, 1 : 1 + k] = 1.0, y
    torch.mul(y[:, a], y[:, b], out=found[:, 1 + k :])
    return found


def _usable(curvature: Tensor) -> tuple[Tensor, Tensor]:
    """Curvatures, (B, K, K), with the identity for those that are too flat, and which are not, (B,)."""
    finite = curvature.isfinite().all(-1).all(-1)
    eye = torch.eye(curvature.shape[-1], dtype=curvature.dtype, device=curvature.device)
    curvature = torch.where(finite[:, None, None], curvature, eye)
    usable = linear.eigvalsh(curvature)[:, 0] > FLATTEST
    return torch.where(usable[:, None, None], curvature, eye), usable & finite


def _factor(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Lower factors of positive matrices, (B, d, d), through unit diagonals, and whether there are any, (B,)."""
    scale = matrix.diagonal(dim1=-2, dim2=-1).clamp_min(0.0).sqrt()
    sound = (scale > 0).all(-1) & matrix.isfinite().all(-1).all(-1)
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    unit = matrix / (scale[:, :, None] * scale[:, None])
    factor, info = linear.cholesky_ex(torch.where(sound[:, None, None], unit, eye))
    sound = sound & (info == 0)
    factor = torch.where(sound[:, None, None], factor * scale[..., None], eye)
    return factor, sound


def _log_diagonal(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant that factors, (B, d, d), stand for, (B,)."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
