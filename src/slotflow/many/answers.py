"""Answers to the signals of a chunk: read, answered in one batch; a bad signal is listed and the rest go on."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.stages import tell
from slotflow.core.store import identity
from slotflow.data.observation import Observation
from slotflow.data.read.formats import file_name as shown_name
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import Signals, open_signals
from slotflow.infer.in_turn import posteriors_in_turn
from slotflow.infer.statement import Statement
from slotflow.many.budget import Budget
from slotflow.many.found import Found
from slotflow.many.plan import Answer, Chunk, Piece
from slotflow.network.model import SlotFlow
from slotflow.posterior.many import Posteriors

__all__ = ["FAILURES", "Job", "Reader", "answers", "content_of", "debug"]

FAILURES = (ValueError, OSError, ArithmeticError, RuntimeError, np.linalg.LinAlgError)
"""What a bad signal may raise; anything else is a fault of the program."""

GATHERED = 32
"""Answers of the network to single signals whose tables are made together."""

Batch = list[tuple[Answer, Observation]]


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
    found: Callable[[Posteriors], Sequence[Found]] = lambda posts: [Found.of(post) for post in posts]
    """What was found of signals that were answered together."""
    company: int = 1
    """How many signals are asked about in all."""

    def identity(self, observation: Observation | None = None) -> str:
        """What the result of a signal is known by; what all results have in common if there is no signal."""
        divided = ("threads", "max_seconds")  # a machine's share, which the facts do without
        shaping = {name: value for name, value in self.options.items() if name not in divided}
        settings = {"stated": dataclasses.asdict(self.stated), "method": self.method} | self.facts
        return identity(
            settings=settings | {"options": shaping},
            weights=self.weights,
            inputs="" if observation is None else content_of(observation),
        )

    def infer(
        self,
        batch: list[Observation],
        skip: Collection[int] = (),
        begin: Callable[[int], None] = lambda i: None,
    ) -> Iterator[Found]:
        """What is found of the signals of a batch, in their order.

        What batches decide is there at once. The exact step answers the others in their turn; the network's answers to
        them are gathered, a few at a time, for the sake of their tables.

        Args:
            batch: The signals.
            skip: Positions of those that only keep the others company.
            begin: Called with the position of a signal when work on it alone begins.
        """
        tell("inference")
        time = {} if self.budget is None else {"max_seconds": self.budget.of_each()}
        asked: dict[str, Any] = {"prior": self.stated, "method": self.method, "processes": 0}
        asked |= self.options | time
        answers = posteriors_in_turn(
            self.network, batch, skip=skip, company=self.company, **asked
        )
        found = dict(zip(answers.places.tolist(), self.found(answers.decided), strict=True))
        waiting = deque(answers.left)
        for i in range(len(batch)):
            if i in skip:
                continue
            if i not in found:
                lot = [waiting.popleft() for _ in range(min(self._lot, len(waiting)))]
                posts = []
                for one in lot:
                    begin(one)
                    posts.append(next(answers.others))
                single = self.found(Posteriors(posts)) if self._lot > 1 else map(Found.of, posts)
                found |= zip(lot, single, strict=True)
            yield found.pop(i)

    @property
    def _lot(self) -> int:
        """How many signals that are answered alone are gathered before the first is handed out."""
        return GATHERED if self.method == "network" else 1

    def answered(self, signals: int = 1) -> None:
        """Counts signals that have their answers, or will have none."""
        if self.budget is not None:
            self.budget.spend(signals)


class Reader:
    """Reads the signals of chunks; the file of the last one stays open for the next.

    Args:
        options: How files are read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._stack = ExitStack()
        self._open: tuple[Path, Signals] | None = None

    def read(self, chunk: Chunk) -> Iterator[tuple[Answer, Observation | None]]:
        """The signals of a chunk; None beside the answer for what cannot be asked."""
        if chunk.observations is not None:
            for place, one in zip(chunk.places, chunk.observations, strict=True):
                yield _asked(chunk.answer(place), one)
            return
        tell("reading")
        for piece in chunk.pieces:
            try:
                yield from self._piece(chunk, piece)
            except FAILURES as error:
                debug(error)
                self.close()
                failed = Answer(piece.file, -1, piece.count, place=piece.place, error=str(error))
                yield failed, None

    def _piece(self, chunk: Chunk, piece: Piece) -> Iterator[tuple[Answer, Observation | None]]:
        """The signals of a part of a file."""
        source = self._signals(piece.file)
        if piece.first >= source.count:
            raise ValueError(
                f"{shown_name(piece.file)} holds {source.count} signal(s), received --signal {piece.first}; count from "
                "0."
            )
        found = source.read(piece.first, piece.first + piece.count)
        for place, one in enumerate(found, piece.place):
            answer = dataclasses.replace(chunk.answer(place), in_file=source.count)
            yield _asked(answer, one)

    def with_signals(self, chunk: Chunk) -> Chunk:
        """The same chunk with its signals, for someone who does not see the files."""
        found: list[Observation | ValueError] = []
        for answer, one in self.read(chunk):
            found += answer.count * [ValueError(answer.error) if one is None else one]
        return dataclasses.replace(chunk, observations=tuple(found))

    def _signals(self, file: Path) -> Signals:
        """The signals of a file, opened if it is not the last one."""
        if self._open is None or self._open[0] != file:
            self.close()
            signals = self._stack.enter_context(open_signals(file, self.options))
            signals.room = 0  # nothing is read twice
            self._open = file, signals
        return self._open[1]

    def close(self) -> None:
        """Closes the file."""
        self._open = None
        self._stack.close()


