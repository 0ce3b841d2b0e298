"""A folder of results as one page of HTML that needs no other file: pictures inside, no script, light and dark."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from html import escape
from pathlib import Path

from slotflow.io import atomic_path
from slotflow.reproduce.entry import Data
from slotflow.reproduce.page import (
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
from slotflow.reproduce.records import Record

__all__ = ["render_html", "write_html"]

COLUMNS = ("measure", "ours", "paper", "target", "verdict", "note")
KIND = {True: "met", False: "missed", None: "open"}

STYLE = """
:root { color-scheme: light dark; --ink: #1d2125; --soft: #5b6570; --line: #d9dee3; --paper: #ffffff;
  --shade: #f4f6f8; --link: #00588a; --met: #0b6b3a; --met-back: #e2f3e8; --missed: #a11d1d; --missed-back: #fbe6e4;
  --open: #7a5200; --open-back: #fdf1d8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --soft: #a2adb8; --line: #39424b; --paper: #14181c; --shade: #1d2329; --link: #7cc4f2;
    --met: #7fdba4; --met-back: #143524; --missed: #ff9d94; --missed-back: #43191a; --open: #f3c76b;
    --open-back: #3a2d10; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .25rem; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .25rem; }
p { margin: .4rem 0; max-width: 46rem; }
a { color: var(--link); }
nav ol { list-style: none; margin: .5rem 0; padding: 0; }
nav li { padding: .2rem 0; }
nav small, .about, figcaption { color: var(--soft); }
section { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: 1.5rem; }
.look { color: var(--open); font-weight: 600; }
figure { margin: 1rem 0; }
.picture { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; background: #fff; }
.picture img { display: block; width: 100%; height: auto; }
figcaption { font-size: .9rem; margin-top: .4rem; max-width: 46rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; }
tbody th, td.note { overflow-wrap: anywhere; min-width: 9rem; }
tbody th { color: var(--ink); font-weight: 400; }
td.ours { font-weight: 600; white-space: nowrap; }
td.paper, td.target { white-space: nowrap; }
td.note { color: var(--soft); }
.badge { display: inline-block; border-radius: .3rem; padding: 0 .4rem; white-space: nowrap; font-weight: 600; }
.met { color: var(--met); background: var(--met-back); }
.missed { color: var(--missed); background: var(--missed-back); }
.open { color: var(--open); background: var(--open-back); }
pre { background: var(--shade); border-radius: .4rem; margin: .8rem 0 .2rem; padding: .6rem .8rem; font-size: .85rem;
  white-space: pre-wrap; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .95em; }
@media (max-width: 44rem) {
  body { padding: 1rem .9rem 3rem; }
  .picture img { width: 46rem; max-width: none; }
  figcaption::before { content: "Swipe the picture sideways. "; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, th, td { display: block; width: 100%; overflow-wrap: anywhere; }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  th, td { border: 0; padding: .1rem 0; }
  td.ours, td.paper, td.target { white-space: normal; }
  tbody th { font-weight: 600; }
  td:empty { display: none; }
  td::before { content: attr(data-label) " "; color: var(--soft); font-weight: 400; }
  td.note::before, td.verdict::before { content: ""; }
}
@media print { body { max-width: none; } section { break-inside: avoid-page; } }
"""


def write_html(path: Path, groups: Sequence[Sequence[Record]]) -> None:
    """Writes the page.

    Args:
        path: File to write.
        groups: Records of each result.
    """
    with atomic_path(path) as temporary:
        temporary.write_text(render_html(groups), "utf-8")


def render_html(groups: Sequence[Sequence[Record]]) -> str:
    """The page's text."""
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(TITLE)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
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
    return "\n".join([*lines, "</main>", "</body>", "</html>"]) + "\n"


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
    image = record.picture.read_bytes()
    width, height = _size(image)
    encoded = base64.b64encode(image).decode("ascii")
    look = quick_look(record)
    words = command(result, content["made"], content["facts"].get("source"))
    return [
        f'<p class="about">{_code(about(record))}</p>',
        *([f'<p class="look">{escape(look)}</p>'] if look else []),
        "<figure>",
        f'<div class="picture" tabindex="0" role="group" aria-label="Picture: {escape(result.title)}">',
        f'<img src="data:image/png;base64,{encoded}" alt="{escape(result.caption)}" width="{width}" height="{height}">',
        "</div>",
        f"<figcaption>{escape(result.caption)}</figcaption>",
        "</figure>",
        "<table>",
        "<thead><tr>" + "".join(f'<th scope="col">{_header(name)}</th>' for name in COLUMNS) + "</tr></thead>",
        "<tbody>",
        *(_row(row) for row in content["rows"]),
        "</tbody>",
        "</table>",
        f"<pre><code>{escape(words)}</code></pre>",
        f'<p class="about">{escape(time_of(record))}</p>',
    ]  # fmt: skip


def _header(name: str) -> str:
    """What stands above a column."""
    return name if name in ("ours", "paper", "target", "verdict") else ""


def _row(row: Data) -> str:
    """A line of a table."""
    word = verdict(row)
    badge = f'<span class="badge {KIND[row.get("met")]}">{escape(word)}</span>' if word else ""
    cells = {
        "ours": escape(row["text"]),
        "paper": escape(row["paper"]),
        "target": escape(row.get("target", "")),
        "verdict": badge,
        "note": _code(row["note"]),
    }
    columns = "".join(
        f'<td class="{name}" data-label="{name}">{text}</td>' for name, text in cells.items()
    )
    return f'<tr><th scope="row">{escape(row["measure"])}</th>{columns}</tr>'


def _code(text: str) -> str:
    """Escaped text with `words` set as code."""
    parts = escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if i % 2 and i < len(parts) - 1 else part
        for i, part in enumerate(parts)
    )


def _size(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the first chunk of a PNG file."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height
