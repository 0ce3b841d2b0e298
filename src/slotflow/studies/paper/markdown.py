"""A folder of results as one page of Markdown, with links to the pictures (`templates/results.md`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotflow.show.report.page import render
from slotflow.studies.frame.settings import NAMES
from slotflow.studies.paper.contents import contents_table
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
from slotflow.studies.row import tally, verdict
from slotflow.studies.zoom_scaling.words import learned_part

__all__ = ["render_markdown"]


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
            "anchor": _anchor(heading(group[0])),
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
    names = ("measure", "text", "paper", "target", "verdict", "note")
    rows = [
        {**row, "target": row.get("target") or "", "verdict": verdict(row)} for row in record.rows
    ]
    return {
        "network": record.model if several else "",
        "words": " ".join(words),
        "title": result.title,
        "picture": record.picture.relative_to(page.parent).as_posix(),
        "caption": record.caption,
        "rows": [[row[name].replace("|", "\\|") for name in names] for row in rows],
        "command": command(result, content["made"], content["facts"].get("source")),
    }


def _anchor(title: str) -> str:
    """The name that a heading gets on a rendered page."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
