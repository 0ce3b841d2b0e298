"""MATLAB files as tables: variables by name, fields of a structure as ``structure/field``.

Files of version 7.3 are HDF5 (:mod:`slotflow.data.read.formats.hdf5_table`); older ones are read by scipy. An older
file is a row of elements, each with its kind and its size in bytes; a packed one is unpacked up to the size that a file
of its length can hold, and the cells and structures in it may not promise more parts than there are bytes, since scipy
would look for each of them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.data.read.formats.hdf5_table import hdf5_table
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import (
    MOST_NUMBERS_OF_SMALL_FILES,
    NUMBERS_PER_BYTE,
    Array,
    Table,
    check_packing,
    foreign,
    stored_bytes,
)

__all__ = ["matlab_table"]

HDF5_MARK = b"\x89HDF\r\n\x1a\n"
HEADER_BYTES = 128
"""Bytes before the first element; the last two tell the order of bytes."""
MATRIX, PACKED = 14, 15
"""Kinds of elements: an array of any class, and one that is packed."""
CELL, STRUCTURE, OBJECT = 1, 2, 3
"""Classes of arrays that hold arrays."""
NUMBERS = (
    "double",
    "single",
    "logical",
    *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)),
)
"""Classes of arrays that hold numbers."""
MOST_LEVELS = 20
"""Most arrays inside each other."""


def matlab_table(path: Path, options: ReadOptions) -> AbstractContextManager[Table]:
    """Opens a MATLAB file of any version."""
    with path.open("rb") as file:
        head = file.read(520)
    if HDF5_MARK in (head[:8], head[512:520]):
        return hdf5_table(path, options)
    return _old_table(path, head)


@contextmanager
def _old_table(path: Path, head: bytes) -> Iterator[Table]:
    """Opens a file of version 4 or 5."""
    from scipy.io import loadmat, whosmat

    stored = stored_bytes(path)
    if head[126:128] in (b"IM", b"MI"):
        _check_elements(path, "little" if head[126:128] == b"IM" else "big", stored)
    with foreign("MATLAB"):
        variables = whosmat(str(path))
    names = []
    for name, shape, kind in variables:
        check_packing(tuple(shape), stored)
        if kind in NUMBERS or (kind == "struct" and math.prod(shape) == 1):
            names.append(name)
    with foreign("MATLAB"):
        content = loadmat(str(path), variable_names=names, squeeze_me=True, struct_as_record=True)
        arrays = dict(_arrays(content, names))
    if not arrays:
        raise ValueError(
            "expected a MATLAB file with arrays of numbers, received none; save the series as a variable."
        )
    offered = [name for name, values in arrays.items() if values.ndim and values.size > 1]
    yield Table(list(arrays), arrays.__getitem__, offered=offered or None)


def _arrays(content: dict[str, Any], names: list[str]) -> Iterator[tuple[str, Array]]:
    """The arrays of numbers, those in structures included, by name."""
    for name in names:
        value = np.asarray(content.get(name))
        found = {name: value}
        if value.dtype.names is not None and value.shape == ():
            found = {f"{name}/{field}": value[field].item() for field in value.dtype.names}
        for path, one in found.items():
            array = np.asarray(one)
            if array.dtype.kind in "fiubc":
                yield path, array


def _check_elements(path: Path, order: Any, stored: int) -> None:
    """Refuses packed elements that are larger, and arrays of arrays that have more parts, than the file can hold."""
    most = 8 * max(MOST_NUMBERS_OF_SMALL_FILES, NUMBERS_PER_BYTE * stored)
    content = path.read_bytes()
    place = HEADER_BYTES
    while place + 8 <= len(content):
        kind, size = _tag(content, place, order)
        element = content[place + 8 : place + 8 + size]
        if kind == PACKED:
            with foreign("MATLAB"):
                machine = zlib.decompressobj()
                unpacked = machine.decompress(element, most)
                if machine.unconsumed_tail:
                    raise ValueError(f"an element that unpacks to more than {most:,} bytes")
            kind, inner = _tag(unpacked, 0, order)
            element = unpacked[8 : 8 + inner]
        if kind == MATRIX:
            with foreign("MATLAB"):
                _check_matrix(element, order, 0)
        place += 8 + size


def _tag(content: bytes, place: int, order: Any) -> tuple[int, int]:
    """Kind and size in bytes of the element at a place."""
    kind = int.from_bytes(content[place : place + 4], order)
    return kind, int.from_bytes(content[place + 4 : place + 8], order)


def _parts(content: bytes, order: Any) -> Iterator[tuple[int, bytes]]:
    """Kind and content of the elements inside an element; small ones share eight bytes with their tag."""
    place = 0
    while place + 8 <= len(content):
        kind, size = _tag(content, place, order)
        if kind >> 16:
            kind, size = kind & 0xFFFF, kind >> 16
            yield kind, content[place + 4 : place + 4 + min(size, 4)]
            place += 8
        else:
            yield kind, content[place + 8 : place + 8 + size]
            place += 8 + (size + 7) // 8 * 8


def _check_matrix(content: bytes, order: Any, level: int) -> None:
    """Refuses an array of arrays with more parts than it has bytes.

    Args:
        content: The array: flags, dimensions, name, then numbers or further arrays.
        order: Of its bytes.
        level: How many arrays it lies in.
    """
    if level > MOST_LEVELS:
        raise ValueError(f"more than {MOST_LEVELS} arrays inside each other")
    parts = _parts(content, order)
    _, flags = next(parts, (0, b""))
    _, dimensions = next(parts, (0, b""))
    if int.from_bytes(flags[:4], order) & 0xFF not in (CELL, STRUCTURE, OBJECT):
        return
    count = math.prod(
        int.from_bytes(dimensions[i : i + 4], order) for i in range(0, len(dimensions), 4)
    )
    if count > len(content):
        raise ValueError(f"{count:,} parts in an array of {len(content):,} bytes")
    for kind, part in parts:
        if kind == MATRIX:
            _check_matrix(part, order, level + 1)
