"""A known noise level on the command line: flags, prior file, what is printed and remembered, refusals."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from slotflow import Posterior
from slotflow.cli import app

SIGMA, SHORT = 0.7, 0.2
PRIOR = ("--band", "2.0:3.5", "--amplitude", "0.1:1.5", "--k-max", 2)


def run(*args: object, code: int = 0) -> str:
    """Runs a command, checks its exit code and gives what it printed, on one line."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


def answer(command: str, *args: object) -> dict[str, Any]:
    """The JSON document of a command."""
    time = ("--max-seconds", 1000) if command == "infer" else ()
    record: dict[str, Any] = json.loads(run(command, *args, *PRIOR, *time, "--json"))
    return record


def series(seed: int) -> dict[str, Any]:
    """One tone on two streams, (400,) and (300,), of noise levels SIGMA and SHORT."""
    rng, found = np.random.default_rng(seed), {}
    for role, n, dt, level in (("long", 400, 0.1, SIGMA), ("short", 300, 0.02, SHORT)):
        t = dt * np.arange(n)
        x = np.cos(2 * np.pi * 2.7 * t + 1) + level * rng.standard_normal(n)
        found |= {role: x, f"dt_{role}": dt}
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "both.npz"
    np.savez(path, **series(1))
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "alone.npy"
    np.save(path, series(1)["long"])
    return path


def test_known_levels(both: Path, tmp_path: Path) -> None:
    flags = (both, "--sigma", SIGMA, "--sigma-short", SHORT)
    record = answer("infer", *flags, "--out", tmp_path)
    (signal,), (assumed,) = record["signals"], record["assumed"]
    assert signal["verdict"]["status"] == "exact" and signal["k_map"] == 1
    assert (signal["noise_std"], signal["noise_std_error"]) == (SIGMA, 0.0)
    assert assumed["prior"]["sigma"] == [SIGMA, SIGMA]
    assert [stream["sigma"] for stream in assumed["streams"]] == [SIGMA, SHORT]
    back = Posterior.load(tmp_path / "posterior.nc")
    assert back.prior is not None and back.prior.known_sigma == SIGMA
    assert [s.sigma for s in back.observation.channels] == [SIGMA, SHORT]
    text = run("infer", *flags, *PRIOR, "--no-refine")
    assert "σ = 0.7 (known, 0.2 in the short stream)" in text


def test_one_level_for_both_streams(both: Path) -> None:
    record = answer("infer", both, "--sigma", "0.7:0.7", "--no-refine")
    assert [stream["sigma"] for stream in record["assumed"][0]["streams"]] == [SIGMA, SIGMA]
    assert "σ = 0.7 (known)" in run("infer", both, "--sigma", "0.7", *PRIOR, "--no-refine")
    wrong = answer("infer", both, "--sigma", SIGMA)["signals"][0]["verdict"]
    assert wrong["status"] == "misfit"
    assert "the scatter of the short stream's residual is 0." in wrong["reason"]


def test_bounds_are_not_known(both: Path) -> None:
    record = answer("infer", both, "--sigma", "0.1:2", "--no-refine")["assumed"][0]
    assert record["prior"]["sigma"] == [0.1, 2.0]
    assert [stream["sigma"] for stream in record["streams"]] == [None, None]


def test_a_prior_file(both: Path, tmp_path: Path) -> None:
    path = tmp_path / "prior.yaml"
    path.write_text("sigma: 7e-1\nsigma_short: 0.2\n")
    flags = (both, "--prior", path, "--no-refine")
    record = answer("infer", *flags)["assumed"][0]
    assert record["prior"]["sigma"] == [SIGMA, SIGMA]
    assert [stream["sigma"] for stream in record["streams"]] == [SIGMA, SHORT]
    record = answer("infer", *flags, "--sigma", 0.6, "--sigma-short", 0.3)["assumed"][0]
    assert [stream["sigma"] for stream in record["streams"]] == [0.6, 0.3]
    assert "expected a known noise level" in run("infer", *flags, "--sigma", "0.1:2", code=2)
    path.write_text("sigma: yes\n")
    assert "sigma: expected a number, received True" in run("infer", *flags, code=2)


