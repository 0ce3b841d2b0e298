"""Training: learning rates, time budgets, moving averages and clipping, step by step."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from training_helpers import metrics, rates, same_tensors, tiny

import slotflow.train.loop as training
from slotflow.network.build import load_model
from slotflow.network.checkpoint import describe, load_training
from slotflow.network.config import Config, TrainConfig
from slotflow.network.model import SlotFlow
from slotflow.network.paper.loss import PaperLoss
from slotflow.signal.simulation import Simulation
from slotflow.train.loop import train
from slotflow.train.schedule import cycle_at

# --- Schedules ----------------------------------------------------------------------------------


def test_time_budget(debug_config: Config, tmp_path: Path) -> None:
    """Three seconds: the schedule is fitted to them, and training ends with a validated model."""
    config = tiny(debug_config, steps_per_epoch=10**6, schedule="cosine", ema=0.9)
    start = time.monotonic()
    file = train(config, tmp_path, minutes=0.05, quiet=True)
    assert time.monotonic() - start < 30
    rate, cfg = rates(tmp_path), config.train
    assert rate[0] > 0.9 * cfg.learning_rate
    # (π δ)² / 4 of the peak is left where the last step began a share δ before the end; 0.05 allows δ = 0.14.
    assert cfg.min_learning_rate <= rate[-1] < cfg.min_learning_rate + 0.05 * cfg.learning_rate
    assert all(b <= a for a, b in itertools.pairwise(rate))
    (validation,) = metrics(tmp_path, "val")
    assert metrics(tmp_path)[-1] == validation
    facts = describe(file)["facts"]
    assert facts["steps"] == len(rate) == validation["step"]
    assert facts["seconds"] >= 3.0 and math.isfinite(facts["validation"]["loss"])
    load_model(file)


@pytest.mark.parametrize("loss", [3.0, -3.0])
def test_plateau_and_early_stopping(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: float
) -> None:
    """A validation loss that never improves, of either sign.

    The first epoch sets the best; each further one is bad. The third bad one in a row exceeds a patience of 2 and
    halves the rate, down to its floor; the eighth ends training.
    """
    monkeypatch.setattr(training, "validate", lambda *_: {"loss": loss})
    config = tiny(
        debug_config,
        schedule="plateau",
        learning_rate=1e-3,
        min_learning_rate=3e-4,
        plateau_patience=2,
        early_stopping=8,
        max_epochs=50,
        steps_per_epoch=2,
    )
    file = train(config, tmp_path, quiet=True)
    expected = [1e-3] * 4 + [5e-4] * 3 + [3e-4] * 2  # per epoch
    assert rates(tmp_path) == [rate for rate in expected for _ in range(2)]
    assert describe(file)["facts"]["steps"] == 2, (
        "the model file is the best one, of the first epoch"
    )


def test_warm_up_then_cosine(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(
        debug_config,
        schedule="cosine",
        learning_rate=1e-3,
        min_learning_rate=1e-5,
        warmup_steps=4,
    )
    train(config, tmp_path, quiet=True)
    cosine = [1e-5 + (1e-3 - 1e-5) * (1 + math.cos(math.pi * s / 10)) / 2 for s in range(4, 10)]
    np.testing.assert_allclose(rates(tmp_path), [2.5e-4, 5e-4, 7.5e-4, 1e-3, *cosine], rtol=1e-12)


def test_warm_restarts(debug_config: Config, tmp_path: Path) -> None:
    """Two cycles, the second three times as long: both fall to the floor, and the end of the first is validated."""
    config = tiny(
        debug_config,
        schedule="cosine",
        learning_rate=1e-3,
        min_learning_rate=0.0,
        warmup_steps=0,
        cycles=2,
        max_epochs=1,
        steps_per_epoch=40,
    )
    train(config, tmp_path, quiet=True)
    first = [(1 + math.cos(math.pi * s / 10)) / 2 for s in range(10)]
    second = [(1 + math.cos(math.pi * s / 30)) / 2 for s in range(30)]
    second[0] = 0.0  # it rises over the first fiftieth
    np.testing.assert_allclose(rates(tmp_path), 1e-3 * np.array(first + second), atol=1e-9)
    ends = [(line["step"], line.get("cycle")) for line in metrics(tmp_path, "val")]
    assert ends == [(10, 0), (40, None)]


def test_cycles_follow_each_other() -> None:
    cfg = TrainConfig(schedule="cosine", cycles=3, cycle_growth=2.0)
    found = [cycle_at(cfg, done / 14) for done in (0, 1, 2, 4, 6, 10, 14, 20)]
    expected = [(0, 0.0), (0, 0.5), (1, 0.0), (1, 0.5), (2, 0.0), (2, 0.5), (2, 1.0), (2, 1.0)]
    assert [number for number, _ in found] == [number for number, _ in expected]
    np.testing.assert_allclose([share for _, share in found], [s for _, s in expected], atol=1e-12)


def test_warm_up_then_plateau(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(debug_config, schedule="plateau", learning_rate=1e-3, warmup_steps=4)
    train(config, tmp_path, quiet=True)
    np.testing.assert_allclose(rates(tmp_path), [2.5e-4, 5e-4, 7.5e-4] + [1e-3] * 7, rtol=1e-12)


def test_budget_replaces_the_plateau(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock of its own: on a busy machine the budget would hold two or three steps."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.04 * next(ticks))
    monkeypatch.setattr(training, "time", clock)
    config = tiny(debug_config, max_epochs=10_000, schedule="plateau", warmup_steps=0)
    train(config, tmp_path, minutes=0.03, quiet=True)
    rate = rates(tmp_path)
    assert rate[0] > 0.9 * config.train.learning_rate
    assert rate[-1] < 0.2 * config.train.learning_rate


# --- Parts of a step ----------------------------------------------------------------------------


def test_moving_average(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ema ← d·ema + (1 − d)·weights after each step, d = min(decay, (1 + step) / (10 + step))."""
    config = tiny(debug_config, ema=0.45)  # the cap is reached at step 7
    torch.manual_seed(config.train.seed)
    average = {n: p.detach().double() for n, p in SlotFlow(config.model).named_parameters()}
    trajectory: list[dict[str, Tensor]] = []  # the weights before each step
    original = training.set_learning_rate

    def record(optimizer: torch.optim.Optimizer, cfg: Any, step: int, done: float) -> None:
        weights = [p.detach().double() for p in optimizer.param_groups[0]["params"]]
        trajectory.append(dict(zip(average, weights, strict=True)))
        original(optimizer, cfg, step, done)

    monkeypatch.setattr(training, "set_learning_rate", record)
    file = train(config, tmp_path, quiet=True)
    parts, _ = load_training(tmp_path / "checkpoint.safetensors")
    last = {name: parts["model"][name].double() for name in average}
    assert all(trajectory[0][name].equal(value) for name, value in average.items())
    for step, weights in enumerate([*trajectory[1:], last]):
        d = min(0.45, (1 + step) / (10 + step))
        average = {n: d * average[n] + (1 - d) * weights[n] for n in average}
    for name, value in average.items():
        torch.testing.assert_close(parts["ema"][name].double(), value, rtol=1e-5, atol=1e-6)
    kept = load_model(file).state_dict()
    best = min(metrics(tmp_path, "val"), key=lambda line: line["loss"])["step"]
    if best == 10:
        assert same_tensors(kept, parts["ema"])
    assert not same_tensors(kept, parts["model"])


