"""Decays of Bruker spectrometers: samples, times, settings, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from slotflow import Observation
from slotflow.cli import app
from slotflow.io import find_files

WIDTH, DELAY = 5000.0, 67.984
"""Spectral width in Hz, and by how many samples the digital filter delays the decay."""


def decay(n: int = 2048, delay: float = DELAY) -> np.ndarray:
    """A line at 612.5 Hz that begins at the pulse, as integers, (n,) complex."""
    t = (np.arange(n) - delay) / WIDTH
    line = 1e6 * np.exp((2j * np.pi * 612.5 - 7.0) * t + 0.4j) * (t >= 0)
    return np.rint(line.real) + 1j * np.rint(line.imag)


def experiment(folder: Path, samples: np.ndarray, **changes: object) -> Path:
    """Writes the folder of an experiment; a setting of None is left out."""
    settings: dict[str, object] = {
        "TD": 2 * samples.size,
        **{"SW_h": WIDTH, "O1": 2000.52, "BF1": 500.13, "NUC1": "<1H>"},
        **{"GRPDLY": DELAY, "DECIM": 4000, "DSPFVS": 20, "BYTORDA": 0, "DTYPA": 0, "AQ_mod": 3},
    } | changes
    lines = [f"##${key}= {value}" for key, value in settings.items() if value is not None]
    folder.mkdir(parents=True)
    (folder / "acqus").write_text("\n".join(["##TITLE= Parameter file", *lines, "##END=", ""]))
    pairs = np.stack([samples.real, samples.imag], axis=1)
    pairs.astype("<i4").tofile(folder / "fid")
    return folder


def test_samples_and_times_begin_after_the_filter(tmp_path: Path) -> None:
    """The first sample that is kept is that at its time after the pulse: the phase at t = 0 is the line's own."""
    pytest.importorskip("nmrglue")
    folder = experiment(tmp_path / "1", decay())
    for path in (folder, folder / "fid"):
        long = Observation.read(path).long
        assert np.array_equal(long.values, decay()[136:])
        assert long.dt == pytest.approx(1 / WIDTH) and long.t0 == pytest.approx(
            (136 - DELAY) / WIDTH
        )
        expected = 1e6 * np.exp((2j * np.pi * 612.5 - 7.0) * long.times + 0.4j)
        assert long.values == pytest.approx(expected, abs=2)  # rounded to integers
    assert any("136 samples" in note for note in long.notes)
    assert any("1H shift in ppm = (f + 2000.52 Hz) / 500.13 MHz" in note for note in long.notes)


def test_command_line_from_folder_to_lines(tmp_path: Path) -> None:
    """The folder in, the damped line out: frequency, rate and the phase at the pulse, with their errors."""
    pytest.importorskip("nmrglue")
    rng = np.random.default_rng(3)
    noise = np.rint(2e4 * rng.standard_normal((2, 2048)))
    folder = experiment(tmp_path / "1", decay() + noise[0] + 1j * noise[1])
    said = ["--waveform", "damped", "--band", "580:640", "--k-max", "2", "--max-seconds", "60"]
    out = ["--out", str(tmp_path / "result"), "--phase-at", "zero", "--json"]
    result = CliRunner().invoke(app, ["infer", str(folder), *said, *out])
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)["signals"][0]
    (line,) = record["components"]
    for name, true in {"frequency": 612.5, "rate": 7.0, "phase": 0.4}.items():
        assert abs(line[f"{name}_median"] - true) < 4 * line[f"{name}_sd"], name
    assert record["verdict"]["status"] == "exact"
    assert (tmp_path / "result" / "summary.csv").read_text().count("\n") == 2


def test_delay_of_older_filters_and_none(tmp_path: Path) -> None:
    """Without GRPDLY the delay follows from the filter's version; an analog filter has none."""
    pytest.importorskip("nmrglue")
    old = experiment(tmp_path / "old", decay(), GRPDLY=None, DSPFVS=12, DECIM=16)
    analog = experiment(tmp_path / "analog", decay(), GRPDLY=None, DSPFVS=0, DECIM=1)
    first = Observation.read(old).long
    assert 2048 - first.n == 144  # twice 71.625 samples, rounded up
    assert first.t0 == pytest.approx((144 - 71.625) / WIDTH)
    assert Observation.read(analog).long.n == 2048


def test_folders_stand_for_the_decay(tmp_path: Path) -> None:
    """An experiment's folder is one signal, whatever else lies in it; a folder without a decay is as before."""
    folder = experiment(tmp_path / "1", decay())
    (folder / "notes.txt").write_text("1 2\n3 4\n")
    assert find_files([folder]) == [folder / "fid"]
    (folder / "acqus").unlink()
    assert find_files([folder]) == [folder / "notes.txt"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"SW_h": 0.0}, "expected a spectral width above 0 Hz"),
        ({"SW_h": None}, "damaged or foreign"),
        ({"GRPDLY": 5000.0}, "expected more than 10000 samples"),
        ({"SW_h": "wide"}, "damaged or foreign"),
    ],
)
def test_damaged_settings_are_refused(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    """Bad settings end in one sentence with the file's name."""
    pytest.importorskip("nmrglue")
    folder = experiment(tmp_path / "1", decay(), **changes)
    with pytest.raises(ValueError, match=words):
        Observation.read(folder)


def test_without_the_package_its_name_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install is part of the complaint."""
    monkeypatch.setitem(sys.modules, "nmrglue.fileio.bruker", None)
    folder = experiment(tmp_path / "1", decay())
    with pytest.raises((ImportError, ValueError), match=r"slotflow\[nmr\]"):
        Observation.read(folder)
