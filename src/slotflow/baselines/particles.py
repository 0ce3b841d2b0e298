r"""Tempered sequential Monte Carlo for one K, from the prior to the posterior.

Particles start as draws of the prior p(Θ | K) and follow p_τ ∝ p(Θ | K) exp g_τ(RSS) to the posterior, where g_τ is
ln L with a limited slope (`annealing.py`). At each step

1. the next τ is the largest whose weights exp(g_τ' − g_τ) keep a given share of the particles effective;
2. the mean weight is a factor of the evidence, since the prior is normalized;
3. the particles are resampled by their weights and moved by Markov chains that leave p_τ invariant.

**Islands.** Particles live in groups of equal size that resample within themselves; all islands share the path and the
sizes of the steps. Each island gives its own estimate Z_i: ln Z is the logarithm of their mean, and their scatter gives
its standard error. Draws of an island count with the weight Z_i.

**Moves**, for all particles at once, in the coordinates z of the waveform, (…, Z):

- steps of one tone or of all tones at the scale of the Fisher information at this τ (`moves.py`), whose size adapts to
  the share of the steps that is accepted;
- differences of two particles from the other half of the same island, for two neighbouring tones or for all: they have
  the shape of the population, such as the ridge of an unresolved pair;
- one tone drawn anew at the peaks of the periodogram, given the others (`redraw.py`): it may go anywhere, so that a
  particle on a wrong peak can leave it.

Tones are kept in the order of their places. Steps and births treat all tones alike, so the tones may be sorted after
every such move; a difference that would change their order is rejected.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from slotflow.baselines.annealing import Annealing
from slotflow.baselines.moves import RANDOM_WALK_SCALE, FisherSteps, StatePrior
from slotflow.baselines.redraw import Redraw
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.exact.importance import resample
from slotflow.signal.prior import Prior

__all__ = ["ParticleOptions", "Tempered", "tempered"]

FINAL_SWEEPS = 3
"""Number of sweeps at the end of the path, in units of the number at any other point."""
TARGET_ACCEPTANCE = 0.25
"""Share of accepted proposals that the sizes of the steps adapt to."""
SMALLEST_ISLAND = 8
"""Particles that an island needs: four in each half."""
LARGEST_VARIANCE = 700.0
"""Variance of ln Z beyond which its exponential overflows; such a Z is worthless in any case."""


@dataclass(frozen=True)
class ParticleOptions:
    """Sizes of a tempered sampler, and when it stops."""

    particles: int = 1000
    """Number of particles for each K."""
    islands: int = 8
    """Number of groups of particles, whose scatter gives the standard error."""
    sweeps: int = 3
    """Number of rounds of all moves at each point of the path."""
    keep: float = 0.8
    """Share of the particles that stay effective from one point of the path to the next."""
    negligible: float = 1e-6
    """An order counts as negligible if p(K) Z_K is below this share of the largest."""
    patience: int = 1
    """Number of negligible orders in succession, beyond the most probable one, after which no larger K is tried."""
    max_seconds: float = math.inf
    """Time in seconds after which the current K is given up and no other is begun."""

    def __post_init__(self) -> None:
        if self.islands < 2 or self.particles < SMALLEST_ISLAND * self.islands:
            raise ValueError(
                f"ParticleOptions expects at least two islands of {SMALLEST_ISLAND} particles, received "
                f"{self.particles} particles on {self.islands} island(s); ask for more particles or fewer islands."
            )
        if self.sweeps < 1 or self.patience < 1:
            raise ValueError(
                f"ParticleOptions expects sweeps >= 1 and patience >= 1, received {self.sweeps} and {self.patience}."
            )
        if not (0 < self.keep < 1 and 0 <= self.negligible < 1 and self.max_seconds > 0):
            raise ValueError(
                f"ParticleOptions expects 0 < keep < 1, 0 <= negligible < 1 and max_seconds > 0, received {self.keep}, "
                f"{self.negligible} and {self.max_seconds}."
            )


@dataclass(frozen=True)
class Tempered:
    """Particles at the end of the path and what they say about the evidence."""

    z: Array
    """Coordinates of the tones, (N, K, Z), in the order of their places, island after island."""
    rss: Array
    """Residual sum of squares, (N,)."""
    log_likelihood: Array
    """Of each particle, (N,)."""
    log_z: Array
    """ln Z of each island, (islands,)."""
    temperatures: int = 0
    """Number of points of the path after the prior."""
    evaluations: int = 0
    """Number of likelihoods that were computed."""
    acceptance: dict[str, float] = field(default_factory=dict)
    """Share of each move's proposals that were accepted at the end."""

    @property
    def log_evidence(self) -> float:
        """Ln Z, the logarithm of the mean over the islands."""
        return float(logsumexp(self.log_z)) - math.log(len(self.log_z))

    @property
    def weights(self) -> Array:
        """Weights of the islands, (islands,), which sum to one."""
        weights: Array = np.exp(self.log_z - logsumexp(self.log_z))
        return weights

    @property
    def error(self) -> float:
        """Standard error of ln Z from the islands' scatter, the larger of two.

        One is the standard error of Z over Z. The distribution of Z_i is skew, though: a few islands seldom show its
        upper tail, and that error is then too small. The other assumes that ln Z_i is Gaussian with the observed
        variance v: the mean of n such Z_i has the relative variance (e^v − 1)/n, and the variance of its logarithm is
        about ln(1 + (e^v − 1)/n).
        """
        islands = len(self.log_z)
        scatter = max(islands * float((self.weights**2).sum()) - 1, 0.0) / (islands - 1)
        variance = min(float(self.log_z.var(ddof=1)), LARGEST_VARIANCE)
        return math.sqrt(max(scatter, math.log1p(math.expm1(variance) / islands)))


