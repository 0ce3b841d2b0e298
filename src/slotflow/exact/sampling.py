r"""Draws and evidence of one order: importance sampling first, tempered sampling where its weights cannot be trusted.

The proposal is one that suits the signal (`proposals/assembly.py`). Where two or more tones may be anywhere, each order
grows out of the draws of the one below (`growth.py`), whose errors it takes over. Where tones may be unresolved, one of
the draws below is divided in two (`division.py`), with their errors too. If the weights cannot be trusted, or too few
draws are effective for what the order contributes, tempered sampling starts from the same proposal.

**Draws.** What an error of ln Z_K can do to p(K | x) goes with p(K | x) itself. So an order that a first look (a few
draws, or the fall of the evidence from order to order) expects below `SMALL` begins with a quarter of the draws, and
gets more of them if these do not tell its share to 0.005, find it larger, or have weights with a tail: few draws of a
heavy tail miss it, and Z comes out too small. All of them are drawn in rounds that add up (`rounds.py`). Where the tail
stays, tempered sampling decides, unless what it may hide moves p(K | x) by less than 0.01.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance
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
from slotflow.exact.rounds import FEW_CANDIDATES, Rounds
from slotflow.exact.spared import HOPELESS, MARGIN, out_of_reach
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
MOST_DRAWS = 4
"""An order may have so many times the draws that are asked for."""
EFFECTIVE, FEWEST_EFFECTIVE = 0.25, 0.1
"""Effective draws of an order, for each that is asked for: so many are aimed at, and so many are needed."""
FEWEST_OF_SMALL, FEWEST_OF_ALL = 20.0, 3.0
"""Effective draws of an order below `SMALL` that are needed, and of one that is far from mattering."""
HARDLY_MATTERS, FAR_FROM_MATTERING = NEGLIGIBLE / 3, NEGLIGIBLE / 10
"""p(K | x) of orders that stay negligible with one nat more of ln Z, and with two."""
FAR_BELOW = HOPELESS + 3 * MARGIN
"""Logarithm of the odds at which a first look excludes an order below: as much is granted to Laplace's estimate."""
TOLERATED, TOLERATED_IN_A_TAIL = 0.005, 0.01
"""Errors of p(K | x) of an order below `SMALL` that are small enough, and where its weights have no mean."""
IN_A_TAIL = 0.5
"""What ln Z may miss where weights have no mean (Pareto k ≥ 1)."""
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


