"""Time stamps in files: units of time, headers that name them, times of day, and stamps as seconds.

Stamps are kept as seconds after the first one, which stands beside them on the file's own clock: an epoch of 10⁹ s
would otherwise cost the digits that the step is measured with.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotflow.data.gaps import last_digit
from slotflow.data.read.dates import BILLION, parse_date

__all__ = [
    "AUXILIARY",
    "DAY",
    "RATES",
    "STARTS",
    "STEPS",
    "TIME_HEADER",
    "Stamps",
    "clock_seconds",
    "header_unit",
    "parse_clock",
    "to_seconds",
    "unit_seconds",
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
UNIT_SECONDS = {name: seconds for seconds, names in UNITS.items() for name in names.split()}
UNIT_WORDS = {
    name for name in UNIT_SECONDS if len(name) > 2 or name in ("ns", "us", "µs", "ms", "jd")
}
"""Units that can be told from other words without any context, unlike d, h and s."""

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
CLOCK = re.compile(r"(\d{1,3}):([0-5]?\d)(?::([0-5]?\d))?(?:[.,](\d{1,18}))?$", re.ASCII)
HOUR, DAY = 3600.0, 86400.0
SMALLEST_COUNTS = {"ns": 1e18, "us": 1e15, "ms": 1e12}
"""Units, and the smallest number that is more likely a time since 1970 in this unit than one in seconds."""


class Stamps(NamedTuple):
    """Time stamps of n samples."""

    seconds: NDArray[np.float64]
    """Seconds after the first stamp, (n,); NaN where there is none."""
    start: float
    """The first stamp on the file's clock, in seconds; for dates, since 1970 began (UTC)."""
    resolution: float
    """What the last digit of a stamp is worth, in seconds."""
    dated: bool
    """Whether the stamps are dates."""


def unit_seconds(unit: str) -> float | None:
    """Seconds in a unit of time, or None if it is not known as one."""
    return UNIT_SECONDS.get(unit.strip(" .").lower().replace("μ", "µ"))


def header_unit(header: str, of_time: bool = False) -> str | None:
    """The unit in a header: ``x [V]``, ``x (V)``; of a time column also ``t/ms``, ``time_ms`` and ``days``.

    Args:
        header: The name of the column.
        of_time: Whether it is a column of time stamps.
    """
    if (inside := _in_brackets(header)) is not None:
        return inside or None
    if not of_time:
        return None
    _, slash, after = header.rpartition("/")
    if slash:
        return after.strip()
    words = re.split(r"[_\s]+", header.strip())
    if len(words) > 1 and unit_seconds(words[-1]) is not None:
        return words[-1]
    known = words[0].lower().replace("μ", "µ") in UNIT_WORDS and (
        len(words) == 1 or words[0][-1] in "dD"
    )
    return words[0] if known else None  # the days of BJD_TDB and of BJD - 2457000


def _in_brackets(header: str) -> str | None:
    """What stands between brackets at the end of a header, or None if there are none."""
    text = header.rstrip()
    start = max(text.rfind("["), text.rfind("("))
    inside = text[start + 1 : -1]
    if start < 0 or text[-1] not in "])" or "]" in inside or ")" in inside:
        return None
    return inside.strip()


def parse_clock(text: str) -> tuple[int, int, float | None] | None:
    """The parts of a time such as ``12:00:00.5``, or of ``12:30``, whose third part is None; None if it is no time.

    A fraction belongs to the last part: ``12:30.5`` has the parts 0, 12 and 30.5.
    """
    found = CLOCK.match(text.strip())
    if found is None:
        return None
    first, second, third, fraction = found.groups()
    if third is None and fraction is None:
        return int(first), int(second), None
    if third is None:
        return 0, int(first), float(f"{second}.{fraction}")
    return int(first), int(second), float(f"{third}.{fraction or 0}")


