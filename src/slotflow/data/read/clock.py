"""The clock of a series: its step, its sampling instants, and the unit that they are counted in.

The step is the caller's ``dt``; otherwise the file's (``dt_long``, ``dt_short`` or ``dt``; a rate such as ``fs`` or
``sample_rate``; that of a WAV file); otherwise it is measured on the time stamps. Where two of them are known they must
agree: over the whole series the two grids may drift apart by 5 % of one step.

Time stamps are seconds unless the file or the caller states another unit, or the numbers leave little doubt
(:func:`likely_unit`), which is noted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from slotflow.data.read.choice import Choice
from slotflow.data.read.dates import compact_dates
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.tables import Array, Table
from slotflow.data.read.timeline import GRID_SLACK, Timeline, timeline_of
from slotflow.data.read.timestamps import DAY, RATES, STARTS, STEPS, to_seconds, unit_seconds

__all__ = ["Clock", "clock_of", "kept_unit", "likely_unit"]

UNEVEN_SLACK = 0.1
"""Share of the median step of uneven stamps by which a step that is stated elsewhere may differ from it."""
YEARS, JULIAN_DAYS = (1600.0, 2150.0), (2.3e6, 2.6e6)
"""First and last number of time stamps that may be calendar years, and Julian days."""
YEARLY_STEPS = (1.0, 1 / 2, 1 / 4, 1 / 12, 1 / 24, 1 / 52, 1 / 365.25)
"""Steps of calendar series, in years: by year, quarter, month, half a month, week and day."""
CADENCES = (20.0, 58.85, 120.0, 200.0, 600.0, 1765.46, 1800.0)
"""Steps of the light curves of space telescopes, in seconds."""
CALENDAR_STEPS = (*CADENCES, 60.0, 360.0, 900.0, 3600.0)
"""The same, and the steps of weather stations and tide gauges."""
DAY_NUMBERS, DAY_DURATIONS = (1e4, 1e6), 20.0
"""Numbers that count days from some day in the past, and durations that this day lies before the first sample."""
WORDS = {"d": "days", "yr": "years"}
BRIGHTNESS = re.compile(r"flux|mag", re.IGNORECASE)
SHOWN_UNITS = ("s", "min", "h", "d", "yr")
"""Units of time in which frequencies are shown."""


@dataclass(frozen=True)
class Clock:
    """The sampling instants of a series, and what they are counted in."""

    timeline: Timeline
    """The instants, and how samples are put on them."""
    start: float | None = None
    """Time of the first sample in seconds; None where the file has no clock."""
    dated: bool = False
    """Whether the clock counts from 1970."""
    unit: str = "s"
    """Unit in which the file counts time."""
    notes: tuple[str, ...] = ()
    """What was assumed and done, in words."""


def clock_of(table: Table, choice: Choice, n: int, role: str, options: ReadOptions) -> Clock:
    """The sampling instants of a series, after a check that all accounts of their step agree.

    Args:
        table: The arrays of the file.
        choice: The series.
        n: Number of its samples.
        role: ``long`` or ``short``.
        options: What the caller says about it.
    """
    name, time = choice.name, choice.time
    steps = {} if options.dt is None else {"dt as given": float(options.dt)}
    if table.step is not None:
        steps["the sampling rate in the file"] = table.step
    if found := table.find(name, role, *STEPS):
        steps[f"{found!r} in the file"] = table.number(found)
    if found := table.find(name, role, *RATES):
        steps[f"the rate {found!r} in the file"] = _inverse(table.number(found), found)
    if time is not None:
        clock = _stamped(table, choice, n, options)
        _check_steps(steps | {f"the time stamps {time!r}": clock.timeline.step}, clock, time)
        if steps and clock.timeline.is_even:
            step = next(iter(steps.values()))
            return replace(clock, timeline=replace(clock.timeline, step=step))
        return clock
    if not steps:
        argument, flag = ("dt", "--dt") if role == "long" else ("dt_short", "--dt-short")
        raise ValueError(
            "expected a sampling step or time stamps, received neither; "
            f"give the step in seconds with {argument} (on the command line {flag})."
        )
    found = table.find(name, role, *STARTS)
    start = table.number(found) if found else None
    clock = Clock(Timeline(n, next(iter(steps.values()))), start)
    _check_steps(steps, clock, None)
    return clock


def _stamped(table: Table, choice: Choice, n: int, options: ReadOptions) -> Clock:
    """The sampling instants of n samples from their time stamps."""
    time = str(choice.time)
    raw = table.get(time)
    unit = options.time_unit or table.units.get(time)
    dates = compact_dates(raw) if unit is None else None
    if dates is not None:
        raw = dates
    likely = likely_unit(raw, choice.name) if unit is None else None
    stamps = to_seconds(raw, unit or likely, table.resolution)
    if stamps.seconds.size != n:
        raise ValueError(
            f"times and values must have equal lengths, received {stamps.seconds.size} and {n}."
        )
    timeline = timeline_of(stamps)
    notes: tuple[str, ...] = ()
    if dates is not None:
        notes = (f"time stamps {time!r} taken as dates (time_unit says otherwise)",)
    elif raw.dtype.kind != "M":
        said = f"in {unit}" if unit else "without a unit, taken as seconds"
        if likely:
            said = f"without a unit, taken as {WORDS[likely]} by their numbers (time_unit says otherwise)"
        notes = (f"time stamps {time!r} {said}",)
    shown = kept_unit(unit or likely, timeline.step if stamps.dated else None)
    start = stamps.start + timeline.shift
    return Clock(timeline, start, stamps.dated, shown, notes + timeline.notes)


def _check_steps(steps: dict[str, float], clock: Clock, time: str | None) -> None:
    """Refuses accounts of the step that contradict each other."""
    (first, chosen), *others = steps.items()
    for source, step in others:
        drift = abs(step - chosen) * clock.timeline.n
        agree = drift <= GRID_SLACK * abs(step)
        if not clock.timeline.is_even:
            agree = abs(step - chosen) <= UNEVEN_SLACK * abs(step)
        if not agree:
            raise ValueError(
                f"expected one sampling step, received {chosen:.9g} s ({first}) and "
                f"{step:.9g} s ({source}); correct or drop one of them{_no_time(time)}."
            )


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


def kept_unit(unit: str | None, dated_step: float | None = None) -> str:
    """The unit of time in which the writer of a file thinks: s, min, h, d or yr.

    Args:
        unit: The unit of the time stamps, as the file or the caller states it.
        dated_step: The step in seconds of stamps that are dates: samples by the week and rarer are about years, samples
            by ten minutes and rarer about days.
    """
    if dated_step is not None:
        return "yr" if dated_step >= 6 * DAY else "d" if dated_step >= 600 else "s"
    worth = unit_seconds((unit or "s").partition(" since ")[0])
    return next((name for name in SHOWN_UNITS if unit_seconds(name) == worth), "s")


def likely_unit(stamps: Array, series: str) -> str | None:
    """The unit of time stamps that nobody states, where their numbers leave little doubt; None for seconds.

    Calendar years run from 1600 to 2150 in steps of a year, a quarter, a month, a week or a day, as in the tables of
    R. Julian days are millions; other counts of days are tens of thousands, far more than the record lasts, in steps of
    an hour, a minute or what else an archive writes. Brightness in the steps of a space telescope, in days, has its
    stamps in days.

    Args:
        stamps: The time stamps, (n,).
        series: Name of the series.
    """
    if stamps.ndim != 1 or stamps.dtype.kind not in "fiu" or stamps.size < 3:
        return None
    t = stamps[np.isfinite(stamps)].astype(np.float64)
    if t.size < 3:
        return None
    step = abs(float(np.median(np.diff(t))))
    if JULIAN_DAYS[0] < t.min() and t.max() < JULIAN_DAYS[1]:
        return "d"
    if YEARS[0] <= t.min() and t.max() <= YEARS[1] and _is_near(step, YEARLY_STEPS, 0.02):
        return "yr"
    if BRIGHTNESS.search(series) and _is_near(DAY * step, CADENCES, 0.005):
        return "d"
    counted = DAY_NUMBERS[0] < t.min() and t.max() < DAY_NUMBERS[1]
    if (
        counted
        and t.min() > DAY_DURATIONS * np.ptp(t)
        and _is_near(DAY * step, CALENDAR_STEPS, 0.002)
    ):
        return "d"
    return None


def _is_near(step: float, known: tuple[float, ...], share: float) -> bool:
    """Whether a step is one of the known ones, up to a share of it."""
    return any(abs(step - one) <= share * one for one in known)
