"""Numbers that stand for missing values, such as −9999.

Three things make a number such a mark: the caller says so; the file says so (``# missing value: -99.99``), and the
number lies outside of all others; or it is one of the usual marks (9999, −999.9, −32768, 1e20 and the like), and
further away from all others than these are from each other. Everything that is left out is noted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["marks_in_text", "without_marks"]

NUMBER = r"(?<![\w.:/-])(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w:/-])"
WORDS = (
    r"(?:missing|no[ _-]?data|nodata|fill(?:ed)?[ _-]?values?|absent|unavailable|invalid|bad value)"
)
BEFORE = re.compile(rf"{WORDS}[^0-9\n]{{0,40}}?{NUMBER}", re.IGNORECASE)
AFTER = re.compile(rf"{NUMBER}[^0-9\n]{{0,40}}?{WORDS}", re.IGNORECASE)
USUAL = [sign * nines for sign in (-1, 1) for nines in (999, 9999, 99999, 999999, 999.9, 999.99)]
USUAL += [-9999.9, 9999.9, -999.0e3, -32767, -32768, 1e20, 1e30, 1e35, 9.969209968386869e36]
"""Numbers that instruments and archives write where they have none."""
RTOL = 1e-6
"""Relative difference of a sample from a mark, for the sake of single precision."""
SMALLEST_USUAL = (1 - RTOL) * min(map(abs, USUAL))
"""Samples that are all smaller hold no usual mark."""
MOST_MARKS = 8
"""Numbers that a file may name at most."""
APART_NAMED, APART_USUAL = 0.25, 1.0
"""How far a number that the file names, and one of the usual marks, lie outside of all others, in their spread."""


def marks_in_text(lines: Iterable[str]) -> tuple[float, ...]:
    """Numbers that remarks in a file say stand for missing values."""
    found: dict[float, None] = {}
    for line in lines:
        short = line[:400]
        for pattern in (BEFORE, AFTER):
            for match in pattern.finditer(short):
                found[float(match[1])] = None
    return tuple(mark for mark in found if math.isfinite(mark))[:MOST_MARKS]


def without_marks(
    values: NDArray[Any], stated: float | None, named: tuple[float, ...]
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Samples with NaN in place of marks, and what to say of them.

    Args:
        values: Samples, (n,).
        stated: The mark that the caller names, if any.
        named: Marks that the file may have named.
    """
    if values.dtype.kind == "c":
        return values, ()
    low, high = _extremes(values)
    if stated is None and not named and -SMALLEST_USUAL < low <= high < SMALLEST_USUAL:
        return values.astype(np.float64, copy=False), ()  # as most series are
    x = values.astype(np.float64)
    x[np.isinf(x)] = math.nan
    notes = []
    candidates = [(mark, APART_NAMED) for mark in named] + [(mark, APART_USUAL) for mark in USUAL]
    if stated is not None:
        candidates = [(stated, -math.inf), *candidates]
    extremes = _extremes(x)
    for mark, distance in candidates:
        if mark != stated and not any(_is_mark(one, mark) for one in extremes):
            continue  # nothing lies outside of all others but an extreme
        where = _is_mark(x, mark)
        count = int(where.sum())
        if not count or not _is_apart(x[~where], mark, distance):
            continue
        x[where] = math.nan
        extremes = _extremes(x)
        notes.append(f"{count} of {x.size} samples are {mark:g}, taken as missing")
    return x, tuple(notes)


def _is_mark(x: Any, mark: float) -> Any:
    """Whether samples are a mark, up to the rounding of single precision."""
    return abs(x - mark) <= RTOL * abs(mark)


def _extremes(x: NDArray[Any]) -> tuple[float, float]:
    """The smallest and the largest sample that is not NaN; NaN if there is none."""
    if x.size and not math.isnan(low := float(x.min())):
        return low, float(x.max())
    known = x[~np.isnan(x)]
    return (float(known.min()), float(known.max())) if known.size else (math.nan, math.nan)


def _is_apart(others: NDArray[np.float64], mark: float, distance: float) -> bool:
    """Whether a mark lies outside of all other samples (n,), by a multiple of their spread."""
    if distance == -math.inf:
        return True
    low, high = _extremes(others)
    return mark < low - distance * (high - low) or mark > high + distance * (high - low)
