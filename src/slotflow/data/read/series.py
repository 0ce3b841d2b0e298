"""A series of a file and its signals as channels.

- Missing samples are left out by the channel: numbers that are not finite, marks such as −9999
  (:mod:`slotflow.data.read.marks`), and stamps that are absent from an otherwise even grid
  (:mod:`slotflow.data.read.timeline`). On an even grid the caller may have them filled instead.
- Phases refer to t = 0, which is the file's own zero, or ``t_ref`` on the file's clock: what the caller says, or the
  first stamp where that is a date or lies more than 100 durations from zero (an epoch).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from slotflow.data.channel import Channel, as_series
from slotflow.data.gaps import fill_gaps
from slotflow.data.read.array_tables import as_columns
from slotflow.data.read.choice import Choice, choose
from slotflow.data.read.clock import Clock, clock_of
from slotflow.data.read.dates import parse_date, print_date
from slotflow.data.read.marks import without_marks
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import Array, Rows, Table
from slotflow.data.read.timestamps import unit_seconds
from slotflow.data.trend import check_remainder, check_varying, detrend

__all__ = ["Series", "read_series"]

LATEST_DATE = 2.0**33
"""Seconds from 1970 beyond which an instant is not printed as a date."""
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
    """The signals, (m,) each, as the file holds them."""
    errors: Rows | None
    """Their errors: as many rows, or one for all of them."""
    segments: Array | None
    """A whole number for each sample of a signal, (m,)."""
    clock: Clock
    """When the samples were taken."""
    unit: str
    """Unit of the values; empty if unknown."""
    marks: tuple[float, ...]
    """Numbers that the file says stand for missing values."""
    notes: tuple[str, ...]
    """What was assumed and done, in words."""

    def reference(self, t_ref: float | str | None) -> float:
        """The instant on the file's clock that phases refer to, in seconds.

        Args:
            t_ref: What the caller says: seconds, or a date where the clock counts from 1970. None stands for 0, or
                for the first sample where that is a date or an epoch.
        """
        start = self.clock.start or 0.0
        if t_ref is None:
            far = abs(start) > EPOCH_DURATIONS * self.clock.timeline.duration
            return start if self.clock.dated or far else 0.0
        ticks = parse_date(t_ref) if isinstance(t_ref, str) and self.clock.dated else None
        try:
            found = float(t_ref) if ticks is None else ticks / 10**9
        except ValueError:
            known = "a date such as 2024-03-01T12:00:00" if self.clock.dated else "seconds"
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
        t0 = unclocked if self.clock.start is None else self.clock.start - t_ref
        notes = self.notes
        if t_ref:
            notes += (f"phases refer to t_ref = {t_ref!r} s{self._in_words(t_ref)}",)
        found: list[Channel | ValueError] = []
        errors = self._errors(first, last)
        for i, row in enumerate(self.rows.read(first, last)):
            try:
                found.append(self._channel(row, errors[i], (t0, t_ref), notes))
            except ValueError as error:
                several = self.rows.count > 1
                row_name = f"row {first + i + 1} of {self.rows.count}: " if several else ""
                found.append(ValueError(f"{self.file}: {row_name}{error}"))
        return found

    def _in_words(self, t_ref: float) -> str:
        """An instant as a date, or in the unit of the file's clock; nothing where that is seconds."""
        if self.clock.dated:
            return f" ({print_date(t_ref)})" if abs(t_ref) < LATEST_DATE else ""
        worth = unit_seconds(self.clock.unit) or 1.0
        return f" ({t_ref / worth:.12g} {self.clock.unit})" if worth > 1 else ""

    def _errors(self, first: int, last: int) -> list[Array] | list[None]:
        """The errors of the signals first, …, last − 1."""
        if self.errors is None:
            return [None] * (last - first)
        if self.errors.count == 1:
            return self.errors.read(0, 1) * (last - first)
        return self.errors.read(first, last)

    def _channel(
        self, row: Array, errors: Array | None, origin: tuple[float, float], notes: tuple[str, ...]
    ) -> Channel:
        """One signal without marks, in order, filled and without its trend as the caller asks.

        Args:
            row: Its samples as in the file, (m,).
            errors: Their errors, (m,), or None.
            origin: The time of the first instant, and what it counts from.
            notes: What to say of all signals.
        """
        options, timeline = self.options, self.clock.timeline
        values, marked = without_marks(as_series(row), options.missing, self.marks)
        weights, weighted = _usable(errors, values)
        values, weights = timeline.arranged(values, weights)
        segments = None if self.segments is None else timeline.labels(self.segments)
        filled: tuple[tuple[int, int], ...] = ()
        if options.fill is not None:
            values, weights, filled = self._filled(values, weights)
        if options.relative:
            values, weights = _relative(values, weights, segments)
            marked += ("values divided by their median, less 1",)
        missing = int(np.isnan(values).sum())
        if filled:
            count = sum(last - first + 1 for first, last in filled)
            marked += (f"{count} of {values.size} samples missing, filled ({options.fill})",)
        elif missing:
            marked += (f"{missing} of {values.size} samples missing, left out",)
        even = timeline.seconds is None
        channel = Channel(
            values,
            timeline.step if even else math.nan,
            origin[0],
            options.sigma,
            origin[1],
            "" if options.relative else self.unit,
            filled,
            notes + marked + weighted,
            times=None if timeline.seconds is None else origin[0] + timeline.seconds,  # type: ignore[arg-type]
            errors=weights,
            segments=segments,
            trend=0 if options.trend is None else options.trend,
            time_unit=self.clock.unit,
        )
        return self._checked(channel)

    def _checked(self, channel: Channel) -> Channel:
        """The channel without its trend, if the caller asks for that; refused if there is nothing to infer from."""
        order = self.options.detrend
        if self.options.varying:
            check_varying(channel)
        if order is None:
            return channel
        rest = detrend(channel, order)
        if self.options.varying:
            check_remainder(channel, rest)
        return replace(rest, trend=max(order, channel.trend))

    def _filled(
        self, values: Array, errors: Array | None
    ) -> tuple[Array, Array | None, tuple[tuple[int, int], ...]]:
        """A signal of an even grid without gaps, and the runs of samples that were filled."""
        if not self.clock.timeline.is_even:
            raise ValueError(
                "expected even time stamps to fill missing samples of, received uneven ones; leave fill out (on the "
                "command line --fill): samples need not be even, nor complete."
            )
        values, filled = fill_gaps(values, str(self.options.fill), self.options.max_gap)
        if errors is not None:
            errors = np.where(np.isnan(errors), np.nanmedian(errors), errors)
        return values, errors, filled


