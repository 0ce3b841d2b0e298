"""The command line: what it prints and writes, how it refuses, and how it stops."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from typer.testing import CliRunner

from slotflow import SlotFlow, __version__
from slotflow.cli import app
from slotflow.network.cards import embedded_card
from slotflow.network.checkpoint import describe
from slotflow.network.write_card import write_card
from slotflow.signal.simulation import Simulation, simulate
from slotflow.signal.simulation_file import write_simulation

TINY = [
    "--set=train.batch_size=8",
    "--set=train.steps_per_epoch=2",
    "--set=train.max_epochs=1",
    "--set=train.validation_signals=8",
    "--set=train.warmup_steps=0",
    "--device=cpu",
]


def run(*args: object, code: int = 0) -> str:
    """Runs a command, checks its exit code and gives what it printed."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def refuse(*args: object) -> str:
    """Runs a command that must refuse its input with exit code 2 and one line."""
    line = run(*args, code=2).strip()
    assert line.startswith("error:")
    assert "\n" not in line
    return line


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of untrained weights: enough for everything but a right answer."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    SlotFlow.from_preset("debug").save(path)
    return path


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    """Three signals on the grids of the debug preset."""
    config = SlotFlow.from_preset("debug").config
    return simulate(config.prior, 3, config.long, config.short, mode="physical", seed=5)


@pytest.fixture
def signals(tmp_path: Path, simulation: Simulation) -> Path:
    """A file with three signals."""
    path = tmp_path / "signals.npz"
    write_simulation(path, simulation)
    return path


@pytest.fixture
def tables(tmp_path: Path, simulation: Simulation) -> tuple[Path, Path]:
    """One signal as an instrument would give it: two CSV files with a time column."""
    obs = simulation.observation(0)
    paths = tmp_path / "long.csv", tmp_path / "short.csv"
    for path, stream in zip(paths, (obs.long, obs.short), strict=True):
        assert stream is not None
        columns = np.column_stack([stream.times, stream.values])
        np.savetxt(path, columns, fmt="%.9g", delimiter=",", header="time,x", comments="")
    return paths


# --- demo ----------------------------------------------------------------------------------------


def test_demo_prints_a_table_and_writes_a_picture(tmp_path: Path) -> None:
    output = run("demo", "--out", tmp_path / "demo.png")
    for text in ("p(K | x)", "K = 6", "amplitude", "truth", "Noise level", "most probable", "ms"):
        assert text in output
    assert "Verdict: exact" in output and "Evidence of K = 6: ln Z = " in output
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_demo_json_is_reproducible(tmp_path: Path) -> None:
    args = ("demo", "--json", "--model", "debug", "--seed", 3, "--out", tmp_path / "demo.png")
    first, second = (json.loads(run(*args)) for _ in range(2))
    for record in (first, second):
        assert min(record.pop("milliseconds").values()) > 0
    assert first == second
    assert sum(first["k_probs"]) == pytest.approx(1)
    assert len(first["components"]) == first["k_map"]
    assert len(first["truth"]["components"]) == first["truth"]["k"]
    assert first["figure"] == str(tmp_path / "demo.png")


# --- simulate ------------------------------------------------------------------------------------


