"""Choosing the series among the arrays of a file, and what belongs to it: time stamps, errors, segments.

- The series is the array (column, channel) that the caller names; otherwise ``long`` (``short`` for a short stream),
  ``x`` or ``values``; otherwise the only one there is; otherwise the one with the obvious name, such as ``flux``
  (:mod:`slotflow.data.read.names`), which is noted. Two-dimensional arrays hold one signal per row.
- Real and imaginary parts may be two arrays: ``re`` and ``im``, ``I`` and ``Q``, or two that the caller names.
- What belongs to it is found by :mod:`slotflow.data.read.companions`; an array that is a table by itself is taken apart
  before (:mod:`slotflow.data.read.array_tables`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slotflow.data.read.companions import (
    NAMES_SHOWN,
    candidates,
    choose_errors,
    choose_segments,
    has_errors,
    named_array,
)
from slotflow.data.read.names import complex_pair, is_secondary, obvious_series
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import Array, Rows, Table

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice:
    """The arrays that make up a series, by name."""

    parts: tuple[str, ...]
    """The series; real and imaginary part where these are two."""
    time: str | None
    """Its time stamps."""
    errors: str | None
    """The standard deviation of each sample."""
    segments: str | None
    """A whole number for each sample."""
    notes: tuple[str, ...]
    """What was chosen by a name, in words."""

    @property
    def name(self) -> str:
        """The series, or its real part."""
        return self.parts[0]

    def rows(self, table: Table) -> Rows:
        """The signals of the series."""
        rows = table.rows(self.name)
        if len(self.parts) == 1:
            return rows
        other = table.rows(self.parts[1])
        if (other.count, other.size) != (rows.count, rows.size):
            raise ValueError(
                f"expected real and imaginary parts of equal size, received {rows.count} × {rows.size} in "
                f"{self.parts[0]!r} and {other.count} × {other.size} in {self.parts[1]!r}; check the names."
            )

        def read(first: int, last: int) -> list[Array]:
            pairs = zip(rows.read(first, last), other.read(first, last), strict=True)
            return [_joined(re, im) for re, im in pairs]

        return Rows(rows.count, rows.size, read)


def _joined(re: Array, im: Array) -> Array:
    """Complex numbers of their real and imaginary parts."""
    if re.dtype.kind not in "fiub" or im.dtype.kind not in "fiub":
        raise ValueError(
            f"expected numbers as real and imaginary parts, received the types {re.dtype} and {im.dtype}."
        )
    return np.asarray(re.astype(np.float64) + 1j * im.astype(np.float64))


def choose(table: Table, role: str, options: ReadOptions) -> Choice:
    """Chooses a series of a table and what belongs to it.

    Args:
        table: The arrays of the file.
        role: ``long`` or ``short``.
        options: What the caller says about this series.
    """
    if options.column is not None and not table.columns:
        raise ValueError(
            "columns belong to tables and channels to WAV files; name the array with dataset instead (on the command "
            "line --dataset)."
        )
    if options.dataset is not None and table.columns:
        raise ValueError(
            "a table or WAV file has no datasets; name the column with column instead (on the command line --column)."
        )
    wanted = options.column if table.columns else options.dataset
    parts, notes = _parts(table, role, wanted, options.complex)
    time = table.time_of(parts[0], role, options.time)
    errors, said = choose_errors(table, parts, time, options.errors)
    segments = choose_segments(table, (*parts, time), options.segments)
    if segments is not None:
        said += (f"each part that {segments!r} numbers has an offset of its own",)
    return Choice(parts, time, errors, segments, notes + said)


def _parts(
    table: Table, role: str, wanted: str | int | None, paired: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The series, as one array or as real and imaginary part, and what to say of the choice.

    Args:
        table: The arrays of the file.
        role: ``long`` or ``short``.
        wanted: What the caller names.
        paired: Whether the caller says that the samples are complex.
    """
    series = candidates(table)
    kind, option = ("column", "column") if table.columns else ("array", "dataset")
    listing = ", ".join(map(repr, (series or table.names)[:NAMES_SHOWN])) or "none"
    if wanted is not None:
        both = str(wanted).split(",") if wanted not in table.names else [str(wanted)]
        try:
            found = tuple(named_array(table, one.strip(), option) for one in both)
        except ValueError:
            found = ()
        if len(found) not in (1, 2) or (paired and len(found) != 2):
            needed = "two" if paired else "one"
            raise ValueError(
                f"expected {needed} of the {kind}s {listing}, received {wanted!r}; name {needed} of them with "
                f"{option} (on the command line --{option})."
            )
        return found, ()
    pair = complex_pair(series)
    if pair is None and paired and len(series) == 2:
        pair = (series[0], series[1])
    if pair is not None and role not in series:
        return pair, (f"{pair[0]!r} and {pair[1]!r} taken as real and imaginary part",)
    for name in (role, "x", "values"):
        if name in series and not paired:
            return (name,), ()
    if len(series) == 1 and not paired:
        return (series[0],), ()
    primary = [name for name in series if not is_secondary(name)]
    chosen = primary[0] if len(primary) == 1 else obvious_series(primary)
    if chosen is None and not table.columns and len(timed := _timed(table, primary, role)) == 1:
        chosen = timed[0]
    if chosen is None and has_errors(table, series):
        chosen = series[0]
    if chosen is not None and not paired:
        others = ", ".join(repr(name) for name in series if name != chosen)[:200]
        return (chosen,), (f"{kind} {chosen!r} chosen (others: {others})",)
    expected = (
        "two series, real and imaginary part,"
        if paired
        else f"one series (named {role!r}, 'x' or 'values' if there are more)"
    )
    raise ValueError(
        f"expected {expected}, received the {kind}s {listing}; name the one to read with {option} (on the command "
        f"line --{option})."
    )


def _timed(table: Table, names: list[str], role: str) -> list[str]:
    """Those of a few arrays that have as many numbers as their time stamps."""
    found = []
    for name in names[:NAMES_SHOWN]:
        time = table.time_of(name, role)
        if time is not None and table.shape(name)[1] == table.get(time).size:
            found.append(name)
    return found
