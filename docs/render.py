"""Fills the tables of README.md and docs/ from the model's card and docs/data/, and draws the pictures beside them.

    python docs/render.py                       # tables, docs/results.md, and every picture from its numbers
    python docs/render.py --results results/    # the same after taking over what `slotflow reproduce` wrote
    python docs/render.py --check               # exit code 1 if a page is not what its numbers say

A table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; nothing else of a page is touched, but for
docs/results.md, which comes from docs/results/ as a whole.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from ablations import table as ablation_table  # noqa: E402
from crowded import crowded  # noqa: E402
from diagram import draw_exact, draw_zoom  # noqa: E402

from slotflow.network.cards import Card, embedded_card  # noqa: E402
from slotflow.studies.paper.files import Record, collect  # noqa: E402
from slotflow.studies.paper.markdown import render_markdown  # noqa: E402
from slotflow.studies.paper.registry import RESULTS  # noqa: E402

PAGES = ("README.md", "docs/model.md", "docs/exact.md")
RESULTS_PAGE = ROOT / "docs" / "results.md"
RESULTS_FOLDER = ROOT / "docs" / "results"
MODEL = "zoom"
ENOUGH = 100
"""A comparison on fewer signals says nothing and is shown as not measured."""

HEADLINES = {
    "nominal: exact-K errors in 10,000": "wrong counts in 10,000 signals of the paper's distribution",
    "stress: exact-K errors in 10,000": "the same, stress: K 5–10, separation ≥ 4 mHz, σ 1–2",
    "frontier: exact-K": "share of right counts, frontier: K 5–10, no minimum separation, σ 1–2",
    "frontier: ECE": "calibration error (ECE) of q(K given x) there",
    "noise: share with k_map > 0": "pure noise taken for tones",
    "sd / bound, f": "posterior sd of f over the joint Cramér–Rao bound, worst K",
    "sd / bound, A": "of A",
    "sd / bound, φ": "of φ",
    "coverage": "coverage minus its nominal level, worst of all sets with a target, parameters and levels",
    "weights, MB": "size of the weights in MB",
    "GPU signals per second": "signals per second on one H200, 100 draws per component",
}
"""Rows of the card that the README shows, and their names there."""


COMPARED = (
    "", "wrong counts, paper's distribution", "wrong counts, stress", "right counts, frontier",
    "mean sd of f, K = 1 and 10", "time on one core",
)  # fmt: skip
RIVALS = (
    ("published network, 31.3 M parameters", "0 of 1,200", "21 %", "–", "0.09 and 0.55 mHz",
     "30 ms, and 22 s for 1,000 draws of 10 components"),
    ("classical estimator, `python benchmarks/classical.py --n 2000`", "0 of 2,000", "0 of 2,000",
     "",
     "at the bound", ""),
)  # fmt: skip
"""What others reach, measured before and by other commands: see the text beside the table and docs/benchmarks.md."""

REPRODUCED = (
    ("cardinality", "accuracy of K"),
    ("cardinality", "accuracy of K, frontier"),
    ("calibration", "largest |coverage − α|, all sets and parameters"),
    ("scaling", "sd of f at K = 1 [mHz]"),
    ("scaling", "sd of f at K = 10 [mHz]"),
    ("scaling", "sd of A at K = 10 [%]"),
    ("scaling", "sd of φ at K = 10 [rad]"),
    ("slots", "consistency, repeated inference"),
)
"""Rows of docs/results/ that the README shows: file and measure."""


def reproduced(folder: Path) -> Iterator[tuple[str, ...]]:
    """Lines of the README's table: the paper, and ours of the network, the exact step and preset `paper`."""
    for name, measure in REPRODUCED:
        ours, small = (
            results_rows(folder / f"{name}.json"),
            results_rows(folder / "paper" / f"{name}.json"),
        )
        found = (ours.get(measure), ours.get(f"{measure}, exact step"), small.get(measure))
        paper = next((row["paper"] for row in found if row is not None), "")
        yield measure, paper or "–", *("–" if row is None else row["text"] for row in found)


