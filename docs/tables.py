"""The tables of README.md and docs/, from records alone: the card of the default model, docs/data/ and docs/results/.

No figure stands in this file. One that nobody can measure with a command of this repository has a record with a
`source` that says who measured it and how (docs/data/published.json).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cost_tables import cost_tables
from crowded_tables import crowded_tables
from many_tables import many_tables
from paper_tables import paper_tables
from performance_tables import performance_tables
from proof_tables import proof_tables
from study_tables import quoted_sentences, study_tables
from study_words import study_words

from slotflow.network.cards import Card
from slotflow.studies.row import met_of

__all__ = ["DATA", "RESULTS_FOLDER", "ROOT", "render_tables"]

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "data"
RESULTS_FOLDER = ROOT / "docs" / "results"
COMPARED_AT_LEAST = 100
"""A comparison on fewer signals says nothing and is shown as not measured."""

Rows = Mapping[str, Mapping[str, Any]]
"""Rows by their measure."""

COMPARED = (
    "", "wrong counts, paper's distribution", "wrong counts, stress", "right counts, frontier",
    "mean sd of f, K = 1 and 10", "time on one core",
)  # fmt: skip
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
"""Rows of docs/results/ that docs/reproduce.md shows: file and measure."""
ABLATED = {
    "nominal_exact": "nominal exact K", "stress_exact": "stress exact K", "frontier_exact": "frontier exact K",
    "sd_f": "sd / bound f", "sd_A": "A", "sd_phi": "φ",
    "error_f": "error / bound f", "error_A": "A", "error_phi": "φ",
}  # fmt: skip
"""Columns of the ablations."""


def render_tables(card: Card) -> Iterator[tuple[str, str]]:
    """Names of the tables and their Markdown."""
    rows: dict[str, Any] = {row["measure"]: row for row in card.evaluation}
    widths = [row for row in card.evaluation if row["measure"].startswith("mean sd")]
    others = [row for row in card.evaluation if not row["measure"].startswith("mean sd")]
    full = ("measure", "value", "target", "met", "note")
    yield "results", table(full, map(_cells, others))
    yield "comparison", table(COMPARED, _comparison(rows, card.parameters))
    lines = [
        (row["measure"].removeprefix("mean sd, "), f"{row['value']:.3g}", row["note"])
        for row in widths
    ]
    yield "widths", table(("mean posterior sd, nominal", "zoom", "beside it"), lines)
    yield "training", table(("", ""), _training(card))
    yield "ablations", table(("variant", *ABLATED.values()), _ablations())
    yield (
        "reproduced",
        table(
            (
                "",
                "paper",
                "`zoom`",
                "`zoom` and the exact step",
                "preset `paper` (the paper's text), our training",
            ),
            _reproduced(RESULTS_FOLDER),
        ),
    )
    exact = _read("exact")
    yield "exact", table(full, map(_cells, exact["rows"]))
    yield "exact_run", _exact_run(exact["facts"])
    weak = _read("weak")
    header = ("prior", "signals", "right counts", "exact", "approximate", "misfit")
    yield "weak", table(header, _weak(weak["results"]))
    yield from many_tables(DATA, table)
    yield from proof_tables(DATA, table)
    yield from study_tables(DATA, table)
    yield from study_words(DATA)
    yield from performance_tables(DATA, table)
    yield from cost_tables(DATA, table)
    yield from crowded_tables(DATA, table)
    yield from quoted_sentences(DATA)
    yield from paper_tables(ROOT, table)


def _read(name: str) -> Any:
    """A record of docs/data/."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


# ---------------------------------------------------------------------- the tables


def _comparison(rows: Rows, parameters: int) -> list[tuple[str, ...]]:
    """The authors' public weights, the classical estimator and ours."""
    published, sets = _read("published"), _read("classical")["sets"]
    size, times = _published_size(rows), _times(rows)
    widths = published["mean_sd_of_f_mhz"]
    ahead = rows["frontier: exact-K ahead of classical"]["note"]
    theirs = float(ahead.split("against ")[1].split(" on")[0])
    counts = [rows[f"{name}: exact-K errors in 10,000"]["note"] for name in ("nominal", "stress")]
    ours = [f"{rows[f'mean sd, K = {k}, f, mHz']['value']:.3f}" for k in (1, 10)]
    return [
        (
            f"{published['name']}, {size[0] / 1e6:.1f} M parameters",
            _count(published["nominal"]), _count(published["stress"]), "–",
            f"{' and '.join(f'{width:g}' for width in widths.values())} mHz (the paper's)", size[1],
        ),
        (
            "classical estimator", *(
                _count({"signals": one["signals"], "wrong": one["wrong_by_evidence"]})
                for one in (sets["nominal"], sets["stress"])
            ),
            f"{theirs:.3f}", "–", f"{times[1]} with 1,000 draws, K = 5",
        ),
        (
            f"`zoom`, {parameters / 1e6:.1f} M parameters",
            *(note.removesuffix(" signals") for note in counts),
            f"{rows['frontier: exact-K']['value']:.3f}", f"{' and '.join(ours)} mHz",
            f"{times[0]} with 1,000 draws, K = 5",
        ),
    ]  # fmt: skip


