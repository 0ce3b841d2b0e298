"""When the samples of a channel were taken.

A `Sampling` knows its instants, their number and the length of the record; what is summed over the instants (Gram
matrices, matched filters) is in `slotflow.signal`, which has closed forms for a `Grid` and a dense sum for `Instants`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.fields import check

__all__ = ["Grid", "Instants", "Sampling"]


class Sampling(ABC):
    """The sampling instants of one channel."""

    n: int
    """Number of samples."""

    @property
    @abstractmethod
    def times(self) -> NDArray[np.float64]:
        """Time stamps in seconds, shape (n,)."""

    @property
    @abstractmethod
    def duration(self) -> float:
        """Length T of the record in seconds; 1/T is the bin."""

    @property
    @abstractmethod
    def mid_time(self) -> float:
        """The instant half-way between the first and the last sample, in seconds."""


@dataclass(frozen=True)
class Grid(Sampling):
    """Even sampling instants t0 + i·dt."""

    n: int
    """Number of samples."""
    dt: float
    """Sampling step in seconds."""
    t0: float = 0.0
    """Time of the first sample in seconds."""

    def __post_init__(self) -> None:
        check(self.n >= 1, "n >= 1", self.n)
        check(math.isfinite(self.dt) and self.dt > 0, "dt > 0", self.dt)
        check(math.isfinite(self.t0), "a finite t0", self.t0)

    @property
    def duration(self) -> float:
        """Length n·dt in seconds."""
        return self.n * self.dt

    @property
    def mid_time(self) -> float:
        """t0 + (n − 1)·dt/2, in seconds."""
        return self.t0 + 0.5 * (self.n - 1) * self.dt

    @property
    def nyquist(self) -> float:
        """Highest frequency that the samples can tell, in Hz."""
        return 0.5 / self.dt

    @property
    def times(self) -> NDArray[np.float64]:
        """Time stamps in seconds, shape (n,)."""
        return self.t0 + self.dt * np.arange(self.n, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Instants(Sampling):
    """Sampling instants in any places, in rising order."""

    instants: NDArray[np.float64]
    """Time stamps in seconds, shape (n,)."""

    def __post_init__(self) -> None:
        t = np.asarray(self.instants, dtype=np.float64)
        check(t.ndim == 1 and t.size >= 2, "two or more instants, shape (n,)", t.shape)
        check(bool(np.isfinite(t).all()), "finite instants", "some that are not")
        check(bool((np.diff(t) > 0).all()), "rising instants", "some that fall or repeat")
        object.__setattr__(self, "instants", t)

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of samples."""
        return self.instants.size

    @property
    def times(self) -> NDArray[np.float64]:
        """Time stamps in seconds, shape (n,)."""
        return self.instants

    @property
    def duration(self) -> float:
        """From the first to the last sample, and one mean step more, in seconds."""
        n = self.instants.size
        return float(self.instants[-1] - self.instants[0]) * n / (n - 1)

    @property
    def mid_time(self) -> float:
        """Half-way between the first and the last sample, in seconds."""
        return 0.5 * float(self.instants[0] + self.instants[-1])
