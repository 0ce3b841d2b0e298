"""Free induction decays of Bruker spectrometers as tables: the file ``fid`` with ``acqus`` beside it (extra ``nmr``).

Samples are complex, at the step 1/SW_h. A spectrometer's digital filter delays the decay by d samples (GRPDLY, or a
table for older ones) and, being symmetric, needs as many again until its answer to the pulse has passed. The first 2d
samples are therefore left out, and nothing is resampled: t = 0 is the pulse, and the first sample that is kept comes
(⌈2d⌉ − d) steps after it. Frequencies are those of the file, relative to the carrier; a note says what they are in ppm.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.packages import needed
from slotflow.data.read.tables import Array, Table, foreign

__all__ = ["fid_in", "is_fid", "nmr_table"]

SAMPLES, SETTINGS = "fid", "acqus"
"""Names of the files in the folder of an experiment."""


def is_fid(path: Path) -> bool:
    """Whether a file holds a decay, with the settings beside it."""
    return path.name == SAMPLES and (path.parent / SETTINGS).is_file()


def fid_in(folder: Path) -> Path | None:
    """The decay in the folder of an experiment; None in any other folder."""
    path = folder / SAMPLES
    return path if path.is_file() and is_fid(path) else None


def nmr_table(path: Path) -> Table:
    """Reads a decay of one dimension.

    Args:
        path: The file of the samples.
    """
    bruker = needed("nmrglue.fileio.bruker", "nmr", "to read the decays of Bruker spectrometers")
    with foreign("Bruker"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings that are not asked for
        facts, samples = bruker.read(
            str(path.parent), bin_file=SAMPLES, read_pulseprogram=False, read_procs=False
        )
        settings, values = facts[SETTINGS], np.asarray(samples)
        width = float(settings["SW_h"])
        delay = _delay(settings, bruker.bruker_dsp_table)
    if values.ndim != 1 or not np.iscomplexobj(values):
        raise ValueError(
            f"expected a decay of one dimension with complex samples, received the shape {values.shape} of type "
            f"{values.dtype}; write the part to analyse with np.save and give its step (--dt)."
        )
    if not (math.isfinite(width) and width > 0):
        raise ValueError(
            f"expected a spectral width above 0 Hz as SW_h, received {width}; correct {SETTINGS}."
        )
    cut = math.ceil(2 * delay)
    if cut >= values.size:
        raise ValueError(
            f"expected more than {cut} samples, which the digital filter takes (GRPDLY = {delay:g}), received "
            f"{values.size}; the file was cut short, or its settings belong to another one."
        )
    arrays: dict[str, Array] = {
        "fid": values[cut:].astype(np.complex128),
        "dt": np.asarray(1 / width),
        "t0": np.asarray((cut - delay) / width),
    }
    return Table(list(arrays), arrays.__getitem__, offered=["fid"], notes=_notes(settings, cut))


def _delay(settings: Mapping[str, Any], table: Mapping[int, Mapping[int, float]]) -> float:
    """By how many samples the digital filter delays a decay: 0 for analog filters."""
    stated = float(settings.get("GRPDLY", -1))
    if stated >= 0:
        return stated
    version, decimation = int(settings.get("DSPFVS", 0)), int(settings.get("DECIM", 1))
    return float(table.get(version, {}).get(decimation, 0.0))


def _notes(settings: Mapping[str, Any], cut: int) -> tuple[str, ...]:
    """What was measured and left out, and what a frequency is in ppm, in words."""
    notes: tuple[str, ...] = ()
    if cut:
        notes += (
            f"the first {cut} samples, the digital filter's, are left out; t = 0 is the pulse",
        )
    carrier, base = (float(settings.get(key, math.nan)) for key in ("O1", "BF1"))
    if math.isfinite(carrier) and base > 0:
        nucleus = str(settings.get("NUC1", "")).strip("<> ")
        notes += (
            f"{nucleus} " * bool(nucleus)
            + f"shift in ppm = (f + {carrier:.9g} Hz) / {base:.9g} MHz, before any reference",
        )
    return notes
