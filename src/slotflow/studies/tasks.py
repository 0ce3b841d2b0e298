"""Many independent tasks over several processes.

A task is named by a part and an index, and its result is a dictionary of plain values with the index under "i". Results
are handed over as they come and kept in a store, so that a run that is stopped (Ctrl-C, a lost machine) loses only
what was under way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from threading import Event

from slotflow.core.store import Record, Store
from slotflow.train.processes import stop_signals

__all__ = ["THREAD_VARIABLES", "Record", "Task", "Worker", "run_recorded", "run_tasks"]

Task = tuple[str, int]
"""A part's name and an index."""
Worker = Callable[[str, int], Record]
"""Takes a part's name and an index to plain values."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that say how many threads a process computes with."""

_worker: Worker | None = None  # of a process of the pool


def run_recorded(
    tasks: Sequence[Task],
    make: Callable[[], Worker],
    store: Store,
    identify: Callable[[Task], tuple[str, str]],
    done: Callable[[str, bool], None],
    jobs: int = 1,
) -> dict[Task, Record]:
    """Results of tasks, from a store where it has them, and worked on and kept there otherwise.

    Args:
        tasks: (part, index) of each.
        make: Makes a process's worker; must be picklable if jobs > 0.
        store: Where results are kept.
        identify: Name and identity of a task's record.
        done: Called with the part of each result, and whether it was worked on.
        jobs: Processes, with one thread each; 0: this process.
    """
    found: dict[Task, Record] = {}
    for task in tasks:
        record = store.get(*identify(task))
        if record is not None:
            found[task] = record
            done(task[0], False)

    def keep(part: str, record: Record) -> None:
        task = (part, int(record["i"]))
        found[task] = record
        store.put(*identify(task), record)
        done(part, True)

    left = [task for task in tasks if task not in found]
    if left:
        run_tasks(left, make, keep, jobs)
    return found


def run_tasks(
    tasks: Sequence[Task],
    make: Callable[[], Worker],
    done: Callable[[str, Record], None],
    jobs: int = 1,
) -> None:
    """Works on tasks; the first Ctrl-C lets those under way end, keeps their results and stops.

    Args:
        tasks: (part, index) of each.
        make: Makes a process's worker; must be picklable if jobs > 0.
        done: Called in this process with each result, in the order of completion.
        jobs: Processes, with one thread each; 0: this process.
    """
    with stop_signals() as stop:
        if jobs == 0:
            worker = make()
            for part, index in tasks:
                if stop.is_set():
                    raise KeyboardInterrupt
                done(part, worker(part, index))
            return
        with _pool(jobs, make) as pool:
            try:
                _share_out(pool, tasks, done, 2 * jobs, stop)
            except BrokenExecutor:  # Ctrl-C reaches processes that have hardly begun
                if not stop.is_set():
                    raise
        if stop.is_set():
            raise KeyboardInterrupt


def _share_out(
    pool: ProcessPoolExecutor,
    tasks: Sequence[Task],
    done: Callable[[str, Record], None],
    most: int,
    stop: Event,
) -> None:
    """Keeps a number of tasks under way until all are done; asked to stop, waits for those that run.

    Args:
        pool: The processes.
        tasks: What to do.
        done: Called with each result.
        most: Tasks that are under way at once, at most.
        stop: Set when the user asks to stop.
    """
    left, running = iter(tasks), dict[Future[Record], str]()
    while True:
        while len(running) < most and not stop.is_set():
            task = next(left, None)
            if task is None:
                break
            running[pool.submit(_call, *task)] = task[0]
        if not running:
            return
        # A wait without an end would keep the handler of Ctrl-C waiting too.
        for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
            done(running.pop(future), future.result())
        if stop.is_set():
            for future in [f for f in running if f.cancel()]:
                del running[future]


@contextmanager
def _pool(jobs: int, make: Callable[[], Worker]) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes that compute with one thread each and leave Ctrl-C to their parent."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (make,))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin(make: Callable[[], Worker]) -> None:
    """Prepares a process of the pool."""
    import signal

    import torch

    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _worker = make()


def _call(part: str, index: int) -> Record:
    assert _worker is not None
    return _worker(part, index)
