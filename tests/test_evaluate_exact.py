"""The exact suite: rows from records of known quality, work that can be resumed, misfits, and real signals."""

from __future__ import annotations

import copy
import json
import math
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within
from typer.testing import CliRunner

import slotflow
from slotflow import SlotFlow
from slotflow.cli import app
from slotflow.core.store import package_code
from slotflow.exact.tempering import Tempering
from slotflow.studies.answers import weights_hash
from slotflow.studies.row import Row
from slotflow.studies.suites.exact import suite
from slotflow.studies.suites.exact.coverage_rows import TARGETS
from slotflow.studies.suites.exact.parts import (
    PARTS,
    Settings,
    draw_signal,
    measure,
    solve,
)
from slotflow.studies.suites.exact.reference import long_evidence
from slotflow.studies.suites.exact.rows import exact_details, exact_rows
from slotflow.studies.suites.exact.suite import GROUPS, record_keys, run_exact_suite, sizes
from slotflow.studies.suites.exact.tasks import worker
from slotflow.studies.suites.sets import SETS
from slotflow.studies.tasks import Record, Worker, run_tasks

K_MAX = 10


# --- records of known quality --------------------------------------------------------------------


def oracle(
    part: str,
    index: int,
    *,
    ess: float = 0.99,
    narrow: float = 1.0,
    boast: float = 1.0,
    off: float = 0.0,
    blind: bool = False,
) -> Record:
    """A record as a calibrated posterior leaves it; the arguments spoil it.

    Args:
        part: Part.
        index: Signal.
        ess: Effective share of the draws.
        narrow: How many times too narrow the posterior is.
        boast: How many times too small the stated doubt about K is.
        off: Error of ln Z in standard errors, and of a correlation in units of 0.05.
        blind: Whether no misfit is ever seen.
    """
    rng = np.random.default_rng([index, sum(map(ord, part))])
    kind, record = PARTS[part].kind, {"i": index}

    def level() -> float:
        """Of a truth that strays `narrow` times too far."""
        return float(0.5 * (1 + math.erf(narrow * rng.standard_normal() / math.sqrt(2))))

    if kind == "misfit":
        p, status = (float(rng.random()), "exact") if blind else (0.0, "misfit")
        found = {"k_right": not blind, "levels": [] if blind else [[level()] * 3]}
        return record | found | {"status": status, "p": p, "check": "level", "snr": 20.0}
    if kind == "evidence":
        error, other = 0.01, 0.05
        theirs = rng.normal(0, other)
        ours = rng.normal(0, error) + off * math.hypot(error, other)
        return record | {
            "k": 2,
            "ours": ours,
            "error": error,
            "theirs": theirs,
            "their_error": other,
        }
    if kind == "correlation":
        matrix = np.eye(6)
        return record | {"ours": (matrix + 0.05 * off).tolist(), "theirs": matrix.tolist()}
    if kind == "time":
        return record | {"seconds": 0.2}
    if kind == "batch":
        return record | {"signals": 10, "seconds": 1.0, "network_seconds": 0.1}
    if kind == "eryn":
        chain = {"seconds": 5.0 * ess, "least_seconds": 6.0, "warm_up_seconds": 1.0, "r_hat": 1.01}
        ours = {"k": 3, "seconds": 0.04, "effective": 2000 * ess}
        return record | ours | {"cold": chain, "truth": chain}

    k = 5 + index % 2 if part != "weak" else index % 7
    doubt = 0.4 * float(rng.random()) if part in ("frontier", "weak") else 0.0
    wrong = bool(rng.random() < doubt)
    other = k + 1 if k < 6 else k - 1
    first, second = (other, k) if wrong else (k, other)
    probs = np.zeros(K_MAX + 1)
    probs[first], probs[second] = 1 - doubt / boast, doubt / boast
    network = np.zeros(K_MAX + 1)
    network[first if rng.random() < 0.9 else 0] = 1.0  # right less often than the exact answer
    return record | {
        "k": k,
        "k_probs": probs.tolist(),
        "network": network.tolist(),
        "classical": first,
        "ess": ess,
        "method": "importance",
        "levels": [[level() for _ in range(3)] for _ in range(k)],
        "joint": abs(2 * level() - 1) if k else None,
        "sigma_level": level(),
        "status": "exact",
        "p": float(rng.random()),
        "check": "colour",
        "total_seconds": 0.3,
    }


