"""Many independent tasks over several processes, with a file of results that a later run goes on from.

A task is named by a part and an index, and its result is a dictionary of plain values. Results are written one per
line as they come, so a run that is stopped (Ctrl-C, a lost machine) loses only what was under way. The first line says
how the results were made; a file that was made differently is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any

from slotflow.train.processes import stop_signals

__all__ = ["Ledger", "Record", "Worker", "run_tasks"]

Record = dict[str, Any]
Worker = Callable[[str, int], Record]
"""Takes a part's name and an index to plain values."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

_worker: Worker | None = None  # of a process of the pool


class Ledger:
    """The results of one part, in a file or in memory.

    Args:
        path: JSON-lines file; None: memory only.
        made: How results are made, as plain values.
    """

    def __init__(self, path: Path | None, made: Mapping[str, Any]) -> None:
        self.path, self.records = path, dict[int, Record]()
        if path is None:
            return
        header = json.dumps({"made": dict(made)}, sort_keys=True)
        if path.exists() and path.stat().st_size:
            self._read(path, header)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header + "\n", "utf-8")

    def _read(self, path: Path, header: str) -> None:
        lines = path.read_text("utf-8").split("\n")
        if lines[0] != header:
            raise ValueError(
                f"{path} holds results that were made differently: expected {header}, received {lines[0][:400]}; "
                "choose another --work folder or remove the file."
            )
        for line in lines[1:]:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # the last line of a run that was cut short
                continue
            self.records[int(record["i"])] = record
        if lines[-1]:
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")

    def add(self, record: Record) -> None:
        """Keeps a result, on disk at once."""
        self.records[int(record["i"])] = record
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")

    def first(self, n: int) -> list[Record]:
        """The results of the indices below n, in order."""
        return [self.records[i] for i in range(n) if i in self.records]


def run_tasks(
    tasks: Sequence[tuple[str, int]],
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
    tasks: Sequence[tuple[str, int]],
    done: Callable[[str, Record], None],
    most: int,
    stop: Event,
) -> None:
    """Keeps at most so many tasks under way until all are done, or those that run when asked to stop."""
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
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
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
