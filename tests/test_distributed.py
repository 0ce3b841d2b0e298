"""Training on several processes: two of them on this CPU, started as on a cluster."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from training_helpers import ENVIRONMENT, PATIENCE, metrics, same_tensors, tiny, write_config

import slotflow.train.loop as training
from slotflow.network.build import load_model
from slotflow.network.checkpoint import load_training
from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.paper.loss import PaperLoss
from slotflow.signal.simulation import Simulation, simulate
from slotflow.train.batches import batch_seed
from slotflow.train.loop import train

OBSERVED = '''
"""Trains, and notes per process the weights and gradients of every step and the files that it touches."""
import json, os, sys
from pathlib import Path

from safetensors.torch import save_file

import slotflow.train.loop as training
from slotflow.network.config import Config

out, notes, rank = Path(sys.argv[2]), Path(sys.argv[3]), os.environ["RANK"]
touched = set()


def audit(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            touched.add(str(path))
    elif event in ("os.rename", "os.mkdir", "os.remove"):
        touched.update(map(str, arguments[:2] if event == "os.rename" else arguments[:1]))


def observe(optimizer, cfg, step, done):
    original(optimizer, cfg, step, done)
    parameters = optimizer.param_groups[0]["params"]
    tensors = {f"weight.{i}": p.detach().clone() for i, p in enumerate(parameters)}
    tensors |= {f"gradient.{i}": p.grad.clone() for i, p in enumerate(parameters)}
    save_file(tensors, notes / f"{rank}-{step}.safetensors")


original, training.set_learning_rate = training.set_learning_rate, observe
sys.addaudithook(audit)
training.train(Config.from_yaml(sys.argv[1]), out, device="cpu", quiet=True)
inside = sorted(Path(path).name for path in touched if path.startswith(str(out)))
(notes / f"{rank}.json").write_text(json.dumps(inside))
'''


@contextmanager
def torchrun(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Starts two processes on a free port; none of them outlives the block: the launcher ends them on SIGTERM."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "--local-addr", "127.0.0.1", *map(str, arguments)]
    process = subprocess.Popen(
        command,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=PATIENCE)
            finally:
                process.kill()


def finish(process: subprocess.Popen[str]) -> str:
    """Waits for success."""
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    return output


def read_notes(notes: Path, rank: int, step: int, kind: str) -> list[Tensor]:
    """What a process noted at a step, in the order of the parameters."""
    tensors = load_file(notes / f"{rank}-{step}.safetensors")
    return [tensors[f"{kind}.{i}"] for i in range(len(tensors) // 2)]


def together(a: Simulation, b: Simulation) -> Simulation:
    """Two batches as one."""
    names = ("k", "theta", "sigma", "long", "short")
    joined = {name: torch.cat([getattr(a, name), getattr(b, name)]) for name in names}
    return dataclasses.replace(a, **joined)


def test_two_processes_are_one(debug_config: Config, tmp_path: Path) -> None:
    """Gradients agree between the processes and with one process that has both batches; only the first one writes."""
    flow = dataclasses.replace(debug_config.model.flow, radius_jitter=0.0)  # drawn per batch
    config = tiny(debug_config, clip_norm=0.0, ema=0.9, steps_per_epoch=3)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, flow=flow))
    out, notes = tmp_path / "run", tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "observed.py").write_text(OBSERVED)
    file = write_config(config, tmp_path / "config.yaml")
    with torchrun(tmp_path / "observed.py", file, out, notes) as process:
        finish(process)

    for step in range(6):
        for kind in ("gradient", "weight"):
            first, second = (read_notes(notes, rank, step, kind) for rank in (0, 1))
            assert all(p.equal(q) for p, q in zip(first, second, strict=True)), (kind, step)

    m = config.model
    torch.manual_seed(config.train.seed)
    model = SlotFlow(m)
    batches = [
        simulate(m.prior, 8, m.long, m.short, seed=batch_seed(config.train.seed, 0, rank))
        for rank in (0, 1)
    ]
    assert not batches[0].long.equal(batches[1].long)
    PaperLoss(model, config.loss)(together(*batches))["loss"].backward()
    shared = read_notes(notes, 0, 0, "gradient")
    for (name, p), gradient in zip(model.named_parameters(), shared, strict=True):
        assert p.grad is not None
        worst = float((p.grad - gradient).abs().max() / p.grad.abs().max().clamp_min(1e-3))
        assert worst < 1e-5, f"{name}: {worst}"
    whole = [
        torch.cat([g.flatten() for g in side])
        for side in ([p.grad for p in model.parameters() if p.grad is not None], shared)
    ]
    assert float((whole[0] - whole[1]).norm() / whole[0].norm()) < 1e-6

    writes = [set(json.loads((notes / f"{rank}.json").read_text())) for rank in (0, 1)]
    assert {"run", "checkpoint.safetensors", "metrics.jsonl", "config.yaml"} <= writes[0]
    assert writes[1] == set()
    assert [line["step"] for line in metrics(out, "train")] == list(range(1, 7))
    assert [line["step"] for line in metrics(out, "val")] == [3, 6]


@pytest.mark.slow
def test_torchrun_is_stopped_and_resumed(debug_config: Config, tmp_path: Path) -> None:
    """As a scheduler does: SIGTERM to the launcher in the middle of an epoch, then a second start with --resume."""
    config = tiny(debug_config, steps_per_epoch=40, log_steps=2)
    file, out = write_config(config, tmp_path / "config.yaml"), tmp_path / "run"
    arguments = ["-m", "slotflow", "train", "--out", out, "--device", "cpu", "--quiet"]
    with torchrun(*arguments, "--config", file) as process:
        end = time.monotonic() + PATIENCE
        while not (out / "metrics.jsonl").exists() or len(metrics(out)) < 5:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0, output
    step = load_training(out / "checkpoint.safetensors")[1]["step"]
    assert step % 40 != 0, output

    with torchrun(*arguments, "--resume") as process:
        finish(process)
    assert [line["step"] for line in metrics(out, "train")] == list(range(2, 81, 2))
    assert [line["step"] for line in metrics(out, "val")] == [40, 80]
    parts, state = load_training(out / "checkpoint.safetensors")
    assert state["step"] == 80
    load_model(out / "model.safetensors")
    assert not list(out.glob(".*"))
    assert not same_tensors(parts["ema"], parts["model"])


def test_batch_must_be_shared_evenly(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before anything is written; the group is only pretended here."""

    @contextmanager
    def group(device: object) -> Iterator[tuple[torch.device, int, int]]:
        yield torch.device("cpu"), 0, 3

    monkeypatch.setattr("slotflow.train.loop.process_group", group)
    with pytest.raises(ValueError, match="batch_size that 3 processes can share, received 16"):
        train(tiny(debug_config), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("device", "local_rank", "expected"),
    [
        ("cuda", "0", "cuda:0"),
        ("cuda", "1", "cuda:1"),
        ("cuda:3", "1", "cuda:3"),
        ("cpu", "1", "cpu"),
    ],
)
def test_each_process_takes_its_own_device(
    monkeypatch: pytest.MonkeyPatch, device: str, local_rank: str, expected: str
) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    with training.process_group(device) as (found, rank, world):
        assert (found, rank, world) == (torch.device(expected), 0, 1)
    assert chosen == [torch.device(expected)] * (expected != "cpu")
