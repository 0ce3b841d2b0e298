"""Choosing a series among the arrays of a file, and putting it on its time grid.

- The series is the array (column, channel) that the caller names; otherwise ``long`` (``short`` for a short stream),
  ``x`` or ``values``; otherwise the only one there is. Two-dimensional arrays hold one signal per row.
- Its step is the caller's ``dt``; otherwise the file's (``dt_long``, ``dt_short`` or ``dt``; a rate such as ``fs`` or
  ``sample_rate``; that of a WAV file); otherwise it is measured on the time stamps. Where two of them are known they
  must agree: over the whole series the two grids may drift apart by 5 % of one step.
- Time stamps are what the caller names (``time``; ``none`` says that there are none), otherwise what the format or
  their name says.
- Time stamps are seconds unless the file or the caller states another unit. They must be even to 0.1 % of the step (see
  :class:`slotflow.Stream`). Stamps printed with few digits are put back on the even grid first, if no more than their
  last digit is moved and that digit is worth less than 5 % of the step.
- Missing samples are refused unless the caller chooses how to fill them: numbers that are not finite, and stamps that
  are absent from an otherwise even grid.
- Phases refer to t = 0, which is the file's own zero, or ``t_ref`` on the file's clock: what the caller says, or the
  first stamp where that is a date or lies more than 100 durations from zero (an epoch).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.data.channel import Channel
from slotflow.data.gaps import even_step, fill_gaps, missing_stamps
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import Array, Rows, Table
from slotflow.data.read.timestamps import (
    AUXILIARY,
    RATES,
    STARTS,
    STEPS,
    Stamps,
    parse_date,
    print_date,
    to_seconds,
)
from slotflow.data.trend import check_remainder, check_varying, detrend

__all__ = ["Series", "read_series"]

GRID_SLACK = 0.05
"""Share of a step by which two accounts of the same time grid may differ at most."""
EPOCH_DURATIONS = 100.0
"""Durations from zero beyond which the phase at t = 0 says nothing."""


@dataclass(frozen=True)
class Series:
    """An array of a file and its sampling instants, before its times are referred to anything."""

    file: str
    """Name of the file, for complaints."""
    options: ReadOptions
    """What the caller says about it."""
    rows: Rows
    """The signals, (n,) each."""
    dt: float
    """Step in seconds."""
    start: float | None
    """Time of the first sample on the file's clock in seconds; None where the file has no clock."""
    dated: bool
    """Whether that clock counts from 1970."""
    places: NDArray[np.int64] | None
    """Place of each sample on the grid, (n,), where some are missing."""
    unit: str
    """Unit of the values; empty if unknown."""
    notes: tuple[str, ...]
    """What was assumed and done, in words."""

    def reference(self, t_ref: float | str | None) -> float:
        """The instant on the file's clock that phases refer to, in seconds.

        Args:
            t_ref: What the caller says: seconds, or a date where the clock counts from 1970. None stands for 0, or
                for the first sample where that is a date or an epoch.
        """
        start = self.start or 0.0
        if t_ref is None:
            far = abs(start) > EPOCH_DURATIONS * self.rows.size * self.dt
            return start if self.dated or far else 0.0
        ticks = parse_date(t_ref) if isinstance(t_ref, str) and self.dated else None
        try:
            found = float(t_ref) if ticks is None else ticks / 10**9
        except ValueError:
            known = "a date such as 2024-03-01T12:00:00" if self.dated else "seconds"
            raise ValueError(f"expected t_ref as {known}, received {t_ref!r}.") from None
        if not math.isfinite(found):
            raise ValueError(f"expected a finite t_ref, received {t_ref!r}.")
        return found

    def read(self, first: int, last: int, t_ref: float, stated: bool) -> list[Channel | ValueError]:
        """The signals first, …, last − 1 as channels whose times count from t_ref, or why one cannot be used.

        Missing samples are filled, and an offset or a trend is removed, if the caller asks for it.

        Args:
            first: Number of the first signal, counted from 0.
            last: Number of the one after the last.
            t_ref: The instant that phases refer to.
            stated: Whether the caller chose it; if not, signals without a clock begin at t = 0.
        """
        unclocked = -t_ref if stated and t_ref else 0.0
        t0 = unclocked if self.start is None else self.start - t_ref
        notes = self.notes
        if t_ref:
            date = f" ({print_date(t_ref)})" if self.dated and abs(t_ref) < 2**33 else ""
            notes += (f"phases refer to t_ref = {t_ref!r} s{date}",)
        found: list[Channel | ValueError] = []
        for i, row in enumerate(self.rows.read(first, last), first):
            try:
                found.append(self._channel(row, t0, t_ref, notes))
            except ValueError as error:
                several = self.rows.count > 1
                row_name = f"row {i + 1} of {self.rows.count}: " if several else ""
                found.append(ValueError(f"{self.file}: {row_name}{error}"))
        return found

    def _channel(self, row: Array, t0: float, t_ref: float, notes: tuple[str, ...]) -> Channel:
        """One signal, filled, checked and without its trend as the caller asks."""
        options = self.options
        values, filled = self._filled(row)
        if filled:
            count = sum(last - first + 1 for first, last in filled)
            notes += (f"{count} of {values.size} samples missing, filled ({options.fill})",)
        channel = Channel(values, self.dt, t0, options.sigma, t_ref, self.unit, filled, notes)
        if options.varying:
            check_varying(channel)
        if options.detrend is None:
            return channel
        rest = detrend(channel, options.detrend)
        if options.varying:
            check_remainder(channel, rest)
        return rest

    def _filled(self, row: Array) -> tuple[Array, tuple[tuple[int, int], ...]]:
        """A signal without gaps, and the runs of samples that were filled."""
        if self.options.fill is None or row.dtype.kind not in "fiub" or row.ndim != 1:
            return row, ()
        if self.places is not None:
            whole = np.full(int(self.places[-1]) + 1, math.nan)
            whole[self.places] = row
            row = whole
        return fill_gaps(row, self.options.fill, self.options.max_gap)


