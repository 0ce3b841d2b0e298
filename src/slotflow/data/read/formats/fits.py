"""FITS light curves as tables: one column per field of the first table in the file that has times (extra ``astro``).

Files of TESS and Kepler are read as they are downloaded. Their brightness is ``PDCSAP_FLUX``, or ``SAP_FLUX`` where
that one is empty, with the errors beside it; samples with a quality flag count as missing; times are days of
barycentric dynamical time less the reference of the file (BJDREFI + BJDREFF), which is noted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.packages import needed
from slotflow.data.read.names import is_secondary, plain
from slotflow.data.read.tables import Array, Table, check_packing, foreign, stored_bytes
from slotflow.data.read.timestamps import TIME_HEADER, unit_seconds

__all__ = ["fits_table"]

QUALITY = ("quality", "sap_quality")
"""Columns in which any flag makes a sample worthless; 0 stands for none."""
BLOCK_BYTES = 2880
"""Bytes of which every part of a file is a multiple."""
MOST_UNITS = 100
"""Parts of a file that are looked at for a table."""
DAYS = re.compile(r"\bdays?\b|^[bhmt]?jd\b", re.IGNORECASE)
FACTS = ("OBJECT", "MISSION", "QUARTER", "SECTOR")
"""Entries of the header that tell where a light curve comes from."""


@contextmanager
def fits_table(path: Path) -> Iterator[Table]:
    """Opens the first table of a FITS file that has times."""
    fits = needed("astropy.io.fits", "astro", "to read FITS files")
    stored = stored_bytes(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # astropy warns of cut files, of which it is asked below
        with foreign("FITS"):
            file = fits.open(path, memmap=False, lazy_load_hdus=True)
        with file:
            with foreign("FITS"):
                tables = list(_tables(file, stored))
            if not tables and path.stat().st_size % BLOCK_BYTES:
                raise ValueError(
                    f"expected a FITS file of blocks of {BLOCK_BYTES} bytes, received a damaged file that was cut "
                    "short; copy it again."
                )
            if not tables:
                raise ValueError(
                    "expected a FITS file with a table, such as a light curve, received only images; write the "
                    "series as a table with a column of times."
                )
            with foreign("FITS"):
                timed = [hdu for hdu in tables if any(map(TIME_HEADER.match, hdu.columns.names))]
                chosen = (timed or tables)[0]
                columns = _columns(chosen)
                units = {str(c.name): str(c.unit).strip() for c in chosen.columns if c.unit}
                header = dict(file[0].header) | dict(chosen.header)
        yield _light_curve(columns, units, header)


def _tables(file: Any, stored: int) -> Iterator[Any]:
    """The tables of a file, after a look at their promised size."""
    for i in range(MOST_UNITS):
        try:
            hdu = file[i]
        except IndexError:
            return
        if not hasattr(hdu, "columns"):
            continue
        shape = (int(hdu.header["NAXIS1"]), int(hdu.header["NAXIS2"]))
        check_packing(shape, stored, 1)
        if shape[0] * shape[1] > stored:
            raise ValueError(f"a table of {shape[0] * shape[1]:,} bytes in a file of {stored:,}")
        yield hdu


def _columns(hdu: Any) -> dict[str, Array]:
    """The columns of a table that hold one number per row, in the machine's byte order, (n,) each."""
    found = {}
    for name in hdu.columns.names:
        values = np.asarray(hdu.data[name])
        if values.ndim == 1 and values.dtype.kind in "fiub":
            found[str(name)] = values.astype(values.dtype.newbyteorder("="))
    return found


def _light_curve(columns: dict[str, Array], units: dict[str, str], header: dict[str, Any]) -> Table:
    """The table of a light curve: samples with a quality flag are NaN, and the unit of time is one that we know."""
    times = [name for name in columns if TIME_HEADER.match(name)]
    time = next((name for name in times if plain(name) == "time"), times[0] if times else None)
    notes = _facts(header)
    if time is not None:
        unit, said = _time_unit(units.pop(time, ""), header)
        units |= {time: unit} if unit else {}
        notes += said
    quality = next((name for name in columns if plain(name) in QUALITY), None)
    if quality is not None:
        flagged = columns[quality] != 0
        for name, values in columns.items():
            if values.dtype.kind == "f" and name != time:
                columns[name] = np.where(flagged, np.nan, values)
        notes += (
            f"{int(flagged.sum())} of {flagged.size} samples have a flag in {quality!r}: left out",
        )
    empty = [n for n, x in columns.items() if x.dtype.kind == "f" and not np.isfinite(x).any()]
    offered = [n for n in columns if n not in (time, quality, *empty) and not is_secondary(n)]
    if bare := [name for name in empty if plain(name) == "pdcsap_flux"]:
        notes += (f"{bare[0]!r} holds no numbers",)
    return Table(list(columns), columns.__getitem__, True, offered, time, units=units, notes=notes)


def _facts(header: dict[str, Any]) -> tuple[str, ...]:
    """Where a light curve comes from, in words."""
    known = [f"{key.lower()} {header[key]}" for key in FACTS if header.get(key) not in (None, "")]
    return (", ".join(known),) if known else ()


def _time_unit(unit: str, header: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The unit of the times of a light curve, and what they count from, in words."""
    stated = str(header.get("TIMEUNIT", "")).strip()
    if DAYS.search(unit) or (unit_seconds(unit) is None and DAYS.search(stated)):
        unit = "d"
    elif unit_seconds(unit) is None and unit_seconds(stated) is not None:
        unit = stated
    whole, part = header.get("BJDREFI"), header.get("BJDREFF", 0)
    if not isinstance(whole, int | float) or not isinstance(part, int | float):
        return unit, ()
    system = str(header.get("TIMESYS", "TDB")).strip()
    return unit, (f"time is BJD ({system}) less {whole + part:.10g} in days",)
