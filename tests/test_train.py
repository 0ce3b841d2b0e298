"""Training: resuming changes nothing, interruptions lose nothing, and the loss falls."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within
from torch import Tensor
from training_helpers import (
    ENVIRONMENT,
    metrics,
    same_tensors,
    same_training,
    tiny,
    write_config,
)

import slotflow.train as training
from slotflow.batches import VALIDATION_SEED, batch_seed
from slotflow.checkpoint import CheckpointError, describe, load_model, load_training
from slotflow.config import Config
from slotflow.loss import SlotFlowLoss
from slotflow.mixture import MixturePart, PriorMixture
from slotflow.model import SlotFlow
from slotflow.simulate import Simulation, simulate, spread_seed
from slotflow.train import TrainingError, train

At = Callable[[int, Callable[[], object]], None]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums in the same order everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


def rates(folder: Path) -> list[float]:
    """Learning rate of each logged step."""
    return [line["lr"] for line in metrics(folder, "train")]


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
}


@pytest.mark.parametrize(
    ("name", "stop"),
    [*((name, signal.SIGINT) for name in RUNS), ("cosine", signal.SIGTERM), ("plateau", None)],
)
def test_resumed_run_equals_unbroken(
    debug_config: Config, tmp_path: Path, at: At, name: str, stop: signal.Signals | None
) -> None:
    """Stopped by a signal, or by a crash (None) that leaves the checkpoint of the last epoch."""
    config = tiny(debug_config, log_steps=3, **RUNS[name])  # 3: sums are under way at the stop
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
        patch.setattr(training, "restore_optimizer", lambda *_: None)
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
        _, complaint = process.communicate(timeout=60)
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
    """Waits, a minute at most, until a running process has come so far."""
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, f"ended too early: {process.communicate()}"
        assert time.monotonic() < end, "waited for a minute in vain"
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


# --- Losses that are not finite -----------------------------------------------------------------


@pytest.mark.parametrize("step", [3, 6, 7, 9])
def test_loss_that_is_not_finite(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    config = tiny(debug_config, log_steps=4, checkpoint_minutes=0.0)
    original = training.draw_batch
    bad: list[Simulation] = []

    def draw(config: Config, n: int, seed: int, device: torch.device) -> Simulation:
        batch = original(config, n, seed, device)
        if seed != batch_seed(config.train.seed, step):
            return batch
        bad.append(batch)
        return dataclasses.replace(batch, long=batch.long * math.nan)

    monkeypatch.setattr(training, "draw_batch", draw)
    with pytest.raises(TrainingError, match=f"the loss is nan at step {step};") as caught:
        train(config, tmp_path, quiet=True)

    (seed,) = re.findall(r"the seed (\d+)", str(caught.value))
    again = simulate(config.model.prior, 16, config.model.long, config.model.short, seed=int(seed))
    assert all(getattr(again, n).equal(getattr(bad[0], n)) for n in ("k", "theta", "long", "short"))
    parts, state = load_training(tmp_path / "checkpoint.safetensors")
    assert state["step"] == step  # the state before the bad step
    assert all(t.isfinite().all() for group in ("model", "ema") for t in parts[group].values())
    assert not list(tmp_path.glob(".*"))


def test_gradient_that_is_not_finite(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of that step is finite, the weights after it are not: they must not reach the checkpoint."""
    original = training.set_learning_rate

    def poison(optimizer: torch.optim.Optimizer, cfg: Any, step: int, done: float) -> None:
        original(optimizer, cfg, step, done)
        if step == 9:  # the last step of an epoch, so that a checkpoint is due
            optimizer.param_groups[0]["params"][0].grad.fill_(math.inf)

    monkeypatch.setattr(training, "set_learning_rate", poison)
    monkeypatch.setattr(training, "validate", lambda *_: {"loss": 1.0})
    with pytest.raises(TrainingError, match="gradient is not finite at step 9;") as caught:
        train(tiny(debug_config), tmp_path, quiet=True)
    assert str(batch_seed(0, 9)) in str(caught.value)
    parts, state = load_training(tmp_path / "checkpoint.safetensors")
    assert state["step"] == 5
    assert all(t.isfinite().all() for t in parts["model"].values())


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


