"""What a process that hands out work and one that does it say to each other, over a pipe."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

from slotflow.many.plan import Answer, Chunk

__all__ = ["Begun", "Done", "Fault", "Ready", "Task", "receive", "send"]


@dataclass(frozen=True)
class Task:
    """A chunk to analyse."""

    chunk: Chunk
    known: Mapping[int, str] = field(default_factory=dict)
    """Identities of results of an earlier run, by place."""
    skip: frozenset[int] = frozenset()
    """Places of signals that are not asked for."""
    alone: bool = False
    """Whether each signal is read and analysed alone."""

    @property
    def asked(self) -> list[int]:
        """Places of the signals that are asked for."""
        return [place for place in self.chunk.places if place not in self.skip]


@dataclass(frozen=True)
class Ready:
    """The network is loaded."""


@dataclass(frozen=True)
class Begun:
    """Work on one signal alone has begun, or another step of the work on all signals of the chunk together."""

    place: int | None
    """The signal's place; None: all of the chunk."""


@dataclass(frozen=True)
class Done:
    """All of a task is answered."""


@dataclass(frozen=True)
class Fault:
    """The program failed, and no signal is to blame."""

    kind: str
    """Name of the error."""
    text: str
    """What it says."""
    trace: str = ""


Message = Task | Ready | Begun | Done | Fault | Answer


LENGTH = struct.Struct("<Q")
"""Stands before each message: its length in bytes."""


def send(pipe: IO[bytes], message: Message | bytes) -> None:
    """Writes a message, or one that is pickled already."""
    text = message if isinstance(message, bytes) else pickle.dumps(message)
    pipe.write(LENGTH.pack(len(text)) + text)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """Reads a pickled message; EOFError if the other side is gone.

    It is left to whoever takes it to unpickle it, which may import a lot: meanwhile the end of the pipe is noticed.
    """
    head = pipe.read(LENGTH.size)
    text = pipe.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    if not text:
        raise EOFError("the other side of the pipe is gone")
    return text
