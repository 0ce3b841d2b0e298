r"""What a layout is drawn from: Gaussians around its maxima and births, each by what it is worth.

A layout's proposal is a mixture: the Gaussians of its maxima, a widened copy of each for the tails, and births of one
or two components beside the maxima without them. Where the data show no component, the maxima lie outside the prior's
bounds and only births are inside: then all K components are born beside none. How much of each part is needed is
learned from a first round of draws, whose weights say what share of the posterior each part is responsible for. The
round is an estimate of the evidence as well; its draws are used where no further ones are made.

What births are worth is an estimate of the layout's evidence too: the many places of a component that hardly shows
weigh more than the maximum among them. With the worth B of the law of a newcomer (`newcomers`), K components of C
classes, n_c of them new in each class,

.. math:: Z_K ≈ Z_{K-n}\, \frac{K!}{(K - n)!\, C^n \prod_c n_c!} \prod_{new} B ,

if the others stand where their maximum is. Others that hardly show stand anywhere, and a row then is the same whichever
of its components are the new ones: the formula counts it many times. But Z_K is not above L Π B times the prior's mass
of the layout, K!/(C^K Π K_c!), L being the largest likelihood of the others inside the prior. So the smaller one of the
two counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.newcomers import Newcomer, Response
from slotflow.exact.family.proposals import Births, gaussian_at
from slotflow.exact.family.search import Search
from slotflow.exact.family.target import FamilyTarget
from slotflow.exact.importance import (
    Importance,
    Mixture,
    Proposal,
    effective_share,
    inside_support,
    summarised,
)

__all__ = ["Further", "Prepared", "prepared"]

WIDE, WIDE_SHARE = 1.6, 0.1
"""Factor on the standard deviations of the widened copies, and their share of the draws."""
MOST_NEW, HOPELESS = 2, 12.0
"""Components that are born at once as a rule, and how far below the best ln Z a maximum gives birth to none."""
POOR, STARTS = 0.1, 3
"""Effective share of the first draws below which the best of them are starts of further fits, and how many."""
GOOD = 0.5
"""Effective share of draws of births beside no component above which no others are needed."""
TRIALS = 100
"""Draws that tell what share of a Gaussian lies inside the prior's bounds."""
NO_SHARE, LEAST_SHARE = 1e-3, 0.02
"""Share below which a part is left out, and the least share of the others."""
FIRST_SHARE = 0.03
"""Least share of a part in the first round."""


class Further:
    """Births that lead to each layout, with what they are worth.

    Args:
        search: With its maxima.
        rng: Source of randomness.
    """

    def __init__(self, search: Search, rng: np.random.Generator) -> None:
        self.search, self.rng = search, rng
        self._banks = [bank.finer() for bank in search.banks]
        self._known: dict[tuple[int, ...], list[Newcomer]] = {}

    def _laws(self, counts: tuple[int, ...]) -> list[Newcomer]:
        """The law of a further component of each class beside the best maximum of a layout."""
        if counts not in self._known:
            search, mode = self.search, self.search.settled(counts)[0]
            response = Response(mode, search.nodes[0], search.variance(mode.fit.rss))
            self._known[counts] = [
                Newcomer(bank, response, search.prior, self.rng) for bank in self._banks
            ]
        return self._known[counts]

    def to(self, counts: tuple[int, ...]) -> list[tuple[Births, float]]:
        """Births of components that lead to a layout, each with about the logarithm of its p(K) Z."""
        parts = [c for c in self.search.found if self._hopeful(c) and _is_part(c, counts)]
        # Of many that do not show, all are new beside those that do, or beside none.
        best = max(parts, key=self._laplace, default=None)
        near = [c for c in parts if sum(counts) - sum(c) <= MOST_NEW or c == best or not sum(c)]
        return [self._from(c, counts) for c in sorted(near, key=lambda c: (-sum(c), c))]

    def _laplace(self, counts: tuple[int, ...]) -> float:
        """Laplace's p(K) Z of the best maximum of a layout."""
        return self.search.found[counts][0].log_evidence

    def _hopeful(self, counts: tuple[int, ...]) -> bool:
        """Whether there is a maximum of a layout that is not much worse than the best of all."""
        has_any = bool(self.search.found.get(counts))
        return has_any and self._laplace(counts) >= self.search.best - HOPELESS

    def _from(self, fewer: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Births, float]:
        """Births that lead from one layout to another, with about the logarithm of its p(K) Z."""
        pairs = enumerate(zip(counts, fewer, strict=True))
        new = tuple(i for i, (k, had) in pairs for _ in range(k - had))
        laws, mode = self._laws(fewer), self.search.settled(fewer)[0]
        log_p = math.log(max(self.search.prior.k_probs_full[sum(counts)], 1e-300))
        before = mode.log_evidence - self.search.log_p(sum(fewer))
        likelihood = mode.target.log_largest(mode.around)
        mass = self.search.target(counts).layout.log_mass()
        worth = min(before + _log_ways(counts, new), likelihood + mass) + log_p
        return Births(mode, [(i, laws[i]) for i in new]), worth + sum(laws[i].worth for i in new)


def _is_part(fewer: tuple[int, ...], counts: tuple[int, ...]) -> bool:
    """Whether a layout has less components than another, and of no class more."""
    return fewer != counts and all(a <= b for a, b in zip(fewer, counts, strict=True))


