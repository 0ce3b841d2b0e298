"""Text tables: what instruments and spreadsheets write, with or without headers, units and dates."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from functools import partial

import numpy as np

from slotflow.tables import Array, Table
from slotflow.timestamps import TIME_HEADER, header_unit, join_dates, parse_date, unit_seconds

__all__ = ["text_table"]

MISSING = {"", "-", "--", "?", "na", "n/a", "null", "none", "missing"}
"""What people write for a value that they do not have."""


def text_table(raw: bytes, untimed: bool = False) -> Table:
    """Parses a text table; see :func:`_split` for its grammar.

    Args:
        raw: The file's bytes.
        untimed: Do not take the first column of a table without headers for time stamps.

    Returns:
        Columns of numbers, NaN where a value is missing, or of dates. A column is parsed when it is asked for, so
        that words in a column that nobody reads do no harm.
    """
    numbers, rows, headers = _split(raw)
    width = len(rows[0])
    for number, row in zip(numbers, rows, strict=True):
        if len(row) != width:
            raise ValueError(
                f"line {number}: expected {width} column(s) as in line {numbers[0]}, "
                f"received {len(row)}; complete or remove the line."
            )
    names = headers[0] if headers else []
    if len(names) != width or len(set(names)) != width:
        names = [f"column {j + 1}" for j in range(width)]
    fields = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    time = None
    if width > 1:
        time = next(filter(TIME_HEADER.match, names), None if untimed else names[0])
    units = {name: unit for name in names if (unit := header_unit(name, name == time))}
    if len(headers) > 1 and len(headers[1]) == width:
        units = _unit_line(dict(zip(names, headers[1], strict=True)), time) | units
    getters: dict[str, Callable[[], Array]] = {
        name: partial(_column, column, numbers) for name, column in fields.items()
    }
    offered = [n for n in names if n != time and any(map(_numeric, fields[n]))]
    resolution = 0.0 if time is None else _resolution(fields[time], getters[time]())
    return Table(
        names,
        lambda name: getters[name](),
        True,
        offered,
        time,
        units=units,
        resolution=resolution,
    )


def _unit_line(line: dict[str, str], time: str | None) -> dict[str, str]:
    """Units in a second line of headers: in brackets, or bare below a column of time stamps in known units."""
    bare = time is not None and unit_seconds(line[time]) is not None
    known = {name: text for name, text in line.items() if bare or header_unit(text) is not None}
    return {name: text.strip("[]() ") for name, text in known.items() if text}


def _column(column: list[str], numbers: list[int]) -> Array:
    """One column as float64 or datetime64, (n,); `numbers` are the lines it stands in."""
    if parse_date(column[0]) is not None:
        dates = [parse_date(field) for field in column]
        for number, field, date in zip(numbers, column, dates, strict=True):
            if date is None and field.lower() not in MISSING:
                raise ValueError(
                    f"line {number}: expected a date such as 2024-03-01T12:00:00, received {field!r}; "
                    "correct or remove the line."
                )
        ticks = [np.iinfo(np.int64).min if date is None else date for date in dates]
        return np.array(ticks, dtype="M8[ns]")
    values = np.empty(len(column))
    for i, (number, field) in enumerate(zip(numbers, column, strict=True)):
        try:
            values[i] = math.nan if field.lower() in MISSING else float(field)
        except ValueError:
            raise ValueError(f"line {number}: {_not_a_number(field)}") from None
    return values


def _resolution(column: list[str], values: Array) -> float:
    """Worth of the last digit of printed numbers, or of the seconds of printed dates."""
    if values.dtype.kind == "M":
        found = [re.search(r":\d{1,2}[.,](\d+)", field) for field in column]
        return 10.0 ** -max(len(part[1]) if part else 0 for part in found)
    largest = float(np.abs(values).max())
    if not math.isfinite(largest) or largest == 0:
        return 0.0
    digits = max(len(re.sub(r"[eE].*|\D", "", field).lstrip("0")) for field in column)
    return 10.0 ** (math.floor(math.log10(largest)) - digits + 1)


def _split(raw: bytes) -> tuple[list[int], list[list[str]], list[list[str]]]:
    """Splits a text table into fields.

    Lines that are blank or start with # or % are skipped. The delimiter is the first of tab, semicolon and comma that
    the second line holds (the first line, where the second is a single field), else white space; with semicolons a
    decimal comma is understood. Fields may be quoted. Leading lines without any number are headers, the first of which
    names the columns. Empty fields at the end of all lines are dropped.

    Returns:
        The line number of each row, counted from 1; the fields of each row; the headers.
    """
    if b"\0" in raw:
        raise ValueError("expected text, received binary data; check the format and the suffix.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # headers with a micro or degree sign from older instruments
    numbered = ((i, line.strip(" \r\n")) for i, line in enumerate(text.splitlines(), 1))
    lines = [(i, line) for i, line in numbered if line.strip() and line.lstrip()[0] not in "#%"]
    if not lines:
        raise ValueError("the file holds no data; expected at least one sample.")
    sample = lines[min(1, len(lines) - 1)][1].strip()
    if len(re.split(r"[\s;,]", sample)) == 1:
        sample = lines[0][1].strip()
    delimiter = next((d for d in "\t;," if d in sample), None)
    numbers: list[int] = []
    rows: list[list[str]] = []
    headers: list[list[str]] = []
    for number, line in lines:
        row = _fields(line, delimiter, number)
        if delimiter == ";":
            row = [f.replace(",", ".") if f.count(",") == 1 and "." not in f else f for f in row]
        if rows or any(map(_numeric, filter(None, row))):
            numbers.append(number)
            rows.append(row)
        else:
            headers.append(_cut(row, 1))
    if not rows:
        number, line = lines[0]
        raise ValueError(f"line {number}: {_not_a_number(line.strip()[:40])}")
    width = max(len(_cut(row, 1)) for row in rows)
    return numbers, [_cut(row, width) for row in rows], headers


def _fields(line: str, delimiter: str | None, number: int) -> list[str]:
    """The fields of one line."""
    if delimiter is None:
        fields = join_dates(line).split()
    elif '"' in line:
        try:
            fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
        except csv.Error as error:
            raise ValueError(f"line {number}: {error}; correct the quotation marks.") from None
    else:
        fields = line.split(delimiter)
    return [field.strip().strip("\"'") for field in fields]


def _cut(row: list[str], width: int) -> list[str]:
    """A row without the empty fields at its end, but not shorter than a width."""
    while len(row) > width and not row[-1]:
        row = row[:-1]
    return row


def _numeric(field: str) -> bool:
    """Whether a field stands for a number, be it missing or complex."""
    try:
        complex(field.replace("i", "j") if field[-1:] == "i" else field)
    except ValueError:
        return field.lower() in MISSING
    return True


def _not_a_number(field: str) -> str:
    """Says what a field is that is not a real number."""
    if _numeric(field):
        return f"expected a real number, received the complex {field!r}; keep the real part only."
    return f"expected a number, received {field!r}; numbers are written like 0.5 or 5e-1."
