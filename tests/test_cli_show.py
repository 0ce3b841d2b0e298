"""How `slotflow infer` shows an answer: units, the instant of phases, windows, the time budget and progress."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from slotflow.cli import app
from slotflow.cli.options import band_bounds
from slotflow.cli.printing import print_posterior
from slotflow.cli.watch import Watch
from slotflow.core.stages import Stage, announce, tell
from slotflow.many.budget import Budget

DAY = 86_400.0
FREQUENCY = 5.6
"""Of the tone, in cycles per day."""


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days of a star in steps of 0.02 d, which starts on day 100."""
    t = 100 + 0.02 * np.arange(500)
    x = np.cos(2 * np.pi * FREQUENCY * t) + 0.2 * np.random.default_rng(1).standard_normal(t.size)
    path = tmp_path_factory.mktemp("star") / "star.csv"
    pd.DataFrame({"time [d]": t, "flux": x}).to_csv(path, index=False)
    return path


def run(*words: object) -> str:
    """What `slotflow infer` prints."""
    result = CliRunner().invoke(app, ["infer", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_days_are_shown_in_cycles_per_day(star: Path, tmp_path: Path) -> None:
    text = run(star, "--band", "5:6c/d", "--out", tmp_path)
    first, where = text.splitlines()[2:4]
    assert first.startswith("1 component (probability ") and where.endswith(" c/d")
    assert abs(float(where.split()[1]) - FREQUENCY) < 0.01
    assert "frequency [c/d]" in text and "band   5–6 c/d" in text and "Hz" not in text
    assert "phase at mid-series, t = 104.99 d" in text
    table = pd.read_csv(tmp_path / "summary.csv")
    assert abs(table["frequency_median [c/d]"][0] - FREQUENCY) < 0.01


def test_a_stated_unit_and_instant(star: Path) -> None:
    flags = ("--band", "5:6c/d", "--frequency-unit", "uHz", "--phase-at", "100d")
    text = run(star, *flags)
    assert "frequency [uHz]" in text and "phase at t = 100 d" in text
    record = json.loads(run(star, *flags, "--json"))["signals"][0]
    assert record["frequency_unit"] == "uHz" and record["phase_at"] == "t = 100 d"
    (row,) = record["components"]
    assert abs(DAY * row["frequency_median"] - FREQUENCY) < 0.01  # JSON is in Hz
    off = np.angle(np.exp(1j * (row["phase_median"] - 2 * np.pi * FREQUENCY * 100)))
    assert abs(off) < 5 * row["phase_sd"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--frequency-unit", "furlong"), "--frequency-unit: expected a unit of frequency"),
        (("--phase-at", "noon"), "expected the instant that phases refer to"),
        (("--outliers", "all"), "--outliers: expected clip, received 'all'"),
    ],
)
def test_refusals(star: Path, flags: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["infer", str(star), "--band", "5:6c/d", *flags])
    assert result.exit_code == 2 and message in " ".join(result.output.split())


def test_a_band_with_a_unit() -> None:
    assert band_bounds("--band", "1:2") == (1, 2)
    assert band_bounds("--band", "1:2mHz") == (0.001, 0.002)
    for text in ("5:7c/d", "5:7/d", "5:7 1/d", "5:7cpd"):
        assert band_bounds("--band", text) == pytest.approx((5 / DAY, 7 / DAY))
    assert band_bounds("--band", "5:71/d") == pytest.approx((5 / DAY, 71 / DAY))
    with pytest.raises(ValueError, match=r"--band: expected LOW:HIGH"):
        band_bounds("--band", "5-7c/d")


def record_of_windows() -> dict[str, Any]:
    """The record of a band of two windows with one tone each."""
    row = {"component": 1, "existence": 1.0}
    for name, value in {"amplitude": 1.0, "phase": 1.0, "frequency": 3.0}.items():
        row |= {
            f"{name}_median": value,
            f"{name}_sd": 0.01,
            f"{name}_q05": value,
            f"{name}_q95": value,
        }
    windows = [
        {"core": [i, i + 1], "k_map": 1, "k_prob": 0.9996, "status": status, "reason": "so"}
        for i, status in ((2, "exact"), (3, "misfit"))
    ]
    return {
        "answer": "2 components",
        "verdict": {"status": "misfit", "reason": "so", "survives": "one stands", "inflation": [2.0],
            "unexamined": [1], "advice": ["Cut it."], "warnings": []},
        "windows": windows, "empty": [{"low": 4.0, "high": 9.5, "amplitude": 0.02}],
        "frequency_unit": "Hz", "phase_at": "t = 0", "method": "bands", "waveform": "tone",
        "k_map": 2, "k_probs": [0.0, 0.0004, 0.9996], "log_evidence": None, "ess": None, "proposed_by": "",
        "components": [row], "upper_limit": None, "noise_std": 0.5, "noise_std_error": 0.01, "noise": None,
        "unit": "", "constrained_fraction": 0.0,
    }  # fmt: skip


def test_windows_are_collapsed_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    print_posterior(record_of_windows())
    short = capsys.readouterr().out
    assert "2 windows: 1 exact, 1 misfit (--verbose lists them)" in short and "2–3 Hz" not in short
    assert "3.000 ± 0.020" in short and "inflated for the misfit" in short
    assert "not looked at" in short and "without finding a tone: 4–9.5 Hz above 0.02" in short
    assert "→ Cut it." in short and "0.9996" in short and "1.000 ◂" not in short
    print_posterior(record_of_windows(), verbose=True)
    long = capsys.readouterr().out
    assert (
        "2–3 Hz  K = 1 (p = 0.9996)  exact: so" in long and "K = 0" in long and "K = 0" not in short
    )


def test_a_budget_is_shared_by_the_signals_that_are_left() -> None:
    budget = Budget(100.0, time.perf_counter(), 4)
    assert budget.of_each() == pytest.approx(22.5, abs=0.1)
    budget.spend(3)
    assert budget.of_each() == pytest.approx(90, abs=0.1)
    late = Budget(10.0, time.perf_counter() - 60, 2)  # loading took longer than all of it
    assert late.of_each() == pytest.approx(1.0)


def test_a_budget_reaches_the_exact_step(star: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def answers(*_: object, max_seconds: float, **__: object) -> None:
        seen.append(max_seconds)
        raise ValueError("seen")

    monkeypatch.setattr("slotflow.many.job.posteriors_in_turn", answers)
    result = CliRunner().invoke(app, ["infer", str(star), "--max-seconds", "1000"])
    assert result.exit_code == 2 and len(seen) == 1 and 800 < seen[0] <= 900


class Terminal(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_stages_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Watch() as watch:
        assert watch._bar is not None
        tell("windows", 3, 12)
        (task,) = watch._bar.tasks
        assert task.description == "windows 3/12" and task.completed == 3 and task.total == 12
        announce("400 bins: analysed in 12 windows")
    assert "analysed in 12 windows" in screen.getvalue() and watch._bar is None
    tell("search")  # nobody listens any more


def test_elsewhere_the_first_announcement_is_all(capsys: pytest.CaptureFixture[str]) -> None:
    with Watch():
        for i in range(12):
            tell("windows", i, 12)
        announce("analysed in 12 windows")
        announce("and again")
    assert capsys.readouterr().err == "analysed in 12 windows\n"
    with Watch(quiet=True) as watch:
        watch(Stage("", note="hush"))
    assert capsys.readouterr().err == ""


def test_a_log_hears_of_a_long_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("slotflow.cli.watch.SILENCE", 0.05)
    printed, deadline = "", time.monotonic() + 60
    with Watch():
        tell("windows", 3, 12)
        while "windows 3/12, since " not in printed and time.monotonic() < deadline:
            time.sleep(0.01)
            printed += capsys.readouterr().err
    assert "windows 3/12, since 0 s" in printed
    with Watch(quiet=True):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_of_many_components_and_counts_the_strongest_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = record_of_windows()
    row, count = record["components"][0], 40
    record["components"] = [
        row
        | {"component": i + 1, "amplitude_median": float(i), "frequency_median": 3.0 + i}
        | (
            {"modes": [{"probability": 0.1, "median": 3.0 + i + j, "sd": 0.01} for j in range(6)]}
            if i < 9
            else {}
        )
        for i in range(count)
    ]
    chances = np.exp(-0.5 * ((np.arange(141) - 110) / 8) ** 2)
    record |= {"k_map": 110, "k_probs": (chances / chances.sum()).tolist()}
    record["verdict"] |= {"inflation": [], "unexamined": []}
    print_posterior(record)
    short = capsys.readouterr().out
    assert "and 16 weaker ones (--verbose lists them)" in short
    assert "42.000 ± 0.010" in short and " 15.000 ± 0.010" not in short
    assert short.count("is at") == 3 and " or elsewhere" in short
    assert "6 more may be at several places" in short
    assert "K = 110" in short and "K = 85 " not in short
    print_posterior(record, verbose=True)
    long = capsys.readouterr().out
    assert "weaker ones" not in long and long.count("is at") == 9 and "K = 85 " in long
