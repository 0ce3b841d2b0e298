"""Work on many items in processes beside this one, which begin as copies of it.

A copy (fork) has everything that this process has, so that nothing needs to be sent to it, and begins at once; what it
finds comes back as a pickle. Objects that both have, such as a network's weights, are sent as their numbers. A copy
cannot use a GPU: work that goes to one must do without. Where copies cannot be made, or one of them dies, this process
does the work itself.

torch's data loaders make their workers the same way, and with one thread each, as here: threads of torch do not survive
a copy.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import current_process, get_all_start_methods, get_context
from typing import Any, TypeVar

from slotflow.core.threads import limit_threads

__all__ = ["beside", "processes_for"]

Found = TypeVar("Found")
FEWEST_EACH = 4
"""Items for each process at least; a process is not worth fewer."""
MOST_PROCESSES = 32

_work: Callable[[int], bytes] | None = None
"""What the copies do; set before they are made."""


def processes_for(count: int) -> int:
    """How many processes are worth having beside this one for some items; 0 where there can be none."""
    if "fork" not in get_all_start_methods() or current_process().daemon:
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return min(cores, count // FEWEST_EACH, MOST_PROCESSES) if cores > 1 else 0


def beside(
    work: Callable[[int], Found], count: int, processes: int, shared: Sequence[object] = ()
) -> list[Found]:
    """What comes of the work on items 0 to count − 1, in their order.

    Args:
        work: What to do with an item; without a GPU, and whatever it returns can be pickled.
        count: How many items there are.
        processes: How many copies work; with none this process works alone.
        shared: Objects that are not copied back: what refers to them refers to those of this process.
    """
    global _work
    found: dict[int, Found] = {}
    if processes > 0:
        _work = lambda i: _packed(work(i), shared)  # noqa: E731
        try:
            with (
                warnings.catch_warnings(),
                ProcessPoolExecutor(processes, get_context("fork"), _begin) as pool,
            ):
                warnings.simplefilter("ignore", DeprecationWarning)  # of copies beside threads
                for i, packed in enumerate(pool.map(_do, range(count))):
                    found[i] = _unpacked(packed, shared)
        except (BrokenProcessPool, OSError):
            pass  # what is missing is done here
        finally:
            _work = None
    return [found[i] if i in found else work(i) for i in range(count)]


def _begin() -> None:
    """Prepares a copy: one thread, and Ctrl-C is its parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_threads(1)


def _do(item: int) -> bytes:
    """Works on one item in a copy."""
    assert _work is not None
    return _work(item)


def _packed(found: object, shared: Sequence[object]) -> bytes:
    """A pickle in which shared objects are numbers."""
    numbers = {id(one): i for i, one in enumerate(shared)}

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: object) -> int | None:
            return numbers.get(id(obj))

    stream = io.BytesIO()
    Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(found)
    return stream.getvalue()


def _unpacked(packed: bytes, shared: Sequence[object]) -> Any:
    """What was packed."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: int) -> object:
            return shared[pid]

    return Unpickler(io.BytesIO(packed)).load()