def tempered(
    table: Tabulated,
    prior: Prior,
    k: int,
    redraw: Redraw,
    options: ParticleOptions,
    seed: int,
    *,
    deadline: float = math.inf,
    report: Callable[[float], None] = lambda level: None,
) -> Tempered | None:
    """Draws of p(Θ | x, K) and the evidence of K tones.

    Args:
        table: The likelihood.
        prior: The prior.
        k: Number of tones.
        redraw: Proposals of single tones.
        options: Sizes of the sampler.
        seed: Seed of all random numbers.
        deadline: Value of `time.perf_counter` at which to give up.
        report: Called with the noise level at each point of the path.

    Returns:
        The result; None if the time ran out.
    """
    size = options.particles // options.islands
    n = size * options.islands
    if k == 0:
        rss = np.full(n, table.energy)
        log_l = table.log_likelihood(rss)
        z = np.zeros((n, 0, table.waveform.coordinates))
        return Tempered(z, rss, log_l, log_l[: options.islands], evaluations=1)
    rng = np.random.default_rng([seed, k])
    cloud = _Cloud(table, prior, k, redraw, (options.islands, size), rng)
    path = Annealing(table)
    tau, temperatures = 0.0, 0
    log_z = np.full(options.islands, path(0.0, cloud.rss[:1])[0])  # a constant
    while tau < math.inf:
        before = path(tau, cloud.rss)
        tau = path.next(tau, cloud.rss, options.keep)
        log_w = (path(tau, cloud.rss) - before).reshape(options.islands, size)
        total = logsumexp(log_w, axis=1)
        log_z += total - math.log(size)
        chosen = [resample(np.exp(w - t), size, rng) for w, t in zip(log_w, total, strict=True)]
        cloud.take(np.concatenate([size * i + rows for i, rows in enumerate(chosen)]))
        temperatures += 1
        for _ in range(options.sweeps * (1 if tau < math.inf else FINAL_SWEEPS)):
            if time.perf_counter() > deadline:
                return None
            level = path.level(tau, cloud.rss)
            report(level)
            cloud.sweep(functools.partial(path, tau), level)
    log_l = table.log_likelihood(cloud.rss)
    return Tempered(
        cloud.z, cloud.rss, log_l, log_z, temperatures, cloud.evaluations, cloud.rates()
    )  # fmt: skip


