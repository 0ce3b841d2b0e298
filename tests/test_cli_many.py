"""Many signals in one command: chunks, tables, what an earlier run has done, bad signals, Ctrl-C."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from posterior_helpers import gaussian_posterior
from typer.testing import CliRunner

from slotflow.cli import app
from slotflow.cli.display import EXPLAINED_FILES
from slotflow.cli.folders import check_folder
from slotflow.data.observation import Observation
from slotflow.data.read.files import read_observations
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import Signals, open_signals
from slotflow.many.job import Job, content_of
from slotflow.many.plan import CHUNK
from slotflow.many.results import remove_leftovers
from slotflow.network.config import Config
from slotflow.posterior.posterior import Posterior
from slotflow.signal.simulation import simulate
from slotflow.signal.simulation_file import write_simulation

FLAGS = ("--model", "debug", "--no-refine", "--samples", 20)
N = 25
"""More than get a table each."""


def run(*args: object, code: int = 0) -> str:
    """Runs `slotflow infer`, checks its exit code and gives what it printed, complaints included."""
    result = CliRunner().invoke(app, ["infer", *(str(a) for a in args)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def answer(*args: object) -> dict[str, Any]:
    """The JSON document of `slotflow infer`, whatever the exit code."""
    result = CliRunner().invoke(app, ["infer", *(str(a) for a in args), "--json"])
    record: dict[str, Any] = json.loads(result.stdout)
    return record


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    """The arrays of a file of signals for the small model."""
    config = Config.from_preset("debug").model
    sim = simulate(config.prior, N, config.long, config.short, mode="physical", seed=3)
    long, short = sim.long.numpy().copy(), sim.short
    assert short is not None
    steps = {"dt_long": config.long.dt, "dt_short": config.short.dt}
    return {"long": long, "short": short.numpy().copy()} | steps


@pytest.fixture
def many(tmp_path: Path, arrays: dict[str, Any]) -> Path:
    """A file of 25 signals."""
    path = tmp_path / "many.npz"
    np.savez(path, **arrays)
    return path


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npz", "packed", "npy", "fortran", "h5", "nc"])
def test_chunks_are_the_whole(tmp_path: Path, arrays: dict[str, Any], kind: str) -> None:
    """Every format gives the same signals a few at a time, in any order, and at once."""
    x, dt = arrays["long"], arrays["dt_long"]
    path, flags = tmp_path / f"x.{kind if kind in ('h5', 'nc') else 'npy'}", {"dt": dt}
    if kind in ("npz", "packed"):
        path, flags = tmp_path / "x.npz", {}
        (np.savez if kind == "npz" else np.savez_compressed)(path, **arrays)
    elif kind == "h5":
        import h5py

        with h5py.File(path, "w") as file:
            file["long"] = x
    elif kind == "nc":
        import xarray as xr

        t = ("time", dt * np.arange(x.shape[1]), {"units": "s"})
        data = xr.Dataset({"long": (("time", "row"), x.T)}, coords={"time": t})
        data.to_netcdf(path, engine="h5netcdf")
    else:
        np.save(path, np.asfortranarray(x) if kind == "fortran" else x)
    whole = read_observations(path, **flags)
    assert len(whole) == N
    with open_signals(path, ReadOptions(**flags)) as signals:
        assert signals.count == N
        for first, last in ((0, 7), (7, 14), (3, 5), (20, 99)):
            found = signals.read(first, last)
            assert len(found) == min(last, N) - first
            for one, same in zip(found, whole[first:last], strict=True):
                assert isinstance(one, Observation)
                for a, b in zip(one.channels, same.channels, strict=True):
                    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(whole[4].long.values, x[4].astype(np.float64))


def test_never_more_than_a_chunk(
    tmp_path: Path, arrays: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, n = tmp_path / "x.npz", 2 * CHUNK + 5
    steps = {name: arrays[name] for name in ("dt_long", "dt_short")}
    stacked = {
        name: np.resize(arrays[name], (n, arrays[name].shape[1])) for name in ("long", "short")
    }
    np.savez(path, **stacked, **steps)
    asked, read = [], Signals.read

    def watched(self: Signals, first: int, last: int) -> list[Observation | ValueError]:
        found = read(self, first, last)
        asked.append(len(found))
        return found

    monkeypatch.setattr(Signals, "read", watched)
    out = tmp_path / "out"
    run(path, *FLAGS, "--out", out, "--save", "none", "--quiet")
    assert len(rows(out / "signals.csv")) == n and max(asked) == CHUNK


# --- tables and what was done before ---------------------------------------------------------------


def test_tables_and_no_folders(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = run(many, *FLAGS, "--out", out, "--save", "none")
    assert f"{N} signals in" in text and "per second" in text and "Most probable K = " in text
    assert {p.name for p in out.iterdir()} == {"catalogue.csv", "signals.csv", "ledger.sqlite"}
    signals, catalogue = rows(out / "signals.csv"), rows(out / "catalogue.csv")
    assert [row["signal"] for row in signals] == [str(i) for i in range(N)]
    assert len(catalogue) == sum(int(row["k_map"]) for row in signals)
    record = answer(many, *FLAGS)
    for row, same in zip(signals, record["signals"], strict=True):
        assert int(row["k_map"]) == same["k_map"] and row["verdict"] == "approximate"
    found = [c for one in record["signals"] for c in one["components"]]
    medians = [float(row["frequency_median"]) for row in catalogue]
    assert medians == pytest.approx([c["frequency_median"] for c in found])
    names = {"component", *gaussian_posterior([0.0, 1.0, 0.0, 0.0]).to_catalogue(n=50)}
    facts = {"file", "signal", "k_map", "p_k_map", "combination", "combination_chance"}
    assert {name for name in names if "cov_" not in name} == set(catalogue[0]) - facts
    assert run(many, *FLAGS, "--quiet", "--out", out, "--save", "none") == ""


def test_harmonics_are_labelled_in_the_catalogue_of_many(tmp_path: Path) -> None:
    rng, t = np.random.default_rng(0), 0.1 * np.arange(1000)
    x = rng.normal(size=(2, 1000)) * 0.3 + np.cos(2 * np.pi * 1.1 * t)
    x[1] += 0.5 * np.cos(2 * np.pi * 2.2 * t + 1)
    np.savez(tmp_path / "two.npz", x=x, dt=0.1)
    flags = ("--band", "1:2.4", "--amplitude", "0.1:2", "--max-seconds", "60", "--save", "none")
    run(tmp_path / "two.npz", *flags, "--out", tmp_path / "out", "--quiet")
    found = [(r["signal"], r["combination"]) for r in rows(tmp_path / "out" / "catalogue.csv")]
    assert found == [("0", ""), ("1", ""), ("1", "2f1")]


def test_of_many_signals_too_is_told_what_was_assumed(
    tmp_path: Path, arrays: dict[str, Any]
) -> None:
    """Sampling, band and prior of each file, and that there are warnings, which the table holds."""
    drifting = arrays | {"long": arrays["long"].copy()}
    drifting["long"][3] += np.linspace(-5, 5, drifting["long"].shape[1])
    for i in range(EXPLAINED_FILES + 4):
        np.savez(
            tmp_path / f"{i:02d}.npz",
            **{**drifting, "long": drifting["long"][:4], "short": drifting["short"][:4]},
        )
    out = tmp_path / "out"
    text = run(tmp_path, *FLAGS, "--out", out, "--save", "none")
    assert (
        text.count(" samples × ") == 2 * EXPLAINED_FILES
        and text.count("bins of 1/T") == EXPLAINED_FILES
    )
    assert f"and so on, for {EXPLAINED_FILES + 4} files in all" in text
    assert f"{EXPLAINED_FILES + 4} signal(s) with warnings" in text
    warned = [
        row["signal"] for row in rows(out / "signals.csv") if "a linear trend of" in row["warnings"]
    ]
    assert warned == (EXPLAINED_FILES + 4) * ["3"]


def test_lines_without_a_folder(many: Path) -> None:
    text = run(many, *FLAGS)
    assert text.count("(p = ") == N and "[24]  K = " in text


def test_what_is_done_is_not_done_again(tmp_path: Path, arrays: dict[str, Any]) -> None:
    n, many, out = 5, tmp_path / "many.npz", tmp_path / "out"
    arrays = arrays | {name: arrays[name][:n] for name in ("long", "short")}
    np.savez(many, **arrays)
    args = (many, *FLAGS, "--out", out, "--save", "all")
    first = answer(*args)
    assert first["computed"] == n and first["signals_per_second"] > 0
    again = answer(*args)
    assert again["computed"] == 0 and again["signals"] == first["signals"]
    assert answer(*args, "--force")["computed"] == n
    assert answer(*args, "--seed", 1)["computed"] == n  # other settings
    assert answer(*args)["computed"] == n  # and back
    own = Config.from_preset("debug").model.prior.k_max
    assert answer(*args, "--k-max", own)["computed"] == n  # a bound that windows must keep to
    assert answer(*args)["computed"] == n
    changed = {**arrays, "long": arrays["long"].copy()}
    changed["long"][3, 7] += 1
    np.savez(many, **changed)
    assert answer(*args)["computed"] == 1  # other input
    (out / "many-00004" / "posterior.nc").unlink()
    assert answer(*args)["computed"] == 1
    assert len(rows(out / "signals.csv")) == n


def test_an_interrupted_run_goes_on(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, infer = tmp_path / "out", Job.infer

    def stopped(self: Job, batch: list[Observation], *skip: object) -> Iterator[Posterior]:
        for i, post in enumerate(infer(self, batch, *skip)):
            if i == 10:
                raise KeyboardInterrupt
            yield post

    with monkeypatch.context() as patch:
        patch.setattr(Job, "infer", stopped)
        line = run(many, *FLAGS, "--out", out, "--quiet", code=130)
        assert f"stopped: 10 of {N} signals were done and kept in" in " ".join(line.split())
    assert len(rows(out / "signals.csv")) == 10
    text = run(many, *FLAGS, "--out", out)
    assert "15 signals in" in text and "and 10 of an earlier run" in text
    assert len(rows(out / "signals.csv")) == N


def test_a_foreign_store_is_refused(many: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "ledger.sqlite").write_bytes(b"something else " * 100)
    assert "expected the results of an earlier run" in run(many, *FLAGS, "--out", out, code=2)


def test_an_empty_shard_says_so(many: Path, tmp_path: Path) -> None:
    """Even with --quiet, as an array of jobs has it."""
    text = run(many, *FLAGS, "--out", tmp_path, "--shard", "1/2", "--quiet")
    assert "shard 1 of 2 is empty" in " ".join(text.split()) and "--chunk 12)" in text


def test_a_merger_makes_no_folder_of_a_wrong_name(tmp_path: Path) -> None:
    wrong = tmp_path / "shards"
    result = CliRunner().invoke(app, ["merge", str(wrong)])
    assert result.exit_code == 2 and "expected a folder of results" in result.output
    assert not wrong.exists()


def test_what_a_killed_run_leaves_is_removed(tmp_path: Path) -> None:
    names = [
        ".posterior.0123456789ab.nc",
        ".posterior.nc",
        "posterior.nc",
        ".summary.0123456789ab.nc",
    ]
    for name in names:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "posterior.nc")
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])


def test_folders_are_looked_at_first(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of work is not lost for want of a place to write to."""
    monkeypatch.setattr(Job, "infer", None)
    (tmp_path / "file").touch()
    for flags in (("--out", tmp_path / "file"), ("--out", tmp_path / "file" / "below")):
        line = " ".join(run(many, *FLAGS, *flags, code=2).split())
        assert "error: --out: expected a folder to write to, received" in line
    with pytest.raises(ValueError, match=r"--report: .* there is a file of that name"):
        check_folder("--report", tmp_path / "file")


