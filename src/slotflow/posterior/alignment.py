r"""Which component of one draw is which of another: labels that mean the same in all draws, for every method.

A posterior of tones knows no labels: a sampler swaps them, a slot may take another tone, and draws of different K hold
different tones. One rule names them for summaries, catalogues and plots. It looks only at the waveform's place, the
frequency f, which tells tones apart, and never at the order in which a draw lists them.

**Reference.** Among the draws of one K (the most probable one, unless the caller names a reference) the draw that is
most like the others gives each component's first frequency. Two rounds follow: every draw is matched to the reference,
and the median g_j and the spread s_j = (q_84 − q_16)/2 of what was matched to component j are the next reference. In
the first round no width is known: it is one bin for all components, and pairs cost ln(1 + d²), so that tones that stay
in place are matched before one that jumps.

Where the sorted frequencies of all draws keep to ranges that do not overlap, each within a bin, the result is their
order, and no round is needed.

**Matching.** A draw's component at f and component j are the whitened distance

.. math:: d_j(f) = |f - g_j| / w_j , \quad w_j^2 = s_j^2 + (0.2 / T)^2

apart: a fifth of a bin 1/T stands for the pull of unresolved neighbours, which differs between one K and the next. The
pairs of a draw minimize a sum of costs (the Hungarian algorithm). A pair with d <= 5 costs d² + 2 ln w_j, twice the
negative logarithm of a Gaussian; any other costs a constant above all of these. Most draws need no search: where the
cheapest partners of all tones are distinct, they are the solution.

**Across K.** In draws of any K, two tones with d > 5 are not paired: a tone more than a bin and five widths away is
another one. Tones without a partner are gathered where they are densest: median and spread of those within one bin of
the densest place are g_j and s_j of a further component, which takes every free tone within d <= 5. This goes on until
a component would be found in less than 5 % of the draws. Tones that lie all over the band thus become no component, and
only p(K | x) tells of them.

**Existence.** With the share π_{jK} of the draws of K that have component j, p(j | x) = Σ_K p(K | x) π_{jK}: p(K | x)
is taken as it is known, not as often as the draws happened to have K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.posterior.matching import DISTANCES_AT_ONCE, GATE, Labels, Reference, match
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Alignment", "align", "existence", "order_suffices", "relabel"]

PULL_BINS = 0.2
"""Share of a bin 1/T that is added to the widths, for the pull of unresolved neighbours."""
LEAST_EXISTENCE = 0.05
"""Existence probability below which tones that the reference lacks become no component."""
REFERENCE_CANDIDATES, COMPARED_DRAWS = 16, 100
"""Draws among which the first reference is chosen, and draws that they are compared with."""
ASSUMED_BINS = 150
"""Bins that a band is assumed to have where the length of the data is not known."""


@dataclass(frozen=True)
class Alignment:
    """Joint draws whose columns are components, the same in all draws."""

    theta: Array
    """Parameters, (n, J, P), NaN where a draw lacks the component."""
    existence: Array
    """p(component | x), (J,)."""
    labels: Labels
    """Component of each tone of the draws, (n, K_max); −1 where there is no tone, or one that belongs to none."""
    reference: Reference
    """Places and widths of the components, in the order of their frequencies."""


def relabel(
    draws: Array, resolution: float, waveform: Waveform = TONE
) -> tuple[Array, Labels, Reference]:
    """Draws of one K with their components in one order, that of the reference's frequencies.

    Args:
        draws: Parameters of the components, (n, k, P), components in any order.
        resolution: 1/T in Hz; 0 if it is not known.
        waveform: Says where a component is.

    Returns:
        The draws, (n, k, P); the column in which each component was, (n, k); the reference.
    """
    n, k = draws.shape[:2]
    if n == 0 or k == 0:
        nothing = np.full(k, np.nan)
        return draws.copy(), np.tile(np.arange(k), (n, 1)), Reference(nothing, nothing)
    places = waveform.place_of(draws)
    order = np.argsort(places, axis=1, kind="stable")
    f = np.take_along_axis(places, order, 1)  # (n, k)
    pull = PULL_BINS * _known(resolution, f)
    low, high = f.min(0), f.max(0)
    if order_suffices(f[None], _known(resolution, f))[0]:  # nothing to decide
        frequency, spread = _places(f)
        ranked = np.take_along_axis(draws, order[..., None], 1)
        return ranked, order, Reference(frequency, np.hypot(spread, pull))
    columns = np.tile(np.arange(k), (n, 1))
    frequency, width = np.empty(k), np.empty(k)
    # Ranks whose ranges do not overlap are never mistaken for each other: each run of the others is matched alone.
    for run in np.split(np.arange(k), 1 + np.flatnonzero(high[:-1] < low[1:])):
        inner, (frequency[run], width[run]) = _matched_run(f[:, run], pull)
        columns[:, run] = run[inner]
    source: Labels = np.asarray(np.take_along_axis(order, columns, 1), dtype=np.int64)
    named = np.take_along_axis(draws, source[..., None], 1)
    return named, source, Reference(frequency, width)


def order_suffices(places: Array, resolution: float) -> NDArray[np.bool_]:
    """Whether components of one K are told apart by their order alone, for each of S signals, (S,).

    That is so where the ranges of the places do not overlap and none is wider than a bin.

    Args:
        places: Places of the components in all draws, rising, (S, n, k).
        resolution: 1/T in Hz.
    """
    low, high = places.min(1), places.max(1)
    narrow = (high - low <= GATE * PULL_BINS * resolution).all(1)
    apart: NDArray[np.bool_] = narrow & (high[:, :-1] < low[:, 1:]).all(1)
    return apart


def _matched_run(f: Array, pull: float) -> tuple[Labels, Reference]:
    """The column of each component in draws of sorted places, (n, k), and the components' places and widths."""
    n, k = f.shape
    columns: Labels = np.zeros((n, k), dtype=np.int64)
    if k == 1:
        frequency, spread = _places(f)
        return columns, Reference(frequency, np.hypot(spread, pull))
    frequency, width = _typical(f, pull), np.full(k, GATE * pull)
    for first in (True, False):
        labels = match(f, Reference(frequency, width), complete=True, robust=first)
        columns = np.argsort(labels, axis=1)
        frequency, spread = _places(np.take_along_axis(f, columns, 1))
        rising = np.argsort(frequency, kind="stable")
        frequency, width = frequency[rising], np.hypot(spread[rising], pull)
        columns = columns[:, rising]
    return columns, Reference(frequency, width)


