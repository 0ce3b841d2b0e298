r"""Evenly sampled data: Stream (one series) and Observation (the long stream and, if there is one, the short one).

**Noise level.** Tones live in a band, noise everywhere. With Hann weights w_n and S = Σ w_n², the periodogram P_m =
|Σ w_n x_n e^{−2πi m n/N}|² / S of white noise has the mean σ² in every bin. The mean over the bins outside the band
(and outside a guard, beyond which a Hann window's leakage falls as the cube of the distance) therefore estimates σ²
without a fit. Neighbouring Hann bins correlate with (4/9, 1/36) in power, so M bins are worth M / (1 + 2·(4/9 +
1/36)) independent exponentials, and the relative error of σ is half that of σ².
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.data.gaps import check_finite, even_step
from slotflow.data.sampling import Grid

__all__ = ["Observation", "Stream", "as_list", "stated_levels"]

LARGEST = 1e100
"""Longest duration, and largest sampling rate, in SI units: powers of times and frequencies must be numbers."""
GUARD_BINS = 12
"""Bins on either side of the band that are left out of the noise estimate."""


@dataclass(frozen=True, eq=False)
class Stream:
    """One evenly sampled real series.

    Args:
        values: Samples, shape (n,), finite.
        dt: Sampling step in seconds.
        t0: Time of the first sample in seconds; phases refer to t = 0.
        sigma: Noise standard deviation per sample, if known. It weights the streams: only the ratio of their levels
            counts, in the likelihood and in the networks alike. What is assumed of the level itself is the prior's
            (`Prior.sigma`, which may say that it is known).
        t_ref: What t = 0 is on the clock of the file, in seconds: 0, or where that clock started long before the data
            (an epoch) an instant to refer phases to. Nothing is computed from it.
        unit: Unit of the values, if known.
        filled: First and last index of each run of samples that were missing and have been filled.
        notes: What a reader assumed and did, in words.
    """

    values: NDArray[np.float64]
    dt: float
    t0: float = 0.0
    sigma: float | None = None
    t_ref: float = 0.0
    unit: str = ""
    filled: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = _series(self.values)
        object.__setattr__(self, "values", values)
        if not (math.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt must be a positive number of seconds, received {self.dt}.")
        for name in ("t0", "t_ref"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, received {getattr(self, name)}.")
        duration = values.size * self.dt
        if not (math.isfinite(self.t0 + duration) and 1 / LARGEST < self.dt <= duration < LARGEST):
            raise ValueError(
                f"t0 + n dt must be finite, and dt and n dt lie between {1 / LARGEST:g} and {LARGEST:g} s, received "
                f"dt = {self.dt:g} s for {values.size:,} samples; check dt and the unit of the time stamps."
            )
        check_finite(values, self.dt, self.t0)
        if self.sigma is not None and not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"sigma must be a positive number or None, received {self.sigma}.")

    @classmethod
    def from_times(cls, times: ArrayLike, values: ArrayLike, sigma: float | None = None) -> Stream:
        """Builds a stream from a time column, which must be even to 0.1 % of its step.

        Args:
            times: Time stamps in seconds, shape (n,), increasing.
            values: Samples, shape (n,).
            sigma: Noise standard deviation per sample, if known.
        """
        t, x = _series(times, "times"), _series(values)
        check_finite(x)
        if t.shape != x.shape:
            raise ValueError(
                f"times and values must have equal lengths, received {t.size} and {x.size}."
            )
        return cls(x, even_step(t), float(t[0]), sigma)

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.values.size

    @property
    def grid(self) -> Grid:
        """The sampling instants."""
        return Grid(self.n, self.dt, self.t0)

    @property
    def duration(self) -> float:
        """Length n·dt in seconds."""
        return self.grid.duration

    @property
    def times(self) -> NDArray[np.float64]:
        """Time stamps in seconds, shape (n,)."""
        return self.grid.times

    @property
    def nyquist(self) -> float:
        """Highest frequency the stream can show, in Hz."""
        return 0.5 / self.dt


@dataclass(frozen=True, eq=False)
class Observation:
    """One or two streams of the same sky.

    Args:
        long: The long stream, which resolves frequencies.
        short: The short, finely sampled stream, if there is one.
        removed: Tones that were fitted to the data and taken out of them, such as those of other windows of a wide
            band; the likelihood of σ and its tests count the degrees of freedom that went with them.
    """

    long: Stream
    short: Stream | None = None
    removed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if self.short is not None and self.short.t_ref != self.long.t_ref:
            raise ValueError(
                f"both streams must count time from one instant, received t_ref = {self.long.t_ref} s (long) and "
                f"{self.short.t_ref} s (short); read them together, or give both the same t_ref."
            )

    @classmethod
    def from_arrays(
        cls,
        long: ArrayLike,
        dt_long: float,
        short: ArrayLike | None = None,
        dt_short: float | None = None,
        t0_long: float = 0.0,
        t0_short: float = 0.0,
        sigma_long: float | None = None,
        sigma_short: float | None = None,
    ) -> Observation:
        """Builds an observation from plain arrays.

        Args:
            long: Samples of the long stream, shape (N,).
            dt_long: Its sampling step in seconds.
            short: Samples of the short stream, shape (M,), or None.
            dt_short: Its sampling step in seconds.
            t0_long: Time of the long stream's first sample.
            t0_short: Time of the short stream's first sample.
            sigma_long: Noise standard deviation per sample of the long stream, if known; see :class:`Stream`.
            sigma_short: The same of the short stream, if it differs.
        """
        levels = stated_levels(sigma_long, sigma_short, short is not None)
        first = Stream(_series(long), dt_long, t0_long, levels[0])
        if short is None:
            return cls(first)
        if dt_short is None:
            raise ValueError("a short stream needs its sampling step: give dt_short in seconds.")
        return cls(first, Stream(_series(short), dt_short, t0_short, levels[1]))

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], dt: float | None = None, **options: Any
    ) -> Observation:
        """Reads a file: CSV, TSV, NPY, NPZ, HDF5, NetCDF, WAV, or a text table on standard input (``-``).

        Args:
            path: File of the long stream, or of both.
            dt: Sampling step of the long stream in seconds, if the file does not tell.
            **options: Further arguments of :func:`slotflow.io.read_observation`: ``short_path``, ``dt_short``,
                ``column``, ``dataset``, ``t_ref``, ``time_unit``, ``fill``, ``max_gap``, ``sigma``, ``sigma_short``,
                ``time``.
        """
        from slotflow.data.read.files import read_observation

        return read_observation(path, dt, **options)

    @property
    def t_ref(self) -> float:
        """The instant on the file's clock that phases refer to, in seconds."""
        return self.long.t_ref

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that are there, the long one first."""
        return (self.long,) if self.short is None else (self.long, self.short)

    def noise_level(self, band: tuple[float, float]) -> tuple[float, float]:
        """Estimates σ from the long stream's power outside the band (see the module's docstring).

        Args:
            band: Frequencies in Hz that may hold tones.

        Returns:
            The estimate and its standard error; (nan, nan) if fewer than 8 bins lie outside.
        """
        x, n = self.long.values, self.long.n
        window = np.hanning(n + 1)[:-1] if n > 1 else np.ones(n)
        power = np.abs(np.fft.rfft(window * (x - x.mean()))) ** 2 / max((window**2).sum(), 1e-300)
        f = np.fft.rfftfreq(n, self.long.dt)
        guard = GUARD_BINS / self.long.duration
        outside = (f < band[0] - guard) | (f > band[1] + guard)
        outside[: min(3, outside.size)] = False  # the mean was removed: these bins hold too little
        outside[-1] = False  # the Nyquist bin is real: one degree of freedom, not two
        count = int(outside.sum())
        if count < 8:
            return math.nan, math.nan
        sigma = float(np.sqrt(power[outside].mean()))
        independent = count / (1 + 2 * (4 / 9 + 1 / 36))
        return sigma, 0.5 * sigma / math.sqrt(independent)


def as_list(observation: Observation | Iterable[Observation]) -> list[Observation]:
    """One observation or several as a list, refusing anything else."""
    if isinstance(observation, Observation):
        return [observation]
    if not isinstance(observation, Iterable):
        raise ValueError(
            f"expected an Observation or a sequence of them, received {type(observation).__name__}; "
            "build one with Observation.from_arrays."
        )
    several = list(observation)
    for i, one in enumerate(several):
        if not isinstance(one, Observation):
            raise ValueError(
                f"expected Observations, received {type(one).__name__} at position {i}; build one with "
                "Observation.from_arrays."
            )
    return several


def stated_levels(
    long: float | None, short: float | None, has_short: bool
) -> tuple[float | None, float | None]:
    """Noise levels of the long and of the short stream; that of the short one is the long one's if not stated.

    Args:
        long: Stated level of the long stream, if any.
        short: Stated level of the short stream, if any.
        has_short: Whether there is a short stream.
    """
    if short is not None and long is None:
        raise ValueError(
            f"the noise level of the short stream ({short:g}) counts beside that of the long one, received that one "
            "alone; state both (on the command line --sigma and --sigma-short)."
        )
    if short is not None and not has_short:
        raise ValueError(
            f"expected a short stream for the stated noise level of {short:g}, received none; drop that level (on the "
            "command line --sigma-short) or give the short stream too."
        )
    return long, long if short is None else short


def _series(values: ArrayLike, name: str = "values") -> NDArray[np.float64]:
    """Checks one series and returns it as a float64 array of shape (n,)."""
    x = np.asarray(values)
    if x.dtype.kind == "c":
        raise ValueError(
            f"{name} must be real, received complex numbers; pass the real part or the modulus."
        )
    if x.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be numbers, received the type {x.dtype}; check for text in the data."
        )
    if x.ndim != 1:
        raise ValueError(f"{name} must be one series of shape (n,), received shape {x.shape}.")
    if x.size == 0:
        raise ValueError(f"{name} must hold at least one sample, received none.")
    return x.astype(np.float64)
