r"""Harmonics and combination frequencies: which places are whole multiples, sums or differences of others.

A component at f is labelled n·f_i, or n·f_i ± m·f_j with n + m up to `HIGHEST_SUM`, if it lies within `TOLERANCE`
standard deviations (its own and the parents', added in squares; a small share of the resolution at least) of that
frequency. Components whose places are not known to a bin take no part. Parents are the strongest ones that carry no
label themselves. They are stronger than the child, but for pure multiples: a harmonic may be stronger than its
fundamental.

**By chance.** Combinations are tried in the order of their complexity n + m. Those up to the complexity c of the match
that lie within ±H of the child have the density ρ_c = #/2H, and a place that has nothing to do with them would match
one of them with the probability

.. math:: p = 1 - e^{-2 δ ρ_c} ,

δ being the tolerance. A label is kept if p is small. Among K components about K p labels are accidental.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = ["Combination", "find_combinations", "may_combine"]

HIGHEST_SUM = 4
"""Largest n + m of a combination of two components."""
HIGHEST_HARMONIC = 10
"""Largest n of a multiple of one component."""
MOST_PARENTS = 12
"""Most components that others are composed of."""
TOLERANCE = 3.0
"""Standard deviations within which a combination matches."""
SMALLEST_TOLERANCE = 0.02
"""The same at least, in units of the resolution 1/T."""
NEIGHBOURHOOD = 0.1
"""H, in units of the band."""
ACCIDENTAL = 0.01
"""Probability by chance above which there is no label."""


class Combination(NamedTuple):
    """One component as a combination of others."""

    component: int
    """Which component, counted from 0 in the order of places."""
    terms: tuple[tuple[int, int], ...]
    """Whole number and component of each term: ((2, 0), (−1, 3)) is 2 f₀ − f₃."""
    deviation: float
    """Place of the component minus that of the combination, in Hz."""
    deviation_sd: float
    """Standard deviation of that difference."""
    chance: float
    """Probability that an unrelated component matches a combination as simple as this one."""

    @property
    def label(self) -> str:
        """In words, with components counted from 1: "2f1", "f1+f4", "3f1-f2"."""
        text = ""
        for number, component in self.terms:
            sign = "-" if number < 0 else "+" if text else ""
            times = "" if abs(number) == 1 else str(abs(number))
            text += f"{sign}{times}f{component + 1}"
        return text


class _Trials(NamedTuple):
    """Combinations n·f_i + m·f_j of components, (T,) each; m = 0 where there is one component alone."""

    first: NDArray[np.int64]
    """n."""
    at_first: NDArray[np.int64]
    """i."""
    second: NDArray[np.int64]
    """m."""
    at_second: NDArray[np.int64]
    """j."""

    @property
    def complexity(self) -> NDArray[np.int64]:
        """|n| + |m|."""
        return np.abs(self.first) + np.abs(self.second)

    def terms(self, row: int) -> tuple[tuple[int, int], ...]:
        """Whole number and component of each term of a combination, those above 0 first."""
        found = [(int(self.first[row]), int(self.at_first[row]))]
        if self.second[row]:
            found.append((int(self.second[row]), int(self.at_second[row])))
        return tuple(sorted(found, key=lambda term: term[0] < 0))


def find_combinations(
    places: Array,
    errors: Array,
    amplitudes: Array,
    *,
    band: tuple[float, float],
    resolution: float,
    accidental: float = ACCIDENTAL,
) -> tuple[Combination, ...]:
    """The components that are combinations of others, in the order of their places.

    Args:
        places: Frequencies in Hz, (K,), rising.
        errors: Their standard deviations, (K,).
        amplitudes: (K,).
        band: Lowest and highest frequency that was looked at, in Hz.
        resolution: 1/T in Hz.
        accidental: Probability by chance above which there is no label.
    """
    found: dict[int, Combination] = {}
    parents: list[int] = []
    known = np.flatnonzero(errors < resolution)  # others may be anywhere
    for child in known[np.argsort(-amplitudes[known], kind="stable")].tolist():
        below = [i for i in known.tolist() if i not in found and places[i] < places[child]]
        fundamentals = sorted(below, key=lambda i: -amplitudes[i])[:MOST_PARENTS]
        trials = _trials(parents[:MOST_PARENTS], fundamentals)
        match = _match(child, trials, places, errors, band, resolution)
        if match is not None and match.chance <= accidental:
            found[child] = match
        else:
            parents.append(child)
    return tuple(found[i] for i in sorted(found))


def may_combine(places: Array, errors: Array, resolution: float) -> NDArray[np.bool_]:
    """Which of S signals may have a component that is a combination of others, (S,): no other has one.

    Every combination of any two components counts here, whatever their amplitudes; `find_combinations` decides.

    Args:
        places: Frequencies in Hz, (S, K).
        errors: Their standard deviations, (S, K).
        resolution: 1/T in Hz.
    """
    size = places.shape[1]
    if size > MOST_PARENTS:
        return np.ones(len(places), dtype=bool)
    everyone = list(range(size))
    trials = _trials(everyone, everyone)
    squares = errors**2
    at = trials.first * places[:, trials.at_first] + trials.second * places[:, trials.at_second]
    variance = trials.first**2 * squares[:, trials.at_first]
    variance += trials.second**2 * squares[:, trials.at_second]  # (S, trials)
    found = np.zeros(len(places), dtype=bool)
    for child in everyone:
        tolerance = TOLERANCE * np.sqrt(squares[:, child, None] + variance)
        near = np.abs(places[:, child, None] - at)
        near = near <= np.maximum(tolerance, SMALLEST_TOLERANCE * resolution)
        found |= near.any(1)
    return found


@functools.lru_cache(maxsize=2 * MOST_PARENTS)
def _pairs(count: int) -> _Trials:
    """All combinations of two of so many parents, which are counted from 0."""
    numbers = [
        signs
        for n, m in itertools.product(range(1, HIGHEST_SUM), repeat=2)
        if n + m <= HIGHEST_SUM
        for signs in ((n, m), (n, -m), (-n, m))
    ]
    rows = [(n, i, m, j) for i, j in itertools.combinations(range(count), 2) for n, m in numbers]
    return _Trials(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def _trials(parents: list[int], fundamentals: list[int]) -> _Trials:
    """All multiples of some components and all combinations of two of others."""
    pairs, who = _pairs(len(parents)), np.array(parents, dtype=np.int64)
    multiples = np.arange(2, HIGHEST_HARMONIC + 1)
    first = np.tile(multiples, len(fundamentals))
    at_first = np.repeat(np.array(fundamentals, dtype=np.int64), len(multiples))
    return _Trials(
        np.concatenate([first, pairs.first]),
        np.concatenate([at_first, who[pairs.at_first]]),
        np.concatenate([0 * first, pairs.second]),
        np.concatenate([at_first, who[pairs.at_second]]),
    )


def _match(
    child: int,
    trials: _Trials,
    places: Array,
    errors: Array,
    band: tuple[float, float],
    resolution: float,
) -> Combination | None:
    """The simplest combination at the place of a component, the nearest among equally simple ones."""
    complexity = trials.complexity
    at = trials.first * places[trials.at_first] + trials.second * places[trials.at_second]
    deviation, squares = places[child] - at, errors**2
    variance = trials.first**2 * squares[trials.at_first]
    sd = np.sqrt(squares[child] + variance + trials.second**2 * squares[trials.at_second])
    tolerance = np.maximum(TOLERANCE * sd, SMALLEST_TOLERANCE * resolution)
    hits = np.flatnonzero(np.abs(deviation) <= tolerance)
    if not len(hits):
        return None
    best = min(hits.tolist(), key=lambda row: (complexity[row], abs(deviation[row]) / sd[row]))
    half = NEIGHBOURHOOD * (band[1] - band[0])
    low, high = max(band[0], places[child] - half), min(band[1], places[child] + half)
    near = (at >= low) & (at <= high) & (complexity <= complexity[best])
    near[best] = True
    expected = float((2 * tolerance[near]).sum()) / max(high - low, resolution)
    return Combination(
        child,
        trials.terms(best),
        float(deviation[best]),
        float(sd[best]),
        -math.expm1(-expected),
    )
