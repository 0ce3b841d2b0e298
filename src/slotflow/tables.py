"""Tables of named arrays from text, NumPy and HDF5 files.

Every refusal is a ValueError that opens with the file's name, also those raised while the table is in
use. See :mod:`slotflow.io` for how a series is chosen among the arrays.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AUXILIARY", "Array", "Table", "open_table"]

Array = NDArray[Any]

TEXT = (".csv", ".tsv", ".txt", ".dat")
NUMPY = (".npy", ".npz")
HDF5 = (".h5", ".hdf5", ".hdf")

AUXILIARY = re.compile(r"(dt|t0|times?|t|k|theta|sigma|snr_db)(_long|_short)?$")
"""Names of arrays that belong to a series or to the truth behind it."""
TIME_HEADER = re.compile(
    r"(times?|timestamps?|seconds?|secs?)(?![a-z])|t(\s*[\[(/].*)?$", re.IGNORECASE
)
"""Headers of a column of time stamps, with or without a unit."""
MISSING = {"", "-", "--", "?", "na", "n/a", "null", "none", "missing"}
"""What people write for a value that they do not have."""


@dataclass(frozen=True)
class Table:
    """The arrays of one file.

    Args:
        names: Their names, in the file's order.
        get: Gives an array by name.
        text: Whether the arrays are columns of a text table.
        time: Name of the column of time stamps in a text table.
        resolution: Worth in seconds of the last printed digit of the time stamps.
    """

    names: list[str]
    get: Callable[[str], Array]
    text: bool = False
    time: str | None = None
    resolution: float = 0.0

    def find(self, name: str, role: str, *bases: str) -> str | None:
        """Finds what belongs to a series: ``dt`` in its attributes, beside it or at the root."""
        parent = name.rpartition("/")[0]
        prefixes = (f"{name}/", f"{parent}/" if parent else "", "")
        wanted = (f"{p}{b}{r}" for p in prefixes for r in (f"_{role}", "") for b in bases)
        return next((candidate for candidate in wanted if candidate in self.names), None)

    def number(self, name: str) -> float:
        """An array that holds a single number."""
        value = self.get(name)
        if value.size != 1 or value.dtype.kind not in "fiu":
            raise ValueError(
                f"expected one number as {name!r}, received shape {value.shape} of type {value.dtype}."
            )
        return float(value.item())


@contextmanager
def open_table(path: str | os.PathLike[str], untimed: bool = False) -> Iterator[Table]:
    """Opens a file of any known format.

    Args:
        path: The file; its suffix tells the format.
        untimed: Do not take the first column of a text table without headers for time stamps.

    Yields:
        The table, which may be used until the block ends.
    """
    path = Path(path)
    try:
        with _open(path, untimed) as table:
            yield table
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _open(path: Path, untimed: bool) -> AbstractContextManager[Table]:
    """Chooses the reader of a file after a first look at it."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise ValueError("no such file; check the path.")
    if path.is_dir():
        raise ValueError("expected a file, received a folder; name the file in it.")
    if suffix not in TEXT + NUMPY + HDF5:
        known = " ".join(TEXT + NUMPY + HDF5)
        raise ValueError(
            f"expected a file that ends in one of {known}, received {suffix or 'no ending'!r}; "
            "convert or rename it."
        )
    with path.open("rb") as file:  # a file that may not be read is an OSError here, with its reason
        if not file.read(1):
            raise ValueError("the file is empty; expected at least one sample.")
    if suffix in TEXT:
        return nullcontext(_text_table(path, untimed))
    return _numpy_table(path) if suffix in NUMPY else _hdf5_table(path)


# --- NumPy and HDF5 ------------------------------------------------------------------------------


@contextmanager
def _foreign(format_name: str) -> Iterator[None]:
    """Turns whatever a format's own parser raises on a damaged file into a ValueError."""
    try:
        yield
    except Exception as error:  # the parsers promise no particular type
        raise ValueError(
            f"expected a {format_name} file of plain numbers, received a damaged or foreign file "
            f"or pickled objects ({type(error).__name__}: {error}); write it again."
        ) from error


@contextmanager
def _numpy_table(path: Path) -> Iterator[Table]:
    """Opens NPY (one array, ``values``) or NPZ."""
    with path.open("rb") as file:
        with _foreign("NumPy"):
            loaded = np.load(file, allow_pickle=False)
        arrays = {"values": loaded} if isinstance(loaded, np.ndarray) else loaded

        def get(name: str) -> Array:
            with _foreign("NumPy"):
                return np.asarray(arrays[name])

        yield Table(list(arrays), get)


