r"""Tempered sequential Monte Carlo for one K, where importance sampling breaks.

Particles start as draws of a normalized density q (cut to the prior's support, of which they find the mass) and follow
the path p_β ∝ q^{1−β} p̃^β from β = 0 to 1. At each step the weights (p̃/q)^{Δβ} are given, Δβ being the largest that
keeps a given share of the particles effective; the particles are resampled and then moved by Markov chains that leave
p_β as it is. The product of the mean weights estimates Z; because q is normalized, no prior volume has to be crossed.

**Islands.** Particles live in groups of equal size that resample within themselves and share the temperatures only.
Each gives an estimate Z_i of its own: ln Z is that of their mean, and their scatter its standard error. Draws of an
island count with the weight Z_i.

**Effective draws.** Particles of an island have few ancestors in common with those of another, and many with each
other, so that the weights of the islands say little of what their draws are worth. With the mean m_g of a coordinate of
z in each of G islands of weights S_g, the mean m of all has the variance

.. math:: \mathrm{var}\, m = \frac{s_2}{s_2 - 2 s_3 + s_2^2} \sum_g S_g^2 (m_g - m)^2 , \qquad s_i = \sum_g S_g^i

(an island of large weight draws m towards itself; of equal weights the factor is G/(G − 1)), and v/var m draws are
effective, v being the variance of single draws; var m/v is averaged over the coordinates. Moves (`moves.py`) take
differences of particles of all islands, and few islands seldom see what is rare: the number is still too large by a
factor of up to a few where modes hardly mix, and the error of ln Z too small.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance, Proposal, inside_support, resample
from slotflow.exact.lineage import Lineage
from slotflow.exact.moves import Moves, State
from slotflow.exact.proposals.births import BirthTable
from slotflow.exact.target import Target

__all__ = ["Tempering", "tempered"]

KEEP = 0.7
"""Share of the particles that stay effective from one temperature to the next."""
DISAGREE = 0.3
"""Effective share of the islands below which one of them has found what the others have not."""


@dataclass(frozen=True)
class Tempering:
    """How tempered sampling is run."""

    particles: int = 1024
    """Particles in all."""
    islands: int = 8
    """Groups of particles."""
    sweeps: int = 3
    """Rounds of all moves at each temperature; as many again, twice, at the end."""
    max_seconds: float = 20.0
    """After this time the remaining temperatures are crossed in one step, which the result's error shows."""


def tempered(
    target: Target,
    start: Proposal,
    rng: np.random.Generator,
    options: Tempering | None = None,
    table: BirthTable | None = None,
) -> Importance:
    """Draws of the target and its evidence.

    Args:
        target: What to draw from.
        start: Normalized density of the particles' start.
        rng: Source of randomness.
        options: Sizes and budget.
        table: Where single tones may be drawn anew from; None: no such moves.

    Returns:
        As importance sampling gives it, with method "tempering"; `ess` is what the islands' agreement on evidence and
        means leaves, and `pareto_k` is 0 if all temperatures were visited within the budget and the islands' evidences
        agree, else inf.
    """
    options = Tempering() if options is None else options
    began = time.perf_counter()
    size = options.particles // options.islands
    n = size * options.islands
    z, tried = inside_support(target, start, n, rng, options.max_seconds)
    if len(z) < n:
        return _nothing(target, len(z) / max(tried, 1), time.perf_counter() - began)
    log_p, rss = target.log_prob(z)
    state = State(z, log_p, start.log_prob(z), rss)
    log_z = np.zeros(options.islands)
    beta, on_time = 0.0, True
    moves = Moves(target, start, table, rng)
    while beta < 1:
        ratio = state.log_p - state.log_q
        on_time = on_time and time.perf_counter() - began < options.max_seconds
        step = _step(ratio, 1 - beta, KEEP) if on_time else 1 - beta
        beta = 1.0 if beta + step > 1 - 1e-9 else beta + step
        log_w = (step * ratio).reshape(options.islands, size)
        level = log_sum_exp(log_w, axis=1)
        log_z += level - math.log(size)
        index = np.concatenate(
            [
                i * size + resample(np.exp(log_w[i] - level[i]), size, rng)
                for i in range(options.islands)
            ]
        )
        state = state.take(index)
        for _ in range(options.sweeps * (3 if beta == 1 else 1)):
            if time.perf_counter() - began > 1.5 * options.max_seconds:
                break
            moves.sweep(state, beta)
    total = float(log_sum_exp(log_z)) - math.log(options.islands)
    log_z = log_z - log_z.max()  # weights far from one would not sum to one after rounding
    log_share = log_z - log_sum_exp(log_z)
    share = np.exp(log_share)
    agreement = float(1 / (options.islands * (share**2).sum()))
    spread = math.sqrt(max(1 / agreement - 1, 0.0) / (options.islands - 1))
    inside = n / tried
    order, island = rng.permutation(n), np.repeat(np.arange(options.islands), size)
    return Importance(
        theta=target.statistics.to_theta(state.z[order]),
        sigma=target.sample_sigma(state.z[order], state.rss[order], rng),
        log_weights=(log_share[island] - math.log(size))[order],
        log_evidence=total + math.log(inside),
        log_evidence_error=math.hypot(spread, math.sqrt((1 - inside) / n)),
        ess=min(agreement, _independent(state.z.reshape(options.islands, size, -1), share)),
        pareto_k=0.0 if on_time and agreement > DISAGREE else math.inf,
        share=inside,
        seconds=time.perf_counter() - began,
        method="tempering",
        lineage=Lineage(island[order], 1 / options.islands),
    )


def _independent(x: Array, share: Array) -> float:
    """Effective share of draws by how far the means of their islands scatter (see the module's docstring).

    Args:
        x: Coordinates, (G, n, d).
        share: Weight of each island, (G,).
    """
    islands, n = x.shape[:2]
    if islands < 2:
        return 1.0
    means = x.mean(1)  # (G, d)
    mean = share @ means
    spread = share @ ((x - mean) ** 2).mean(1)
    two, three = float((share**2).sum()), float((share**3).sum())
    factor = two / max(two - 2 * three + two**2, 1e-12)
    scatter = factor * (share**2 @ (means - mean) ** 2)
    moving = spread > 0
    worth = float(np.mean(scatter[moving] / spread[moving])) if moving.any() else 0.0
    return float(1 / max(worth * islands * n, 1.0))


def _step(ratio: Array, left: float, keep: float) -> float:
    """Largest Δβ ≤ left that keeps a share of the particles effective."""

    def effective(step: float) -> float:
        w = np.exp(step * (ratio - ratio.max()))
        return float(w.sum() ** 2 / (len(w) * (w**2).sum()))

    if effective(left) >= keep:
        return left
    low, high = 0.0, left
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(middle) >= keep else (low, middle)
    return max(low, 1e-9 * left)


def _nothing(target: Target, share: float, seconds: float) -> Importance:
    """A start that never meets the prior."""
    empty = np.zeros(0)
    return Importance(
        np.zeros((0, target.k, target.waveform.size)), empty, empty, -math.inf, math.inf, 0.0, math.inf, share, seconds,
        "tempering",
    )  # fmt: skip
