"""A folder of results as one page of Markdown, with links to the pictures (`templates/results.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotflow.show.report.page import render
from slotflow.studies.frame.settings import NAMES
from slotflow.studies.paper.contents import CONTENTS, contents_table
from slotflow.studies.paper.files import Record
from slotflow.studies.paper.verdicts import StudyRecord
from slotflow.studies.paper.words import (
    CONTENTS_WORDS,
    TITLE,
    about,
    command,
    heading,
    introduction,
    quick_look,
    time_of,
)
from slotflow.studies.row import is_compared, tally, verdict
from slotflow.studies.zoom_scaling.words import learned_part

__all__ = ["anchor", "render_markdown"]

FEW = 5
"""So many rows that only report a number stay in the table; more of them are folded below it."""

COLUMNS = {"measure": "", "text": "ours", "paper": "paper", "target": "target", "verdict": "", "note": ""}  # fmt: skip
"""Headings of a table's columns."""
OF_TARGETS = ("target", "verdict")
"""Columns that a table without targets does not have."""


def render_markdown(
    groups: Sequence[Sequence[Record]], page: Path, studies: Mapping[str, StudyRecord]
) -> str:
    """The page's text.

    Args:
        groups: Records of each result.
        page: Where the page will stand; pictures are linked relative to it.
        studies: Records of studies by their name, as far as they were measured.
    """
    outline = [
        {
            "heading": heading(group[0]),
            "anchor": anchor(heading(group[0])),
            "entries": [_entry(record, page, several=len(group) > 1) for record in group],
        }
        for group in groups
    ]
    scaling = studies.get("zoom_scaling")
    first, alone, *others = introduction(groups, [name for name in NAMES if name not in studies])
    if scaling is not None:
        alone += f" {learned_part(scaling['data'])}"
    return render(
        "results.md",
        "slotflow.studies.paper",
        title=TITLE,
        introduction=(first, alone, *others),
        contents_words=CONTENTS_WORDS,
        contents=contents_table(groups, studies),
        groups=outline,
    )


def _entry(record: Record, page: Path, several: bool) -> dict[str, Any]:
    """One result of one network; the network is named if there are several."""
    content, result = record.content, record.result
    words = [about(record), f"{time_of(record)}."]
    if met := tally(record.rows):
        words.append(f"{met.capitalize()}.")
    if look := quick_look(record):
        words.append(f"**{look}**")
    judged = any(row.get("target") for row in record.rows)
    columns = {name: title for name, title in COLUMNS.items() if judged or name not in OF_TARGETS}
    rows = [
        {**row, "target": row.get("target") or "", "verdict": verdict(row)} for row in record.rows
    ]
    others = _only_reported(record, rows)
    folded = others if len(others) > FEW else []
    return {
        "network": record.model if several else "",
        "words": " ".join(words),
        "title": result.title,
        "picture": record.picture.relative_to(page.parent).as_posix(),
        "caption": record.caption,
        "columns": list(columns.values()),
        "rows": _cells([row for row in rows if row not in folded], list(columns)),
        "folded": _cells(folded, ("measure", "text", "note")),
        "command": command(result, content["made"], content["facts"].get("source")),
    }


def _only_reported(record: Record, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows that nothing is said of: neither judged, nor in the paper, nor what a claim about a figure is about."""
    by_measure = {row["measure"]: row for row in record.rows}
    claimed = [
        claim.row(by_measure, record.model)
        for item in CONTENTS
        if item.result == record.result.name
        for claim in item.claims
    ]
    named = {row["measure"] for row in claimed if row is not None}
    return [row for row in rows if not is_compared(row) and row["measure"] not in named]


def _cells(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[str]]:
    """Rows of a table, columns by their names."""
    return [[row[name].replace("|", "\\|") for name in names] for row in rows]


def anchor(title: str) -> str:
    """The name that a heading gets on a rendered page.

    Args:
        title: The heading, without the signs that begin it.
    """
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
