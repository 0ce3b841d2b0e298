r"""Which component of one draw is which of another: labels that mean the same in all draws, for every method.

A posterior of tones knows no labels: a sampler swaps them, a slot may take another tone, and draws of different K hold
different tones. One rule names them for summaries, catalogues and plots. It looks at frequencies alone, which tell
tones apart, and never at the order in which a draw lists them.

**Reference.** Of the draws of one K (the most probable, unless told otherwise) the one that is most like the others
gives each component's first frequency. Then, twice: match every draw to the reference and let g_j and s_j be the
median and the spread, (q_84 − q_16)/2, of what was matched to component j. No width is known the first time: it is a
bin for all, and pairs cost ln(1 + d²), so that the tones that stay in place are matched before one that jumps.

Where the sorted frequencies of all draws keep to ranges that do not overlap, each within a bin, this is their order.

**Matching.** A draw's component at f and component j are the whitened distance

.. math:: d_j(f) = |f - g_j| / w_j , \quad w_j^2 = s_j^2 + (0.2 / T)^2

apart: a fifth of a bin 1/T stands for the pull of unresolved neighbours, which differs between one K and the next. The
pairs of a draw minimize the sum of d² + 2 ln w_j, twice the negative logarithm of a Gaussian, where d <= 5 and of a
constant above all of these elsewhere (the Hungarian algorithm). Most draws need no search: where the cheapest partners
of all tones are distinct, they are the solution.

**Across K.** In draws of any K, pairs with d > 5 are none: a tone more than a bin and five widths away is another. What
remains without a partner is gathered where it is densest: median and spread of the tones within one bin of the densest
place are g_j and s_j of a further component, which takes what is within d <= 5, until one is found in less than 5 % of
the draws. Tones that lie all over the band thus become no component, and only p(K | x) tells of them.

**Existence.** With the share π_{jK} of the draws of K that have component j, p(j | x) = Σ_K p(K | x) π_{jK}: p(K | x)
is taken as it is known, not as often as the draws happened to have K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.signal.waveforms import TONE, Waveform

__all__ = ["Alignment", "Reference", "align", "existence", "match", "relabel"]

Labels = NDArray[np.int64]

GATE = 5.0
"""Whitened distance beyond which a tone is another one."""
PULL = 0.2
"""Share of a bin 1/T that is added to the widths."""
LEAST = 0.05
"""Existence probability of a component that the reference does not have."""
CANDIDATES, COMPARED = 16, 100
"""Draws among which the reference is chosen, and with which they are compared."""
CELLS = 2_000_000
"""Distances to hold at once."""
UNKNOWN_BINS = 150
"""Bins that a band is assumed to have where the length of the data is not known."""


class Reference(NamedTuple):
    """What components are compared with."""

    frequency: Array
    """g_j in Hz, (J,), rising."""
    width: Array
    """w_j in Hz, (J,)."""


@dataclass(frozen=True)
class Alignment:
    """Joint draws whose columns are components, the same in all draws."""

    theta: Array
    """Parameters, (n, J, P), NaN where a draw lacks the component."""
    existence: Array
    """p(component | x), (J,)."""
    labels: Labels
    """Component of each tone of the draws, (n, K_max); −1: of none, or no tone."""
    reference: Reference
    """Places and widths of the components, in the order of their frequencies."""


def relabel(
    draws: Array, resolution: float, waveform: Waveform = TONE
) -> tuple[Array, Labels, Reference]:
    """Draws of one K with their components in the same order, that of the reference's frequencies.

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
    pull = PULL * _known(resolution, f)
    low, high = f.min(0), f.max(0)
    if (high - low <= GATE * pull).all() and (high[:-1] < low[1:]).all():  # nothing to decide
        frequency, spread = _places(f)
        ranked = np.take_along_axis(draws, order[..., None], 1)
        return ranked, order, Reference(frequency, np.hypot(spread, pull))
    frequency, width = _typical(f, pull), np.full(k, GATE * pull)
    columns = np.tile(np.arange(k), (n, 1))
    for first in (True, False):
        labels = match(f, Reference(frequency, width), complete=True, robust=first)
        columns = np.argsort(labels, axis=1)
        frequency, spread = _places(np.take_along_axis(f, columns, 1))
        rising = np.argsort(frequency, kind="stable")
        frequency, width = frequency[rising], np.hypot(spread[rising], pull)
        columns = columns[:, rising]
    source: Labels = np.asarray(np.take_along_axis(order, columns, 1), dtype=np.int64)
    named = np.take_along_axis(draws, source[..., None], 1)
    return named, source, Reference(frequency, width)


