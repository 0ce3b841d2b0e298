"""Choosing the series among the arrays of a file, and what belongs to it: time stamps, errors, segments.

- The series is the array (column, channel) that the caller names; otherwise ``long`` (``short`` for a short stream),
  ``x`` or ``values``; otherwise the only one there is; otherwise the one with the obvious name, such as ``flux``
  (:mod:`slotflow.data.read.names`), which is noted. Two-dimensional arrays hold one signal per row.
- Real and imaginary parts may be two arrays: ``re`` and ``im``, ``I`` and ``Q``, or two that the caller names.
- An array of a few columns, of which the first one rises, is a table: time stamps and series. So is one of two or
  three rows, if nothing else tells the step.
- Errors are what the caller names; otherwise the array called after the series (``flux_err``), or ``error``, ``sigma``
  and the like, if it has the shape of the series.
- In a table of three columns without headers, the third one holds the errors of the second if its numbers are positive
  and of the size of that one's scatter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slotflow.data.read.names import (
    complex_pair,
    errors_of,
    is_secondary,
    obvious_series,
    segments_of,
)
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import SHORTEST_SIGNAL, Array, Rows, Table
from slotflow.data.read.timestamps import AUXILIARY, RATES, STEPS

__all__ = ["Choice", "as_columns", "choose"]

ERROR_TO_SCATTER = (0.05, 3.0)
"""Smallest and largest error, as a share of the scatter from one sample to the next, of a column that holds errors."""
FEW_COLUMNS, FEW_ROWS = range(2, SHORTEST_SIGNAL), (2, 3)
"""Columns of an array that is a table, and rows of one that lies on its side."""
NAMES_SHOWN = 12
"""Names that a complaint lists at most."""


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


def as_columns(table: Table, role: str, options: ReadOptions) -> Table:
    """A table whose only array, or the one that the caller names, holds time stamps and series as its columns.

    Args:
        table: The arrays of the file.
        role: ``long`` or ``short``.
        options: What the caller says about this series.

    Returns:
        Those columns; the table itself where there are none.
    """
    if table.columns:
        return table
    series = _candidates(table)
    named = str(options.dataset or "").strip("/") or (series[0] if len(series) == 1 else "")
    if named not in table.names or options.time is not None:
        return table
    count, size = table.shape(named)
    timed = options.dt is not None or table.step is not None
    timed = timed or table.find(named, role, *STEPS, *RATES) is not None
    timed = timed or table.time_of(named, role) is not None
    upright = size in FEW_COLUMNS and count > SHORTEST_SIGNAL
    lying = count in FEW_ROWS and size > SHORTEST_SIGNAL and not timed
    if not (upright or lying):
        return table
    values = table.get(named)
    values = values.T if lying else values
    if values.dtype.kind not in "fiu" or not (np.diff(values[:, 0].astype(np.float64)) > 0).all():
        return table
    names = [f"column {j + 1}" for j in range(values.shape[1])]
    columns = dict(zip(names, values.T, strict=True))
    kind = "rows" if lying else "columns"
    notes = (*table.notes, f"the {kind} of {named!r} taken as a table, the first as time stamps")
    return Table(names, columns.__getitem__, True, names[1:], names[0], notes=notes)


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
    errors, said = _errors(table, parts, time, options.errors)
    segments = None
    if options.segments is not None:
        segments = _named(table, options.segments, "segments")
    elif (found := segments_of(table.names)) and _is_numbering(table, found):
        segments = found if found not in (*parts, time) else None
    if segments is not None:
        said += (f"each part that {segments!r} numbers has an offset of its own",)
    return Choice(parts, time, errors, segments, notes + said)


def _named(table: Table, wanted: str | int, option: str) -> str:
    """An array that the caller names, or a column by its number."""
    if wanted in table.names:
        return str(wanted)
    if isinstance(wanted, str) and wanted.strip("/") in table.names:  # as HDF5 writes paths
        return wanted.strip("/")
    numbered = {str(i): name for i, name in enumerate(table.names, 1)}
    if str(wanted) in numbered:
        return numbered[str(wanted)]
    listing = ", ".join(map(repr, table.names[:NAMES_SHOWN])) or "none"
    raise ValueError(
        f"expected one of {listing} as {option}, received {wanted!r}; name another (on the command line --{option})."
    )


def _candidates(table: Table) -> list[str]:
    """The arrays that can be the series."""
    series = table.offered
    if series is None:
        series = [name for name in table.names if name != table.time]
    if table.columns:
        return series
    return [name for name in series if not AUXILIARY.match(name.rpartition("/")[2])]


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
    series = _candidates(table)
    kind, option = ("column", "column") if table.columns else ("array", "dataset")
    listing = ", ".join(map(repr, (series or table.names)[:NAMES_SHOWN])) or "none"
    if wanted is not None:
        both = str(wanted).split(",") if wanted not in table.names else [str(wanted)]
        try:
            found = tuple(_named(table, one.strip(), option) for one in both)
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
    if chosen is None and _has_errors(table, series):
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


def _is_numbering(table: Table, name: str) -> bool:
    """Whether an array numbers parts that follow each other, unlike the quarters of a year, which come again."""
    try:
        labels = table.get(name)
    except ValueError:
        return False
    whole = labels.ndim == 1 and labels.dtype.kind in "fiu" and bool((labels % 1 == 0).all())
    return whole and bool((np.diff(labels) >= 0).all())


def _errors(
    table: Table, parts: tuple[str, ...], time: str | None, wanted: str | int | None
) -> tuple[str | None, tuple[str, ...]]:
    """The errors of a series, and what to say of their choice."""
    if wanted is not None:
        if str(wanted).lower() == "none" and wanted not in table.names:
            return None, ()
        return _named(table, wanted, "errors"), ()
    others = [name for name in table.names if name not in (*parts, time)]
    found = errors_of(parts[0], [*others, parts[0]])
    if found is not None:
        return (found, ()) if _fits(table, parts[0], found) else (None, ())
    if _has_errors(table, [parts[0], *others]):
        return others[0], (
            f"{others[0]!r} taken as the errors of {parts[0]!r}, since its numbers are of the size of that one's "
            "scatter",
        )
    return None, ()


def _fits(table: Table, name: str, errors: str) -> bool:
    """Whether an array has the shape of a series' errors."""
    rows = table.rows(name)
    try:
        found = table.get(errors)
    except ValueError:  # words in a column that nobody asked for
        return False
    if found.dtype.kind not in "fiu":
        return False
    shape = (rows.size,) if rows.count == 1 else (rows.count, rows.size)
    return found.shape == shape or (rows.count == 1 and found.shape == (1, rows.size))


def _has_errors(table: Table, series: list[str]) -> bool:
    """Whether a table without headers holds a series and its errors: two columns beside the time stamps.

    Args:
        table: The columns.
        series: Those beside the time stamps.
    """
    unnamed = all(name.startswith("column ") for name in table.names)
    if not (table.columns and unnamed and table.time is not None and len(series) == 2):
        return False
    try:
        values, errors = (table.get(name) for name in series)
    except ValueError:
        return False
    if values.dtype.kind not in "fiu" or errors.dtype.kind not in "fiu":
        return False
    values, errors = values[np.isfinite(values)], errors[np.isfinite(errors)]
    if values.size < 2 or errors.size < 2 or errors.min() <= 0:
        return False
    scatter, typical = float(np.median(np.abs(np.diff(values)))), float(np.median(errors))
    low, high = ERROR_TO_SCATTER
    return low * scatter <= typical <= high * scatter
