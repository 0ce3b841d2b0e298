r"""Where to put the nodes of a noise's unknown shape, and what prior mass each stands for.

The marginal likelihood ∫ L(s) p(s) ds over shape parameters s is a sum over nodes. The nodes are chosen from the data,
their weights from the prior alone: what data say of a node is left to the likelihood, which knows the components as
well.

- **Up to two parameters**: a lattice along the axes of the posterior's curvature, `STEP` standard deviations apart, as
  far as the posterior density is above e^{−`DEPTH`} of its maximum. For a Gaussian the sum over a lattice of step h sd
  is wrong by 2 e^{−2π²/h²}, which is 3e-4 for 1.5.
- **More of them**: `DRAWS` points of a low-discrepancy sequence under the Gaussian of that curvature, widened a little,
  each with the weight p/q.

Several versions of the data may be given, such as with and without a doubtful line: the lattice covers all of them.
Where the time of the call is over (`slotflow.core.budget`), the search for the maximum ends where it is, and the
lattice with the points that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import optimize, special

from slotflow.core.arrays import Array
from slotflow.core.budget import time_left

__all__ = ["Nodes", "nodes_of"]

STEP = 1.5
"""Standard deviations between neighbours of the lattice."""
DEPTH = 7.0
"""Nodes of a lattice have a posterior density above e^{−DEPTH} of the largest."""
MOST_NODES = 32
"""Nodes of a lattice, the most plausible ones if there are more."""
DRAWS = 16
"""Points of the low-discrepancy sequence."""
WIDENED = 1.2
"""How much wider their Gaussian is than the posterior's curvature says."""
LATTICE_UP_TO = 2
"""Parameters up to which a lattice is used."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Points of parameter space with the prior mass that each stands for, the most plausible one first."""

    points: Array
    """(nodes, d)."""
    log_weights: Array
    """(nodes,)."""
    log_likelihoods: Array
    """Of each version of the data at each node, (nodes, versions)."""

    def log_evidence(self) -> Array:
        """Logarithm of the sum over the nodes of weight times likelihood, (versions,)."""
        total: Array = special.logsumexp(self.log_weights[:, None] + self.log_likelihoods, axis=0)
        return total


def nodes_of(
    log_likelihood: Callable[[Array], Array],
    log_prior: Callable[[Array], float],
    starts: Sequence[Array],
    scale: Array,
) -> Nodes:
    """Nodes and weights for parameters with a given prior.

    Args:
        log_likelihood: Of one point (d,) for each version of the data, (versions,).
        log_prior: Logarithm of the normalized prior density of a point; −inf where it vanishes.
        starts: A point near the maximum of each version.
        scale: Rough standard deviation of each parameter, (d,).
    """
    modes = [_maximum(log_likelihood, log_prior, i, x, scale) for i, x in enumerate(starts)]
    axes = _axes(lambda x: float(log_likelihood(x)[0]) + log_prior(x), modes[0], scale)
    if len(scale) <= LATTICE_UP_TO:
        return _lattice(log_likelihood, log_prior, modes, axes)
    return _draws(log_likelihood, log_prior, modes[0], axes)


def _maximum(
    log_likelihood: Callable[[Array], Array],
    log_prior: Callable[[Array], float],
    version: int,
    start: Array,
    scale: Array,
) -> Array:
    """The most plausible point for one version of the data."""

    def cost(x: Array) -> float:
        prior = log_prior(start + scale * x)
        if not math.isfinite(prior) or time_left() < 0:
            return 1e30
        return -float(log_likelihood(start + scale * x)[version]) - prior

    d = len(start)
    simplex = np.concatenate([np.zeros((1, d)), np.eye(d)])
    options: Any = {"initial_simplex": simplex, "xatol": 0.02, "fatol": 0.01, "maxiter": 80 * d}
    found = optimize.minimize(cost, np.zeros(d), method="Nelder-Mead", options=options)
    best: Array = start + scale * found.x
    return best