def test_baselines(both: Path) -> None:
    flags = (both, "--sigma", SIGMA, "--sigma-short", SHORT)
    exact = answer("infer", *flags)["signals"][0]
    small = ("--particles", 64, "--islands", 8, "--sweeps", 1)
    for command, options in (("classical", ()), ("smc", small)):
        (record,) = answer(command, *flags, *options)["signals"]
        assert record["assumed"]["prior"]["sigma"] == [SIGMA, SIGMA]
        assert (record["noise_std"], record["noise_std_error"]) == (SIGMA, 0.0)
        row, same = record["components"][0], exact["components"][0]
        error = abs(row["amplitude_median"] - same["amplitude_median"])
        assert error < 3 * same["amplitude_sd"]  # 64 particles; the exact comparison is elsewhere


@pytest.mark.skipif(find_spec("eryn") is None, reason="Eryn is not installed (extra baselines)")
def test_reversible_jump(both: Path) -> None:
    few = ("--walkers", 16, "--temperatures", 1, "--effective", 1, "--max-seconds", 0.5)
    (record,) = answer("rjmcmc", both, "--sigma", SIGMA, "--sigma-short", SHORT, *few)["signals"]
    assert record["sampling"]["steps"] > 0 and record["run"][0].split()[1:3] == [
        "effective",
        "draws",
    ]
    assert (record["noise_std"], record["noise_std_error"]) == (SIGMA, 0.0)


def test_levels_belong_to_the_identity(tmp_path: Path) -> None:
    """A run with another level starts anew; the same level goes on from what is there."""
    path, out = tmp_path / "many.npz", tmp_path / "out"
    first, second = series(1), series(2)
    rows = {role: np.stack([first[role], second[role]]) for role in ("long", "short")}
    np.savez(path, **rows, dt_long=0.1, dt_short=0.02)
    flags = (path, "--no-refine", "--out", out, "--samples", 20, "--sigma", SIGMA)
    assert answer("infer", *flags, "--sigma-short", SHORT)["computed"] == 2
    assert answer("infer", *flags, "--sigma-short", SHORT)["computed"] == 0
    assert answer("infer", *flags, "--sigma-short", 0.3)["computed"] == 2


@pytest.mark.parametrize("command", ["infer", "classical", "smc", "rjmcmc"])
def test_what_is_refused(command: str, both: Path, alone: Path) -> None:
    one = (command, alone, "--dt", 0.1)
    cases = {
        (
            command,
            both,
            "--sigma",
            "0",
        ): "--sigma: expected a noise level above 0 such as 0.7 or bounds",
        (command, both, "--sigma", "loud"): "received 'loud'",
        (command, both, "--sigma", "nan"): "--sigma: expected a noise level above 0",
        (command, both, "--sigma", "2:1"): "Prior expects sigma as two finite bounds",
        (
            command,
            both,
            "--sigma",
            "0:0",
        ): "error: --sigma (sigma in a prior file): expected a noise level above 0",
        (command, both, "--sigma", "0.7", "--sigma-short", "-1"): "expected a noise level above 0",
        (command, both, "--sigma-short", "0.2"): "such as --sigma 0.7, received none",
        (command, both, "--sigma", "0.1:2", "--sigma-short", "0.2"): "received the bounds 0.1:2",
        (*one, "--sigma", "0.7", "--sigma-short", "0.2"): "expected a short stream for the stated",
    }
    for args, message in cases.items():
        text = run(*args, code=2)
        assert text.startswith("error:") and message in text, text


def test_a_level_far_below_the_data(alone: Path) -> None:
    """Wrong units: the verdict of infer says what the data hold."""
    record = answer("infer", alone, "--dt", 0.1, "--sigma", "1e-9")["signals"][0]
    assert record["verdict"]["status"] == "misfit"
    assert "above the stated 1e-09" in record["verdict"]["reason"]
    assert "at least 1e-05 times" in run("smc", alone, "--dt", 0.1, "--sigma", "1e-9", code=2)
