r"""p(K | x): the evidence of K tones for every K that matters, and joint draws of each.

.. math:: p(K \mid x) \propto p(K)\, Z_K, \qquad Z_K = \int p(x \mid Θ, σ)\, p(Θ \mid K)\, p(σ)\, dΘ\, dσ .

Orders are visited upwards and downwards from a first guess (`first_order.py`) as long as p(K | x) exceeds `NEGLIGIBLE`.
Where two or more tones may be anywhere, the search starts from the tones beyond doubt. An order is only sampled
(`sampling.py`) if it can matter; one that its neighbours or its maximum exclude (`spared.py`) keeps the bound or
estimate as its evidence, with an infinite error.

Where p(K) has holes, an order of p(K) = 0 is evaluated as if it were allowed, so that those beyond it are reached, and
has no share in p(K | x). If no order could be sampled at all (the prior excludes whatever fits the data), BIC stands in
for ln Z, again with infinite errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.first_order import first_order
from slotflow.exact.ledger import Ledger
from slotflow.exact.orders import Orders
from slotflow.exact.problem import Problem
from slotflow.exact.proposals.assembly import WEAK
from slotflow.exact.proposals.surface import room_for_cells
from slotflow.exact.sampling import Sampler, no_components
from slotflow.exact.spared import bound_by_maximum, bound_without_fit
from slotflow.exact.tempering import Tempering
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior

__all__ = ["across_orders"]


def across_orders(
    statistics: Likelihood,
    prior: Prior,
    *,
    starts: Sequence[Array] = (),
    extra: Callable[[], Sequence[float]] | None = None,
    pursue: bool = False,
    draws: int = 2000,
    rng: np.random.Generator | None = None,
    tempering: Tempering | None = None,
    max_seconds: float = 60.0,
) -> Orders:
    """Evidence and draws of every order that matters.

    Args:
        statistics: Of one signal.
        prior: Prior of K, Θ and σ.
        starts: Sets of components, (K, P) each, to start from, the most probable first; without any, the
            residual's spectrum is followed.
        extra: Gives frequencies in Hz where more tones may be; asked only if more are looked for.
        pursue: Whether to follow the residual's spectrum even where there are starts.
        draws: Draws of each order; an unlikely one may have a quarter (`sampling.py`).
        rng: Source of randomness; seeded with 0 if None.
        tempering: Sizes and budget of tempered sampling.
        max_seconds: No order is begun after this time, and the sampling of the last one hurries.
    """
    problem = Problem(statistics, prior, extra, draws, rng, tempering, max_seconds)
    search, modes = _Search(problem), problem.modes
    first = first_order(problem, starts, pursue)
    k = min(max(first, prior.k_min), prior.k_max)
    problem.drop_nodes(k)
    for order in range(first + 1, k + 1):
        modes.up(order)
    for order in range(first - 1, k - 1, -1):
        modes.down(order)
    low = high = max(search.foothold(k), prior.k_min)
    search.evaluate(low)
    while problem.left > 0:
        if low > prior.k_min and search.ledger.matters(low):
            low -= 1
            search.evaluate(low)
        elif high < prior.k_max and (search.ledger.matters(high) or high < first):
            high += 1
            search.evaluate(high)
        else:
            break
    return search.result()


class _Search:
    """State of one call of `across_orders`."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.ledger = problem, Ledger(problem.prior)
        self.sampler = Sampler(problem, self.ledger)

    def foothold(self, k: int) -> int:
        """The largest order ≤ k whose tones are all beyond doubt: those above it grow from its draws."""
        if self.problem.close or not room_for_cells(self.problem.target(k)):
            return k
        return len(self.problem.modes.sure(k, WEAK).z)

    def evaluate(self, k: int) -> None:
        """Evidence and, if it matters, draws of order k."""
        if k == 0:
            self.ledger.keep(0, no_components(self.problem))
            return
        above = self.ledger.reached(k - 1)
        bound = bound_without_fit(self.problem, self.ledger, k)
        if bound is not None:
            self.ledger.bound(k, bound)
            if not above:
                self.ledger.unfitted.add(k)
            return
        self._look_for_maxima(k, above)
        bound = None if above else bound_by_maximum(self.problem, self.ledger, k)
        if bound is None:
            self.sampler.sample(k)
        else:
            self.ledger.bound(k, bound)

    def _look_for_maxima(self, k: int, above: bool) -> None:
        """Finds the maxima of order k from those of its neighbour below or above."""
        modes = self.problem.modes
        if not self._undetected(k):
            if above:
                modes.up(k)
            else:
                modes.down(k)
            if modes.best(k) is None:
                modes.up(k)
        modes.aliases(k)

    def _undetected(self, k: int) -> bool:
        """Whether order k only adds to tones of k − 1 that may be anywhere: its maxima would be those of the noise."""
        modes = self.problem.modes
        if self.problem.close or modes.best(k) is not None or k - 1 not in self.ledger.results:
            return False
        return k - len(modes.sure(k - 1, WEAK).z) > 2

    def _fit(self, k: int) -> Array:
        """The largest likelihood that the prior allows: a maximum, the best draw, or else that of fewer tones."""
        problem, statistics = self.problem, self.problem.statistics
        found = problem.modes.found.get(k, [])
        allowed = (
            mode
            for mode in problem.modes.plausible(k)
            if mode.keeps_apart(problem.prior, problem.modes.bin) and not mode.bounded
        )
        mode = next(allowed, None)
        if mode is not None and mode is found[0]:
            best_fit: Array = statistics.to_theta(mode.z)
            return best_fit
        result = self.ledger.results.get(k)
        if result is not None and len(result.log_weights):
            rss = problem.target(k).rss(statistics.to_z(result.theta))
            if mode is None or rss.min() < mode.rss:  # around a higher maximum beyond a bound
                best: Array = result.theta[int(rss.argmin())]
                return best
        if mode is not None:
            return np.asarray(statistics.to_theta(mode.z))
        return self._fit(k - 1) if k > 0 else np.zeros((0, statistics.waveform.size))

    def result(self) -> Orders:
        """What was found."""
        problem, ledger, k_max = self.problem, self.ledger, self.problem.prior.k_max
        if problem.prior.k_min == 0 and 0 not in ledger.methods:  # costs nothing
            self.evaluate(0)
        if ledger.k_probs is None:
            for k, modes in problem.modes.found.items():
                if k <= k_max and modes:
                    ledger.bound(k, problem.minus_half_bic(k, modes[0].rss))
        probs = ledger.k_probs
        if probs is None:
            probs = problem.prior.k_probs_full
        fits = {
            k: self._fit(k)
            for k in range(k_max + 1)
            if (k in ledger.methods or probs[k] > 0) and k not in ledger.unfitted
        }
        return Orders(
            ledger.log_z, ledger.error, probs, ledger.results, fits, problem.seconds, ledger.methods
        )