def oracle_worker(**spoilt: Any) -> Worker:
    return partial(oracle, **spoilt)


def rows_of(part: str, n: int, **spoilt: Any) -> list[Row]:
    records = {part: [oracle(part, i, **spoilt) for i in range(n)]}
    return exact_rows(records)


def test_a_calibrated_posterior_misses_nothing() -> None:
    report = run_exact_suite(n=400, jobs=0, make=oracle_worker)
    assert [row.measure for row in report.missed] == []
    assert not [row.measure for row in report.rows if row.target and row.met is None]
    assert report["times faster than Eryn"].value == pytest.approx(125, rel=0.02)
    assert report["frontier: exact-K ahead of the network"].value > 0
    assert report["frontier: exact-K ahead of the classical estimator"].value == 0
    assert report["weak: share called exact"].value == 1
    assert report.facts["signals"]["nominal"] == 400 and report.facts["signals"]["batch"] == 1
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("part", "spoilt", "missed"),
    [
        (
            "nominal",
            {"ess": 0.5},
            {"nominal: ESS per draw, mean", "nominal: ESS per draw, worst 1 %"},
        ),
        (
            "nominal",
            {"narrow": 1.5},
            {f"nominal: coverage − α, standard errors, {x}" for x in ("joint", "f", "A", "φ", "σ")},
        ),
        ("frontier", {"boast": 8.0}, {"frontier: ECE of p(K | x)"}),
        ("weak", {"boast": 8.0}, {"weak: ECE of p(K | x)"}),
        ("evidence", {"off": 8.0}, {"ln Z − independent, standard errors"}),
        ("correlation", {"off": 1.2}, {"pair: correlation − long SMC"}),
        ("chirp", {"blind": True}, {"misfit: chirp caught"}),
        ("red", {"blind": True}, {"misfit: red caught or answered rightly"}),
    ],
)
def test_a_wrong_posterior_is_found_out(
    part: str, spoilt: dict[str, Any], missed: set[str]
) -> None:
    n = 20 if PARTS[part].kind in ("evidence", "correlation") else 400
    assert {row.measure for row in rows_of(part, n, **spoilt) if row.met is False} == missed
    assert not [row for row in rows_of(part, n) if row.met is False]


def test_misfit_rows_count_the_verdict_and_their_notes_the_level() -> None:
    """A p-value between the verdict's threshold and 1 % is no false alarm and catches nothing; too many are named."""
    records = [oracle("nominal", i) | {"p": 0.5} for i in range(400)]
    for record in records[:12]:
        record |= {"p": 0.005}  # three times what chance leaves below 1 %
    rows = {row.measure: row for row in exact_rows({"nominal": records})}
    row = rows["misfit: false alarms, nominal"]
    assert row.value == 0 and row.met
    assert "12 below the 1 % level of all tests together, 4 expected: more than chance" in row.note
    for record in records[:3] + records[12:28]:
        record |= {"status": "misfit", "p": 1e-4}
    rows = {row.measure: row for row in exact_rows({"nominal": records})}
    row = rows["misfit: false alarms, nominal"]
    assert row.value == 19 / 400 and row.met is False and row.note.startswith("19 of 400")
    few = [record | {"p": 0.5, "status": "exact"} for record in records]
    assert "chance" not in exact_rows({"nominal": few})[-1].note
    chirps = [oracle("chirp", i) | {"p": 0.005, "status": "exact"} for i in range(50)]
    row = exact_rows({"chirp": chirps})[-1]
    assert row.value == 0 and row.met is False and "below the 1 % level 1.000" in row.note


