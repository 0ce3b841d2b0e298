r"""Importance sampling of p(Θ, σ | x, K): exact weights, evidence with its error, and how far both can be trusted.

Candidates z come from a proposal of density q and are cut to the prior's support S before the likelihood is looked at.
Of N candidates n lie in S; with w = p̃(z)/q(z),

.. math:: \hat Z = \frac nN \, \bar w, \qquad
          \frac{\mathrm{var} \hat Z}{\hat Z^2} = \frac{1 - n/N}{n} + \frac{\mathrm{var}\, w}{n \bar w^2} ,

so the proposal's mass inside S enters log Z and its error, and need not be known. The effective share of the draws is
ESS = (Σw)²/(n Σw²).

**Pareto k.** The largest weights are described by a generalized Pareto law, whose shape k says how many moments the
weights have: below 0.5 the variance exists, above 0.7 neither the estimate nor its error can be trusted. k is
estimated as by Zhang and Stephens (2009): with b = −k/s for the scale s, the likelihood is maximal in k at k(b) = mean
ln(1 − b x), and b is its mean under the profile likelihood over a grid that the data's quartile sets.

**Enough.** Draws are added in rounds until the effective number is reached or the budget is spent. A first round can
miss the rare large weights, so the ESS that is reported is the smaller one of all draws and of the last round alone,
and a run that meets its aim at once is asked for a second, fresh round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from slotflow.exact.target import Array, Target, to_theta

__all__ = [
    "Gaussian",
    "Importance",
    "Mixture",
    "Proposal",
    "Warped",
    "effective_share",
    "importance_sample",
    "inside_support",
    "pareto_k",
    "resample",
]

LARGEST_ROUND = 200_000
"""Candidates that are drawn at a time at most."""
SMALLEST_SHARE = 1e-4
"""Share of candidates inside the support below which a proposal is given up."""


class Proposal(Protocol):
    """A normalized density of z = (f, Re c, Im c) of K tones; draws outside the support are allowed."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""

    def log_prob(self, z: Array) -> Array:
        """Log density at sorted z, (n, K, 3); shape (n,)."""


class Gaussian:
    """A Gaussian of z.

    Args:
        mean: (3K,).
        covariance: (3K, 3K).
        widen: Factor on the standard deviations, one number or (3K,).
    """

    def __init__(self, mean: Array, covariance: Array, widen: float | Array = 1.0) -> None:
        self.mean = np.asarray(mean, dtype=np.float64)
        d = len(self.mean)
        stretch = np.broadcast_to(np.asarray(widen, dtype=np.float64), (d,))
        covariance = covariance * stretch[:, None] * stretch
        self.scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        unit = covariance / (self.scale[:, None] * self.scale)
        self.factor = np.linalg.cholesky(unit) if d else unit
        self.normalizer = (
            0.5 * d * math.log(2 * math.pi)
            + float(np.log(np.diag(self.factor)).sum())
            + float(np.log(self.scale).sum())
        )

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        d = len(self.mean)
        return (self.mean + (rng.standard_normal((n, d)) @ self.factor.T) * self.scale).reshape(
            n, d // 3, 3
        )

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        return self.log_prob_flat(z.reshape(len(z), len(self.mean)))

    def log_prob_flat(self, z: Array, shift: float | Array = 0.0) -> Array:
        """Log density of (n, 3K) with the mean moved by `shift`."""
        if len(self.mean) == 0:
            return np.zeros(len(z))
        unit = (z - self.mean - shift) / self.scale
        white = solve_triangular(self.factor, unit.T, lower=True, check_finite=False)
        return -0.5 * np.einsum("dn,dn->n", white, white) - self.normalizer


