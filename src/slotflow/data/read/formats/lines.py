"""The lines of a text table: comments, headers, an instrument's preamble, and rows of fields."""

from __future__ import annotations

import csv
import re
from collections import Counter
from typing import NamedTuple

from slotflow.data.read.timestamps import (
    TIME_HEADER,
    header_unit,
    join_dates,
    parse_clock,
    parse_date,
)

__all__ = ["MISSING", "Lines", "is_numeric", "split_lines"]

MISSING = {"", "-", "--", "?", "na", "n/a", "null", "none", "missing"}
MISSING |= {"#n/a", "#na", "#num!", "#value!", "#div/0!", "#ref!"}
"""What people, and spreadsheets, write for a value that they do not have."""
COMMENT = re.compile(r"(#|%|!|//)+\s*")
WITH_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?$")
WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?$")


class Lines(NamedTuple):
    """A text table, split into fields."""

    numbers: list[int]
    """Line number of each row, counted from 1."""
    rows: list[list[str]]
    """Fields of each row, all of one length."""
    names: list[str]
    """What the header calls the columns; empty if there is none."""
    units: list[str]
    """What the line below it says; empty if there is none."""
    skipped: tuple[int, ...]
    """Numbers of the lines above the table that are neither comments nor headers."""


def split_lines(raw: bytes) -> Lines:
    """Splits a text table into fields.

    Lines that are blank or start with #, %, ! or // are skipped. The delimiter is the first of tab, semicolon and comma
    that a line in the middle holds (the first line, where that is a single field), else white space; a decimal comma is
    understood where the delimiter is not a comma. Fields may be quoted. Empty fields at the end of lines are dropped.

    The table begins with the first line of numbers that has as many fields as most lines. Lines without any number
    right above it are headers, of which one names the columns; so does a comment there that speaks of time or of
    units. Other lines above it, such as an instrument's settings, are skipped.
    """
    lines, comments = _lines(raw)
    delimiter, decimal = _delimiter(lines)
    rows = [_fields(line, delimiter, number) for number, line in lines]
    if decimal:
        rows = [[f.replace(",", ".") if WITH_COMMA.match(f) else f for f in row] for row in rows]
    usual = Counter(map(len, rows)).most_common(1)[0][0]
    middle = next(row for row in rows[len(rows) // 2 :] + rows if len(row) == usual)
    first = next((i for i, row in enumerate(rows) if _is_row(row, middle)), None)
    if first is None:
        number, line = lines[0]
        raise ValueError(
            f"line {number}: expected a number, received {line.strip()[:40]!r} and none below it; a table has one row "
            "of numbers such as 0.5 or 5e-1 for each sample."
        )
    usual = Counter(map(len, rows[first:])).most_common(1)[0][0]
    width = max(len(_cut(row, 1)) for row in rows[first:] if len(row) == usual)
    top = first
    while top > 0 and len(rows[top - 1]) in (usual, width) and not _has_number(rows[top - 1]):
        top -= 1
    headers = [row[:width] for row in rows[top:first]]
    if not headers:
        comment = comments.get(lines[first][0] - 1)
        above = lines[first - 1][1] if first else ""
        headers = _loose_header(above if comment is None else comment, delimiter, width)
        top -= len(headers) if comment is None else 0
    named = next((i for i, row in enumerate(headers) if any(map(TIME_HEADER.match, row))), 0)
    names, units = [*headers[named : named + 2], [], []][:2]
    body = [_cut(row, width) for row in rows[first:]]
    numbers = [number for number, _ in lines[first:]]
    for number, row in zip(numbers, body, strict=True):
        if len(row) != width:
            like = next(n for n, other in zip(numbers, body, strict=True) if len(other) == width)
            raise ValueError(
                f"line {number}: expected {width} column(s) as in line {like}, received {len(row)}; "
                "complete or remove the line."
            )
    skipped = tuple(number for number, _ in lines[: top + named])
    return Lines(numbers, body, names, units, skipped)


def _lines(raw: bytes) -> tuple[list[tuple[int, str]], dict[int, str]]:
    """The lines that are not blank with their numbers, and the comments among them, by number."""
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")  # how some spreadsheets write "Unicode text"
    if b"\0" in raw and not wide:
        raise ValueError(
            "expected text, received binary data; check the format and the suffix (standard input takes text alone)."
        )
    try:
        text = raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # headers with a micro or degree sign from older instruments
    lines: list[tuple[int, str]] = []
    comments: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip(" \r\n")
        mark = COMMENT.match(content.lstrip())
        start = re.split(r"[\s;,]", content.strip().lower(), maxsplit=1)[0]
        if mark and start not in MISSING:  # a row may begin with #N/A
            comments[number] = content.lstrip()[mark.end() :]
        elif content.strip() and not content.lower().startswith("sep="):  # a note to spreadsheets
            lines.append((number, content))
    if not lines:
        raise ValueError("the file holds no data; expected at least one sample.")
    return lines, comments


def _delimiter(lines: list[tuple[int, str]]) -> tuple[str | None, bool]:
    """What separates fields (None: white space), and whether numbers have a decimal comma."""
    sample = lines[len(lines) // 2][1].strip()
    if len(re.split(r"[\s;,]", sample)) == 1:
        sample = lines[0][1].strip()
    delimiter = next((d for d in "\t;," if d in sample), None)
    fields = [field.strip() for field in sample.split(delimiter)]
    if delimiter == "," and len(sample.split()) > 1 and all(map(WITH_COMMA.match, sample.split())):
        return None, True
    return delimiter, delimiter != "," and not any(map(WITH_POINT.match, fields))


def _has_number(row: list[str]) -> bool:
    """Whether some field of a line stands for a number."""
    return any(map(is_numeric, filter(None, row)))


def _is_row(row: list[str], middle: list[str]) -> bool:
    """Whether a line can be the first row of a table of which `middle` is one."""
    values = [_is_value(field) for field in row]
    alike = len(row) == len(middle) and values[0] >= _is_value(middle[0])
    return _has_number(row) and (alike or all(values))


def _is_value(field: str) -> bool:
    """Whether a field is a number, a date or a time of day."""
    stamp = parse_date(field) is not None or parse_clock(field) is not None
    return stamp or (field != "" and is_numeric(field))


def _loose_header(text: str, delimiter: str | None, width: int) -> list[list[str]]:
    """The line above the first row as its header, if it can be read as one: a comment, or words with spaces.

    Args:
        text: The line.
        delimiter: Of the table.
        width: Number of its columns.
    """
    splits = [[text], re.split(r"\s{2,}", text), re.split(r"\s+(?![\[(])", text)]
    if delimiter is not None:
        splits = [text.split(delimiter)]
    for fields in splits:
        names = [field.strip().strip("\"'") for field in fields]
        told = any(TIME_HEADER.match(name) or header_unit(name) for name in names)
        if len(names) == width and told and not _has_number(names):
            return [names]
    return []


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


def is_numeric(field: str) -> bool:
    """Whether a field stands for a number, be it missing or complex."""
    try:
        complex(field.replace("i", "j") if field[-1:] == "i" else field)
    except ValueError:
        return field.lower() in MISSING
    return True
