"""NumPy and HDF5 files as tables: one array per name, pickled objects refused.

The fields of a table (a structured array) are arrays of their own, as ``table/field``; a single column of shape (n, 1)
is one series of n samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from slotflow.data.read.formats.hdf5 import check_file, walk
from slotflow.data.read.tables import Array, Rows, Table, as_text, check_size, foreign
from slotflow.data.read.timestamps import AUXILIARY

__all__ = ["elsewhere", "hdf5_table", "is_elsewhere", "numpy_table", "one_column"]


@contextmanager
def numpy_table(path: Path) -> Iterator[Table]:
    """Opens NPY (one array, ``values``, or the fields of a table) or NPZ."""
    with ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        if (single := _numpy_rows(file)) is not None:  # many signals: not all at once
            yield Table(
                ["values"],
                lambda name: np.stack(single.read(0, single.count)),
                slices=lambda name: single,
            )
            return
        file.seek(0)
        with foreign("NumPy"):
            loaded = np.load(file, allow_pickle=False)
        members: dict[str, Any] = {}
        if isinstance(loaded, np.ndarray):
            fields = loaded.dtype.names
            arrays = {"values": loaded} if fields is None else {f: loaded[f] for f in fields}
        else:
            arrays = loaded
            members = {i.filename.removesuffix(".npy"): i for i in loaded.zip.infolist()}

        def get(name: str) -> Array:
            if name in members:
                check_size((members[name].file_size // 8,))  # before it is unpacked
            with foreign("NumPy"):
                return one_column(np.asarray(arrays[name]))

        def slices(name: str) -> Rows | None:
            if name not in members:
                return None
            with foreign("NumPy"):
                return _numpy_rows(stack.enter_context(loaded.zip.open(members[name])))

        def offered() -> list[str] | None:
            if not members:
                return None
            with foreign("NumPy"):
                heads = {name: _numpy_header(loaded.zip.open(i)) for name, i in members.items()}
            found = [n for n, head in heads.items() if head is None or _plausible(*head[::2])]
            return found or None

        yield Table(list(arrays), get, offered=offered(), slices=slices)


def _numpy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]] | None:
    """Shape, order and type of the array that a file in NumPy's format begins with; None for anything else."""
    try:
        version = np.lib.format.read_magic(file)
        header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        return header(file)
    except Exception:  # the parser promises no particular type; np.load will say what is wrong
        return None


def _plausible(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether an array may be a series: not a single number, nor text."""
    return shape != () and dtype.kind not in "OSU"


def _numpy_rows(file: IO[bytes]) -> Rows | None:
    """The rows of a two-dimensional array of numbers in NumPy's format; None for anything else.

    Rows are read where they lie in the file; asked for in their order, those of a packed file are unpacked once.
    """
    if (head := _numpy_header(file)) is None:
        return None
    shape, fortran, dtype = head
    if len(shape) != 2 or min(shape) < 1 or shape[1] == 1 or fortran or dtype.kind not in "fiub":
        return None
    start, width = file.tell(), shape[1] * dtype.itemsize

    def read(first: int, last: int) -> list[Array]:
        last = min(last, shape[0])
        check_size((max(last - first, 0), shape[1]))
        with foreign("NumPy"):
            file.seek(start + first * width)
            data = file.read((last - first) * width)
            return list(np.frombuffer(data, dtype).reshape(last - first, shape[1]))

    return Rows(shape[0], shape[1], read)


@contextmanager
def hdf5_table(path: Path) -> Iterator[Table]:
    """Opens HDF5: data sets by their paths, attributes as ``path/attribute``."""
    import h5py

    check_file(path)
    with foreign("HDF5"):
        file = h5py.File(path, "r")
    with file:
        nodes: dict[str, Any] = {}
        views: dict[str, Any] = {}  # the same, or a field of it
        attributes: dict[str, Callable[[], Any]] = {}
        units: dict[str, str] = {}
        with foreign("HDF5"):
            for name, node in walk(file):
                if isinstance(node, h5py.Dataset):
                    fields = node.dtype.names or ()
                    found = {f"{name}/{field}": node.fields(field) for field in fields}
                    views |= found or {name: node}
                    nodes |= dict.fromkeys(found or [name], node)
                for key in node.attrs:
                    if AUXILIARY.match(key):
                        whole = f"{name}/{key}".lstrip("/")
                        attributes[whole] = partial(node.attrs.__getitem__, key)
                    elif key in ("unit", "units") and (unit := as_text(node.attrs[key])):
                        units[name] = unit
        if not views:
            raise ValueError("the file holds no data sets; expected one with at least one sample.")
        with foreign("HDF5"):
            offered = [n for n, view in views.items() if _plausible(view.shape or (), view.dtype)]

        def shape_of(name: str) -> tuple[int, ...]:
            with foreign("HDF5"):
                shape, outside = nodes[name].shape or (), is_elsewhere(nodes[name])
            if outside:
                raise ValueError(elsewhere(name))
            return tuple(shape)

        def get(name: str) -> Array:
            if name in nodes:
                check_size(shape_of(name))
            with foreign("HDF5"):
                found = views[name][()] if name in views else attributes[name]()
                return one_column(np.asarray(found))

        def slices(name: str) -> Rows | None:
            shape = shape_of(name) if name in nodes else ()
            if len(shape) != 2 or min(shape) < 1 or shape[1] == 1:
                return None

            def read(first: int, last: int) -> list[Array]:
                check_size((min(last, shape[0]) - first, shape[1]))
                with foreign("HDF5"):
                    return list(np.asarray(views[name][first:last]))

            return Rows(shape[0], shape[1], read)

        yield Table([*nodes, *attributes], get, offered=offered or None, units=units, slices=slices)


def one_column(values: Array) -> Array:
    """An array; of shape (n,) if it was a single column (n, 1)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def is_elsewhere(node: Any) -> bool:
    """Whether the numbers of an HDF5 data set lie in other files."""
    return bool(node.is_virtual or node.external)


def elsewhere(name: str) -> str:
    """The complaint about such a data set: a file may not choose what else is read."""
    return (
        f"expected a file that holds its own numbers, received {name!r} that refers to other files; "
        "copy the numbers into one file."
    )
