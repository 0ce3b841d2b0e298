"""Where the time of many answers goes: a clock around the stages of `model.infer` of a batch, from outside.

For the time of a measurement the functions of `STAGES` are replaced by ones that tell the clock when they begin and
when they end. Every moment belongs to the innermost stage that has begun, and what belongs to none is the rest: sorting
by K, taking rows, what Python itself needs. On a GPU the clock waits for all work at each change of stage, so that the
stages together take a little longer than the plain call does.

Within `ALONE` nothing is told apart: these signals are answered by other code, and beside a GPU in other processes,
which must not touch it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from slotflow.exact.batch import answers, group
from slotflow.infer import together
from slotflow.infer.rest import Rest
from slotflow.network.zoom.analysis import Analysis
from slotflow.network.zoom.model import ZoomSlotFlow

READING, NETWORK, FITS = "reading, moving and a first look", "network", "fits"
DRAWS, NEIGHBOURS = "proposals, draws and weights", "evidences of the neighbours"
TESTS, HANDED = "residual tests and verdicts", "draws and tables handed out"
ALONE, REST = "signals that batches leave, one by one", "the rest"
Stages = Mapping[str, tuple[tuple[Any, str], ...]]
STAGES: Stages = {
    READING: (
        (together, "_groups"),
        (together, "named_case"),
        (together.Alike, "series"),
        (together, "needs_no_look"),
        (together, "unremarkable"),
    ),
    NETWORK: ((ZoomSlotFlow, "infer_arrays"), (Analysis, "slots_of")),
    FITS: ((group, "fitted"),),
    DRAWS: (
        (answers, "Numbers"),
        (group, "Levels"),
        (group, "near"),
        (group, "bent_batch"),
        (group, "draw"),
        (group, "_alone"),
    ),
    NEIGHBOURS: ((group, "_evidences"), (group, "one_more")),
    TESTS: ((group, "screen"), (group, "steady")),
    HANDED: ((group, "_group"), (answers, "ExactPosteriors")),
    ALONE: ((Rest, "posteriors"),),
}
"""Stages, and the functions that do the work of each: where they are looked up, and their names."""


class StageClock:
    """Seconds of each stage.

    Args:
        now: Gives the time, once all work is done.
        stages: Stages and their functions, as `STAGES`.
    """

    def __init__(self, now: Callable[[], float], stages: Stages = STAGES) -> None:
        self.now, self.stages = now, stages
        self.seconds = dict.fromkeys([*stages, REST], 0.0)
        self._process = os.getpid()
        """Copies of this process, which must not touch a GPU, count nothing."""
        self._open: list[str] = []
        self._since = 0.0

    def _change(self) -> None:
        """Counts what has passed for the stage that was under way."""
        now = self.now()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts a block for a stage, but for what others count within it."""
        if ALONE in self._open or os.getpid() != self._process:
            yield
            return
        self._change()
        self._open.append(name)
        try:
            yield
        finally:
            self._change()
            self._open.pop()

    def _watched(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A function that counts for a stage; a generator is run to its end."""

        @functools.wraps(plain, updated=())
        def call(*args: Any, **options: Any) -> Any:
            with self.stage(name):
                found = plain(*args, **options)
                return list(found) if isinstance(found, Iterator) else found

        return call

    @contextmanager
    def watching(self) -> Iterator[StageClock]:
        """Counts all stages of a block; what belongs to none is the rest. Chunks then come one after the other."""
        places = [(name, owner, word) for name, some in self.stages.items() for owner, word in some]
        plain = [getattr(owner, word) for _, owner, word in places]
        at_a_time = dict(answers.CHUNKS_AT_A_TIME)
        try:
            answers.CHUNKS_AT_A_TIME.clear()
            for (name, owner, word), function in zip(places, plain, strict=True):
                setattr(owner, word, self._watched(name, function))
            with self.stage(REST):
                yield self
        finally:
            answers.CHUNKS_AT_A_TIME.update(at_a_time)
            for (_, owner, word), function in zip(places, plain, strict=True):
                setattr(owner, word, function)

    @property
    def shares(self) -> dict[str, float]:
        """Of all seconds."""
        total = sum(self.seconds.values())
        return {name: value / total for name, value in self.seconds.items()}
