"""Paragraphs of docs/studies.md that have no numbers: what they say of the numbers follows from the records."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotflow.studies.zoom_scaling.variants import BASE, PARTS

ROOT = Path(__file__).resolve().parents[1]


def record_of(name: str) -> Any:
    return json.loads((ROOT / f"docs/data/studies/{name}.json").read_text("utf-8"))["data"]


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
    keys = ("log_q", "f_error", "exact_k")
    q, error, counts = ({name: one[key][0] for name, one in data.items()} for key in keys)
    assert {one["seeds"] for one in data.values()} == {3}
    assert min(counts.values()) > 0.97 and min(counts, key=lambda n: counts[n]) == "sequential"
    assert all(q[n] < q["exact"] - 10 and error[n] > 3 * error["exact"] for n in trained)
    assert max(trained, key=lambda n: q[n]) == min(trained, key=lambda n: error[n]) == "sequential"
    assert min(trained, key=lambda n: q[n]) == max(trained, key=lambda n: error[n]) == "equivariant"
    off = {name: one["coverage"][0] for name, one in data.items()}
    assert min(trained, key=lambda n: off[n]) == "sequential"
    assert max(off, key=lambda n: off[n]) == "equivariant" and off["equivariant"] > 0.25
    behind = [data[name] for name in ("paper", "saturated", "presences")]
    for one, other in itertools.combinations(behind, 2):
        gap, spread = (one["log_q"][0] - other["log_q"][0]), (one["log_q"][1], other["log_q"][1])
        assert abs(gap) < 3 * np.hypot(*spread)
    for value in (error, off):
        assert min(("paper", "saturated", "presences"), key=lambda n: value[n]) == "paper"
    pair = {name: one["dependence"]["found"][0] for name, one in data.items()}
    exact = data["exact"]["dependence"]["exact"][0]
    assert all(abs(pair[name]) < 0.05 for name in ("paper", "sequential", "zoom"))
    assert pair["saturated"] > 0.7 * exact
    assert data["paper"]["label_change"] > 1
