"""NetCDF files (3 and 4) as tables: variables with their time coordinate and units."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.data.read.formats.arrays import elsewhere, is_elsewhere, one_column
from slotflow.data.read.formats.hdf5 import check_file
from slotflow.data.read.tables import Array, Rows, Table, as_text, check_size, foreign
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
    if not classic:
        check_file(path)
        _check_links(path)
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

        def get(name: str) -> Array:
            if name in attributes:
                return np.asarray(attributes[name])
            check_size(dataset[name].shape)
            with foreign("NetCDF"):
                variable = dataset[name]
                if name in times:
                    variable = variable.transpose(..., times[name])
                return one_column(np.asarray(variable.values))

        def slices(name: str) -> Rows | None:
            if name in attributes or len(dataset[name].shape) != 2 or not dataset[name].size:
                return None
            with foreign("NetCDF"):
                variable = dataset[name]
                if name in times:
                    variable = variable.transpose(..., times[name])
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


def _check_links(path: Path) -> None:
    """Refuses a NetCDF 4 file that refers to other files, before anything in it is followed."""
    import h5py

    with foreign("NetCDF"), h5py.File(path, "r") as file:
        links = {os.fsdecode(name): file.get(name, getlink=True) for name in file}
        outside = {name for name, link in links.items() if isinstance(link, h5py.ExternalLink)}
        nodes = {name: file.get(name) for name in links.keys() - outside}
        outside |= {
            name
            for name, node in nodes.items()
            if isinstance(node, h5py.Dataset) and is_elsewhere(node)
        }
    for name in sorted(outside):
        raise ValueError(elsewhere(name))
