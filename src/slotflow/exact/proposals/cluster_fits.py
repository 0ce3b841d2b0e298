r"""Fits of a cluster of unresolved tones at given distances, on a grid of distances.

Amplitudes are held back by a Gaussian of the size of the prior's largest one, since the tones of a cluster can cancel
each other with ever larger amplitudes. In the coordinates y of `clusters.py` z is linear, so that the normal equations
in z carry over through dz/dy, and all nodes of the grid are fitted in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.exact.proposals.clusters import Cluster
from slotflow.exact.target import Target

__all__ = ["Nodes", "fit_nodes"]

Index = NDArray[np.int64]
STEPS = 25
"""Gauss–Newton steps at most."""
STILL = 1e-2
"""Fall of −ln L that is still expected when a fit ends."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Fits at the nodes of a grid of distances."""

    edges: list[Array]
    """Of the cells along each distance, (E + 1,) each."""
    mean: Array
    """Of y at the nodes, (E + 1, …, dimension)."""
    covariance: Array
    """Of y at the nodes, (E + 1, …, dimension, dimension)."""


def fit_nodes(target: Target, cluster: Cluster, edges: list[Array], y: Array) -> Nodes:
    """Fits of y at all nodes of a grid of distances.

    Args:
        target: What to propose for.
        cluster: Whose coordinates y are.
        edges: Distances along each axis, (E + 1,) each.
        y: Starts at the nodes, (n, dimension).
    """
    distances = np.stack(np.meshgrid(*edges, indexing="ij"), -1).reshape(len(y), -1)
    slopes = cluster.directions(distances)  # (n, dimension, K·Z)
    shapes, size = len(target.waveform.shape), cluster.coordinates
    held = np.repeat([0.0, target.prior.amplitude[1] ** -2], [shapes, size - shapes])
    pull, energy = np.tile(held, cluster.components), float(target.statistics.energy)
    precision = math.nan

    def state(y: Array, rows: Index) -> tuple[Array, Array, Array]:
        """−ln of the likelihood and of what holds the amplitudes back, minus its slope, and its curvature."""
        nonlocal precision
        z = cluster.join(distances[rows], y)
        place, (low, high) = target.waveform.place_in_z(z), target.statistics.limits
        outside = ((place < low) | (place > high)).any(-1)
        place[:] = np.clip(place, low, high)  # the likelihood knows nothing beyond
        xi, c = (torch.from_numpy(x) for x in target.waveform.unpack(z))
        several = target.statistics.take(torch.zeros(len(y), dtype=torch.int64))
        gain, slope, matrix = (x.numpy() for x in several.equations(xi, c))
        if math.isnan(precision):
            precision = target.noise.precision(energy + float(gain.min()))
        flat, along = z.reshape(len(z), -1), slopes[rows]
        height = 0.5 * precision * gain + 0.5 * (pull * flat**2).sum(-1)
        height[outside] = math.inf  # or a step on the plateau there would never be taken back
        slope = np.einsum("ndi,ni->nd", along, precision * slope - pull * flat)
        curvature = along @ (precision * matrix + np.diag(pull)) @ along.transpose(0, 2, 1)
        return height, slope, curvature

    y, curvature = _descend(state, y)
    if not (np.einsum("nii->ni", curvature) > 0).all():
        raise np.linalg.LinAlgError("a fit of a cluster ended where the likelihood is flat")
    scale = 1 / np.sqrt(np.einsum("nii->ni", curvature))
    outer = scale[:, :, None] * scale[:, None]
    covariance = np.linalg.inv(curvature * outer) * outer
    shape = tuple(len(edge) for edge in edges)
    return Nodes(edges, y.reshape(*shape, -1), covariance.reshape(*shape, *covariance.shape[1:]))


def _descend(
    state: Callable[[Array, Index], tuple[Array, Array, Array]], y: Array
) -> tuple[Array, Array]:
    """Damped Newton steps of n independent problems: where they end, (n, d), and the curvature there, (n, d, d).

    Args:
        state: Gives heights, (m,), descents (minus the slope), (m, d), and curvatures at points (m, d) of some of them.
        y: Starts, (n, d).
    """
    rows, y = np.arange(len(y)), y.copy()
    height, descent, curvature = state(y, rows)
    damping, unit = np.full(len(y), 1e-3), np.eye(y.shape[1])
    for _ in range(STEPS):
        own = curvature[rows]
        with np.errstate(
            divide="ignore", invalid="ignore"
        ):  # a flat direction gives NaN, and its problem ends
            scale = 1 / np.sqrt(np.einsum("nii->ni", own))
            system = own * scale[:, :, None] * scale[:, None] + damping[rows, None, None] * unit
            step = np.linalg.solve(system, (descent[rows] * scale)[..., None])[..., 0] * scale
        moves = (step * descent[rows]).sum(-1) >= STILL
        rows, step = rows[moves], step[moves]  # the others have arrived
        if not len(rows):
            break
        trial = y[rows] + step
        new = state(trial, rows)
        better = new[0] <= height[rows]
        damping[rows] *= np.where(better, 0.1, 10.0)
        rows_of_better = rows[better]
        y[rows_of_better], height[rows_of_better] = trial[better], new[0][better]
        descent[rows_of_better], curvature[rows_of_better] = new[1][better], new[2][better]
    return y, curvature