def _axes(log_posterior: Callable[[Array], float], mode: Array, scale: Array) -> Array:
    """Columns that reach one standard deviation along the axes of the posterior's curvature, (d, d)."""
    d, middle = len(mode), log_posterior(mode)
    curvature = np.zeros((d, d))

    def at(*moves: tuple[int, int]) -> float:
        x = mode.copy()
        for axis, sign in moves:
            x[axis] += sign * scale[axis]
        value = log_posterior(x)
        return value if math.isfinite(value) else middle - 2.0

    for i in range(d):
        curvature[i, i] = 2 * middle - at((i, 1)) - at((i, -1))
        for j in range(i):
            mixed = (
                at((i, 1), (j, -1))
                + at((i, -1), (j, 1))
                - at((i, 1), (j, 1))
                - at((i, -1), (j, -1))
            )
            curvature[i, j] = curvature[j, i] = 0.25 * mixed
    values, vectors = np.linalg.eigh(curvature)
    axes: Array = scale[:, None] * vectors / np.sqrt(np.clip(values, 1 / 16, 1e4))
    return axes


def _lattice(
    log_likelihood: Callable[[Array], Array],
    log_prior: Callable[[Array], float],
    modes: Sequence[Array],
    axes: Array,
) -> Nodes:
    """Lattice points reached from the modes through neighbours that are plausible."""
    d, origin, step = len(axes), modes[0], STEP * axes
    known: dict[tuple[int, ...], tuple[float, Array]] = {}

    def visit(place: tuple[int, ...]) -> Array:
        if place not in known:
            x = origin + step @ np.array(place, dtype=np.float64)
            prior = log_prior(x)
            values = log_likelihood(x) if math.isfinite(prior) else np.full(len(modes), -np.inf)
            known[place] = prior, values
        prior, values = known[place]
        return prior + values

    tops = np.array([visit_at(log_likelihood, log_prior, x)[i] for i, x in enumerate(modes)])
    inverse = np.linalg.inv(step)
    queue = [tuple(int(i) for i in np.rint(inverse @ (x - origin))) for x in modes]
    seen = set(queue)
    while queue and len(known) < 16 * MOST_NODES and (time_left() > 0 or not known):
        place = queue.pop()
        if not (visit(place) > tops - DEPTH).any():
            continue
        for move in product((-1, 0, 1), repeat=d):
            beside = tuple(a + b for a, b in zip(place, move, strict=True))
            if beside not in seen:
                seen.add(beside)
                queue.append(beside)
    plausible = {p: float((visit(p) - tops).max()) for p in known}
    chosen = sorted((p for p in plausible if plausible[p] > -DEPTH), key=lambda p: -plausible[p])
    chosen = sorted(chosen[:MOST_NODES] or [(0,) * d], key=lambda p: -float(visit(p)[0]))
    cell = math.log(abs(float(np.linalg.det(step))))
    return Nodes(
        np.array([origin + step @ np.array(p, dtype=np.float64) for p in chosen]),
        np.array([known[p][0] + cell for p in chosen]),
        np.array([known[p][1] for p in chosen]),
    )


def visit_at(
    log_likelihood: Callable[[Array], Array], log_prior: Callable[[Array], float], x: Array
) -> Array:
    """Logarithm of the posterior density of each version at a point, (versions,)."""
    return log_likelihood(x) + log_prior(x)


def _draws(
    log_likelihood: Callable[[Array], Array],
    log_prior: Callable[[Array], float],
    mode: Array,
    axes: Array,
) -> Nodes:
    """Points under a Gaussian around the mode."""
    d = len(mode)
    from scipy.stats import qmc  # takes long to import

    unit = qmc.Sobol(d, scramble=True, rng=0).random(DRAWS)
    normal = special.ndtri(np.clip(unit, 1e-9, 1 - 1e-9))
    points = mode + WIDENED * normal @ axes.T
    volume = math.log(abs(float(np.linalg.det(WIDENED * axes)))) + 0.5 * d * math.log(2 * math.pi)
    log_q = -0.5 * (normal**2).sum(1) - volume
    priors = np.array([log_prior(x) for x in points])
    inside = np.isfinite(priors)
    weights = priors[inside] - log_q[inside] - math.log(DRAWS)
    values = np.array([log_likelihood(x) for x in points[inside]])
    order = np.argsort(-(weights + values[:, 0]))
    return Nodes(points[inside][order], weights[order], values[order])
