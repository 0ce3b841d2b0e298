"""WAV files as tables: one column per channel, integers scaled to full scale ±1."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from slotflow.data.read.tables import Table, foreign

__all__ = ["wav_table"]

UNKNOWN_SIZE = 2**32 - 1
"""Size in the header of a sound that was written before its end was known."""


def wav_table(path: Path) -> Table:
    """Reads a WAV file.

    Integers of b bits are divided by 2^(b−1) (8-bit ones, which are unsigned, less 128 before): full scale is ±1.
    Floating-point samples stay as they are.
    """
    from scipy.io import wavfile

    notes = _check_length(path)
    with foreign("WAV"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chunks other than sound, which scipy skips
        rate, raw = wavfile.read(path)
        data = np.asarray(raw).reshape(len(raw), -1)  # (n, channels)
        values = data.astype(np.float64)
    units = ""
    if data.dtype.kind in "iu":
        bits = 8 * data.dtype.itemsize
        full = 2.0 ** (bits - 1)
        values = (values - full * (data.dtype.kind == "u")) / full
        notes += (f"{bits}-bit integers divided by {full:.0f}: full scale is ±1",)
        units = "full scale"
    if not rate > 0:
        raise ValueError(f"expected a sampling rate above 0, received {rate}; correct the header.")
    names = [f"channel {i + 1}" for i in range(values.shape[1])]
    columns = dict(zip(names, values.T, strict=True))
    unit_of = dict.fromkeys(names, units) if units else {}
    return Table(names, columns.__getitem__, True, step=1 / rate, units=unit_of, notes=notes)


def _check_length(path: Path) -> tuple[str, ...]:
    """Refuses a file that is shorter than its headers say; the note of one whose headers do not say how long it is.

    Both the header of the file and that of the sound in it are asked: after a cut, some programs correct the first.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF":
            return ()
        promised = int.from_bytes(head[4:8], "little") + 8
        streamed = promised == UNKNOWN_SIZE + 8
        place = 12
        while len(chunk := file.read(8)) == 8:
            length = int.from_bytes(chunk[4:], "little")
            if chunk[:4] == b"data":
                streamed = streamed or length == UNKNOWN_SIZE
                promised = max(promised, place + 8 + length)
                break
            place += 8 + length + length % 2
            file.seek(place)
    if streamed:
        return ("the header does not say how long the sound is: read up to the end of the file",)
    if size < promised:
        raise ValueError(
            f"expected a WAV file of {promised:,} bytes as its header says, received {size:,}: it was cut short, a "
            "damaged or foreign file; copy it again."
        )
    return ()
