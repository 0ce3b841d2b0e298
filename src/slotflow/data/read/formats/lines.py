"""The lines of a text table: comments, headers, an instrument's preamble, and rows of fields."""

from __future__ import annotations

import csv
import re
from collections import Counter
from itertools import chain
from typing import NamedTuple

from slotflow.data.read.dates import join_dates, parse_date
from slotflow.data.read.timestamps import (
    TIME_HEADER,
    header_unit,
    parse_clock,
)

__all__ = ["MISSING", "Lines", "is_numeric", "split_lines", "to_complex"]

MISSING = {"", "-", "--", "?", "na", "n/a", "null", "none", "missing"}
MISSING |= {"#n/a", "#na", "#num!", "#value!", "#div/0!", "#ref!"}
"""What people, and spreadsheets, write for a value that they do not have."""
COMMENT = re.compile(r"(#|%|!|//)+\s*")
WITH_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?$")
WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?$")
MOST_COLUMNS = 16_384
"""Most columns of a table, as in a spreadsheet."""
MOST_REMARKS = 200
"""Comments and lines above the table that are kept."""
CAREFUL = {
    "\t": re.compile(r"[^\S\t]|[\"']"),
    ";": re.compile(r"[\s\"']"),
    ",": re.compile(r"[\s\"']"),
}
"""White space beside the delimiter and quotation marks, which take more than a split."""


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
    notes: tuple[str, ...]
    """What was skipped and assumed, in words."""
    delimiter: str | None
    """What separates fields; None for white space."""
    remarks: tuple[str, ...] = ()
    """Comments, and lines above the table."""


class _Row(NamedTuple):
    """The fields of one line."""

    fields: list[str]
    """The fields without the empty ones at the end, of which a spreadsheet may write thousands."""
    length: int
    """Number of fields, the empty ones at the end included."""

    def padded(self, width: int) -> list[str]:
        """The fields, with empty ones at the end only up to a width."""
        return self.fields + [""] * (min(self.length, width) - len(self.fields))


def split_lines(raw: bytes) -> Lines:
    """Splits a text table into fields.

    Lines that are blank or start with #, %, ! or // are skipped. The delimiter is the first of tab, semicolon and comma
    that a line in the middle holds (the first line, where that is a single field); without any of them it is white
    space. A decimal comma is understood where the delimiter is not a comma, and noted. Fields may be quoted. Empty
    fields at the end of lines are dropped.

    The table begins with the first line of numbers that has as many fields as most lines. Lines without any number
    right above it are headers, of which one names the columns; so does a comment there that speaks of time or of
    units. Other lines above it, such as an instrument's settings, are skipped.
    """
    lines, comments = _lines(raw)
    delimiter, decimal = _delimiter(lines)
    rows = [_row(line, delimiter, number) for number, line in lines]
    decimals = _replace_commas(rows, lines) if decimal else _Decimals([], [])
    first = _first_row(rows)
    if first is None:
        number, line = lines[0]
        raise ValueError(
            f"line {number}: expected a number, received {line.strip()[:40]!r} and none below it; a table has one row "
            "of numbers such as 0.5 or 5e-1 for each sample."
        )
    usual = Counter(row.length for row in rows[first:]).most_common(1)[0][0]
    width = max(len(row.fields) for row in rows[first:] if row.length == usual)
    top = first
    while top > 0 and rows[top - 1].length in (usual, width) and not _has_number(rows[top - 1]):
        top -= 1
    headers = [row.padded(width)[:width] for row in rows[top:first]]
    if not headers:
        comment = comments.get(lines[first][0] - 1)
        above = lines[first - 1][1] if first else ""
        headers = _loose_header(above if comment is None else comment, delimiter, width)
        top -= len(headers) if comment is None else 0
    named = next((i for i, row in enumerate(headers) if any(map(TIME_HEADER.match, row))), 0)
    names, units = [*headers[named : named + 2], [], []][:2]
    numbers = [number for number, _ in lines[first:]]
    body = _body(rows[first:], numbers, width)
    notes: tuple[str, ...] = ()
    if skipped := lines[: top + named]:
        notes = (
            f"{len(skipped)} line(s) above the table skipped, the last is line {skipped[-1][0]}",
        )
    notes += decimals.note(numbers[0])
    remarks = (*comments.values(), *(line for _, line in skipped))[:MOST_REMARKS]
    return Lines(numbers, body, names, units, notes, delimiter, remarks)


def _lines(raw: bytes) -> tuple[list[tuple[int, str]], dict[int, str]]:
    """The lines that are not blank with their numbers, and the comments among them, by number."""
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")  # how some spreadsheets write "Unicode text"
    if b"\0" in raw and not wide:
        raise ValueError(
            "expected text, received binary data; check the format and the suffix (standard input takes only text)."
        )
    try:
        text = raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # headers with a micro or degree sign from older instruments
    lines: list[tuple[int, str]] = []
    comments: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip(" \r\n")
        bare = content.lstrip()
        if not bare:
            continue
        if bare[0] in "#%!/" and (mark := COMMENT.match(bare)):
            start = re.split(r"[\s;,]", bare.lower(), maxsplit=1)[0]
            if start not in MISSING:  # a row may begin with #N/A
                comments[number] = bare[mark.end() :]
                continue
        if content[:4].lower() != "sep=":  # a note to spreadsheets
            lines.append((number, content))
    if not lines:
        raise ValueError("the file holds no data; expected at least one sample.")
    return lines, comments


