"""A process that works, watched by one that waits: a signal that ends it or hangs is found out and listed.

A signal may end the process that analyses it (a crash in compiled code, the system's lack of memory) or never come to
an end. So the work is done by a process of its own (`worker`), which says whose turn it is. If it is lost

- while one signal has its turn, that signal is to blame. It is tried `MOST_TRIES` times, or once if it took longer than
  it may, and then listed as failed; the others of its chunk go on, in the company that they had;
- while the chunk is worked on as a whole, the chunk is tried again, and then each of its signals alone.

Only the standard library and the plan are needed here, so that a cluster's own process stays small.
"""

from __future__ import annotations

import dataclasses
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

from slotflow.data.read.formats import file_name as shown_name
from slotflow.many.messages import Begun, Done, Fault, Ready, Task, receive, send
from slotflow.many.plan import Answer

__all__ = ["MOST_TRIES", "Supervised"]

MOST_TRIES = 2
"""How often a signal may end its process before it is given up."""
MOST_DEATHS = 5
"""How often a process may end while no signal is to blame."""
START_SECONDS = 600.0
"""How long a process may take to load the network."""
TOGETHER_SECONDS = 60.0
"""How long a step of the work on a whole chunk may take at least, such as the network's pass over some signals."""
STOP_SECONDS = 10.0
"""How long to wait for a process that was killed, or that has stopped speaking."""


class _Lost(Exception):
    """The process is gone.

    Args:
        reason: Why, in words that follow a name: "ended by SIGSEGV".
        hung: Whether it was killed because it took too long.
    """

    def __init__(self, reason: str, hung: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.hung = reason, hung


class Supervised:
    """A process that answers tasks, started when it is first needed and again when it is lost.

    Args:
        work: The pickled `Work`.
        timeout: Seconds that one signal may take; None for any.
    """

    def __init__(self, work: bytes, timeout: float | None = None) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError(f"expected a timeout above 0 seconds, received {timeout:g}.")
        self.work, self.timeout = work, timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._inbox: queue.Queue[Any] = queue.Queue()

    @property
    def pid(self) -> int | None:
        """Number of the process; None if there is none."""
        return None if self._process is None else self._process.pid

    def answers(self, task: Task) -> Iterator[Answer]:
        """Answers all signals of a chunk that are asked for, in any order."""
        left, alone = set(task.asked), task.alone
        deaths: Counter[int | None] = Counter()
        try:
            while left:
                turn: int | None = None
                skip = frozenset(task.chunk.places) - left
                try:
                    for message in self._messages(
                        dataclasses.replace(task, skip=skip, alone=alone)
                    ):
                        if isinstance(message, Begun):
                            turn = message.place
                        else:
                            turn = None
                            left -= set(range(message.place, message.place + message.count))
                            yield message
                    for place in sorted(left):  # a file that is shorter than it was
                        left.discard(place)
                        answer = task.chunk.answer(place)
                        error = f"{shown_name(answer.file)}: there was no answer"
                        yield dataclasses.replace(answer, error=error)
                except _Lost as lost:
                    deaths[turn] += 1
                    hopeless = lost.hung or deaths[turn] >= MOST_TRIES
                    if turn is None and deaths[None] > MOST_DEATHS:
                        raise RuntimeError(
                            f"the process that analyses signals {lost.reason}, {deaths[None]} times, and no signal "
                            "was under way"
                        ) from None
                    if turn is None:
                        alone = alone or hopeless
                    elif hopeless:
                        left.discard(turn)
                        yield self._failed(task.chunk.answer(turn), lost, deaths[turn])
        finally:
            if left:  # nobody listens any more to what it says of this task
                self.close()

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _failed(self, answer: Answer, lost: _Lost, times: int) -> Answer:
        """The answer of a signal that is given up."""
        again = f", {times} times" if times > 1 else ""
        error = f"{shown_name(answer.file)}: its process {lost.reason}{again}"
        return dataclasses.replace(answer, error=error, final=True)

    def _messages(self, task: Task) -> Iterator[Any]:
        """What the process says of a task until it is done."""
        process = self._started()
        assert process.stdin is not None
        try:
            send(process.stdin, task)
        except OSError:
            raise self._lost() from None
        limit = self._limit(None)
        while not isinstance(message := self._next(limit), Done):
            limit = self._limit(message.place if isinstance(message, Begun) else None)
            yield message

    def _limit(self, turn: int | None) -> float | None:
        """Seconds until the next message: what one signal may take, and for a step of a chunk as a whole some more."""
        if self.timeout is None or turn is not None:
            return self.timeout
        return max(self.timeout, TOGETHER_SECONDS)

    def _started(self) -> subprocess.Popen[bytes]:
        """The process, ready for a task."""
        if self._process is None:
            process = subprocess.Popen(
                [sys.executable, "-m", "slotflow.many.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert process.stdin is not None and process.stdout is not None
            self._process, self._inbox = process, queue.Queue()
            listener = threading.Thread(
                target=_listen, args=(process.stdout, self._inbox), daemon=True
            )
            listener.start()
            try:
                send(process.stdin, self.work)
                ready = self._next(START_SECONDS)
            except (OSError, _Lost) as error:
                self.close()
                raise RuntimeError(f"a process for the analysis could not start: {error}") from None
            assert isinstance(ready, Ready)
        return self._process

    def _next(self, seconds: float | None) -> Any:
        """The next message; `_Lost` if there is none in time or ever."""
        try:
            message = self._inbox.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise _Lost(
                f"was killed after {seconds:g} s, the most that it may take", True
            ) from None
        if message is None:
            raise self._lost()
        if isinstance(message, Fault):
            self.close()
            kind = ValueError if message.kind == "ValueError" else RuntimeError
            raise kind(message.text if kind is ValueError else f"{message.kind}: {message.text}")
        return message

    def _lost(self) -> _Lost:
        """Why the process is gone."""
        assert self._process is not None
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.close()
            return _Lost("sent what cannot be read")
        self.close()
        if code >= 0:
            return _Lost(f"ended with code {code}")
        try:
            return _Lost(f"was ended by {signal.Signals(-code).name}")
        except ValueError:
            return _Lost(f"was ended by signal {-code}")


def _listen(pipe: IO[bytes], inbox: queue.Queue[Any]) -> None:
    """Takes in what a process says; None when it is gone, in whatever state, or cannot be understood."""
    try:
        while True:
            inbox.put(pickle.loads(receive(pipe)))
    except Exception:
        inbox.put(None)