def test_the_content_of_a_signal_is_all_of_it() -> None:
    x = np.arange(50.0)
    same = content_of(Observation.from_arrays(x.copy(), 0.1))
    assert content_of(Observation.from_arrays(x, 0.1)) == same
    others = [
        content_of(Observation.from_arrays(x, 0.2)),
        content_of(Observation.from_arrays(x, 0.1, t0_long=1.0)),
        content_of(Observation.from_arrays(x, 0.1, sigma_long=1.0)),
        content_of(Observation.from_arrays(np.r_[x[:-1], 7], 0.1)),
        content_of(Observation.from_arrays(x, 0.1, x, 0.1)),
    ]
    assert len({same, *others}) == 6


# --- bad signals -----------------------------------------------------------------------------------


def test_one_bad_signal_does_not_stop_the_rest(tmp_path: Path, arrays: dict[str, Any]) -> None:
    folder, out = tmp_path / "data", tmp_path / "out"
    folder.mkdir()
    bad = {**arrays, "long": arrays["long"].copy()}
    bad["long"][2] = np.nan
    np.savez(folder / "a.npz", **bad)
    (folder / "b.npz").write_bytes(b"no zip file")
    short = {**arrays, "long": arrays["long"][:3, :-1], "short": arrays["short"][:3]}
    np.savez(folder / "c.npz", **short)  # too short for the model
    text = " ".join(run(folder, *FLAGS, "--out", out, "--save", "none", code=1).split())
    assert "row 3 of 25: expected samples, received" in text and "5 of 29 signals" in text
    failed = rows(out / "failed.csv")
    assert [(Path(r["file"]).name, r["signal"]) for r in failed] == [
        ("a.npz", "2"),
        ("b.npz", ""),
        *(("c.npz", str(i)) for i in range(3)),
    ]
    assert "samples in the long stream" in failed[2]["error"]
    assert len(rows(out / "signals.csv")) == N - 1
    record = answer(folder, *FLAGS)
    assert len(record["signals"]) == N - 1 and len(record["failed"]) == 5
    np.savez(folder / "a.npz", **arrays)
    for name in "bc":
        (folder / f"{name}.npz").unlink()
    run(folder, *FLAGS, "--out", out, "--save", "none")
    assert not (out / "failed.csv").exists()


