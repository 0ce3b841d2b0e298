"""What a command is doing, on standard error: a line that moves on a terminal, next to nothing elsewhere.

The library tells what it does (`core/stages.py`); a `Watch` shows it from the first moment of the command on, before
torch is imported: loading, reading, noise, search, windows 3/12. Announcements, such as the switch to windows, stay on
the terminal. Where standard error is no terminal, the first announcement is printed, and what is being done after half
a minute, one minute, two, four and so on.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from slotflow.core.stages import Stage, listening

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.progress import Progress, TaskID

__all__ = ["Watch"]

SILENCE = 30.0
"""Seconds after which a log is told what is being done; every time of its own is twice the last."""


class Watch:
    """Shows stages until it is closed; a context that listens to the library.

    Args:
        quiet: Whether to show nothing at all.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.announced = 0
        self._doing = "loading"
        self._over = threading.Event()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._listening: AbstractContextManager[None] | None = None

    def __enter__(self) -> Watch:
        if not self.quiet and sys.stderr.isatty():
            self._start()
        elif not self.quiet:
            threading.Thread(target=self._reassure, daemon=True).start()
        self._listening = listening(self)
        self._listening.__enter__()
        self(Stage("loading"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if self._listening is not None:
            self._listening.__exit__(kind, error, trace)
            self._listening = None

    def __call__(self, stage: Stage) -> None:
        """Shows a report."""
        if stage.note:
            self._announce(stage.note)
            return
        counted = f" {stage.done:.0f}/{stage.total:.0f}" if stage.total else ""
        self._doing = stage.name + counted
        if self._bar is not None and self._task is not None:
            self._bar.update(
                self._task,
                description=self._doing,
                completed=stage.done,
                total=stage.total,
            )

    def close(self) -> None:
        """Clears the line, before results are printed or another bar takes over."""
        self._over.set()
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start(self) -> None:
        """Puts the line on the terminal."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), "{task.description}", BarColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def _reassure(self) -> None:
        """Prints now and then what is being done, until the watch is closed."""
        began, wait = time.monotonic(), SILENCE
        while not self._over.wait(wait):
            spent = time.monotonic() - began
            print(f"{self._doing}, since {spent:.0f} s", file=sys.stderr, flush=True)
            wait = spent

    def _announce(self, note: str) -> None:
        """Prints an announcement: above the line on a terminal, once elsewhere."""
        self.announced += 1
        if self._bar is not None:
            self._bar.console.print(note, markup=False, highlight=False)
        elif not self.quiet and self.announced == 1:
            print(note, file=sys.stderr, flush=True)
