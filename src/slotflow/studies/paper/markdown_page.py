"""A folder of results as one page of Markdown, with links to the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slotflow.studies.paper.page import (
    INTRODUCTION,
    TITLE,
    about,
    command,
    heading,
    quick_look,
    tally,
    time_of,
    verdict,
)
from slotflow.studies.paper.records import Record

__all__ = ["render_markdown"]


def render_markdown(groups: Sequence[Sequence[Record]], page: Path) -> str:
    """The page's text.

    Args:
        groups: Records of each result.
        page: Where the page will stand; pictures are linked relative to it.
    """
    lines = [f"# {TITLE}", "", INTRODUCTION, ""]
    lines += [f"- [{heading(group[0])}](#{_anchor(heading(group[0]))})" for group in groups]
    for group in groups:
        lines += ["", f"## {heading(group[0])}"]
        for record in group:
            lines += _entry(record, page, several=len(group) > 1)
    return "\n".join(lines) + "\n"


def _entry(record: Record, page: Path, several: bool) -> list[str]:
    """Lines of one result of one network."""
    content, result = record.content, record.result
    picture = record.picture.relative_to(page.parent).as_posix()
    title = ["", f"### Network `{record.model}`"] if several and record.model else []
    words = [about(record), f"{time_of(record)}."]
    if met := tally(content["rows"]):
        words.append(f"{met.capitalize()}.")
    if look := quick_look(record):
        words.append(f"**{look}**")
    return [
        *title,
        "",
        " ".join(words),
        "",
        f"![{result.title}]({picture})",
        "",
        result.caption,
        "",
        "| | ours | paper | target | | |",
        "|---|---|---|---|---|---|",
        *(
            "| " + " | ".join(_cell(cell) for cell in (
                row["measure"], row["text"], row["paper"], row.get("target", ""), verdict(row), row["note"],
            )) + " |"
            for row in content["rows"]
        ),
        "",
        "```bash",
        command(result, content["made"], content["facts"].get("source")),
        "```",
    ]  # fmt: skip


def _cell(text: str) -> str:
    """Text that does not end a cell of a table."""
    return text.replace("|", "\\|")


def _anchor(title: str) -> str:
    """The name that a heading gets on a rendered page."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
