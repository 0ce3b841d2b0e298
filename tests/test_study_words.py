"""Paragraphs of docs/studies.md: what is written by hand agrees with the records, the rest follows from them."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from slotflow.studies.zoom_scaling.variants import BASE, PARTS

ROOT = Path(__file__).resolve().parents[1]


def file_of(name: str) -> Any:
    return json.loads((ROOT / f"docs/data/studies/{name}.json").read_text("utf-8"))


def record_of(name: str) -> Any:
    return file_of(name)["data"]


def values_of(name: str) -> dict[str, float]:
    """Values of a study's rows by their measure."""
    return {row["measure"]: row["value"] for row in file_of(name)["rows"]}


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/study_words.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return import_module("study_words")


def test_what_the_page_says_of_the_formulas() -> None:
    data = record_of("formulas")
    assert data["critical_base_two"] == pytest.approx(1.5e8, rel=0.01)
    assert data["needed_ten"] > 10 * data["needed_one"] and data["needed_ten"] > 1e3 * 1e10
    assert all(abs(data["depth"][key] - 6) > 1 for key in ("remark", "proof", "proposition"))
    assert data["same_signal"] > 2


def test_what_the_page_says_of_the_evidence_bound() -> None:
    values = values_of("elbo")
    assert values["zoom: share of the gap that independent slots cost"] > 0.95
    assert values["debug: share of the gap that independent slots cost"] < 0.01
    assert values["zoom: share of the gap that is in K"] < 1e-4
    assert values["zoom: gap at K = 10, mean [nat]"] > 10 * values["zoom: gap at K = 1, mean [nat]"]
    median = "gap ln p(x) − ELBO, median [nat]"
    assert values[f"debug: {median}"] > 10 * values[f"zoom: {median}"]
    for name in ("zoom", "debug"):
        assert values[f"{name}: rank correlation of −flow loss and reconstruction"] > 0.7
    notes = [r["note"] for r in file_of("elbo")["rows"] if "rank correlation" in r["measure"]]
    assert len(notes) == 2
    assert all(float(note.rpartition("with −gap ")[2].split(",")[0]) < 0.4 for note in notes)


def test_what_the_page_says_of_gradients() -> None:
    data = record_of("gradient")
    assert data["steps"][:2] == [0, 10] and data["steps"][-1] == 300
    for weights in ("trained", "untrained"):
        for quantity in ("phase", "flow"):
            assert data["fixed"][weights][quantity][-1][0] > 10 * 20  # at w = 20
    for quantity in ("phase", "flow"):
        course = np.array(data["training"][quantity]["5"])[:, 0]
        assert 8 < course[0] < 12 and course[1] < 1
        assert np.ptp(np.log(course[1:])) > np.log(1.5) and abs(course[-1] / 5 - 1) > 0.1


def test_what_the_page_says_of_distinguishable_slots(words: ModuleType) -> None:
    record = file_of("distinguishable")
    data = record["data"]
    assert all(cell["least_distance"] > 2 for cells in data.values() for cell in cells)
    debug = {cell["bins"]: cell for cell in data["debug"]}
    for bins in (0.1, 0.5, 1.0):
        assert debug[bins]["labelled"][0] > 0.99 and debug[bins]["separated"][0] < 0.3
    assert all(cells[0]["separated"][0] < 0.95 for cells in data.values())
    said = words.distinguishable(record)
    values = values_of("distinguishable")
    measure = "least Δf from which 95 % of pairs have a slot for each tone [1/T]"
    assert f"slots of `zoom` take one tone each from {values[f'zoom: {measure}']:.2f}/T on" in said
    row = next(row for row in record["rows"] if row["measure"] == f"zoom: {measure}")
    record["rows"].remove(row)
    widest = f"{data['zoom'][-1]['bins']:g}/T"
    assert f"`zoom` take one tone each at no distance up to {widest}" in words.distinguishable(
        record
    )


def test_what_the_page_says_of_domains() -> None:
    data = record_of("domain")["variants"]
    sd, robust = (
        {n: {s: np.array(pair) for s, pair in one[key].items()} for n, one in data.items()}
        for key in ("sd", "robust")
    )
    assert all(0.002 < one["f"][0] < 0.006 for one in sd.values())
    assert all(one["accuracy"] == [1.0, 0.0] for one in data.values())
    for name in ("time-frequency", "frequency"):
        assert sd[name]["φ"][0] / robust[name]["φ"][0] == pytest.approx(2, abs=0.3)
    for symbol in ("A", "φ", "f"):
        gap = sd["frequency"][symbol][0] - sd["time-frequency"][symbol][0]
        assert gap < np.hypot(sd["frequency"][symbol][1], sd["time-frequency"][symbol][1])
    assert min(sd, key=lambda n: sd[n]["A"][0]) == max(sd, key=lambda n: sd[n]["φ"][0]) == "time"
    notes = {row["measure"]: row["note"] for row in file_of("domain")["rows"]}
    assert notes["sd of f, time over time-frequency"] == "draws from the prior would have 46"


def test_what_the_page_says_of_the_phase_weight(words: ModuleType) -> None:
    """The sentences follow the record: seeds, where the minimum is, and whether that is the paper's."""
    record = file_of("phase_weight")
    rows = {row["measure"]: row for row in record["rows"]}
    one_seed = any(one["sd"]["φ"][1] is None for one in record["data"]["variants"].values())
    assert ("Only one seed" in words.phase_weight(record)) == one_seed
    changed = deepcopy(record)
    for one in changed["data"]["variants"].values():
        one["sd"]["φ"][1] = None if not one_seed else 0.1
    assert ("Only one seed" in words.phase_weight(changed)) != one_seed
    least = "4-D: w_φ with the least sd of φ"
    for row in changed["rows"]:
        if row["measure"] == least:
            row.update(text="10", met=False, note="then 1; of the test")
    said = words.phase_weight(changed)
    assert "least at w_φ = 10 (then 1; of the test), not at 2 as in the paper" in said
    assert rows[least]["note"] in words.phase_weight(record)


