"""NetCDF files (3 and 4) as tables: variables with their time coordinate and units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
from slotflow.data.read.tables import (
    Array,
    Rows,
    Table,
    as_text,
    check_packing,
    check_size,
    foreign,
    one_column,
    stored_bytes,
)
from slotflow.data.read.timestamps import AUXILIARY, TIME_HEADER, unit_seconds

__all__ = ["netcdf_table"]


@contextmanager
def netcdf_table(path: Path) -> Iterator[Table]:
    """Opens NetCDF: variables of the root group by name, attributes as ``variable/attribute``.

    Packed numbers are unpacked and fill values are NaN, as the conventions say. The dimension that is time comes last.
    """
    import xarray as xr

    with path.open("rb") as file:
        classic = file.read(3) == b"CDF"
    stored = stored_bytes(path)
    if not classic:
        check_file(path)
        _check_contents(path, stored)
    with foreign("NetCDF"):
        dataset = xr.open_dataset(
            path,
            engine="scipy" if classic else "h5netcdf",
            decode_times=False,
            decode_timedelta=False,
            backend_kwargs=None if classic else {"phony_dims": "sort"},  # dimensions without a name
        )
    with dataset:
        with foreign("NetCDF"):
            names = [str(name) for name in dataset.variables]
            units = {n: as_text(dataset[n].attrs.get("units", "")) for n in names}
            owners = {"": dataset.attrs} | {f"{n}/": dataset[n].attrs for n in names}
            attributes = {
                f"{owner}{key}": value
                for owner, attrs in owners.items()
                for key, value in attrs.items()
                if AUXILIARY.match(str(key))
            }
            times = {n: t for n in names if (t := _time(dataset, n)) is not None and t != n}
            offered = [str(n) for n in dataset.data_vars if not AUXILIARY.match(str(n))]

        def variable_of(name: str) -> xr.DataArray:
            """A variable that is not too large, its times last."""
            check_packing(dataset[name].shape, stored)
            check_size(dataset[name].shape)
            with foreign("NetCDF"):
                variable = dataset[name]
                return variable.transpose(..., times[name]) if name in times else variable

        def get(name: str) -> Array:
            if name in attributes:
                return np.asarray(attributes[name])
            variable = variable_of(name)
            with foreign("NetCDF"):
                return one_column(np.asarray(variable.values))

        def slices(name: str) -> Rows | None:
            if name in attributes or len(dataset[name].shape) != 2 or not dataset[name].size:
                return None
            variable = variable_of(name)
            count, size = variable.shape

            def read(first: int, last: int) -> list[Array]:
                check_size((min(last, count) - first, size))
                with foreign("NetCDF"):  # a slice alone is read, and not kept
                    return list(np.asarray(variable[first:last].copy(deep=False).values))

            return Rows(count, size, read)

        units = {name: unit for name, unit in units.items() if unit}
        yield Table(
            [*names, *attributes], get, offered=offered, times=times, units=units, slices=slices
        )


def _time(dataset: Any, name: str) -> str | None:
    """The coordinate of a variable that is time, if one is."""
    for dimension in map(str, dataset[name].dims):
        if dimension not in dataset.variables:
            continue
        attrs = dataset[dimension].attrs
        unit = as_text(attrs.get("units", "")).partition(" since ")[0]
        named = TIME_HEADER.match(dimension) and not unit
        if named or unit_seconds(unit) is not None or as_text(attrs.get("axis", "")) == "T":
            return dimension
    return None


def _check_contents(path: Path, stored: int) -> None:
    """Refuses what would be followed or read when a NetCDF 4 file is opened.

    That is: links into other files, groups with several names (whose paths may be beyond number), and arrays of one
    dimension (as coordinates are) or chunks of an absurd size.

    Args:
        path: The file.
        stored: Its size in bytes.
    """
    import h5py

    with foreign("NetCDF"):
        file = h5py.File(path, "r")
    with file:
        with foreign("NetCDF"):
            contents = explore(file)
            datasets = {n: x for n, x in contents.nodes.items() if isinstance(x, h5py.Dataset)}
            top = {name: node for name, node in datasets.items() if "/" not in name}
            outside = [name for name, node in top.items() if is_elsewhere(node)]
        for name in sorted({*outside, *(n for n in contents.outside if "/" not in n)}):
            raise ValueError(elsewhere(name))
        for name in contents.twice:
            raise ValueError(
                f"expected groups with one name each, received {name!r} as a further name of one; copy the variable "
                "to analyse into a file of its own."
            )
        for node in top.values():
            if node.ndim == 1:
                check_dataset(node, stored)