def existence(labels: Labels, counts: Labels, k_probs: Array, size: int) -> Array:
    """p(component | x) of joint draws, (size,).

    Args:
        labels: Component of each tone, (n, K_max), −1 for none.
        counts: K of each draw, (n,).
        k_probs: p(K | x), (K_max + 1,).
        size: Number of components.
    """
    total = np.zeros(size)
    for k in np.unique(counts):
        found = labels[counts == k]
        present = np.bincount(found[found >= 0], minlength=size)[:size]
        total += k_probs[k] * present / len(found)
    return np.minimum(total, 1.0)


def align(
    theta: Array,
    counts: Labels,
    k_probs: Array,
    resolution: float,
    reference: Reference | None = None,
    waveform: Waveform = TONE,
) -> Alignment:
    """Names the components of joint draws over all K.

    Args:
        theta: Parameters of the components, (n, K_max, P), NaN where a draw has no such component, in any order.
        counts: K of each draw, (n,).
        k_probs: p(K | x), (K_max + 1,).
        resolution: 1/T in Hz; 0 if it is not known.
        reference: Components to start from; by default those of the most probable K among the draws.
        waveform: Says where a component is.
    """
    f = waveform.place_of(theta)
    resolution = _known(resolution, f)
    if reference is None:
        seen = np.bincount(counts, minlength=len(k_probs)) > 0
        k_ref = int(np.where(seen, k_probs, -1.0).argmax())
        chosen = theta[counts == k_ref]
        present = np.isfinite(waveform.place_of(chosen))
        complete = chosen[present].reshape(len(chosen), k_ref, waveform.size)
        reference = relabel(complete, resolution, waveform)[2]
    labels = match(f, reference)
    labels, reference = _further(f, labels, counts, k_probs, resolution, reference)
    size = len(reference.frequency)
    aligned = np.full((len(theta), size, waveform.size), np.nan)
    rows, tones = np.nonzero(labels >= 0)
    aligned[rows, labels[rows, tones]] = theta[rows, tones]
    return Alignment(aligned, existence(labels, counts, k_probs, size), labels, reference)


