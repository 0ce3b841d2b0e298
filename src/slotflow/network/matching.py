r"""Hungarian assignment between slots and components, without gradient.

.. math:: \pi^* = \arg\min_\pi \sum_k C_{k, \pi(k)}, \qquad C_{ij} = -\log q(\theta_j \mid x, \text{slot } i) .

A batch is flat: signal b owns the rows first_b .. first_b + K_b − 1 of the slots and, likewise, of the components. The
cost of all pairs within signals is one vector of ΣK_b² numbers, in the order that `all_pairs` gives.

**Several classes** (section 3.7). A slot of class c and a component of class c' ≠ c have the cost C_ij = ∞. An
assignment that is optimal uses as few infinite pairs as it can, and these are no pairs at all: what they join stays
unmatched. What remains is a matrix of blocks on the diagonal, one for each class, whose minimum is the sum of the
minima of the blocks. So `match_classes` solves one assignment for each signal and class, and the costs of pairs of
different classes, which have no common parameters to compare, are never needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

__all__ = ["all_pairs", "match", "match_classes", "match_square"]

IMPOSSIBLE_COST = 1e12
"""Cost that stands for an impossible or undefined pair."""
MOST_TRIED = 24
"""Largest number of assignments of one signal that are all tried, for many signals at once."""


def all_pairs(slots: Tensor, components: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of every (slot, component) pair that belongs to one signal.

    Args:
        slots: Slots of each signal, (B,), int64, on the CPU.
        components: Components of each signal, (B,), int64, on the CPU.

    Returns:
        Slot row and component row of each pair, both (Σ slots·components,), int64; signal by signal, slot by slot.
    """
    pairs = slots * components
    signal = torch.repeat_interleave(pairs)
    within = torch.arange(signal.shape[0]) - (pairs.cumsum(0) - pairs)[signal]
    first_slot, first_component = slots.cumsum(0) - slots, components.cumsum(0) - components
    width = components[signal]
    return first_slot[signal] + within // width, first_component[signal] + within % width


@torch.no_grad()
def match(cost: Tensor, slots: Tensor, components: Tensor) -> tuple[Tensor, Tensor]:
    """Cheapest one-to-one assignment within each signal.

    Signals with the same numbers of slots and components are solved together.

    Args:
        cost: Cost of each pair in the order of `all_pairs`, any device. NaN and infinity count as the worst pair.
        slots: Slots of each signal, (B,), int64, on the CPU.
        components: Components of each signal, (B,), int64, on the CPU.

    Returns:
        Slot rows and component rows of the matched pairs, both (Σ min(slots, components),), int64, on the CPU. No
        row appears twice, and signals keep their order.
    """
    values = np.nan_to_num(
        cost.detach().double().cpu().numpy(),
        nan=IMPOSSIBLE_COST,
        posinf=IMPOSSIBLE_COST,
        neginf=-IMPOSSIBLE_COST,
    )
    n, m = slots.numpy(), components.numpy()
    first_pair, first_slot, first_component = (np.cumsum(k) - k for k in (n * m, n, m))
    partner = np.full(n.sum(), -1)  # component row of each slot
    for shape in {(i, j) for i, j in zip(n.tolist(), m.tolist(), strict=True) if i and j}:
        own = np.flatnonzero((n == shape[0]) & (m == shape[1]))
        pairs = first_pair[own, None] + np.arange(shape[0] * shape[1])
        found = _assign(values[pairs].reshape(-1, *shape))  # (signals, slots)
        places = first_slot[own, None] + np.arange(shape[0])
        partner[places] = np.where(found >= 0, found + first_component[own, None], -1)
    rows = np.flatnonzero(partner >= 0)
    return torch.from_numpy(rows), torch.from_numpy(partner[rows])


def _assign(cost: NDArray[np.float64]) -> NDArray[np.int64]:
    """Column of each row in the cheapest assignment of each of G matrices, (G, n, m) to (G, n); −1 for none.

    Where there are few assignments all of them are tried at once; otherwise the Hungarian algorithm looks for the best
    one of each matrix whose rows do not agree by themselves.
    """
    size, n, m = cost.shape
    if n > m:  # every column gets a row
        row = _assign(cost.transpose(0, 2, 1))
        taken: NDArray[np.int64] = np.full((size, n), -1)
        np.put_along_axis(taken, row, np.arange(m), axis=1)
        return taken
    if math.perm(m, n) > MOST_TRIED:
        # Where every row's cheapest column is another one, no assignment is cheaper.
        found: NDArray[np.int64] = cost.argmin(-1)
        ordered = np.sort(found, axis=-1)
        for i in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(-1)):
            found[i] = linear_sum_assignment(cost[i])[1]
        return found
    options = np.array(list(itertools.permutations(range(m), n)))  # (options, n)
    totals = cost[:, np.arange(n), options].sum(-1)  # (G, options)
    best: NDArray[np.int64] = options[totals.argmin(1)]
    return best


def match_classes(
    costs: Sequence[Tensor], slots: Tensor, components: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Cheapest assignment within each signal among slots and components of several classes.

    Args:
        costs: Cost of the pairs of each class, in the order of `all_pairs` for that class; any device.
        slots: Slots of each signal and class, (B, C), int64, on the CPU.
        components: Components of each signal and class, (B, C), int64, on the CPU.

    Returns:
        For each class, slot rows and component rows of the matched pairs, both (Σ_b min(slots, components),), counted
        among the rows of that class. Pairs of different classes, whose cost is infinite, never appear.
    """
    rows, columns = match(torch.cat(list(costs)), slots.T.flatten(), components.T.flatten())
    found, at = [], 0
    first_slot, first_component = 0, 0
    for n, m in zip(slots.T, components.T, strict=True):  # class after class, as `match` saw them
        size = int(torch.minimum(n, m).sum())
        own = slice(at, at + size)
        found.append((rows[own] - first_slot, columns[own] - first_component))
        at += size
        first_slot, first_component = first_slot + int(n.sum()), first_component + int(m.sum())
    return found


@torch.no_grad()
def match_square(cost: Tensor, counts: Tensor, wanted: Tensor) -> Tensor:
    """Cheapest assignment of the first K components to the first K slots of each signal of a padded batch.

    Where every slot's cheapest component is a different one, that is the optimum: no other assignment is cheaper
    for any slot. Only the remaining signals need the Hungarian algorithm.

    Args:
        cost: (B, K_max, K_max), index (signal, slot, component), any device.
        counts: K of each signal, (B,), int64, on the CPU.
        wanted: Which signals to match, (B,), bool; the others keep the order they have.

    Returns:
        Component of each slot, (B, K_max), int64, on the CPU; slots beyond K keep their own number.
    """
    k_max = cost.shape[-1]
    both = torch.cat([cost.flatten(1), wanted[:, None].to(cost.dtype)], 1).cpu().numpy()  # one copy
    values = np.nan_to_num(
        both[:, :-1].reshape(cost.shape), nan=IMPOSSIBLE_COST, posinf=IMPOSSIBLE_COST
    )
    k, index = counts.numpy(), np.arange(k_max)
    inside = index < k[:, None]
    values[~(inside[:, :, None] & inside[:, None, :])] = IMPOSSIBLE_COST
    order = np.where(inside, values.argmin(-1), index)
    taken = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(taken, order, True, axis=1)
    order[both[:, -1] == 0] = index
    for b in np.flatnonzero(~taken.all(1) & (both[:, -1] > 0)):
        order[b, : k[b]] = linear_sum_assignment(values[b, : k[b], : k[b]])[1]
    return torch.from_numpy(order.astype(np.int64))
