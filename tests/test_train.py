"""Training: what a run leaves behind, losses that are not finite, seeds, and the loss falls."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within
from torch import Tensor
from training_helpers import metrics, same_tensors, tiny

import slotflow.train.loop as training
from slotflow.core.seeds import VALIDATION_SEED
from slotflow.network.build import load_model
from slotflow.network.checkpoint import describe, load_training
from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.paper.loss import PaperLoss
from slotflow.signal.simulation import Simulation, simulate
from slotflow.train.batches import batch_seed
from slotflow.train.loop import TrainingError, train

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
    objective = PaperLoss(model.eval(), config.loss)
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