def _usable(errors: Array | None, values: Array) -> tuple[Array | None, tuple[str, ...]]:
    """Errors (m,) with NaN where there is none above 0, and what to say; None if there are none at all."""
    if errors is None:
        return None, ()
    if errors.dtype.kind not in "fiu" or errors.shape != values.shape:
        raise ValueError(
            f"expected one error for each of {values.size} samples, received the shape {errors.shape} of type "
            f"{errors.dtype}; name another column with errors, or 'none' (on the command line --errors)."
        )
    found = errors.astype(np.float64)
    usable = np.isfinite(found) & (found > 0)
    found[~usable] = math.nan
    without = int((~usable & ~np.isnan(values)).sum())
    if 2 * without > values.size:
        return None, ("errors left aside: most of them are not above 0",)
    return found, (f"{without} samples without an error left out",) if without else ()


def _relative(
    values: Array, errors: Array | None, segments: Array | None
) -> tuple[Array, Array | None]:
    """Samples over the median of their segment, less 1, and their errors over it, (n,) each."""
    labels = np.zeros(values.size, np.int64) if segments is None else segments
    medians = np.empty(values.size)
    for label in np.unique(labels):
        known = values[(labels == label) & ~np.isnan(values)]
        medians[labels == label] = np.median(known.real) if known.size else math.nan
    if (medians == 0).any():
        raise ValueError(
            "expected values with a median other than 0 to divide them by, received one of 0; leave relative out (on "
            "the command line --relative)."
        )
    return values / medians - 1, None if errors is None else errors / np.abs(medians)


def read_series(table: Table, file: str, role: str, options: ReadOptions) -> Series:
    """Chooses the series of a table and finds its sampling instants.

    Args:
        table: The arrays of the file.
        file: The file's name, for complaints.
        role: ``long`` or ``short``.
        options: What the caller says about this series.
    """
    columns = as_columns(table, role, options)
    if columns is not table:
        table, options = columns, replace(options, dataset=None)
    choice = choose(table, role, options)
    with np.errstate(all="ignore"):  # what overflows is refused as not finite
        rows = choice.rows(table)
        clock = clock_of(table, choice, rows.size, role, options)
    errors = None if choice.errors is None else Rows.of(table.get(choice.errors))
    if errors is not None and errors.count not in (1, rows.count):
        raise ValueError(
            f"expected errors for each of {rows.count} signals, or one row for all, received {errors.count} rows in "
            f"{choice.errors!r}."
        )
    said = (f"errors {choice.errors!r}",) if choice.errors is not None else ()
    return Series(
        file,
        options,
        rows,
        errors,
        _labels(table, choice, rows.size),
        clock,
        table.units.get(choice.name, ""),
        table.marks,
        table.notes + choice.notes + said + clock.notes,
    )


def _labels(table: Table, choice: Choice, size: int) -> Array | None:
    """The segments of a series as whole numbers, (size,)."""
    if choice.segments is None:
        return None
    found = table.get(choice.segments)
    if found.shape != (size,) or found.dtype.kind not in "fiub" or np.any(found != np.rint(found)):
        raise ValueError(
            f"expected a whole number for each of {size} samples in {choice.segments!r}, received the shape "
            f"{found.shape} of type {found.dtype}; name another column with segments (on the command line --segments)."
        )
    labels = found.astype(np.int64)
    return labels if np.ptp(labels) else None
