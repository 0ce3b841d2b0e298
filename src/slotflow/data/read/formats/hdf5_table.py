"""HDF5 files as tables: one array per data set; files of MATLAB from version 7.3 on are HDF5 as well.

The fields of a table (a data set of records) are arrays of their own, as ``table/field``, unless they are the real and
the imaginary part of complex numbers. MATLAB writes arrays column by column: they come back transposed. What a file
promises is compared with its size before memory is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.data.read.formats.hdf5 import (
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
    one_column,
    stored_bytes,
)
from slotflow.data.read.timestamps import AUXILIARY

__all__ = ["hdf5_table"]

COMPLEX_FIELDS = ("real", "imag")
"""Fields of a record that is a complex number of MATLAB."""
MATLAB_CLASS = "MATLAB_class"
"""Attribute that MATLAB gives to its arrays."""
MATLAB_OWN = ("#refs#", "#subsystem#")
"""Groups in which MATLAB keeps parts of other arrays."""


class _ComplexParts:
    """A data set of records of two parts, seen as complex numbers.

    Args:
        node: The data set.
    """

    def __init__(self, node: Any) -> None:
        self.node = node
        self.shape = node.shape
        self.dtype = np.dtype(np.complex128)

    def __getitem__(self, key: Any) -> Array:
        raw = self.node[key]
        real, imaginary = COMPLEX_FIELDS
        return np.asarray(raw[real] + 1j * raw[imaginary])


def _is_series(name: str, node: Any) -> bool:
    """Whether a data set of MATLAB may hold a series; any other may."""
    kind = as_text(node.attrs.get(MATLAB_CLASS, ""))
    return kind not in ("char", "cell") and not name.startswith(MATLAB_OWN)


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
                name
                for name, view in views.items()
                if view.shape and view.dtype.kind not in "OSU" and _is_series(name, nodes[name])
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
                found = np.asarray(views[name][()] if name in views else attributes[name]())
                if name in nodes and MATLAB_CLASS in nodes[name].attrs:
                    found = found.T
                return one_column(found[0] if found.ndim == 2 and len(found) == 1 else found)

        def slices(name: str) -> Rows | None:
            shape = checked(name) if name in nodes else ()
            if len(shape) != 2 or min(shape) < 1 or shape[1] == 1:
                return None
            if MATLAB_CLASS in nodes[name].attrs:
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
            if node.dtype.names == COMPLEX_FIELDS:
                fields = {name: _ComplexParts(node)}
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
