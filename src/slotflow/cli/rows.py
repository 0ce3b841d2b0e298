"""Tables of rows (`studies/row.py`) on a terminal, for `slotflow evaluate` and `slotflow reproduce`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slotflow.cli import output
from slotflow.studies.row import met_of, verdict

__all__ = ["plain_table", "print_rows", "wide_console"]

PIPE_COLUMNS = 150
"""Width of a table that goes to a file or a pipe, in characters."""
NOTE_COLUMNS = 100
"""A terminal with fewer characters in a line has no room for notes."""
COLOURS = {True: "green", False: "red", None: "yellow"}


def print_rows(rows: Sequence[Mapping[str, Any]], value_title: str = "value") -> bool:
    """Prints rows with the columns that any of them needs.

    Args:
        rows: Rows as plain values.
        value_title: What stands above the values.

    Returns:
        Whether there was room for notes.
    """
    console = wide_console()
    paper, asked = (any(row[key] for row in rows) for key in ("paper", "target"))
    notes = console.width >= NOTE_COLUMNS
    table = plain_table()
    table.add_column("measure", no_wrap=not paper)
    table.add_column(value_title, justify="right", no_wrap=True)
    if paper:
        table.add_column("paper", justify="right", no_wrap=True)
    if asked:
        table.add_column("target", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    if notes:
        table.add_column("note", style="dim")
    for row in rows:
        cells = [row["measure"], row["text"], *([row["paper"]] if paper else [])]
        cells += [row["target"] or ""] if asked else []
        cells = [escape(cell) for cell in cells]
        if asked:
            word, colour = verdict(row), COLOURS[met_of(row)]
            cells.append(f"[{colour}]{word}[/{colour}]" if word else "")
        table.add_row(*cells, *([escape(row["note"])] if notes else []))
    console.print(table, soft_wrap=False)
    return notes


def wide_console() -> Console:
    """The terminal, or a page wide enough for the notes where there is none."""
    if output.console.is_terminal:
        return output.console
    return Console(highlight=False, width=PIPE_COLUMNS)


def plain_table() -> Table:
    """A table without a frame."""
    return Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), show_edge=False)
