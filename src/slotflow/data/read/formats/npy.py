"""NumPy files as tables: NPY with one array, NPZ with one array per name; pickled objects are refused.

The fields of a structured array are arrays of their own. What a file promises is compared with its size before memory
is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple
from zipfile import ZipFile, ZipInfo

import numpy as np

from slotflow.data.read.tables import (
    MOST_OBJECTS,
    Array,
    Rows,
    Table,
    check_packing,
    check_size,
    foreign,
    one_column,
    stored_bytes,
)

__all__ = ["numpy_table"]

MOST_CHECKED = 2**33
"""Bytes of an array up to which its checksum is verified before rows are taken from it."""
READ_AT_ONCE = 2**22
LONGEST_HEADER = 10_000
"""Bytes in the header of an array in NumPy's format at most; NumPy itself reads no longer one."""


class _Header(NamedTuple):
    """What an array in NumPy's format says of itself."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int
    """Where its numbers begin, in bytes."""

    @property
    def plausible(self) -> bool:
        """Whether the array may be a series: not a single number, nor text."""
        return self.shape != () and self.dtype.kind not in "OSU"


@contextmanager
def numpy_table(path: Path) -> Iterator[Table]:
    """Opens NPY (one array, ``values``, or the fields of a table) or NPZ."""
    stored = stored_bytes(path)
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        header = _numpy_header(file)
        if header is not None:
            _check_promise(header, path.stat().st_size)
            check_packing(header.shape, stored, header.dtype.itemsize)
            yield _single_array(file, header)
            return
        file.seek(0)
        with foreign("NumPy"):
            archive: Any = np.load(file, allow_pickle=False)
            members = {info.filename.removesuffix(".npy"): info for info in archive.zip.infolist()}
            if len(members) > MOST_OBJECTS:
                raise ValueError(f"more than {MOST_OBJECTS:,} arrays")
            headers = {}
            for name, info in members.items():
                with archive.zip.open(info) as member:
                    headers[name] = _numpy_header(member)
        offered = [name for name, one in headers.items() if one is None or one.plausible]

        def checked(name: str) -> _Header:
            found = headers[name]
            if found is None:
                raise ValueError(
                    f"expected an array in NumPy's format, received {name!r} that is none, or pickled objects; name "
                    "another array with dataset (on the command line --dataset)."
                )
            _check_promise(found, members[name].file_size)
            check_packing(found.shape, stored, found.dtype.itemsize)
            return found

        def get(name: str) -> Array:
            found = checked(name)
            check_size(found.shape, found.dtype.itemsize)
            with foreign("NumPy"):
                return one_column(np.asarray(archive[name]))

        def slices(name: str) -> Rows | None:
            found = checked(name)
            with foreign("NumPy"):
                _check_sum(archive.zip, members[name])
                return _numpy_rows(stack.enter_context(archive.zip.open(members[name])), found)

        yield Table(list(headers), get, offered=offered or None, slices=slices)


def _single_array(file: IO[bytes], header: _Header) -> Table:
    """The table of an NPY file."""
    if (rows := _numpy_rows(file, header)) is not None:  # many signals: not all at once
        return Table(
            ["values"], lambda name: np.stack(rows.read(0, rows.count)), slices=lambda name: rows
        )
    check_size(header.shape, header.dtype.itemsize)
    file.seek(0)
    with foreign("NumPy"):
        loaded = np.load(file, allow_pickle=False)
    fields = loaded.dtype.names
    arrays = {"values": loaded} if fields is None else {f: loaded[f] for f in fields}
    return Table(list(arrays), lambda name: one_column(np.asarray(arrays[name])))


def _numpy_header(file: IO[bytes]) -> _Header | None:
    """The header of an array in NumPy's format; None for anything else, of which `np.load` says what is wrong."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or len(start) < 8:
        return None
    wide = start[6] > 1
    length = file.read(4 if wide else 2)
    size = int.from_bytes(length, "little")
    with foreign("NumPy"):
        if size > LONGEST_HEADER:
            raise ValueError(f"a header of {size:,} bytes")
        text = BytesIO(length + file.read(size))
        read = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
        shape, fortran, dtype = read(text)
    return _Header(shape, fortran, dtype, len(start) + len(length) + size)


def _check_promise(header: _Header, size: int) -> None:
    """Refuses an array that promises more bytes than there are, or entries of no size.

    Args:
        header: What it says of itself.
        size: Bytes that there are, the header's included.
    """
    if header.dtype.hasobject:
        return  # pickled objects have any size and are refused when the array is read
    with foreign("NumPy"):
        if header.dtype.itemsize == 0:
            raise ValueError("entries of no size")
        needed = header.start + header.dtype.itemsize * _product(header.shape)
        if needed > size:
            raise ValueError(f"{size:,} bytes where the header promises {needed:,}")


def _check_sum(archive: ZipFile, member: ZipInfo) -> None:
    """Refuses an array whose bytes are not those that were written, before the first of its rows is answered.

    An archive keeps a checksum of each member, which a reader knows to be wrong only at the member's end.
    """
    if member.file_size > MOST_CHECKED:
        return
    with archive.open(member) as file:
        while file.read(READ_AT_ONCE):
            pass


def _product(shape: tuple[int, ...]) -> int:
    """Number of entries of a shape; a negative length counts as more than there can be."""
    count = 1
    for length in shape:
        count *= length if length >= 0 else 2**63
    return count


def _numpy_rows(file: IO[bytes], header: _Header) -> Rows | None:
    """The rows of a two-dimensional array of numbers in NumPy's format; None for anything else.

    Rows are read where they lie in the file; asked for in their order, those of a packed file are unpacked once.
    """
    shape, fortran, dtype, start = header
    if len(shape) != 2 or min(shape) < 1 or shape[1] == 1 or fortran or dtype.kind not in "fiub":
        return None
    width = shape[1] * dtype.itemsize

    def read(first: int, last: int) -> list[Array]:
        last = min(last, shape[0])
        check_size((max(last - first, 0), shape[1]))
        with foreign("NumPy"):
            file.seek(start + first * width)
            data = file.read((last - first) * width)
            return list(np.frombuffer(data, dtype).reshape(last - first, shape[1]))

    return Rows(shape[0], shape[1], read)
