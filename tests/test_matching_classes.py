"""Assignment among several classes: against brute force over a whole matrix with infinite costs, and relabelled."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from slotflow.network.matching import match_classes

Pairs = list[tuple[Tensor, Tensor]]


def random_case(
    rng: np.random.Generator, classes: int, signals: int, square: bool, largest: int = 2
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Costs of each class's pairs, slots and components of each signal and class."""
    slots = rng.integers(0, largest + 1, (signals, classes))
    components = slots if square else rng.integers(0, largest + 1, (signals, classes))
    costs = [
        torch.as_tensor(rng.normal(size=int((slots[:, c] * components[:, c]).sum())))
        for c in range(classes)
    ]
    return costs, torch.as_tensor(slots), torch.as_tensor(components)


def whole_matrices(costs: list[Tensor], slots: Tensor, components: Tensor) -> list[np.ndarray]:
    """Each signal's whole matrix, (Σ slots, Σ components), infinite where classes differ."""
    found, at = [], [0] * len(costs)
    for n, m in zip(slots.tolist(), components.tolist(), strict=True):
        matrix = np.full((sum(n), sum(m)), np.inf)
        row = column = 0
        for c, (a, b) in enumerate(zip(n, m, strict=True)):
            block = costs[c][at[c] : at[c] + a * b].reshape(a, b).numpy()
            matrix[row : row + a, column : column + b] = block
            at[c], row, column = at[c] + a * b, row + a, column + b
        found.append(matrix)
    return found


def brute_force(matrix: np.ndarray) -> tuple[int, float]:
    """Largest number of finite pairs in an assignment, and the smallest cost of that many, over all assignments."""
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.T
    rows, best = np.arange(matrix.shape[0]), (0, 0.0)
    for order in itertools.permutations(range(matrix.shape[1]), matrix.shape[0]):
        pairs = matrix[rows, list(order)]
        finite = np.isfinite(pairs)
        found = (-int(finite.sum()), float(pairs[finite].sum()))
        best = min(best, found)
    return -best[0], best[1]


def totals(
    pairs: Pairs, costs: list[Tensor], slots: Tensor, components: Tensor
) -> list[tuple[int, float]]:
    """Number and cost of each signal's matched pairs, from rows that are counted within each class."""
    size, cost = np.zeros(len(slots), dtype=int), np.zeros(len(slots))
    for c, (rows, columns) in enumerate(pairs):
        n, m = slots[:, c], components[:, c]
        signal = torch.repeat_interleave(n)
        assert len(set(rows.tolist())) == len(rows) and len(set(columns.tolist())) == len(columns)
        assert torch.equal(signal[rows], torch.repeat_interleave(m)[columns])
        first_pair = (n * m).cumsum(0) - n * m
        i, j = rows - (n.cumsum(0) - n)[signal[rows]], columns - (m.cumsum(0) - m)[signal[rows]]
        values = costs[c][first_pair[signal[rows]] + i * m[signal[rows]] + j]
        np.add.at(size, signal[rows].numpy(), 1)
        np.add.at(cost, signal[rows].numpy(), values.numpy())
    return list(zip(size.tolist(), cost.tolist(), strict=True))


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_equals_brute_force_over_the_whole_matrix(classes: int, square: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, slots, components = random_case(rng, classes, 30, square)
    matrices = whole_matrices(costs, slots, components)
    found = totals(match_classes(costs, slots, components), costs, slots, components)
    for (size, cost), matrix in zip(found, matrices, strict=True):
        expected_size, expected = brute_force(matrix)
        assert size == expected_size
        assert cost == pytest.approx(expected, abs=1e-12)


def test_equals_scipy_with_infinite_costs(seed: int) -> None:
    """Larger signals, where the numbers of slots and components of each class agree, as teacher forcing makes them."""
    rng = np.random.default_rng(seed)
    costs, slots, components = random_case(rng, 3, 20, square=True, largest=5)
    found = totals(match_classes(costs, slots, components), costs, slots, components)
    for (size, cost), matrix in zip(found, whole_matrices(costs, slots, components), strict=True):
        i, j = linear_sum_assignment(matrix)
        assert size == len(i) and cost == pytest.approx(matrix[i, j].sum(), abs=1e-12)


def test_without_classes_other_pairs_would_be_cheaper(seed: int) -> None:
    """The control: finite costs in place of the infinite ones change the assignment of nearly every signal."""
    rng = np.random.default_rng(seed)
    costs, slots, components = random_case(rng, 3, 50, square=True)
    wrong = mixed = 0
    for matrix, n in zip(whole_matrices(costs, slots, components), slots.tolist(), strict=True):
        kind = np.repeat(np.arange(3), n)
        finite = np.where(np.isfinite(matrix), matrix, rng.normal(size=matrix.shape))
        i, j = linear_sum_assignment(finite)
        mixed += len(set(kind)) > 1
        wrong += bool((kind[i] != kind[j]).any())
    assert wrong > 0.5 * mixed > 0


def test_order_of_classes_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, slots, components = random_case(rng, 3, 25, square=False, largest=4)
    base = match_classes(costs, slots, components)
    for order in itertools.permutations(range(3)):
        other = match_classes([costs[c] for c in order], slots[:, order], components[:, order])
        for c, (rows, columns) in zip(order, other, strict=True):
            assert torch.equal(rows, base[c][0]) and torch.equal(columns, base[c][1])


def test_order_of_slots_and_components_does_not_matter(seed: int) -> None:
    """Slots and components of one signal in another order give the same pairs under their new numbers."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(5, 5))
    rows, columns = rng.permutation(5), rng.permutation(5)
    one, other = (
        match_classes(
            [torch.zeros(1), torch.as_tensor(m).flatten()],
            torch.tensor([[1, 5]]),
            torch.tensor([[1, 5]]),
        )[1]
        for m in (matrix, matrix[rows][:, columns])
    )
    pairs = set(zip(one[0].tolist(), one[1].tolist(), strict=True))
    assert pairs == {
        (rows[i], columns[j]) for i, j in zip(*(v.tolist() for v in other), strict=True)
    }


def test_empty_classes_and_signals() -> None:
    nothing = torch.zeros(2, 3, dtype=torch.int64)
    for rows, columns in match_classes([torch.zeros(0)] * 3, nothing, nothing):
        assert len(rows) == len(columns) == 0
    slots, components = torch.tensor([[2, 0]]), torch.tensor([[0, 2]])  # classes all wrong
    pairs = match_classes([torch.zeros(0), torch.zeros(0)], slots, components)
    assert [len(rows) for rows, _ in pairs] == [0, 0]
