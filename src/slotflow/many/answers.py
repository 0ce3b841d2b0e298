"""Answers to the signals of a chunk: read, answered in one batch; a bad signal is listed and the rest go on."""

from __future__ import annotations

import dataclasses
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from slotflow.core.stages import tell
from slotflow.data.observation import Observation
from slotflow.data.read.formats import file_name as shown_name
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import Signals, open_signals
from slotflow.many.found import Found
from slotflow.many.job import FAILURES, Job, debug
from slotflow.many.plan import Answer, Chunk, Piece

__all__ = ["Reader", "answers"]

Batch = list[tuple[Answer, Observation]]


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
    """The answers of a batch of signals, some of which are skipped; if it fails, each signal alone.

    A signal that fails alone too, in the way of batches, is asked about once more in that of a single signal.
    """
    wanted = [i for i in range(len(batch)) if i not in skip]
    observations = [observation for _, observation in batch]
    done = 0
    try:
        for found in _quietly(job.infer(observations, skip, lambda i: begin(batch[i][0].place))):
            job.answered()
            answer = batch[wanted[done]][0]
            if isinstance(found, Exception):
                yield _failed(answer, found)
            else:
                yield dataclasses.replace(answer, found=found)
            done += 1
    except FAILURES as error:
        if len(batch) == 1 and (job.company == 1 or job.method != "exact"):
            job.answered()
            yield _failed(batch[0][0], error)
            return
        alone = job if len(batch) > 1 else dataclasses.replace(job, company=1)
        for i in wanted[done:]:
            begin(batch[i][0].place)
            yield from _batch(alone, [batch[i]], (), begin)


def _failed(answer: Answer, error: Exception) -> Answer:
    """The answer of a signal that could not be analysed."""
    debug(error)
    return dataclasses.replace(answer, error=f"{shown_name(answer.file)}: {error}")


def _quietly(found: Iterator[Found | Exception]) -> Iterator[Found | Exception]:
    """The same without the library's warning of an offset, which the record of every signal holds."""
    while True:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the long stream has a mean of")
            one = next(found, None)
        if one is None:
            return
        yield one
