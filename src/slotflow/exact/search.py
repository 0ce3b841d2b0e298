r"""p(K | x): the evidence of K tones for every K that matters, and joint draws of each.

.. math:: p(K \mid x) \propto p(K)\, Z_K, \qquad Z_K = \int p(x \mid Θ, σ)\, p(Θ \mid K)\, p(σ)\, dΘ\, dσ .

Orders are visited upwards and downwards from a first guess as long as p(K | x) exceeds `NEGLIGIBLE`. Z_0 needs no
integral but that over σ. An order is only sampled if it can matter:

- too few tones: one tone less than Z_K's loses what its weakest tone is worth (`assembly.without_weakest`), if tones
  are resolved; Z_K never exceeds the largest likelihood, nor Laplace's estimate by much;
- one tone more than the data ask for gains (K + 1) × the mean over its prior of its likelihood ratio (`births.py`): a
  tone that the prior wants strong;
- a further split in two that the data do not ask for gains no more than the one before;
- where the data do not ask for one tone more (no maximum of log L is higher by `ASKED_FOR`), a poor sample that leaves
  it `OUT_OF_REACH` is enough.

Where p(K) has holes, an order of p(K) = 0 is evaluated as if it were allowed, so that those beyond it are reached, and
has no share in p(K | x).

Orders that this excludes keep the bound or estimate as their evidence, with an infinite error. If no order could be
sampled at all (the prior excludes whatever fits the data), BIC stands in for ln Z, again with infinite errors.

The others are importance sampled from a proposal that suits the signal (`assembly.py`). Where two or more tones may be
anywhere, the search starts from the tones beyond doubt, and each order grows out of the draws of the one below
(`growth.py`), whose errors it takes over. Where tones may be unresolved, one of the draws below is divided in two
(`division.py`), with their errors too. If the weights cannot be
trusted, or too few draws are effective for what the order contributes, tempered sampling starts from the same proposal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance, importance_sample
from slotflow.exact.mode import Mode
from slotflow.exact.modes import Modes
from slotflow.exact.orders import NEGLIGIBLE, Orders
from slotflow.exact.proposals.assembly import (
    WEAK,
    Proposer,
    laplace_evidence,
    without_weakest,
)
from slotflow.exact.proposals.births import Births
from slotflow.exact.proposals.division import Division
from slotflow.exact.proposals.gaussian import Proposal
from slotflow.exact.proposals.growth import Growth
from slotflow.exact.proposals.ridge import Ridge
from slotflow.exact.proposals.splits import RESOLVED
from slotflow.exact.proposals.surface import Surface, room_for_cells
from slotflow.exact.target import Target
from slotflow.exact.tempering import Tempering, tempered
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior

__all__ = ["across_orders"]

HOPELESS = 16.0
"""Logarithm of the odds beyond which an order is not sampled."""
MARGIN = 10.0
"""By how much Laplace's estimate may be too small, for all that is known before sampling."""
TOUCH = 0.1
"""Bins by which a maximum may undercut the smallest separation."""
SLICE = 0.2
"""Share of the time budget that tempered sampling of an order gets at least."""
FIRST = 0.3
"""Share of the time budget that importance sampling of an order gets at most."""
FEW = 100.0
"""Effective draws of an order below which none grow from it."""
OUT_OF_REACH = 12.0
"""Logarithm of the odds at which an order that the data do not ask for needs no better estimate."""
FEWEST, FEW_DRAWS_MARGIN = 200, 4.0
"""Draws of a first look at an order, and by how much more they must leave it out of reach."""
ASKED_FOR = 10.0
"""Gain in log L by one tone more from which on the data ask for it."""
KEPT_APART = 0.9
"""Share of the prior's separation that a maximum must keep for draws around it to be allowed."""
FEW_NODES = 8
"""Values of the noise's shape that are never dropped."""
EXCLUDED_NODE = 1e-4
"""Likelihood of a value of the noise's shape, over the largest, below which it is dropped."""
UNSURE = 3.0
"""Error of the linearized model, in units of half the BIC, that is allowed for."""
SMALL = 0.05
"""p(K | x) below which an order need not be known as well."""


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
        draws: Draws of each order.
        rng: Source of randomness; seeded with 0 if None.
        tempering: Sizes and budget of tempered sampling.
        max_seconds: No order is begun after this time, and the sampling of the last one hurries.
    """
    search = _Search(statistics, prior, extra, draws, rng, tempering, max_seconds)
    modes = search.modes
    for tones in starts:
        modes.add([np.sort(statistics.waveform.place_of(np.asarray(tones, dtype=np.float64)))])
    first = len(starts[0]) if len(starts) else modes.pursue(prior.k_max)
    if pursue and len(starts):
        known = modes.roomy and modes.explained(first)
        first = search.shed(first if known else search.promising(modes.pursue(prior.k_max)))
    first = search.apart(first)
    k = min(max(first, prior.k_min), prior.k_max)
    search.drop_nodes(k)
    for order in range(first + 1, k + 1):
        modes.up(order)
    for order in range(first - 1, k - 1, -1):
        modes.down(order)
    k = max(search.foothold(k), prior.k_min)
    search.evaluate(k)
    low = high = k
    while search.left > 0:
        if low > prior.k_min and search.matters(low):
            low -= 1
            search.evaluate(low)
        elif high < prior.k_max and (search.matters(high) or high < first):
            high += 1
            search.evaluate(high)
        else:
            break
    return search.result()


class _Search:
    """State of one call of `across_orders`."""

    def __init__(
        self,
        statistics: Likelihood,
        prior: Prior,
        extra: Callable[[], Sequence[float]] | None,
        draws: int,
        rng: np.random.Generator | None,
        tempering: Tempering | None,
        max_seconds: float,
    ) -> None:
        self.began, self.max_seconds = time.perf_counter(), max_seconds
        self.statistics, self.prior, self.draws = statistics, prior, draws
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.tempering = Tempering() if tempering is None else tempering
        self.modes = Modes(statistics, prior, extra)
        self.log_z = np.full(prior.k_max + 1, -np.inf)
        self.error = np.full(prior.k_max + 1, np.inf)
        with np.errstate(divide="ignore"):
            self.log_prior = np.log(prior.k_probs_full)
        self.way_prior = np.where(np.isfinite(self.log_prior), self.log_prior, self.log_prior.max())
        """The same with weight for orders of p(K) = 0, which the search must pass to reach those beyond."""
        self.results: dict[int, Importance] = {}
        self.methods: dict[int, str] = {}
        self.unfitted: set[int] = set()
        self.proposer = Proposer(statistics, prior, self.modes, self.rng)
        self.close = self.proposer.close
        self.surface: Surface | None = None
        self._targets: dict[int, Target] = {}

    def target(self, k: int) -> Target:
        """The density of order k."""
        if k not in self._targets:
            self._targets[k] = Target(self.statistics, self.prior, k)
        return self._targets[k]

    def apart(self, k: int) -> int:
        """The largest order ≤ k whose best maximum keeps the prior's separation: of others no draw is allowed."""
        smallest = KEPT_APART * self.prior.min_separation
        while k > max(self.prior.k_min, 1):
            mode = self.modes.best(k)
            if mode is None or mode.gap(1.0) >= smallest:
                break
            self.modes.down(k - 1)
            k -= 1
        return k

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.max_seconds - (time.perf_counter() - self.began)

    def matters(self, k: int) -> bool:
        """Whether a neighbour of order k is worth a look."""
        largest = (self.log_z + self.log_prior).max()  # of the orders that the prior allows
        score = self.log_z[k] + self.way_prior[k]
        return bool(score > largest + math.log(NEGLIGIBLE) or not np.isfinite(largest))

    def evaluate(self, k: int) -> None:
        """Evidence and, if it matters, draws of order k."""
        target = self.target(k)
        if k == 0:
            n = self.draws
            rss = np.full(n, float(self.statistics.energy))
            nothing = np.zeros((n, 0, target.waveform.coordinates))
            self.log_z[0] = float(log_sum_exp(target.node_log_likelihoods(nothing[:1])))
            self.error[0] = 0.0
            self.methods[0] = "analytic"
            self.results[0] = Importance(
                np.zeros((n, 0, target.waveform.size)), target.sample_sigma(nothing, rss, self.rng),
                np.full(n, -math.log(n)), self.log_z[0], 0.0, 1.0, 0.0, 1.0, 0.0, "analytic",
            )  # fmt: skip
            return
        best = float((self.log_z + self.log_prior).max()) - self.way_prior[k]
        above = k > 0 and np.isfinite(self.log_z[k - 1])
        if not above and self._too_few(k, best):
            return
        if above and not self.close:  # nothing but a free tone could be the k-th
            base = self.modes.best(k - 1)
            found = None if base is None else self.proposer.table(base)
            if found is not None:
                gain = self.log_z[k - 1] + math.log(k) + found[0].log_gain
                if gain < best - HOPELESS:
                    self.log_z[k], self.methods[k] = gain, "bound"
                    return
        if above and self.close and k > 1 and np.isfinite(self.log_z[k - 2]):
            # A second pair that the data do not ask for gains at most what the first one gained.
            gain = float(2 * self.log_z[k - 1] - self.log_z[k - 2])
            if gain < best + math.log(NEGLIGIBLE) and self.log_z[k - 1] < self.log_z[k - 2] - 3:
                self.log_z[k], self.methods[k] = gain, "bound"
                return
        if not self._undetected(k):
            if above:
                self.modes.up(k)
            else:
                self.modes.down(k)
            if self.modes.best(k) is None:
                self.modes.up(k)
        self.modes.aliases(k)
        mode = self.modes.best(k)
        if mode is not None and not above:
            largest = float(target.log_likelihood(np.array([mode.rss]))[0]) - math.lgamma(k + 1)
            if np.isfinite(best) and largest >= best - HOPELESS:
                # Of an unresolved pair the posterior is no Gaussian, and the estimate worth less.
                pairs = mode.gap(self.modes.bin) < RESOLVED
                margin = 3 * MARGIN if pairs else MARGIN
                largest = min(largest, laplace_evidence(target, mode) + margin)
            if largest < best - HOPELESS:
                self.log_z[k], self.methods[k] = largest, "bound"
                return
        growth, division = self._growth(k), self._division(k)
        parts = self.proposer.parts(target, split=division is None)
        if division is not None:
            parts.append(division)
        if not parts and growth is None:
            return
        if growth is not None:
            parts = [p for p in parts if not isinstance(p, Births) or p.free <= 2]
            parts.append(growth)
        proposal = self.proposer.weigh(target, parts)
        draws = self.draws
        if growth is not None and self.log_z[k - 1] < best - 3:  # an order that matters little
            draws //= 2
        if above and self.close:  # mostly an order that cannot matter, as a few draws show
            few = importance_sample(target, proposal, self.rng, draws=max(draws // 8, FEWEST))
            if self._out_of_reach(k, few, best - FEW_DRAWS_MARGIN):
                self.log_z[k], self.methods[k] = few.log_evidence, "bound"
                return
        result = self._sampled(target, proposal, draws)
        if growth is not None:
            result = growth.carried(result)
            if not self._enough(result, best) and result.effective >= 0.1 * draws:
                # A few draws say little about the tail of their weights.
                result = growth.carried(
                    importance_sample(target, proposal, self.rng, draws=4 * draws)
                )
        if division is not None:
            result = division.carried(result)
        if above and not self._enough(result, best) and self._out_of_reach(k, result, best):
            self.log_z[k], self.methods[k] = result.log_evidence, "bound"
            return
        more: list[Ridge] = []
        if not self._enough(result, best) and not any(isinstance(p, Ridge) for p in parts):
            more = self.proposer.ridges(target)
        if more:
            parts += more
            proposal = self.proposer.weigh(target, parts)
            result = self._sampled(target, proposal, draws)
            result = result if division is None else division.carried(result)
        if not self._enough(result, best):
            if growth is not None:
                parts = self.proposer.parts(target) or parts
                proposal = self.proposer.weigh(target, parts)
            table = next((p.table for p in parts if isinstance(p, Births)), None)
            hurry = max(self.left, SLICE * self.max_seconds)
            options = replace(self.tempering, max_seconds=min(self.tempering.max_seconds, hurry))
            if result.log_evidence < best - 4:
                options = replace(options, particles=options.particles // 2)
            slow = tempered(target, proposal, self.rng, options, table)
            if division is not None:
                slow = division.carried(slow)
            if slow.pareto_k < 1 or not result.sound:
                result = slow
        self.results[k], self.methods[k] = result, result.method
        self.log_z[k], self.error[k] = result.log_evidence, result.log_evidence_error

    def _sampled(self, target: Target, proposal: Proposal, draws: int) -> Importance:
        """Importance sampling of an order within its share of the time budget."""
        return importance_sample(
            target,
            proposal,
            self.rng,
            draws=draws,
            effective=0.25 * draws,
            max_draws=4 * draws,
            max_seconds=min(self.left, FIRST * self.max_seconds),
        )

    def _too_few(self, k: int, best: float) -> bool:
        """Whether k tones are excluded by those of k + 1, without a fit; keeps the estimate that says so."""
        mode = self.modes.best(k + 1)
        if self.close or mode is None or mode.bounded or not np.isfinite(self.error[k + 1]):
            return False
        if not mode.plausible(self.prior):
            return False
        target = self.target(k + 1)
        estimate = without_weakest(target, mode, self.log_z[k + 1]) + MARGIN
        if estimate < best - HOPELESS:
            self.log_z[k], self.methods[k] = estimate, "bound"
            self.unfitted.add(k)
            return True
        return False

    def _undetected(self, k: int) -> bool:
        """Whether order k only adds to tones of k − 1 that may be anywhere: its maxima would be those of the noise."""
        if self.close or self.modes.best(k) is not None or k - 1 not in self.results:
            return False
        return k - len(self.modes.sure(k - 1, WEAK).z) > 2

    def foothold(self, k: int) -> int:
        """The largest order ≤ k whose tones are all beyond doubt: those above it grow from its draws."""
        if self.close or not room_for_cells(self.target(k)):
            return k
        return len(self.modes.sure(k, WEAK).z)

    def _growth(self, k: int) -> Growth | None:
        """One tone more than the draws of k − 1, if two or more tones of order k may be anywhere."""
        lower, target = self.results.get(k - 1), self.target(k - 1)
        if self.close or lower is None or not room_for_cells(target):
            return None
        if lower.effective < FEW or not math.isfinite(self.error[k - 1]):
            return None
        sure = self.modes.sure(k, WEAK)
        if k - len(sure.z) < 2:
            return None
        if self.surface is None:
            self.surface = Surface(target, target.noise.precision(sure.rss), sure.z)
        return Growth(self.surface, target, lower)

    def _division(self, k: int) -> Division | None:
        """One tone of the draws of k − 1 in two, where tones may be unresolved."""
        lower = self.results.get(k - 1)
        if not self.close or k < 2 or lower is None or lower.effective < FEW:
            return None
        if not math.isfinite(self.error[k - 1]):
            return None
        mode, target = self.modes.best(k - 1), self.target(k - 1)
        gaussian = None if mode is None else target.gaussian(mode.z)
        return None if gaussian is None else Division(target, lower, gaussian)

    def _enough(self, result: Importance, best: float) -> bool:
        """Whether importance sampling was good enough for what the order contributes."""
        if not math.isfinite(result.log_evidence):
            return False
        odds = result.log_evidence - best
        share = 1 / (1 + math.exp(-min(max(odds, -50.0), 50.0)))  # p(K | x) so far
        if share < SMALL:  # its error is what it can do to p(K | x)
            error = share * result.log_evidence_error
            return result.effective >= 20 and result.pareto_k < 1 and error < 0.005
        return (
            result.pareto_k < 0.7
            and result.effective >= 0.1 * self.draws
            and result.log_evidence_error < 0.1
        )

    def promising(self, most: int) -> int:
        """The order up to `most` whose best maximum has the smallest BIC."""
        found = {k: mode for k in range(most + 1) if (mode := self.modes.best(k)) is not None}
        return max(found, key=lambda k: self._stand_in(k, found[k]))

    def drop_nodes(self, k: int) -> None:
        """Drops values of the noise's shape that the data exclude, judged by the maxima of orders around k.

        Each of the others costs as much as the first in every draw.
        """
        nodes = (self.statistics, *self.statistics.nodes)
        if len(nodes) <= FEW_NODES:
            return
        kept = np.arange(len(nodes)) == 0
        for order in {0, k} if k < 3 else {k - 1, k}:
            mode = self.modes.best(order)
            if mode is not None:
                target = self.target(order)
                logs = np.array([node.log_likelihood(mode.z) for node in target.nodes])
                kept |= logs > logs.max() + math.log(EXCLUDED_NODE)
        self.statistics.nodes = tuple(node for node, keep in zip(nodes, kept, strict=True) if keep)[
            1:
        ]
        self._targets.clear()

    def shed(self, k: int) -> int:
        """The order below k that is reached by leaving tones out as long as BIC falls."""
        while k > max(self.prior.k_min, 1):
            more = self.modes.best(k)
            if more is not None and self._needs_all(k, more):
                break
            self.modes.down(k - 1)
            fewer = self.modes.best(k - 1)
            if more is not None and (
                fewer is None or self._stand_in(k - 1, fewer) < self._stand_in(k, more)
            ):
                break
            k -= 1
        return k

    def _needs_all(self, k: int, mode: Mode) -> bool:
        """Whether BIC rises without any tone of a maximum of order k, as far as the linearized model tells."""
        if mode.bounded or mode.gap(self.modes.bin) < RESOLVED:
            return False
        variance = self.target(k).noise.variance(mode.rss)
        without = replace(mode, rss=mode.rss + float(mode.strength.min() * variance))
        return self._stand_in(k - 1, without) < self._stand_in(k, mode) - UNSURE

    def _out_of_reach(self, k: int, result: Importance, best: float) -> bool:
        """Whether order k cannot matter, for all that a poor sample of it says: no maximum is much above k − 1's."""
        if not result.log_evidence < best - OUT_OF_REACH:
            return False
        mode, below = self.modes.best(k), self.modes.best(k - 1)
        if mode is None or below is None:
            return False
        target = self.target(k)
        higher, lower = target.log_likelihood(np.array([mode.rss, below.rss]))
        return bool(higher - lower < ASKED_FOR)

    def _stand_in(self, k: int, mode: Mode) -> float:
        """Minus half the BIC of a maximum."""
        target = self.target(k)
        log_likelihood = float(target.log_likelihood(np.array([mode.rss]))[0])
        return (
            log_likelihood
            - math.lgamma(k + 1)
            - 0.5 * self.statistics.waveform.size * k * math.log(self.statistics.n)
        )

    def _fit(self, k: int) -> Array:
        """The largest likelihood that the prior allows: a maximum, the best draw, or else that of fewer tones."""
        prior = self.prior
        for mode in self.modes.plausible(k):
            apart = mode.gap(1.0) > prior.min_separation - TOUCH * self.modes.bin
            if apart and not mode.bounded:
                best_fit: Array = self.statistics.to_theta(mode.z)
                return best_fit
        result = self.results.get(k)
        if result is not None and len(result.log_weights):
            rss = self.target(k).rss(self.statistics.to_z(result.theta))
            best: Array = result.theta[int(rss.argmin())]
            return best
        return self._fit(k - 1) if k > 0 else np.zeros((0, self.statistics.waveform.size))

    def result(self) -> Orders:
        """What was found."""
        if self.prior.k_min == 0 and 0 not in self.methods:  # costs nothing
            self.evaluate(0)
        score = self.log_z + self.log_prior
        if not np.isfinite(score).any():
            for k, modes in self.modes.found.items():
                if k <= self.prior.k_max and modes:
                    self.log_z[k], self.methods[k] = self._stand_in(k, modes[0]), "bound"
            score = self.log_z + self.log_prior
            if not np.isfinite(score).any():
                score = self.log_prior
        probs = np.exp(score - log_sum_exp(score))
        fits = {
            k: self._fit(k)
            for k in range(self.prior.k_max + 1)
            if (k in self.methods or probs[k] > 0) and k not in self.unfitted
        }
        return Orders(
            self.log_z, self.error, probs, self.results, fits,
            time.perf_counter() - self.began, self.methods,
        )  # fmt: skip
