"""Text tables: what instruments and spreadsheets write, with or without headers, units and dates."""

from __future__ import annotations

import math
import re
from collections import Counter
from contextlib import suppress

import numpy as np

from slotflow.data.read.dates import parse_date
from slotflow.data.read.formats.calendar import calendar_of
from slotflow.data.read.formats.large import read_large
from slotflow.data.read.formats.lines import MISSING, is_numeric, split_lines, to_complex
from slotflow.data.read.marks import marks_in_text
from slotflow.data.read.names import complex_pair, plain
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import Array, Table, choose_time
from slotflow.data.read.timestamps import (
    TIME_HEADER,
    clock_seconds,
    header_unit,
    parse_clock,
    unit_seconds,
)

__all__ = ["text_table"]

INDEX_HEADER = re.compile(
    r"(|index|idx|sample|(sample )?(no|nr|number)\.?|#|row|rownames?|i|n|unnamed: 0)$",
    re.IGNORECASE,
)
"""Headers of a column that may count the rows; the first column has none in the tables of pandas."""
DECIMAL_DATE = re.compile(r"(dec(imal)?|frac(tional)?)[ _.]?(date|year)", re.IGNORECASE)
"""Headers of a column of years with a fraction, which stands beside others of year and month."""
NOT_DIGITS = re.compile(r"[eE].*|\D")
"""What is no digit of a number's mantissa."""
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,_' \u00a0\u202f]\d{3})+([.,]\d*)?$")
MANY_STAMPS = 2000
"""Stamps at either end, and about as many between them, that tell how many digits are printed."""


def text_table(raw: bytes, options: ReadOptions) -> Table:
    """Parses a text table; see :func:`slotflow.data.read.formats.lines.split_lines` for its grammar.

    Large tables that hold nothing but numbers are read by pandas (:mod:`slotflow.data.read.formats.large`).

    Args:
        raw: The file's bytes.
        options: What the caller says. Where that is a step and a column, the first column of a table without headers
            is not taken for time stamps.

    Returns:
        Columns of numbers, NaN where a value is missing, or of dates. A column is parsed when it is asked for, so
        that words in a column that nobody reads do no harm.
    """
    lines, numbers = read_large(raw) or (split_lines(raw), None)
    headers = lines.names or [""] * len(lines.rows[0])
    twice = {name for name, count in Counter(headers).items() if count > 1 or not name}
    names = [f"column {j + 1}" if name in twice else name for j, name in enumerate(headers)]
    fields = {name: [row[j] for row in lines.rows] for j, name in enumerate(names)}
    values: dict[str, Array] = {}
    if numbers is not None:
        values = {name: numbers[:, j] for j, name in enumerate(names)}
    counting = {
        name
        for name, header in zip(names, headers, strict=True)
        if lines.names and _is_index(header, fields[name], values.get(name))
    }

    def get(name: str) -> Array:
        if name not in values:
            values[name] = _column(fields[name], lines.numbers)
        return values[name]

    time, guess = _time_columns(names, counting, options)
    calendar = None
    if options.time is None and not _is_telling(guess):
        calendar = calendar_of(names, bool(lines.names), get)
    headed = zip(names, headers, strict=True)
    units = {name: unit for name, text in headed if (unit := header_unit(text, name == time))}
    if lines.units:
        units = _unit_line(dict(zip(names, lines.units, strict=True)), time) | units
    clock, notes = None, lines.notes
    if time is not None and calendar is None:
        clock = _join_clock(fields, time)
        if clock is None and _is_clock(fields[time]):
            values[time], note = clock_seconds(fields[time], units.get(time))
            units[time] = "s"
            notes += (note,) if note else ()

    apart: tuple[str | None, ...] = (time, guess, clock)
    if calendar is not None:
        time, apart = calendar.name, calendar.columns
        values[time] = calendar.dates
    offered = [n for n in names if n not in apart and any(map(is_numeric, fields[n]))]
    offered = [n for n in offered if n not in counting] or offered
    resolution = 0.0 if time not in fields else _resolution(fields[time], get(time))
    return Table(
        names,
        get,
        True,
        offered,
        time,
        units=units,
        resolution=resolution,
        marks=marks_in_text(lines.remarks),
        notes=notes,
    )


def _time_columns(
    names: list[str], counting: set[str], options: ReadOptions
) -> tuple[str | None, str | None]:
    """The column of time stamps, and the one that looks like it; None where there is none.

    Args:
        names: The columns.
        counting: Those that count the rows.
        options: What the caller says, who may name the column of time stamps or say that there is none.
    """
    guess = None
    if len(names) > 1:
        untimed = options.dt is not None and options.column is not None
        untimed |= (options.complex and len(names) == 2) or names[0] in (complex_pair(names) or ())
        first = None if untimed or names[0] in counting else names[0]
        guess = next(filter(TIME_HEADER.match, names), first)
        guess = next(filter(DECIMAL_DATE.match, names), guess)
    if options.time is None:
        return guess, guess
    time = choose_time(options.time, names, True)
    likely = time is None or (guess is not None and TIME_HEADER.match(guess))
    return time, guess if likely else None


