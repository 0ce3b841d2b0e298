"""What a long call is doing, told to whoever listens: reading, noise, search, window 3 of 12.

The library tells, and does not know whether anybody listens::

    tell("windows", 3, 12)              # done and total
    announce("the band is 400 bins wide: analysed in 12 windows")

A caller that shows progress, such as the command line, listens::

    with listening(show):               # show(Stage("windows", 3, 12, ""))
        model.infer(observation)

Without a listener a report costs nothing. A listener belongs to the context that set it, so that calls in other threads
stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

__all__ = ["Listener", "Stage", "announce", "listening", "tell"]


class Stage(NamedTuple):
    """One report of a long call."""

    name: str
    """What is being done, in a word or two; empty for an announcement."""
    done: float = 0.0
    """How much of it is done."""
    total: float | None = None
    """How much there is to do; None where that is not known."""
    note: str = ""
    """Something that the user should read, such as a decision that changes how long the call takes."""


Listener = Callable[[Stage], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell(name: str, done: float = 0.0, total: float | None = None) -> None:
    """Reports what is being done, and how much of it is done already.

    Args:
        name: What, in a word or two: "noise", "search", "windows".
        done: How much of it is done.
        total: How much there is to do; None where that is not known.
    """
    if (listener := _listener.get()) is not None:
        listener(Stage(name, done, total))


def announce(note: str) -> None:
    """Reports something that the user should read while the call goes on."""
    if (listener := _listener.get()) is not None:
        listener(Stage("", note=note))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Lets a listener hear the reports of the enclosed code; one that listened before does not hear them.

    Args:
        listener: Called with every report.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
