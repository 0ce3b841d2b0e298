"""Arrays of numbers as a NetCDF file in memory, written by h5py alone.

xarray writes the same file through h5netcdf, which looks every dimension up again for every variable: 24 ms of a core
for the file of one posterior, where this takes 5. `tests/test_posterior_file.py` compares the two, object by object.

NetCDF-4 is HDF5 with a dataset for each dimension, a *dimension scale*, to which the variables along it are attached.
The scale is the coordinate of that name where there is one, and otherwise has no values that mean anything.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["netcdf"]

NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable. {:>9}"
"""What the format calls the scale of a dimension without a coordinate, with its length."""


def netcdf(found: xr.Dataset, packed: Collection[str] = ()) -> bytes:
    """The content of a NetCDF-4 file.

    Args:
        found: Real numbers of any type, texts only as attributes.
        packed: Names of the variables that are compressed.
    """
    import h5py

    buffer, facts = io.BytesIO(), h5py.version
    versions = f"h5py={facts.version},hdf5={facts.hdf5_version}"
    with h5py.File(buffer, "w") as file:
        _describe(file, found.attrs)
        scales = {}
        for place, (name, size) in enumerate(found.sizes.items()):
            if name in found.variables:
                scale = _variable(file, found, str(name), packed)
                scale.make_scale(str(name))
                scale.attrs["_Netcdf4Coordinates"] = np.array([place], dtype=np.int32)
            else:
                scale = file.create_dataset(str(name), (size,), ">f4", maxshape=_room((size,)))
                scale.make_scale(NO_VARIABLE.format(size))
            scale.attrs["_Netcdf4Dimid"] = np.int32(place)
            scales[name] = scale
        places = list(scales)
        for name, values in found.variables.items():
            if name in scales:
                continue
            variable = _variable(file, found, str(name), packed)
            for axis, dimension in enumerate(values.dims):
                variable.dims[axis].attach_scale(scales[dimension])
            if values.dims:
                along = np.array([places.index(d) for d in values.dims], dtype=np.int32)
                variable.attrs["_Netcdf4Coordinates"] = along
                variable.attrs["_Netcdf4Dimid"] = along[0]
        file.attrs["_NCProperties"] = np.bytes_(f"version=2,{versions}")
    return buffer.getvalue()


def _variable(file: Any, found: xr.Dataset, name: str, packed: Collection[str]) -> Any:
    """Writes one variable with its attributes."""
    values = found.variables[name]
    floating = values.dtype.kind == "f"
    how = {"compression": "gzip", "compression_opts": 1, "shuffle": True} if name in packed else {}
    fill = np.nan if floating else None  # in xarray's files NaN is what is missing
    variable = file.create_dataset(
        name, data=values.to_numpy(), fillvalue=fill, maxshape=_room(values.shape), **how
    )
    _describe(
        variable, values.attrs | ({"_FillValue": values.dtype.type(np.nan)} if floating else {})
    )
    return variable


def _room(shape: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """How large an array may grow; to NetCDF a dimension without elements is one without a limit."""
    return tuple(size or None for size in shape) if 0 in shape else None


def _describe(owner: Any, attributes: dict[Any, Any]) -> None:
    """Writes attributes; numbers are lists of one, as in the format."""
    for name, value in attributes.items():
        owner.attrs[name] = value if isinstance(value, str) else np.atleast_1d(value)
