r"""Ln Z_K by nested sampling of a likelihood that is written out.

Nothing of the exact step is in here: no fit, no closed form, no Gaussian, no importance weight. The unit cube is mapped
to (Θ, σ) by the inverse of the prior's distribution function, and the noise level is sampled, not integrated.

**Places.** With W the band's width and s the smallest separation, the largest of K sorted uniforms on [0, W − (K − 1)s]
is distributed as u^{1/K}, the next one below it as u^{1/(K−1)} of that, and so on; the i-th is then shifted by i·s. One
of the K! labellings is looked at, at K! times its density, so that Z_K is that of the prior itself.

**Nested sampling** (Skilling 2006), many points at a time. Of N live points drawn uniformly from {L > L*}, the r with
the lowest likelihood leave one after the other; when N − j are alive, the prior's mass above the next one shrinks by a
factor t with the law Beta(N − j, 1). Then r survivors, chosen at random, walk inside the new {L > L*} and fill the
ranks. A walk is a chain of Metropolis steps along differences of two other survivors (ter Braak 2006), which know the
shape of the set, several maxima included; their length follows the share that is accepted. With X_i the mass after i
departures,

.. math:: Z = \sum_i L_i (X_{i-1} - X_i) + X_{end} \overline{L} .

The error of a run is the standard deviation of ln Z over many draws of all the shrinkages t. It does not know of sets
{L > L*} that fall apart: how many points a part holds is then left to chance, and two runs may differ by many such
errors, as they do for two tones that the data do not resolve. `repeated_evidence` takes the mean of Z over several runs
and the error from their scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from slotflow.core.arrays import Array
from slotflow.signal.prior import Prior
from slotflow.studies.measures.parameters import AMPLITUDE, PHASE, PLACE, SIZE

__all__ = [
    "LogLikelihood",
    "NestedSampling",
    "from_cube",
    "nested_evidence",
    "nested_integral",
    "repeated_evidence",
]

LogLikelihood = Callable[[Array, Array], Array]
"""Of components, (n, K, P), and noise levels, (n,); shape (n,)."""
REPLICAS = 200
"""Draws of the shrinkages behind the error."""
ACCEPTED = 0.3
"""Share of the steps that the scale aims at."""
FAR_STEP = 10
"""Every tenth step is a whole difference of two survivors."""
JITTER = 1e-6
"""Lets a walk leave the lattice of differences."""
SMALLEST_STEP, LARGEST_STEP = 1e-3, 2.0
"""Bounds of the walks' scale, in units of the best one for a Gaussian."""


@dataclass(frozen=True)
class NestedSampling:
    """Sizes of a run."""

    live: int = 2000
    """N, live points."""
    leaving: int = 200
    """r, points that leave at a time."""
    steps: int = 80
    """Steps of a walk."""
    tolerance: float = 1e-3
    """The run ends when the live points hold less than this share of Z."""


def nested_evidence(
    log_likelihood: LogLikelihood,
    prior: Prior,
    k: int,
    seed: int = 0,
    options: NestedSampling | None = None,
) -> tuple[float, float]:
    """Ln Z_K and its standard error.

    Args:
        log_likelihood: Of components and noise levels.
        prior: Of Θ and σ.
        k: Number of components.
        seed: Of everything random.
        options: Sizes.
    """

    def of_cube(u: Array) -> Array:
        return log_likelihood(*from_cube(u, prior, k))

    size = SIZE * k + (prior.known_sigma is None)
    if size == 0:
        return float(of_cube(np.zeros((1, 0)))[0]), 0.0
    circular = np.zeros(size, dtype=bool)
    circular[PHASE : SIZE * k : SIZE] = True
    rng = np.random.default_rng(seed)
    return nested_integral(of_cube, circular, rng, options or NestedSampling())


def repeated_evidence(
    log_likelihood: LogLikelihood,
    prior: Prior,
    k: int,
    seeds: Sequence[int],
    options: NestedSampling | None = None,
) -> tuple[float, float]:
    """Ln Z_K by several runs, and its standard error by what they state or by their scatter, whichever is larger.

    Args:
        log_likelihood: Of components and noise levels.
        prior: Of Θ and σ.
        k: Number of components.
        seeds: One for each run, at least two.
        options: Sizes of each.
    """
    found = [nested_evidence(log_likelihood, prior, k, seed, options) for seed in seeds]
    values, errors = np.array(found).T
    mean = float(logsumexp(values)) - float(np.log(len(values)))
    scatter = max(float(values.std(ddof=1)), float(np.sqrt((errors**2).mean())))
    return mean, scatter / float(np.sqrt(len(values)))


def from_cube(u: Array, prior: Prior, k: int) -> tuple[Array, Array]:
    """Components, (n, K, P), sorted by place, and noise levels, (n,), of points of the unit cube.

    Args:
        u: Points, (n, P·K) where σ is known and (n, P·K + 1) where it is not.
        prior: The prior.
        k: Number of components.
    """
    each = u[:, : SIZE * k].reshape(len(u), k, SIZE)
    theta = np.empty_like(each)
    (low, high), gap = prior.frequency, prior.min_separation
    room = np.full(len(u), high - low - (k - 1) * gap)
    for i in range(k - 1, -1, -1):
        room = room * each[:, i, PLACE] ** (1 / (i + 1))
        theta[:, i, PLACE] = low + room + i * gap
    smallest, largest = prior.amplitude
    share = each[..., AMPLITUDE]
    if prior.amplitude_law == "loguniform":
        theta[..., AMPLITUDE] = smallest * (largest / smallest) ** share
    else:
        theta[..., AMPLITUDE] = smallest + (largest - smallest) * share
    theta[..., PHASE] = 2 * np.pi * each[..., PHASE]
    lowest, highest = prior.sigma
    if prior.known_sigma is not None:
        return theta, np.full(len(u), lowest)
    return theta, lowest + (highest - lowest) * u[:, -1]


