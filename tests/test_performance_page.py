"""docs/performance.md: lines follow their records or say that there are none; stages count every moment once."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = {
    "performance", "performance_commands", "left", "rates", "cost_curves", "cost_stages", "catalogue_cost",
}  # fmt: skip


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports scripts of docs/ and benchmarks/ by name."""
    folders = [str(ROOT / "docs"), str(ROOT / "benchmarks")]
    monkeypatch.setattr(sys, "path", [*folders, *sys.path])
    return importlib.import_module


def blocks(load: Any, folder: Path) -> dict[str, str]:
    """The page's blocks from the records of a folder."""
    table = load("tables").table
    first = dict(load("performance_tables").performance_tables(folder, table))
    return first | dict(load("cost_tables").cost_tables(folder, table))


def line(block: str, begin: str) -> str:
    """The row of a table that begins so."""
    (found,) = [row for row in block.splitlines() if row.startswith(f"| {begin}")]
    return found


def write(folder: Path, name: str, record: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps(record), "utf-8")


def batch(ms: float, decided: float, **more: Any) -> dict[str, Any]:
    """What benchmarks/batch_exact.py writes of a set."""
    times = {"network alone": 0.1, "network and exact": ms, "verdicts": 0.05, "alone": 70.0}
    return {
        "set": "nominal",
        "signals": 2000,
        "decided in batches": decided,
        "why not": {"residual": 3},
        "ms a signal": times,
        "signals per second": 1e3 / ms,
        **more,
    }


def eryn(seconds: float) -> dict[str, Any]:
    """What benchmarks/against_eryn.py writes."""
    signal = {"seconds": 0.05, "effective": 2000.0, "cold": {"seconds": seconds}}
    rows = [{"measure": "", "value": value, "note": "five"} for value in (41.0, 16.0)]
    return {"results": {"rows": rows, "signals": [signal] * 3}}


def test_without_records_every_line_says_so(load: Any, tmp_path: Path) -> None:
    found = blocks(load, tmp_path)
    assert set(found) == BLOCKS
    rows = found["performance"].splitlines()[2:]
    assert len(rows) == 16 and all("not measured yet" in row for row in rows)
    assert "not measured yet" in found["cost_curves"] and "not measured yet" in found["cost_stages"]
    assert found["catalogue_cost"].count("not measured yet") >= 4
    assert load("cost_tables").cost_picture(tmp_path) is None


def test_the_page_holds_every_block_and_is_what_the_records_say(load: Any) -> None:
    render: ModuleType = load("render")
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    tables = blocks(load, ROOT / "docs" / "data")
    assert all(f"<!-- begin {name} -->" in page for name in BLOCKS - {"rates"})
    assert render.fill(page, tables) == page, "run python docs/render.py --tables"


def test_targets_are_met_missed_or_open(load: Any, tmp_path: Path) -> None:
    gpu = {"options": {"draws": "1000"}, "results": [batch(0.2, 1.0, **{"mean ESS per draw": 0.5})]}
    write(tmp_path, "batch-exact-gpu", gpu)
    write(tmp_path, "batch-exact", {"results": [batch(19.96, 0.9)]})
    write(tmp_path, "against-eryn", eryn(4.0))
    rows = blocks(load, tmp_path)["performance"]
    assert "| 4,000/s | yes |" in line(rows, "exact, H200")  # 0.25 ms with verdicts
    assert "| 20.0 ms | **no** |" in line(rows, "exact, one core, batch")  # 20.01
    assert "| 41 | yes |" in line(rows, "times faster than tuned Eryn, K = 3")
    # 2,000 effective draws are four passes of 1,000 draws with a share of one half: 1 ms, and 4 s against it.
    assert "| 4,000 | **no** |" in line(rows, "times faster than tuned Eryn (one core)")
    tones = {
        "options": {"draws": "2000"},
        "results": [batch(0.35, 1.0, **{"mean ESS per draw": 1.0})],
    }
    write(
        tmp_path, "batch-tones-gpu", tones
    )  # 0.4 ms for 2,000 effective draws of as many tones as Eryn's
    rows = blocks(load, tmp_path)["performance"]
    assert "| 10,000 | yes |" in line(rows, "times faster than tuned Eryn (one core)")


def test_equality_is_missed_by_verdicts_by_evidence_and_by_quantiles(
    load: Any, tmp_path: Path
) -> None:
    def judged(alike: float, pull: float, of_quantiles: float = 1.0) -> str:
        levels = (0.05, 0.5, 0.95)
        more = {"compared": 1000, "verdicts alike": alike, "largest difference of p(K)": 1e-9}
        more |= {f"rms pull of quantile {q}": of_quantiles for q in levels}
        one = batch(1.0, 0.5, **more, **{"rms pull of ln Z": pull, "pulls of ln Z": 800})
        write(tmp_path, "batch-equal", {"results": [one]})
        return line(blocks(load, tmp_path)["performance"], "batch against one by one, nominal")

    limit = 1 + 4 / math.sqrt(2 * 800)  # four standard errors of a root mean square
    assert "| yes |" in judged(0.996, limit - 0.01)
    assert "| **no** |" in judged(0.994, 1.0)
    assert "| **no** |" in judged(1.0, limit + 0.01)
    assert "| **no** |" in judged(1.0, 1.0, limit + 0.01)


