"""Work in processes beside this one, which begin as copies of it, while this one goes on with something else.

A copy (fork) has everything that this process has when it is made, so that it begins at once; items are sent to it and
what it finds comes back as a pickle. Objects that both have, such as a network's weights, are sent back as their
numbers. A copy cannot use a GPU: the work must do without. Copies are made early, while this process is small. Where
none can be made, or one of them dies, this process does the work itself.

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
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import current_process, get_all_start_methods, get_context
from types import TracebackType
from typing import Any, Generic, TypeVar

from slotflow.core.threads import limit_threads

__all__ = ["Beside", "can_be_copied", "processes_for"]

Item = TypeVar("Item")
Found = TypeVar("Found")
FEWEST_EACH = 64
"""Items that may need the work for each process at least; a process is not worth fewer."""
MOST_PROCESSES = 32

_work: Callable[[Any], bytes] | None = None
"""What the copies do; set before they are made."""


def can_be_copied() -> bool:
    """Whether this process can have copies."""
    return "fork" in get_all_start_methods() and not current_process().daemon


def processes_for(count: int) -> int:
    """How many processes are worth having beside this one where up to `count` items may need them; 0 for none."""
    if not can_be_copied():
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return min(cores, count // FEWEST_EACH, MOST_PROCESSES) if cores > 1 else 0


class Beside(Generic[Item, Found]):
    """Some work, done in processes where there are any; to be used as a context.

    Args:
        work: What to do with an item; without a GPU. Items and what it returns can be pickled.
        processes: How many copies work; with none this process works when `results` asks.
        shared: Objects that are not copied back: what refers to them refers to those of this process.
    """

    def __init__(
        self, work: Callable[[Item], Found], processes: int, shared: Sequence[object] = ()
    ) -> None:
        self.work, self.shared = work, shared
        self._items: list[Item] = []
        self._futures: list[Future[bytes] | None] = []
        self._pool: ProcessPoolExecutor | None = None
        if processes > 0:
            self._begin(processes)

    def _begin(self, processes: int) -> None:
        """Makes the copies."""
        global _work
        work, shared = self.work, self.shared
        _work = lambda item: _packed(work(item), shared)  # noqa: E731
        try:
            self._pool = ProcessPoolExecutor(processes, get_context("fork"), _prepare)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of copies beside threads
                self._pool.submit(os.getpid)  # all are made with the first item
        except OSError:
            self._pool = None
        finally:
            _work = None

    def submit(self, item: Item) -> None:
        """Has an item worked on."""
        self._items.append(item)
        future = None
        if self._pool is not None:
            try:
                future = self._pool.submit(_do, item)
            except BrokenProcessPool:
                self._pool = None
        self._futures.append(future)

    def results(self) -> list[Found]:
        """What came of all items, in their order."""
        found = []
        for item, future in zip(self._items, self._futures, strict=True):
            try:
                packed = None if future is None else future.result()
            except BrokenProcessPool:
                packed = None  # it is done here
            found.append(self.work(item) if packed is None else _unpacked(packed, self.shared))
        return found

    def __enter__(self) -> Beside[Item, Found]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=error is None, cancel_futures=True)


def _prepare() -> None:
    """Prepares a copy: one thread, and Ctrl-C is its parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_threads(1)


def _do(item: Any) -> bytes:
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
