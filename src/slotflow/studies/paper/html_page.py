"""A folder of results as one page of HTML that needs no other file (`slotflow.show.report.html`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slotflow.show.report.html import badge, code, escape, figure, page, table, write_page
from slotflow.studies.paper.entry import Data
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
KIND = {True: "met", False: "missed", None: "open"}

STYLE = """
.look { color: var(--open); font-weight: 600; }
td.ours { font-weight: 600; }
td.ours, td.paper, td.target { white-space: nowrap; }
@media (max-width: 44rem) {
  td.ours, td.paper, td.target { white-space: normal; }
  td.verdict::before { content: ""; }
}
"""


def write_html(path: Path, groups: Sequence[Sequence[Record]]) -> None:
    """Writes the page.

    Args:
        path: File to write.
        groups: Records of each result.
    """
    write_page(path, render_html(groups))


def render_html(groups: Sequence[Sequence[Record]]) -> str:
    """The page's text."""
    lines = [
        "<header>",
        f"<h1>{escape(TITLE)}</h1>",
        f"<p>{escape(INTRODUCTION)}</p>",
        "</header>",
        '<nav aria-label="Contents">',
        "<ol>",
        *(_contents(group) for group in groups),
        "</ol>",
        "</nav>",
        "<main>",
    ]
    for group in groups:
        lines += [
            f'<section id="{group[0].result.name}">',
            f"<h2>{escape(heading(group[0]))}</h2>",
        ]
        for record in group:
            if len(group) > 1 and record.model:
                lines.append(f"<h3>Network {escape(record.model)}</h3>")
            lines += _entry(record)
        lines.append("</section>")
    return page(TITLE, [*lines, "</main>"], STYLE)


def _contents(group: Sequence[Record]) -> str:
    """A line of the contents."""
    counts = []
    for record in group:
        if text := tally(record.content["rows"]):
            counts.append(f"{record.model}: {text}" if len(group) > 1 else text)
    small = f" <small>{escape('; '.join(counts))}</small>" if counts else ""
    return f'<li><a href="#{group[0].result.name}">{escape(heading(group[0]))}</a>{small}</li>'


def _entry(record: Record) -> list[str]:
    """One result of one network."""
    content, result = record.content, record.result
    look = quick_look(record)
    words = command(result, content["made"], content["facts"].get("source"))
    return [
        f'<p class="about">{code(about(record))}</p>',
        *([f'<p class="look">{escape(look)}</p>'] if look else []),
        *figure(record.picture.read_bytes(), result.title, result.caption),
        *table(COLUMNS, [_row(row) for row in content["rows"]]),
        f"<pre><code>{escape(words)}</code></pre>",
        f'<p class="about">{escape(time_of(record))}</p>',
    ]


def _row(row: Data) -> list[str]:
    """The cells of a line of a table."""
    word = verdict(row)
    return [
        escape(row["measure"]),
        escape(row["text"]),
        escape(row["paper"]),
        escape(row.get("target", "")),
        badge(word, KIND[row.get("met")]) if word else "",
        code(row["note"]),
    ]
