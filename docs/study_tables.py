"""The blocks of docs/studies.md: of each study its claim, what was judged, the tally and budget, and all other numbers.

A study without a record has its claim and the measurement that is still to be made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slotflow.studies.frame.registry import STUDIES
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Study
from slotflow.studies.paper.markdown import anchor
from slotflow.studies.row import is_compared, met_of
from slotflow.studies.zoom_scaling.words import learned_part

__all__ = ["OVERVIEW", "STUDY_FOLDER", "quoted_sentences", "study_records", "study_tables"]

STUDY_FOLDER = "studies"
"""Folder of the studies' records in docs/data/."""
OVERVIEW = {
    "formulas": ("The formulas", "the closed formulas of section 4 give the numbers worked out with them"),
    "elbo": ("The evidence lower bound", "the ELBO is a lower bound of ln p(x)"),
    "gradient": ("Gradients and the phase weight", "the phase weight w_φ multiplies gradients by w_φ"),
    "distinguishable": ("Distinguishable slots", "distinguishable tones get a slot each"),
    "domain": ("Domain representation", "spectrum and samples together give the narrowest errors"),
    "phase_weight": ("Phase weight", "w_φ = 2 is best for the phase, w_f = 3 for the frequency"),
    "depth": ("Flow depth", "8 or 10 flow layers are best for the phase"),
    "sample_complexity": ("Sample complexity", "the training set that is needed grows with K, but weakly"),
    "leaderboard": ("The methods of table 1, trained alike", "each method has the properties that table 1 marks"),
    "zoom_scaling": ("Scaling of `zoom`", "our own: widths from the joint steps, counts from learning; more is better"),
}  # fmt: skip
"""Of each study its heading on the page, and its claim in a few words."""
FOR_A_GPU = ("sample_complexity", "zoom_scaling")
"""Studies whose full size asks for a GPU; the others train small networks, one on each core."""
HELD = {True: "held", False: "**not held**", None: "open"}

Record = Mapping[str, Any]
Table = Callable[..., str]
"""Makes a Markdown table of a header and rows."""


def study_records(data: Path) -> dict[str, Record]:
    """Records of the studies that docs/data/ holds, by name, in the order of the page."""
    paths = {name: data / STUDY_FOLDER / f"{name}.json" for name in STUDIES}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.exists()
    }


def study_tables(data: Path, table: Table) -> Iterator[tuple[str, str]]:
    """Names of the blocks and their Markdown.

    Args:
        data: docs/data/.
        table: Makes a Markdown table of a header and rows.
    """
    records = study_records(data)
    yield "studies", _overview(records, table)
    for name, study in STUDIES.items():
        claim = f"**Claim** ({study.source}, {study.section}). {study.claim}"
        if name not in records:
            yield f"study_{name}", f"{claim}\n\n{_planned(study)}"
            continue
        record = records[name]
        parts = (
            claim,
            f"![{study.title}](images/study-{name}.png)",
            f"*{study.caption}*",
            _judged(record, table),
            f"**{_tally(record)}** {_budget(name, record)}",
            _others(record, table),
        )
        yield f"study_{name}", "\n\n".join(part for part in parts if part)


def quoted_sentences(data: Path) -> Iterator[tuple[str, str]]:
    """Blocks of other pages that quote a study: names and Markdown."""
    scaling = study_records(data).get("zoom_scaling")
    yield "learned_part", learned_part(None if scaling is None else scaling["data"])


# ---------------------------------------------------------------------- all studies


def _overview(records: Mapping[str, Record], table: Table) -> str:
    """One line for each study."""
    lines = []
    for name in STUDIES:
        heading, claim = OVERVIEW[name]
        link = f"[{heading}](#{anchor(heading)})"
        if name not in records:
            lines.append((link, claim, "not yet measured", "", ""))
            continue
        record = records[name]
        facts = record["facts"]
        budget = f"{facts['signals']:,} signals, {_minutes(record)}"
        lines.append((link, claim, _counted(record), _rounds(facts), budget))
    return table(("study", "claim", "held", "rounds", "budget"), lines)


# ---------------------------------------------------------------------- one study


def _planned(study: Study) -> str:
    """What is still to be measured."""
    settings = Settings()
    where = "--device cuda" if study.name in FOR_A_GPU else "--jobs 8"
    return (
        f"**Not yet measured.** In full size: {study.rounds(settings)} rounds of {study.signals(settings):,} signals, "
        f"`slotflow study {study.name} {where}`{'' if study.name in FOR_A_GPU else ', a core for each job'}."
    )


def _judged(record: Record, table: Table) -> str:
    """The rows that are judged, then those that only have the paper's value beside ours."""
    compared = (row for row in record["rows"] if is_compared(row))
    rows = (
        (row["measure"], row["text"], row["paper"], _asked(row), _held(row), row["note"])
        for row in sorted(compared, key=lambda row: not row["target"])
    )
    return table(("", "ours", "paper", "held if", "", ""), rows)


def _others(record: Record, table: Table) -> str:
    """All other rows, folded; the blank lines let GitHub and the site read the table."""
    rows = [
        (row["measure"], row["text"], row["note"]) for row in record["rows"] if not is_compared(row)
    ]
    if not rows:
        return ""
    summary = "<summary>All other numbers</summary>"
    return f'<details markdown="1">\n{summary}\n\n{table(("", "ours", ""), rows)}\n\n</details>'


def _asked(row: Mapping[str, Any]) -> str:
    """Where a value must lie for the claim to hold; empty where the row asks nothing."""
    return (row["target"] or "").replace("<=", "≤").replace(">=", "≥")


def _held(row: Mapping[str, Any]) -> str:
    """Whether a claim held; empty where the row asks nothing."""
    return HELD[met_of(row)] if row["target"] else ""


def _counted(record: Record) -> str:
    """How many of the judged rows held, and how many are open."""
    found = [met_of(row) for row in record["rows"] if row["target"]]
    open_ones = f", {found.count(None)} open" if None in found else ""
    return f"{found.count(True)} of {len(found)}{open_ones}"


def _tally(record: Record) -> str:
    """How many claims held; so far, if rounds are missing."""
    held, comma, open_ones = _counted(record).partition(",")
    facts = record["facts"]
    so_far = "" if facts["rounds"] == facts["rounds_planned"] else " so far"
    return f"{held} held{so_far}{comma}{open_ones}."


def _rounds(facts: Mapping[str, Any]) -> str:
    """How many rounds were measured, of how many."""
    return f"{facts['rounds']} of {facts['rounds_planned']}"


def _minutes(record: Record) -> str:
    """Time and machine."""
    facts = record["facts"]
    jobs = facts.get("jobs", 1)
    shared = f" ({jobs} processes at a time)" if jobs > 1 else ""
    return f"{facts['seconds'] / 60:.1f} minutes on {facts['device']}{shared}"


def _budget(name: str, record: Record) -> str:
    """Signals, time and the command."""
    facts, made = record["facts"], record["made"]
    jobs = facts.get("jobs", 1)
    on_gpu = made["device"] == "cuda"
    gpu = f", {facts['seconds'] / 60 / jobs:.0f} GPU minutes" if on_gpu else ""
    options = " --device cuda" * on_gpu + f" --jobs {jobs}" * (jobs > 1)
    options += f" --seed {made['seed']}" if made["seed"] else ""
    return (
        f"Budget: {facts['signals']:,} signals in {_rounds(facts)} rounds, {_minutes(record)}{gpu}: "
        f"`slotflow study {name}{options}`."
    )