def test_simulate_is_reproducible_and_obeys_its_flags(tmp_path: Path) -> None:
    flags = ["--n=20", "--k-min=2", "--k-max=2", "--sigma=0.3:0.4", "--amplitude=2:3", "--band=1:3"]
    flags.append("--json")
    record = json.loads(run("simulate", "--out", tmp_path / "a.npz", "--seed", 7, *flags))
    run("simulate", "--out", tmp_path / "b.npz", "--seed", 7, *flags)
    assert record["signals_per_k"] == [0, 0, 20]
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        assert a["long"].shape == (20, record["long"]["n"])
        assert 0.3 <= a["sigma"].min() <= a["sigma"].max() <= 0.4
        assert a["theta"][..., 0].min() >= 2
        assert 1 <= a["theta"][..., 2].min() < 2.4 < a["theta"][..., 2].max() <= 3
        for name in a.files:
            np.testing.assert_array_equal(a[name], b[name])
    run("simulate", "--out", tmp_path / "c.npz", "--n=5", "--sigma=0.7")
    with np.load(tmp_path / "c.npz") as c:
        np.testing.assert_allclose(c["sigma"], 0.7, rtol=1e-6)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--preset", "debug", "--k", 9], "0 <= k <= k_max = 3, received 9"),
        (["--k", 11], "0 <= k <= k_max = 10, received 11"),
        (["--mode", "other"], "received 'other'"),
        (["--amplitude", "1:2:3"], "--amplitude: expected LOW:HIGH such as 0.5:1.5"),
        (["--amplitude", "2:1"], "lower < upper, received (2.0, 1.0)"),
        (["--sigma", "low"], "--sigma: expected a noise level above 0 such as 0.7 or bounds"),
        (["--preset", "none"], "received 'none'"),
        (["--set", "model.prior.nonsense=1"], "received 'model.prior.nonsense=1'"),
        (["--set", "model.long.n"], "expected KEY=VALUE"),
        (["--set", "model.long.n=[1"], "expected a YAML value"),
        (["--set", "model.long.n=many"], "model.long.n: expected int, received 'many'"),
        (["--device", "abacus"], "--device: expected a device of this machine"),
        (["--config", "absent.yaml"], "no such config file"),
    ],
)
def test_simulate_refuses(tmp_path: Path, flags: list[object], message: str) -> None:
    assert message in refuse("simulate", "--out", tmp_path / "a.npz", *flags)
    assert list(tmp_path.iterdir()) == []


def test_simulate_refuses_other_suffixes_and_unknown_options(tmp_path: Path) -> None:
    assert "ends in .npz" in refuse("simulate", "--out", tmp_path / "a.csv")
    run("simulate", "--out", tmp_path / "a.npz", "--nonsense", code=2)
    run("simulate", code=2)


# --- train ---------------------------------------------------------------------------------------


def test_train_resume_infer(tmp_path: Path, signals: Path) -> None:
    out = tmp_path / "run"
    record = json.loads(run("train", "--out", out, "--seed", 4, *TINY, "--quiet", "--json"))
    assert (record["steps"], record["seed"]) == (2, 4)
    names = {"checkpoint.safetensors", "config.yaml", "metrics.jsonl", "model.safetensors"}
    assert {p.name for p in out.iterdir()} == names | {"training.png"}
    assert yaml.safe_load((out / "config.yaml").read_text())["train"]["seed"] == 4
    assert "already holds a checkpoint" in refuse("train", "--out", out, *TINY)
    run("train", "--out", out, "--resume", "--set", "train.max_epochs=2", "--device=cpu")
    assert describe(out / "checkpoint.safetensors")["step"] == 4
    answers = json.loads(run("infer", signals, "--model", out, "--json", "--no-refine"))
    assert len(answers["signals"]) == 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--resume"], "holds no checkpoint to resume"),
        (["--minutes", "-1"], "expected minutes > 0, received -1"),
        (["--preset", "debug", "--config", "a.yaml"], "exclude each other"),
        (["--set", "train.learning_rate=fast"], "train.learning_rate: expected float"),
        (["--set", "train.batch_size=0"], "batch_size >= 1"),
    ],
)
def test_train_refuses(tmp_path: Path, flags: list[str], message: str) -> None:
    assert message in refuse("train", "--out", tmp_path / "run", *flags)


def test_scientific_notation_is_a_number(tmp_path: Path) -> None:
    flags = [*TINY, "--set", "train.learning_rate=2e-4", "--set", "train.min_learning_rate=0"]
    run("train", "--out", tmp_path, "--quiet", *flags)
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["train"]["learning_rate"] == 2e-4


# --- infer ---------------------------------------------------------------------------------------


def test_infer_tables(tmp_path: Path, model: Path, tables: tuple[Path, Path]) -> None:
    import pandas as pd
    import xarray as xr

    long, short = tables
    out = tmp_path / "result"
    args = (
        "infer",
        long,
        "--short",
        short,
        "--model",
        model,
        "--samples",
        50,
        "--out",
        out,
        "--no-refine",
    )
    output = run(*args, "--plot", "--threads", 1)
    assert "1 signal in" in output
    assert {p.name for p in out.iterdir()} == {"summary.csv", "posterior.nc", "posterior.png"}
    record = json.loads(run(*args, "--json"))["signals"][0]
    summary = pd.read_csv(out / "summary.csv", index_col="component")
    assert len(summary) == record["k_map"]
    assert summary["frequency_median"].tolist() == pytest.approx(
        [row["frequency_median"] for row in record["components"]]
    )
    with xr.open_dataset(out / "posterior.nc", engine="h5netcdf") as dataset:
        assert dataset.sizes["draw"] == 50


