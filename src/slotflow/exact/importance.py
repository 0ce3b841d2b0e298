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
and the draws come in two rounds at least.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array, namespace
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.lineage import Lineage
from slotflow.exact.proposals.gaussian import Gaussian, Mixture, Proposal, Warped
from slotflow.exact.target import Target

__all__ = [
    "MOST_CANDIDATES",
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
    "share_of",
    "summarised",
    "tail_shape",
    "tail_size",
]

MOST_CANDIDATES = 500
"""Candidates at most for each draw that is asked for; a proposal that misses the support oftener gives fewer draws."""
NO_TAIL = 1e-12
"""Excess of a weight, in units of the largest one, that is rounding."""


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
    lineage: Lineage | None = None
    """Which draws come from one draw of an order below; None: each is its own."""

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
        draws: Draws inside the support, at least; half of them in each round if an effective number is asked for.
        effective: Effective number of draws to reach; None: one round is all.
        max_draws: Draws at most.
        max_seconds: No round starts after this time, and no further candidates are drawn.
    """
    started = time.perf_counter()
    size = draws if effective is None else -(-draws // 2)
    parts: list[tuple[Array, Array, Array]] = []
    candidates = taken = 0
    ess = 0.0
    while True:
        left = max_seconds - (time.perf_counter() - started)
        z, tried = inside_support(target, proposal, size, rng, left)
        candidates += tried
        taken += len(z)
        if len(z) == 0:
            break
        log_p, rss = target.log_prob(z)
        log_w = log_p - proposal.log_prob(z)
        parts.append((z, rss, np.where(np.isnan(log_w), -np.inf, log_w)))
        ess = min(effective_share(parts[-1][2]), effective_share(_stack(parts, 2)))
        if effective is None or taken + draws // 2 > max_draws:
            break
        if taken >= draws and ess * taken >= effective:
            break
        if time.perf_counter() - started > max_seconds:
            break
    return summarised(target, parts, candidates, ess, time.perf_counter() - started, rng)


def inside_support(
    target: Target,
    proposal: Proposal,
    n: int,
    rng: np.random.Generator,
    max_seconds: float = math.inf,
    most: int = MOST_CANDIDATES,
) -> tuple[Array, int]:
    """Draws of a proposal inside the support of the prior, (≤ n, K, 3), and the candidates this took.

    Args:
        target: Whose support it is.
        proposal: Where candidates come from.
        n: Draws to reach; there are fewer if the candidates or the time do not suffice.
        rng: Source of randomness.
        max_seconds: No further candidates are drawn after this time.
        most: Candidates at most for each draw.
    """
    started = time.perf_counter()
    found: list[Array] = []
    have = tried = 0
    size = n
    while size > 0:
        z = proposal.sample(size, rng)
        z = z[target.log_prior(z) > -np.inf]
        tried += size
        if have + len(z) > n:  # the candidates behind the last one that is kept count in proportion
            tried -= size
            tried += max(round(size * (n - have) / len(z)), 1)
            z = z[: n - have]
        found.append(z)
        have += len(z)
        if have == n or time.perf_counter() - started > max_seconds:
            break
        wanted = max(1.1 * (n - have) * tried / max(have, 1), 64)
        size = int(min(wanted, target.largest_round, most * n - tried))
    return np.concatenate(found), tried


def effective_share(log_weights: Array) -> float:
    """(Σw)²/(n Σw²) of n weights; 0 if there are none or all vanish."""
    if len(log_weights) == 0 or not np.isfinite(log_weights.max()):
        return 0.0
    return float(share_of(np.exp(log_weights - log_weights.max())))


def share_of(weights: Any) -> Any:
    """(Σw)²/(n Σw²) of weights, (..., n) to (...)."""
    return weights.sum(-1) ** 2 / (weights.shape[-1] * (weights**2).sum(-1))


def pareto_k(log_weights: Array) -> float:
    """Shape of the generalized Pareto law of the largest weights (see the module's docstring)."""
    tail = tail_size(len(log_weights))
    if tail < 5 or not np.isfinite(np.max(log_weights)):
        return math.inf
    w = np.sort(np.exp(log_weights - np.max(log_weights)))
    x = w[-tail:] - w[-tail - 1]
    x = x[x > NO_TAIL * w[-1]]
    if len(x) < 5:
        return 0.0  # all weights are equal: no tail
    return float(tail_shape(x))


def tail_size(n: int) -> int:
    """How many of n weights are the largest ones."""
    return int(min(0.2 * n, 3 * math.sqrt(n)))


def tail_shape(x: Any) -> Any:
    """Pareto k of m excesses in rising order, (..., m) to (...), drawn to 1/2 as by ten more of them."""
    xp, count = namespace(x), x.shape[-1]
    m, quartile = 30 + math.isqrt(count), x[..., int(count / 4 + 0.5) - 1, None]
    steps: Any = 1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    if isinstance(x, Tensor):
        steps = torch.as_tensor(steps, device=x.device)
    b = 1 / x[..., -1:] + steps / (3 * quartile)  # (..., m)
    b = xp.where(b == 0, 1e-300, b)
    k = xp.log1p(-b[..., None] * x[..., None, :]).mean(-1)
    profile = count * (xp.log(-b / k) - k - 1)
    share = xp.exp(profile - xp.amax(profile, -1)[..., None])
    mean = (share * b).sum(-1) / share.sum(-1)
    shape = xp.log1p(-mean[..., None] * x).mean(-1)
    return (count * shape + 5.0) / (count + 10)  # ten observations' worth of k = 1/2


def resample(weights: Array, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Systematic resampling: n indices in random order, each chosen about n w times; weights sum to about one."""
    position = (rng.random() + np.arange(n)) / n
    total = np.cumsum(weights)
    index = np.searchsorted(total, position * total[-1], side="right")
    return rng.permutation(np.minimum(index, len(weights) - 1))


def summarised(
    target: Target,
    parts: list[tuple[Array, Array, Array]],
    candidates: int,
    ess: float,
    seconds: float,
    rng: np.random.Generator,
) -> Importance:
    """What rounds of draws say.

    Args:
        target: What was drawn.
        parts: Rows, (n, d), RSS, (n,), and log weights, (n,), of each round.
        candidates: How many candidates the draws are of.
        ess: Effective share of the draws.
        seconds: Time spent.
        rng: Source of randomness for σ.
    """
    log_w = _stack(parts, 2)
    n = len(log_w)
    if n == 0 or not np.isfinite(log_w.max()):
        empty = np.zeros(0)
        return Importance(
            np.zeros((0, target.k, target.waveform.size)), empty, empty, -math.inf, math.inf, 0.0, math.inf,
            n / max(candidates, 1), seconds,
        )  # fmt: skip
    largest = float(log_w.max())
    log_w = log_w - largest  # weights far from one would not sum to one after rounding
    total = float(log_sum_exp(log_w))
    share = n / candidates
    whole = effective_share(log_w)
    variance = (1 - share) / n + (1 / whole - 1) / n
    z, rss = _stack(parts, 0), _stack(parts, 1)
    return Importance(
        theta=target.to_theta(z),
        sigma=target.sample_sigma(z, rss, rng),
        log_weights=log_w - total,
        log_evidence=largest + total - math.log(n) + math.log(share),
        log_evidence_error=math.sqrt(variance),
        ess=ess,
        pareto_k=pareto_k(log_w),
        share=share,
        seconds=seconds,
    )


def _stack(parts: list[tuple[Array, Array, Array]], column: int) -> Array:
    return np.concatenate([part[column] for part in parts]) if parts else np.zeros(0)
