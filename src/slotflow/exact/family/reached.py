r"""Which layouts are reached: their first rounds of draws, from the maxima on and from what was drawn.

**Promises.** Before a layout is drawn, Laplace's evidence of its maxima and the worth of births that lead to it
(`mixture`) promise a value of p(K) Z. Where components hardly show both promise too much, by factors that grow with K.
So a promise decides only whether a layout gets a first round of draws: if it is within e^−5 of the best that is known.
How many further draws it gets, and its probability, follow from the first round. By how much the promises of those
that were drawn fell short, for each component, is taken off those for which there was no time.

**Growth.** Layouts of one component more than those that matter are looked at too, whether or not a maximum of theirs
is known: components that do not show have none, and so on until K_max.

**Time.** Where it does not suffice for all first rounds, the best layout of every K goes first, so that no K is left
out, then all others by their promises, as far as these can be trusted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

import numpy as np

from slotflow.core.numeric import log_sum_exp
from slotflow.exact.family.mixture import Further, Prepared, prepared
from slotflow.exact.family.proposals import Births
from slotflow.exact.family.search import Mode, Search
from slotflow.exact.importance import Importance

__all__ = ["NEGLIGIBLE", "Reached", "first_draws"]

FIRST, LEAST_FIRST = 500, 300
"""Draws of a first round at most, and at least."""
NEGLIGIBLE = 5.0
"""Difference of ln p(K) Z from the best at which a layout is not drawn."""
UNIMPORTANT = 4.0
"""The same at which a layout that could not be drawn does not make the answer incomplete."""
ONE_ROUND = 0.3
"""Share of the time that is left that a first round may take."""


def first_draws(draws: int) -> int:
    """Size of the first round of a layout that is to have some draws."""
    return min(max(draws // 4, LEAST_FIRST), FIRST)


class Reached:
    """Layouts of one observation with their first rounds.

    Args:
        search: With its maxima.
        rng: Source of randomness.
        draws: Weighted draws of the most probable layout.
    """

    def __init__(self, search: Search, rng: np.random.Generator, draws: int) -> None:
        self.search, self.rng, self.draws = search, rng, draws
        self.promised = {
            counts: self._by_laplace(modes)
            for counts, modes in search.found.items()
            if modes and search.prior.k_probs_full[sum(counts)] > 0
        }
        self.known = dict(self.promised)  # a worth of births is too rough an estimate of the best
        self.rounds: dict[tuple[int, ...], Prepared] = {}
        self.complete = True
        self._further = Further(search, rng)
        self._births: dict[tuple[int, ...], list[tuple[Births, float]]] = {}
        self._failed: set[tuple[int, ...]] = set()

    @property
    def best(self) -> float:
        """The largest ln p(K) Z that is known: of draws, of Laplace where there are none."""
        return max(self.known.values())

    def begin(self, max_seconds: float) -> None:
        """First rounds of all layouts that matter; none is begun after this time, but for the first."""
        began = time.perf_counter()
        while waiting := self._waiting():
            seconds = max_seconds - (time.perf_counter() - began)
            if seconds < 0 and self.rounds:
                self.complete &= all(map(self._unimportant, waiting))
                return
            self._first_round(self._next(waiting), seconds)

    def log_joint(self, counts: tuple[int, ...], result: Importance) -> float:
        """Logarithm of p(K) Z by draws of a layout."""
        return result.log_evidence + math.log(self.search.prior.k_probs_full[sum(counts)])

    def _by_laplace(self, modes: Sequence[Mode]) -> float:
        """Logarithm of p(K) Z by the maxima of a layout, with the prior's own p(K)."""
        k = modes[0].target.k
        total = float(log_sum_exp(np.array([mode.log_evidence for mode in modes])))
        return total - self.search.log_p(k) + math.log(self.search.prior.k_probs_full[k])

    def expected(self, counts: tuple[int, ...]) -> float:
        """About ln p(K) Z of a layout without draws: its promise, less what others of as many components fell short.

        Births beside no component promise what is true where nothing shows: it is not less than that.
        """
        short = sum(max(self.promised[c] - self.known[c], 0.0) for c in self.rounds)
        each = short / max(sum(map(sum, self.rounds)), 1)
        worths = [worth for birth, worth in self._births.get(counts, []) if not birth.layout.k]
        return max(self.promised[counts] - sum(counts) * each, *worths, -math.inf)

    def _first_round(self, counts: tuple[int, ...], max_seconds: float) -> None:
        """Draws a layout for the first time."""
        behind = max(self.best - self.promised[counts] - 1, 0)
        draws = first_draws(int(self.draws * math.exp(-0.5 * behind)))
        seconds = ONE_ROUND * max(max_seconds, 0.5)
        found = prepared(self.search, counts, self._births[counts], self.rng, draws, seconds)
        if math.isfinite(found.first.log_evidence):
            self.rounds[counts] = found
            self.known[counts] = self.log_joint(counts, found.first)
        else:
            self.complete &= self._unimportant(counts)
            self._failed.add(counts)

    def _waiting(self) -> set[tuple[int, ...]]:
        """Layouts that matter by what they promise and have no draws yet."""
        for counts in sorted(set(self.known) | self._grown()):
            if counts not in self._births:
                self._births[counts] = self._further.to(counts)
                worths = [worth for _, worth in self._births[counts]]
                promised = self.promised.get(counts, -math.inf)
                self.promised[counts] = max([promised, *worths])
        begun = self._failed | set(self.rounds)
        return {c for c, value in self.promised.items() if self._matters(value) and c not in begun}

    def _grown(self) -> set[tuple[int, ...]]:
        """Layouts of one more component than those that matter."""
        p, found = self.search.prior.k_probs_full, set()
        for counts, value in self.known.items():
            if self._matters(value) and sum(counts) < self.search.prior.k_max:
                for i in range(len(counts)):
                    grown = tuple(k + (c == i) for c, k in enumerate(counts))
                    if p[sum(grown)] > 0:
                        found.add(grown)
        return found

    def _next(self, waiting: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """The most probable layout of those that wait, of a K without draws where there is one."""
        begun = {sum(counts) for counts in self.rounds}
        return max(waiting, key=lambda c: (sum(c) not in begun, self.expected(c), c))

    def _matters(self, value: float) -> bool:
        """Whether ln p(K) Z is not negligible."""
        return value >= self.best - NEGLIGIBLE

    def _unimportant(self, counts: tuple[int, ...]) -> bool:
        """Whether an answer without a layout is complete."""
        return self.promised[counts] < self.best - UNIMPORTANT
