"""Prior files, --f-lo, wide bands on the command line, `doctor`, --quiet, completion and help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import slotflow.signal.prior_file
from slotflow import __version__
from slotflow.cli import COMMANDS, app, doctor, load_command
from slotflow.network.cards import embedded_card
from slotflow.signal.prior_file import KEYS, read_prior

N, DT = 4000, 0.1
TONES = [(1.0, 1.0, 0.31), (0.8, 2.0, 0.9), (1.2, 3.0, 1.4)]


def run(*args: object, code: int = 0) -> str:
    """Runs a command, checks its exit code and gives what it printed, complaints included."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def answer(*args: object) -> dict[str, Any]:
    """The JSON document of `slotflow infer` by the network alone."""
    record: dict[str, Any] = json.loads(run("infer", *args, "--json", "--no-refine"))
    return record


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tones over 440 bins of 1/T = 2.5 mHz."""
    t = DT * np.arange(N)
    x = sum(a * np.cos(2 * np.pi * f * t + phi) for a, phi, f in TONES)
    path = tmp_path_factory.mktemp("data") / "x.npy"
    np.save(path, x + 0.5 * np.random.default_rng(0).standard_normal(N))
    return path


# --- prior files -----------------------------------------------------------------------------------


def test_the_documented_example(tmp_path: Path) -> None:
    """The example of the module's docstring is read as it stands, and names every entry."""
    text = slotflow.signal.prior_file.__doc__ or ""
    lines = [line[4:] for line in text.split("::\n", 1)[1].splitlines() if line.startswith("    ")]
    both = [line for line in lines if not line.startswith(("k_prior", "classes"))]
    other = [line for line in lines if not line.startswith(("k_min", "k_max", "waveform"))]
    found: dict[str, Any] = {}
    for i, part in enumerate((both, other)):
        path = tmp_path / f"{i}.yaml"
        path.write_text("\n".join(part), encoding="utf-8")
        found |= read_prior(path)
    assert set(found) == set(KEYS) - {"classes"}  # which is another way to state the waveform
    assert found["amplitude"] == (0.001, 0.01) and found["k_prior"] == {0: 0.5, 1: 0.3, 2: 0.2}


def test_flags_override_the_file(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "prior.yaml"
    path.write_text("band: [0.8, 1.1]\namplitude: [1e-1, 2]\nk_prior: [0, 1, 1]\nsigma: [0, 3]\n")
    flags = (file, "--dt", DT, "--prior", path)
    stated = answer(*flags)
    prior = stated["assumed"][0]["prior"]
    assert prior["frequency"] == [0.8, 1.1] and prior["amplitude"] == [0.1, 2]
    assert prior["sigma"] == [0, 3] and prior["k_max"] == 2
    assert stated["signals"][0]["k_map"] == 1 and stated["signals"][0]["k_probs"][0] == 0
    other = answer(*flags, "--band", "0.2:0.5", "--k-max", 4)
    prior = other["assumed"][0]["prior"]
    assert prior["frequency"] == [0.2, 0.5] and (prior["k_min"], prior["k_max"]) == (0, 4)
    assert prior["amplitude"] == [0.1, 2]
    moved = answer(*flags, "--f-lo", "1.3")
    assert moved["assumed"][0]["prior"]["frequency"] == pytest.approx([1.3, 1.3 + 150 / (N * DT)])
    record = json.loads(run("classical", file, "--dt", DT, "--prior", path, "--json"))
    assert record["method"] == "classical" and record["signals"][0]["k_map"] == 1
    assert record["signals"][0]["k_probs"][0] == 0  # as the file says


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amplitudes: [1, 2]", "expected entries among band, amplitude, amplitude_law"),
        ("amplitude: 3", "amplitude: expected two bounds"),
        ("amplitude: [a, 2]", "amplitude: expected a number, received 'a'"),
        ("min_separation: true", "min_separation: expected a number"),
        ("sigma: [0, .inf]", "sigma: expected a number"),
        ("k_max: 2.5", "k_max: expected a whole number"),
        ("amplitude_law: normal", "amplitude_law: expected one of uniform, loguniform"),
        ("k_prior: 3", "k_prior: expected a list"),
        ("k_prior: {a: 1}", "k_prior: expected a list"),
        ("k_prior: [1, 1]\nk_max: 2", "give one or the other"),
        ("[1, 2]", "expected entries such as"),
        ("a: [", "expected a YAML file of text"),
        ("x: !!python/object/apply:os.getcwd []", "expected a YAML file of text"),
        (b"\xff\xfe\x00", "expected a YAML file of text"),
        ("", "expected entries such as"),
    ],
)
def test_bad_prior_files(file: Path, tmp_path: Path, text: str | bytes, message: str) -> None:
    path = tmp_path / "prior.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    line = " ".join(run("infer", file, "--dt", DT, "--prior", path, code=2).split())
    assert line.startswith("error:") and message in line and "prior.yaml" in line.replace(" ", "")