@contextmanager
def _hdf5_table(path: Path) -> Iterator[Table]:
    """Opens HDF5: data sets by their paths, attributes as ``path/attribute``."""
    import h5py

    with _foreign("HDF5"):
        file = h5py.File(path, "r")
    with file:
        getters: dict[str, Callable[[], Any]] = {}

        def visit(name: str | bytes, node: Any) -> None:
            name = os.fsdecode(name)  # h5py gives bytes where a name is not UTF-8
            if isinstance(node, h5py.Dataset):
                getters[name] = partial(node.__getitem__, ())
            for key in filter(AUXILIARY.match, node.attrs):
                getters[f"{name}/{key}".lstrip("/")] = partial(node.attrs.__getitem__, key)

        with _foreign("HDF5"):
            visit("", file)
            file.visititems(visit)

        def get(name: str) -> Array:
            with _foreign("HDF5"):
                return np.asarray(getters[name]())

        yield Table(list(getters), get)


# --- Text ----------------------------------------------------------------------------------------


def _text_table(path: Path, untimed: bool) -> Table:
    """Parses a text table; see :func:`_split` for its grammar."""
    numbers, rows, names = _split(path)
    width = len(rows[0])
    data = np.empty((len(rows), width))
    for i, (number, row) in enumerate(zip(numbers, rows, strict=True)):
        if len(row) != width:
            raise ValueError(
                f"line {number}: expected {width} column(s) as in line {numbers[0]}, "
                f"received {len(row)}; complete or remove the line."
            )
        for j, field in enumerate(row):
            try:
                data[i, j] = float(field)
            except ValueError:
                raise ValueError(f"line {number}: {_not_a_number(field)}") from None
    if len(names) != width or len(set(names)) != width:
        names = [f"column {j + 1}" for j in range(width)]
    time, resolution = None, 0.0
    if width > 1:
        time = next(filter(TIME_HEADER.match, names), None if untimed else names[0])
    if time is not None:
        j = names.index(time)
        digits = max(len(re.sub(r"[eE].*|\D", "", row[j]).lstrip("0")) for row in rows)
        largest = float(np.abs(data[:, j]).max())
        if math.isfinite(largest) and largest > 0:
            resolution = 10.0 ** (math.floor(math.log10(largest)) - digits + 1)
    columns = dict(zip(names, data.T, strict=True))
    return Table(names, columns.__getitem__, True, time, resolution)


def _split(path: Path) -> tuple[list[int], list[list[str]], list[str]]:
    """Splits a text table into fields.

    Lines that are blank or start with # or % are skipped. The delimiter is the first of tab,
    semicolon and comma that the second line holds (the first line, where the second is a single
    field), else white space; with semicolons a decimal comma is understood. Leading lines without
    any number are headers, the first of which names the columns.

    Returns:
        The line number of each row, counted from 1; the fields of each row; the names.
    """
    raw = path.read_bytes()
    if b"\0" in raw:
        raise ValueError("expected text, received binary data; check the format and the suffix.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # headers with a micro or degree sign from older instruments
    numbered = ((i, line.strip()) for i, line in enumerate(text.splitlines(), 1))
    lines = [(i, line) for i, line in numbered if line and line[0] not in "#%"]
    if not lines:
        raise ValueError("the file holds no data; expected at least one sample.")
    sample = lines[min(1, len(lines) - 1)][1]
    if len(re.split(r"[\s;,]", sample)) == 1:
        sample = lines[0][1]
    delimiter = next((d for d in "\t;," if d in sample), None)
    numbers: list[int] = []
    rows: list[list[str]] = []
    names: list[str] = []
    for number, line in lines:
        stripped = line.rstrip(delimiter).rstrip() if delimiter else line
        row = [field.strip().strip("\"'") for field in stripped.split(delimiter)]
        if delimiter == ";":
            row = [f.replace(",", ".") if f.count(",") == 1 and "." not in f else f for f in row]
        if rows or any(map(_numeric, row)):
            numbers.append(number)
            rows.append(row)
        else:
            names = names or row
    if not rows:
        number, line = lines[0]
        raise ValueError(f"line {number}: {_not_a_number(line[:40])}")
    return numbers, rows, names


def _numeric(field: str) -> bool:
    """Whether a field stands for a number, be it missing or complex."""
    try:
        complex(field.replace("i", "j") if field[-1:] == "i" else field)
    except ValueError:
        return field.lower() in MISSING
    return True


def _not_a_number(field: str) -> str:
    """Says what a field is that is not a real number."""
    if field.lower() in MISSING:
        return f"expected a number, received a missing value {field!r}; fill or cut it first."
    if _numeric(field):
        return f"expected a real number, received the complex {field!r}; keep the real part only."
    return f"expected a number, received {field!r}; numbers are written like 0.5 or 5e-1."
