r"""Draws and evidence of one order: importance sampling first, tempered sampling where its weights cannot be trusted.

The proposal is one that suits the signal (`proposals/assembly.py`). Where two or more tones may be anywhere, each order
grows out of the draws of the one below (`growth.py`), whose errors it takes over. Where tones may be unresolved, one of
the draws below is divided in two (`division.py`), with their errors too. If the weights cannot be trusted, or too few
draws are effective for what the order contributes, tempered sampling starts from the same proposal.

**Draws.** What an error of ln Z_K can do to p(K | x) goes with p(K | x) itself. So an order that a first look (a few
draws, or the fall of the evidence from order to order) expects below `SMALL` begins with a quarter of the draws, and
gets all of them if these do not tell its share to 0.005, find it larger, or have weights with a tail: few draws of a
heavy tail miss it, and Z comes out too small.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance, importance_sample
from slotflow.exact.ledger import Ledger
from slotflow.exact.orders import NEGLIGIBLE
from slotflow.exact.problem import Problem
from slotflow.exact.proposals.assembly import WEAK
from slotflow.exact.proposals.births import Births
from slotflow.exact.proposals.division import Division
from slotflow.exact.proposals.gaussian import Proposal
from slotflow.exact.proposals.growth import Growth
from slotflow.exact.proposals.ridge import Ridge
from slotflow.exact.proposals.surface import Surface, room_for_cells
from slotflow.exact.spared import out_of_reach
from slotflow.exact.target import Target
from slotflow.exact.tempering import tempered

__all__ = ["Sampler", "no_components"]

SLICE = 0.2
"""Share of the time budget that tempered sampling of an order gets at least."""
FIRST = 0.3
"""Share of the time budget that importance sampling of an order gets at most."""
FEW = 100.0
"""Effective draws of an order below which none grow from it."""
FEWEST, FEW_DRAWS_MARGIN = 200, 4.0
"""Draws of a first look at an order, and by how much more they must leave it out of reach."""
SMALL = 0.05
"""p(K | x) below which an order need not be known as well: half the particles of tempered sampling are enough."""
UNLIKELY_DRAWS = 4
"""An order that is expected below `SMALL` begins with the draws over this number."""
FAR_FROM_MATTERING = 0.1 * NEGLIGIBLE
"""p(K | x) below which weights with a heavy tail are enough."""
SURE, INHERITED = 0.1, 0.15
"""Errors of ln Z that are small enough: of an order's own draws, and of those that take over errors from below.

