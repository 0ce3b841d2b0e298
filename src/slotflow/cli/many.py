"""Answers to any number of signals: read in chunks, answered in batches; a bad signal is listed and the rest go on."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.cli.budget import Budget
from slotflow.cli.data import shown_name
from slotflow.core.stages import tell
from slotflow.core.store import Record, identity
from slotflow.data.observation import Observation
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import SIGNALS_AT_ONCE, count_signals, open_signals
from slotflow.infer.run import posteriors
from slotflow.infer.statement import Statement
from slotflow.network.model import SlotFlow
from slotflow.posterior.posterior import Posterior

__all__ = ["CHUNK", "FAILURES", "Answer", "Job", "Sources", "answers", "content_of", "debug"]

CHUNK = SIGNALS_AT_ONCE
"""Signals that are read and go through the network together."""
FAILURES = (ValueError, OSError, ArithmeticError, RuntimeError, np.linalg.LinAlgError)
"""What a bad signal may raise; anything else is a fault of the program."""


@dataclass(frozen=True)
class Answer:
    """What became of one signal."""

    file: Path
    signal: int
    """Its number in the file; −1 for a file that could not be read."""
    count: int = 1
    """How many signals it stands for."""
    in_file: int = 1
    """How many signals its file holds."""
    key: str = ""
    """Identity of input and settings."""
    post: Posterior | None = None
    """The posterior; None if it failed or was done before."""
    record: Record | None = None
    """The result of an earlier run."""
    error: str = ""
    """Why it failed."""


@dataclass(frozen=True)
class Job:
    """The question that is asked of every signal."""

    network: SlotFlow
    stated: Statement
    """What flags and prior file state of the prior."""
    method: str
    options: dict[str, Any]
    """Further keywords of `SlotFlow.infer`."""
    weights: str
    """Hash of the network's weights."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Whatever else shapes a result, as plain values."""
    budget: Budget | None = None
    """The time that is left; None where nothing was stated."""

    def identity(self, observation: Observation) -> str:
        """What the result of a signal is known by."""
        shaping = {name: value for name, value in self.options.items() if name != "threads"}
        settings = {"stated": dataclasses.asdict(self.stated), "method": self.method} | self.facts
        return identity(
            settings=settings | {"options": shaping},
            weights=self.weights,
            inputs=content_of(observation),
        )

    def infer(self, batch: list[Observation]) -> Iterator[Posterior]:
        """The posteriors of a batch, one after another."""
        tell("inference")
        time = {} if self.budget is None else {"max_seconds": self.budget.of_each()}
        return posteriors(
            self.network,
            batch,
            prior=self.stated,
            method=self.method,
            batch_size=CHUNK,
            **self.options | time,
        )

    def answered(self) -> None:
        """Counts a signal that has its answer, or will have none."""
        if self.budget is not None:
            self.budget.spend()


@dataclass(frozen=True)
class Sources:
    """The files, how they are read, and which of their signals are asked for."""

    files: list[Path]
    options: ReadOptions
    signal: int | None = None
    """The one signal of each file that is analysed; None: all of them."""

    def count(self, file: Path) -> int:
        """How many signals of a file are analysed; one if it cannot be read."""
        return 1 if self.signal is not None else count_signals(file, self.options)


def answers(
    job: Job, sources: Sources, finished: Callable[[Path, int, str], Record | None]
) -> Iterator[Answer]:
    """Answers all signals of all files, in their order; never more than a chunk of them is in memory.

    Args:
        job: What to ask.
        sources: Where the signals are.
        finished: The earlier result of a signal of a file (its number) with an identity, or None.
    """
    waiting: list[tuple[Answer, Observation]] = []
    for file in sources.files:
        for answer, observation in _signals(sources, file):
            ready = answer if observation is None else None
            if observation is not None:
                answer = dataclasses.replace(answer, key=job.identity(observation))
                if (record := finished(file, answer.signal, answer.key)) is not None:
                    ready = dataclasses.replace(answer, record=record)
            if ready is not None or len(waiting) == CHUNK:
                yield from _flush(job, waiting)
                waiting = []
            if ready is not None:
                job.answered()
                yield ready
            elif observation is not None:
                waiting.append((answer, observation))
    yield from _flush(job, waiting)


def _signals(sources: Sources, file: Path) -> Iterator[tuple[Answer, Observation | None]]:
    """The signals of a file; None beside the answer for what cannot be asked."""
    done = 0
    tell("reading")
    try:
        with open_signals(file, sources.options) as source:
            first, last = 0, source.count
            if sources.signal is not None:
                first, last = sources.signal, sources.signal + 1
                if first >= source.count:
                    raise ValueError(
                        f"{shown_name(file)} holds {source.count} signal(s), received --signal {first}; count from 0."
                    )
            for start in range(first, last, CHUNK):
                found = source.read(start, min(start + CHUNK, last))
                for index, one in enumerate(found, start):
                    if isinstance(one, ValueError):
                        yield Answer(file, index, in_file=source.count, error=str(one)), None
                    else:
                        yield Answer(file, index, in_file=source.count), one
                    done += 1
    except FAILURES as error:
        debug(error)
        yield Answer(file, -1, max(1, sources.count(file) - done), error=str(error)), None


def content_of(observation: Observation) -> str:
    """Hash of the samples, the sampling and what is known of a signal, 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for channel in observation.channels:
        names = ("n", "dt", "t0", "sigma", "t_ref", "unit", "filled", "notes", "gain", "trend")
        facts = tuple(getattr(channel, name) for name in names)
        digest.update(repr(facts).encode())
        digest.update(channel.values.tobytes())
        if not channel.is_even:
            digest.update(channel.times.tobytes())
        for array in (channel.errors, channel.segments):
            digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()


def _flush(job: Job, batch: list[tuple[Answer, Observation]]) -> Iterator[Answer]:
    """The answers of a batch of signals; if it fails, each signal alone."""
    if not batch:
        return
    done = 0
    try:
        for post in _quietly(job.infer([observation for _, observation in batch])):
            job.answered()
            yield dataclasses.replace(batch[done][0], post=post)
            done += 1
    except FAILURES as error:
        if len(batch) == 1:
            debug(error)
            answer = batch[0][0]
            job.answered()
            yield dataclasses.replace(answer, error=f"{shown_name(answer.file)}: {error}")
            return
        for one in batch[done:]:
            yield from _flush(job, [one])


def _quietly(posts: Iterator[Posterior]) -> Iterator[Posterior]:
    """The same without the library's warning of an offset: the command says it of every signal, with its own advice."""
    while True:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the long stream has a mean of")
            post = next(posts, None)
        if post is None:
            return
        yield post


def debug(error: BaseException) -> None:
    """Raises an error that SLOTFLOW_DEBUG=1 asks to see whole."""
    if os.environ.get("SLOTFLOW_DEBUG") == "1":
        raise error
