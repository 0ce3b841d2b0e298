"""One series of samples: values, when they were taken, and what is known of their noise and unit."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.data.arrays import as_numpy, seconds_of
from slotflow.data.gain import FreeGain, checked_gain
from slotflow.data.gaps import check_times, even_step, moved_note, rounded_grid
from slotflow.data.sampling import Grid, Instants, Sampling

__all__ = ["Channel", "Stream", "as_series"]

LARGEST_ERROR = 1e100
"""Largest error, and inverse of the smallest one, whose powers still are numbers."""
MOST_PRECISE = 1e6
"""How much smaller than the median of all errors one may be: a sample's weight is the inverse of its error's square,
and next to 1e12 in double precision little is left of the others."""
LARGEST_TIME = 1e100
"""Longest duration in seconds, and largest sampling rate in Hz, whose powers still are numbers."""
HIGHEST_TREND = 3
"""Highest order of a polynomial that is marginalized."""

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Channel:
    """One series of real or complex samples, at any times.

    Samples that are NaN are missing: they are dropped and counted. Give `dt` for an even series and `times` for any
    other; times that turn out to be even are as good as `dt`.

    Args:
        values: Samples, shape (n,), real or complex; NaN where one is missing.
        dt: Sampling step in seconds of an even series; NaN afterwards where the samples are not even.
        t0: Time of the first sample in seconds; phases refer to t = 0.
        sigma: Noise standard deviation per sample, if known. It weights the channels: only the ratio of their levels
            counts, in the likelihood and in the networks alike. What is assumed of the level itself is the prior's
            (`Prior.sigma`, which may say that it is known).
        t_ref: What t = 0 is on the clock of the file, in seconds: 0, or where that clock started long before the data
            (an epoch) an instant to refer phases to. Nothing is computed from it.
        unit: Unit of the values, if known.
        filled: First and last index of each run of samples that were missing and have been filled.
        notes: What a reader assumed and did, in words.
        name: What to call the channel, where there are several.
        times: Time stamps, shape (n,), rising: seconds, or dates and durations (datetime64, timedelta64). Dates count
            from `t_ref`, or where none is given from the first of them, which is `t_ref` then (seconds since 1970).
        errors: Standard deviation of each sample's noise, shape (n,), in units of σ: exact where the prior says that σ
            is 1, and right up to a common factor otherwise.
        gain: What the channel makes of a component's complex amplitude, a number; "free" or a
            :class:`~slotflow.data.gain.FreeGain` where each component has an amplitude and a phase of its own in it.
        segments: A whole number for each sample, shape (n,): samples of one number share an offset of their own.
        trend: Order of the polynomial in time that is marginalized: 0 is an offset, −1 nothing.
        missing: Samples that were dropped.
        time_unit: Unit in which the file counts time, s, min, h, d or yr: how to show frequencies to whoever wrote it.
            All times here are seconds nevertheless.
    """

    values: Values
    dt: float = math.nan
    t0: float = 0.0
    sigma: float | None = None
    t_ref: float = 0.0
    unit: str = ""
    filled: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    name: str = ""
    times: NDArray[np.float64] = None  # type: ignore[assignment]
    errors: NDArray[np.float64] | None = None
    gain: complex | FreeGain | str = 1.0
    segments: NDArray[np.int64] | None = None
    trend: int = 0
    missing: int = 0
    time_unit: str = "s"

    def __post_init__(self) -> None:
        values = as_series(self.values)
        self._check_numbers()
        times = self._stamps(values.size)
        errors, segments = self._per_sample(values.size)
        present = ~np.isnan(values)
        if errors is not None:
            present &= ~np.isnan(errors)
        if not present.all():
            values, times = values[present], times[present]
            errors = None if errors is None else errors[present]
            segments = None if segments is None else segments[present]
            self._set(missing=self.missing + int((~present).sum()), dt=math.nan, filled=())
        if values.size == 0:
            raise ValueError(
                f"expected samples, received {present.size:,} that are all missing (NaN); check the column."
            )
        if not np.isfinite(values).all():
            raise ValueError(
                "expected finite samples, or NaN where one is missing, received infinite ones; check the data."
            )
        if errors is not None:
            _check_errors(errors)
        self._set(values=values, times=times, errors=errors, segments=segments)
        if math.isnan(self.dt):
            self._set(dt=even_step(times) or math.nan, t0=float(times[0]))
        self._check_span()

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        """Refuses steps, instants and levels that are none; keeps them in double precision."""
        for name in ("dt", "t0", "t_ref", "sigma"):
            if (value := getattr(self, name)) is not None:
                try:
                    self._set(**{name: float(value)})
                except (TypeError, ValueError):
                    raise ValueError(f"{name} must be a number, received {value!r}.") from None
        if not math.isnan(self.dt) and not (math.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt must be a positive number of seconds, received {self.dt}.")
        for name in ("t0", "t_ref"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, received {getattr(self, name)}.")
        if self.sigma is not None and not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"sigma must be a positive number or None, received {self.sigma}.")
        self._set(gain=checked_gain(self.gain))
        if self.trend not in range(-1, HIGHEST_TREND + 1):
            raise ValueError(
                f"expected a trend of order −1 (none), 0 (an offset) up to {HIGHEST_TREND}, received {self.trend!r}."
            )
        self._set(trend=int(self.trend))

    def _stamps(self, n: int) -> NDArray[np.float64]:
        """The time stamps of n samples, (n,)."""
        if not math.isnan(self.dt):  # an even series: what `times` says follows from it
            return _even_stamps(n, self.dt, self.t0).copy()
        if self.times is None:
            raise ValueError(
                f"dt must be a positive number of seconds, received {self.dt}; give it, or give times."
            )
        stamps = as_numpy(self.times)
        if stamps.shape != (n,):
            raise ValueError(
                f"expected one time for each of {n:,} samples, received the shape {stamps.shape}."
            )
        times, t_ref, digit = seconds_of(stamps, self.t_ref)
        self._set(t_ref=t_ref)
        if n > 1:
            check_times(times)
        grid = rounded_grid(times, digit)
        if grid is None:
            return times
        self._set(notes=self.notes + moved_note(times, grid))
        return grid

    def _per_sample(self, n: int) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
        """Errors and segments of n samples, checked."""
        errors = None if self.errors is None else as_numpy(self.errors).astype(np.float64)
        segments = None if self.segments is None else as_numpy(self.segments)
        for name, array in (("error", errors), ("segment", segments)):
            if array is not None and array.shape != (n,):
                raise ValueError(
                    f"expected one {name} for each of {n:,} samples, received the shape {array.shape}."
                )
        if segments is None:
            return errors, None
        if segments.dtype.kind not in "fiub" or np.any(segments != np.rint(segments)):
            raise ValueError(
                f"expected a whole number as the segment of each of {n:,} samples, received others, of the type "
                f"{segments.dtype}; number the segments."
            )
        return errors, segments.astype(np.int64)

    def _check_span(self) -> None:
        """Refuses records so long or so short that powers of time are no numbers."""
        step, duration = self.step, self.duration
        if not (
            math.isfinite(self.t0 + duration)
            and 1 / LARGEST_TIME < step <= duration * (1 + 1e-9)
            and duration < LARGEST_TIME
        ):
            raise ValueError(
                f"t0 + n dt must be finite, and dt and n dt must lie between {1 / LARGEST_TIME:g} and "
                f"{LARGEST_TIME:g} s, received dt = {step:g} s for {self.n:,} samples; check dt and the "
                "unit of the time stamps."
            )

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.values.size

    @property
    def is_even(self) -> bool:
        """Whether the samples are evenly spaced, none missing."""
        return not math.isnan(self.dt)

    @property
    def is_complex(self) -> bool:
        """Whether the samples are complex."""
        return self.values.dtype.kind == "c"

    @property
    def has_free_gain(self) -> bool:
        """Whether components have an amplitude and a phase of their own here."""
        return isinstance(self.gain, FreeGain)

    @property
    def factor(self) -> complex:
        """The gain as a number: 1 where it is free, since amplitudes are then measured here."""
        return 1.0 if isinstance(self.gain, FreeGain | str) else self.gain

    @property
    def sampling(self) -> Sampling:
        """When the samples were taken."""
        return self.grid if self.is_even else Instants(self.times)

    @property
    def grid(self) -> Grid:
        """The sampling instants of an even series."""
        if not self.is_even:
            raise ValueError(
                f"expected an even series without missing samples, received {self.n:,} samples at steps from "
                f"{np.diff(self.times).min():.6g} to {np.diff(self.times).max():.6g} s; ask for `sampling` instead."
            )
        return Grid(self.n, self.dt, self.t0)

    @property
    def duration(self) -> float:
        """Length of the record in seconds: n·dt of an even series."""
        return self.n * self.dt if self.is_even else self.sampling.duration

    @property
    def step(self) -> float:
        """Dt of an even series, and the median step of any other, in seconds."""
        return self.dt if self.is_even else float(np.median(np.diff(self.times)))

    @property
    def mid_time(self) -> float:
        """The instant half-way between the first and the last sample, in seconds."""
        return 0.5 * float(self.times[0] + self.times[-1])

    @property
    def nyquist(self) -> float:
        """Highest frequency that the channel shows without ambiguity, in Hz, from the median step if it is uneven."""
        return 0.5 / self.step


Stream = Channel
"""The name of version 0.1."""


@functools.lru_cache(maxsize=8)
def _even_stamps(n: int, dt: float, t0: float) -> NDArray[np.float64]:
    """Even time stamps, (n,), which many signals of one file have alike; to be copied."""
    with np.errstate(over="ignore"):  # spans without end are refused by their channel
        stamps: NDArray[np.float64] = t0 + dt * np.arange(n, dtype=np.float64)
    return stamps


def _check_errors(errors: NDArray[np.float64]) -> None:
    """Refuses errors (n,) that are none, or with which no sum of squares can be computed."""
    if not (np.isfinite(errors).all() and (errors > 0).all()):
        raise ValueError(
            "expected an error above 0 for every sample, received some that are 0, negative or infinite; leave "
            "such samples out (NaN), or leave the errors out."
        )
    least, middle, most = errors.min(), float(np.median(errors)), errors.max()
    if not 1 / LARGEST_ERROR < least <= most < LARGEST_ERROR or least * MOST_PRECISE < middle:
        raise ValueError(
            f"expected errors between {1 / LARGEST_ERROR:g} and {LARGEST_ERROR:g}, none of them smaller than their "
            f"median by more than a factor {MOST_PRECISE:g}, received {least:.3g} to {most:.3g} with the median "
            f"{middle:.3g}; check their unit, and leave samples out (NaN) whose error is none."
        )


def as_series(values: ArrayLike, name: str = "values") -> Values:
    """Checks one series and returns it as a float64 or complex128 array of shape (n,)."""
    x = as_numpy(values)
    if x.dtype.kind not in "fiubc":
        raise ValueError(
            f"{name} must be numbers, received the type {x.dtype}; check for text in the data."
        )
    if x.ndim != 1:
        raise ValueError(f"{name} must be one series of shape (n,), received shape {x.shape}.")
    if x.size == 0:
        raise ValueError(f"{name} must hold at least one sample, received none.")
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
