"""What belongs to a series of a file: its errors and segments, by name or by their numbers.

- Errors are what the caller names; otherwise the array called after the series (``flux_err``), or ``error``, ``sigma``
  and the like, if it has the shape of the series.
- In a table of three columns without headers, the third one holds the errors of the second if its numbers are positive
  and of the size of that one's scatter.
- Segments are an array of whole numbers that never fall.
"""

from __future__ import annotations

import numpy as np

from slotflow.data.read.names import errors_of, segments_of
from slotflow.data.read.tables import Table
from slotflow.data.read.timestamps import AUXILIARY

__all__ = [
    "NAMES_SHOWN",
    "candidates",
    "choose_errors",
    "choose_segments",
    "has_errors",
    "named_array",
]

ERROR_TO_SCATTER = (0.05, 3.0)
"""Smallest and largest error, as a share of the scatter from one sample to the next, of a column that holds errors."""
NAMES_SHOWN = 12
"""Names that a complaint lists at most."""


def named_array(table: Table, wanted: str | int, option: str) -> str:
    """An array that the caller names, or a column by its number."""
    if wanted in table.names:
        return str(wanted)
    if isinstance(wanted, str) and wanted.strip("/") in table.names:  # as HDF5 writes paths
        return wanted.strip("/")
    numbered = {str(i): name for i, name in enumerate(table.names, 1)}
    if str(wanted) in numbered:
        return numbered[str(wanted)]
    listing = ", ".join(map(repr, table.names[:NAMES_SHOWN])) or "none"
    raise ValueError(
        f"expected one of {listing} as {option}, received {wanted!r}; name another (on the command line --{option})."
    )


def candidates(table: Table) -> list[str]:
    """The arrays that can be the series."""
    series = table.offered
    if series is None:
        series = [name for name in table.names if name != table.time]
    if table.columns:
        return series
    return [name for name in series if not AUXILIARY.match(name.rpartition("/")[2])]


def choose_segments(
    table: Table, taken: tuple[str | None, ...], wanted: str | int | None
) -> str | None:
    """The array that numbers the parts of a series, if there is one.

    Args:
        table: The arrays of the file.
        taken: Arrays that are something else.
        wanted: What the caller names.
    """
    if wanted is not None:
        return named_array(table, wanted, "segments")
    found = segments_of(table.names)
    if not found or found in taken or not _is_numbering(table, found):
        return None
    return found


def _is_numbering(table: Table, name: str) -> bool:
    """Whether an array numbers parts that follow each other, unlike the quarters of a year, which come again."""
    try:
        labels = table.get(name)
    except ValueError:
        return False
    whole = labels.ndim == 1 and labels.dtype.kind in "fiu" and bool((labels % 1 == 0).all())
    return whole and bool((np.diff(labels) >= 0).all())


def choose_errors(
    table: Table, parts: tuple[str, ...], time: str | None, wanted: str | int | None
) -> tuple[str | None, tuple[str, ...]]:
    """The errors of a series, and what to say of their choice."""
    if wanted is not None:
        if str(wanted).lower() == "none" and wanted not in table.names:
            return None, ()
        return named_array(table, wanted, "errors"), ()
    others = [name for name in table.names if name not in (*parts, time)]
    found = errors_of(parts[0], [*others, parts[0]])
    if found is not None:
        return (found, ()) if _fits(table, parts[0], found) else (None, ())
    if has_errors(table, [parts[0], *others]):
        return others[0], (
            f"{others[0]!r} taken as the errors of {parts[0]!r}, since its numbers are of the size of that one's "
            "scatter",
        )
    return None, ()


def _fits(table: Table, name: str, errors: str) -> bool:
    """Whether an array has the shape of a series' errors."""
    rows = table.rows(name)
    try:
        found = table.get(errors)
    except ValueError:  # words in a column that nobody asked for
        return False
    if found.dtype.kind not in "fiu":
        return False
    shape = (rows.size,) if rows.count == 1 else (rows.count, rows.size)
    return found.shape == shape or (rows.count == 1 and found.shape == (1, rows.size))


def has_errors(table: Table, series: list[str]) -> bool:
    """Whether a table without headers holds a series and its errors: two columns beside the time stamps.

    Args:
        table: The columns.
        series: Those beside the time stamps.
    """
    unnamed = all(name.startswith("column ") for name in table.names)
    if not (table.columns and unnamed and table.time is not None and len(series) == 2):
        return False
    try:
        values, errors = (table.get(name) for name in series)
    except ValueError:
        return False
    if values.dtype.kind not in "fiu" or errors.dtype.kind not in "fiu":
        return False
    values, errors = values[np.isfinite(values)], errors[np.isfinite(errors)]
    if values.size < 2 or errors.size < 2 or errors.min() <= 0:
        return False
    scatter, typical = float(np.median(np.abs(np.diff(values)))), float(np.median(errors))
    low, high = ERROR_TO_SCATTER
    return low * scatter <= typical <= high * scatter