The latter move p(K | x) by 0.05 at most, and tempered sampling of many tones that may be anywhere does no better.
"""


def no_components(problem: Problem) -> Importance:
    """The evidence of noise alone, which needs no integral but that over σ, and draws of σ."""
    n, target = problem.draws, problem.target(0)
    rss = np.full(n, float(problem.statistics.energy))
    nothing = np.zeros((n, 0, target.waveform.coordinates))
    log_z = float(log_sum_exp(target.node_log_likelihoods(nothing[:1])))
    return Importance(
        np.zeros((n, 0, target.waveform.size)), target.sample_sigma(nothing, rss, problem.rng),
        np.full(n, -math.log(n)), log_z, 0.0, 1.0, 0.0, 1.0, 0.0, "analytic",
    )  # fmt: skip


class Sampler:
    """Samples orders of one signal, each with what is known of those below.

    Args:
        problem: The signal.
        ledger: What is known of the orders; changed by `sample`.
    """

    def __init__(self, problem: Problem, ledger: Ledger) -> None:
        self.problem, self.ledger = problem, ledger
        self._surface: Surface | None = None

    def sample(self, k: int) -> None:
        """Draws and evidence of order k ≥ 1, or a bound where a few draws show that it cannot matter."""
        problem, ledger, target = self.problem, self.ledger, self.problem.target(k)
        best, above, origin = ledger.to_beat(k), ledger.reached(k - 1), self._origin(k)
        parts = self._parts(target, origin)
        if not parts:
            return
        proposal: Proposal = problem.proposer.weigh(target, parts)
        grown = isinstance(origin, Growth)
        draws, expected = problem.draws, self._expected(k) if grown else math.inf
        if above and problem.close:  # mostly an order that cannot matter, as a few draws show
            few = importance_sample(target, proposal, problem.rng, draws=max(draws // 8, FEWEST))
            if out_of_reach(problem, k, few, best - FEW_DRAWS_MARGIN):
                return ledger.bound(k, few.log_evidence)
            expected = few.log_evidence
        unlikely = above and _share(expected - best) < SMALL
        first = max(draws // UNLIKELY_DRAWS, FEWEST) if unlikely else draws
        result = self._drawn(target, proposal, first, origin, best)
        enough = self._enough(result, best, grown)
        if above and not enough and out_of_reach(problem, k, result, best):
            return ledger.bound(k, result.log_evidence)
        if unlikely and not (enough and result.sound and result.effective >= FEW):
            result = self._drawn(target, proposal, draws, origin, best)
            enough = self._enough(result, best, grown)
        if not enough and not any(isinstance(p, Ridge) for p in parts):
            more = problem.proposer.ridges(target)
            if more:
                parts += more
                proposal = problem.proposer.weigh(target, parts)
                result = _carried(origin, self._importance(target, proposal, draws))
        if not self._enough(result, best, grown):
            result = self._more_slowly(target, parts, proposal, origin, result)
        ledger.keep(k, result)

    def _expected(self, k: int) -> float:
        """Ln Z_K if order k loses as much as the one below it did, or nothing if that gained."""
        below, before = (float(x) for x in self.ledger.log_z[[k - 1, k - 2]])
        return below + min(below - before, 0.0) if k > 1 and math.isfinite(before) else below

    def _origin(self, k: int) -> Growth | Division | None:
        """What makes draws of order k out of those of k − 1, if anything does."""
        lower, error = self.ledger.results.get(k - 1), self.ledger.error[k - 1]
        if lower is None or lower.effective < FEW or not math.isfinite(error):
            return None
        return self._division(k, lower) if self.problem.close else self._growth(k, lower)

    def _growth(self, k: int, lower: Importance) -> Growth | None:
        """One tone more than the draws of k − 1, if two or more tones of order k may be anywhere."""
        target = self.problem.target(k - 1)
        if not room_for_cells(target):
            return None
        sure = self.problem.modes.sure(k, WEAK)
        if k - len(sure.z) < 2:
            return None
        if self._surface is None:
            self._surface = Surface(target, target.noise.precision(sure.rss), sure.z)
        return Growth(self._surface, target, lower)

    def _division(self, k: int, lower: Importance) -> Division | None:
        """One tone of the draws of k − 1 in two, where tones may be unresolved."""
        if k < 2:
            return None
        mode = self.problem.modes.best(k - 1)
        pairs = None if mode is None else self.problem.proposer.pairs(mode)
        return None if pairs is None else Division(self.problem.target(k - 1), lower, pairs[1])

    def _parts(self, target: Target, origin: Growth | Division | None) -> list[Proposal]:
        """What candidates are drawn from."""
        parts = self.problem.proposer.parts(target, split=not isinstance(origin, Division))
        if isinstance(origin, Growth):
            parts = [p for p in parts if not isinstance(p, Births) or p.free <= 2]
        return parts if origin is None else [*parts, origin]

    def _importance(self, target: Target, proposal: Proposal, draws: int) -> Importance:
        """Importance sampling of an order within its share of the time budget."""
        problem = self.problem
        return importance_sample(
            target,
            proposal,
            problem.rng,
            draws=draws,
            effective=0.25 * draws,
            max_draws=4 * draws,
            max_seconds=min(problem.left, FIRST * problem.max_seconds),
        )

    def _drawn(
        self,
        target: Target,
        proposal: Proposal,
        draws: int,
        origin: Growth | Division | None,
        best: float,
    ) -> Importance:
        """The first draws of an order, and more of them where they have grown and a few say little of their tail."""
        result = _carried(origin, self._importance(target, proposal, draws))
        few = not self._enough(result, best, grown=True) and result.effective >= 0.1 * draws
        if isinstance(origin, Growth) and few:
            more = importance_sample(target, proposal, self.problem.rng, draws=4 * draws)
            result = origin.carried(more)
        return result

    def _more_slowly(
        self,
        target: Target,
        parts: list[Proposal],
        proposal: Proposal,
        origin: Growth | Division | None,
        result: Importance,
    ) -> Importance:
        """Tempered sampling from a proposal, or the result so far if that is worth more."""
        problem, best = self.problem, self.ledger.to_beat(target.k)
        if isinstance(origin, Growth):
            parts = problem.proposer.parts(target) or parts
            proposal = problem.proposer.weigh(target, parts)
        table = next((p.table for p in parts if isinstance(p, Births)), None)
        hurry = max(problem.left, SLICE * problem.max_seconds)
        seconds = min(problem.tempering.max_seconds, hurry)
        options = replace(problem.tempering, max_seconds=seconds)
        if _share(result.log_evidence - best) < SMALL:
            options = replace(options, particles=options.particles // 2)
        slow = tempered(target, proposal, problem.rng, options, table)
        if isinstance(origin, Division):
            slow = origin.carried(slow)
        return slow if slow.pareto_k < 1 or not result.sound else result

    def _enough(self, result: Importance, best: float, grown: bool = False) -> bool:
        """Whether importance sampling was good enough for what the order contributes."""
        if not math.isfinite(result.log_evidence):
            return False
        share = _share(result.log_evidence - best)
        if share < SMALL:  # its error is what it can do to p(K | x)
            error = share * result.log_evidence_error
            settled = result.pareto_k < 1 or share < FAR_FROM_MATTERING
            return result.effective >= 20 and settled and error < 0.005
        return (
            result.pareto_k < 0.7
            and result.effective >= 0.1 * self.problem.draws
            and result.log_evidence_error < (INHERITED if grown else SURE)
        )


def _share(odds: float) -> float:
    """p(K | x) of an order, as far as the best one is known, by the logarithm of its odds."""
    return 1 / (1 + math.exp(-min(max(odds, -50.0), 50.0)))


def _carried(origin: Growth | Division | None, result: Importance) -> Importance:
    """A result with the errors of the order that its draws come from."""
    return result if origin is None else origin.carried(result)