def _count(found: Mapping[str, Any]) -> str:
    """Wrong counts in words."""
    if "wrong_share" in found:
        return f"{100 * found['wrong_share']:.0f} % of {found['signals']:,}"
    return f"{found['wrong']:,} of {found['signals']:,}"


def _published_size(rows: Rows) -> tuple[int, str]:
    """Parameters and time of a network of the size of the authors' public weights, from the note in the card."""
    note = rows["authors' size, K = 10, over zoom, K = 10: time"]["note"]
    found = re.match(r"([\d,]+) parameters: (.+?) \+ (.+?) for 1000 draws", note)
    if found is None:
        raise ValueError(f"expected parameters and times in the card's note, received {note!r}.")
    forward, drawn = found[2], found[3]
    parameters = int(found[1].replace(",", ""))
    return parameters, f"{forward}, and {drawn} for 1,000 draws of 10 components"


def _times(rows: Rows) -> list[str]:
    """Time of the network and of the classical estimator on one core, from the note in the card."""
    note = str(rows["zoom over the classical estimator, K = 5: time"]["note"])
    return note.split(",")[0].split(" against ")


def _training(card: Card) -> list[tuple[str, str]]:
    """How the default model was trained."""
    training, steps = card.training, card.training["steps"]
    accuracy = training["validation"]["k_accuracy"]
    return [
        ("parameters", f"{card.parameters:,}"),
        ("training", f"{training['seconds']:.0f} s of one {training['device']}"),
        ("steps × batch", f"{steps:,} × {card.signals // steps:,}"),
        ("signals, each seen once", f"{card.signals:,}"),
        ("signals per second, validation included", f"{card.signals / training['seconds']:,.0f}"),
        ("share of right counts, validation mixture", f"{accuracy:.4f}"),
        ("content hash", f"`{card.hash[:23]}…`"),
        ("date of the card", card.date),
    ]


def _exact_run(facts: Mapping[str, Any]) -> str:
    """How the table of the exact step was made, in words."""
    total, analysed = sum(facts["signals"].values()), facts["analysed"]
    minutes = f"{facts['seconds'] / 60:,.0f} minutes"
    made = f"It is a single run, {total:,} tasks in {minutes}"
    if analysed < total:
        made = (
            f"It continued the records of an earlier run: {analysed:,} of {total:,} tasks were new"
        )
    times = (
        ""
        if "times" not in facts
        else "; times and Eryn were measured on another machine that did nothing else"
    )
    return (
        f"The table was made with seed {facts['seed']}. {made}, with {facts['jobs']} processes of one thread each"
        f"{times}."
    )


def _weak(results: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Counts and verdicts under each prior."""
    for name, found in results.items():
        verdicts = (found["verdicts"].get(word, 0) for word in ("exact", "approximate", "misfit"))
        yield name, found["signals"], found["right_counts"], *verdicts


def _ablations() -> Iterator[tuple[str, ...]]:
    """One line for each variant of the network."""
    for row in _read("ablations"):
        cells = (f"{row[c]:.4f}" if c.endswith("exact") else f"{row[c]:.3f}" for c in ABLATED)
        yield row["variant"], *cells


def _reproduced(folder: Path) -> Iterator[tuple[str, ...]]:
    """The paper's value, and ours of the network, of the exact step and of preset `paper`."""
    for name, measure in REPRODUCED:
        ours = _results_rows(folder / f"{name}.json")
        small = _results_rows(folder / "paper" / f"{name}.json")
        found = (ours.get(measure), ours.get(f"{measure}, exact step"), small.get(measure))
        paper = next((row["paper"] for row in found if row is not None), "")
        yield measure, paper or "–", *("–" if row is None else row["text"] for row in found)


def _results_rows(path: Path) -> Rows:
    """Rows of one result by their measure; none if the file is not there."""
    if not path.exists():
        return {}
    return {row["measure"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}


# ---------------------------------------------------------------------- cells


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Measure, value, target, verdict and note of a row."""
    return row["measure"], _value(row), _target(row), _verdict(row), row["note"]


def _value(row: Mapping[str, Any]) -> str:
    """A row's value in a few digits."""
    x, measure = row["value"], row["measure"]
    if x is None or not _measured(row):
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


def _target(row: Mapping[str, Any]) -> str:
    """A row's target as it is written in text."""
    if row["target"] is None:
        return ""
    if row["measure"].startswith("coverage"):
        return f"±{100 * row['high']:.2g} %"
    if row["measure"].startswith("GPU"):
        return f"≥ {row['low']:,}"
    return str(row["target"]).replace("<=", "≤").replace(">=", "≥")


def _verdict(row: Mapping[str, Any]) -> str:
    """Whether a row meets its target."""
    if row["target"] is None:
        return ""
    if not _measured(row):
        return "not measured yet"
    return {True: "yes", False: "**no**", None: "open"}[met_of(row)]


def _measured(row: Mapping[str, Any]) -> bool:
    """Whether enough signals are behind a comparison with another method."""
    found = re.search(r"on the same ([\d,]+) signals", row["note"])
    return found is None or int(found.group(1).replace(",", "")) >= COMPARED_AT_LEAST