@pytest.mark.parametrize("step", ["sample", "save"])
def test_a_result_that_cannot_be_written_does_not_stop_the_rest(
    many: Path, tmp_path: Path, arrays: dict[str, Any], step: str
) -> None:
    """Neither a fault of one posterior, whose table is made with others, nor a full disk; later it can be done."""
    done, third = getattr(Posterior, step), arrays["long"][2]

    def third_fails(self: Posterior, *args: Any, **options: Any) -> Any:
        if np.array_equal(self.observation.long.values, third):
            raise ZeroDivisionError("float division") if step == "sample" else OSError("disk full")
        return done(self, *args, **options)

    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Posterior, step, third_fails)
        run(many, *FLAGS, "--out", out, code=1)
    (failed,) = rows(out / "failed.csv")
    assert failed["signal"] == "2" and ("float division" in failed["error"]) == (step == "sample")
    assert len(rows(out / "signals.csv")) == N - 1
    run(many, *FLAGS, "--out", out)
    assert len(rows(out / "signals.csv")) == N and not (out / "failed.csv").exists()


def test_dead_channels_and_overflow_are_listed(tmp_path: Path, arrays: dict[str, Any]) -> None:
    """A constant, zeros and numbers without a square are refused at once, each by its own name."""
    bad = {**arrays, "long": arrays["long"].astype(float)}
    bad["long"][1], bad["long"][4], bad["long"][7] = 3.5, 0.0, 1e300 * bad["long"][7]
    path = tmp_path / "x.npz"
    np.savez(path, **bad)
    found = {entry["signal"]: entry["error"] for entry in answer(path, *FLAGS)["failed"]}
    assert found.keys() == {1, 4, 7}
    assert "samples that all are 3.5" in found[1] and "all are 0;" in found[4]
    assert "whose squares are numbers" in found[7] and all("x.npz:" in e for e in found.values())


def test_all_bad_is_bad_input(tmp_path: Path, arrays: dict[str, Any]) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, **{**arrays, "long": np.full_like(arrays["long"], np.nan)})
    line = run(path, *FLAGS, code=2)
    assert line.startswith("error: ") and f"all {N} signals" in line and line.count("\n") == 1


# --- Ctrl-C ----------------------------------------------------------------------------------------


def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    import xarray as xr

    model = Config.from_preset("zoom").model
    path, out = tmp_path / "x.npz", tmp_path / "out"
    write_simulation(path, simulate(model.prior, 90, model.long, model.short, seed=2))
    words = [sys.executable, "-m", "slotflow", "infer", path, "--out", out, "--plot", "--quiet"]
    job = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (out / "x-00001").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 130 and "stopped:" in errors
    done = rows(out / "signals.csv")
    assert 1 <= len(done) < 90 and not list(out.rglob(".*"))
    for file in out.rglob("posterior.nc"):
        with xr.open_dataset(file, engine="h5netcdf") as data:
            assert data.sizes["draw"] == 1000
    for row in done:
        assert (out / f"x-{int(row['signal']):05d}" / "posterior.png").exists()
