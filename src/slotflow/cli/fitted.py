"""Tables that fit the terminal: columns that have no room stand in a further table below, nothing is cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

__all__ = ["Column", "fitted"]

GAP = 2
"""Spaces between two columns."""


@dataclass(frozen=True)
class Column:
    """A column of text."""

    heading: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "right"
    style: str = ""

    @property
    def width(self) -> int:
        """Characters of the longest entry, and the gap beside it."""
        return max(cell_len(text) for text in (self.heading, *self.cells)) + GAP


def fitted(lead: Sequence[Column], groups: Sequence[Sequence[Column]], width: int) -> list[Table]:
    """The tables, one below the other.

    Args:
        lead: Columns that every table begins with, such as the number of the row.
        groups: The others; those of a group stand in the same table.
        width: Characters of a line. A group that is wider than that has a table of its own.
    """
    start = sum(column.width for column in lead)
    parts: list[list[Column]] = []
    used = 0
    for group in groups:
        needed = sum(column.width for column in group)
        if not parts or used + needed > width:
            parts.append([])
            used = start
        parts[-1] += group
        used += needed
    return [_table([*lead, *part]) for part in parts or [[]]]


def _table(columns: Sequence[Column]) -> Table:
    """A table of columns."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(
            escape(column.heading), justify=column.justify, style=column.style, no_wrap=True
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(escape(text) for text in row))
    return table
