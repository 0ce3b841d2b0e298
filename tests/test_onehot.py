"""Slot contexts: flattening and its index tensor against a naive loop."""

from __future__ import annotations

import pytest
import torch

from slotflow.network.paper.onehot import slot_contexts, slot_index

COUNTS = [[3, 1, 2], [1], [0, 2, 0, 4], [5, 5], [0], []]


@pytest.mark.parametrize("counts", COUNTS)
def test_index_equals_naive_loop(counts: list[int]) -> None:
    signal, slot = slot_index(torch.tensor(counts, dtype=torch.int64))
    expected = [(b, k) for b, n in enumerate(counts) for k in range(n)]
    assert list(zip(signal.tolist(), slot.tolist(), strict=True)) == expected
    assert signal.dtype == slot.dtype == torch.int64


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_contexts_equal_naive_loop(counts: list[int], dtype: torch.dtype, seed: int) -> None:
    k_max, width = 5, 7
    generator = torch.Generator().manual_seed(seed)
    g = torch.randn(len(counts), width, generator=generator, dtype=dtype)
    signal, slot = slot_index(torch.tensor(counts, dtype=torch.int64))
    contexts = slot_contexts(g, signal, slot, k_max)
    assert contexts.shape == (sum(counts), width + k_max)
    assert contexts.dtype == dtype
    row = 0
    for b, n in enumerate(counts):
        for k in range(n):
            identity = [1.0 if i == k else 0.0 for i in range(k_max)]
            assert contexts[row].tolist() == g[b].tolist() + identity
            row += 1


def test_rows_do_not_depend_on_k_max_slots() -> None:
    counts = torch.tensor([2, 1, 3])
    g = torch.zeros(3, 4)
    for k_max in (3, 10, 100):
        assert slot_contexts(g, *slot_index(counts), k_max).shape[0] == 6


def test_gradient_reaches_g_once_per_slot() -> None:
    g = torch.zeros(3, 4, requires_grad=True)
    counts = torch.tensor([2, 0, 3])
    slot_contexts(g, *slot_index(counts), 3).sum().backward()
    assert g.grad is not None
    torch.testing.assert_close(g.grad, counts[:, None].float().expand(3, 4))
