"""Opening a file as a table of named arrays: its first bytes choose the format, or its suffix (`sniff`).

=======================================  ===============================================================
.csv .tsv .txt .dat .asc .lc, ``-``       text tables (:mod:`slotflow.data.read.formats.text`)
.npy .npz                                NumPy (:mod:`slotflow.data.read.formats.npy`)
.h5 .hdf5 .hdf                           HDF5 (:mod:`slotflow.data.read.formats.hdf5_table`)
.nc .nc4 .cdf                            NetCDF 3 and 4 (:mod:`slotflow.data.read.formats.netcdf`)
.wav                                     sound (:mod:`slotflow.data.read.formats.wav`)
.fits .fit .fts                          FITS light curves (:mod:`slotflow.data.read.formats.fits`)
.mat                                     MATLAB (:mod:`slotflow.data.read.formats.matlab`)
fid                                      decays of Bruker spectrometers (:mod:`slotflow.data.read.formats.nmr`)
=======================================  ===============================================================

A file with any other suffix, or none, is one of these by its first bytes, or a text table. ``-`` is a text table on
standard input. The folder of a spectrometer's experiment stands for the decay in it.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from slotflow.core.files import PathLike
from slotflow.data.read.formats.fits import fits_table
from slotflow.data.read.formats.hdf5_table import hdf5_table
from slotflow.data.read.formats.matlab import matlab_table
from slotflow.data.read.formats.netcdf import netcdf_table
from slotflow.data.read.formats.nmr import fid_in, nmr_table
from slotflow.data.read.formats.npy import numpy_table
from slotflow.data.read.formats.sniff import SUFFIXES, kind_of
from slotflow.data.read.formats.text import text_table
from slotflow.data.read.formats.wav import wav_table
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import Table

__all__ = [
    "STANDARD_INPUT",
    "SUFFIXES",
    "file_name",
    "find_files",
    "naming",
    "open_table",
]

STANDARD_INPUT = "-"


@contextmanager
def naming(path: PathLike) -> Iterator[None]:
    """Puts the file's name in front of what a ValueError says."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file_name(path)}: {error}") from error


def file_name(path: PathLike) -> str:
    """A file's name in words."""
    return "standard input" if os.fspath(path) == STANDARD_INPUT else os.fspath(path)


def open_table(path: PathLike, options: ReadOptions) -> AbstractContextManager[Table]:
    """Opens a file of any known format as a table, which may be used until the block ends.

    Args:
        path: The file; its first bytes or its suffix tell the format. ``-`` is a text table on standard input.
        options: What the caller says about it.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return nullcontext(text_table(sys.stdin.buffer.read(), options))
    path = Path(path)
    if not path.exists():
        raise ValueError("no such file; check the path.")
    if path.is_dir():
        path = fid_in(path) or path
    if path.is_dir():
        raise ValueError("expected a file, received a folder; name the file in it.")
    kind = kind_of(path)
    if kind == "text":
        return nullcontext(text_table(path.read_bytes(), options))
    if kind in ("wav", "nmr"):
        return nullcontext((wav_table if kind == "wav" else nmr_table)(path))
    if kind in ("hdf5", "matlab"):
        return (hdf5_table if kind == "hdf5" else matlab_table)(path, options)
    readers = {"netcdf": netcdf_table, "fits": fits_table, "numpy": numpy_table}
    return readers[kind](path)


def find_files(patterns: Iterable[PathLike]) -> list[Path]:
    """The files that names, folders and patterns stand for.

    Args:
        patterns: Files; folders, which stand for the files in them that can be read (not for those in folders below),
            or for the decay of a spectrometer's experiment;
            patterns such as ``run*/*.csv`` or ``data/**/*.npz``; ``-`` for standard input.

    Returns:
        Each file once, in the order of the patterns; the files of one pattern sorted by name.
    """
    found: dict[Path, None] = {}
    for entry in patterns:
        pattern, path = os.fspath(entry), Path(entry)
        if pattern == STANDARD_INPUT or path.is_file():
            files = [path]
        elif path.is_dir():
            decay = fid_in(path)
            files = sorted(_readable(path.iterdir())) if decay is None else [decay]
            if not files:
                raise ValueError(
                    f"{pattern}: expected a folder with files that end in one of {' '.join(SUFFIXES)}, "
                    "received one without any; name the files."
                )
        elif glob.has_magic(pattern):
            files = sorted(_readable(map(Path, glob.iglob(pattern, recursive=True))))
            if not files:
                raise ValueError(
                    f"{pattern}: no file that ends in one of {' '.join(SUFFIXES)} fits this pattern; "
                    "check the path."
                )
        else:
            raise ValueError(f"{pattern}: no such file; check the path.")
        found.update(dict.fromkeys(files))
    return list(found)


def _readable(paths: Iterable[Path]) -> Iterator[Path]:
    """Those that are files of a known format and not hidden."""
    for path in paths:
        if path.suffix.lower() in SUFFIXES and path.name[0] != "." and path.is_file():
            yield path