def _asked(answer: Answer, one: Observation | ValueError) -> tuple[Answer, Observation | None]:
    """A signal and its empty answer; None beside the reason for one that cannot be used."""
    if isinstance(one, ValueError):
        return dataclasses.replace(answer, error=str(one)), None
    return answer, one


def answers(
    job: Job,
    reader: Reader,
    chunk: Chunk,
    known: Mapping[int, str],
    skip: Collection[int] = (),
    begin: Callable[[int], None] = lambda place: None,
) -> Iterator[Answer]:
    """Answers the signals of a chunk, in their order.

    Args:
        job: What to ask.
        reader: Of the files.
        chunk: The signals.
        known: Identities of results that an earlier run has, by place; a signal of the same identity is not analysed.
        skip: Places of signals that are not asked for, and keep the others company.
        begin: Called with the place of a signal when work on it alone begins.
    """
    ready: deque[Answer] = deque()
    batch: Batch = []
    skipped: set[int] = set()
    for answer, observation in reader.read(chunk):
        if observation is None:
            if answer.place not in skip:
                ready.append(answer)
            continue
        answer = dataclasses.replace(answer, key=job.identity(observation))
        if answer.place in skip:
            skipped.add(len(batch))
        elif known.get(answer.place) == answer.key:
            skipped.add(len(batch))
            ready.append(dataclasses.replace(answer, same=True))
        batch.append((answer, observation))
    job.answered(sum(answer.count for answer in ready))
    wanted = [i for i in range(len(batch)) if i not in skipped]
    found = _batch(job, batch, skipped, begin) if wanted else iter(())
    for i in wanted:
        while ready and ready[0].place < batch[i][0].place:
            yield ready.popleft()
        yield next(found)
    yield from ready


def _batch(
    job: Job, batch: Batch, skip: Collection[int], begin: Callable[[int], None]
) -> Iterator[Answer]:
    """The answers of a batch of signals, some of which are skipped; if it fails, each signal alone."""
    wanted = [i for i in range(len(batch)) if i not in skip]
    observations = [observation for _, observation in batch]
    done = 0
    try:
        for found in _quietly(job.infer(observations, skip, lambda i: begin(batch[i][0].place))):
            job.answered()
            yield dataclasses.replace(batch[wanted[done]][0], found=found)
            done += 1
    except FAILURES as error:
        if len(batch) == 1:
            debug(error)
            answer = batch[0][0]
            job.answered()
            yield dataclasses.replace(answer, error=f"{shown_name(answer.file)}: {error}")
            return
        for i in wanted[done:]:
            begin(batch[i][0].place)
            yield from _batch(job, [batch[i]], (), begin)


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


def _quietly(found: Iterator[Found]) -> Iterator[Found]:
    """The same without the library's warning of an offset, which the record of every signal holds."""
    while True:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the long stream has a mean of")
            one = next(found, None)
        if one is None:
            return
        yield one


def debug(error: BaseException) -> None:
    """Raises an error that SLOTFLOW_DEBUG=1 asks to see whole."""
    if os.environ.get("SLOTFLOW_DEBUG") == "1":
        raise error
