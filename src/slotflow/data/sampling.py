"""When samples were taken."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slotflow.core.parsing import check

__all__ = ["Grid"]


@dataclass(frozen=True)
class Grid:
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
    def times(self) -> NDArray[np.float64]:
        """Time stamps in seconds, shape (n,)."""
        return self.t0 + self.dt * np.arange(self.n, dtype=np.float64)