def read_series(table: Table, file: str, role: str, options: ReadOptions) -> Series:
    """Chooses the series of a table and finds its sampling instants.

    Args:
        table: The arrays of the file.
        file: The file's name, for complaints.
        role: ``long`` or ``short``.
        options: What the caller says about this series.
    """
    if options.column is not None and not table.columns:
        raise ValueError(
            "columns belong to text tables and channels to WAV files; name the array with dataset instead (on the "
            "command line --dataset)."
        )
    if options.dataset is not None and table.columns:
        raise ValueError(
            "a text table or WAV file has no datasets; name the column with column instead (on the command line "
            "--column)."
        )
    name = _series_name(table, role, options.column if table.columns else options.dataset)
    with np.errstate(all="ignore"):  # what overflows is refused as not finite
        return _on_grid(table, file, name, role, options)


def _series_name(table: Table, role: str, wanted: str | int | None) -> str:
    """Chooses the series among the arrays of a file."""
    if wanted in table.names:
        return str(wanted)
    if isinstance(wanted, str) and wanted.strip("/") in table.names:  # as HDF5 writes paths
        return wanted.strip("/")
    numbered = {str(i): name for i, name in enumerate(table.names, 1)}
    if str(wanted) in numbered:
        return numbered[str(wanted)]
    series = table.offered
    if series is None:
        series = [n for n in table.names if n != table.time]
    if not table.columns:
        series = [n for n in series if not AUXILIARY.match(n.rpartition("/")[2])]
    kind, option = ("column", "column") if table.columns else ("array", "dataset")
    listing = ", ".join(repr(n) for n in (series or table.names)[:12]) or "none"
    if wanted is not None:
        raise ValueError(
            f"expected one of the {kind}s {listing}, received {wanted!r}; name one of them with {option} (on the "
            f"command line --{option})."
        )
    for name in (role, "x", "values"):
        if name in series:
            return name
    if len(series) != 1:
        raise ValueError(
            f"expected one series (named {role!r}, 'x' or 'values' if there are more), "
            f"received the {kind}s {listing}; name the one to read with {option} (on the command line --{option})."
        )
    return series[0]