def test_an_answer_under_other_noise_counts_if_it_is_right() -> None:
    """Of red noise, whose tones can be found; of a chirp, the control, only the verdict counts."""
    records = [oracle("red", i) | {"status": "exact", "p": 0.5} for i in range(200)]
    for record in records[:4]:
        record |= {"k_right": False, "levels": []}
    row = exact_rows({"red": records})[-1]
    assert row.value == pytest.approx(196 / 200) and row.met
    assert "196 of 200 others have the right K, and their 90 % intervals hold" in row.note
    held = float(row.note.split()[-1])
    assert_within(held, 0.9, (0.9 * 0.1 / 196) ** 0.5)
    assert exact_rows({"chirp": records})[-1].value == 0


def test_narrow_frontier_misses_three_percent() -> None:
    rows = {row.measure: row for row in rows_of("frontier", 400, narrow=1.3)}
    for symbol in ("f", "A", "φ"):
        row = rows[f"frontier: coverage − α, {symbol}"]
        assert row.met is False and row.value < -0.03


def test_coverage_counts_truths_without_draws_as_outside() -> None:
    records = [oracle("nominal", i) for i in range(200)]
    for record in records[:60]:
        record |= {
            "levels": [[1.0] * 3] * record["k"],
            "joint": 1.0,
            "sigma_level": 1.0,
            "ess": 0.0,
        }
    rows = {row.measure: row for row in exact_rows({"nominal": records})}
    assert rows["nominal: coverage − α, standard errors, joint"].value < -4
    assert rows["nominal: ESS per draw, worst 1 %"].value == 0


def test_paired_rows_follow_the_sign_test() -> None:
    """Of ten signals on which two methods differ, losing two to eight is not significant at 5 %; one to nine is."""
    for alone, passed in ((2, True), (1, False)):
        records = [oracle("frontier", i) for i in range(100)]
        for i, record in enumerate(records):
            right = i >= 10 or i < alone
            answer = record["k"] if right else record["k"] - 1
            record["k_probs"] = np.eye(K_MAX + 1)[answer].tolist()
            record["network"] = np.eye(K_MAX + 1)[record["k"] - (i < alone)].tolist()
        rows = {row.measure: row for row in exact_rows({"frontier": records})}
        row = rows["frontier: exact-K ahead of the network"]
        assert row.value == pytest.approx((alone - (10 - alone)) / 100)
        assert row.met is passed


def test_without_eryn_its_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotflow.studies.suites.exact.suite.find_spec", lambda name: None)
    report = run_exact_suite(n=4, jobs=0, make=oracle_worker, only=["eryn"])
    (row,) = report.rows
    assert row.met is None and "not installed" in row.note and math.isnan(row.value)


def test_eryn_that_is_nearly_as_fast_is_a_miss() -> None:
    rows = {row.measure: row for row in rows_of("eryn", 5, ess=0.5)}
    assert rows["times faster than Eryn"].met is False
    assert "1,000 effective draws" in rows["times faster than Eryn"].note


def test_few_signals_cannot_miss_what_their_own_doubt_expects() -> None:
    records = [oracle("stress", i) for i in range(40)]
    truth = records[0]["k"]
    for top, passed in ((0.6, None), (1.0 - 1e-9, False)):
        probs = np.zeros(K_MAX + 1)
        probs[truth + 1], probs[truth] = top, 1 - top
        records[0]["k_probs"] = probs.tolist()
        row = next(
            row
            for row in exact_rows({"stress": records})
            if row.measure == "stress: exact-K errors in 2,000"
        )
        assert row.value == 50 and row.met is passed


def test_every_target_has_its_row() -> None:
    parts = {name: [oracle(name, i) for i in range(30)] for name in PARTS}
    parts["batch"] = parts["batch"][:1]
    written = {str(row.target) for row in exact_rows(parts) if row.target is not None}
    assert {str(target) for target in TARGETS.values()} <= written
    assert exact_details(parts)["nominal"]["verdicts"] == {"exact": 30}


# --- work that can be resumed --------------------------------------------------------------------


def test_sizes() -> None:
    assert sizes(list(GROUPS), None)["nominal"] == 2000
    few = sizes(list(GROUPS), 7)
    assert few["frontier"] == few["chirp"] == few["evidence"] == 7
    assert few["correlation"] == 5 and few["batch"] == 1
    numbers = [part.number for part in PARTS.values()] + [s.number for s in SETS.values()]
    assert len(set(numbers)) == len(numbers) and max(numbers) < 256


