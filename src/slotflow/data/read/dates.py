"""Dates as files write them: 2024-03-01T12:00:00.5Z, 01.03.2024, 20240301."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BILLION", "compact_dates", "join_dates", "parse_date", "print_date"]

Array = NDArray[Any]

DATE = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})"
    r"(?:[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d{1,18}))?)?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?$",
    re.ASCII,
)
SPLIT_DATE = re.compile(r"(\d{4}[-/]\d{1,2}[-/]\d{1,2})[ \t]+(?=\d{1,2}:\d{1,2})", re.ASCII)
DOTTED = re.compile(r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)
"""Day, month and year with dots. That order is the only one in use with dots; with strokes there are two."""
BILLION = 10**9
FEWEST_DATES = 3
"""Dates without strokes that are taken for such."""


def join_dates(line: str) -> str:
    """Writes a date and the time of day after it as one field, so that white space may separate columns."""
    return SPLIT_DATE.sub(r"\1T", DOTTED.sub(r"\3-\2-\1", line))


def parse_date(text: str) -> int | None:
    """Nanoseconds since 1970 began of a date such as ``2024-03-01T12:00:00.5Z``, or None if it is none.

    Day, month and year may stand with dots, 01.03.2024. Dates without a time zone are taken as UTC.
    """
    found = DATE.match(DOTTED.sub(r"\3-\2-\1", text.strip()))
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        days = datetime.date(year, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal()
    except ValueError:
        return None
    if not 1678 <= year <= 2261 or hour > 23 or minute > 59 or second > 60:
        return None
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    zone = (found[8] or "Z").replace(":", "")
    if zone[0] in "+-":
        seconds -= int(f"{zone[0]}1") * (int(zone[1:3]) * 3600 + int(zone[3:]) * 60)
    return seconds * BILLION + int((found[7] or "").ljust(9, "0")[:9])


def compact_dates(stamps: Array) -> Array | None:
    """Whole numbers such as 20240301, (n,), as days (datetime64), or None unless all of them are dates of 1600 to 2150.

    Counts of anything else run through numbers such as 20240332, which is none.
    """
    if stamps.ndim != 1 or stamps.dtype.kind not in "fiu" or stamps.size < FEWEST_DATES:
        return None
    numbers = stamps.astype(np.float64)
    if not ((numbers >= 1600_01_01) & (numbers <= 2150_12_31) & (numbers % 1 == 0)).all():
        return None
    whole = numbers.astype(np.int64)
    year, month, day = whole // 10_000, whole // 100 % 100, whole % 100
    months = (12 * (year - 1970) + month - 1).astype("M8[M]")
    dates = months.astype("M8[D]") + (day - 1)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (dates.astype("M8[M]") == months)
    return dates if valid.all() else None


def print_date(seconds: float) -> str:
    """Seconds since 1970 began as a date in UTC, to the microsecond."""
    start = datetime.datetime(1970, 1, 1)
    return (start + datetime.timedelta(seconds=seconds)).isoformat() + " UTC"
