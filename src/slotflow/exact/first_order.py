"""Where a search across K begins: the order of the starting points, or of the spectrum's peaks, that explains the data.

BIC decides, since nothing was sampled yet, or of short series Laplace's estimate of the evidence: BIC does not know how
many places and amplitudes a tone may have, and would describe a few dozen samples by as many tones as there may be.
Tones that do not pay for their parameters are left out, and so are those that come closer to each other than the prior
allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.mode import Mode
from slotflow.exact.problem import Problem
from slotflow.exact.proposals.assembly import laplace_evidence
from slotflow.exact.proposals.splits import RESOLVED

__all__ = ["first_order"]

SHORT = 15.0
"""Samples for each parameter of the largest order below which BIC counts too many tones."""

UNSURE = 3.0
"""Error of the linearized model, in units of half the BIC, that is allowed for."""
KEPT_APART = 0.9
"""Share of the prior's separation that a maximum must keep for draws around it to be allowed."""


def first_order(problem: Problem, starts: Sequence[Array], pursue: bool) -> int:
    """The order to begin with; maxima that were found on the way are kept in the problem.

    Args:
        problem: The signal.
        starts: Sets of components, (K, P) each, the most probable first; without any, the spectrum is followed.
        pursue: Whether to follow the residual's spectrum even where there are starts.
    """
    modes, most = problem.modes, problem.prior.k_max
    for tones in starts:
        places = problem.statistics.waveform.place_of(np.asarray(tones, dtype=np.float64))
        modes.add([np.sort(places)])
    first = len(starts[0]) if len(starts) else modes.pursue(most)
    if not len(starts) and _is_short(problem):
        return _apart(problem, _promising(problem, most))
    if pursue and len(starts):
        known = modes.roomy and modes.explained(first)
        if not known:
            pursued = modes.pursue(most)
            first = _promising(problem, max([pursued, *(len(tones) for tones in starts)]))
        first = _shed(problem, first)
    return _apart(problem, first)


def _promising(problem: Problem, most: int) -> int:
    """The order up to `most` whose best maximum is worth most."""
    found = {k: mode for k in range(most + 1) if (mode := problem.modes.best(k)) is not None}
    return max(found, key=lambda k: _worth(problem, found[k]))


def _is_short(problem: Problem) -> bool:
    """Whether there are too few samples for BIC."""
    most = problem.statistics.waveform.size * problem.prior.k_max
    return problem.statistics.n < SHORT * most


def _worth(problem: Problem, mode: Mode) -> float:
    """What stands in for ln Z of the order of a maximum."""
    k = len(mode.z)
    if not k or not _is_short(problem):
        return problem.minus_half_bic(k, mode.rss)
    evidence = laplace_evidence(problem.target(k), mode)
    return evidence if math.isfinite(evidence) else -math.inf


def _shed(problem: Problem, k: int) -> int:
    """The order below k that is reached by leaving tones out as long as fewer are worth more."""
    modes = problem.modes
    while k > max(problem.prior.k_min, 1):
        more = modes.best(k)
        if more is not None and _needs_all(problem, more):
            break
        modes.down(k - 1)
        fewer = modes.best(k - 1)
        if more is not None and (fewer is None or _worth(problem, fewer) < _worth(problem, more)):
            break
        k -= 1
    return k


def _needs_all(problem: Problem, mode: Mode) -> bool:
    """Whether BIC rises without any tone of a maximum, as far as the linearized model tells."""
    if mode.bounded or mode.gap(problem.modes.bin) < RESOLVED or _is_short(problem):
        return False
    k = len(mode.z)
    rise = float(mode.strength.min() * problem.target(k).noise.variance(mode.rss))
    without = problem.minus_half_bic(k - 1, mode.rss + rise)
    return without < problem.minus_half_bic(k, mode.rss) - UNSURE


def _apart(problem: Problem, k: int) -> int:
    """The largest order ≤ k whose best maximum keeps the prior's separation: of others no draw is allowed."""
    smallest = KEPT_APART * problem.prior.min_separation
    while k > max(problem.prior.k_min, 1):
        mode = problem.modes.best(k)
        if mode is None or mode.gap(1.0) >= smallest:
            break
        problem.modes.down(k - 1)
        k -= 1
    return k
