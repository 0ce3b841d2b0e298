"""Time stamps in files: units of time, headers that name them, dates, and stamps as seconds.

Stamps are kept as seconds after the first one, which stands beside them on the file's own clock: an epoch of 10⁹ s
would otherwise cost the digits that the step is measured with.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AUXILIARY",
    "RATES",
    "STARTS",
    "STEPS",
    "TIME_HEADER",
    "Stamps",
    "header_unit",
    "join_dates",
    "parse_clock",
    "parse_date",
    "print_date",
    "to_seconds",
    "unit_seconds",
    "unwrap_clock",
]

Array = NDArray[Any]

UNITS = {
    1e-9: "ns nsec nanosecond nanoseconds",
    1e-6: "us µs usec microsecond microseconds",
    1e-3: "ms msec millisecond milliseconds",
    1.0: "s sec secs second seconds",
    60.0: "min mins minute minutes",
    3600.0: "h hr hrs hour hours",
    86400.0: "d day days jd mjd bjd hjd btjd bkjd rjd tjd",
    604800.0: "week weeks",
    31557600.0: "yr yrs year years",
}
"""Seconds in each unit of time, and how it is written; a year is 365.25 days."""
KNOWN = {name: seconds for seconds, names in UNITS.items() for name in names.split()}
WORDS = {name for name in KNOWN if len(name) > 2 or name in ("ns", "us", "µs", "ms", "jd")}
"""Units that are told from other words by themselves; d, h and s are not."""

STEPS, RATES = ("dt", "Xspacing"), ("fs", "sample_rate", "sampling_rate", "samplerate")
"""Names of a series' step in seconds, and of its samples per second."""
STARTS = ("t0", "Xstart")
"""Names of the time of its first sample in seconds."""
AUXILIARY = re.compile(
    rf"({'|'.join(STEPS + RATES + STARTS)}|times?|t|k|theta|sigma|snr_db)(_long|_short)?$"
)
"""Names of arrays that belong to a series or to the truth behind it."""
TIME_HEADER = re.compile(
    r"(times?|timestamps?|date|datetime|elapsed|epoch|seconds?|secs?|(milli|micro|nano)seconds?|"
    r"minutes?|hours?|days?|weeks?|years?|(b|h|m|r|t|bt|bk)?jd)(?![a-z])|(t|ms|us|[µμ]s|ns)(_[a-zµμ]+$|\s*[\[(/].*)?$",
    re.IGNORECASE,
)
"""Headers of a column of time stamps, with or without a unit."""
BRACKETS = re.compile(r"[\[(]\s*([^\[\]()]*?)\s*[\])]\s*$")
DATE = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})"
    r"(?:[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d{1,18}))?)?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?$",
    re.ASCII,
)
SPLIT_DATE = re.compile(r"(\d{4}[-/]\d{1,2}[-/]\d{1,2})[ \t]+(?=\d{1,2}:\d{1,2})", re.ASCII)
DOTTED = re.compile(r"^\s*(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII)
"""Day, month and year with dots, which is read in one way only; with strokes, it is not."""
CLOCK = re.compile(r"(\d{1,3}):([0-5]?\d)(?::([0-5]?\d)(?:[.,](\d{1,18}))?)?$", re.ASCII)
DAY = 86400.0
BILLION = 10**9
COUNTED = {"ns": 1e18, "us": 1e15, "ms": 1e12}
"""Units, and the smallest number that is more likely a time since 1970 in this unit than one in seconds."""


class Stamps(NamedTuple):
    """Time stamps of n samples."""

    seconds: NDArray[np.float64]
    """Seconds after the first stamp, (n,)."""
    start: float
    """The first stamp on the file's clock, in seconds; for dates, since 1970 began (UTC)."""
    resolution: float
    """Worth in seconds of the last digit of a stamp."""
    dated: bool
    """Whether the stamps are dates."""


def unit_seconds(unit: str) -> float | None:
    """Seconds in a unit of time, or None if it is not known as one."""
    return KNOWN.get(unit.strip(" .").lower().replace("μ", "µ"))


def header_unit(header: str, of_time: bool = False) -> str | None:
    """The unit in a header: ``x [V]``, ``x (V)``; of a time column also ``t/ms``, ``time_ms`` and ``days``.

    Args:
        header: The name of the column.
        of_time: Whether it is a column of time stamps.
    """
    if found := BRACKETS.search(header):
        return found[1] or None
    if not of_time:
        return None
    _, slash, after = header.rpartition("/")
    if slash:
        return after.strip()
    words = re.split(r"[_\s]+", header.strip())
    if len(words) > 1 and unit_seconds(words[-1]) is not None:
        return words[-1]
    known = words[0].lower().replace("μ", "µ") in WORDS and (
        len(words) == 1 or words[0][-1] in "dD"
    )
    return words[0] if known else None  # the days of BJD_TDB and of BJD - 2457000


def join_dates(line: str) -> str:
    """Writes a date and the time of day after it as one field, so that white space may separate columns."""
    return SPLIT_DATE.sub(r"\1T", DOTTED.sub(r"\3-\2-\1", line))


def parse_clock(text: str) -> float | None:
    """Seconds since midnight of a time of day such as ``12:00:00.5``, or None if it is none."""
    found = CLOCK.match(text.strip())
    if found is None:
        return None
    hour, minute, second, fraction = (part or "0" for part in found.groups())
    return 60.0 * (60 * int(hour) + int(minute)) + float(f"{second}.{fraction}")


def unwrap_clock(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times of day (n,) counted on over midnight."""
    return seconds + DAY * np.concatenate([[0], np.cumsum(np.diff(seconds) < -DAY / 2)])


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


def print_date(seconds: float) -> str:
    """Seconds since 1970 began as a date in UTC, to the microsecond."""
    start = datetime.datetime(1970, 1, 1)
    return (start + datetime.timedelta(seconds=seconds)).isoformat() + " UTC"


def to_seconds(stamps: Array, unit: str | None = None, resolution: float = 0.0) -> Stamps:
    """Time stamps in seconds.

    Args:
        stamps: Numbers or dates (datetime64), (n,).
        unit: Of the numbers: a unit of time, or one ``since`` a date; None: seconds.
        resolution: Worth of the last printed digit, in the unit (of dates: in seconds).
    """
    if stamps.ndim != 1 or stamps.size == 0 or stamps.dtype.kind not in "fiubM":
        raise ValueError(
            f"expected time stamps as numbers or dates of shape (n,), received shape {stamps.shape} of "
            f"type {stamps.dtype}; drop them and give dt instead."
        )
    bad = np.isnat(stamps) if stamps.dtype.kind == "M" else ~np.isfinite(stamps.astype(float))
    if bad.any():
        raise ValueError(
            f"times must be finite, received {int(bad.sum())} missing of {stamps.size}, the first at "
            f"index {int(np.argmax(bad))}; drop the time stamps and give dt, or cut these samples."
        )
    if stamps.dtype.kind == "M":
        ticks = stamps.astype("M8[ns]").astype(np.int64)
        after = (ticks - ticks[0]).astype(np.float64) / BILLION
        return Stamps(after, float(ticks[0] / BILLION), resolution, True)
    name, since, reference = (unit or "s").partition(" since ")
    worth, epoch = unit_seconds(name), parse_date(reference)
    if worth is None or (since and epoch is None):
        raise ValueError(
            f"expected time stamps in one of the units ns, us, ms, s, min, h, d, yr (or one of them since a date), "
            f"received {unit!r}; state the unit with time_unit (on the command line --time-unit)."
        )
    start = float(stamps[0])
    likely = next((name for name, least in COUNTED.items() if abs(start) >= least), None)
    if unit is None and likely is not None:
        raise ValueError(
            f"expected time stamps in seconds, since no unit is stated, received {start:.6g} as the first one, which "
            f"looks like {likely} since 1970; state the unit with time_unit={likely!r}, or 's' if it is that (on the "
            f"command line --time-unit {likely})."
        )
    raw = stamps.astype(np.float64)
    rounding = 2 * float(np.spacing(np.abs(raw).max()))
    after = raw - raw[0]
    if stamps.dtype.kind in "iu" and np.abs(raw).max() < 2**62:  # exact: nanoseconds since 1970
        ticks = stamps.astype(np.int64)
        after, rounding = (ticks - ticks[0]).astype(np.float64), 0.0
    first = start * worth + (epoch or 0) / BILLION
    return Stamps(after * worth, first, max(resolution, rounding) * worth, bool(since))
