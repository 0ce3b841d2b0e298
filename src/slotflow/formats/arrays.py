"""NumPy and HDF5 files as tables: one array per name, pickled objects refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.tables import Array, Table, as_text, check_size, foreign
from slotflow.timestamps import AUXILIARY

__all__ = ["elsewhere", "hdf5_table", "is_elsewhere", "numpy_table"]


@contextmanager
def numpy_table(path: Path) -> Iterator[Table]:
    """Opens NPY (one array, ``values``) or NPZ."""
    with path.open("rb") as file:
        with foreign("NumPy"):
            loaded = np.load(file, allow_pickle=False)
        arrays = {"values": loaded} if isinstance(loaded, np.ndarray) else loaded
        sizes: dict[str, int] = {}
        if not isinstance(loaded, np.ndarray):
            sizes = {i.filename.removesuffix(".npy"): i.file_size for i in loaded.zip.infolist()}

        def get(name: str) -> Array:
            check_size((sizes.get(name, 0) // 8,))  # before it is unpacked
            with foreign("NumPy"):
                return np.asarray(arrays[name])

        yield Table(list(arrays), get)


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

        def get(name: str) -> Array:
            if name in nodes:
                with foreign("HDF5"):
                    shape, outside = nodes[name].shape or (), is_elsewhere(nodes[name])
                if outside:
                    raise ValueError(elsewhere(name))
                check_size(shape)
            with foreign("HDF5"):
                return np.asarray(nodes[name][()] if name in nodes else attributes[name]())

        yield Table([*nodes, *attributes], get, units=units)


def is_elsewhere(node: Any) -> bool:
    """Whether the numbers of an HDF5 data set lie in other files."""
    return bool(node.is_virtual or node.external)


def elsewhere(name: str) -> str:
    """The complaint about such a data set: a file may not choose what else is read."""
    return (
        f"expected a file that holds its own numbers, received {name!r} that refers to other files; "
        "copy the numbers into one file."
    )