def clock_seconds(column: list[str], unit: str | None) -> tuple[NDArray[np.float64], str]:
    """A column of times such as ``12:00:00.5`` or ``12:30`` in seconds, counted on over midnight, and a note.

    Times of two parts are hours and minutes, or minutes and seconds. The header may say which (``time (min:s)``), or a
    fraction of the last part does. Without either they are taken for hours and minutes, which is noted, as long as no
    hour is above 23.

    Args:
        column: The times; what is no time is NaN.
        unit: What the header says in brackets, if anything.

    Returns:
        Seconds, (n,), and what was assumed, in words, or nothing.
    """
    parts = [parse_clock(text) for text in column]
    known = [(text, part) for text, part in zip(column, parts, strict=True) if part is not None]
    short = [(text, part) for text, part in known if text.count(":") == 1]
    if short and len(short) < len(known):
        other = next(text for text, _ in known if text.count(":") == 2)
        raise ValueError(
            f"expected times that all have two parts or all have three, received {short[0][0]!r} and {other!r}; write "
            "all of them as h:min:s."
        )
    note, period = "", DAY
    minutes = False
    if short:
        said = (unit or "").strip().lower()[:1] if ":" in (unit or "") else ""
        fraction = any(part[2] is not None for _, part in short)
        minutes = said == "m" or fraction
        most = max(part[0] for _, part in short)
        if not said and not fraction and most > 23:
            raise ValueError(
                f"expected times of day, received {short[0][0]!r} and hours up to {most}, which may be minutes and "
                "seconds; say so in the header, as in time (min:s) or time (h:min), or leave the column aside: "
                "time='none' with dt (on the command line --time none --dt SECONDS)."
            )
        if not said:
            meant = "minutes and seconds" if minutes else "hours and minutes"
            note = f"times such as {short[0][0]!r} taken as {meant}"
        period = HOUR if minutes else DAY
    seconds = np.array([math.nan if part is None else _seconds(part, minutes) for part in parts])
    return unwrap_clock(seconds, period), note


def _seconds(part: tuple[int, int, float | None], minutes: bool) -> float:
    """Seconds of the parts of a time; of two parts, whether they are minutes and seconds."""
    first, second, third = part
    if third is None:
        first, second, third = (0, first, float(second)) if minutes else (first, second, 0.0)
    return 60.0 * (60 * first + second) + third


def unwrap_clock(seconds: NDArray[np.float64], period: float = DAY) -> NDArray[np.float64]:
    """Times of day (n,) counted on over midnight; with another period, over the end of each."""
    return seconds + period * np.concatenate([[0], np.cumsum(np.diff(seconds) < -period / 2)])


def to_seconds(stamps: Array, unit: str | None = None, resolution: float = 0.0) -> Stamps:
    """Time stamps in seconds.

    Args:
        stamps: Numbers or dates (datetime64), (n,).
        unit: Unit of the numbers: one of time, or one of time ``since`` a date; None for seconds.
        resolution: What the last printed digit is worth, in that unit (of dates, in seconds).
    """
    if stamps.ndim != 1 or stamps.size == 0 or stamps.dtype.kind not in "fiubM":
        raise ValueError(
            f"expected time stamps as numbers or dates of shape (n,), received shape {stamps.shape} of "
            f"type {stamps.dtype}; drop them and give dt instead."
        )
    present = ~np.isnat(stamps) if stamps.dtype.kind == "M" else np.isfinite(stamps.astype(float))
    if 2 * present.sum() < stamps.size:
        raise ValueError(
            f"expected time stamps, received {int((~present).sum())} missing of {stamps.size}; name another column "
            "with time, or leave them aside: time='none' with dt (on the command line --time none --dt SECONDS)."
        )
    first = int(np.argmax(present))
    if stamps.dtype.kind == "M":
        ticks = stamps.astype("M8[ns]").astype(np.int64)
        after = np.where(present, (ticks - ticks[first]) / BILLION, math.nan)
        return Stamps(after, float(ticks[first] / BILLION), resolution, True)
    name, since, reference = (unit or "s").partition(" since ")
    worth, epoch = unit_seconds(name), parse_date(reference)
    if worth is None or (since and epoch is None):
        raise ValueError(
            f"expected time stamps in one of the units ns, us, ms, s, min, h, d, yr (or one of them since a date), "
            f"received {unit!r}; state the unit with time_unit (on the command line --time-unit)."
        )
    start = float(stamps[first])
    likely = next((name for name, least in SMALLEST_COUNTS.items() if abs(start) >= least), None)
    if unit is None and likely is not None:
        raise ValueError(
            f"expected time stamps in seconds, since no unit is stated, received {start:.6g} as the first one, which "
            f"looks like {likely} since 1970; state the unit with time_unit={likely!r}, or 's' if it is that (on the "
            f"command line --time-unit {likely})."
        )
    raw = np.where(present, stamps.astype(np.float64), math.nan)
    rounding = last_digit(stamps[present])
    after = raw - start
    if stamps.dtype.kind in "iu" and np.abs(raw).max() < 2**62:  # exact: nanoseconds since 1970
        ticks = stamps.astype(np.int64)
        after, rounding = (ticks - ticks[0]).astype(np.float64), 0.0
    origin = start * worth + (epoch or 0) / BILLION
    return Stamps(after * worth, origin, max(resolution, rounding) * worth, bool(since))
