"""The optimizer Muon: orthogonal steps, those of Adam where they belong, and trainings that are resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from slotflow import SlotFlow
from slotflow.network.config import Config, TrainConfig
from slotflow.train.loop import train
from slotflow.train.muon import Muon, is_matrix, orthogonal
from slotflow.train.schedule import set_learning_rate


@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 16, 40), (1, 40, 16)])
def test_steps_are_about_orthogonal(shape: tuple[int, int, int], seed: int) -> None:
    """Singular values are near 1 whatever those of the gradient were, and the directions are the gradient's."""
    torch.manual_seed(seed)
    u, _, v = torch.linalg.svd(torch.randn(shape, dtype=torch.float64), full_matrices=False)
    spread = torch.logspace(-1, 1, min(shape[1:]), dtype=torch.float64)
    found = orthogonal(u * spread @ v)
    values = torch.linalg.svdvals(found)
    assert float(values.min()) > 0.6 and float(values.max()) < 1.25
    core = u.mT @ found @ v.mT  # diagonal, if the directions are the same
    off = core - torch.diag_embed(core.diagonal(dim1=-2, dim2=-1))
    assert float(off.abs().max()) < 1e-9


def test_everything_but_matrices_takes_the_steps_of_adamw(seed: int) -> None:
    torch.manual_seed(seed)
    start = [torch.randn(7), torch.randn(5, 40), torch.randn(4, 2, 3)]
    ours, theirs = ([torch.nn.Parameter(p.clone()) for p in start] for _ in range(2))
    assert not any(is_matrix(p) for p in ours)
    muon = Muon(ours, 0.01, 0.02, (0.9, 0.98), weight_decay=0.1)
    adamw = torch.optim.AdamW(theirs, 0.01, (0.9, 0.98), weight_decay=0.1)
    for _ in range(5):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        muon.step()
        adamw.step()
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q)


def test_rates_of_both_kinds_follow_one_schedule() -> None:
    model = SlotFlow.from_preset("debug")
    cfg = TrainConfig(optimizer="muon", learning_rate=1e-3, matrix_learning_rate=0.02,
                      schedule="cosine", min_learning_rate=0.0, warmup_steps=10)  # fmt: skip
    muon = Muon(model.parameters(), cfg.learning_rate, cfg.matrix_learning_rate)
    for step, done, share in ((0, 0.0, 0.1), (10, 0.0, 1.0), (20, 0.5, 0.5)):
        set_learning_rate(muon, cfg, step, done)
        assert [g["lr"] for g in muon.param_groups] == pytest.approx([1e-3 * share, 0.02 * share])
    kinds = [g["matrices"] for g in muon.param_groups]
    assert kinds == [False, True] and all(g["params"] for g in muon.param_groups)


def test_a_training_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    base = Config.from_preset("debug")
    small = {"optimizer": "muon", "batch_size": 8, "steps_per_epoch": 2, "validation_signals": 8,
             "schedule": "constant", "warmup_steps": 0}  # fmt: skip
    config = replace(base, train=replace(base.train, max_epochs=2, **small))
    whole = train(config, tmp_path / "whole", quiet=True, device="cpu")
    first = replace(config, train=replace(config.train, max_epochs=1))
    train(first, tmp_path / "parts", quiet=True, device="cpu")
    parts = train(config, tmp_path / "parts", resume=True, quiet=True, device="cpu")
    one, other = (SlotFlow.from_pretrained(path).state_dict() for path in (whole, parts))
    assert all(torch.equal(one[name], other[name]) for name in one)