def test_warm_up_then_plateau(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(debug_config, schedule="plateau", learning_rate=1e-3, warmup_steps=4)
    train(config, tmp_path, quiet=True)
    np.testing.assert_allclose(rates(tmp_path), [2.5e-4, 5e-4, 7.5e-4] + [1e-3] * 7, rtol=1e-12)


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


# --- Seeds --------------------------------------------------------------------------------------


def test_batch_seeds_are_distinct() -> None:
    seeds, steps, ranks = (0, 1, 2**19 - 1), (0, 1, 2, 10**6, 2**32 - 1), (0, 1, 7, 1023)
    values = [batch_seed(*one) for one in itertools.product(seeds, steps, ranks)]
    values += [VALIDATION_SEED + chunk for chunk in range(100)]
    values += range(100)  # what users type
    assert len(set(values)) == len(values)
    assert all(0 <= value < 2**63 for value in values)
    assert max(values[:60]) < VALIDATION_SEED


def test_seeds_that_differ_in_high_bits_differ_in_signals(debug_config: Config) -> None:
    """torch's generator on the CPU looks at 32 bits of its seed; the simulator must not."""
    model = debug_config.model
    seeds = [0, 2**32, VALIDATION_SEED, batch_seed(0, 0), batch_seed(1, 0), batch_seed(0, 2**22)]
    draws = [simulate(model.prior, 4, model.long, model.short, seed=seed).long for seed in seeds]
    for a, b in itertools.combinations(draws, 2):
        assert not a.equal(b)
    assert len({spread_seed(seed) for seed in range(-1000, 1000)}) == 2000


def test_seeds_in_use(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step draws its own batch, every epoch validates on the same signals, and the two never meet."""
    drawn: list[tuple[int, Simulation]] = []
    original = training.draw_batch

    def record(config: Config, n: int, seed: int, device: torch.device) -> Simulation:
        drawn.append((seed, original(config, n, seed, device)))
        return drawn[-1][1]

    monkeypatch.setattr(training, "draw_batch", record)
    train(tiny(debug_config), tmp_path, quiet=True)
    steps = [pair for pair in drawn if pair[0] < VALIDATION_SEED]
    checks = [pair for pair in drawn if pair[0] >= VALIDATION_SEED]
    assert [seed for seed, _ in steps] == [batch_seed(0, step) for step in range(10)]
    assert [seed for seed, _ in checks] == [VALIDATION_SEED, VALIDATION_SEED + 1] * 2
    for (_, first), (_, second) in zip(checks[:2], checks[2:], strict=True):
        assert first.k.equal(second.k) and first.long.equal(second.long)
    for (_, a), (_, b) in itertools.combinations(steps + checks[:2], 2):
        assert not a.long.equal(b.long)


# --- Other ways to train ------------------------------------------------------------------------


def test_start_from_a_model_file(debug_config: Config, tmp_path: Path) -> None:
    first = train(tiny(debug_config, seed=1), tmp_path / "a", quiet=True)
    still = {"learning_rate": 1e-12, "min_learning_rate": 0.0, "seed": 2, "max_epochs": 1}
    train(tiny(debug_config, **still), tmp_path / "b", init=first, quiet=True)
    train(tiny(debug_config, **still), tmp_path / "c", quiet=True)
    a = load_model(first).state_dict()
    b, c = (load_training(tmp_path / n / "checkpoint.safetensors")[0]["model"] for n in "bc")
    for name, value in a.items():
        torch.testing.assert_close(b[name], value, rtol=0, atol=1e-9)
    assert not same_tensors(b, c)
    assert load_training(tmp_path / "b" / "checkpoint.safetensors")[1]["step"] == 5


def test_bfloat16(debug_config: Config, tmp_path: Path) -> None:
    """Rounding to 8 bits moves the first loss by less than 2⁻⁸ of itself, and not by nothing."""
    losses = []
    for low in (False, True):
        folder = tmp_path / str(low)
        file = train(tiny(debug_config, bfloat16=low, max_epochs=1), folder, quiet=True)
        losses.append([line["loss"] for line in metrics(folder, "train")])
        assert all(t.dtype == torch.float32 for t in load_model(file).parameters())
    np.testing.assert_allclose(losses[1][0], losses[0][0], rtol=2**-8)
    assert losses[0][0] != losses[1][0]


@pytest.mark.filterwarnings("ignore")  # what the tracer touches on its way is torch's affair
def test_compiled_parts(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graphs are captured and give the same losses; generating code for them would take a minute."""
    compile_, used = torch.compile, []

    def capture(function: Any, **options: Any) -> Any:
        used.append(function)
        return compile_(function, backend="eager", **options)

    monkeypatch.setattr(torch, "compile", capture)
    config = tiny(debug_config, max_epochs=1, steps_per_epoch=3)
    train(config, tmp_path / "a", quiet=True)
    assert not used
    train(
        dataclasses.replace(config, train=dataclasses.replace(config.train, compile=True)),
        tmp_path / "b",
        quiet=True,
    )
    assert used
    a, b = ([line["loss"] for line in metrics(tmp_path / n)] for n in "ab")
    np.testing.assert_allclose(b, a, rtol=1e-5)


def test_training_outside_the_main_thread(debug_config: Config, tmp_path: Path) -> None:
    """Signals cannot be caught there; everything else works."""
    config = tiny(debug_config, max_epochs=1)
    thread = threading.Thread(target=train, args=(config, tmp_path), kwargs={"quiet": True})
    thread.start()
    thread.join(60)
    assert (tmp_path / "model.safetensors").exists()


def test_folder_after_training(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(debug_config)
    file = train(config, tmp_path / "run", device="cpu", quiet=True)
    assert file == tmp_path / "run" / "model.safetensors"
    names = {"checkpoint.safetensors", "model.safetensors", "metrics.jsonl", "config.yaml"}
    assert {p.name for p in file.parent.iterdir()} == names
    assert Config.from_yaml(tmp_path / "run" / "config.yaml") == config
    lines = [json.loads(line) for line in (file.parent / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["split"] == "train"] == list(range(1, 11))
    assert [line["step"] for line in lines if line["split"] == "val"] == [5, 10]
    assert all({"loss", "ce", "flow", "noise", "k_accuracy", "seconds"} <= set(li) for li in lines)
    assert all(li["signals_per_second"] > 0 for li in lines if li["split"] == "train")
    facts = describe(file)["facts"]
    assert facts["signals"] == facts["steps"] * 16
    assert SlotFlow.from_pretrained(file.parent).config == config.model


# --- Learning -----------------------------------------------------------------------------------


def loss_terms(
    model: SlotFlow, config: Config, k: int | None = None, shift: int = 0
) -> dict[str, Tensor]:
    """Loss terms on 32 fresh batches of 32 signals, (32,) each; signal i gets the truth of signal i − shift."""
    objective = SlotFlowLoss(model.eval(), config.loss)
    m, rows = config.model, []
    with torch.no_grad():
        for seed in range(32):
            batch = simulate(m.prior, 32, m.long, m.short, seed=seed, k=k)
            rows.append(objective(dataclasses.replace(batch, theta=batch.theta.roll(shift, 0))))
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def assert_below(values: Tensor, bound: Tensor | float) -> None:
    """Asserts that the mean of independent values lies below a bound (or its pairs) by five standard errors."""
    gain = bound - values
    assert gain.mean() > 5 * gain.std() / math.sqrt(len(values)), f"{values.mean()} of {bound}"


@pytest.mark.slow
def test_loss_falls_below_the_prior(debug_config: Config, tmp_path: Path) -> None:
    """Ten seconds of training beat whatever can be said without looking at the signal.

    By Gibbs' inequality a cross-entropy is at least the entropy of what it predicts. Without the signal that is log 3
    for K; for the flow's target of a single component, A, w_φ r (cos φ, sin φ) and w_f (f − f_0) with uniform A, φ,
    f and ln r ~ N(0, s²), it is log ΔA + log 2π + 2 log w_φ + ½ log(2πe s²) + log(w_f Δf). No constant estimates σ
    with less than the prior's variance.
    """
    config = tiny(
        debug_config, batch_size=64, steps_per_epoch=125, ema=0.9, warmup_steps=10, log_steps=125
    )
    model = load_model(train(config, tmp_path, quiet=True))
    trained, single = loss_terms(model, config), loss_terms(model, config, k=1)
    torch.manual_seed(config.train.seed)
    untrained = loss_terms(SlotFlow(config.model), config)

    prior, flow = config.model.prior, config.model.flow
    bounds = (prior.amplitude, prior.frequency, prior.sigma)
    amplitude, frequency, sigma = (high - low for low, high in bounds)
    assert_below(trained["ce"], math.log(3))
    assert_below(trained["noise"], sigma**2 / 12)
    assert_below(
        single["flow"],
        math.log(amplitude * 2 * math.pi * flow.phase_weight**2)
        + math.log(2 * math.pi * math.e * flow.radius_jitter**2) / 2
        + math.log(flow.frequency_weight * frequency),
    )
    for name in ("loss", "ce", "flow", "noise"):
        assert_below(trained[name], untrained[name])


@pytest.mark.parametrize("k", [1, 3])
def test_embedded_weights_have_learned_from_the_signals(
    debug_model: SlotFlow, debug_config: Config, k: int
) -> None:
    """Signals of the same K swap their truths: the flow's loss rises, as it would not if it knew the prior alone."""
    own = loss_terms(debug_model, debug_config, k)["flow"]
    assert_below(own, loss_terms(debug_model, debug_config, k, shift=1)["flow"])


def test_untrained_weights_have_not(debug_config: Config) -> None:
    """The control: to a flow that ignores its context one truth is as good as another."""
    torch.manual_seed(0)
    model = SlotFlow(debug_config.model)
    for layer in model.flow.layers:
        torch.nn.init.zeros_(layer.from_context.weight)
    own, other = (loss_terms(model, debug_config, 1, shift)["flow"] for shift in (0, 1))
    difference = other - own
    assert_within(difference.mean(), 0.0, difference.std() / math.sqrt(32))


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


def test_budget_replaces_the_plateau(debug_config: Config, tmp_path: Path) -> None:
    config = tiny(debug_config, max_epochs=10_000, schedule="plateau", warmup_steps=0)
    train(config, tmp_path, minutes=0.03, quiet=True)
    rates = [
        r["lr"]
        for r in map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
        if "lr" in r
    ]
    assert rates[0] > 0.9 * config.train.learning_rate
    assert rates[-1] < 0.2 * config.train.learning_rate
