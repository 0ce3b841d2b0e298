"""The component of a reference that each tone of a draw is: optimal pairs in whitened distance.

`alignment.py` says what a reference is, what pairs cost, and why.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array

__all__ = ["GATE", "Labels", "Reference", "match"]

Labels = NDArray[np.int64]

GATE = 5.0
"""Whitened distance beyond which a tone is another one."""
DISTANCES_AT_ONCE = 2_000_000
"""Distances between tones and components that are held in memory together."""
FEW_PAIRS = 400
"""Pairs of a draw up to which those of all draws are looked at together before any draw alone."""
BEYOND_SLOPE = 1e-9
"""What distance costs beyond the gate: enough to prefer the nearer of two far pairs, too little to matter otherwise."""


class Reference(NamedTuple):
    """Where components are, and how wide."""

    frequency: Array
    """g_j in Hz, (J,), rising."""
    width: Array
    """w_j in Hz, (J,)."""


def match(
    frequency: Array, reference: Reference, *, complete: bool = False, robust: bool = False
) -> Labels:
    """The component of the reference that each tone of the draws is.

    Args:
        frequency: Places of K tones, (n, K), NaN where a draw has fewer.
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
    step = max(1, DISTANCES_AT_ONCE // (k * size))
    parts = (frequency[i : i + step] for i in range(0, n, step))
    return np.concatenate([_match(part, reference, complete, robust) for part in parts])


def _match(frequency: Array, reference: Reference, complete: bool, robust: bool) -> Labels:
    """The same for a few draws at a time."""
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
    rest, narrow = np.flatnonzero(~easy), 2 * np.log(reference.width / reference.width.max())
    if frequency.shape[1] * size <= FEW_PAIRS:
        # Where tones compete but their cheapest partners all differ, these are the solution.
        nearest = _cost(distance[rest], narrow, robust).argmin(2)  # (m, K)
        ranked = np.sort(nearest, axis=1)
        clear = np.all(np.diff(ranked, axis=1) != 0, axis=1) & np.all(inside[rest].any(2), axis=1)
        labels[rest[clear]] = nearest[clear]
        rest = rest[~clear]
    for i in rest:
        labels[i] = _assigned(distance[i], narrow, complete, robust)
    return labels


def _cost(distance: Array, narrow: Array, robust: bool) -> Array:
    """What pairs cost, (..., K, J): all the same beyond the gate, except for a trace of the distance.

    Args:
        distance: Whitened distances, (..., K, J).
        narrow: 2 ln w_j of the components, 0 for the widest, (J,).
        robust: Whether far pairs cost little more than near ones.
    """
    inside = np.minimum(distance, GATE) ** 2 + narrow
    cost = np.where(distance <= GATE, inside, GATE**2)
    if robust:
        cost = np.log1p(np.minimum(distance, GATE) ** 2)
    return cost + np.where(distance > GATE, BEYOND_SLOPE * np.minimum(distance, 1e6), 0.0)


def _assigned(distance: Array, narrow: Array, complete: bool, robust: bool) -> Labels:
    """The labels, (K,), of one draw in which tones compete, from their distances, (K, J).

    A tone and a component that have each other alone in reach are a pair of the best solution, since a pair within
    reach costs less than any beyond; only the others are searched.
    """
    from scipy.optimize import linear_sum_assignment

    labels = np.full(len(distance), -1, dtype=np.int64)
    inside = distance <= GATE
    pairs = inside & (inside.sum(1) == 1)[:, None] & (inside.sum(0) == 1)
    tones, components = np.nonzero(pairs)
    labels[tones] = components
    tones = np.flatnonzero(np.isfinite(distance[:, 0]) & (labels < 0))
    free = np.setdiff1d(np.arange(distance.shape[1]), components)
    among = distance[np.ix_(tones, free)]
    cost = _cost(among, narrow[free], robust)
    i, j = linear_sum_assignment(cost)
    keep = np.ones(len(i), dtype=bool) if complete else among[i, j] <= GATE
    labels[tones[i[keep]]] = free[j[keep]]
    return labels
