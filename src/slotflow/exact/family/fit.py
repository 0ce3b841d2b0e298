r"""From a start to a maximum of the likelihood, for components of any classes: damped Gauss–Newton on compressed data.

The objective is RSS with a weak pull on the amplitudes,

.. math:: S(z) = |y - m(z)|^2 + ρ \sum |c|^2 , \qquad ρ = s^2 / A_{hi}^2 ,

s² being the noise's variance: it matters only where two components nearly cancel, whose amplitudes would otherwise grow
without end. Shapes stay within the prior's bounds: one that a step would carry out stops at its bound, and is held
there while the slope points outwards. A step moves no shape by more than its own scale (`Waveform.scales`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.family.target import FamilyTarget

__all__ = ["Fit", "climb", "linear_amplitudes"]

STEPS = 40
"""Steps at most."""
ENOUGH = 1e-2
"""Change of S, in units of the noise's variance, below which a maximum is reached."""
FIRST_DAMPING, LARGEST_DAMPING = 1e-3, 1e6
"""Damping of the first step, and the one at which a fit gives up."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A maximum of the likelihood."""

    z: Array
    """Coordinates, (d,)."""
    rss: float
    """Residual sum of squares."""
    left: Array
    """Residual of the compressed data, (r,)."""


def linear_amplitudes(target: FamilyTarget, z: Array, variance: float) -> Array:
    """A row, (d,), with the best amplitudes at its shapes.

    Args:
        target: Gives data and layout.
        z: Coordinates whose amplitudes do not matter, (d,).
        variance: Of the noise, s².
    """
    data, pairs = target.compressed[0], target.layout.amplitude_pairs()
    seen = data.seen(target.layout.basis(z, data.times))  # (J, r)
    design = np.concatenate([seen.real, -seen.imag])  # by Re c, then by Im c
    gram = design @ design.T
    gram[np.diag_indices(len(gram))] += variance / target.prior.amplitude[1] ** 2
    c = np.linalg.solve(gram, design @ data.data)
    found = z.copy()
    columns = [real for (real, _), _ in pairs] + [imag for (_, imag), _ in pairs]
    found[columns] = c
    return found


def climb(target: FamilyTarget, z: Array, variance: float, duration: float) -> Fit:
    """The maximum of the likelihood that a start leads to.

    Args:
        target: Gives data, layout and bounds.
        z: Where to start, (d,).
        variance: Of the noise, s², about.
        duration: Length of the record in seconds.
    """
    problem = _Problem(target, variance, duration)
    z = problem.inside(z)
    left = problem.left(z)
    value, damping = problem.value(z, left), FIRST_DAMPING
    for _ in range(STEPS):
        matrix, slope = problem.system(z, left)
        gained = 0.0
        while damping < LARGEST_DAMPING:
            trial = problem.inside(z + problem.step(z, matrix, slope, damping))
            rest = problem.left(trial)
            new = problem.value(trial, rest)
            if new < value:
                gained = value - new
                z, left, value, damping = trial, rest, new, max(damping / 8, 1e-9)
                break
            damping *= 6
        if gained < ENOUGH * variance:
            break
    data = target.compressed[0]
    ordered = target.layout.row(target.layout.parts(z))
    return Fit(ordered, data.beside + float(left @ left), left)


class _Problem:
    """What is minimized, with its derivatives."""

    def __init__(self, target: FamilyTarget, variance: float, duration: float) -> None:
        self.data, self.layout = target.compressed[0], target.layout
        bounds, size = target.shape_bounds(), target.layout.size
        self.low, self.high = np.full(size, -np.inf), np.full(size, np.inf)
        self.ridge, self.reach = (
            np.full(size, variance / target.prior.amplitude[1] ** 2),
            np.full(size, np.inf),
        )
        for column, member, d in self.layout.shape_columns():
            self.low[column], self.high[column] = bounds[column]
            self.ridge[column], self.reach[column] = 0.0, member.scales(duration)[d]

    def inside(self, z: Array) -> Array:
        """The same with shapes within their bounds."""
        return np.clip(z, self.low, self.high)

    def left(self, z: Array) -> Array:
        """Residual of the compressed data, (r,)."""
        model = self.layout.model(z[None], self.data.times)[0]
        left: Array = self.data.data - self.data.shown(model)
        return left

    def value(self, z: Array, left: Array) -> float:
        """S, up to a constant."""
        return float(left @ left + self.ridge @ z**2)

    def system(self, z: Array, left: Array) -> tuple[Array, Array]:
        """Gauss–Newton matrix, (d, d), and slope, (d,)."""
        jacobian = self.data.shown(self.layout.slopes(z, self.data.times))
        return jacobian @ jacobian.T + np.diag(self.ridge), jacobian @ left - self.ridge * z

    def step(self, z: Array, matrix: Array, slope: Array, damping: float) -> Array:
        """A damped step, shapes at most by their scales; what is held at a bound does not move."""
        held = ((z <= self.low) & (slope < 0)) | ((z >= self.high) & (slope > 0))
        free = np.flatnonzero(~held)
        scale = np.sqrt(np.maximum(np.diag(matrix)[free], 1e-300))
        unit = matrix[np.ix_(free, free)] / (scale[:, None] * scale)
        unit[np.diag_indices(len(free))] += damping
        step = np.zeros(len(z))
        step[free] = np.linalg.solve(unit, slope[free] / scale) / scale
        largest = float((np.abs(step) / self.reach).max(initial=0.0))
        return step / max(largest, 1.0)