def _log_ways(counts: tuple[int, ...], new: tuple[int, ...]) -> float:
    """Logarithm of what labels and classes add to the worth of new components beside others at their places."""
    k, n = sum(counts), len(new)
    labels = math.lgamma(k + 1) - math.lgamma(k - n + 1) - n * math.log(len(counts))
    return labels - sum(math.lgamma(new.count(i) + 1) for i in set(new))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A layout after a first round of draws."""

    mixture: Mixture
    """What it is drawn from, with the shares that the first draws ask for."""
    first: Importance
    """The first draws."""
    asked: int
    """How many draws it was to have."""

    @property
    def share(self) -> float:
        """Effective share of the draws that were asked for, 0 to 1."""
        return self.first.effective / self.asked

    @property
    def poor(self) -> bool:
        """Whether few of the first draws count."""
        return self.share < POOR


def prepared(
    search: Search,
    counts: tuple[int, ...],
    births: Sequence[tuple[Births, float]],
    rng: np.random.Generator,
    draws: int,
    max_seconds: float,
) -> Prepared:
    """The mixture that a layout is drawn from, its shares learned from a first round of some draws.

    Where the data show nothing, births beside no component are all that is needed beside the maxima, at a fraction of
    the cost. The best draws of births are starts of further fits: a component that shows only beside those that are
    there has its maximum where no filter sees it.
    """
    target, seconds = search.target(counts), 0.4 * max_seconds
    beside_none = [birth for birth in births if not birth[0].layout.k]
    if 0 < len(beside_none) < len(births):
        mixture = _proposal(search, counts, beside_none, rng)
        found = _Round(target, mixture, rng, draws, 0.5 * seconds).prepared(rng)
        if found.share > GOOD:
            return found
    round_ = _Round(target, _proposal(search, counts, births, rng), rng, draws, seconds)
    found = round_.prepared(rng)
    if births and found.poor and search.improve(counts, round_.best()):
        mixture = _proposal(search, counts, births, rng)
        found = _Round(target, mixture, rng, draws, seconds).prepared(rng)
    return found


class _Round:
    """A first round of draws of a layout.

    Args:
        target: What is drawn.
        mixture: Where from.
        rng: Source of randomness.
        draws: How many.
        max_seconds: No further candidates are drawn after this time.
    """

    def __init__(
        self,
        target: FamilyTarget,
        mixture: Mixture,
        rng: np.random.Generator,
        draws: int,
        max_seconds: float,
    ) -> None:
        began = time.perf_counter()
        self.target, self.mixture, self.asked = target, mixture, draws
        self.z, self.tried = inside_support(target, mixture, draws, rng, max_seconds)
        self.log_p, self.rss = target.log_prob(self.z)
        self.terms = np.stack([part.log_prob(self.z) for part in mixture.parts])
        self.terms += np.log(np.maximum(mixture.weights, 1e-300))[:, None]
        self.total: Array = log_sum_exp(self.terms, axis=0)
        log_weights = self.log_p - self.total
        self.log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
        self.seconds = time.perf_counter() - began

    def best(self) -> Array:
        """The few draws of the largest density, (≤ STARTS, d)."""
        return self.z[np.argsort(-self.log_p)[:STARTS]]

    def prepared(self, rng: np.random.Generator) -> Prepared:
        """The draws, and the mixture that they ask for."""
        round_, ess = (self.z, self.rss, self.log_weights), effective_share(self.log_weights)
        first = summarised(self.target, [round_], self.tried, ess, self.seconds, rng)
        return Prepared(self._adapted(), first, self.asked)

    def _adapted(self) -> Mixture:
        """The mixture with the shares that the draws ask for."""
        if not len(self.z) or not np.isfinite(self.log_weights.max()):
            return self.mixture
        # A few draws with most of the weight say little: weights are cut at a twentieth of their sum.
        weight = np.exp(self.log_weights - self.log_weights.max())
        weight = np.minimum(weight / weight.sum(), 0.05)
        share = (np.exp(self.terms - self.total) * weight).sum(1)
        share /= share.sum()
        kept = [i for i in range(len(share)) if share[i] > NO_SHARE]
        return Mixture(
            [self.mixture.parts[i] for i in kept], [max(float(share[i]), LEAST_SHARE) for i in kept]
        )


def _proposal(
    search: Search,
    counts: tuple[int, ...],
    births: Sequence[tuple[Births, float]],
    rng: np.random.Generator,
) -> Mixture:
    """The mixture that a layout is drawn from at first, each part by its evidence inside the prior."""
    if not any(counts):
        return Mixture([_Nothing()])
    parts: list[Proposal] = []
    logs: list[float] = []
    for mode in search.settled(counts):
        drawn = gaussian_at(mode).sample(TRIALS, rng)
        inside = float((mode.target.log_prior(drawn) > -np.inf).mean())
        log_evidence = mode.log_evidence + math.log(max(inside, 1 / TRIALS))
        parts += [gaussian_at(mode), gaussian_at(mode, WIDE)]
        logs += [log_evidence + math.log(share) for share in (1 - WIDE_SHARE, WIDE_SHARE)]
    parts += [birth for birth, _ in births]
    logs += [worth for _, worth in births]
    weights = np.exp(np.array(logs) - max(logs))
    return Mixture(parts, list(np.maximum(weights / weights.sum(), FIRST_SHARE)))


class _Nothing:
    """Draws of no component."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Empty rows, (n, 0)."""
        return np.zeros((n, 0))

    def log_prob(self, z: Array) -> Array:
        """Zeros, (n,)."""
        return np.zeros(len(z))
