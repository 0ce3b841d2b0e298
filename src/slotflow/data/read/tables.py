"""A file as a table of named arrays, whatever its format.

Every refusal is a ValueError; :func:`slotflow.data.read.formats.open_table` puts the file's name in front of it. See
:mod:`slotflow.data.read.series` for how a series is chosen among the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MOST_NUMBERS_OF_SMALL_FILES",
    "MOST_OBJECTS",
    "NUMBERS_PER_BYTE",
    "SHORTEST_SIGNAL",
    "Array",
    "Rows",
    "Table",
    "as_text",
    "check_kind",
    "check_packing",
    "check_size",
    "choose_time",
    "foreign",
    "one_column",
    "stored_bytes",
]

Array = NDArray[Any]

MOST_NUMBERS = 2**28
"""Most numbers in one array."""
MOST_NUMBERS_OF_SMALL_FILES = 2**25
"""Most numbers in an array of a file of any size: 256 MiB of memory in double precision."""
NUMBERS_PER_BYTE = 4
"""Most numbers in an array for each byte of a larger file: more than any measured series is packed to."""
MOST_OBJECTS = 100_000
"""Most arrays and groups in one file."""
SHORTEST_SIGNAL = 16
"""Samples of a row below which an array of more rows holds columns: so short a signal cannot be analysed."""


@dataclass(frozen=True)
class Rows:
    """The rows of an array, read when they are asked for.

    Args:
        count: How many there are.
        size: Numbers in each.
        read: Gives the rows first, …, last − 1.
    """

    count: int
    size: int
    read: Callable[[int, int], list[Array]]

    @classmethod
    def of(cls, values: Array) -> Rows:
        """The rows of an array in memory that has two dimensions; any other array is its own only row."""
        if values.ndim == 2 and values.size:
            return cls(len(values), values.shape[1], lambda first, last: list(values[first:last]))
        return cls(1, values.size, lambda first, last: [values][first:last])


@dataclass(frozen=True)
class Table:
    """The arrays of one file.

    Args:
        names: Their names, in the file's order.
        get: Gives an array by name.
        columns: Whether the arrays are columns of a text table or channels of a sound, which `column` names.
        offered: Those that can be the series, if that is known.
        time: Name of the column of time stamps in a text table.
        times: Name of the time stamps of each array that has some, where the format says so. Where it does not, time
            stamps are recognized by their name.
        step: Sampling step in seconds, where the format says so.
        units: Units by name, as they are written in the file.
        resolution: What the last printed digit of the time stamps is worth, in their unit.
        marks: Numbers that stand for missing values, as the file says.
        notes: What the reader did to the numbers, in words.
        slices: Gives the rows of a two-dimensional array without reading all of it; None where it cannot.
    """

    names: list[str]
    get: Callable[[str], Array]
    columns: bool = False
    offered: list[str] | None = None
    time: str | None = None
    times: Mapping[str, str] | None = None
    step: float | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    resolution: float = 0.0
    marks: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    slices: Callable[[str], Rows | None] | None = None

    def shape(self, name: str) -> tuple[int, int]:
        """Number of rows of an array and numbers in each."""
        found = self._rows(name)
        return found.count, found.size

    def rows(self, name: str) -> Rows:
        """The rows of an array; one row if it has one dimension. Refuses columns that pass for rows."""
        found = self._rows(name)
        if found.size < SHORTEST_SIGNAL < found.count:
            raise ValueError(
                f"expected one signal per row, received {found.count:,} rows of {found.size} in {name!r}: if each "
                "column is a series, write them as separate arrays (of an NPZ file, say: np.savez(file, t=a[:, 0], "
                "x=a[:, 1])), or transpose the array if each column is a signal of its own."
            )
        return found

    def _rows(self, name: str) -> Rows:
        """As `rows`, of any shape."""
        found = None if self.slices is None else self.slices(name)
        if found is None:
            values = self.get(name)
            if values.ndim not in (1, 2):
                raise ValueError(
                    f"expected a series of shape (n,), or one per row of shape (signals, n), received shape "
                    f"{values.shape} in {name!r}; write the part to analyse as such an array."
                )
            found = Rows.of(values)
        return found

    def find(self, name: str, role: str, *bases: str) -> str | None:
        """Finds a fact about a series, such as ``dt``: in its attributes, beside it or at the root of the file.

        Columns of a text table have no facts of this kind: a column called dt is a series like any other.

        Args:
            name: The series.
            role: ``long`` or ``short``.
            *bases: Names that the fact may have.
        """
        if self.columns:
            return None
        parent = name.rpartition("/")[0]
        prefixes = (f"{name}/", f"{parent}/" if parent else "", "")
        wanted = (f"{p}{b}{r}" for p in prefixes for r in (f"_{role}", "") for b in bases)
        return next((candidate for candidate in wanted if candidate in self.names), None)

    def time_of(self, name: str, role: str, wanted: str | int | None = None) -> str | None:
        """Name of the time stamps of a series, or None where there are none.

        Args:
            name: The series.
            role: ``long`` or ``short``.
            wanted: What the caller says they are, or ``none``; None leaves it to the file.
        """
        if wanted is not None:
            return choose_time(wanted, self.names, self.columns)
        if self.times is not None:
            return self.times.get(name)
        found = self.time or self.find(name, role, "times", "time", "t")
        return None if found == name else found

    def number(self, name: str) -> float:
        """An array that holds a single number."""
        value = self.get(name)
        if value.size != 1 or value.dtype.kind not in "fiu":
            raise ValueError(
                f"expected one number as {name!r}, received shape {value.shape} of type {value.dtype}."
            )
        return float(value.item())


def choose_time(wanted: str | int, names: list[str], columns: bool) -> str | None:
    """The array of time stamps that a caller names, or None for ``none``.

    Args:
        wanted: Its name, or the number of a column from 1.
        names: The arrays there are.
        columns: Whether they are columns.
    """
    if wanted in names:
        return str(wanted)
    numbered = {str(i): name for i, name in enumerate(names, 1)} if columns else {}
    if str(wanted).lower() != "none" and str(wanted) not in numbered:
        listing = ", ".join(map(repr, names[:12]))
        raise ValueError(
            f"expected the time stamps to be one of {listing}, or 'none', received {wanted!r}; name another with time "
            "(on the command line --time)."
        )
    return numbered.get(str(wanted))


@contextmanager
def foreign(format_name: str) -> Iterator[None]:
    """Turns whatever a format's own parser raises on a damaged file into a ValueError."""
    try:
        yield
    except Exception as error:  # the parsers promise no particular type
        pickled = " or pickled objects" if format_name == "NumPy" else ""
        raise ValueError(
            f"expected a {format_name} file of plain numbers, received a damaged or foreign file{pickled} "
            f"({type(error).__name__}: {error}); write it again."
        ) from error