def test_an_absent_prior_file(file: Path) -> None:
    assert "no such prior file" in run("infer", file, "--dt", DT, "--prior", "x.yaml", code=2)


# --- wide bands ------------------------------------------------------------------------------------


def test_a_wide_band(file: Path, tmp_path: Path) -> None:
    flags = (file, "--dt", DT, "--band", "0.3:1.45", "--out", tmp_path / "out", "--samples", 200)
    record = json.loads(run("infer", *flags, "--json"))
    (signal,) = record["signals"]
    assert signal["k_map"] == 3 and signal["verdict"]["status"] == "exact", signal["verdict"]
    for row, (_, _, f) in zip(signal["components"], TONES, strict=True):
        assert abs(row["frequency_median"] - f) < 5 * row["frequency_sd"]
    assert (tmp_path / "out" / "posterior.nc").exists()
    shown = run("infer", *flags, "--no-refine")
    assert "460 bins of 1/T" in shown and "K = 0..10 in each window, A in" in shown


# --- the program as a whole --------------------------------------------------------------------------


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads(run("doctor", "--json"))
    assert record["problems"] == [] and record["test"]["found"] == 4
    assert record["weights"]["zoom"]["hash"] == embedded_card("zoom").hash
    assert record["packages"]["torch"] and record["test"]["infer_seconds"] > 0
    assert "all is well" in run("doctor") and run("doctor", "--quiet") == ""
    monkeypatch.setattr(doctor, "NEEDED", ("torch", "no-such-package"))
    assert "problem: no-such-package is not installed" in run("doctor", "--quiet", code=1)


@pytest.mark.parametrize("command", ["classical", "rjmcmc", "smc"])
def test_baselines_look_at_folders_first(command: str, tmp_path: Path) -> None:
    """Before the file is opened, let alone sampled for minutes."""
    (tmp_path / "file").touch()
    for flags in (("--out", tmp_path / "file"), ("--report", tmp_path / "file" / "a.html")):
        line = " ".join(run(command, "no.npy", *flags, code=2).split())
        assert f"error: {flags[0]}: expected a folder to write to, received" in line


def test_quiet(tmp_path: Path, file: Path) -> None:
    assert run("simulate", "--n", 2, "--out", tmp_path / "a.npz", "--quiet") == ""
    assert run("infer", file, "--dt", DT, "--f-lo", 0.8, "--no-refine", "--quiet") == ""
    assert run("classical", file, "--dt", DT, "--band", "0.8:1", "--quiet") == ""
    assert run("demo", "--model", "debug", "--out", tmp_path / "a.png", "-q") == ""


def test_every_command_shows_an_example_and_completion_is_offered() -> None:
    for name, line in COMMANDS.items():
        command = load_command(name)
        assert f"$ slotflow {name}" in command.help, name
        assert command.help.split()[:2] == line.split()[:2], name  # both tell of the same
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--json", "--quiet"} <= options, name
    top = run("--help")
    assert "--install-completion" in top and "--show-completion" in top


