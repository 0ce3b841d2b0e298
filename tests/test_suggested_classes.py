"""What a verdict on tones suggests is a command that runs and gives a better answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from slotflow import Observation, SlotFlow
from slotflow.cli import app
from slotflow.core.arrays import Array
from slotflow.infer.statement import Statement
from slotflow.waveforms import Damped, Tone

N, STEP = 1000, 0.1
DURATION = N * STEP
T = np.arange(N) * STEP
CHANGE = {"damped": 0.02, "chirp": 1.5 / DURATION**2}
"""Rate in 1/s, and drift in Hz/s."""
COLUMN = {"damped": "rate", "chirp": "drift"}


def series(kind: str, seed: int) -> Array:
    """One component that changes and a steady tone, in noise of the level 0.5, (N,)."""
    u = T - T.mean()
    envelope, angle = np.ones(N), 2 * np.pi * 2.63 * T
    if kind == "damped":
        envelope = np.exp(-CHANGE[kind] * T)
    else:
        angle = angle + np.pi * CHANGE[kind] * u**2
    x = 2.0 * envelope * np.cos(angle) + np.cos(2 * np.pi * 2.85 * T + 1)
    noisy: Array = x + 0.5 * np.random.default_rng(seed).standard_normal(N)
    return noisy


def answered(path: Path, *flags: str) -> dict[str, Any]:
    """The answer of the command to a file, as JSON."""
    words = ["infer", str(path), "--band", "2.5:3", "--threads", "1", "--json", *flags]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    record: dict[str, Any] = json.loads(result.stdout)["signals"][0]
    return record


@pytest.mark.parametrize("kind", ["damped", "chirp"])
def test_the_command_that_is_suggested_runs_and_is_exact(
    kind: str, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "series.csv"
    np.savetxt(path, np.column_stack([T, series(kind, seed)]), delimiter=",", header="t,x")
    first = answered(path, "--max-seconds", "2")
    assert first["verdict"]["status"] != "exact"
    flags = re.search(r"--classes (\S+?)\)", first["verdict"]["reason"])
    assert flags is not None and kind in flags[1].split(",")
    again = answered(path, "--classes", flags[1])
    assert again["verdict"]["status"] == "exact"
    assert again["k_map"] == 2
    found = {row["class"]: row for row in again["components"]}
    assert set(found) == {kind, "tone"}
    value, sd = (found[kind][f"{COLUMN[kind]}_{what}"] for what in ("median", "sd"))
    assert abs(value - CHANGE[kind]) < 4 * sd


def test_the_same_in_python(zoom: SlotFlow, seed: int) -> None:
    observation = Observation.from_arrays(values=series("damped", seed), dt=STEP)
    post = zoom.infer(observation, prior={"frequency": (2.5, 3.0), "classes": "tone,damped"})
    assert post.verdict.status == "exact" and post.k_map == 2


def test_ways_to_state_classes() -> None:
    given = Statement.of({"classes": {"tone": Tone(), "ring": Damped((0.01, 0.2))}})
    assert given.waveform is not None and "ring" in str(given.waveform)
    with pytest.raises(ValueError, match="received both"):
        Statement.of({"classes": "tone,damped", "waveform": "damped"})
    with pytest.raises(ValueError, match="received list"):
        Statement.of({"classes": ["tone"]})
