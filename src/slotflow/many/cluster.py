"""Chunks on a Dask cluster: an existing one, or processes of this machine.

A task is one chunk with everything that its analysis needs, so that it can be repeated anywhere: paths of files that
all machines see, or the samples themselves. A worker of the cluster does not analyse it in its own process. It starts
one beside itself and watches over it (`supervise`), so that a signal that crashes or hangs costs neither the worker nor
the rest of its chunk. The answers come back to the process that asked, which alone writes the ledger, chunk by chunk.

A chunk whose worker is lost is given to another one by Dask, a few times. If it is still lost, it is handed out once
more as a whole and then signal by signal, and a signal that loses its workers again is listed as failed. If the
scheduler is lost, the chunks under way are handed out again as soon as the connection is back.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

from slotflow.core.packages import needed
from slotflow.data.read.formats import file_name as shown_name
from slotflow.many.messages import Task
from slotflow.many.plan import Answer, Chunk
from slotflow.many.supervise import Supervised

__all__ = ["DaskCluster", "answer_task", "connected"]

FEWEST_AHEAD = 4
"""Chunks under way at least, so that a cluster that grows with its work sees some."""
AHEAD = 2
"""Chunks under way for each thread of the cluster."""
POLL_SECONDS = 5.0
"""How often the connection is looked at while nothing comes."""
CONNECT_SECONDS = 60.0
"""How long to wait for a scheduler, at first and when it was lost."""
MOST_WHOLE = 2
"""How often a chunk is handed out as a whole."""

_own = threading.local()


def answer_task(work: bytes, timeout: float | None, task: Task) -> list[Answer]:
    """All answers of a task; runs on a worker of the cluster.

    Args:
        work: The pickled `Work`.
        timeout: Seconds that one signal may take; None for any.
        task: The chunk.
    """
    process: Supervised | None = getattr(_own, "process", None)
    if process is None or (process.work, process.timeout) != (work, timeout):
        if process is not None:
            process.close()
            _processes.discard(process)
        process = _own.process = Supervised(work, timeout)
    _processes.add(process)  # again, if an earlier run of the same work has ended it
    return list(process.answers(task))


_processes: set[Supervised] = set()
"""Those of this worker that may be alive."""


def end_processes() -> None:
    """Ends the processes beside a worker when the run is over."""
    while _processes:
        _processes.pop().close()


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a cluster.

    Args:
        address: Of its scheduler, such as ``tcp://host:8786``, the name of a scheduler file (.json), or ``local`` or
            ``local:4`` for processes of this machine, as many as it has cores or as stated.
    """
    distributed = needed("distributed", "cluster", "or leave --dask out")
    kind, _, number = address.partition(":")
    if kind == "local":
        if number and not (number.isdecimal() and int(number) > 0):
            raise ValueError(
                f"--dask: expected local or local:N with N workers, received {address!r}."
            )
        workers = int(number) if number else os.cpu_count() or 1
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        client = distributed.Client(**place, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--dask: expected the address of a Dask scheduler such as tcp://host:8786, or local:4, received "
            f"{address!r}, where none answers ({error})."
        ) from error
    with client:
        yield client


class DaskCluster:
    """Answers tasks on a cluster.

    Args:
        client: A `distributed.Client`.
        work: The pickled `Work`.
        timeout: Seconds that one signal may take; None for any.
    """

    def __init__(self, client: Any, work: bytes, timeout: float | None = None) -> None:
        self.client, self.work, self.timeout = client, work, timeout
        self._running: dict[Any, Task] = {}
        self._again: deque[Task] = deque()
        self._lost: Counter[range] = Counter()

    def answers(self, tasks: Iterator[Task]) -> Iterator[tuple[Chunk, list[Answer]]]:
        """Chunks with all of their answers, as they are ready."""
        try:
            while True:
                try:
                    self._hand_out(tasks)
                    if not self._running:
                        return
                    finished = self._finished()
                except (CancelledError, OSError):
                    self._reconnect()
                    continue
                for future in finished:
                    task = self._running.pop(future)
                    found = self._result(future, task)
                    if found is not None:
                        yield task.chunk, found
        finally:
            with suppress(Exception):  # the cluster may be gone
                self.client.cancel(list(self._running), force=True)
                self.client.run(end_processes)

    def _hand_out(self, tasks: Iterator[Task]) -> None:
        """Gives the cluster as many chunks as it can use."""
        threads = sum(self.client.nthreads().values())
        while len(self._running) < max(FEWEST_AHEAD, AHEAD * threads):
            task = self._again.popleft() if self._again else next(tasks, None)
            if task is None:
                return
            future = self.client.submit(
                answer_task, self.work, self.timeout, task, pure=False, retries=1
            )
            self._running[future] = task

    def _finished(self) -> list[Any]:
        """The chunks that are ready, one at least unless it takes long."""
        distributed = needed("distributed", "cluster")
        try:
            done = distributed.wait(
                list(self._running), timeout=POLL_SECONDS, return_when="FIRST_COMPLETED"
            ).done
        except distributed.TimeoutError:
            return []
        return [future for future in self._running if future in done]

    def _result(self, future: Any, task: Task) -> list[Answer] | None:
        """The answers of a chunk; None if it is handed out again."""
        from distributed import KilledWorker

        try:
            found: list[Answer] = future.result()
            return found
        except CancelledError:  # of a scheduler that is no more
            self._again.append(task)
            return None
        except KilledWorker as error:
            places = task.chunk.places
            self._lost[places] += 1
            if task.alone:
                return [_failed(task.chunk.answer(place), error) for place in task.asked]
            if self._lost[places] < MOST_WHOLE:
                self._again.append(task)
                return None
            for place in task.asked:
                self._again.append(Task(task.chunk.alone(place), task.known, alone=True))
            return None
        finally:
            future.release()

    def _reconnect(self) -> None:
        """Takes back what was under way, and waits for the scheduler."""
        self._again.extend(self._running.values())
        self._running.clear()
        deadline = time.monotonic() + CONNECT_SECONDS
        while self.client.status == "connecting" and time.monotonic() < deadline:
            time.sleep(0.2)
        if self.client.status != "running":
            raise ConnectionError(
                "the Dask scheduler is gone and did not come back; what is done is kept: start it, and run the same "
                "command again."
            )


def _failed(answer: Answer, error: Exception) -> Answer:
    """The answer of a signal that loses its workers."""
    reason = "the workers that analysed it were lost"
    text = f"{shown_name(answer.file)}: {reason} ({type(error).__name__})"
    return dataclasses.replace(answer, error=text, final=True)