def test_a_later_run_goes_on_from_the_records(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def counting() -> Worker:
        def work(part: str, index: int) -> Record:
            asked.append((part, index))
            return oracle(part, index)

        return work

    run = partial(run_exact_suite, jobs=0, work=tmp_path, make=counting)
    first = run(n=5, only=["nominal", "time"])
    assert len(asked) == 5 + 5 + 1
    asked.clear()
    again = run(n=8, only=["nominal"])
    assert asked == [("nominal", i) for i in (5, 6, 7)]
    asked.clear()
    assert run(n=5, only=["nominal"])["nominal: ESS per draw, mean"].note.startswith("5 signals")
    assert asked == [] and len(first.rows) > 0 and again.facts["analysed"] == 3
    run(settings=Settings(seed=1), n=5, only=["nominal"])
    assert len(asked) == 5  # other signals, which lie beside those of seed 0
    asked.clear()
    run(n=5, only=["nominal"])
    assert asked == []
    run(settings=Settings(draws=100), n=5, only=["nominal"])
    assert len(asked) == 5  # made differently, so made again


def test_records_are_known_by_weights_code_and_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What may change a record changes its key, and nothing else does."""
    keys = record_keys(Settings(), PARTS, "weights")
    assert len(set(keys.values())) == len(PARTS)
    assert record_keys(Settings(), PARTS, "weights") == keys
    others = [
        record_keys(Settings(), PARTS, "other weights"),
        record_keys(Settings(draws=100), PARTS, "weights"),
        record_keys(Settings(seed=1), PARTS, "weights"),
        record_keys(Settings(max_seconds=1.0), PARTS, "weights"),
    ]
    monkeypatch.setattr(suite, "package_code", lambda rooms: "other code")
    others.append(record_keys(Settings(), PARTS, "weights"))
    for other in others:
        assert not set(other.values()) & set(keys.values())
    monkeypatch.undo()
    batch = record_keys(Settings(batch=7), PARTS, "weights")
    assert {name for name in PARTS if batch[name] != keys[name]} == {"batch"}
    stronger = replace(PARTS["nominal"], prior=replace(PARTS["nominal"].prior, sigma=(0.1, 3.0)))
    monkeypatch.setitem(PARTS, "nominal", stronger)
    prior = record_keys(Settings(), PARTS, "weights")
    assert {name for name in PARTS if prior[name] != keys[name]} == {"nominal"}


def test_the_code_behind_records_is_all_there() -> None:
    """Every module that decides what a record says counts; those that only write rows and pages do not."""
    package = Path(slotflow.__file__).parent
    for room in suite.RECORDING_CODE:
        assert (package / room).is_dir() or (package / f"{room}.py").is_file(), room
    assert package_code(suite.RECORDING_CODE) != package_code()


def test_weights_have_a_hash_of_their_own(debug_model: SlotFlow) -> None:
    other = copy.deepcopy(debug_model)
    assert weights_hash(other) == weights_hash(debug_model)
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 1e-6
    assert weights_hash(other) != weights_hash(debug_model)


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    def interrupted() -> Worker:
        def work(part: str, index: int) -> Record:
            if index == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return oracle(part, index)

        return work

    with pytest.raises(KeyboardInterrupt):
        run_exact_suite(n=6, jobs=0, work=tmp_path, only=["stress"], make=interrupted)
    asked: list[int] = []

    def counting() -> Worker:
        def work(part: str, index: int) -> Record:
            asked.append(index)
            return oracle(part, index)

        return work

    run_exact_suite(n=6, jobs=0, work=tmp_path, only=["stress"], make=counting)
    assert asked == [3, 4, 5]


def test_processes_work_together() -> None:
    found: dict[int, Record] = {}
    tasks = [("nominal", i) for i in range(5)]
    run_tasks(
        tasks, oracle_worker, lambda part, record: found.update({record["i"]: record}), jobs=2
    )
    assert found == {i: oracle("nominal", i) for i in range(5)}


@pytest.mark.parametrize("options", [{"only": ["moon"]}, {"only": []}, {"jobs": -1}, {"n": 0}])
def test_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        run_exact_suite(make=oracle_worker, **options)


def test_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = "slotflow.studies.suites.exact.suite.run_exact_suite"
    monkeypatch.setattr(module, partial(run_exact_suite_in_this_process, tmp_path))
    out = tmp_path / "report.json"
    flags = ["evaluate", "--suite=exact", "--n=9", "--only=nominal, time", "--seed=4", "-q"]
    result = CliRunner().invoke(app, [*flags, f"--out={out}", "--json"], catch_exceptions=False)
    record = json.loads(result.stdout)
    assert record == json.loads(out.read_text()) and record["model"] == "zoom"
    assert record["facts"]["seed"] == 4 and record["facts"]["suite"] == "exact"
    assert {row["measure"] for row in record["rows"]} >= {
        "nominal: ESS per draw, mean",
        "time, K = 9, ms",
    }
    shown = CliRunner().invoke(app, flags, catch_exceptions=False).stdout
    assert "zoom+exact, 2000 draws of each K, seed 4" in shown and "targets met" in shown


def run_exact_suite_in_this_process(folder: Path, settings: Settings, **options: Any) -> Any:
    assert options["jobs"] == 1 and options["work"] is None
    return run_exact_suite(settings, **(options | {"jobs": 0, "make": oracle_worker}))


# --- real signals --------------------------------------------------------------------------------


def test_one_signal_and_its_evidence(zoom: SlotFlow) -> None:
    part = PARTS["evidence"]
    sim = draw_signal(part, 1, 0)
    truth = sim.components(0)
    assert len(truth) == 2
    post = solve(zoom, sim.observation(0), part.prior, 500, 0, 10.0)
    record = measure(post, truth, float(sim.sigma), 3)
    assert json.loads(json.dumps(record)) == record
    assert record["k"] == 2 and int(np.argmax(record["k_probs"])) == 2 and record["ess"] > 0.5
    assert record["status"] == "exact" and np.shape(record["levels"]) == (2, 3)
    assert all(
        0 < u < 1 for u in [*np.ravel(record["levels"]), record["joint"], record["sigma_level"]]
    )
    short = Tempering(particles=512, islands=8, sweeps=3, max_seconds=30.0)
    other = long_evidence(sim, part.prior, 1, short)
    error = math.hypot(other.log_evidence_error, record["log_z_error"])
    assert_within(record["log_z"], other.log_evidence, max(error, 0.1))
    # A truth far from the posterior is outside of every region.
    moved = truth.copy()
    moved[:, 2] += 0.001
    assert measure(post, moved, float(sim.sigma), 3)["joint"] > 0.99
    # A number of tones without draws as well.
    absent = measure(post, np.zeros((9, 3)), float(sim.sigma), 3)
    assert absent["joint"] == 1 and absent["ess"] == 0 and np.all(np.array(absent["levels"]) == 1)


def test_weak_tones_start_from_the_uniform_law(zoom: SlotFlow) -> None:
    part = PARTS["weak"]
    prior = replace(part.prior, k_max=2)
    index = next(i for i in range(50) if int(draw_signal(part, i, 0).k) == 1)
    sim = draw_signal(part, index, 0)
    post = solve(zoom, sim.observation(0), prior, 200, 0, 2.0)
    assert post.prior == prior and post.amortized.prior is not None
    assert measure(post, sim.components(0), float(sim.sigma), 0)["k"] == 1


def test_an_answer_that_holds_no_network_s_answer_is_recorded_too(zoom: SlotFlow) -> None:
    """The noise of this signal is taken for coloured, so that the answer comes from general proposals."""
    settings, index = Settings(seed=14), 1239
    part = PARTS["nominal"]
    sim = draw_signal(part, index, settings.seed)
    post = zoom.infer(sim.observation(0), prior=part.prior, seed=index)
    with pytest.raises(ValueError, match="does not hold a network's answer"):
        _ = post.amortized
    record = worker(settings)("nominal", index)
    assert record["status"] == post.verdict.status and record["k"] == post.k_map
    assert 0 < record["joint"] < 1 and len(record["levels"]) == record["k"]