def check_size(shape: tuple[int, ...], width: int = 8) -> None:
    """Refuses to read an array of an absurd size at once, before memory is asked for.

    Args:
        shape: The shape of what is to be read.
        width: Bytes of one entry; larger ones than a number of double precision count as several.
    """
    if math.prod(shape) * max(width, 8) // 8 > MOST_NUMBERS:
        raise ValueError(
            f"expected at most {MOST_NUMBERS:,} numbers in one array, received the shape {shape}; "
            "cut the series into pieces."
        )


def check_packing(shape: tuple[int, ...], stored: int, width: int = 8) -> None:
    """Refuses an array that a file of its size cannot hold: packed or unwritten, a few bytes may promise anything.

    Args:
        shape: The shape that the file promises.
        stored: Size of the file in bytes.
        width: Bytes of one entry.
    """
    count = math.prod(shape) * max(width, 8) // 8
    if count > max(MOST_NUMBERS_OF_SMALL_FILES, NUMBERS_PER_BYTE * stored):
        raise ValueError(
            f"expected an array that a file of {stored:,} bytes can hold, received one that unpacks to the shape "
            f"{shape}; write the part to analyse to a file of its own, without compression."
        )


def stored_bytes(path: Path) -> int:
    """Bytes that a file takes on the disk, or its size if that is smaller: a file may have holes."""
    facts = path.stat()
    blocks = getattr(facts, "st_blocks", 0)  # in units of 512 bytes; some file systems do not tell
    return min(facts.st_size, 512 * blocks) if blocks else facts.st_size


def check_kind(kind: str, name: str) -> None:
    """Refuses text and objects, which are of no use as numbers and of any size."""
    if kind in "OSU":
        raise ValueError(
            f"values must be numbers, received text or objects in {name!r}; name another array with dataset (on the "
            "command line --dataset)."
        )


def one_column(values: Array) -> Array:
    """An array; of shape (n,) if it was a single column (n, 1)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def as_text(value: Any) -> str:
    """An attribute such as a unit as text; empty if it is none."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.strip() if isinstance(value, str) else ""
