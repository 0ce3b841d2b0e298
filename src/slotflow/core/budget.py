"""How long a call may take: one budget, spent wherever the call is at work, and known to whatever it calls.

Whoever answers a call states it once, and pays for what is done in it::

    budget = Budget(20.0)
    with budget.running():
        ...
    budget.left

Code deep inside asks for the time without having been told::

    while time_left() > 0:
        ...

A loop that may take long looks at it and ends with what it has. Where no budget runs, there is no end of time. Budgets
nest: the one that ends first counts. A budget belongs to the context that runs it, so that threads stay apart.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Budget", "time_left"]

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class Budget:
    """Seconds that may be spent.

    Args:
        seconds: How many.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.spent = seconds, 0.0

    @property
    def left(self) -> float:
        """Seconds that are left; negative where more was spent."""
        return self.seconds - self.spent

    @contextmanager
    def running(self, least: float = 0.0) -> Iterator[float]:
        """Counts the time of the enclosed code, which `time_left` tells it.

        Args:
            least: Share of the budget that the enclosed code may take whatever was spent before.

        Yields:
            The seconds that it may take.
        """
        began = time.perf_counter()
        seconds = max(self.left, least * self.seconds)
        token = _deadline.set(min(_deadline.get(), began + seconds))
        try:
            yield seconds
        finally:
            _deadline.reset(token)
            self.spent += time.perf_counter() - began


def time_left() -> float:
    """Seconds until the first of the running budgets ends; infinite where none runs, negative where one is over."""
    return _deadline.get() - time.perf_counter()
