"""Series from files of any known format, all at once.

Whatever its format (:mod:`slotflow.data.read.formats`), a file is read as a table of named arrays, and the same rules
choose among them (:mod:`slotflow.data.read.series`). :func:`read` is the one way in; for files that do not fit into
memory there is :func:`slotflow.data.read.signals.open_signals`, on which it stands.

Nothing that is read is ever executed: pickled objects are refused. Every refusal is a ValueError that opens with the
file's name and says what was expected, what was found and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slotflow.core.files import PathLike
from slotflow.data.observation import Observation
from slotflow.data.read.formats import STANDARD_INPUT, find_files, naming
from slotflow.data.read.formats.sniff import kind_of
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import open_signals

__all__ = ["check_readable", "find_files", "read", "read_observation", "read_observations"]

QUICK_BYTES = 2**18
"""Bytes of a text table up to which it is read in a moment."""


def check_readable(path: PathLike, options: ReadOptions) -> None:
    """Refuses a file that cannot be read, within a moment: large tables of text are looked at no further than that.

    Args:
        path: The file, which is there; standard input, which can be read once only, is left alone.
        options: What the caller says about it.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return
    with naming(path):
        large = kind_of(Path(path)) == "text" and Path(path).stat().st_size > QUICK_BYTES
    if not large:
        with open_signals(path, options):
            pass


def read(path: PathLike, options: ReadOptions | None = None) -> list[Observation]:
    """Reads all observations of a file: one, or one per row of its two-dimensional arrays.

    Args:
        path: File of the long streams, or of both: a text table of any suffix (``-`` for standard input), NumPy (.npy,
            .npz), HDF5 (.h5, .hdf5), NetCDF (.nc), WAV (.wav), FITS (.fits) or MATLAB (.mat). Arrays have the shapes
            (N,) or (n_signals, N) for the long and (M,) or (n_signals, M) for the short streams; a file with arrays
            ``long`` and ``short`` gives both.
        options: What the caller says about the file.

    Returns:
        The observations. Their times count from t_ref, and the `notes` of their channels say what was assumed and
        done.
    """
    with open_signals(path, options) as signals:
        return signals.all()


def read_observations(
    path: PathLike | Sequence[PathLike],
    dt: float | None = None,
    short_path: PathLike | None = None,
    dt_short: float | None = None,
    **options: Any,
) -> list[Observation]:
    """Reads all observations of a file, as :func:`read` does.

    Args:
        path: File of the long streams, or of both; several files, such as the sectors of a star, are joined into one
            series.
        dt: Sampling step of the long streams in seconds, if the file does not tell.
        short_path: File of the short streams, if it is a file of its own.
        dt_short: Sampling step of the short streams in seconds, if the file does not tell.
        **options: Further fields of :class:`ReadOptions`, such as ``column``, ``dataset``, ``time``, ``time_unit``,
            ``errors``, ``complex``, ``missing``, ``trend``.
    """
    if not isinstance(path, str | os.PathLike):
        if not path:
            raise ValueError("expected one file or more, received none.")
        path, *further = path
        options["further"] = tuple(further)
    return read(path, ReadOptions(dt, short_path, dt_short, **options))


def read_observation(
    path: PathLike | Sequence[PathLike],
    dt: float | None = None,
    short_path: PathLike | None = None,
    dt_short: float | None = None,
    **options: Any,
) -> Observation:
    """Reads the only observation of a file, with the arguments of :func:`read_observations`."""
    found = read_observations(path, dt, short_path, dt_short, **options)
    if len(found) != 1:
        raise ValueError(
            f"{path}: expected one signal, received {len(found)} (one per row); read_observations reads them all."
        )
    return found[0]