COMPLETION = {"_SLOTFLOW_COMPLETE": "complete_bash", "COMP_WORDS": "slotflow rj", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("arguments", "environment", "shown"),
    [
        (["--version"], {}, f"slotflow {__version__}"),
        (["--help"], {}, "reversible-jump MCMC"),
        (["infer", "--help"], {}, "slotflow infer voltage.csv"),
        (["smc", "--help"], {}, "slotflow smc data.npz"),
        ([], COMPLETION, "rjmcmc"),
    ],
)
def test_what_needs_no_network_does_not_wait_for_it(
    arguments: list[str], environment: dict[str, str], shown: str
) -> None:
    code = (
        "import sys; from slotflow.__main__ import main\n"
        f"sys.argv = ['slotflow', *{arguments}]\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules, file=sys.stderr)"
    )
    there = {**os.environ, **environment}
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, capture_output=True, env=there, text=True, check=True)
    assert shown in found.stdout and found.stderr.split() == ["False"]


def test_ctrl_c_while_modules_are_imported_is_one_line(tmp_path: Path) -> None:
    """The control is in the line itself: without the entry point there would be a traceback."""
    (tmp_path / "torch.py").write_text("raise KeyboardInterrupt")
    (tmp_path / "x.csv").write_text("time,x\n" + "".join(f"{i},{i % 7}\n" for i in range(99)))
    there = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-m", "slotflow", "infer", str(tmp_path / "x.csv")]
    found = subprocess.run(words, capture_output=True, env=there, text=True, check=False)
    assert found.returncode == 130
    assert found.stderr == "stopped: interrupted; no file is left half-written\n"


def test_public_names_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, slotflow; assert 'torch' not in sys.modules and 'SlotFlow' in dir(slotflow); "
        "from slotflow.signal.simulation import Simulation; "
        "assert callable(slotflow.simulate) and slotflow.Simulation is Simulation; "
        "[getattr(slotflow, name) for name in slotflow.__all__]; "
        "assert 'torch._dynamo' not in sys.modules; slotflow.absent"
    )
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "AttributeError: module 'slotflow' has no attribute 'absent'" in found.stderr


def test_terminals_without_greek_letters() -> None:
    """What cannot be shown is written out; an interval without its dash would be another number."""
    main = "import sys; from slotflow.cli import main; sys.argv = ['slotflow', 'demo', '--help']; "
    code = (
        main
        + "import slotflow.cli as c; c.app = lambda: print('σ in 0–1.5 µV, 3 × 2 ± 1, █▌ ✓ ✗ 文'); main()"
    )
    encoding = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=encoding, check=True
    )
    assert shown.stdout.strip() == b"sigma in 0-1.5 uV, 3 x 2 +- 1, #| + x ?"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CPU: can't allocate memory: 1 TB")])
def test_a_lack_of_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Other faults of the program keep their traceback."""

    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(doctor, "_test", fail)
    assert run("doctor", code=1).startswith("failed: there is not enough memory")
    monkeypatch.setattr("slotflow.cli._lacks_memory", lambda _: False)
    with pytest.raises(type(error)):
        CliRunner().invoke(app, ["doctor"], catch_exceptions=False)


def test_matrices_of_numpy_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line says so before NumPy is imported; a user who says otherwise is heard."""
    import slotflow.__main__ as entry
    import slotflow.cli

    name, seen = "OPENBLAS_NUM_THREADS", []
    monkeypatch.setenv(name, "")  # whatever happens below is undone
    monkeypatch.setattr(slotflow.cli, "main", lambda: seen.append(os.environ[name]))
    monkeypatch.setattr(sys, "argv", ["slotflow", "doctor"])
    monkeypatch.delenv(name)
    entry.main()
    monkeypatch.setenv(name, "4")
    entry.main()
    assert seen == ["1", "4"]