def _further(
    f: Array,
    labels: Labels,
    counts: Labels,
    k_probs: Array,
    resolution: float,
    reference: Reference,
) -> tuple[Labels, Reference]:
    """Adds the components that the reference lacks, where tones without a partner are dense."""
    sizes = np.maximum(np.bincount(counts, minlength=len(k_probs)), 1)
    weight = (k_probs / sizes)[counts]  # of each draw, (n,)
    reach = GATE * PULL_BINS * resolution
    places, widths = list(reference.frequency), list(reference.width)
    labels, taken = labels.copy(), labels >= 0
    while True:
        rows, tones = np.nonzero(np.isfinite(f) & ~taken)
        if not rows.size:
            break
        free = f[rows, tones]
        order = np.argsort(free, kind="stable")
        ranked, mass = free[order], np.concatenate([[0.0], np.cumsum(weight[rows][order])])
        first = np.searchsorted(ranked, ranked - reach)
        last = np.searchsorted(ranked, ranked + reach, side="right")
        best = int((mass[last] - mass[first]).argmax())
        window = ranked[first[best] : last[best]]
        centre, spread = (float(x) for x in np.ravel(_places(window[:, None])))
        width = float(np.hypot(spread, PULL_BINS * resolution))
        distance = np.where(taken | np.isnan(f), np.inf, np.abs(f - centre))  # (n, K_max)
        nearest = distance.argmin(1)
        near = np.flatnonzero(distance[np.arange(len(f)), nearest] <= GATE * width)
        if weight[near].sum() < LEAST_EXISTENCE:
            break
        labels[near, nearest[near]] = len(places)
        taken[near, nearest[near]] = True
        places.append(centre)
        widths.append(width)
    rising = np.argsort(places, kind="stable")
    rank = np.append(np.argsort(rising), -1)  # −1 stays −1
    return rank[labels], Reference(np.array(places)[rising], np.array(widths)[rising])


def _typical(f: Array, pull: float) -> Array:
    """The draw that is most like the others, (k,), among draws of sorted frequencies, (n, k)."""
    n, k = f.shape
    few = max(8, min(COMPARED_DRAWS, DISTANCES_AT_ONCE // (REFERENCE_CANDIDATES * k * k)))
    some = f[np.unique(np.linspace(0, n - 1, min(n, REFERENCE_CANDIDATES)).astype(int))]
    others = f[np.unique(np.linspace(0, n - 1, min(n, few)).astype(int))]
    d = np.abs(some[:, None, :, None] - others[None, :, None, :]) / (GATE * pull)  # (m, n', k, k)
    capped = np.minimum(d, GATE) ** 2
    cost = capped.min(2).sum((1, 2)) + capped.min(3).sum((1, 2))
    return np.asarray(some[int(cost.argmin())])


def _places(f: Array) -> tuple[Array, Array]:
    """Median and half the central 68 % of each column, (n, k) to (k,) twice."""
    low, middle, high = np.quantile(f, (0.16, 0.5, 0.84), axis=0)
    return middle, 0.5 * (high - low)


def _known(resolution: float, f: Array) -> float:
    """1/T, or a guess from the range of the frequencies."""
    finite = f[np.isfinite(f)]
    if resolution > 0 or not finite.size:
        return resolution if resolution > 0 else 1.0
    return float(np.ptp(finite)) / ASSUMED_BINS or 1.0
