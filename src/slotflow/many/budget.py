"""The time budget of a command, shared by its signals."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["Budget"]

FOR_ANSWERS = 0.9
"""Share of the time left that goes to the answers; the rest is for tables, pictures and files."""
SMALLEST_SHARE = 0.2
"""Share of the whole budget that is left for answers however long loading and reading took."""


@dataclass
class Budget:
    """Time of a command that is left, divided among the signals that have no answer yet."""

    seconds: float
    """Of the whole command."""
    started: float
    """When it began, by `time.perf_counter`."""
    signals: int
    """How many signals have no answer yet."""

    def of_each(self) -> float:
        """Seconds for each of the signals that are left."""
        left = FOR_ANSWERS * (self.started + self.seconds - time.perf_counter())
        return max(left, SMALLEST_SHARE * self.seconds) / max(self.signals, 1)

    def spend(self, signals: int = 1) -> None:
        """Counts signals that have their answer."""
        self.signals -= signals