def test_infer_many_signals(tmp_path: Path, model: Path, signals: Path) -> None:
    out = tmp_path / "result"
    record = json.loads(
        run("infer", signals, "--model", model, "--json", "--quiet", "--out", out, "--no-refine")
    )
    assert [s["signal"] for s in record["signals"]] == [0, 1, 2]
    tables = ["catalogue.csv", "ledger.sqlite", "signals.csv"]
    folders = [f"signals-{i:05d}" for i in range(3)]
    assert sorted(p.name for p in out.iterdir()) == sorted(tables + folders)
    assert "[2]" in run("infer", signals, "--model", model, "--no-refine")


def test_infer_files_of_equal_names(tmp_path: Path, model: Path, simulation: Simulation) -> None:
    obs = simulation.observation(1)
    assert obs.short is not None
    files = [tmp_path / name / "x.npz" for name in "ab"]
    for file in files:
        file.parent.mkdir()
        arrays = {"long": obs.long.values, "short": obs.short.values}
        np.savez(file, dt_long=obs.long.dt, dt_short=obs.short.dt, **arrays)  # type: ignore[arg-type]
    run(
        "infer", *files, "--model", model, "--out", tmp_path / "out", "--samples", 20, "--no-refine"
    )
    folders = [p.name for p in (tmp_path / "out").iterdir() if p.is_dir()]
    assert sorted(folders) == ["000-x", "001-x"]


@pytest.mark.parametrize("k_prior", ["0,0,1,0", "2:1"])
def test_infer_with_a_prior_over_k(model: Path, signals: Path, k_prior: str) -> None:
    record = json.loads(
        run("infer", signals, "--model", model, "--k-prior", k_prior, "--json", "--no-refine")
    )
    for answer in record["signals"]:
        assert answer["k_probs"] == pytest.approx([0, 0, 1, 0])


def test_infer_refuses(
    tmp_path: Path, model: Path, signals: Path, tables: tuple[Path, Path], simulation: Simulation
) -> None:
    long, short = tables
    text = long.read_text().splitlines()
    n = len(text) - 1
    bad = {
        "nan.csv": ["time,x", *(line.split(",")[0] + ",nan" for line in text[1:])],
        "text.csv": [*text[:5], "0.4,high", *text[6:]],
        "cut.csv": text[:-1],
        "empty.csv": [],
    }
    for name, lines in bad.items():
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(model.read_bytes()[:1000])
    with_model = ("--model", model, "--short", short)
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((tmp_path / "absent.csv", *with_model), "absent.csv: no such file"),
        ((tmp_path / "nan.csv", *with_model), f"received {n:,} that are all missing"),
        ((tmp_path / "text.csv", *with_model), "line 6: expected a number, received 'high'"),
        ((tmp_path / "cut.csv", *with_model), f"{n} samples in the long stream, received {n - 1}"),
        ((tmp_path / "empty.csv", *with_model), "the file is empty"),
        ((long, "--model", model), "needs a short stream"),
        ((long, "--dt", 0.2, *with_model), "expected one sampling step"),
        ((long, signals, *with_model), "--short goes with one file"),
        ((long, "--plot", *with_model), "--plot needs a folder"),
        ((long, "--column", "y", *with_model), "one of the columns 'x', received 'y'"),
        ((long, "--k-prior", "a,b", *with_model), "--k-prior: expected numbers"),
        ((long, "--k-prior", "0,-1,1,1", *with_model), "not negative"),
        ((long, "--k-prior", "0,0,0,0", *with_model), "not all zero"),
        ((long, "--k-prior", "7:1", *with_model), "expected K in 0..3"),
        ((long, "--model", tmp_path / "absent"), "found nothing there"),
        ((long, "--model", damaged), "truncated or of another kind"),
    ]
    before = sorted(tmp_path.iterdir())
    for args, message in cases:
        assert message in refuse("infer", *args)
    assert sorted(tmp_path.iterdir()) == before