class Warped:
    """A Gaussian of coordinates in which a tone's posterior is straighter than in z.

    The error of a frequency goes as 1/A, and a tone's phase is best known at a time of its own, not at mid-time. With
    f̂ and ĉ of the maximum, y = (f − f̂) A/Â and c* = c e^{iθ(f − f̂)}, θ such that f and the phase of c* do not
    correlate; |d(y, c*)/dz| = A/Â.

    Args:
        mean: Maximum of p̃ Π A^{−1} in z, (3K,).
        covariance: Inverse curvature there, (3K, 3K).
        widen: Factor on the standard deviations, one number or (3K,).
    """

    def __init__(self, mean: Array, covariance: Array, widen: float | Array = 1.0) -> None:
        centre = mean.reshape(-1, 3)
        self.frequency, self.amplitude = centre[:, 0], np.hypot(centre[:, 1], centre[:, 2])
        rows = 3 * np.arange(len(centre))
        variance = np.maximum(covariance[rows, rows], 1e-300)
        tangent = (
            centre[:, 1] * covariance[rows, rows + 2] - centre[:, 2] * covariance[rows, rows + 1]
        ) / self.amplitude
        self.theta = -tangent / (self.amplitude * variance)
        straight = np.eye(len(mean))
        straight[rows + 1, rows] = -self.theta * centre[:, 2]
        straight[rows + 2, rows] = self.theta * centre[:, 1]
        start = mean.copy()
        start[rows] = 0.0
        self.gaussian = Gaussian(start, straight @ covariance @ straight.T, widen)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3)."""
        x = self.gaussian.sample(n, rng)
        amplitude = np.hypot(x[..., 1], x[..., 2])
        x[..., 0] *= self.amplitude / np.maximum(amplitude, 1e-300)
        x = self._turn(x, -1.0)
        x[..., 0] += self.frequency
        return x

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        amplitude = np.hypot(z[..., 1], z[..., 2])
        x = z.copy()
        x[..., 0] -= self.frequency
        x = self._turn(x, 1.0)
        x[..., 0] *= amplitude / self.amplitude
        with np.errstate(divide="ignore"):
            return self.gaussian.log_prob(x) + np.log(amplitude / self.amplitude).sum(-1)

    def _turn(self, x: Array, sign: float) -> Array:
        """Turns c by ±θ (f − f̂), in place; x holds f − f̂ in its first column."""
        angle = sign * self.theta * x[..., 0]
        cosine, sine = np.cos(angle), np.sin(angle)
        re, im = x[..., 1].copy(), x[..., 2]
        x[..., 1] = re * cosine - im * sine
        x[..., 2] = re * sine + im * cosine
        return x


class Mixture:
    """Several proposals with given probabilities.

    Args:
        parts: The proposals.
        weights: Their probabilities, normalized here; equal if None.
    """

    def __init__(self, parts: Sequence[Proposal], weights: Sequence[float] | None = None) -> None:
        if not parts:
            raise ValueError("expected at least one proposal for a mixture, received none.")
        self.parts = list(parts)
        share = np.ones(len(self.parts)) if weights is None else np.asarray(weights, np.float64)
        self.weights = share / share.sum()

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, K, 3), in random order."""
        counts = rng.multinomial(n, self.weights)
        drawn = [part.sample(int(m), rng) for part, m in zip(self.parts, counts, strict=True) if m]
        if len(drawn) == 1:
            return drawn[0]
        return np.concatenate(drawn)[rng.permutation(n)]

    def log_prob(self, z: Array) -> Array:
        """Log density, (n,)."""
        if len(self.parts) == 1:
            return self.parts[0].log_prob(z)
        terms = np.stack([part.log_prob(z) for part in self.parts])
        density: Array = logsumexp(terms + np.log(self.weights)[:, None], axis=0)
        return density


