"""Training: resuming changes nothing, interruptions lose nothing, and wrong continuations are refused."""

from __future__ import annotations

import dataclasses
import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from training_helpers import (
    ENVIRONMENT,
    PATIENCE,
    metrics,
    rates,
    same_tensors,
    same_training,
    tiny,
    write_config,
)

import slotflow.train.loop as training
from slotflow.network.build import load_model
from slotflow.network.checkpoint import CheckpointError, load_training
from slotflow.network.config import Config
from slotflow.signal.mixture import MixturePart, PriorMixture
from slotflow.signal.simulation import Simulation
from slotflow.train.batches import batch_seed
from slotflow.train.loop import train

At = Callable[[int, Callable[[], object]], None]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Lets something happen, once, when the batch of a step is drawn."""

    def arrange(step: int, action: Callable[[], object]) -> None:
        original, left = training.draw_batch, [action]

        def draw(config: Config, n: int, seed: int, device: torch.device) -> Simulation:
            if seed == batch_seed(config.train.seed, step) and left:
                left.pop()()
            return original(config, n, seed, device)

        monkeypatch.setattr(training, "draw_batch", draw)

    return arrange


def crash() -> None:
    raise ConnectionError("the power went out")


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


# --- Resuming -----------------------------------------------------------------------------------

RUNS: dict[str, dict[str, Any]] = {
    # Nothing improves at this rate, so that the plateau's counter is at work across the interruption.
    "plateau": {"schedule": "plateau", "learning_rate": 3e-8, "min_learning_rate": 0.0, "ema": 0.0}
    | {"plateau_patience": 1, "max_epochs": 5},
    "plateau-ema": {"schedule": "plateau", "ema": 0.9},
    "cosine": {"schedule": "cosine", "ema": 0.0, "clip_norm": 1.0, "warmup_steps": 8},
    "cosine-ema-adam": {"schedule": "cosine", "ema": 0.9, "optimizer": "adam"},
    "constant": {"schedule": "constant", "ema": 0.0, "weight_decay": 0.01},
    "ordered": {"schedule": "cosine", "ema": 0.9, "optimizer": "muon"},
}
ORDERED = 0.9
"""Share of the run "ordered" with slots in the order of frequency: it ends after the interruption."""


@pytest.mark.parametrize(
    ("name", "stop"),
    [*((name, signal.SIGINT) for name in RUNS), ("cosine", signal.SIGTERM), ("plateau", None)],
)
def test_resumed_run_equals_unbroken(
    debug_config: Config, tmp_path: Path, at: At, name: str, stop: signal.Signals | None
) -> None:
    """Stopped by a signal, or by a crash (None) that leaves the checkpoint of the last epoch."""
    loss = dataclasses.replace(debug_config.loss, ordered=ORDERED * (name == "ordered"))
    config = dataclasses.replace(debug_config, loss=loss)
    config = tiny(config, log_steps=3, **RUNS[name])  # 3: sums are under way at the stop
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(config, whole, quiet=True)

    at(7, crash if stop is None else lambda: signal.raise_signal(stop))
    with pytest.raises(ConnectionError if stop is None else KeyboardInterrupt):
        train(config, broken, quiet=True)
    saved = load_training(broken / "checkpoint.safetensors")[1]
    assert saved["step"] == (5 if stop is None else 8)
    assert not same_training(whole, broken)
    train(config, broken, resume=True, quiet=True)

    assert same_training(whole, broken)
    final = [load_model(folder / "model.safetensors").state_dict() for folder in (whole, broken)]
    assert same_tensors(*final)
    if name == "plateau":
        assert len(set(rates(whole))) > 1, "the plateau was never reached; the test is too weak"


def test_resuming_is_not_starting_again(debug_config: Config, tmp_path: Path, at: At) -> None:
    """A negative control of the comparison: without the optimizer's moments the curves part."""
    config = tiny(debug_config)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(config, whole, quiet=True)
    at(7, ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        train(config, broken, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slotflow.train.state.restore_optimizer", lambda *_: None)
        train(config, broken, resume=True, quiet=True)
    assert not same_training(whole, broken)


def test_metrics_cut_short_by_a_crash(debug_config: Config, tmp_path: Path, at: At) -> None:
    config = tiny(debug_config)
    train(config, tmp_path / "whole", quiet=True)
    at(8, crash)
    with pytest.raises(ConnectionError):
        train(config, tmp_path / "broken", quiet=True)
    with (tmp_path / "broken" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "epo')
    train(config, tmp_path / "broken", resume=True, quiet=True)
    assert same_training(tmp_path / "whole", tmp_path / "broken")


def test_interrupted_before_the_first_step(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(debug_config)
    train(config, tmp_path / "whole", quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "agree", lambda *_: (0.0, True))
        with pytest.raises(KeyboardInterrupt, match="step 0"):
            train(config, tmp_path / "broken", quiet=True)
    train(config, tmp_path / "broken", resume=True, quiet=True)
    assert same_training(tmp_path / "whole", tmp_path / "broken")


def test_ctrl_c_twice_stops_at_once(debug_config: Config, tmp_path: Path, at: At) -> None:
    config = tiny(debug_config)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    at(7, lambda: (ctrl_c(), ctrl_c()))
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "a", quiet=True)
    assert load_training(tmp_path / "a" / "checkpoint.safetensors")[1]["step"] == 5
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_ctrl_c_from_the_command_line(debug_config: Config, tmp_path: Path) -> None:
    """A real signal to a real process, in the middle of an epoch; the resumed run ends as the unbroken one."""
    config = tiny(debug_config, steps_per_epoch=30, validation_signals=16)
    file = write_config(config, tmp_path / "tiny.yaml")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [sys.executable, "-m", "slotflow", "train", "--config", str(file), "--quiet"]
    command += ["--out", str(broken), "--device", "cpu"]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(
            lambda: (broken / "metrics.jsonl").exists() and len(metrics(broken)) >= 10, process
        )
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, complaint
    step = load_training(broken / "checkpoint.safetensors")[1]["step"]
    assert step % 30 != 0
    assert f"step {step}" in complaint and len(complaint.splitlines()) == 1

    train(Config.from_yaml(broken / "config.yaml"), broken, resume=True, quiet=True)
    train(config, whole, quiet=True)
    assert same_training(whole, broken)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Waits until a running process has come so far."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, f"ended too early: {process.communicate()}"
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


# --- Refusals -----------------------------------------------------------------------------------


def test_existing_run_is_not_overwritten(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(debug_config, max_epochs=1)
    train(config, tmp_path, quiet=True)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="already holds a checkpoint; resume it or choose another"):
        train(config, tmp_path, quiet=True)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_nothing_to_resume(debug_config: Config, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint to resume"):
        train(tiny(debug_config), tmp_path / "none", resume=True, quiet=True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("minutes", [0.0, -1.0, math.nan])
def test_time_budget_must_be_positive(debug_config: Config, tmp_path: Path, minutes: float) -> None:
    with pytest.raises(ValueError, match="expected minutes > 0"):
        train(tiny(debug_config), tmp_path / "none", minutes=minutes, quiet=True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("how", ["resume", "init"])
def test_weights_of_another_model(debug_config: Config, tmp_path: Path, how: str) -> None:
    config = tiny(debug_config, max_epochs=1)
    file = train(config, tmp_path / "a", quiet=True)
    flow = dataclasses.replace(config.model.flow, hidden=32)
    other = dataclasses.replace(config, model=dataclasses.replace(config.model, flow=flow))
    reason = "trained with model.flow" if how == "resume" else "do not fit the model of the config"
    with pytest.raises(CheckpointError, match=reason):
        if how == "resume":
            train(other, tmp_path / "a", resume=True, quiet=True)
        else:
            train(other, tmp_path / "b", init=file, quiet=True)


def test_resume_takes_no_other_config(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(debug_config, max_epochs=1)
    train(config, tmp_path, quiet=True)
    other = dataclasses.replace(config, train=dataclasses.replace(config.train, learning_rate=1e-5))
    with pytest.raises(
        CheckpointError, match=r"trained with train\.learning_rate = .* resume with 1e-05"
    ):
        train(other, tmp_path, resume=True, quiet=True)
    part = MixturePart(1.0, (0.1, 0.15), (0.3, 0.5), (1, 1), (0.0, 1.0))
    mixed = dataclasses.replace(config, mixture=PriorMixture((part,)))
    with pytest.raises(CheckpointError, match="trained with mixture = None, asked to resume"):
        train(mixed, tmp_path, resume=True, quiet=True)
    longer = dataclasses.replace(config, train=dataclasses.replace(config.train, max_epochs=2))
    train(longer, tmp_path, resume=True, quiet=True)
    assert Config.from_yaml(tmp_path / "config.yaml") == longer