class _Cloud:
    """The particles and their moves."""

    def __init__(
        self,
        table: Tabulated,
        prior: Prior,
        k: int,
        redraw: Redraw,
        shape: tuple[int, int],
        rng: np.random.Generator,
    ) -> None:
        self.table, self.k, self.rng = table, k, rng
        self.waveform = table.waveform
        self.states = StatePrior(replace(prior, k_min=k, k_max=k, k_probs=None))
        n = math.prod(shape)
        self.z, self.places = self.states.sample(
            n, int(rng.integers(2**31)), table.statistics.reference
        )
        self.log_prior = self.states(self.z, self.places)
        self.rss = table.rss(self.z)
        self.evaluations = n
        self.steps = {
            "one": FisherSteps(table, prior, redraw.sigma, every=False),
            "all": FisherSteps(table, prior, redraw.sigma, every=True),
        }
        self.redraw = redraw
        self.scale = {"two": 1.0, "together": 1.0}
        self.tally: dict[str, list[float]] = {}
        side = np.arange(n).reshape(shape)
        self.halves = side[:, ::2], side[:, 1::2]  # (islands, half) each

    def take(self, index: NDArray[np.int64]) -> None:
        """Keeps the particles with some indices, (n,), which may repeat."""
        self.z, self.rss = self.z[index], self.rss[index]
        self.log_prior, self.tally = self.log_prior[index], {}

    def rates(self) -> dict[str, float]:
        """Acceptance of each move since the last resampling."""
        return {name: float(np.mean(found)) for name, found in self.tally.items()}

    def sweep(self, g: Callable[[Array], Array], level: float) -> None:
        """One round of all moves at a point of the path.

        Args:
            g: Log density as a function of RSS, without the prior.
            level: Noise level that the density amounts to.
        """
        self.g = g
        every, beta = np.arange(len(self.z)), np.array([(self.redraw.sigma / level) ** 2])
        for name in ["one"] * self.k + ["all"] * (self.k > 1):
            move = self.steps[name]
            new, hastings = move(self.z[None], self.places[None], beta, self.rng)
            rate = self._accept(name, every, new[0], hastings[0])
            move.scale = np.clip(move.scale * math.exp(rate - TARGET_ACCEPTANCE), 1e-3, 10.0)
        for _ in range(self.k):
            self._accept("anew", every, *self.redraw(self.z, level, self.rng))
        for name in ("two", "together") if self.k > 2 else ("together",):
            for moved, others in (self.halves, self.halves[::-1]):
                rows = moved.ravel()
                new = self.z[rows] + self._difference(name, moved.shape, self.z[others])
                sorted_still = (np.diff(self.waveform.place_in_z(new), axis=-1) > 0).all(-1)
                rate = self._accept(name, rows, new, np.where(sorted_still, 0.0, -np.inf))
                self.scale[name] = min(
                    max(self.scale[name] * math.exp(rate - TARGET_ACCEPTANCE), 0.02), 2.0
                )

    def _difference(self, name: str, shape: tuple[int, ...], others: Array) -> Array:
        """Steps of the particles of one half, (n, K, Z), from those of the other, (islands, half, K, Z)."""
        islands, half = others.shape[:2]
        a = self.rng.integers(half, size=shape)
        b = (a + self.rng.integers(1, half, size=shape)) % half
        island = np.arange(islands)[:, None]
        step = (others[island, a] - others[island, b]).reshape(-1, *others.shape[2:])
        count = 2 if name == "two" else self.k
        first = self.rng.integers(self.k - count + 1, size=(len(step), 1))
        index = np.arange(self.k)
        step *= ((index >= first) & (index < first + count))[..., None]
        dimension = self.waveform.coordinates * count
        # A difference of two particles has twice the variance of one.
        size = self.scale[name] * RANDOM_WALK_SCALE / math.sqrt(2 * dimension)
        steps: Array = size * step
        return steps

    def _accept(self, name: str, rows: NDArray[np.int64], new: Array, hastings: Array) -> float:
        """Makes a Metropolis–Hastings step of some particles; returns the share of proposals that were accepted."""
        order = np.argsort(self.waveform.place_in_z(new), -1)
        new = np.take_along_axis(new, order[..., None], 1)
        log_prior = self.states(new, self.places[rows])
        good = np.flatnonzero(np.isfinite(log_prior) & np.isfinite(hastings))
        rss = self.table.rss(new[good])
        self.evaluations += len(good)
        at = rows[good]
        gain = log_prior[good] - self.log_prior[at] + hastings[good]
        gain += self.g(rss) - self.g(self.rss[at])
        taken = np.log(self.rng.random(len(good))) < gain
        at, good = at[taken], good[taken]
        self.z[at], self.rss[at] = new[good], rss[taken]
        self.log_prior[at] = log_prior[good]
        rate = float(taken.sum() / len(rows))
        self.tally.setdefault(name, []).append(rate)
        return rate