def results_rows(path: Path) -> dict[str, dict[str, Any]]:
    """Rows of one result by their measure; none if the file is not there."""
    if not path.exists():
        return {}
    return {row["measure"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}


def own_line(rows: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """Our line of the comparison."""
    counts = [rows[f"{name}: exact-K errors in 10,000"]["note"] for name in ("nominal", "stress")]
    widths = [f"{rows[f'mean sd, K = {k}, f, mHz']['value']:.3f}" for k in (1, 10)]
    return (
        "`zoom`, 5.4 M parameters", *(note.removesuffix(" signals") for note in counts),
        f"{rows['frontier: exact-K']['value']:.3f}", f"{' and '.join(widths)} mHz",
        f"{times(rows)[0]} with 1,000 draws, K = 5",
    )  # fmt: skip


def times(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Time of the network and of the classical estimator on one core, from the card's note."""
    note = rows["zoom over the classical estimator, K = 5: time"]["note"]
    return note.split(",")[0].split(" against ")


def rival_lines(rows: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    """The others' lines; what was measured beside ours comes from the card."""
    *others, (name, *counts, _, widths, _) = RIVALS
    found = (
        rows["frontier: exact-K ahead of classical"]["note"].split("against ")[1].split(" on")[0]
    )
    time = f"{times(rows)[1]} with 1,000 draws, K = 5"
    return [*others, (name, *counts, f"{float(found):.3f}", widths, time)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Renders tables and pictures of the documentation."
    )
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if stale")
    parser.add_argument("--results", type=Path, help="folder that `slotflow reproduce` wrote")
    arguments = parser.parse_args()
    check = arguments.check
    if arguments.results is not None and not check:
        take_over(arguments.results, RESULTS_FOLDER)
    tables = dict(render_tables(embedded_card(MODEL)))
    pages = {ROOT / page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    wanted = {path: fill(text, tables) for path, text in pages.items()}
    if groups := collected():
        pages[RESULTS_PAGE] = (
            RESULTS_PAGE.read_text(encoding="utf-8") if RESULTS_PAGE.exists() else ""
        )
        wanted[RESULTS_PAGE] = render_markdown(groups, RESULTS_PAGE)
    stale = [path for path, text in pages.items() if wanted[path] != text]
    if check:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"stale: {names}; run python docs/render.py" if stale else "up to date")
        sys.exit(bool(stale))
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    draw_pictures()


def collected() -> list[list[Record]]:
    """The results that docs/results/ holds."""
    return collect(RESULTS_FOLDER, list(RESULTS.values()))


def take_over(source: Path, folder: Path) -> None:
    """Copies numbers and pictures of results, those of each network in a folder of its own, and drops old ones.

    Args:
        source: Folder that `slotflow reproduce` wrote.
        folder: Where they go; what was there is removed.
    """
    groups = collect(source, list(RESULTS.values()))
    if not groups:
        sys.exit(f"{source}: expected results of `slotflow reproduce`, found none; check the path.")
    if folder.exists():
        shutil.rmtree(folder)
    for record in (record for group in groups for record in group):
        for file in (record.picture, record.picture.with_suffix(".json")):
            target = folder / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def fill(text: str, tables: dict[str, str]) -> str:
    """A page with its tables renewed."""

    def block(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in tables:
            raise ValueError(f"expected a table among {sorted(tables)}, received {name!r}.")
        return f"<!-- begin {name} -->\n{tables[name]}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\w+) -->\n.*?<!-- end \1 -->", block, text, flags=re.DOTALL)


def render_tables(card: Card) -> Iterator[tuple[str, str]]:
    """Names of the tables and their Markdown."""
    rows = {row["measure"]: row for row in card.evaluation}
    judged = [row for name, row in rows.items() if name.startswith("coverage") and row["target"]]
    rows["coverage"] = max(judged, key=lambda row: abs(row["value"]))
    shown = [(name, rows[measure]) for measure, name in HEADLINES.items() if measure in rows]
    yield (
        "headlines",
        table(
            ("measure", "value", "target", "met"),
            ((name, value(row), target(row), verdict(row)) for name, row in shown),
        ),
    )
    yield (
        "results",
        table(
            ("measure", "value", "target", "met", "note"),
            (
                (row["measure"], value(row), target(row), verdict(row), row["note"])
                for row in card.evaluation
                if not row["measure"].startswith("mean sd")
            ),
        ),
    )
    yield "comparison", table(COMPARED, [*rival_lines(rows), own_line(rows)])
    yield (
        "widths",
        table(
            ("mean posterior sd, nominal", "zoom", "beside it"),
            (
                (row["measure"].removeprefix("mean sd, "), f"{row['value']:.3g}", row["note"])
                for row in card.evaluation
                if row["measure"].startswith("mean sd")
            ),
        ),
    )
    training, steps = card.training, card.training["steps"]
    facts = (
        ("parameters", f"{card.parameters:,}"),
        ("training", f"{training['seconds']:.0f} s of one {training['device']}"),
        ("steps × batch", f"{steps:,} × {card.signals // steps:,}"),
        ("signals, each seen once", f"{card.signals:,}"),
        ("signals per second, validation included", f"{card.signals / training['seconds']:,.0f}"),
        (
            "share of right counts, validation mixture",
            f"{training['validation']['k_accuracy']:.4f}",
        ),
        ("content hash", f"`{card.hash[:23]}…`"),
        ("date of the card", card.date),
    )
    yield "training", table(("", ""), facts)
    yield "ablations", ablation_table(ROOT / "docs" / "data" / "ablations.json")
    yield (
        "reproduced",
        table(
            (
                "",
                "paper",
                "`zoom`",
                "`zoom` and the exact step",
                "preset `paper`, trained for minutes",
            ),
            reproduced(RESULTS_FOLDER),
        ),
    )
    exact = json.loads((ROOT / "docs" / "data" / "exact.json").read_text(encoding="utf-8"))
    yield (
        "exact",
        table(
            ("measure", "value", "target", "met", "note"),
            (
                (row["measure"], value(row), target(row), verdict(row), row["note"])
                for row in exact["rows"]
            ),
        ),
    )


def table(header: tuple[str, ...], rows: Any) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines)


def value(row: dict[str, Any]) -> str:
    """A row's value in a few digits."""
    x, measure = row["value"], row["measure"]
    if x is None or not measured(row):
        return "–"
    if "errors in" in measure or "per second" in measure:
        return f"{x:,.0f}"
    if measure.startswith("coverage"):
        return f"{100 * x:+.2f} %".replace("-", "−")
    if "recall" in measure:
        return f"{x:.5f}"
    if "bound" in measure:
        return f"{x:.3f}"
    return f"{x:.4f}" if 0 < abs(x) < 1 else f"{x:.3g}"


def target(row: dict[str, Any]) -> str:
    """A row's target as it is written in text."""
    if row["target"] is None:
        return ""
    if row["measure"].startswith("coverage"):
        return f"±{100 * row['high']:.2g} %"
    if row["measure"].startswith("GPU"):
        return f"≥ {row['low']:,}"
    return str(row["target"]).replace("<=", "≤").replace(">=", "≥")


def verdict(row: dict[str, Any]) -> str:
    """Whether a row meets its target."""
    if row["target"] is None:
        return ""
    if not measured(row):
        return "not measured yet"
    return {True: "yes", False: "**no**", None: "open"}[row["passed"]]


def measured(row: dict[str, Any]) -> bool:
    """Whether enough signals are behind a comparison with another method."""
    found = re.search(r"on the same ([\d,]+) signals", row["note"])
    return found is None or int(found.group(1).replace(",", "")) >= ENOUGH


def draw_pictures() -> None:
    """Diagram, training curves, demo, and the pictures of docs/results/ from the numbers beside them."""
    from slotflow import SlotFlow, simulate
    from slotflow.cli.demo import SEED
    from slotflow.show.plots import plot_posterior, plot_training, save_figure

    images = ROOT / "docs" / "images"
    (images / "zoom.svg").write_text(draw_zoom(), encoding="utf-8")
    (images / "exact.svg").write_text(draw_exact(), encoding="utf-8")
    for name in ("zoom", "paper", "debug"):
        curve = plot_training(ROOT / "docs" / "data" / f"{name}-metrics.jsonl")
        save_figure(curve, images / f"{name}-training.png", dpi=110)
    model = SlotFlow.from_pretrained(MODEL)
    config = model.config
    sim = simulate(config.prior, 1, config.long, config.short, mode="physical", seed=SEED)
    post = model.infer(sim.observation(0), prior=config.prior)
    figure = plot_posterior(post, sim.components(0), band=config.prior.frequency)
    save_figure(figure, images / "demo.png", dpi=110)
    save_figure(crowded(), images / "crowded.png", dpi=110)
    for record in (record for group in collected() for record in group):
        save_figure(record.result.plot(record.content["data"]), record.picture, dpi=110)


if __name__ == "__main__":
    main()
