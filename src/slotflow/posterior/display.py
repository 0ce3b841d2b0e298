r"""How a result is shown: the unit of its frequencies and the instant that its phases refer to.

Draws hold frequencies in Hz and phases at t = 0 of the data's times. Neither need be what a person wants to read. The
phase at an instant τ is φ + 2πfτ; its width is smallest near the middle of the record, and far outside of it the phase
is unknown although the tone is known well: with sd_f ≈ √6 σ/(π A T √N) the phase at a distance of n record lengths
from the middle is uncertain by about √(1 + 12 n²) times its smallest width. Tables and pictures therefore give the
phase at mid-series where t = 0 lies outside the record, by more than a quarter of its length, and say so: a first
sample that is missing or a little late changes no phase.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from slotflow.core.arrays import Array
from slotflow.core.units import (
    TIME_UNITS,
    FrequencyUnit,
    duration_in_seconds,
    frequency_unit,
    natural_unit,
)
from slotflow.data.read.dates import parse_date, print_date
from slotflow.posterior.facts import Facts
from slotflow.signal.waveforms import Waveform

__all__ = ["PHASE_AT", "ZERO", "Epoch", "display_unit", "epoch_of", "is_dated"]

PHASE_AT = ("auto", "zero", "mid", "start")
"""Instants that have a name; auto is zero if t = 0 lies in or near the record or was chosen (t_ref), otherwise mid."""
NEAR = 0.25
"""Distance from a record, in its lengths, at which its phases are still shown at t = 0."""
LAST_DATE = 2.0**33
"""Seconds from 1970 beyond which a clock counts something else."""


@dataclass(frozen=True)
class Epoch:
    """The instant that phases refer to."""

    seconds: float = 0.0
    """On the clock of the draws, that of `Channel.times`."""
    t_ref: float = 0.0
    """What t = 0 of that clock is on the clock of the file, in seconds."""
    name: str = ""
    """What the instant is, in words; empty for t = 0 and for a time that was stated."""
    time_unit: str = "s"
    """Unit of the file's time stamps."""
    dated: bool = False
    """Whether the file's clock counts from 1970, in dates."""

    @property
    def words(self) -> str:
        """The instant in words: "mid-series, t = 12.5 d", "t = 0", "1958-03-29"."""
        if self.dated and abs(self.t_ref + self.seconds) < LAST_DATE:
            date = print_date(round(self.t_ref + self.seconds)).removesuffix(" UTC")
            text = date.removesuffix("T00:00:00").replace("T", " ")
            return f"{self.name}, {text}" if self.name else text
        size = TIME_UNITS.get(self.time_unit, 1.0)
        unit = self.time_unit if self.time_unit in TIME_UNITS else "s"
        instant = (self.t_ref + self.seconds) / size
        text = f"t = {instant:.12g} {unit}" if instant else "t = 0"
        return f"{self.name}, {text}" if self.name else text

    def shift(self, theta: Array, waveform: Waveform) -> Array:
        """Parameters, (..., K, P), with angles that refer to this instant instead of t = 0."""
        if self.seconds == 0:
            return theta
        shifted: Array = waveform.join(*waveform.split(theta, self.seconds), 0.0)
        return shifted


ZERO = Epoch()
"""t = 0 of a clock that starts there."""


def display_unit(post: Facts, name: str | None = None) -> FrequencyUnit:
    """The unit in which frequencies of a result are shown.

    Args:
        post: The result.
        name: A stated unit; None: the one that goes with the unit of the file's time stamps, Hz for seconds.
    """
    if name is not None:
        return frequency_unit(name)
    return natural_unit(_time_unit(post))


def epoch_of(post: Facts, phase_at: str | float = "auto") -> Epoch:
    """The instant that phases of a result refer to when it is shown.

    Args:
        post: The result.
        phase_at: One of `PHASE_AT`, or an instant on the file's clock: seconds, a number with its unit such as
            "1990.5 yr", or a date where the clock counts from 1970.
    """
    t_ref, unit, dated = post.t_ref, _time_unit(post), is_dated(post)
    zero = Epoch(0.0, t_ref, "", unit, dated)
    if phase_at not in PHASE_AT:
        return Epoch(_stated(phase_at) - t_ref, t_ref, "", unit, dated)
    if phase_at == "zero":
        return zero
    if not post.has_data:
        if phase_at == "auto":
            return zero
        raise ValueError(
            f"the phase at {phase_at!r} needs the times of the data, received a posterior without them; state the "
            "instant in seconds."
        )
    times = post.observation.long.times
    first, last = float(times[0]), float(times[-1])
    if phase_at == "start":
        return Epoch(first, t_ref, "start of the series", unit, dated)
    margin = NEAR * (last - first)
    if phase_at == "auto" and (t_ref != 0 or first - margin <= 0 <= last + margin):
        return zero
    return Epoch(first + 0.5 * (last - first), t_ref, "mid-series", unit, dated)


def is_dated(post: Facts) -> bool:
    """Whether the times of the data are dates, as the reader has noted beside the instant that phases refer to."""
    if not post.has_data or abs(post.t_ref) >= LAST_DATE:
        return False
    date = print_date(post.t_ref)
    return any(date in note for note in post.observation.long.notes)


def _stated(phase_at: str | float) -> float:
    """A stated instant on the file's clock, in seconds."""
    if isinstance(phase_at, str):
        ticks = parse_date(phase_at)
        found = duration_in_seconds(phase_at) if ticks is None else ticks / 1e9
    else:
        found = float(phase_at)
    if found is None or not math.isfinite(found):
        raise ValueError(
            f"expected the instant that phases refer to as one of {', '.join(PHASE_AT)}, as a time such as 12.5 or "
            f"'1990.5 yr', or as a date, received {phase_at!r}."
        )
    return found


def _time_unit(post: Facts) -> str:
    """Unit of the time stamps that the data came with."""
    return post.observation.long.time_unit if post.has_data else "s"