def nested_integral(
    log_likelihood: Callable[[Array], Array],
    circular: NDArray[np.bool_],
    rng: np.random.Generator,
    options: NestedSampling,
) -> tuple[float, float]:
    """Logarithm of the mean of a likelihood over the unit cube, and its standard error.

    Args:
        log_likelihood: Of points of the cube, (n, d); shape (n,).
        circular: Which coordinates are angles, (d,).
        rng: Source of randomness.
        options: Sizes.
    """
    walks = _Walks(log_likelihood, circular, rng, options.steps)
    points = rng.random((options.live, len(circular)))
    values = log_likelihood(points)
    departed: list[Array] = []
    log_mass, log_z = 0.0, -np.inf
    alive = options.live - np.arange(options.leaving)
    while values.max() + log_mass > log_z + np.log(options.tolerance):
        order = np.argsort(values)
        leaving, staying = order[: options.leaving], order[options.leaving :]
        departed.append(values[leaving])
        widths = log_mass + _log_widths(-1 / alive)
        log_z = float(np.logaddexp(log_z, logsumexp(departed[-1] + widths)))
        log_mass -= float((1 / alive).sum())
        starts = rng.choice(staying, options.leaving)
        threshold = float(values[leaving[-1]])
        points[leaving], values[leaving] = walks(
            points[starts], values[starts], points[staying], threshold
        )
    return _integral(np.concatenate(departed), values, options, rng)


class _Walks:
    """Random walks inside {L > L*}, whose scale follows the share of steps that were accepted.

    Args:
        log_likelihood: Of points of the cube, (n, d); shape (n,).
        circular: Which coordinates are angles, (d,).
        rng: Source of randomness.
        steps: Steps of a walk.
    """

    def __init__(
        self,
        log_likelihood: Callable[[Array], Array],
        circular: NDArray[np.bool_],
        rng: np.random.Generator,
        steps: int,
    ) -> None:
        self.log_likelihood, self.circular, self.rng, self.steps = (
            log_likelihood,
            circular,
            rng,
            steps,
        )
        self.scale = 1.0

    def __call__(
        self, here: Array, value: Array, survivors: Array, threshold: float
    ) -> tuple[Array, Array]:
        """Where r walks end, (r, d), and the log-likelihoods there, (r,).

        Args:
            here: Where they start, (r, d).
            value: Log-likelihoods there, (r,).
            survivors: Points whose differences are steps, (n, d).
            threshold: The smallest log-likelihood allowed.
        """
        accepted, tried = 0, 0
        for step in range(self.steps):
            far = step % FAR_STEP == FAR_STEP - 1  # from one maximum to another
            length = 1.0 if far else self.scale * 2.38 / np.sqrt(2 * here.shape[1])
            a, b = self.rng.integers(len(survivors), size=(2, len(here)))
            there = here + length * (survivors[a] - survivors[b])
            there += JITTER * self.rng.standard_normal(there.shape)
            there[:, self.circular] %= 1.0
            inside = ((there >= 0) & (there <= 1)).all(-1)
            new = np.full(len(here), -np.inf)
            if inside.any():
                new[inside] = self.log_likelihood(there[inside])
            better = new > threshold
            here = np.where(better[:, None], there, here)
            value = np.where(better, new, value)
            if not far:
                accepted, tried = accepted + int(better.sum()), tried + len(better)
        change = np.exp(accepted / tried - ACCEPTED)
        self.scale = float(np.clip(self.scale * change, SMALLEST_STEP, LARGEST_STEP))
        return here, value


def _log_widths(log_shrinkage: Array) -> Array:
    """Logarithms of the shells X_{i−1} − X_i between departures, X₀ = 1, same shape."""
    before = np.concatenate([[0.0], np.cumsum(log_shrinkage)[:-1]])
    widths: Array = before + np.log1p(-np.exp(log_shrinkage))
    return widths


def _integral(
    departed: Array, living: Array, options: NestedSampling, rng: np.random.Generator
) -> tuple[float, float]:
    """Ln Z of the departed and the last live points, with its scatter under the law of the shrinkages."""
    rounds = len(departed) // options.leaving
    alive = np.tile(options.live - np.arange(options.leaving), rounds)
    mean_rest = float(logsumexp(living)) - np.log(len(living))
    found = []
    for replica in range(REPLICAS + 1):
        # The first one has the expected logarithms.
        shrinkage = -1 / alive if replica == 0 else np.log(rng.random(len(alive))) / alive
        parts = departed + _log_widths(shrinkage)
        found.append(np.logaddexp(logsumexp(parts), mean_rest + shrinkage.sum()))
    return float(found[0]), float(np.std(found[1:]))
