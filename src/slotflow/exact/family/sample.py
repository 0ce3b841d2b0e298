r"""Importance sampling of every layout that matters, and p(K_1, …, K_C | x) from the evidences.

A layout's proposal is a mixture: the Gaussians of its maxima, a widened copy of each for the tails, and births from the
maxima with one component less. How much of each is needed is learned from a first round of draws, whose weights say
what share of the posterior each part is responsible for; the round itself is not used. Weights and evidence are those
of `exact/importance.py`. Then

.. math:: p(K_1, …, K_C \mid x) ∝ p(K)\, Z_{K_1 … K_C} , \qquad
          p(K \mid x) = \sum_{K_1 + … + K_C = K} p(K_1, …, K_C \mid x) ,

with the prior of the classes inside Z (`target.py`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.proposals import Birth, PriorBirth, gaussian_at
from slotflow.exact.family.search import Search
from slotflow.exact.family.target import FamilyTarget
from slotflow.exact.importance import (
    Importance,
    Mixture,
    Proposal,
    importance_sample,
    inside_support,
)

__all__ = ["Sampled", "sample_layouts"]

WIDE, WIDE_SHARE = 1.6, 0.1
"""Factor on the standard deviations of the widened copies, and their share of the draws."""
BIRTH_SHARE = 0.3
"""Share of the draws that births propose, where there are any."""
PILOT, LEAST_SHARE = 400, 0.02
"""Draws from which the parts' shares are learned, and the least share of a part."""
NEGLIGIBLE = 7.0
"""Difference of Laplace's ln Z from the best at which a layout is not sampled."""
UNIMPORTANT = 4.0
"""The same at which a layout that there was no time for does not make the answer incomplete."""
FEW = 300
"""Draws of a layout that is a thousand times less probable than the best."""


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
        ranked = sorted(self.log_joint.items(), key=lambda pair: -pair[1])
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
    best = float(max(laplace.values()))
    results: dict[tuple[int, ...], Importance] = {}
    log_joint, complete = dict(laplace), True
    for counts in sorted(laplace, key=lambda c: -laplace[c]):
        behind = best - laplace[counts]
        if behind > NEGLIGIBLE:
            continue
        if time.perf_counter() > deadline and results:
            complete &= behind > UNIMPORTANT
            continue
        size = max(int(draws * math.exp(-0.5 * max(behind - 1, 0))), FEW)
        found = _sampled(search, counts, rng, size, max(deadline - time.perf_counter(), 0.5))
        if math.isfinite(found.log_evidence):
            results[counts] = found
            log_joint[counts] = found.log_evidence + math.log(prior.k_probs_full[sum(counts)])
            best = max(best, log_joint[counts])
    if not results:
        raise ValueError(
            "no set of components that the prior allows (amplitude, band, shapes, noise level) has any weight beside "
            "the data; widen its bounds."
        )
    return Sampled(results, log_joint, _k_probs(log_joint, prior.k_max), complete)


def _sampled(
    search: Search,
    counts: tuple[int, ...],
    rng: np.random.Generator,
    draws: int,
    max_seconds: float,
) -> Importance:
    """Draws of one layout."""
    target = search.target(counts)
    if not target.k:
        return importance_sample(target, _Nothing(), rng, draws=draws)
    return importance_sample(
        target,
        _adapted(target, _proposal(search, counts), rng),
        rng,
        draws=draws,
        effective=0.2 * draws,
        max_draws=3 * draws,
        max_seconds=max_seconds,
    )


class _Nothing:
    """Draws of no component."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Empty rows, (n, 0)."""
        return np.zeros((n, 0))

    def log_prob(self, z: Array) -> Array:
        """Zeros, (n,)."""
        return np.zeros(len(z))


def _adapted(target: FamilyTarget, mixture: Mixture, rng: np.random.Generator) -> Mixture:
    """The same mixture with the shares that a first round of draws asks for."""
    z, _ = inside_support(target, mixture, PILOT, rng)
    if not len(z):
        return mixture
    terms = np.stack([part.log_prob(z) for part in mixture.parts])
    terms += np.log(mixture.weights)[:, None]
    total = log_sum_exp(terms, axis=0)
    log_w = target.log_prob(z)[0] - total
    if not np.isfinite(log_w.max()):
        return mixture
    # A few draws with most of the weight say little: weights are cut at a twentieth of their sum.
    weight = np.exp(log_w - log_w.max())
    weight = np.minimum(weight / weight.sum(), 0.05)
    share = (np.exp(terms - total) * weight).sum(1)
    return Mixture(mixture.parts, list(np.maximum(share / share.sum(), LEAST_SHARE)))


def _proposal(search: Search, counts: tuple[int, ...]) -> Mixture:
    """The mixture that a layout is drawn from."""
    modes = search.found[counts]
    evidence = np.array([mode.log_evidence for mode in modes])
    share = np.exp(evidence - evidence.max())
    share /= share.sum()
    parts: list[Proposal] = []
    weights: list[float] = []
    for mode, weight in zip(modes, share, strict=True):
        parts += [gaussian_at(mode), gaussian_at(mode, WIDE)]
        weights += [float(weight) * (1 - WIDE_SHARE), float(weight) * WIDE_SHARE]
    births = _births(search, counts)
    if births:
        total = sum(weights)
        parts += [birth for birth, _ in births]
        scale = BIRTH_SHARE / (1 - BIRTH_SHARE) * total
        weights += [scale * weight for _, weight in births]
    return Mixture(parts, weights)


def _births(search: Search, counts: tuple[int, ...]) -> list[tuple[Birth, float]]:
    """Births that lead to a layout, with their probabilities, by the evidence of what they start from."""
    found: list[tuple[Birth, float]] = []
    for i, bank in enumerate(search.banks):
        fewer = tuple(k - (c == i) for c, k in enumerate(counts))
        if counts[i] and search.found.get(fewer):
            others = search.found[fewer][0]
            variance = search.variance(others.fit.rss)
            found.append((Birth(others, bank, i, variance), others.log_evidence))
            anywhere = PriorBirth(others, bank, i, variance, search.prior)
            found.append((anywhere, others.log_evidence))
    if not found:
        return []
    weights = np.exp(np.array([value for _, value in found]) - max(value for _, value in found))
    weights = np.maximum(weights / weights.sum(), 0.05)
    return [(birth, float(w)) for (birth, _), w in zip(found, weights / weights.sum(), strict=True)]


def _k_probs(log_joint: dict[tuple[int, ...], float], k_max: int) -> Array:
    """p(K | x), (K_max + 1,)."""
    logs = np.full(k_max + 1, -np.inf)
    for counts, value in log_joint.items():
        logs[sum(counts)] = np.logaddexp(logs[sum(counts)], value)
    probs: Array = np.exp(logs - logs.max())
    return np.asarray(probs / probs.sum())
