"""What a caller may say about a file that is to be read: stated here once, for Python and for the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, get_type_hints

from slotflow.data.gaps import LONGEST_GAP

__all__ = ["ReadOptions", "option_help"]


@dataclass(frozen=True)
class ReadOptions:
    """Everything that may be said about a file of signals; each field may be left out.

    The descriptions of the fields are also the help texts of the flags (:func:`option_help`).
    """

    dt: Annotated[
        float | None,
        "Step of the long stream in seconds, if not in the file.",
    ] = None
    short_path: Annotated[
        str | os.PathLike[str] | None,
        "File of the short stream, if it has its own.",
    ] = None
    dt_short: Annotated[
        float | None,
        "Step of the short stream in seconds, if not in the file.",
    ] = None
    column: Annotated[
        str | int | None,
        "Column of a text table or channel of a WAV file: its name, or its number counted from 1.",
    ] = None
    dataset: Annotated[
        str | None,
        "Name of the array in an NPZ, HDF5 or NetCDF file.",
    ] = None
    t_ref: Annotated[
        float | str | None,
        "Instant on the file's clock that phases refer to, in seconds or as a date. Where it is not given, that is the "
        "clock's zero, or the first sample if the stamps are dates or start at an epoch.",
    ] = None
    time_unit: Annotated[
        str | None,
        "Unit of the time stamps, if not in the file: ns, us, ms, s, min, h, d or yr.",
    ] = None
    fill: Annotated[
        str | None,
        "How to fill missing samples: linear or mean. Without it, missing samples are refused.",
    ] = None
    max_gap: Annotated[
        int,
        "Longest run of missing samples to fill.",
    ] = LONGEST_GAP
    detrend: Annotated[
        int | None,
        "Remove the offset (0), a line (1), a parabola (2) or a cubic (3), fitted by least squares. A tone of a few "
        "cycles loses a part of itself to such a fit.",
    ] = None
    sigma: Annotated[
        float | None,
        "Noise standard deviation per sample of the long stream, if it is known.",
    ] = None
    sigma_short: Annotated[
        float | None,
        "Noise standard deviation per sample of the short stream, if it differs.",
    ] = None
    time: Annotated[
        str | int | None,
        "Column or array of the time stamps. With 'none', stamps are left aside, and the step is the stated one or the "
        "file's rate.",
    ] = None
    varying: Annotated[
        bool,
        "Refuse a series of which nothing can be inferred, such as one that does not vary.",
    ] = False


def option_help(name: str) -> str:
    """The description of a field of :class:`ReadOptions`."""
    hints = get_type_hints(ReadOptions, include_extras=True)
    return str(hints[name].__metadata__[0])
