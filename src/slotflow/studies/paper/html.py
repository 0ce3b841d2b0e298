"""A folder of results as one page of HTML that needs no other file (`templates/results.html`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slotflow.show.report.page import Badge, Code, Picture, Table, render, write_page
from slotflow.studies.paper.files import Record
from slotflow.studies.paper.result import Data
from slotflow.studies.paper.words import (
    TITLE,
    about,
    command,
    heading,
    introduction,
    quick_look,
    time_of,
)
from slotflow.studies.row import WORDS, met_of, tally, verdict

__all__ = ["render_html", "write_html"]

COLUMNS = {
    "measure": "",
    "ours": "ours",
    "paper": "paper",
    "target": "target",
    "verdict": "verdict",
    "note": "",
}
"""Classes of the columns and what stands above them."""


def write_html(path: Path, groups: Sequence[Sequence[Record]]) -> None:
    """Writes the page.

    Args:
        path: File to write.
        groups: Records of each result.
    """
    write_page(path, render_html(groups))


def render_html(groups: Sequence[Sequence[Record]]) -> str:
    """The page's text."""
    return render(
        "results.html",
        "slotflow.studies.paper",
        title=TITLE,
        introduction=[Code(paragraph) for paragraph in introduction(groups)],
        groups=[_group(group) for group in groups],
    )


def _group(group: Sequence[Record]) -> dict[str, Any]:
    """One result, of one network or of several."""
    several = len(group) > 1
    tallies = [(record.model, tally(record.rows)) for record in group]
    return {
        "name": group[0].result.name,
        "heading": heading(group[0]),
        "tally": "; ".join(f"{model}: {t}" if several else t for model, t in tallies if t),
        "entries": [_entry(record, several) for record in group],
    }


def _entry(record: Record, several: bool) -> dict[str, Any]:
    """One result of one network; the network is named if there are several."""
    content, result = record.content, record.result
    return {
        "network": record.model if several else "",
        "about": Code(about(record)),
        "look": quick_look(record),
        "picture": Picture(result.title, record.caption, record.picture.read_bytes()),
        "table": Table(COLUMNS, [_row(row) for row in record.rows]),
        "command": command(result, content["made"], content["facts"].get("source")),
        "time": time_of(record),
    }


def _row(row: Data) -> list[object]:
    """The cells of a line of a table."""
    word = verdict(row)
    return [
        row["measure"],
        row["text"],
        row["paper"],
        row.get("target") or "",
        Badge(word, WORDS[met_of(row)]) if word else "",
        Code(row["note"]),
    ]
