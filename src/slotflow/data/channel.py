"""One series of samples: values, sampling, and what is known of their noise and unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.data.gaps import check_finite
from slotflow.data.sampling import Grid

__all__ = ["Channel", "Stream", "as_series"]

LARGEST_TIME = 1e100
"""Longest duration in seconds, and largest sampling rate in Hz, whose powers still are numbers."""


@dataclass(frozen=True, eq=False)
class Channel:
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
        name: What to call the channel, where there are several.
    """

    values: NDArray[np.float64]
    dt: float
    t0: float = 0.0
    sigma: float | None = None
    t_ref: float = 0.0
    unit: str = ""
    filled: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        values = as_series(self.values)
        object.__setattr__(self, "values", values)
        if not (math.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt must be a positive number of seconds, received {self.dt}.")
        for name in ("t0", "t_ref"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, received {getattr(self, name)}.")
        duration = values.size * self.dt
        if not (
            math.isfinite(self.t0 + duration)
            and 1 / LARGEST_TIME < self.dt <= duration < LARGEST_TIME
        ):
            raise ValueError(
                f"t0 + n dt must be finite, and dt and n dt must lie between {1 / LARGEST_TIME:g} and "
                f"{LARGEST_TIME:g} s, received dt = {self.dt:g} s for {values.size:,} samples; check dt and the "
                "unit of the time stamps."
            )
        check_finite(values, self.dt, self.t0)
        if self.sigma is not None and not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"sigma must be a positive number or None, received {self.sigma}.")

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
        """Highest frequency the channel can show, in Hz."""
        return 0.5 / self.dt


Stream = Channel
"""The name of version 0.1."""


def as_series(values: ArrayLike, name: str = "values") -> NDArray[np.float64]:
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
