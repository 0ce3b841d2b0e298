r"""What a layout is drawn from: Gaussians around its maxima and births, each by what it is worth.

A layout's proposal is a mixture: the Gaussians of its maxima, a widened copy of each for the tails, and births of one
or two components beside the maxima without them. Where the data show no component, the maxima lie outside the prior's
bounds and only births are inside: then all K components are born beside none. How much of each part is needed is
learned from a first round of draws, whose weights say what share of the posterior each part is responsible for; the
round itself is not used.

What births are worth is an estimate of the layout's evidence too: the many places of a component that hardly shows
weigh more than the maximum among them. With the worth B of the law of a newcomer (`newcomers`), K components of C
classes, n_c of them new in each class,

.. math:: Z_K ≈ Z_{K-n}\, \frac{K!}{(K - n)!\, C^n \prod_c n_c!} \prod_{new} B .
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.newcomers import Newcomer, Response
from slotflow.exact.family.proposals import Births, gaussian_at
from slotflow.exact.family.search import Search
from slotflow.exact.family.target import FamilyTarget
from slotflow.exact.importance import Mixture, Proposal, effective_share, inside_support

__all__ = ["Further", "prepared"]

WIDE, WIDE_SHARE = 1.6, 0.1
"""Factor on the standard deviations of the widened copies, and their share of the draws."""
MOST_NEW, HOPELESS = 2, 12.0
"""Components that are born at once, and the difference of ln Z from the best at which a maximum gives birth to none."""
POOR, STARTS = 0.1, 3
"""Effective share of the first draws below which the best of them are starts of further fits, and how many."""
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
        self._known: dict[tuple[int, ...], list[Newcomer]] = {}

    def _laws(self, counts: tuple[int, ...]) -> list[Newcomer]:
        """The law of a further component of each class beside the best maximum of a layout."""
        if counts not in self._known:
            search, mode = self.search, self.search.settled(counts)[0]
            response = Response(mode, search.nodes[0], search.variance(mode.fit.rss))
            self._known[counts] = [
                Newcomer(bank, response, search.prior, mode.fit.left, self.rng)
                for bank in search.banks
            ]
        return self._known[counts]

    def to(self, counts: tuple[int, ...]) -> list[tuple[Births, float]]:
        """Births of components that lead to a layout, each with about the logarithm of its p(K) Z."""
        bases = []
        for n in range(1, MOST_NEW + 1):
            for new in combinations_with_replacement(range(len(counts)), n):
                fewer = tuple(k - new.count(i) for i, k in enumerate(counts))
                if min(fewer) >= 0 and self._hopeful(fewer):
                    bases.append(fewer)
        none = (0,) * len(counts)
        if sum(counts) > MOST_NEW and self._hopeful(none):
            bases.append(none)  # the data may show none of them
        return [self._from(fewer, counts) for fewer in bases]

    def _hopeful(self, counts: tuple[int, ...]) -> bool:
        """Whether there is a maximum of a layout that is not much worse than the best of all."""
        modes = self.search.found.get(counts, [])
        return any(mode.log_evidence >= self.search.best - HOPELESS for mode in modes[:1])

    def _from(self, fewer: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Births, float]:
        """Births that lead from one layout to another, with about the logarithm of its p(K) Z."""
        pairs = enumerate(zip(counts, fewer, strict=True))
        new = tuple(i for i, (k, had) in pairs for _ in range(k - had))
        laws, mode = self._laws(fewer), self.search.settled(fewer)[0]
        worth = mode.log_evidence + sum(laws[i].worth for i in new)
        return Births(mode, [(i, laws[i]) for i in new]), worth + self._ways(counts, new)

    def _ways(self, counts: tuple[int, ...], new: tuple[int, ...]) -> float:
        """Logarithm of what labels, classes and p(K) add to the worth of new components."""
        k, n, p = sum(counts), len(new), self.search.prior.k_probs_full
        labels = math.lgamma(k + 1) - math.lgamma(k - n + 1) - n * math.log(len(counts))
        labels -= sum(math.lgamma(new.count(i) + 1) for i in set(new))
        return labels + math.log(max(p[k], 1e-300)) - math.log(max(p[k - n], 1e-3 * p.max()))


def prepared(
    search: Search,
    counts: tuple[int, ...],
    births: Sequence[tuple[Births, float]],
    rng: np.random.Generator,
    draws: int,
    max_seconds: float,
) -> Mixture:
    """The mixture that a layout is drawn from, its shares learned from a first round of some draws.

    The best draws of births are starts of further fits: a component that shows only beside those that are there has
    its maximum where no filter sees it.
    """
    if not sum(counts):
        return Mixture([_Nothing()])
    target, first = search.target(counts), _proposal(search, counts, births)
    round_ = _Round(target, first, rng, draws, 0.5 * max_seconds)
    if births and round_.poor and search.improve(counts, round_.best()):
        first = _proposal(search, counts, births)
        round_ = _Round(target, first, rng, draws, 0.5 * max_seconds)
    return round_.adapted()


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
        self.mixture = mixture
        self.z, _ = inside_support(target, mixture, draws, rng, max_seconds)
        self.log_p = target.log_prob(self.z)[0]
        self.terms = np.stack([part.log_prob(self.z) for part in mixture.parts])
        self.terms += np.log(np.maximum(mixture.weights, 1e-300))[:, None]
        self.total: Array = log_sum_exp(self.terms, axis=0)
        self.log_weights = self.log_p - self.total

    @property
    def poor(self) -> bool:
        """Whether few of the draws count."""
        return effective_share(self.log_weights) < POOR

    def best(self) -> Array:
        """The few draws of the largest density, (≤ STARTS, d)."""
        return self.z[np.argsort(-self.log_p)[:STARTS]]

    def adapted(self) -> Mixture:
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
    search: Search, counts: tuple[int, ...], births: Sequence[tuple[Births, float]]
) -> Mixture:
    """The mixture that a layout is drawn from at first, each part by its evidence."""
    parts: list[Proposal] = []
    logs: list[float] = []
    for mode in search.settled(counts):
        parts += [gaussian_at(mode), gaussian_at(mode, WIDE)]
        logs += [
            mode.log_evidence + math.log(1 - WIDE_SHARE),
            mode.log_evidence + math.log(WIDE_SHARE),
        ]
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