def test_what_batches_leave_is_compared_where_they_decide_nothing(
    load: Any, tmp_path: Path
) -> None:
    more = {"compared": 2000, "verdicts alike": 1.0, "largest difference of p(K)": 0.0}
    more |= {
        f"rms pull of {x}": 0.0 for x in ("ln Z", *(f"quantile {q}" for q in (0.05, 0.5, 0.95)))
    }
    one = batch(400.0, 0.0, **more, **{"set": "frontier", "pulls of ln Z": 2000})
    write(tmp_path, "batch-equal", {"results": [one]})
    rows = blocks(load, tmp_path)
    found = line(rows["performance"], "batch against one by one, frontier")
    assert "of which batches decide 0; the others are answered by the same code" in found
    assert "| 100.00 % alike | yes |" in found
    assert "| frontier | 2,000 | 0.0 % |" in rows["left"]
    missing = line(rows["performance"], "batch against one by one, nominal")
    assert "not measured yet" in missing


def test_versions_on_crowded_signals(load: Any, tmp_path: Path) -> None:
    def version(mean: float) -> dict[str, Any]:
        seconds = {"mean": mean, "median": 0.2, "worst": 3.0}
        perfect = {"mean": 0.03, "below_in_95_percent": 0.05}
        return {
            "signals": 60, "cpu_seconds": seconds, "k_right": 0.95, "ece": 0.04, "ece_of_perfect": perfect,
            "verdicts": {"exact": 59, "approximate": 1},
        }  # fmt: skip

    compared = {
        "rms_difference_of_p_of_k": 0.004, "largest_difference_of_p_of_k": 0.02, "same_count": 58,
        "rms_pull_of_ln_z": 1.0, "mean_pull_of_ln_z": 0.1, "largest_pull_of_ln_z": 3.0, "rms_pull_of_means": 0.5,
    }  # fmt: skip
    one = {"before": version(0.8), "now": version(0.4), "compared": compared}
    write(tmp_path, "crowded", {"results": {"frontier": one, "weak": one}})
    tables = dict(load("crowded_tables").crowded_tables(tmp_path, load("tables").table))
    assert "| frontier | now | 0.40 | 0.20 | 3.00 | 57 of 60 |" in tables["crowded"]
    assert "59 exact, 1 approximate" in line(tables["crowded"], "weak | before")
    assert "| weak | 0.004, 0.020 | 58 of 60 | 1.00, 0.10, 3.00 | 0.50 |" in tables["crowded_equal"]
    assert "fresh" not in tables["crowded"]


def test_the_cost_of_a_catalogue_adds_up(load: Any, tmp_path: Path) -> None:
    """3.6 million windows at 1,000 a second take an hour; a hundredth of them at half a second each take five."""
    cost = load("cost_tables").catalogue_cost
    found = cost(3.6e6, 1000.0, 0.01, 0.5, 0.02)
    values = (found.gpu_hours, found.core_hours_left, found.cores, found.core_hours)
    assert values == pytest.approx((1.0, 5.0, 5.0, 20.0))
    assert cost(3.6e6, 1000.0, 0.0, None, None).core_hours_left == 0.0
    assert cost(3.6e6, None, 0.01, None, None).core_hours_left is None


def test_the_picture_and_its_table_show_every_point(load: Any, tmp_path: Path) -> None:
    point = {"signals": 4, "network": 1.0, "exact": 2.0, "left": 0}
    curve = [point | {"value": value, "alone": 5.25} for value in (50, 100, 150)]
    facts = {"command": "x", "version": "1", "machine": "m", "torch": "2", "settings": {"draws": 9}}
    share = {"set": "stress", "signals": 8, "left": 2, "ms": 3.0, "ms of one alone": 500.0}
    stages = [share | {"shares": {"network": 0.25, "fits": 0.75}}]
    parts = {name: curve for name in ("samples", "tones", "bins")} | {"batch": [point | {"value": 8}]}  # fmt: skip
    write(tmp_path, "cost", facts | parts | {"stages": stages})
    found = blocks(load, tmp_path)
    assert found["cost_curves"].count("| 5.25 |") == 9 and "![" not in found["cost_curves"]
    assert "| 25.0 % |" in line(found["cost_stages"], "network")
    figure = load("cost_tables").cost_picture(tmp_path)
    assert [len(ax.lines) for ax in figure.axes] == [3, 3, 3, 3]
    assert all(list(ax.lines[0].get_xdata()) == [50, 100, 150] for ax in figure.axes[:3])


def test_every_moment_belongs_to_one_stage(load: Any) -> None:
    stages = load("stage_clock")
    seconds = iter(range(100))
    clock = stages.StageClock(lambda: float(next(seconds)))
    with clock.stage(stages.NETWORK), clock.stage(stages.FITS):  # 0 to 3, and 1 to 2 within
        pass
    with clock.stage(stages.ALONE), clock.stage(stages.FITS):  # 4 to 5, and nothing within
        pass
    expected = {stages.NETWORK: 2.0, stages.FITS: 1.0, stages.ALONE: 1.0}
    assert {name: value for name, value in clock.seconds.items() if value} == expected
    assert sum(clock.shares.values()) == pytest.approx(1.0)


def test_stages_are_watched_from_outside_and_left_as_they_were(load: Any) -> None:
    stages = load("stage_clock")
    places = [place for some in stages.STAGES.values() for place in some]
    before = [getattr(owner, name) for owner, name in places]
    clock = stages.StageClock(lambda: 0.0)
    with clock.watching():
        during = [getattr(owner, name) for owner, name in places]
    assert not any(a is b for a, b in zip(before, during, strict=True))
    assert [getattr(owner, name) for owner, name in places] == before
