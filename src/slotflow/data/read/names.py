"""What the names of columns and arrays say: which one is the series, which holds its errors, which two are one.

Names are compared in small letters, without the unit in brackets and without the path in front: ``Flux [e-/s]`` and
``run/flux`` are both ``flux``. Nothing here looks at numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["complex_pair", "errors_of", "is_secondary", "obvious_series", "plain", "segments_of"]

SERIES = (
    "pdcsap_flux",
    "sap_flux",
    "flux",
    "relative_flux",
    "rel_flux",
    "norm_flux",
    "magnitude",
    "mag",
    "brightness",
    "intensity",
    "strain",
    "signal",
    "value",
    "values",
    "val",
    "x",
    "y",
    "data",
    "sample",
    "samples",
    "height",
    "sea_level",
    "water_level",
    "waterlevel",
    "sealevel",
    "level",
    "elevation",
    "verified",
    "voltage",
    "volts",
    "amplitude",
    "displacement",
    "position",
    "acceleration",
    "velocity",
    "radial_velocity",
    "vrad",
    "rv",
    "pressure",
    "temperature",
    "temp",
    "counts",
    "count_rate",
    "rate",
    "current",
    "average",
    "mean",
    "measurement",
    "measured",
    "reading",
    "observed",
    "obs",
)
"""What people call the column that matters, the more telling names first."""
ERROR_WORDS = (
    "err",
    "error",
    "errors",
    "sigma",
    "unc",
    "uncertainty",
    "uncert",
    "stderr",
    "std",
    "sd",
    "sdev",
    "stdev",
)
"""What people call the standard deviation of a sample, alone or beside the name of what it belongs to."""
SECONDARY = re.compile(
    rf"(.*_)?({'|'.join(ERROR_WORDS)})(_.*)?$|e_.+|(.*_)?(quality|flags?|qc|cadence(no)?|timecorr|bkg|background|"
    r"quarter|sector|segment|ndays)(_.*)?$"
)
"""Names of columns that speak of another one."""
SEGMENTS = ("quarter", "sector", "segment", "segments")
REAL, IMAGINARY = ("re", "real"), ("im", "imag", "imaginary")


def plain(name: str) -> str:
    """A name in small letters, without path, unit and punctuation."""
    last = name.rpartition("/")[2]
    last = re.sub(r"[\[(].*$", "", last) or last
    return re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_")


def is_secondary(name: str) -> bool:
    """Whether a column speaks of another one: errors, flags, counters."""
    return SECONDARY.fullmatch(plain(name)) is not None


def obvious_series(names: Sequence[str]) -> str | None:
    """The one of several columns that is the series by its name; None where that cannot be told.

    Args:
        names: The columns that can be the series.
    """
    found = {name: plain(name) for name in names}
    for wanted in SERIES:
        exact = [name for name, text in found.items() if text == wanted]
        if len(exact) == 1:
            return exact[0]
        if exact:
            return None
    for wanted in SERIES:
        if len(wanted) < 3:
            continue
        near = [name for name, text in found.items() if f"_{wanted}_" in f"_{text}_"]
        if near:
            return near[0] if len(near) == 1 else None
    return None


def errors_of(name: str, names: Sequence[str]) -> str | None:
    """The column that holds the errors of another one, by its name.

    Args:
        name: The series.
        names: All columns.
    """
    series = plain(name)
    own = {f"{series}_{word}" for word in ERROR_WORDS} | {
        f"{word}_{series}" for word in ERROR_WORDS
    }
    own |= {f"e_{series}", f"{series}err", f"err{series}", f"d{series}", f"delta_{series}"}
    beside = [n for n in names if n != name and n.rpartition("/")[0] == name.rpartition("/")[0]]
    for wanted in (own, set(ERROR_WORDS)):
        found = [n for n in beside if plain(n) in wanted]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def segments_of(names: Sequence[str]) -> str | None:
    """The column that numbers the pieces of a record (quarters, sectors), by its name."""
    return next((name for name in names if plain(name) in SEGMENTS), None)


def complex_pair(names: Sequence[str]) -> tuple[str, str] | None:
    """The two columns that are real and imaginary part of one series by their names; None where there are none.

    That is ``re`` and ``im``, ``x_real`` and ``x_imag``, ``I`` and ``Q``. Of several pairs none is taken.
    """
    parts: dict[tuple[str, ...], dict[str, str]] = {}
    for name in names:
        words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
        words = words if words not in (["i"], ["q"]) else [{"i": "re", "q": "im"}[words[0]]]
        part = next((w for w in words if w in REAL + IMAGINARY), None)
        if part is not None:
            key = tuple("*" if word == part else word for word in words)
            parts.setdefault(key, {})["re" if part in REAL else "im"] = name
    pairs = [(found["re"], found["im"]) for found in parts.values() if len(found) == 2]
    return pairs[0] if len(pairs) == 1 else None
