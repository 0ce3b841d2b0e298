"""Hungarian assignment: against brute force, batched, permuted, empty, and with broken costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from slotflow.network.matching import all_pairs, match


def counts(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def brute_force(cost: np.ndarray) -> float:
    """Smallest total cost of a one-to-one assignment of an (n, m) matrix."""
    if cost.shape[0] > cost.shape[1]:
        cost = cost.T
    rows = np.arange(cost.shape[0])
    options = itertools.permutations(range(cost.shape[1]), cost.shape[0])
    return min(float(cost[rows, list(p)].sum()) for p in options)


def pairs_of(cost: np.ndarray) -> list[tuple[int, int]]:
    n, m = cost.shape
    rows, columns = match(torch.as_tensor(cost).flatten(), counts(n), counts(m))
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


# ---------------------------------------------------------------- all pairs


@pytest.mark.parametrize(
    ("slots", "components"),
    [([2, 1, 3], [2, 1, 3]), ([1, 4], [3, 2]), ([0, 2], [1, 2]), ([2, 0], [0, 0]), ([], [])],
)
def test_all_pairs_equal_naive_loop(slots: list[int], components: list[int]) -> None:
    i, j = all_pairs(counts(*slots), counts(*components))
    expected, first_slot, first_component = [], 0, 0
    for n, m in zip(slots, components, strict=True):
        expected += [(first_slot + a, first_component + b) for a in range(n) for b in range(m)]
        first_slot, first_component = first_slot + n, first_component + m
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == expected


# ---------------------------------------------------------------- optimal


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("m", range(1, 6))
def test_equals_brute_force(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        cost = rng.normal(scale=10 ** rng.uniform(-3, 3), size=(n, m))
        pairs = pairs_of(cost)
        assert len(pairs) == min(n, m)
        assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == min(n, m)
        total = sum(cost[i, j] for i, j in pairs)
        assert total == pytest.approx(brute_force(cost), rel=1e-12)


def test_greedy_choice_is_not_enough() -> None:
    cost = np.array([[0.0, 1.0], [0.1, 100.0]])  # taking the smallest entry first costs 100
    assert pairs_of(cost) == [(0, 1), (1, 0)]


def test_recovers_any_permutation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for permutation in itertools.permutations(range(4)):
        cost = rng.uniform(1, 2, size=(4, 4))
        cost[np.arange(4), permutation] = 0.0
        assert pairs_of(cost) == list(enumerate(permutation))


def test_relabelled_components_give_relabelled_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.normal(size=(5, 5))
    base = dict(pairs_of(cost))
    for permutation in itertools.islice(itertools.permutations(range(5)), 0, 120, 7):
        moved = dict(pairs_of(cost[:, permutation]))
        assert {i: permutation[j] for i, j in moved.items()} == base


# ---------------------------------------------------------------- batches


def test_batched_equals_single(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shapes = [(3, 3), (1, 1), (2, 4), (5, 5), (4, 1), (1, 3), (3, 3)]
    matrices = [rng.normal(size=shape) for shape in shapes]
    slots, components = (counts(*sizes) for sizes in zip(*shapes, strict=True))
    cost = torch.as_tensor(np.concatenate([m.ravel() for m in matrices]))
    rows, columns = match(cost, slots, components)
    expected, first_slot, first_component = [], 0, 0
    for matrix in matrices:
        expected += [(i + first_slot, j + first_component) for i, j in pairs_of(matrix)]
        first_slot, first_component = (
            first_slot + matrix.shape[0],
            first_component + matrix.shape[1],
        )
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == expected
    assert rows.dtype == columns.dtype == torch.int64


def test_one_slot_one_component() -> None:
    assert pairs_of(np.array([[3.0]])) == [(0, 0)]
    rows, columns = match(torch.tensor([1.0, -2.0, 5.0]), counts(1, 1, 1), counts(1, 1, 1))
    assert rows.tolist() == columns.tolist() == [0, 1, 2]


def test_empty_batch_and_empty_signals() -> None:
    rows, columns = match(torch.zeros(0), counts(), counts())
    assert rows.shape == columns.shape == (0,)
    rows, columns = match(torch.tensor([4.0, 1.0]), counts(0, 2, 0), counts(3, 1, 0))
    assert (rows.tolist(), columns.tolist()) == ([1], [3])


# ---------------------------------------------------------------- broken costs


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_pairs_are_avoided(bad: float) -> None:
    cost = np.array([[bad, 5.0, 9.0], [1.0, bad, 9.0], [9.0, 9.0, 1.0]])
    assert pairs_of(cost) == [(0, 1), (1, 0), (2, 2)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_hopeless_costs_still_give_one_to_one(bad: float) -> None:
    pairs = pairs_of(np.full((4, 4), bad))
    assert sorted(i for i, _ in pairs) == sorted(j for _, j in pairs) == [0, 1, 2, 3]
    assert pairs_of(np.array([[bad]])) == [(0, 0)]


def test_minus_infinity_is_the_best_pair() -> None:
    assert pairs_of(np.array([[0.0, -np.inf], [5.0, 0.0]])) == [(0, 1), (1, 0)]


def test_one_broken_signal_leaves_the_others_alone(seed: int) -> None:
    good = np.random.default_rng(seed).normal(size=(3, 3))
    cost = torch.as_tensor(np.concatenate([np.full(9, np.nan), good.ravel()]))
    rows, columns = match(cost, counts(3, 3), counts(3, 3))
    expected = [(i + 3, j + 3) for i, j in pairs_of(good)]
    assert list(zip(rows.tolist(), columns.tolist(), strict=True))[3:] == expected


# ---------------------------------------------------------------- gradient


def test_no_gradient_and_no_change_of_the_input() -> None:
    cost = torch.tensor([1.0, torch.nan, 2.0, 3.0], requires_grad=True)
    before = cost.detach().clone()
    rows, columns = match(cost, counts(2), counts(2))
    assert not rows.requires_grad and not columns.requires_grad
    torch.testing.assert_close(cost.detach(), before, equal_nan=True)
