"""A training so small that it takes a fraction of a second, and what its folder says."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from slotflow.network.checkpoint import load_training
from slotflow.network.config import Config

__all__ = [
    "ENVIRONMENT",
    "PATIENCE",
    "metrics",
    "python",
    "rates",
    "same_tensors",
    "same_training",
    "tiny",
    "write_config",
]

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
"""For child processes: one thread, so that they compute the same bits as the tests."""
PATIENCE = 300.0
"""Seconds after which a child process counts as stuck: a busy machine is slow."""
TIMING = ("seconds", "signals_per_second")
"""Entries of the metrics that depend on the machine's speed."""


def tiny(config: Config, **train: Any) -> Config:
    """The debug preset with 2 epochs of 5 steps of 16 signals, and whatever else is asked for."""
    small = {
        "batch_size": 16,
        "steps_per_epoch": 5,
        "max_epochs": 2,
        "validation_signals": 32,
        "log_steps": 1,
        "warmup_steps": 0,
    }
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **(small | train)))


def metrics(folder: Path, split: str | None = None) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl without timings: all of them, or those of one split."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if name not in TIMING}
        for line in lines
        if split in (None, line["split"])
    ]


def rates(folder: Path) -> list[float]:
    """Learning rate of each logged step."""
    return [line["lr"] for line in metrics(folder, "train")]


def same_training(a: Path, b: Path) -> bool:
    """Whether two folders hold the same loss curve, weights, averages, optimizer, schedule and random state."""
    (parts_a, state_a), (parts_b, state_b) = (
        load_training(folder / "checkpoint.safetensors") for folder in (a, b)
    )
    same_state = all(state_a[n] == state_b[n] for n in state_a if n not in TIMING)
    same_names = parts_a.keys() == parts_b.keys() and state_a.keys() == state_b.keys()
    same_parts = all(same_tensors(parts_a[part], parts_b[part]) for part in parts_a)
    return same_names and same_state and same_parts and metrics(a) == metrics(b)


def same_tensors(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two sets of named tensors agree in every bit."""
    return a.keys() == b.keys() and all(a[n].equal(b[n]) for n in a)


def write_config(config: Config, path: Path) -> Path:
    """Writes a config as YAML."""
    path.write_text(yaml.safe_dump(config.to_dict()))
    return path


def python(
    *arguments: object, timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs this interpreter with arguments; output is captured, a failure is the caller's to judge."""
    command = [sys.executable, *map(str, arguments)]
    options = {"env": ENVIRONMENT, "capture_output": True, "text": True} | options
    return subprocess.run(command, timeout=timeout, check=False, **options)
