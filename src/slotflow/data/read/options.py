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
        "Column of a table or channel of a WAV file: its name, or its number counted from 1; for complex samples both "
        "parts, as in re,im.",
    ] = None
    dataset: Annotated[
        str | None,
        "Name of the array in an NPZ, HDF5, NetCDF or MATLAB file.",
    ] = None
    t_ref: Annotated[
        float | str | None,
        "Instant on the file's clock that phases refer to, in seconds or as a date. By default, this is the clock's "
        "zero, or the first sample if the stamps are dates or start at an epoch.",
    ] = None
    time_unit: Annotated[
        str | None,
        "Unit of the time stamps, if not in the file: ns, us, ms, s, min, h, d or yr.",
    ] = None
    fill: Annotated[
        str | None,
        "Fill missing samples of an even series: linear or mean. By default they are left out, which is just as good.",
    ] = None
    max_gap: Annotated[
        int,
        "Longest run of missing samples to fill.",
    ] = LONGEST_GAP
    detrend: Annotated[
        int | None,
        "Subtract the offset (0), a line (1), a parabola (2) or a cubic (3), fitted by least squares, and marginalize "
        "what the fit may have missed.",
    ] = None
    sigma: Annotated[
        float | None,
        "Noise standard deviation per sample of the long stream, if it is known.",
    ] = None
    sigma_short: Annotated[
        float | None,
        "Noise standard deviation per sample of the short stream, if it differs.",
    ] = None
    free_gain: Annotated[
        bool,
        "The second stream (--short) comes from a sensor of unknown response, in which each component has its own "
        "amplitude and phase.",
    ] = False
    time: Annotated[
        str | int | None,
        "Column or array of the time stamps. With 'none', stamps are ignored, and the step is the stated one or the "
        "file's rate.",
    ] = None
    errors: Annotated[
        str | int | None,
        "Column or array with the standard deviation of each sample's noise. With 'none', errors in the file are "
        "ignored.",
    ] = None
    segments: Annotated[
        str | int | None,
        "Column or array with a whole number for each sample (quarters, sectors): each number gets its own offset.",
    ] = None
    missing: Annotated[
        float | None,
        "Number that stands for a missing value, if the file does not say.",
    ] = None
    complex: Annotated[
        bool,
        "Take two columns (or the two channels of a WAV file) as the real and the imaginary part of complex samples.",
    ] = False
    relative: Annotated[
        bool,
        "Divide the values by their median and subtract 1, segment by segment.",
    ] = False
    trend: Annotated[
        int | None,
        "Order of the polynomial in time that is marginalized: -1 none, 0 an offset, up to 3.",
    ] = None
    further: Annotated[
        tuple[str | os.PathLike[str], ...],
        "Files that continue the series: sectors or quarters, each with an offset of its own.",
    ] = ()
    varying: Annotated[
        bool,
        "Refuse a series of which nothing can be inferred, such as one that does not vary.",
    ] = False


def option_help(name: str) -> str:
    """The description of a field of :class:`ReadOptions`."""
    hints = get_type_hints(ReadOptions, include_extras=True)
    return str(hints[name].__metadata__[0])