# --- info and the program as a whole ---------------------------------------------------------------


def test_info(model: Path) -> None:
    record = json.loads(run("info", "--json"))
    assert record["version"] == __version__
    assert {"debug", "paper"} <= set(record["presets"])
    described = json.loads(run("info", model, "--json"))
    preset = json.loads(run("info", "paper", "--json"))
    assert described["parameters"] == SlotFlow.from_preset("debug").n_parameters
    assert described["config"]["model"]["name"] == "debug"
    assert preset["config"]["train"]["batch_size"] == 128
    assert "presets debug, family, multiclass, paper" in run("info")
    assert "found nothing there" in refuse("info", "absent")


def test_info_of_embedded_weights() -> None:
    record, shown = json.loads(run("info", "debug", "--json")), run("info", "debug")
    assert record["card"] == dataclasses.asdict(embedded_card("debug"))
    assert record["hash"] == record["card"]["hash"]
    assert record["config"]["model"] == record["card"]["config"]
    for line in (f"hash {record['hash']}", "signals 256,000", "date 2026-11-15"):
        assert line in shown


def test_info_of_a_card(model: Path, tmp_path: Path) -> None:
    """Without a card its hash; with one the table and its targets; with another's a refusal."""
    path = shutil.copy(model, tmp_path / "model.safetensors")
    before = json.loads(run("info", path, "--json"))
    assert before["card"] is None
    rows = [
        {"measure": "exact K", "value": 0.98765, "target": ">= 0.99", "low": 0.99, "passed": False},
        {"measure": "factor [φ]", "value": 3.0, "target": None, "passed": None, "note": "of 12.5"},
    ]
    write_card(path, {"gpu_minutes": 52.5, "stages": "two"}, rows)
    after = json.loads(run("info", tmp_path, "--json"))
    assert after["hash"] == after["card"]["hash"] == before["hash"]
    assert after["card"]["evaluation"] == rows
    shown = run("info", path)
    table = [line.split() for line in shown[shown.index("evaluation") :].splitlines()]
    assert ["measure", "value", "target", "passed", "note"] in table
    assert ["exact", "K", "0.9877", ">=", "0.99", "no", "–"] in table
    assert ["factor", "[φ]", "3", "–", "–", "of", "12.5"] in table
    assert "gpu_minutes 52.5" in shown and "stages two" in shown
    SlotFlow.from_preset("debug").save(path)
    assert "expected the weights that its card describes" in refuse("info", path)


def test_version_and_help() -> None:
    assert run("--version").strip() == f"slotflow {__version__}"
    for command in ("demo", "simulate", "train", "infer", "info"):
        output = run(command, "--help")
        assert "Examples" in output
        assert f"$ slotflow {command}" in output


def test_ctrl_c_and_debug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("slotflow.signal.simulation_file.write_simulation", interrupted)
    assert "stopped:" in run("simulate", "--out", tmp_path / "a.npz", code=130)
    monkeypatch.setenv("SLOTFLOW_DEBUG", "1")
    result = CliRunner().invoke(app, ["infer", str(tmp_path / "absent.csv"), "--threads", "1"])
    assert isinstance(result.exception, ValueError)


def _environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def test_ctrl_c_in_training_leaves_a_checkpoint(tmp_path: Path) -> None:
    """A real process and a real signal."""
    command = [sys.executable, "-m", "slotflow", "train", "--out", str(tmp_path), *TINY]
    command += ["--set=train.max_epochs=1000000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=_environment())
    deadline = time.monotonic() + 60
    while not (tmp_path / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "resume it from" in errors
    assert not list(tmp_path.glob(".*"))


def test_training_and_inference_import_without_the_optional_packages() -> None:
    optional = ("matplotlib", "corner", "pandas", "xarray", "typer", "rich", "h5py")
    code = (
        "import sys, slotflow.train.loop, slotflow.network.model, slotflow.show.plots, slotflow.data.read.files\n"
        f"print([name for name in {optional!r} if name in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=True)
    assert result.stdout.strip() == "[]"


def test_a_full_disk_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("slotflow.signal.simulation.simulate", full)
    line = refuse("simulate", "--n", 2, "--out", tmp_path / "x.npz")
    assert "the disk is full" in line and "--out" in line
    assert list(tmp_path.iterdir()) == []
