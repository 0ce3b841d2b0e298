r"""Importance sampling of every layout that matters, and p(K_1, …, K_C | x) from the evidences.

Each layout is drawn from a mixture of its own (`mixture`), and weights and evidence are those of `exact/importance.py`:
first all that may matter, a little (`reached`), then those that turn out to, by their probabilities. Then

.. math:: p(K_1, …, K_C \mid x) ∝ p(K)\, Z_{K_1 … K_C} , \qquad
          p(K \mid x) = \sum_{K_1 + … + K_C = K} p(K_1, …, K_C \mid x) ,

with the prior of the classes inside Z (`target.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.mixture import Further, prepared
from slotflow.exact.family.proposals import gaussian_at
from slotflow.exact.family.reached import NEGLIGIBLE, ONE_ROUND, Reached, first_draws
from slotflow.exact.family.search import Search
from slotflow.exact.family.target import FamilyTarget
from slotflow.exact.importance import Importance, Mixture, importance_sample

__all__ = ["NothingFits", "Sampled", "sample_layout", "sample_layouts"]

FIRST_ROUNDS = 0.6
"""Share of the time that first rounds may take."""
ENOUGH = 4.5
"""Difference of ln p(K) Z from the best from which on the first round is enough."""
MINOR = 2.0
"""The same at which a layout gets no further draws where the first ones are poor."""
FEW = 300
"""Draws of a layout at least."""


class NothingFits(ValueError):
    """Nothing that the prior allows has any weight beside the data."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Draws and evidences of all layouts that matter."""

    results: dict[tuple[int, ...], Importance]
    """Weighted draws of each layout."""
    log_joint: dict[tuple[int, ...], float]
    """Logarithm of p(K) Z of each layout; that of Laplace where it was not sampled."""
    k_probs: Array
    """p(K | x), (K_max + 1,)."""
    complete: bool = True
    """Whether every layout that matters was sampled."""

    def counts_probs(self) -> dict[tuple[int, ...], float]:
        """p(K_1, …, K_C | x) of each layout, the most probable first."""
        total = float(log_sum_exp(np.array(list(self.log_joint.values()))))
        known = [pair for pair in self.log_joint.items() if math.isfinite(pair[1])]
        ranked = sorted(known, key=lambda pair: -pair[1])
        return {counts: math.exp(value - total) for counts, value in ranked}


def sample_layouts(
    search: Search, rng: np.random.Generator, draws: int = 2000, max_seconds: float = 10.0
) -> Sampled:
    """Samples every layout that matters.

    Args:
        search: With its maxima.
        rng: Source of randomness.
        draws: Weighted draws of the most probable layout.
        max_seconds: No further layout is begun after this time; one is always sampled.
    """
    deadline = time.perf_counter() + max_seconds
    reached = Reached(search, rng, draws)
    reached.begin(FIRST_ROUNDS * max_seconds)
    results = {counts: found.first for counts, found in reached.rounds.items()}
    known, is_first = dict(reached.known), True
    for counts in sorted(results, key=lambda counts: -known[counts]):
        seconds = deadline - time.perf_counter()
        if seconds < 0 and not is_first:
            break
        found, expected = reached.rounds[counts], known[counts]
        if found.poor:
            expected = max(expected, reached.promised[counts])
        behind = reached.best - expected
        if behind < ENOUGH:
            size = max(int(draws * math.exp(-0.5 * max(behind - 1, 0))), FEW)
            rounds = 3 if behind < MINOR else 1
            result = _sampled(search.target(counts), found.mixture, rng, size, seconds, rounds)
            if math.isfinite(result.log_evidence):
                results[counts] = result
                known[counts] = reached.log_joint(counts, result)
            is_first = False
    best, complete = max(known.values()), reached.complete
    log_joint = {c: known[c] if c in results else reached.expected(c) for c in reached.promised}
    if not results or max(known[counts] for counts in results) < best - NEGLIGIBLE:
        # What matters could not be drawn in time: its maximum stands in, and the verdict says so.
        counts = max(search.found, key=lambda c: log_joint.get(c, -math.inf))
        results[counts], complete = _by_maximum(search, counts, rng), False
    return Sampled(results, log_joint, _k_probs(log_joint, results, search.prior.k_max), complete)


def sample_layout(
    search: Search,
    counts: tuple[int, ...],
    rng: np.random.Generator,
    draws: int = 2000,
    max_seconds: float = 10.0,
) -> Importance:
    """Draws of one layout, however probable it is.

    Args:
        search: With its maxima.
        counts: Numbers of components of each class.
        rng: Source of randomness.
        draws: Weighted draws.
        max_seconds: Time budget.
    """
    began, births = time.perf_counter(), Further(search, rng).to(counts)
    found = prepared(search, counts, births, rng, first_draws(draws), ONE_ROUND * max_seconds)
    left = max_seconds - (time.perf_counter() - began)
    return _sampled(search.target(counts), found.mixture, rng, draws, left)


def _sampled(
    target: FamilyTarget,
    mixture: Mixture,
    rng: np.random.Generator,
    draws: int,
    max_seconds: float,
    rounds: int = 3,
) -> Importance:
    """Draws of one layout, up to as many rounds of them."""
    return importance_sample(
        target,
        mixture,
        rng,
        draws=draws,
        effective=0.2 * draws if target.k else None,
        max_draws=rounds * draws,
        max_seconds=max(max_seconds, 0.5),
    )


def _by_maximum(search: Search, counts: tuple[int, ...], rng: np.random.Generator) -> Importance:
    """Unweighted draws of the Gaussian of the best maximum, cut to the prior's bounds, with Laplace's evidence."""
    modes = search.settled(counts)
    if not modes:
        low, high = search.prior.amplitude
        raise NothingFits(
            "no set of components that the prior allows has any weight beside the data: its amplitudes are "
            f"{low:g} to {high:g}, and the data show up to {search.largest_amplitude:.3g}; widen these bounds, or "
            "those of band, shapes and noise level."
        )
    target, mode = search.target(counts), modes[0]
    z = np.stack([target.clipped(row) for row in gaussian_at(mode).sample(FEW, rng)])
    z = np.concatenate([target.clipped(mode.fit.z)[None], z])
    z = z[target.layout.is_sorted(z)]
    log_z = mode.log_evidence - math.log(search.prior.k_probs_full[sum(counts)])
    return Importance(
        theta=target.to_theta(z),
        sigma=target.sample_sigma(z, target.rss(z), rng),
        log_weights=np.full(len(z), -math.log(len(z))),
        log_evidence=log_z,
        log_evidence_error=1.0,
        ess=0.0,
        pareto_k=math.inf,
        share=1.0,
        seconds=0.0,
        method="laplace",
    )


def _k_probs(
    log_joint: dict[tuple[int, ...], float], drawn: Container[tuple[int, ...]], k_max: int
) -> Array:
    """p(K | x), (K_max + 1,), of all K of which some layout was drawn."""
    logs, has_draws = np.full(k_max + 1, -np.inf), np.zeros(k_max + 1, dtype=bool)
    for counts, value in log_joint.items():
        logs[sum(counts)] = np.logaddexp(logs[sum(counts)], value)
        has_draws[sum(counts)] |= counts in drawn
    logs[~has_draws] = -np.inf
    probs: Array = np.exp(logs - logs.max())
    return np.asarray(probs / probs.sum())
