"""Waveforms on the command line and in prior files: simulated, inferred, refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from slotflow.cli import app
from slotflow.signal.prior_file import read_prior
from slotflow.signal.waveforms import Classes, Damped, classes_text, suited, waveform_named


def run(*args: object, code: int = 0) -> str:
    """Runs a command, checks its exit code and gives what it printed, complaints included."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split()) if code else result.output


def test_simulated_and_inferred(tmp_path: Path) -> None:
    file, kinds = tmp_path / "mixed.npz", "tone,chirp(drift=-2e-3:2e-3)"
    series = tmp_path / "empty.npz"
    np.savez(series, long=np.zeros((1, 400)), dt_long=0.25)
    said = ("--classes", kinds, "--band", "0.6:0.9", "--k", 2, "--seed", 3)
    run("simulate", "--like", series, *said, "--amplitude", "2:3", "--sigma", 1, "--n", 1, "--out", file)  # fmt: skip
    with np.load(file) as made:
        waveform = waveform_named(str(made["waveform"]))
        theta = made["theta"][0]
    assert isinstance(waveform, Classes) and theta.shape == (2, waveform.size)
    said = ("--classes", kinds, "--band", "0.6:0.9", "--k-max", 3, "--max-seconds", 60)
    text = run("infer", file, *said, "--json")
    record = json.loads(text)["signals"][0]
    truth = [waveform.class_names[int(i)] for i in waveform.class_of(theta)]
    assert record["k_map"] == 2 and record["verdict"]["status"] == "exact"
    assert [row["class"] for row in record["components"]] == truth
    assert abs(sum(one["probability"] for one in record["kinds"]) - 1) < 1e-6
    assert "Kinds: " in run("infer", file, *said)


def test_settings_that_the_record_suggests() -> None:
    found = suited(classes_text("tone, chirp, ring=damped(time=2:50), damped"), 100.0)
    assert isinstance(found, Classes)
    assert found.class_names == ("tone", "chirp", "ring", "damped")
    drift = found.members["chirp"].ranges["drift"]
    assert (drift.low, drift.high) == pytest.approx((-30e-4, 30e-4))
    assert found.members["ring"] == Damped(time=(2, 50))
    assert found.members["damped"].ranges["rate"].high == pytest.approx(0.3)
    assert suited("harmonic", 100.0).amplitudes == 4 and suited("tone", 1.0).name == "tone"


def test_prior_files(tmp_path: Path) -> None:
    file = tmp_path / "prior.yaml"
    file.write_text("waveform: chirp(drift=-1e-4:1e-4)\n")
    assert read_prior(file) == {"waveform": "chirp(drift=-1e-4:1e-4)"}
    file.write_text("classes: {tone: tone, ring: damped}\n")
    assert read_prior(file) == {"waveform": "classes(tone=tone, ring=damped)"}
    file.write_text("classes: tone, damped\nwaveform: tone\n")
    with pytest.raises(ValueError, match="both say what components are"):
        read_prior(file)
    file.write_text("waveform: warble\n")
    with pytest.raises(ValueError, match=r"prior\.yaml: expected a waveform"):
        read_prior(file)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--waveform", "warble"), "--waveform: expected a waveform, one of"),
        (("--classes", "tone,tone"), "--classes: expected classes with different names"),
        (("--waveform", "damped(rate=-1:2)"), "--waveform: rate: expected bounds of at least 0"),
        (("--waveform", "chirp", "--classes", "tone"), "give one of them"),
        (("--classes", "tone,warble"), "--classes: expected a waveform, one of"),
        (("--waveform", "gains"), "--waveform: expected a waveform that a component can have"),
        (
            ("--waveform", "chirp(speed=1:2)"),
            "(drift, law) as in 'chirp(drift=-1e-4:1e-4)', received the setting speed",
        ),
        (
            ("--waveform", "chirp(drift=-9:9)", "--band", "1:2"),
            "expected components that stay between 0 and 5 Hz",
        ),
        (("--classes", "tone,damped(rate=0:99)", "--band", "1:2"), "how far they drift, decay"),
        (("--waveform", "damped(time=5)", "--band", "1:2"), "time: expected two finite bounds"),
    ],
)
def test_refusals(flags: tuple[str, ...], words: str, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    np.save(file, np.random.default_rng(0).standard_normal(200))
    assert words in run("infer", file, "--dt", 0.1, *flags, code=2)