@pytest.mark.parametrize("limit", [1e-3, 0.0])
def test_gradient_clipping(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    norms: list[float] = []
    original = training.set_learning_rate

    def record(optimizer: torch.optim.Optimizer, cfg: Any, step: int, done: float) -> None:
        gradients = [p.grad.flatten() for p in optimizer.param_groups[0]["params"]]
        norms.append(float(torch.cat(gradients).norm()))
        original(optimizer, cfg, step, done)

    monkeypatch.setattr(training, "set_learning_rate", record)
    train(tiny(debug_config, clip_norm=limit, max_epochs=1), tmp_path, quiet=True)
    if limit:
        np.testing.assert_allclose(norms, limit, rtol=1e-3)
    else:
        assert min(norms) > 0.1


# --- Order instead of assignment ------------------------------------------------------------------


def test_slots_are_ordered_for_a_share_of_training(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of ten steps, and no validation; without the share none."""
    costed: list[bool] = []  # whether a training step had costs
    original = PaperLoss.flow_loss

    def flow_loss(self: PaperLoss, g: Tensor, batch: Simulation, *counts: Tensor) -> Tensor:
        ordered = self.ordered and self.model.training
        if torch.is_grad_enabled():
            costed.append(not ordered)
        else:
            assert not ordered
        return original(self, g, batch, *counts)

    monkeypatch.setattr(PaperLoss, "flow_loss", flow_loss)
    for share, wanted in ((0.4, [False] * 4 + [True] * 6), (0.0, [True] * 10)):
        loss = dataclasses.replace(debug_config.loss, ordered=share)
        config = tiny(dataclasses.replace(debug_config, loss=loss))
        costed.clear()
        train(config, tmp_path / str(share), quiet=True)
        assert costed == wanted