def _on_grid(table: Table, file: str, name: str, role: str, options: ReadOptions) -> Series:
    """Joins the rows of an array with their grid, after a check that all accounts of its step agree."""
    rows = table.rows(name)
    n = rows.size
    steps = {} if options.dt is None else {"dt as given": float(options.dt)}
    if table.step is not None:
        steps["the sampling rate in the file"] = table.step
    if found := table.find(name, role, *STEPS):
        steps[f"{found!r} in the file"] = table.number(found)
    if found := table.find(name, role, *RATES):
        steps[f"the rate {found!r} in the file"] = _inverse(table.number(found), found)
    found = table.find(name, role, *STARTS)
    start = table.number(found) if found else None
    dated, places, notes = False, None, table.notes
    if (time := table.time_of(name, role, options.time)) is not None:
        stamp_unit = options.time_unit or table.units.get(time)
        stamps = to_seconds(table.get(time), stamp_unit, table.resolution)
        if stamps.seconds.size != n:
            raise ValueError(
                f"times and values must have equal lengths, received {stamps.seconds.size} and {n}."
            )
        step, places = _step(stamps, options.fill is not None)
        steps[f"the time stamps {time!r}"] = step
        start, dated = stamps.start, stamps.dated
        if places is not None:
            n = int(places[-1]) + 1
        if table.get(time).dtype.kind != "M":
            said = f"in {stamp_unit}" if stamp_unit else "without a unit, taken as seconds"
            notes += (f"time stamps {time!r} {said}",)
    if not steps:
        argument, flag = ("dt", "--dt") if role == "long" else ("dt_short", "--dt-short")
        raise ValueError(
            "expected a sampling step or time stamps, received neither; "
            f"give the step in seconds with {argument} (on the command line {flag})."
        )
    (first, chosen), *others = steps.items()
    for source, step in others:
        if not abs(step - chosen) * n <= GRID_SLACK * abs(step):
            raise ValueError(
                f"expected one sampling step, received {chosen:.9g} s ({first}) and "
                f"{step:.9g} s ({source}); correct or drop one of them{_no_time(time)}."
            )
    unit = table.units.get(name, "")
    return Series(file, options, rows, chosen, start, dated, places, unit, notes)


def _inverse(rate: float, name: str) -> float:
    """The step of a sampling rate."""
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(
            f"expected samples per second above 0 as {name!r}, received {rate:g}; correct the file."
        )
    return 1 / rate


def _no_time(time: str | None) -> str:
    """What else to do where stamps contradict a step."""
    if time is None:
        return ""
    return (
        f"; if {time!r} holds no times, say so with time='none' (on the command line --time none), or name the column "
        "of the values if it is that one (--column)"
    )


def _step(stamps: Stamps, fill: bool) -> tuple[float, NDArray[np.int64] | None]:
    """The step of time stamps and, if missing ones may be filled, their places on the grid."""
    t = _restore_grid(stamps.seconds, stamps.resolution)
    if fill and (places := missing_stamps(t, stamps.resolution)) is not None:
        return float(t[-1] / places[-1]), places
    return even_step(t, stamps.resolution), None


def _restore_grid(times: NDArray[np.float64], resolution: float) -> NDArray[np.float64]:
    """Puts rounded time stamps (n,) back on the even grid that they were printed from."""
    if resolution == 0 or times.size < 3 or not np.isfinite(times).all():
        return times
    grid = np.linspace(times[0], times[-1], times.size)
    rounded = np.abs(times - grid).max() <= resolution <= GRID_SLACK * (grid[1] - grid[0])
    return grid if rounded else times
