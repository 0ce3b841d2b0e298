"""Evaluation: the suite and its command, on posteriors known to be right or wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from oracle_helpers import Oracle
from scipy import stats
from statistics_helpers import assert_within
from training_helpers import python
from typer.testing import CliRunner

from slotflow import SlotFlow
from slotflow.baselines import classical
from slotflow.cli import app
from slotflow.studies.report import Report
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.exact.suite import GROUPS
from slotflow.studies.suites.model import PARTS, check_analyser, quick_report, run_suite
from slotflow.studies.suites.model_rows import TARGETS
from slotflow.studies.suites.rivals import classical_exact
from slotflow.studies.suites.sets import SETS, batches
from slotflow.studies.suites.sizes import EXACT_GROUPS, Sizes
from slotflow.studies.suites.timing import infer_throughput, throughput

CPU = torch.device("cpu")


def missed(report: Report) -> set[str]:
    return {row.measure for row in report.missed}


# --- rows ----------------------------------------------------------------------------------------


def test_targets() -> None:
    high, low, both = Target(high=2), Target(low=0.93), Target(low=0.95, high=1.1)
    assert [str(t) for t in (high, low, both)] == ["<= 2", ">= 0.93", "0.95–1.10"]
    assert high.met(2) and not high.met(2.01) and high.met(2.01, slack=0.02)
    assert low.met(0.93) and not low.met(0.92)
    assert both.met(1.0) and not both.met(0.94) and not both.met(1.11)
    assert str(Target(-0.015, 0.015)) == "±0.015"
    ahead = Target(low=0.0, strict=True)
    assert str(ahead) == "> 0" and ahead.met(1e-9) and not ahead.met(0.0)
    assert not any(t.met(math.nan, slack=1.0) for t in (high, low, both, ahead))
    assert str(Target(high=0.1, words="at most a tenth")) == "at most a tenth"
    assert Row("x", 1.0).met is None
    few = [Row.judged("x", value, high, undecided=True).met for value in (1.0, 3.0)]
    assert few == [True, None]  # a miss says nothing yet, a hit does
    report = Report([Row.judged("x", math.nan, high), Row.judged("y", 1.0, high, form=".1f")])
    assert [row.measure for row in report.missed] == ["x"]
    assert report["y"].text == "1.0"
    assert report.to_dict()["rows"][0]["value"] is None
    with pytest.raises(KeyError, match="'z'"):
        report["z"]


# --- the suite -----------------------------------------------------------------------------------

N = 4000


@pytest.fixture(scope="module")
def perfect(base_seed: int) -> Report:
    """A calibrated and efficient posterior that is right about K."""
    return run_suite(Oracle(), Sizes(N, 100), only=["nominal", "stress"], seed=base_seed)


@pytest.fixture(scope="module")
def narrow(base_seed: int) -> Report:
    """The same with draws that are 20 % too narrow."""
    return run_suite(Oracle(width=0.8), Sizes(N, 100), only=["nominal", "stress"], seed=base_seed)


def test_a_perfect_posterior_passes(perfect: Report) -> None:
    assert not perfect.missed
    for measure in ("nominal: exact-K errors in 10,000", "stress: exact-K errors in 10,000"):
        assert perfect[measure].value == 0
    assert perfect["stress: recall within 5 mHz"].value == 1
    for entry in perfect.by_k:
        for symbol in "Aφf":
            assert entry[f"sd / bound, {symbol}"] == pytest.approx(1.0, abs=0.03)
            se = entry[f"standard error, {symbol}"]
            assert_within(entry[f"error / bound, {symbol}"], 1.0, se)
    assert [entry["k"] for entry in perfect.by_k] == list(range(1, 11))


def test_its_coverage_is_the_level(perfect: Report) -> None:
    for name in ("nominal", "stress"):
        details = perfect.details[name]
        for symbol in "Aφf":
            assert_within(
                details["coverage"][symbol],
                details["coverage"]["alpha"],
                details["coverage_standard_error"][symbol],
            )


def test_every_measure_has_its_row() -> None:
    """Each target is used by some row, but for those whose part is left out here."""
    parts = [part for part in PARTS if part != "speed"]
    report = run_suite(Oracle(), Sizes(50, 20, 0), only=parts, weights_bytes=3_000_000)
    left_out = {"frontier: exact-K ahead of classical", "GPU signals per second"}
    used = {id(row.target) for row in report.rows if row.target is not None}
    assert {m for m, target in TARGETS.items() if id(target) not in used} == left_out
    assert report["weights, MB"].value == 3
    noise = report["noise: share with k_map > 0"]
    assert noise.value == 0 and noise.met


def test_tones_in_noise_are_counted(base_seed: int) -> None:
    report = run_suite(Oracle(doubt=0.2), Sizes(500, 5), only=["noise"], seed=base_seed)
    row = report["noise: share with k_map > 0"]
    assert row.value == pytest.approx(0.1, abs=5 * 0.3 / math.sqrt(500)) and row.met is False


def test_a_narrow_posterior_fails(narrow: Report) -> None:
    expected = {f"sd / bound, {s}" for s in "Aφf"}
    expected |= {f"coverage − α, {name}, {s}" for name in ("nominal", "stress") for s in "Aφf"}
    assert missed(narrow) == expected  # its medians and its counts are right
    row = narrow["coverage − α, nominal, f"]
    alpha = float(row.note.split()[3].rstrip(";"))
    exact = 2 * stats.norm.cdf(0.8 * stats.norm.ppf((1 + alpha) / 2)) - 1 - alpha
    assert row.value == pytest.approx(exact, abs=0.015)
    assert narrow["sd / bound, f"].value == pytest.approx(0.8, abs=0.02)


def test_few_signals_leave_a_miss_open(base_seed: int) -> None:
    """30 signals cannot tell a coverage to ±1.5 %, but they can tell that a posterior is far off.

    Shares of 30 are multiples of 1/30, so that the coverage at α = 0.15 is wrong by 1/60 at least and every row misses
    its target. For a calibrated posterior a miss is called one with probability 0.05, otherwise it is open.
    """

    def verdicts(width: float) -> list[bool | None]:
        reports = (
            run_suite(Oracle(width=width), Sizes(30, 50), only=["k1"], seed=10 * base_seed + i)
            for i in range(10)
        )
        rows = [r[f"coverage − α, K = 1, {symbol}"] for r in reports for symbol in "Aφf"]
        assert not any(row.target is None or row.target.met(row.value) for row in rows)
        return [row.met for row in rows]

    calibrated = verdicts(1.0)
    assert calibrated.count(True) == 0
    assert calibrated.count(False) <= stats.binom.isf(1e-5, len(calibrated), 0.05)
    assert set(verdicts(0.1)) == {False}  # the control


def test_a_wrong_estimate_fails(base_seed: int) -> None:
    """Errors 30 % above the bound, and draws as wide as the errors: calibrated but not efficient."""
    report = run_suite(
        Oracle(width=1.3, error=1.3), Sizes(1500, 100), only=["nominal"], seed=base_seed
    )
    assert {f"{what} / bound, {s}" for what in ("sd", "error") for s in "Aφf"} <= missed(report)
    row = report["error / bound, f"]
    assert row.slack in [3 * entry["standard error, f"] for entry in report.by_k]
    assert row.value > 1.1 + row.slack


def test_ece_tells_honest_from_boastful_doubt(base_seed: int) -> None:
    sizes = Sizes(N, 10, n_classical=0)
    kwargs: dict[str, Any] = {"sizes": sizes, "only": ["frontier"], "seed": base_seed}
    honest = run_suite(Oracle(doubt=0.4), **kwargs)
    boastful = run_suite(Oracle(doubt=0.4, boast=4.0), **kwargs)
    assert honest["frontier: exact-K"].value == pytest.approx(0.8, abs=5 * 0.4 / math.sqrt(N))
    assert honest["frontier: exact-K"].met is False
    assert boastful["frontier: ECE"].met is False
    assert boastful["frontier: ECE"].value == pytest.approx(0.15, abs=0.04)
    details = honest.details["frontier"]
    assert details["ece"] < 2 * details["ece_of_perfect"]["q95"]
    assert sum(map(sum, details["confusion"])) == N


def test_wrong_counts_cost_recall_and_false_positives(base_seed: int) -> None:
    report = run_suite(Oracle(doubt=0.1), Sizes(2000, 20), only=["stress"], seed=base_seed)
    row = report["stress: false positives per mixture within 5 mHz"]
    assert row.met is False
    # A count that is one too high, which 5 % of K = 5..9 are, adds a tone somewhere in the band.
    assert row.value == pytest.approx(0.05 * 5 / 6, abs=0.03)
    assert report["stress: exact-K errors in 10,000"].value == pytest.approx(500, abs=250)
    assert report["stress: recall within 1 mHz"].met is False


def test_widths_beside_the_papers(base_seed: int) -> None:
    report = run_suite(Oracle(), Sizes(1500, 100), only=["k1", "k10"], seed=base_seed)
    # Means of the joint bound over nominal signals, in %, rad and mHz (tests/test_bounds.py holds them to errors).
    for k, widths in {1: (1.3, 0.016, 0.023), 10: (1.8, 0.026, 0.029)}.items():
        for unit, value in zip(("relative A, %", "φ, rad", "f, mHz"), widths, strict=True):
            row = report[f"mean sd, K = {k}, {unit}"]
            assert row.met is None and "the paper's" in row.note
            assert row.value == pytest.approx(value, rel=0.08)
    assert [entry["k"] for entry in report.by_k] == [1, 10]
    assert report.by_k[1]["tones"] > 10 * 1400


def test_rival_sees_the_same_signals() -> None:
    """Batches of the suite, first signals, same prior: as when the estimator is called by hand."""
    signals = SETS["frontier"]
    sizes = Sizes(9, 5, n_classical=6, batch=4)
    exact = classical_exact(signals, sizes, seed=3, device=CPU)
    by_hand = []
    for sim in batches(signals, 9, 4, 3, CPU):
        found = classical([sim.observation(i) for i in range(len(sim.k))], signals.prior)
        by_hand += (found.k_map == sim.k.numpy()).tolist()
    assert exact.tolist() == by_hand[:6]
    report = run_suite(Oracle(), sizes, only=["frontier"], seed=3)
    row = report["frontier: exact-K ahead of classical"]
    assert row.value == pytest.approx(1 - np.mean(by_hand[:6]))
    assert row.met == (row.value > 0)
    assert "6 signals" in row.note


def test_throughput_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    per_second, batch = throughput(Oracle(), CPU, batch=5, repeats=2)
    assert per_second > 0 and batch == 5
    report = run_suite(Oracle(), Sizes(3, 5), only=["speed", "k1"], progress=True)
    row = report["CPU signals per second"]
    assert row.met is None and "100 draws" in row.note and row.value > 0
    assert capsys.readouterr().out == ""  # and no bar where there is no terminal


def test_speed_as_a_user_sees_it(zoom: SlotFlow) -> None:
    """Draws of each answer take time too, and the row says both."""
    answered, drawn, n = infer_throughput(zoom, n=4)
    assert answered > drawn > 0 and n == 4
    assert [row.measure for row in run_suite(Oracle(), Sizes(3, 5), only=["speed"]).rows] == [
        "CPU signals per second"  # an oracle cannot be asked as a user would
    ]


def test_quick_report(base_seed: int) -> None:
    values = quick_report(Oracle(doubt=0.2), n=400, draws=50, seed=base_seed)
    names = {f"{s}_{what}" for s in ("nominal", "stress", "frontier") for what in ("exact", "ece")}
    names |= {f"{what}_{p}" for what in ("sd", "error") for p in ("f", "A", "phi")}
    assert set(values) == names
    assert values["nominal_exact"] == pytest.approx(0.9, abs=5 * 0.3 / 20)
    for parameter in ("f", "A", "phi"):
        assert values[f"sd_{parameter}"] == pytest.approx(1.0, abs=0.03)
        assert values[f"error_{parameter}"] == pytest.approx(1.0, abs=5 * 0.962 / math.sqrt(2000))
    assert all(isinstance(value, float) for value in values.values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu(base_seed: int) -> None:
    parts = [*SETS, "speed"]
    report = run_suite(Oracle(), Sizes(N, n_classical=0), only=parts, device="cuda", seed=base_seed)
    assert not {m for m in missed(report) if "nominal" in m or "stress" in m or "bound" in m}
    assert report["GPU signals per second"].value > 0


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="received nothing_such"):
        run_suite(Oracle(), Sizes(3), only=["nothing_such"])
    with pytest.raises(ValueError, match="received none"):
        run_suite(Oracle(), Sizes(3), only=[])
    with pytest.raises(ValueError, match="preset zoom"):
        check_analyser(object())
    assert (*SETS, "speed") == PARTS
    assert tuple(GROUPS) == EXACT_GROUPS  # as the command's help lists them


def test_evaluation_needs_no_optional_package() -> None:
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'pandas', 'xarray', 'h5netcdf', 'h5py', 'rich', 'typer', 'nflows'):\n"
        "    sys.modules[name] = None\n"
        "from slotflow.studies.suites.model import run_suite, quick_report\n"
        "print('light')"
    )
    result = python("-c", code)
    assert result.stdout == "light\n", result.stderr


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`from_pretrained` gives an oracle."""

    class Network(Oracle):
        config = SimpleNamespace(name="oracle")
        device = CPU

    monkeypatch.setattr(SlotFlow, "from_pretrained", lambda *_, **__: Network())