@dataclass(frozen=True, eq=False)
class Importance:
    """Weighted draws of p(Θ, σ | x, K) and what they say about Z."""

    theta: Array
    """(A, φ in [0, 2π), f), sorted by frequency, (n, K, 3)."""
    sigma: Array
    """Noise level, (n,)."""
    log_weights: Array
    """Logarithms of weights that sum to one, (n,)."""
    log_evidence: float
    """ln p(x | K); −inf if no draw has any weight."""
    log_evidence_error: float
    """Its standard error."""
    ess: float
    """Effective share of the draws, 0 to 1."""
    pareto_k: float
    """Shape of the weights' tail; inf if there are too few draws."""
    share: float
    """Share of the candidates inside the prior's support."""
    seconds: float
    """Time spent."""
    method: str = "importance"
    """How the draws were made: "importance" or "tempering"."""

    @property
    def sound(self) -> bool:
        """Whether weights and evidence can be trusted by their own diagnostics."""
        return math.isfinite(self.log_evidence) and self.pareto_k < 0.7

    @property
    def effective(self) -> float:
        """Number of independent draws that the weighted ones are worth."""
        return self.ess * len(self.log_weights)

    def resample(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Equally weighted draws in random order: theta, (n, K, 3), and sigma, (n,)."""
        if len(self.log_weights) == 0:
            raise ValueError("there are no draws of this order to choose from; ask for another K.")
        index = resample(np.exp(self.log_weights), n, rng)
        return self.theta[index], self.sigma[index]


def importance_sample(
    target: Target,
    proposal: Proposal,
    rng: np.random.Generator,
    *,
    draws: int = 2000,
    effective: float | None = None,
    max_draws: int = 20_000,
    max_seconds: float = 10.0,
) -> Importance:
    """Weighted draws of the target.

    Args:
        target: What to draw from.
        proposal: Where candidates come from.
        rng: Source of randomness.
        draws: Draws inside the support of each round.
        effective: Effective number of draws to reach; None: one round is all.
        max_draws: Draws at most.
        max_seconds: No round starts after this time.
    """
    started = time.perf_counter()
    parts: list[tuple[Array, Array, Array]] = []
    candidates = taken = 0
    ess = 0.0
    while True:
        z, tried = inside_support(target, proposal, draws, rng)
        candidates += tried
        taken += len(z)
        if len(z) == 0:
            break
        log_p, rss = target.log_prob(z)
        log_w = log_p - proposal.log_prob(z)
        parts.append((z, rss, np.where(np.isnan(log_w), -np.inf, log_w)))
        ess = min(effective_share(parts[-1][2]), effective_share(_stack(parts, 2)))
        if effective is None or taken + draws > max_draws:
            break
        if len(parts) > 1 and ess * taken >= effective:
            break
        if time.perf_counter() - started > max_seconds:
            break
    return _summary(target, parts, candidates, ess, time.perf_counter() - started, rng)


def inside_support(
    target: Target, proposal: Proposal, n: int, rng: np.random.Generator
) -> tuple[Array, int]:
    """About n draws of a proposal inside the support of the prior, (≤ n, K, 3), and the candidates this took."""
    found: list[Array] = []
    have = tried = 0
    size = n
    while have < n:
        z = proposal.sample(size, rng)
        z = z[target.log_prior(z) > -np.inf]
        tried += size
        if have + len(z) > n:  # the candidates behind the last one that is kept count in proportion
            tried -= size
            tried += max(round(size * (n - have) / len(z)), 1)
            z = z[: n - have]
        found.append(z)
        have += len(z)
        if have < SMALLEST_SHARE * tried and tried >= 2 / SMALLEST_SHARE:
            break
        share = max(have, 1) / tried
        size = int(min(max(1.1 * (n - have) / share, 64), LARGEST_ROUND))
    return np.concatenate(found), tried


def effective_share(log_weights: Array) -> float:
    """(Σw)²/(n Σw²) of n weights; 0 if there are none or all vanish."""
    if len(log_weights) == 0 or not np.isfinite(log_weights.max()):
        return 0.0
    w = np.exp(log_weights - log_weights.max())
    return float(w.sum() ** 2 / (len(w) * (w**2).sum()))


def pareto_k(log_weights: Array) -> float:
    """Shape of the generalized Pareto law of the largest weights (see the module's docstring)."""
    n = len(log_weights)
    tail = int(min(0.2 * n, 3 * math.sqrt(n)))
    if tail < 5 or not np.isfinite(np.max(log_weights)):
        return math.inf
    w = np.sort(np.exp(log_weights - np.max(log_weights)))
    x = w[-tail:] - w[-tail - 1]
    x = x[x > 1e-12 * w[-1]]
    if len(x) < 5:
        return 0.0  # all weights are equal: no tail
    m, quartile = 30 + math.isqrt(len(x)), x[int(len(x) / 4 + 0.5) - 1]
    b = 1 / x[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)
    b = b[b != 0]
    k = np.log1p(-b[:, None] * x).mean(-1)
    profile = len(x) * (np.log(-b / k) - k - 1)
    mean = float((np.exp(profile - logsumexp(profile)) * b).sum())
    shape = float(np.log1p(-mean * x).mean())
    return (len(x) * shape + 5.0) / (len(x) + 10)  # ten observations' worth of k = 1/2


def resample(weights: Array, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Systematic resampling: n indices in random order, each chosen about n w times; weights sum to about one."""
    position = (rng.random() + np.arange(n)) / n
    total = np.cumsum(weights)
    index = np.searchsorted(total, position * total[-1], side="right")
    return rng.permutation(np.minimum(index, len(weights) - 1))


def _summary(
    target: Target,
    parts: list[tuple[Array, Array, Array]],
    candidates: int,
    ess: float,
    seconds: float,
    rng: np.random.Generator,
) -> Importance:
    """Turns the rounds' z, RSS and log weights into a result."""
    log_w = _stack(parts, 2)
    n = len(log_w)
    if n == 0 or not np.isfinite(log_w.max()):
        empty = np.zeros(0)
        return Importance(
            np.zeros((0, target.k, 3)), empty, empty, -math.inf, math.inf, 0.0, math.inf,
            n / max(candidates, 1), seconds,
        )  # fmt: skip
    total = float(logsumexp(log_w))
    share = n / candidates
    whole = effective_share(log_w)
    variance = (1 - share) / n + (1 / whole - 1) / n
    rss = _stack(parts, 1)
    return Importance(
        theta=to_theta(_stack(parts, 0), target.statistics.reference),
        sigma=target.noise.sample(rss, rng),
        log_weights=log_w - total,
        log_evidence=total - math.log(n) + math.log(share),
        log_evidence_error=math.sqrt(variance),
        ess=ess,
        pareto_k=pareto_k(log_w),
        share=share,
        seconds=seconds,
    )


def _stack(parts: list[tuple[Array, Array, Array]], column: int) -> Array:
    return np.concatenate([part[column] for part in parts]) if parts else np.zeros(0)
