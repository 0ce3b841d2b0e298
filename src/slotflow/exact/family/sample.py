r"""Importance sampling of every layout that matters, and p(K_1, …, K_C | x) from the evidences.

Each layout is drawn from a mixture of its own (`mixture`), and weights and evidence are those of `exact/importance.py`.
Then

.. math:: p(K_1, …, K_C \mid x) ∝ p(K)\, Z_{K_1 … K_C} , \qquad
          p(K \mid x) = \sum_{K_1 + … + K_C = K} p(K_1, …, K_C \mid x) ,

with the prior of the classes inside Z (`target.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.mixture import Further, prepared
from slotflow.exact.family.proposals import Births, gaussian_at
from slotflow.exact.family.search import Search
from slotflow.exact.importance import Importance, importance_sample
from slotflow.signal.prior import Prior

__all__ = ["NothingFits", "Sampled", "sample_layout", "sample_layouts"]

PILOT, LEAST_PILOT = 500, 200
"""Draws from which the shares of a mixture's parts are learned, at most and at least."""
NEGLIGIBLE = 5.0
"""Difference of the estimated ln Z from the best at which a layout is not sampled."""
MINOR = 2.0
"""The same at which a layout gets no further draws where the first ones are poor."""
UNIMPORTANT = 4.0
"""The same at which a layout that there was no time for does not make the answer incomplete."""
FEW = 300
"""Draws of a layout that is a thousand times less probable than the best."""


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
    prior = search.prior
    laplace = {
        counts: float(log_sum_exp(np.array([mode.log_evidence for mode in modes])))
        for counts, modes in search.found.items()
        if modes and prior.k_probs_full[sum(counts)] > 0
    }
    known = dict(laplace)  # a worth is too rough an estimate of the best
    best = float(max(known.values()))
    further = Further(search, rng)
    layouts = set(laplace) | _grown(laplace, best, prior)
    births = {counts: further.to(counts) for counts in sorted(layouts) if any(counts)}
    order = sorted(laplace | births, key=lambda c: (-laplace.get(c, -math.inf), sum(c)))
    for counts, every in births.items():
        laplace[counts] = max([laplace.get(counts, -math.inf), *(worth for _, worth in every)])
    results: dict[tuple[int, ...], Importance] = {}
    log_joint, complete = dict(laplace), True
    while order:
        skipped = []
        for counts in order:
            behind = best - laplace[counts]
            if behind > NEGLIGIBLE:
                skipped.append(counts)
                continue
            seconds = deadline - time.perf_counter()
            if seconds < 0 and results:
                complete &= behind > UNIMPORTANT
                continue
            size = max(int(draws * math.exp(-0.5 * max(behind - 1, 0))), FEW)
            rounds = 3 if behind < MINOR else 1
            found = _sampled(search, counts, births.get(counts, []), rng, size, seconds, rounds)
            if math.isfinite(found.log_evidence):
                results[counts] = found
                log_joint[counts] = found.log_evidence + math.log(prior.k_probs_full[sum(counts)])
                known[counts] = log_joint[counts]
                best = max(best, log_joint[counts])
            else:
                complete &= behind > UNIMPORTANT
        # Components that do not show may matter by their births alone, and so may one more of them.
        drawn = {counts: log_joint[counts] for counts in results}
        best = max(
            known.values()
        )  # draws may say less than Laplace did, and what was skipped may count
        order = sorted(_grown(drawn, best, prior) - set(births))
        for counts in order:
            births[counts] = further.to(counts)
            laplace[counts] = max([-math.inf, *(worth for _, worth in births[counts])])
            log_joint[counts] = laplace[counts]
        order += [counts for counts in skipped if best - laplace[counts] <= NEGLIGIBLE]
    if not results or max(log_joint[counts] for counts in results) < best - NEGLIGIBLE:
        # What matters could not be drawn in time: its maximum stands in, and the verdict says so.
        counts = max(search.found, key=lambda c: log_joint.get(c, -math.inf))
        results[counts], complete = _by_maximum(search, counts, rng), False
    return Sampled(results, log_joint, _k_probs(log_joint, results, prior.k_max), complete)


def _grown(
    laplace: Mapping[tuple[int, ...], float], best: float, prior: Prior
) -> set[tuple[int, ...]]:
    """Layouts of one more component than those that matter: it may be one that shows no maximum."""
    found = set()
    for counts, value in laplace.items():
        if value > best - NEGLIGIBLE and sum(counts) < prior.k_max:
            for i in range(len(counts)):
                grown = tuple(k + (c == i) for c, k in enumerate(counts))
                if prior.k_probs_full[sum(grown)] > 0:
                    found.add(grown)
    return found


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
    births = Further(search, rng).to(counts) if sum(counts) else []
    return _sampled(search, counts, births, rng, draws, max_seconds)


def _sampled(
    search: Search,
    counts: tuple[int, ...],
    births: Sequence[tuple[Births, float]],
    rng: np.random.Generator,
    draws: int,
    max_seconds: float,
    rounds: int = 3,
) -> Importance:
    """Draws of one layout, up to as many rounds of them."""
    target, began = search.target(counts), time.perf_counter()
    max_seconds = max(max_seconds, 0.5)
    first = min(max(draws // 4, LEAST_PILOT), PILOT)
    proposal = prepared(search, counts, births, rng, first, 0.3 * max_seconds)
    max_seconds -= time.perf_counter() - began
    return importance_sample(
        target,
        proposal,
        rng,
        draws=draws,
        effective=0.2 * draws if target.k else None,
        max_draws=rounds * draws,
        max_seconds=max_seconds,
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
