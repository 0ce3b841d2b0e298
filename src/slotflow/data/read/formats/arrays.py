"""NumPy and HDF5 files as tables: one array per name, pickled objects refused.

The fields of a table (a structured array) are arrays of their own, as ``table/field``; a single column of shape (n, 1)
is one series of n samples. What a file promises is compared with its size before memory is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from slotflow.data.read.formats.hdf5 import (
    MOST_OBJECTS,
    check_dataset,
    check_file,
    elsewhere,
    explore,
    is_elsewhere,
)
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import (
    Array,
    Rows,
    Table,
    as_text,
    check_kind,
    check_packing,
    check_size,
    foreign,
    stored_bytes,
)
from slotflow.data.read.timestamps import AUXILIARY

__all__ = ["hdf5_table", "numpy_table", "one_column"]

LONGEST_HEADER = 10_000
"""Bytes in the header of an array in NumPy's format at most; NumPy itself reads no longer one."""


# --- NumPy ---------------------------------------------------------------------------------------


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


# --- HDF5 ----------------------------------------------------------------------------------------


@contextmanager
def hdf5_table(path: Path, options: ReadOptions) -> Iterator[Table]:
    """Opens HDF5: data sets by their paths, attributes as ``path/attribute``."""
    import h5py

    check_file(path)
    stored = stored_bytes(path)
    with foreign("HDF5"):
        file = h5py.File(path, "r")
    with file:
        wanted = None if options.dataset is None else options.dataset.strip("/")
        with foreign("HDF5"):
            contents = explore(file, wanted)
            nodes, views, attributes, units = _hdf5_entries(contents.nodes)
        for name in contents.outside:
            if f"{wanted}/".startswith(f"{name}/") or not views:
                raise ValueError(elsewhere(name))
        if not views:
            raise ValueError("the file holds no data sets; expected one with at least one sample.")
        with foreign("HDF5"):
            offered = [
                name for name, view in views.items() if view.shape and view.dtype.kind not in "OSU"
            ]

        def checked(name: str) -> tuple[int, ...]:
            node = nodes[name]
            with foreign("HDF5"):
                outside, kind = is_elsewhere(node), views[name].dtype.kind
            if outside:
                raise ValueError(elsewhere(name))
            check_kind(kind, name)
            check_dataset(node, stored)
            return tuple(node.shape or ())

        def get(name: str) -> Array:
            if name in nodes:
                check_size(checked(name), nodes[name].dtype.itemsize)
            with foreign("HDF5"):
                found = views[name][()] if name in views else attributes[name]()
                return one_column(np.asarray(found))

        def slices(name: str) -> Rows | None:
            shape = checked(name) if name in nodes else ()
            if len(shape) != 2 or min(shape) < 1 or shape[1] == 1:
                return None

            def read(first: int, last: int) -> list[Array]:
                check_size((min(last, shape[0]) - first, shape[1]))
                with foreign("HDF5"):
                    return list(np.asarray(views[name][first:last]))

            return Rows(shape[0], shape[1], read)

        yield Table(
            [*nodes, *attributes],
            get,
            offered=offered or None,
            units=units,
            notes=_link_notes(contents.outside),
            slices=slices,
        )


def _hdf5_entries(
    found: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Callable[[], Any]], dict[str, str]]:
    """Data sets, the same or a field of each, attributes that matter, and units, each by name.

    Args:
        found: The groups and data sets of a file.
    """
    import h5py

    nodes: dict[str, Any] = {}
    views: dict[str, Any] = {}
    attributes: dict[str, Callable[[], Any]] = {}
    units: dict[str, str] = {}
    for name, node in found.items():
        if isinstance(node, h5py.Dataset):
            fields = {f"{name}/{f}": node.fields(f) for f in node.dtype.names or ()}
            views |= fields or {name: node}
            nodes |= dict.fromkeys(fields or [name], node)
        for key in node.attrs:
            if AUXILIARY.match(key):
                attributes[f"{name}/{key}".lstrip("/")] = partial(_attribute, node, key)
            elif key in ("unit", "units") and (unit := as_text(_attribute(node, key))):
                units[name] = unit
    return nodes, views, attributes, units


def _attribute(node: Any, key: str) -> Any:
    """The value of an attribute, after a look at its size."""
    check_packing(tuple(node.attrs.get_id(key).shape or ()), 0)
    return node.attrs[key]


def _link_notes(outside: list[str]) -> tuple[str, ...]:
    """What to say of links into other files."""
    if not outside:
        return ()
    more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
    return (f"links to other files not followed: {', '.join(map(repr, outside[:3]))}{more}",)


def one_column(values: Array) -> Array:
    """An array; of shape (n,) if it was a single column (n, 1)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