def test_what_the_page_says_of_zoom() -> None:
    data = record_of("zoom_scaling")
    base, joint, recount = (data[name] for name in (BASE, *(f"{BASE}, {part}" for part in PARTS)))
    assert base["signals"][-1] == pytest.approx(1e6, rel=0.05)
    assert data["released"]["signals"][0] > 10 * base["signals"][-1]
    errors, without = (np.array(one["error"]["f"])[:, 0] for one in (base, joint))
    assert without[-1] / errors[-1] < 1.01 and without[0] / errors[0] > 1.1
    assert (errors < 1.02).all()
    counts, less = (np.array(one["frontier"])[:, 0] for one in (base, recount))
    assert (np.diff(counts) > 0).all() and counts[-1] < data["released"]["frontier"][0][0]
    assert joint["frontier"][0][0] >= counts[0]
    gain = counts - less
    assert gain[-1] > 0.03 and gain[:-1] / gain[-1] == pytest.approx(2, abs=0.3)
    small, large = data["0.5 M"]["frontier"], data["8 M"]["frontier"]
    assert abs(small[-1][0] - large[-1][0]) < 2 * np.hypot(small[-1][1], large[-1][1])
    off = {symbol: pairs[0][0] for symbol, pairs in data["released, without joint steps"]["error"].items()}  # fmt: skip
    assert off["φ"] > off["f"] > 1.05 < off["A"]


def test_what_the_page_says_of_sample_complexity() -> None:
    data = record_of("sample_complexity")
    paper, zoom = ({int(k): one for k, one in data[name]["counts"].items()} for name in data)
    score = {k: np.array(one["score"])[:, 0] for k, one in paper.items()}
    assert (score[2] <= 0).sum() == 1 and all((score[k] > 0).all() for k in score if k >= 4)
    seeds = np.array(paper[2]["scores"])[:, score[2].argmin()]
    assert (seeds < 0).sum() == 1
    assert all((score[4] > score[k]).all() for k in (6, 8, 10))
    first, *others = np.array(paper[1]["losses"])
    ahead = first < np.min(others, axis=0) - 1
    assert len(ahead) > ahead.sum() > len(ahead) / 2
    for k in (4, 6, 8, 10):
        assert np.ptp(np.array(paper[k]["loss"])[3:, 0]) < 0.35
    assert all(one["loss"][3][0] <= 0.1 for one in zoom.values())  # 1,000 signals


def test_what_the_page_says_of_depth() -> None:
    data = record_of("depth")["variants"]
    phase, score = ({n: one[key] for n, one in data.items()} for key in ("sd", "score"))
    phi = {name: np.array(one["φ"]) for name, one in phase.items()}  # mean and error over seeds
    depths = ("L = 2", "L = 4", "L = 8", "L = 10", "L = 12")
    assert all(phase["L = 2"][s][0] > phase["L = 8"][s][0] for s in ("A", "φ", "f"))
    assert score["L = 2"][0] == max(score[name][0] for name in depths)
    assert min(depths, key=lambda name: phi[name][0]) == "L = 8"
    for other in ("L = 4", "L = 10"):
        for one in (phi, {name: np.array(pair) for name, pair in score.items()}):
            gap, error = (
                np.abs(one[other] - one["L = 8"])[0],
                np.hypot(one[other][1], one["L = 8"][1]),
            )
            assert gap < 2 * error
    for symbol in ("A", "f"):
        assert phase["L = 12"][symbol][0] < 1.05 * phase["L = 8"][symbol][0]
    assert phi["L = 12"][0] > 1.5 * phi["L = 8"][0]
    assert data["8 splines"]["skipped"] == 0 and score["8 splines"][0] > score["L = 8"][0] + 1
    assert phase["third stride 2"]["f"][0] < phase["L = 8"]["f"][0]


def test_what_the_page_says_of_the_leaderboard() -> None:
    data = record_of("leaderboard")
    trained = [name for name in data if name not in ("zoom", "exact")]
    keys = ("log_q", "f_error", "exact_k", "coverage", "log_count")
    q, error, counts, coverage, sure = (
        {name: one[key][0] for name, one in data.items()} for key in keys
    )
    assert min(counts.values()) > 0.97 and min(counts, key=lambda n: counts[n]) == "sequential"
    assert all(q[n] < q["exact"] - 10 and error[n] > 3 * error["exact"] for n in trained)
    assert max(trained, key=lambda n: q[n]) == min(trained, key=lambda n: error[n]) == "sequential"
    assert min(trained, key=lambda n: coverage[n]) == "sequential"
    assert min(trained, key=lambda n: sure[n]) == "sequential"
    assert min(trained, key=lambda n: q[n]) == max(trained, key=lambda n: error[n]) == "equivariant"
    assert coverage["equivariant"] > 10 * data["equivariant"]["coverage_perfect"]
    behind = ("paper", "saturated", "presences")
    assert np.ptp([q[name] for name in behind]) < 2.2
    assert min(behind, key=lambda n: error[n]) == min(behind, key=lambda n: coverage[n]) == "paper"
    pair = {name: one["dependence"]["found"][0] for name, one in data.items()}
    exact = data["exact"]["dependence"]["exact"][0]
    assert all(abs(pair[name]) < 0.05 for name in ("paper", "sequential", "zoom"))
    assert all(pair[name] == pytest.approx(exact, abs=0.05) for name in ("saturated", "presences"))
    assert data["paper"]["label_change"] > 1