def _is_telling(name: str | None) -> bool:
    """Whether a column of time stamps is more than the year of a calendar, by its name."""
    if name is None or plain(name) == "year":
        return False
    return TIME_HEADER.match(name) is not None or DECIMAL_DATE.match(name) is not None


def _is_index(header: str, column: list[str], values: Array | None) -> bool:
    """Whether a column counts the rows: its header says so, and its numbers are whole and rise (I may be a current).

    A column without a header is one too, unless it holds dates or times of day.

    Args:
        header: The column's header.
        column: Its fields, or some of them.
        values: All its numbers, if they are known.
    """
    if not INDEX_HEADER.match(header):
        return False
    if not header:
        return parse_date(_first(column)) is None and not _is_clock(column)
    try:
        known = [float(field) for field in column if field.lower() not in MISSING]
    except ValueError:
        return False
    numbers = np.array(known) if values is None else values
    if not np.isfinite(numbers).all():
        return False
    return bool((np.diff(numbers) > 0).all() and (numbers == np.floor(numbers)).all())


def _is_clock(column: list[str]) -> bool:
    """Whether a column holds times of day."""
    return parse_clock(_first(column)) is not None


def _first(column: list[str]) -> str:
    """The first field of a column that is not missing; an empty one if all are."""
    return next((field for field in column if field.lower() not in MISSING), "")


def _join_clock(fields: dict[str, list[str]], time: str) -> str | None:
    """Joins a column of days with one of times of day; the name of the latter, or None if it is not so."""
    first = _first(fields[time])
    if ":" in first or parse_date(first) is None:
        return None
    clock = next((name for name, column in fields.items() if _is_clock(column)), None)
    if clock is not None:
        fields[time] = [
            f"{day} {hour}" for day, hour in zip(fields[time], fields[clock], strict=True)
        ]
    return clock


def _unit_line(line: dict[str, str], time: str | None) -> dict[str, str]:
    """Units in a second line of headers: in brackets, or bare below a column of time stamps in known units."""
    bare = time is not None and unit_seconds(line[time]) is not None
    known = {name: text for name, text in line.items() if bare or header_unit(text) is not None}
    return {name: text.strip("[]() ") for name, text in known.items() if text}


def _column(column: list[str], numbers: list[int]) -> Array:
    """One column as float64 or datetime64, (n,); `numbers` are the lines it stands in."""
    if parse_date(_first(column)) is not None:
        dates = [parse_date(field) for field in column]
        for number, field, date in zip(numbers, column, dates, strict=True):
            if date is None and field.lower() not in MISSING:
                raise ValueError(
                    f"line {number}: expected a date such as 2024-03-01T12:00:00, received {field!r}; "
                    "correct or remove the line."
                )
        ticks = [np.iinfo(np.int64).min if date is None else date for date in dates]
        return np.array(ticks, dtype="M8[ns]")
    if _is_clock(column):
        return clock_seconds(column, None)[0]
    with suppress(ValueError):
        return np.array(list(map(_number, column)))
    values: Array = np.empty(len(column), dtype=np.complex128)
    for i, (number, field) in enumerate(zip(numbers, column, strict=True)):
        try:
            values[i] = math.nan if field.lower() in MISSING else _complex_number(field)
        except ValueError:
            raise ValueError(f"line {number}: {_not_a_number(field)}") from None
    is_complex = any(field.strip(") ")[-1:] in ("i", "j") for field in column)
    return values if is_complex else np.ascontiguousarray(values.real)


def _number(field: str) -> float:
    """A field as a number; refuses 1_000, which Python would read."""
    if "_" in field:
        raise ValueError(field)
    return float(field)


def _complex_number(field: str) -> complex:
    """A field as a complex number; refuses 1_000, which Python would read."""
    if "_" in field:
        raise ValueError(field)
    return to_complex(field)


def _resolution(column: list[str], values: Array) -> float:
    """Worth of the last digit of printed numbers, or of the seconds of printed dates."""
    step = max(len(column) // MANY_STAMPS, 1)
    some = column[:MANY_STAMPS] + column[MANY_STAMPS:-MANY_STAMPS:step] + column[-MANY_STAMPS:]
    if values.dtype.kind == "M" or _is_clock(column):
        found = [re.search(r":\d{1,2}[.,](\d+)", field) for field in some]
        return 10.0 ** -max(len(part[1]) if part else 0 for part in found)
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    if largest == 0:
        return 0.0
    digits = max(len(NOT_DIGITS.sub("", field).lstrip("0")) for field in some)
    return 10.0 ** (math.floor(math.log10(largest)) - digits + 1)


def _not_a_number(field: str) -> str:
    """Says what a field is that is not a real number."""
    if THOUSANDS.match(field):
        return f"expected a number, received {field!r}; write it without thousands separators."
    if len(re.findall(r"\d[-/.:]\d", field)) > 1 or re.match(r"\d{4}-\d", field):
        return (
            f"expected a number or a date such as 2024-03-01T12:00:00, received {field!r}; write dates year first, "
            "since the order of day and month cannot be told otherwise."
        )
    return f"expected a number, received {field!r}; numbers are written like 0.5 or 5e-1."