def run(*args: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, args)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.mark.usefixtures("embedded")
def test_command_prints_the_table(tmp_path: Path) -> None:
    flags = ("--suite=model", "--n=40", "--n-classical=2", "--draws=20", "--seed=5")
    text = run(*flags, "--out", tmp_path / "report.json")
    record = json.loads((tmp_path / "report.json").read_text("utf-8"))
    measures = [row["measure"] for row in record["rows"]]
    assert len(set(measures)) == len(measures) > 40
    for row in record["rows"]:
        for part in ("measure", "target", "note"):
            assert not row[part] or row[part] in text, row[part]
    for word in ("targets met", "signals/s", "✓", "error over the bound", "oracle"):
        assert word in text
    assert record["model"] == "oracle" and record["facts"]["seed"] == 5
    assert set(record["details"]) == set(SETS)


@pytest.mark.usefixtures("embedded")
def test_command_gives_json_and_parts() -> None:
    record = json.loads(run("--only=noise, k1", "--n=10", "--draws=10", "--json"))
    assert set(record["details"]) == {"noise", "k1"}
    assert {"measure", "value", "target", "passed", "note"} <= set(record["rows"][0])
    again = json.loads(run("--only=noise, k1", "--n=10", "--draws=10", "--json"))
    assert again["rows"] == record["rows"]


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--suite=paper"], "--suite: expected one of"),
        (["--only=nominal,stres"], "received stres"),
        (["--seed=999999999", "--only=k1"], "expected a seed"),
    ],
)
def test_command_refuses(flags: list[str], message: str) -> None:
    line = run("--n=3", *flags, code=2).strip()
    assert line.startswith("error:") and message in line and "\n" not in line