def _delimiter(lines: list[tuple[int, str]]) -> tuple[str | None, bool]:
    """What separates fields (None for white space), and whether numbers have a decimal comma."""
    sample = lines[len(lines) // 2][1].strip()
    if len(re.split(r"[\s;,]", sample)) == 1:
        sample = lines[0][1].strip()
    delimiter = next((d for d in "\t;," if d in sample), None)
    fields = [field.strip() for field in sample.split(delimiter, MOST_COLUMNS)]
    words = sample.split(None, MOST_COLUMNS)
    if delimiter == "," and len(words) > 1 and all(map(WITH_COMMA.match, words)):
        return None, True
    return delimiter, delimiter != "," and not any(map(WITH_POINT.match, fields))


def _row(line: str, delimiter: str | None, number: int) -> _Row:
    """Splits one line, whose number is for complaints."""
    if delimiter is None or line[-1] == delimiter or CAREFUL[delimiter].search(line):
        fields, length = _careful_fields(line, delimiter, number)
    else:  # as most rows are: there is nothing to strip or to join
        fields = line.split(delimiter, MOST_COLUMNS)
        length = len(fields)
    if len(fields) > MOST_COLUMNS:
        raise ValueError(
            f"line {number}: expected at most {MOST_COLUMNS:,} columns, received more; write one row for each sample."
        )
    return _Row(fields, length)


def _careful_fields(line: str, delimiter: str | None, number: int) -> tuple[list[str], int]:
    """The fields of one line without the empty ones at its end, and their number with those."""
    trailing = 0
    if delimiter is None:
        fields = join_dates(line).split(None, MOST_COLUMNS)
    elif '"' in line:
        try:
            fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
        except csv.Error as error:
            raise ValueError(f"line {number}: {error}; correct the quotation marks.") from None
    else:
        content = line.rstrip(f"{delimiter} ")
        trailing = line.count(delimiter, len(content))
        fields = content.split(delimiter, MOST_COLUMNS)
    fields = [field.strip().strip("\"'") for field in fields]
    length = len(fields) + trailing
    while len(fields) > 1 and not fields[-1]:
        fields.pop()
    return fields, length


class _Decimals(NamedTuple):
    """Numbers with a decimal comma, and with a decimal point, in a table that may have decimal commas."""

    commas: list[tuple[int, str]]
    """Line number and field of each number with a comma."""
    points: list[tuple[int, str]]
    """The same of numbers with a point."""

    def note(self, first: int) -> tuple[str, ...]:
        """What to say of them in a table that begins in line `first`; refuses a table that has both.

        In a table with both, commas may separate thousands.
        """
        commas = [one for one in self.commas if one[0] >= first]
        points = [one for one in self.points if one[0] >= first]
        if not commas:
            return ()
        if points:
            raise ValueError(
                f"expected decimal points or decimal commas, received {points[0][1]!r} in line {points[0][0]} and "
                f"{commas[0][1]!r} in line {commas[0][0]}; write numbers without thousands separators."
            )
        return (f"numbers such as {commas[0][1]!r} read with a decimal comma",)


def _replace_commas(rows: list[_Row], lines: list[tuple[int, str]]) -> _Decimals:
    """Replaces decimal commas by points, in place."""
    found = _Decimals([], [])
    for row, (number, line) in zip(rows, lines, strict=True):
        if "," not in line and "." not in line:
            continue
        for i, field in enumerate(row.fields):
            if "," in field and WITH_COMMA.match(field):
                row.fields[i] = field.replace(",", ".")
                found.commas.append((number, field))
            elif "." in field and WITH_POINT.match(field):
                found.points.append((number, field))
    return found


def _first_row(rows: list[_Row]) -> int | None:
    """Where the table begins, or None if there is no row of numbers."""
    usual = Counter(row.length for row in rows).most_common(1)[0][0]
    half = len(rows) // 2
    middle = next(row for row in chain(rows[half:], rows) if row.length == usual)
    starts_with_value = _is_value(middle.fields[0])
    for i, row in enumerate(rows):
        if not _has_number(row):
            continue
        first, *others = row.fields
        unstamped = first.lower() in MISSING and bool(others) and all(map(_is_value, others))
        alike = row.length == middle.length and (_is_value(first) >= starts_with_value or unstamped)
        if alike or (row.length == len(row.fields) and all(map(_is_value, row.fields))):
            return i
    return None


def _body(rows: list[_Row], numbers: list[int], width: int) -> list[list[str]]:
    """The rows of the table, all of one width."""
    body = [row.fields if len(row.fields) == width else row.padded(width) for row in rows]
    for number, row in zip(numbers, body, strict=True):
        if len(row) != width:
            like = next(n for n, other in zip(numbers, body, strict=True) if len(other) == width)
            raise ValueError(
                f"line {number}: expected {width} column(s) as in line {like}, received {len(row)}; "
                "complete or remove the line."
            )
    return body


def _has_number(row: _Row | list[str]) -> bool:
    """Whether some field of a line stands for a number."""
    fields = row.fields if isinstance(row, _Row) else row
    return any(map(is_numeric, filter(None, fields)))


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


def is_numeric(field: str) -> bool:
    """Whether a field stands for a number, be it missing or complex."""
    if "_" in field:  # Python would read 1_000
        return False
    if len(field) > 1 and field[0].isalpha() and field[:3].lower() not in ("nan", "inf"):
        return field.lower() in MISSING  # a word, as most headers are
    try:
        to_complex(field)
    except ValueError:
        return field.lower() in MISSING
    return True


def to_complex(field: str) -> complex:
    """A field as a complex number: 1+2j, 1+2i, (1+-2j) as NumPy writes it, or a real number."""
    text = field.strip("() ")
    if text[-1:] in ("i", "j"):
        text = text[:-1].replace(" ", "").replace("+-", "-") + "j"
    return complex(text)
