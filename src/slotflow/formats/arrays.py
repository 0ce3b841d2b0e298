"""NumPy and HDF5 files as tables: one array per name, pickled objects refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from slotflow.tables import Array, Rows, Table, as_text, check_size, foreign
from slotflow.timestamps import AUXILIARY

__all__ = ["elsewhere", "hdf5_table", "is_elsewhere", "numpy_table"]


@contextmanager
def numpy_table(path: Path) -> Iterator[Table]:
    """Opens NPY (one array, ``values``) or NPZ."""
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
        arrays = {"values": loaded} if isinstance(loaded, np.ndarray) else loaded
        members: dict[str, Any] = {}
        if not isinstance(loaded, np.ndarray):
            members = {i.filename.removesuffix(".npy"): i for i in loaded.zip.infolist()}

        def get(name: str) -> Array:
            if name in members:
                check_size((members[name].file_size // 8,))  # before it is unpacked
            with foreign("NumPy"):
                return np.asarray(arrays[name])

        def slices(name: str) -> Rows | None:
            if name not in members:
                return None
            with foreign("NumPy"):
                return _numpy_rows(stack.enter_context(loaded.zip.open(members[name])))

        yield Table(list(arrays), get, slices=slices)


def _numpy_rows(file: IO[bytes]) -> Rows | None:
    """The rows of a two-dimensional array of numbers in NumPy's format; None for anything else.

    Rows are read where they lie in the file; asked for in their order, those of a packed file are unpacked once.
    """
    try:
        version = np.lib.format.read_magic(file)
        header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = header(file)
    except Exception:  # the parser promises no particular type; np.load will say what is wrong
        return None
    if len(shape) != 2 or min(shape) < 1 or fortran or dtype.kind not in "fiub":
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

    with foreign("HDF5"):
        file = h5py.File(path, "r")
    with file:
        nodes: dict[str, Any] = {}
        attributes: dict[str, Callable[[], Any]] = {}
        units: dict[str, str] = {}

        def visit(name: str | bytes, node: Any) -> None:
            name = os.fsdecode(name)  # h5py gives bytes where a name is not UTF-8
            if isinstance(node, h5py.Dataset):
                nodes[name] = node
            for key in node.attrs:
                if AUXILIARY.match(key):
                    whole = f"{name}/{key}".lstrip("/")
                    attributes[whole] = partial(node.attrs.__getitem__, key)
                elif key in ("unit", "units") and (unit := as_text(node.attrs[key])):
                    units[name] = unit

        with foreign("HDF5"):
            visit("", file)
            file.visititems(visit)

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
                return np.asarray(nodes[name][()] if name in nodes else attributes[name]())

        def slices(name: str) -> Rows | None:
            shape = shape_of(name) if name in nodes else ()
            if len(shape) != 2 or min(shape) < 1:
                return None

            def read(first: int, last: int) -> list[Array]:
                check_size((min(last, shape[0]) - first, shape[1]))
                with foreign("HDF5"):
                    return list(np.asarray(nodes[name][first:last]))

            return Rows(shape[0], shape[1], read)

        yield Table([*nodes, *attributes], get, units=units, slices=slices)


def is_elsewhere(node: Any) -> bool:
    """Whether the numbers of an HDF5 data set lie in other files."""
    return bool(node.is_virtual or node.external)


def elsewhere(name: str) -> str:
    """The complaint about such a data set: a file may not choose what else is read."""
    return (
        f"expected a file that holds its own numbers, received {name!r} that refers to other files; "
        "copy the numbers into one file."
    )
