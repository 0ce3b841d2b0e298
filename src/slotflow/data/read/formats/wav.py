"""WAV files as tables: one column per channel, integers scaled to full scale ±1."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from slotflow.data.read.tables import Table, foreign

__all__ = ["wav_table"]

STREAMED = 2**32 - 1
"""Size in the header of a file that was written without knowing its end."""


def wav_table(path: Path) -> Table:
    """Reads a WAV file.

    Integers of b bits are divided by 2^(b−1) (8-bit ones, which are unsigned, less 128 before): full scale is ±1.
    Floating-point samples stay as they are.
    """
    from scipy.io import wavfile

    with path.open("rb") as file:
        head = file.read(8)
    promised = int.from_bytes(head[4:], "little")
    if head[:4] == b"RIFF" and path.stat().st_size < promised + 8 and promised != STREAMED:
        raise ValueError(
            f"expected a WAV file of {promised + 8:,} bytes as its header says, received "
            f"{path.stat().st_size:,}: it was cut short, a damaged or foreign file; copy it again."
        )
    with foreign("WAV"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chunks other than sound, which scipy skips
        rate, raw = wavfile.read(path)
        data = np.asarray(raw).reshape(len(raw), -1)  # (n, channels)
        values = data.astype(np.float64)
    notes: tuple[str, ...] = ()
    if data.dtype.kind in "iu":
        bits = 8 * data.dtype.itemsize
        full = 2.0 ** (bits - 1)
        values = (values - full * (data.dtype.kind == "u")) / full
        notes = (f"{bits}-bit integers divided by {full:.0f}: full scale is ±1",)
    if not rate > 0:
        raise ValueError(f"expected a sampling rate above 0, received {rate}; correct the header.")
    names = [f"channel {i + 1}" for i in range(values.shape[1])]
    columns = dict(zip(names, values.T, strict=True))
    units = dict.fromkeys(names, "full scale") if notes else {}
    return Table(names, columns.__getitem__, True, step=1 / rate, units=units, notes=notes)