@dataclass(frozen=True)
class _Drawing:
    """What is known of an order before it is sampled."""

    origin: Growth | Division | None
    """What makes draws of it out of those of the order below, if anything does."""
    best: float
    """ln Z_K at which it would be as probable as the best one."""
    pilot: int
    """Draws of equal shares, which are worth less than those after them and do not count."""
    unlikely: bool = False
    """Whether it is expected below `SMALL`."""

    @property
    def grown(self) -> bool:
        """Whether its draws take over errors of tones that may be anywhere."""
        return isinstance(self.origin, Growth)

    def result(self, rounds: Rounds) -> Importance:
        """What draws say, with the errors of the order that they come from."""
        found, origin = rounds.result(), self.origin
        if isinstance(origin, Division):
            return origin.carried(found, rounds.share(origin))
        return found if origin is None else origin.carried(found)


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
        rounds = Rounds.begun(target, parts, problem.rng)
        drawing = _Drawing(origin, best, len(rounds))
        expected = self._expected(k) if drawing.grown else math.inf
        if problem.close and math.isfinite(
            best
        ):  # mostly an order that cannot matter, as a few draws show
            rounds.draw(max(problem.draws // 8, FEWEST), most=FEW_CANDIDATES)
            few = rounds.result()
            if self._beyond(k, few, best, above):
                return ledger.bound(k, few.log_evidence)
            expected = few.log_evidence
        drawing = replace(drawing, unlikely=_share(expected - best) < SMALL)
        result = self._drawn(rounds, drawing, problem.draws)
        if not self._settled(result, drawing):
            enough = self._enough(result, best, drawing.grown)
            if above and not enough and out_of_reach(problem, k, result, best):
                return ledger.bound(k, result.log_evidence)
            result = self._with_more(rounds, drawing, result)
        if not self._enough(result, best, drawing.grown):
            result = self._more_slowly(rounds, origin, result)
        ledger.keep(k, result)

    def _beyond(self, k: int, few: Importance, best: float, above: bool) -> bool:
        """Whether order k cannot matter, for all that a first look says of it."""
        if above:
            return out_of_reach(self.problem, k, few, best - FEW_DRAWS_MARGIN)
        return -math.inf < few.log_evidence < best - FAR_BELOW

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

    def _drawn(self, rounds: Rounds, drawing: _Drawing, most: int) -> Importance:
        """Draws until they are settled, `most` of them are there, or the order's share of the time is over."""
        problem = self.problem
        seconds, began = min(problem.left, FIRST * problem.max_seconds), problem.seconds
        goal = max(problem.draws // UNLIKELY_DRAWS, FEWEST) if drawing.unlikely else problem.draws
        goal, most, patience = (
            goal + drawing.pilot,
            most + drawing.pilot,
            len(rounds) + problem.draws,
        )
        while True:
            half = -(-max(goal, len(rounds)) // 2)
            if (
                len(rounds) < goal
            ):  # in two rounds at least: the second tells whether the first missed much
                size = goal - len(rounds) if len(rounds) else half
            else:
                result = drawing.result(rounds)
                late = problem.seconds - began > seconds
                size = min(half, most - len(rounds))
                tails = len(rounds) >= patience and result.pareto_k >= 1
                if late or tails or self._settled(result, drawing):
                    return result
                if not self._promises(result, drawing.best, most):
                    return result
                rounds.adapt()
            before = len(rounds)
            rounds.draw(size, max(seconds - (problem.seconds - began), 0.0))
            if len(rounds) - before < size // 2:  # hardly any candidate meets the prior
                return drawing.result(rounds)

    def _with_more(self, rounds: Rounds, drawing: _Drawing, result: Importance) -> Importance:
        """More draws; where unresolved tones leave weights with a tail, from their ridges too."""
        most, ridges = MOST_DRAWS * self.problem.draws, list[Ridge]()
        tails = self.problem.close and result.pareto_k >= 1
        if not tails:
            result = self._drawn(rounds, drawing, most)
        if not self._enough(result, drawing.best, drawing.grown):
            if not any(isinstance(part, Ridge) for part in rounds.parts):
                ridges = self.problem.proposer.ridges(rounds.target)
                rounds.add(ridges)
            if ridges or tails:
                result = self._drawn(rounds, drawing, len(rounds) - drawing.pilot + most // 2)
        return result

    def _promises(self, result: Importance, best: float, most: int) -> bool:
        """Whether draws may suffice once there are `most` of them: not if there are, or if they are far from it."""
        n, draws = len(result.log_weights), self.problem.draws
        if n + draws // 8 > most:
            return False
        small = _share(result.log_evidence - best) < SMALL
        needed = FEWEST_OF_SMALL if small else FEWEST_EFFECTIVE * draws
        return n < draws or result.effective * most / n >= needed

    def _settled(self, result: Importance, drawing: _Drawing) -> bool:
        """Whether draws of an order are as many and as good as its p(K | x) asks for."""
        if not self._enough(result, drawing.best, drawing.grown):
            return False
        draws, n = self.problem.draws, len(result.log_weights)
        share = _share(result.log_evidence - drawing.best)
        few = share < HARDLY_MATTERS or (result.sound and result.effective >= FEW)
        if drawing.unlikely and share < SMALL and few:
            return True
        return n >= draws and result.effective >= EFFECTIVE * draws

    def _more_slowly(
        self, rounds: Rounds, origin: Growth | Division | None, result: Importance
    ) -> Importance:
        """Tempered sampling from a proposal, or the result so far if that is worth more."""
        problem, target = self.problem, rounds.target
        if isinstance(origin, Growth):
            rounds = Rounds.begun(
                target, problem.proposer.parts(target) or rounds.parts, problem.rng
            )
        table = next((p.table for p in rounds.parts if isinstance(p, Births)), None)
        hurry = max(problem.left, SLICE * problem.max_seconds)
        seconds = min(problem.tempering.max_seconds, hurry)
        options = replace(problem.tempering, max_seconds=seconds)
        if _share(result.log_evidence - self.ledger.to_beat(target.k)) < SMALL:
            options = replace(options, particles=options.particles // 2)
        slow = tempered(target, rounds.proposal, problem.rng, options, table)
        if isinstance(origin, Division):
            slow = origin.carried(slow)
        return slow if slow.pareto_k < 1 or not result.sound else result

    def _enough(self, result: Importance, best: float, grown: bool = False) -> bool:
        """Whether importance sampling was good enough for what the order contributes."""
        if not math.isfinite(result.log_evidence):
            return False
        share = _share(result.log_evidence - best)
        if share < SMALL:  # its error is what it can do to p(K | x)
            error, tail = share * result.log_evidence_error, result.pareto_k >= 1
            settled = error + share * IN_A_TAIL < TOLERATED_IN_A_TAIL if tail else error < TOLERATED
            needed = FEWEST_OF_SMALL if share > FAR_FROM_MATTERING else FEWEST_OF_ALL
            return result.effective >= needed and settled
        return (
            result.pareto_k < 0.7
            and result.effective >= FEWEST_EFFECTIVE * self.problem.draws
            and result.log_evidence_error < (INHERITED if grown else SURE)
        )


def _share(odds: float) -> float:
    """p(K | x) of an order, as far as the best one is known, by the logarithm of its odds."""
    return 1 / (1 + math.exp(-min(max(odds, -50.0), 50.0)))
