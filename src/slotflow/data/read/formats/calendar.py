"""Dates that a text table spreads over columns: year, month, day, hour, minute, second.

With headers their names tell; without, the first columns are a calendar if they hold whole numbers that can be a year,
a month and a day (and an hour), and the dates rise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.data.read.names import plain

__all__ = ["Calendar", "calendar_of"]

PARTS = (
    ("year", "yr", "yyyy"),
    ("month", "mon", "mo", "mm"),
    ("day", "dy", "dd"),
    ("hour", "hr", "hh"),
    ("minute", "min", "mn"),
    ("second", "sec", "ss"),
)
"""What each part of a date is called."""
RANGES = ((1700, 2200), (1, 12), (1, 31), (0, 24), (0, 59), (0, 60))
"""Smallest and largest number of each part."""
SECONDS = (86400.0, 3600.0, 60.0, 1.0)
"""Seconds in a day, an hour, a minute and a second."""


class Calendar(NamedTuple):
    """Dates that stand in several columns."""

    columns: tuple[str, ...]
    """The columns."""
    dates: NDArray[np.datetime64]
    """The dates, (n,)."""

    @property
    def name(self) -> str:
        """What to call the dates."""
        return ", ".join(self.columns)


def calendar_of(
    names: Sequence[str], headed: bool, get: Callable[[str], NDArray[Any]]
) -> Calendar | None:
    """The dates in the columns of a table, or None where there are none.

    Args:
        names: The columns.
        headed: Whether the table has headers.
        get: Gives the numbers of a column.
    """
    columns = _by_name(names) if headed else list(names[: len(PARTS)])
    if len(columns) < (2 if headed else 3):
        return None
    parts: list[NDArray[np.float64]] = []
    for name, (low, high) in zip(columns, RANGES, strict=False):
        try:
            numbers = get(name)
        except ValueError:  # words, such as the names of months
            break
        if numbers.dtype.kind not in "fiu":
            break
        known = numbers[np.isfinite(numbers)]
        whole = len(parts) > 4 or bool(
            (known == np.rint(known)).all()
        )  # seconds may have a fraction
        if not (known.size and whole and low <= known.min() and known.max() <= high):
            break
        parts.append(numbers.astype(np.float64))
    if len(parts) < (2 if headed else 3) or (not headed and len(parts) >= len(names)):
        return None
    dates = _dates(parts)
    known = dates[~np.isnat(dates)]
    if not headed and (np.diff(known) <= np.timedelta64(0)).any():
        return None
    return Calendar(tuple(columns[: len(parts)]), dates)


def _by_name(names: Sequence[str]) -> list[str]:
    """The columns that are year, month and so on by their names, in this order, up to the first that is absent."""
    found = []
    for words in PARTS:
        column = next((name for name in names if plain(name) in words), None)
        if column is None:
            break
        found.append(column)
    return found


def _dates(parts: list[NDArray[np.float64]]) -> NDArray[np.datetime64]:
    """Dates of their parts, (n,); not a time where a part is missing."""
    present = np.isfinite(parts).all(axis=0)
    year, month, *rest = (
        np.where(present, part, low) for part, (low, _) in zip(parts, RANGES, strict=False)
    )
    months = (12 * (year - 1970) + month - 1).astype(np.int64).astype("M8[M]")
    seconds = np.zeros(year.size)
    for part, worth, first in zip(rest, SECONDS, (1, 0, 0, 0), strict=False):
        seconds += worth * (part - first)
    dates = months.astype("M8[ns]") + np.rint(1e9 * seconds).astype("m8[ns]")
    dates[~present] = np.datetime64("NaT")
    return np.asarray(dates)
