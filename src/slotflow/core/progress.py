"""Progress of a long job on standard error: a bar on a terminal, a plain line elsewhere.

Standard output stays free for results, so that a command with ``--json`` can be piped while its
progress is still visible. Only the standard library is imported until a bar is drawn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["ProgressReporter", "progress"]

Field = str | int | float

PLAIN_INTERVAL = 10.0  # seconds between two plain lines


class ProgressReporter(Protocol):
    """What :func:`progress` hands to the body of the ``with`` statement."""

    def update(self, completed: float, **fields: Field) -> None:
        """Report how much is done.

        Args:
            completed: Work done so far, in the unit of ``total`` (absolute, not the increment).
            **fields: Values to show beside the bar, such as ``loss=1.2`` or
                ``signals_per_second=900``. A field keeps its last value until it is given again.
        """


@contextmanager
def progress(
    total: float | None,
    description: str,
    quiet: bool = False,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[ProgressReporter]:
    """Show the progress of the enclosed work on standard error.

    Args:
        total: Amount of work (steps, signals, seconds); None where it is not known.
        description: A word or two that open the line, such as ``"train"``.
        quiet: Show nothing at all.
        clock: Source of the time in seconds, for plain lines; tests pass their own.

    Yields:
        An object with ``update(completed, **fields)``. On a terminal with ``rich`` installed it
        moves a bar; otherwise it prints one plain line at most every ten seconds, and a last one
        at the end of a job that was long enough to print any.
    """
    if quiet:
        yield _Silent()
        return
    bar = _rich_progress() if sys.stderr.isatty() else None
    if bar is None:
        plain = _Plain(total, description, clock)
        yield plain
        plain.close()
        return
    with bar:
        yield _Bar(bar, bar.add_task(description, total=total, fields=""))


class _Silent:
    """A reporter that reports nothing."""

    def update(self, completed: float, **fields: Field) -> None:
        """Ignore the report."""


class _Plain:
    """A reporter for logs and pipes: short lines, rarely."""

    def __init__(self, total: float | None, description: str, clock: Callable[[], float]) -> None:
        self.total = total
        self.description = description
        self.clock = clock
        self.start = self.last_print = clock()
        self.first: float | None = None
        self.completed = 0.0
        self.fields: dict[str, Field] = {}
        self.printed_any = False
        self.pending = False

    def update(self, completed: float, **fields: Field) -> None:
        """Keep the report, and print it if ten seconds have passed since the last line."""
        if self.first is None:  # a resumed job starts above zero: that part took no time here
            self.first = completed
            self.start = self.clock()
        self.completed = completed
        self.fields.update(fields)
        self.pending = True
        if self.clock() - self.last_print >= PLAIN_INTERVAL:
            self._print()

    def close(self) -> None:
        """Print the last state of a job that was long enough to have printed before."""
        if self.printed_any and self.pending:
            self._print()

    def _print(self) -> None:
        self.last_print = self.clock()
        self.printed_any, self.pending = True, False
        parts = [f"{self.description} {_number(self.completed)}"]
        if self.total:
            parts = [f"{self.description} {100 * self.completed / self.total:.0f} %"]
            done = self.completed - (self.first or 0.0)
            if done > 0 and self.completed < self.total:
                left = (self.last_print - self.start) * (self.total - self.completed) / done
                parts.append(f"{_duration(left)} left")
        if self.fields:
            parts.append(format_fields(self.fields))
        print(", ".join(parts), file=sys.stderr, flush=True)


class _Bar:
    """A reporter that moves a rich bar."""

    def __init__(self, bar: Any, task: Any) -> None:
        self.bar = bar
        self.task = task
        self.fields: dict[str, Field] = {}

    def update(self, completed: float, **fields: Field) -> None:
        """Move the bar and refresh the values beside it."""
        self.fields.update(fields)
        self.bar.update(self.task, completed=completed, fields=format_fields(self.fields))


def _rich_progress() -> Any | None:
    """A bar with the fields on the line below it, or None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn
        from rich.text import Text
    except ImportError:
        return None

    class TwoLines(Progress):
        def get_renderables(self) -> Iterator[Any]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.fields["fields"], style="dim") for task in self.tasks)

    columns = (
        "[bold]{task.description}",
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    return TwoLines(*columns, console=Console(stderr=True), expand=True)


def format_fields(fields: dict[str, Field]) -> str:
    """Write fields as one text: ``{"loss": 1.25, "n_seen": 3}`` as ``loss 1.25  n seen 3``."""
    return "  ".join(
        f"{name.replace('_per_second', '/s').replace('_', ' ')} "
        f"{value if isinstance(value, str) else _number(value)}"
        for name, value in fields.items()
    )


def _number(value: float) -> str:
    """A number in four significant digits; integers and large numbers without a fraction."""
    if isinstance(value, int) or (abs(value) >= 1000 and abs(value) < 1e15):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _duration(seconds: float) -> str:
    """Seconds as ``42 s``, ``3 min`` or ``2 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
