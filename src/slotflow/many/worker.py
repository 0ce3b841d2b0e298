"""A process that answers chunks and does nothing else: ``python -m slotflow.many.worker``.

It reads its `Work` from standard input, then one `Task` after another, and writes what becomes of them to standard
output, as pickles. Whatever the library prints goes to standard error. It ends when its input does, even in the middle
of a task, so that nothing is left behind by whoever started it, however that one came to its end.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import IO, Any

from slotflow.core.stages import Stage, listening
from slotflow.many.messages import Begun, Done, Fault, Ready, Task, receive, send

__all__ = ["main"]

TOGETHER = ("reading", "inference", "network", "exact batch")
"""Stages in which a chunk is worked on as a whole; in any other it is one signal's turn."""
NO_MEMORY = 137
"""Exit code of a process without memory, as if the system had ended it."""


def main() -> None:
    """Works until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # who started the process decides when it ends
        signal.signal(number, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    inbox: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, inbox), daemon=True).start()
    try:
        work = _taken(inbox)
        if work.folder is not None and work.folder.is_dir():
            os.chdir(work.folder)
        desk = work.desk()
        send(out, Ready())
        while True:
            _do(_taken(inbox), desk, out)
    except MemoryError:
        os._exit(NO_MEMORY)
    except BaseException as error:
        send(out, Fault(type(error).__name__, str(error), traceback.format_exc()))
        os._exit(1)


def _listen(pipe: IO[bytes], inbox: queue.Queue[bytes]) -> None:
    """Takes in what arrives, and ends the process when nothing more can."""
    try:
        while True:
            inbox.put(receive(pipe))
    finally:
        os._exit(0)


def _taken(inbox: queue.Queue[bytes]) -> Any:
    """The next message."""
    return pickle.loads(inbox.get())


def _do(task: Task, desk: Any, out: IO[bytes]) -> None:
    """Answers one task."""
    begin = _Begin(lambda place: send(out, Begun(place)))
    with listening(begin.hear):
        chunks = [(task.chunk, task.skip)]
        if task.alone:
            chunks = [(task.chunk.alone(place), frozenset()) for place in task.asked]
        for chunk, skip in chunks:
            begin.left = [place for place in chunk.places if place not in skip]
            begin.single = len(chunk.places) == 1
            if task.alone:
                begin(chunk.places.start)
            for answer in desk.answers(chunk, task.known, skip, begin):
                begin.answered(answer.place, answer.count)
                send(out, answer)
    send(out, Done())


class _Begin:
    """Tells when work on one signal begins: as the library says it, stage by stage, or by its place.

    Args:
        tell: Called with the place of the signal; with None when all of the chunk is worked on.
    """

    def __init__(self, tell: Callable[[int | None], None]) -> None:
        self.tell = tell
        self.left: list[int] = []
        """Places of the signals that have no answer yet."""
        self.named: int | None = None
        """The signal whose turn it was said to be."""
        self.single = False
        """Whether the chunk is one signal, whose turn it then always is."""
        self.told: int | None = None

    def hear(self, stage: Stage) -> None:
        """A stage that is one signal's own is that of the one that was named, or of the next one without an answer.

        Every step of the work on the whole chunk is told: it shows that the process is alive.
        """
        if stage.name in TOGETHER:
            self.told = self.left[0] if self.single and self.left else None
            self.tell(self.told)
        elif stage.name and self.left:
            self._say(self.named if self.named in self.left else self.left[0])

    def __call__(self, place: int) -> None:
        """Names the signal whose turn it is."""
        self.named = place
        self._say(place)

    def _say(self, place: int) -> None:
        """Tells it once of each signal."""
        if place != self.told:
            self.told = place
            self.tell(place)

    def answered(self, place: int, count: int) -> None:
        """Takes note of an answer."""
        self.left = [one for one in self.left if not place <= one < place + count]


if __name__ == "__main__":
    main()
