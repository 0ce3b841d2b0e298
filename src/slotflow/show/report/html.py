"""Pages of HTML that need no other file: pictures inside, no script, light and dark, on a phone and on a desk.

Text from outside (file names, verdicts, units) goes through `escape` or `code` before it becomes part of a page.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from slotflow.core.files import atomic_path

__all__ = ["badge", "code", "escape", "figure", "page", "table", "write_page"]

NARROW = 620
"""Width in CSS pixels up to which a picture is shrunk to a phone's screen; wider ones are swiped."""

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
figure { margin: 1rem 0; }
.picture { overflow-x: auto; width: var(--width, 100%); max-width: 100%; border: 1px solid var(--line);
  border-radius: .4rem; background: #fff; }
.picture img { display: block; width: 100%; height: auto; }
figcaption { font-size: .9rem; margin-top: .4rem; max-width: 46rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; }
tbody th, td.note { overflow-wrap: anywhere; min-width: 9rem; }
tbody th { color: var(--ink); font-weight: 400; }
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
  .wide img { width: min(var(--width, 46rem), 60rem); }
  .wide + figcaption::before { content: "Swipe the picture sideways. "; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table, tbody, tr, th, td { display: block; width: 100%; overflow-wrap: anywhere; }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  th, td { border: 0; padding: .1rem 0; }
  tbody th { font-weight: 600; }
  td:empty { display: none; }
  td::before { content: attr(data-label) " "; color: var(--soft); font-weight: 400; }
}
@media print { body { max-width: none; } section { break-inside: avoid-page; } }
"""


def page(title: str, body: Sequence[str], style: str = "") -> str:
    """A whole page.

    Args:
        title: What the browser's tab says, not yet escaped.
        body: Lines of HTML.
        style: CSS beyond what all pages share.
    """
    head = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>{STYLE}{style}</style>",
        "</head>",
        "<body>",
    ]
    return "\n".join([*head, *body, "</body>", "</html>"]) + "\n"


def write_page(path: str | Path, text: str) -> None:
    """Writes a page, whole or not at all; letters of a file name that are no Unicode become question marks."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, "utf-8", errors="replace")


def figure(png: bytes, title: str, caption: str, width: int | None = None) -> list[str]:
    """A picture with its caption, in a frame in which it scrolls where the window is narrow.

    Args:
        png: Content of a PNG file.
        title: Names the frame for readers of the screen.
        caption: Stands below, and for the picture where that cannot be seen.
        width: Of the picture in CSS pixels; None: as wide as the page.
    """
    across, down = struct.unpack(">II", png[16:24])  # of the first chunk
    encoded = base64.b64encode(png).decode("ascii")
    kind = "picture" if width is not None and width <= NARROW else "picture wide"
    size = "" if width is None else f' style="--width: {width}px"'
    return [
        "<figure>",
        f'<div class="{kind}" tabindex="0" role="group" aria-label="Picture: {escape(title)}"{size}>',
        f'<img src="data:image/png;base64,{encoded}" alt="{escape(caption)}" width="{across}" height="{down}">',
        "</div>",
        f"<figcaption>{escape(caption)}</figcaption>",
        "</figure>",
    ]


def table(columns: Mapping[str, str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table; on a phone each row becomes a block in which every value has its heading before it.

    Args:
        columns: Class and heading of each column; the first one names the rows.
        rows: Cells as HTML, one per column.
    """
    lines = ["<table>"]
    if any(columns.values()):
        heads = (f'<th scope="col">{escape(heading)}</th>' for heading in columns.values())
        lines.append(f"<thead><tr>{''.join(heads)}</tr></thead>")
    lines.append("<tbody>")
    for first, *rest in rows:
        cells = "".join(
            f'<td class="{name}" data-label="{escape(heading)}">{cell}</td>'
            for (name, heading), cell in zip(list(columns.items())[1:], rest, strict=True)
        )
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return [*lines, "</tbody>", "</table>"]


def badge(word: str, kind: str) -> str:
    """A word on a coloured ground: "met", "missed" or "open"."""
    return f'<span class="badge {kind}">{escape(word)}</span>'


def code(text: str) -> str:
    """Escaped text with `words` set as code."""
    parts = escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if i % 2 and i < len(parts) - 1 else part
        for i, part in enumerate(parts)
    )
