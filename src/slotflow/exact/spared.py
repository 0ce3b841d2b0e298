r"""Orders that need no sampling: what they are worth at most.

- Too few tones: one tone less than Z_K's loses what its weakest tone is worth (`assembly.without_weakest`), if tones
  are resolved; Z_K never exceeds the largest likelihood, nor Laplace's estimate by much.
- One tone more than the data ask for gains (K + 1) × the mean over its prior of its likelihood ratio: a free tone
  that the prior wants strong (`births.py`) or, where tones may be unresolved, one of K resolved tones in two
  (`splits.py`).
- A further split in two that the data do not ask for gains no more than the one before.
- Where the data do not ask for one tone more (no maximum of log L is higher by `ASKED_FOR`), a poor sample that leaves
  it `OUT_OF_REACH` is enough.
"""

from __future__ import annotations

import math

import numpy as np

from slotflow.core.numeric import log_sum_exp
from slotflow.exact.importance import Importance
from slotflow.exact.ledger import Ledger
from slotflow.exact.mode import Mode
from slotflow.exact.orders import NEGLIGIBLE
from slotflow.exact.problem import Problem
from slotflow.exact.proposals.assembly import laplace_evidence, without_weakest
from slotflow.exact.proposals.splits import RESOLVED

__all__ = [
    "HOPELESS",
    "MARGIN",
    "OUT_OF_REACH",
    "bound_by_maximum",
    "bound_without_fit",
    "out_of_reach",
]

HOPELESS = 16.0
"""Logarithm of the odds beyond which an order is not sampled."""
MARGIN = 10.0
"""By how much Laplace's estimate may be too small, for all that is known before sampling."""
OUT_OF_REACH = 12.0
"""Logarithm of the odds at which an order that the data do not ask for needs no better estimate."""
ASKED_FOR = 10.0
"""Gain in log L by one tone more from which on the data ask for it."""
FURTHER_LOSS = 3.0
"""Loss of ln Z by a first split from which on a second one loses too."""


def bound_without_fit(problem: Problem, ledger: Ledger, k: int) -> float | None:
    """What order k is worth at most, by what is known of its neighbours; None where that leaves it possible."""
    if not ledger.reached(k - 1):
        return _too_few(problem, ledger, k)
    bound = _second_pair(ledger, k) if problem.close else None
    return _one_more(problem, ledger, k) if bound is None else bound


def bound_by_maximum(problem: Problem, ledger: Ledger, k: int) -> float | None:
    """What order k is worth at most, by its largest likelihood; None where that leaves it possible."""
    mode, target, best = problem.modes.best(k), problem.target(k), ledger.to_beat(k)
    if mode is None:
        return None
    largest = float(target.log_likelihood(np.array([mode.rss]))[0]) - math.lgamma(k + 1)
    if np.isfinite(best) and largest >= best - HOPELESS:
        # Of an unresolved pair the posterior is no Gaussian, and the estimate worth less.
        pairs = mode.gap(problem.modes.bin) < RESOLVED
        largest = min(largest, laplace_evidence(target, mode) + (3 * MARGIN if pairs else MARGIN))
    return largest if largest < best - HOPELESS else None


def out_of_reach(problem: Problem, k: int, result: Importance, best: float) -> bool:
    """Whether order k cannot matter, for all that a poor sample of it says: no maximum is much above k − 1's.

    Args:
        problem: The signal.
        k: The order.
        result: The sample.
        best: ln Z_K at which the order would be as probable as the best one.
    """
    if not result.log_evidence < best - OUT_OF_REACH:
        return False
    mode, below = problem.modes.best(k), problem.modes.best(k - 1)
    if mode is None or below is None:
        return False
    higher, lower = problem.target(k).log_likelihood(np.array([mode.rss, below.rss]))
    return bool(higher - lower < ASKED_FOR)


def _too_few(problem: Problem, ledger: Ledger, k: int) -> float | None:
    """The estimate of k tones by those of k + 1, where it excludes them."""
    mode = problem.modes.best(k + 1)
    if mode is None or mode.bounded or not np.isfinite(ledger.error[k + 1]):
        return None
    if problem.close and not _stands_alone(problem, mode):
        return None
    if not mode.plausible(problem.prior):
        return None
    known = float(ledger.log_z[k + 1])
    estimate = without_weakest(problem.target(k + 1), mode, known) + MARGIN
    return estimate if estimate < ledger.to_beat(k) - HOPELESS else None


def _one_more(problem: Problem, ledger: Ledger, k: int) -> float | None:
    """The estimate of one tone more than k − 1, a free one or one of these in two; None where it does not exclude it.

    The tables of pairs move the other tones to first order, which is worth little for tones that share what they
    explain.
    """
    base, proposer = problem.modes.best(k - 1), problem.proposer
    if base is None or (problem.close and not _stands_alone(problem, base)):
        return None
    births, known = proposer.table(base), float(ledger.log_z[k - 1]) + math.log(k)
    worst = ledger.to_beat(k) - (OUT_OF_REACH if problem.close else HOPELESS)
    if births is None or known + births[0].log_gain >= worst:
        return None
    gains = [births[0].log_gain]
    if problem.close:
        pairs = proposer.pairs(base)
        if pairs is None:
            return None
        gains += [pair.log_gain for pair in pairs[1]]
    estimate = known + float(log_sum_exp(np.array(gains)))
    return estimate if estimate < worst else None


def _stands_alone(problem: Problem, mode: Mode) -> bool:
    """Whether the linearized model tells what a maximum's tones are worth: they share nothing of what they explain."""
    return mode.resolved(problem.modes.bin) and mode.strength_apart is None


def _second_pair(ledger: Ledger, k: int) -> float | None:
    """The estimate of a second pair that the data do not ask for: it gains at most what the first one gained."""
    if k < 2 or not ledger.reached(k - 2):
        return None
    once, before = float(ledger.log_z[k - 1]), float(ledger.log_z[k - 2])
    gain = 2 * once - before
    unlikely = gain < ledger.to_beat(k) + math.log(NEGLIGIBLE)
    return gain if unlikely and once < before - FURTHER_LOSS else None
