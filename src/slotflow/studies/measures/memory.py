"""Peak memory of one call: that of the process, and what Python's allocator saw of it.

**Process.** The largest part of the process that was in physical memory at once (resident set), whoever asked for it:
NumPy, torch, libraries. The system keeps it as a high-water mark, which Linux puts back to the current value on
request; elsewhere it is the mark since the process began, and `before` the mark before the call.

**Python.** `tracemalloc` counts what goes through Python's allocators, NumPy's arrays included. Tensors do not: torch
asks the system for memory itself. Of a network `tracemalloc` therefore sees little more than the objects that point to
tensors.
"""

from __future__ import annotations

import re
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["process_peak", "python_peak"]

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


def process_peak(call: Callable[[], object]) -> tuple[int, int]:
    """Bytes of the process before a call, and at most during it."""
    _forget()
    before = _high_water()
    call()
    return before, _high_water()


def python_peak(call: Callable[[], object]) -> int:
    """Bytes that a call has at most through Python's allocators; it takes longer than otherwise."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _forget() -> None:
    """Puts the high-water mark back to what the process has now, where the system can."""
    with suppress(OSError):
        RESET.write_text("5")


def _high_water() -> int:
    """The high-water mark in bytes."""
    try:
        found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text("utf-8"))
    except OSError:
        found = None
    if found is not None:  # of this program alone: getrusage also counts what started it
        return 1024 * int(found[1])
    try:
        import resource
    except ImportError as error:
        raise ValueError(
            "the peak memory of a process needs Linux or macOS; leave this result out elsewhere."
        ) from error
    mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return mark if sys.platform == "darwin" else 1024 * mark
