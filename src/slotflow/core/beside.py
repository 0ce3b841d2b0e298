"""Work in processes beside this one, which begin as copies of it, while this one goes on with something else.

A copy (fork) has everything that this process has when it is made, so that it begins at once; items are sent to it and
what it finds comes back as a pickle. Objects that both have, such as a network's weights, are sent back as their
numbers. A copy cannot use a GPU: the work must do without. Where no copy can be made, or one of them dies or falls
silent, this process does the work itself.

**A foreman.** To copy a process that holds gigabytes takes long, and meanwhile it does nothing else. So this
one makes a single copy, which makes the others of itself, hands items out to them (`ProcessPoolExecutor`) and sends
back what they find. It ends when it is told to, or when its parent is gone.

torch's data loaders make their workers the same way, and with one thread each, as here: threads of torch do not survive
a copy.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import current_process, get_all_start_methods, get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, TypeVar

import torch

from slotflow.core.threads import limit_threads

__all__ = ["Beside", "can_be_copied", "processes_for"]

Item = TypeVar("Item")
Found = TypeVar("Found")
FEWEST_EACH = 64
"""Items that may need the work for each process at least; a process is not worth fewer."""
MOST_PROCESSES = 32
GLANCE = 1.0
"""Seconds after which one looks whether the other process is still alive."""
PLAIN = (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128)
"""Types of tensors that are sent as arrays."""
LOST = b""
"""What comes back of an item that could not be worked on."""

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
        patience: Seconds without a result after which the copies are given up, longer than any item takes.
    """

    def __init__(
        self,
        work: Callable[[Item], Found],
        processes: int,
        shared: Sequence[object] = (),
        patience: float = math.inf,
    ) -> None:
        self.work, self.shared, self.patience = work, shared, patience
        self._items: list[Item] = []
        self._found: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._packed: dict[int, bytes] = {}
        """Results that have come back, by the numbers of their items."""
        self._foreman: Any = None
        if processes > 0:
            self._begin(processes)

    def _begin(self, processes: int) -> None:
        """Makes the foreman."""
        global _work
        work, shared, context = self.work, self.shared, get_context("fork")
        _work = lambda item: _packed(work(item), shared)  # noqa: E731
        try:
            self._tasks: Any = context.Queue()
            self._tasks.cancel_join_thread()  # a foreman that is gone reads nothing
            reader, writer = context.Pipe(duplex=False)
            foreman = context.Process(target=_direct, args=(self._tasks, writer, processes))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of copies beside threads
                foreman.start()
            writer.close()
            threading.Thread(target=_receive, args=(reader, self._found), daemon=True).start()
            self._foreman = foreman
        except OSError:
            self._foreman = None
        finally:
            _work = None

    def submit(self, item: Item) -> None:
        """Has an item worked on."""
        if self._foreman is not None:
            self._tasks.put((len(self._items), pickle.dumps(item, pickle.HIGHEST_PROTOCOL)))
        self._items.append(item)

    def results(self) -> list[Found]:
        """What came of all items, in their order."""
        packed, heard = self._packed, time.monotonic()
        while self._foreman is not None and len(packed) < len(self._items):
            try:
                message = self._found.get(timeout=min(GLANCE, self.patience))
                packed[int.from_bytes(message[:8], "little")] = message[8:]
                heard = time.monotonic()
            except queue.Empty:
                silent = time.monotonic() - heard > self.patience
                if silent:
                    self._foreman.kill()  # its workers end with it
                if silent or not self._foreman.is_alive():
                    break
        return [
            _unpacked(packed[i], self.shared) if packed.get(i, LOST) != LOST else self.work(item)
            for i, item in enumerate(self._items)
        ]

    def __enter__(self) -> Beside[Item, Found]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._foreman is not None:
            self._tasks.put(None)  # it ends by itself


def _receive(reader: Connection, found: queue.SimpleQueue[bytes]) -> None:
    """Takes what the foreman sends, so that it never waits."""
    try:
        while True:
            found.put(reader.recv_bytes())
    except (EOFError, OSError):
        return


def _direct(tasks: Any, writer: Connection, processes: int) -> None:
    """What the foreman does.

    Args:
        tasks: Gives numbers and pickled items, and None at the end.
        writer: Where numbers and packed results go.
        processes: How many work.
    """
    _prepare()
    parent = os.getppid()
    pool = ProcessPoolExecutor(processes, get_context("fork"), _prepare_worker)
    pool.submit(os.getpid)  # all are made with the first item

    def send(number: int, future: Future[bytes]) -> None:
        lost = future.cancelled() or future.exception() is not None
        try:
            writer.send_bytes(number.to_bytes(8, "little") + (LOST if lost else future.result()))
        except OSError:  # nobody reads any more
            return

    while os.getppid() == parent:
        try:
            task = tasks.get(timeout=GLANCE)
        except queue.Empty:
            continue
        if task is None:
            break
        number, item = task
        try:
            future = pool.submit(_do, item)
        except RuntimeError as error:  # one of them has died
            future = Future()
            future.set_exception(error)
        future.add_done_callback(partial(send, number))
    pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    """Prepares a copy: one thread, and Ctrl-C is its parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_threads(1)


def _prepare_worker() -> None:
    """The same for a worker, which ends when the foreman is gone: nobody else would tell it."""
    _prepare()
    foreman = os.getppid()

    def watch() -> None:
        while os.getppid() == foreman:
            time.sleep(GLANCE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _do(item: bytes) -> bytes:
    """Works on one pickled item in a copy."""
    assert _work is not None
    return _work(pickle.loads(item))


def _packed(found: object, shared: Sequence[object]) -> bytes:
    """A pickle in which shared objects are numbers, and tensors arrays, which are read many times sooner."""
    numbers = {id(one): i for i, one in enumerate(shared)}

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: object) -> int | None:
            return numbers.get(id(obj))

        def reducer_override(self, obj: object) -> Any:
            if type(obj) is torch.Tensor and obj.dtype in PLAIN and not obj.requires_grad:
                return torch.from_numpy, (obj.resolve_conj().numpy(),)
            return NotImplemented

    stream = io.BytesIO()
    Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(found)
    return stream.getvalue()


def _unpacked(packed: bytes, shared: Sequence[object]) -> Any:
    """What was packed."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: int) -> object:
            return shared[pid]

    return Unpickler(io.BytesIO(packed)).load()