def match(
    frequency: Array, reference: Reference, *, complete: bool = False, robust: bool = False
) -> Labels:
    """The component of the reference that each tone of the draws is.

    Args:
        frequency: Of K tones, (n, K), NaN where a draw has fewer.
        reference: J components.
        complete: Whether pairs beyond the gate count too, as long as there are components left.
        robust: Whether far pairs cost little more than near ones, for widths that are a guess.

    Returns:
        (n, K); −1 for a tone that is none of them. No component occurs twice in a draw.
    """
    n, k = frequency.shape
    size = len(reference.frequency)
    if n == 0 or k == 0 or size == 0:
        return np.full((n, k), -1, dtype=np.int64)
    step = max(1, CELLS // (k * size))
    parts = (frequency[i : i + step] for i in range(0, n, step))
    return np.concatenate([_match(part, reference, complete, robust) for part in parts])


def _match(frequency: Array, reference: Reference, complete: bool, robust: bool) -> Labels:
    """The same of a few draws."""
    size = len(reference.frequency)
    labels = np.full(frequency.shape, -1, dtype=np.int64)
    distance = np.abs(frequency[..., None] - reference.frequency) / reference.width  # (n, K, J)
    distance = np.where(np.isnan(distance), np.inf, distance)
    inside: NDArray[np.bool_] = distance <= GATE
    # A tone that has one component in reach, which no other tone has, is that one: nothing to decide.
    lone = np.all(inside.sum(2) <= 1, axis=1) & np.all(inside.sum(1) <= 1, axis=1)
    full = inside.any(2).sum(1) == np.minimum(np.isfinite(frequency).sum(1), size)
    easy = lone & full if complete else lone
    rows, tones, components = np.nonzero(inside & easy[:, None, None])
    labels[rows, tones] = components
    # Else the cheapest ones, where all of them differ.
    rest = np.flatnonzero(~easy)
    cost = _cost(distance[rest], reference.width, robust)
    nearest = cost.argmin(2)  # (m, K)
    ranked = np.sort(nearest, axis=1)
    clear = np.all(np.diff(ranked, axis=1) != 0, axis=1) & np.all(inside[rest].any(2), axis=1)
    labels[rest[clear]] = nearest[clear]
    for i in np.flatnonzero(~clear):
        _assign(distance[rest[i]], cost[i], labels[rest[i]], complete)
    return labels


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
    reach = GATE * PULL * resolution
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
        width = float(np.hypot(spread, PULL * resolution))
        distance = np.where(taken | np.isnan(f), np.inf, np.abs(f - centre))  # (n, K_max)
        nearest = distance.argmin(1)
        near = np.flatnonzero(distance[np.arange(len(f)), nearest] <= GATE * width)
        if weight[near].sum() < LEAST:
            break
        labels[near, nearest[near]] = len(places)
        taken[near, nearest[near]] = True
        places.append(centre)
        widths.append(width)
    rising = np.argsort(places, kind="stable")
    rank = np.append(np.argsort(rising), -1)  # −1 stays −1
    return rank[labels], Reference(np.array(places)[rising], np.array(widths)[rising])


def _cost(distance: Array, width: Array, robust: bool) -> Array:
    """What pairs cost, (..., K, J): beyond the gate all the same but for a trace of the distance."""
    inside = np.minimum(distance, GATE) ** 2 + 2 * np.log(width / width.max())
    cost = np.where(distance <= GATE, inside, GATE**2)
    if robust:
        cost = np.log1p(np.minimum(distance, GATE) ** 2)
    return cost + np.where(distance > GATE, 1e-9 * np.minimum(distance, 1e6), 0.0)


def _assign(distance: Array, cost: Array, labels: Labels, complete: bool) -> None:
    """Solves one draw in which tones compete, (K, J), and puts its labels into their place, (K,)."""
    from scipy.optimize import linear_sum_assignment

    tones = np.flatnonzero(np.isfinite(distance[:, 0]))
    i, j = linear_sum_assignment(cost[tones])
    keep = np.ones(len(i), dtype=bool) if complete else distance[tones[i], j] <= GATE
    labels[tones[i[keep]]] = j[keep]


def _typical(f: Array, pull: float) -> Array:
    """Of sorted frequencies, (n, k), the draw that is most like the others, (k,)."""
    n, k = f.shape
    few = max(8, min(COMPARED, CELLS // (CANDIDATES * k * k)))
    some = f[np.unique(np.linspace(0, n - 1, min(n, CANDIDATES)).astype(int))]
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
    return float(np.ptp(finite)) / UNKNOWN_BINS or 1.0
