"""Large text tables that hold nothing but numbers: pandas reads them, a hundred times faster than line by line.

A table of some size is looked at in three places (its beginning, its middle and its end), which tell its header, its
delimiter and how its numbers are printed (:mod:`slotflow.data.read.formats.lines`). If every character below the header
belongs to a number, to ``nan`` or a delimiter, pandas reads the rest. It fills short rows with NaN without a word. A
table with more NaN than its text holds, or with too few delimiters, or which pandas refuses, is read line by line,
which tells the line and what is wrong with it. Both ways give the same numbers, bit for bit, and the same notes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.data.read.formats.lines import Lines, split_lines

__all__ = ["read_large"]

LARGE = 2**18
"""Bytes from which on a table is large: below, line by line is quicker than to import pandas."""
SAMPLE = 2**15
"""Bytes of each of the three places that are looked at."""
NOT_A_NUMBER = re.compile(rb"[^0-9eE+\-.,;\t \r\nnNaA]")
"""What belongs to no number, be it a missing one."""
LETTERS = re.compile(rb"[nNaA]+")
"""What must be ``nan`` in a table of numbers."""


def read_large(raw: bytes) -> tuple[Lines, NDArray[np.float64]] | None:
    """Reads a large table of numbers.

    Args:
        raw: The file's bytes.

    Returns:
        Header, notes and some of the rows, and all numbers, (rows, columns); None for any other table.
    """
    if len(raw) < LARGE:
        return None
    with suppress(ValueError):  # pandas' own errors are ValueErrors too
        head = raw[: raw.rindex(b"\n", 0, SAMPLE) + 1]
        lines = split_lines(head)
        start = _offset(head, lines.numbers[0])
        commas = lines.delimiter != "," and raw.find(b",", start) >= 0
        noted = any("decimal comma" in note for note in lines.notes)
        lettered = any(raw.find(letter, start) >= 0 for letter in (b"n", b"N", b"a", b"A"))
        words = LETTERS.findall(raw, start) if lettered else []
        strange = any(word.lower() != b"nan" for word in words)
        if NOT_A_NUMBER.search(raw, start) or strange or commas != noted:
            return None
        numbers = _numbers(raw[start:], lines.delimiter, "," if commas else ".")
        parts = [lines, *(split_lines(_whole_lines(raw, place)) for place in (0.5, 1.0))]
        whole = _is_whole(raw[start:], numbers, lines.delimiter, len(words))
        if numbers.shape[1] == len(lines.rows[0]) and whole:
            alike = all(len(part.rows[0]) == numbers.shape[1] for part in parts)
            rows = [row for part in parts for row in part.rows]
            return (lines._replace(rows=rows), numbers) if alike else None
    return None


def _is_whole(
    body: bytes, numbers: NDArray[np.float64], delimiter: str | None, written: int
) -> bool:
    """Whether what is missing is written as ``nan`` or left empty, and no row is short.

    Args:
        body: The table below its header.
        numbers: What pandas made of it, (rows, columns).
        delimiter: What separates its fields; None for white space, which cannot stand around nothing.
        written: How many ``nan`` there are in it.
    """
    missing = int(np.isnan(numbers).sum())
    if missing == 0:
        return True
    if delimiter is None:
        return missing == written
    return bool(body.count(delimiter.encode()) == numbers.shape[0] * (numbers.shape[1] - 1))


def _offset(head: bytes, number: int) -> int:
    """Where a line begins, in bytes; refuses text in which a line may end in other ways than with a line feed."""
    ends = [match.end() for match in re.finditer(rb"\n", head)]
    if len(ends) != len(head.decode("utf-8-sig").splitlines()):
        raise ValueError("lines that end in an unusual way")
    return ends[number - 2] if number > 1 else 3 * head.startswith(b"\xef\xbb\xbf")


def _whole_lines(raw: bytes, place: float) -> bytes:
    """Some whole lines around a place in a file, which is given as a share of its length."""
    start = int(place * (len(raw) - SAMPLE))
    first = raw.index(b"\n", start) + 1
    return raw[first : raw.rindex(b"\n", first, start + SAMPLE) + 1]


def _numbers(body: bytes, delimiter: str | None, decimal: str) -> NDArray[np.float64]:
    """The numbers of a table without a header, (rows, columns); NaN where a row is too short or a field is empty.

    Args:
        body: The table.
        delimiter: What separates its fields; None for white space.
        decimal: Decimal point or comma.
    """
    import pandas as pd

    exact: dict[str, Any] = {}
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # from then on it is the default
        exact = {"float_precision": "round_trip"}
    frame = pd.read_csv(
        BytesIO(body),
        sep=r"\s+" if delimiter is None else delimiter,
        decimal=decimal,
        header=None,
        dtype=np.float64,
        **exact,
    )
    return np.asarray(frame.to_numpy(), dtype=np.float64)
