"""A run over many signals: chunk after chunk, here, in a process of its own or on a cluster, with one ledger.

Each result is kept in the ledger when it comes; with a supervised process or a cluster all results of a chunk are
committed together. A chunk is written down before it is begun. If it was begun `MOST_LOST` times and never came to an
end, because the whole run was lost each time, its signals are analysed in a process of their own, one by one, and each
is written down before its turn. A signal that loses the run `MOST_TRIES` times is given up.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from slotflow.core.store import Record
from slotflow.data.read.formats import file_name as shown_name
from slotflow.many.ledger import Ledger
from slotflow.many.messages import Task
from slotflow.many.plan import Answer, Chunk, Plan
from slotflow.many.supervise import MOST_TRIES, Supervised
from slotflow.many.tables import check_parquet, write_table, write_tables
from slotflow.many.work import Desk, Work

__all__ = ["Cluster", "Run", "write_run"]

MOST_LOST = 3
"""How often a chunk may be begun and lost before its signals are analysed one by one."""


class Cluster(Protocol):
    """Something that answers tasks on other machines."""

    def answers(self, tasks: Iterator[Task]) -> Iterator[tuple[Chunk, list[Answer]]]:
        """Chunks with all of their answers, as they are ready."""


@dataclass
class Run:
    """One run.

    Args:
        work: What is asked and written.
        plan: Of which signals.
        desk: Does the work in this process, where nobody else does.
        ledger: Of the folder of results; None if nothing is kept.
        out: The folder of results.
        supervised: Whether the work is done in a process of its own.
        timeout: Seconds that one signal may take in such a process.
        cluster: Who does the work instead.
        scatter: Whether the cluster is sent the signals instead of the names of their files.
        parquet: Whether the catalogue is written as a Parquet file too.
    """

    work: Work
    plan: Plan
    desk: Desk
    ledger: Ledger | None = None
    out: Path | None = None
    supervised: bool = False
    timeout: float | None = None
    cluster: Cluster | None = None
    scatter: bool = False
    parquet: bool = False

    def __post_init__(self) -> None:
        if self.parquet:
            check_parquet()  # before hours of work, not after them
        self.question = self.desk.job.identity()
        self.computed = 0
        """Signals that this run has analysed."""
        self.failed: list[tuple[int, Record]] = []
        """Place and entry of each failure."""
        self._process = Supervised(self.work.pickled(), self.timeout)
        if self.ledger is not None:
            self.ledger.describe(self._facts())

    def answers(self) -> Generator[Answer, None, None]:
        """The answers of all signals, with their records, as they are ready: in order, but on a cluster."""
        try:
            if self.cluster is not None:
                yield from self._elsewhere(self.cluster)
            else:
                for chunk in self.plan.chunks():
                    yield from self._here(chunk)
        finally:
            self._process.close()
            self.desk.close()

    def failures(self) -> list[Record]:
        """File, signal and error of each signal that failed, in the order of the signals."""
        return [entry for _, entry in sorted(self.failed, key=lambda pair: pair[0])]

    def tables(self) -> dict[str, str]:
        """Writes the tables of what is done so far, and says where they are."""
        if self.ledger is None or self.out is None:
            return {}
        return write_run(self.ledger, self.out, self.failures(), self.parquet)

    # ------------------------------------------------------------------ one chunk

    def _task(self, chunk: Chunk) -> tuple[Task, list[Answer]]:
        """What is left to do of a chunk, and the answers of signals that are not tried again."""
        if self.ledger is None:
            return Task(chunk), []
        empty = {place: chunk.answer(place) for place in chunk.places}
        given_up = []
        for answer in empty.values():
            if error := self.ledger.given_up(answer.name, self._identity(answer)):
                given_up.append(dataclasses.replace(answer, error=error, final=True))
        names = self.ledger.known(answer.name for answer in empty.values())
        written = self.work.writer.written
        known = {
            place: names[answer.name]
            for place, answer in empty.items()
            if answer.name in names and written(answer.file, answer.signal)
        }
        return Task(chunk, known, frozenset(answer.place for answer in given_up)), given_up

    def _here(self, chunk: Chunk) -> Iterator[Answer]:
        """The answers of a chunk, by this process or by one of its own."""
        task, given_up = self._task(chunk)
        for answer in given_up:
            yield self._kept(answer)
        name = f"signals {chunk.places.start} to {chunk.places.stop - 1}"
        lost = 0 if self.ledger is None else self.ledger.begin(name, self.question)
        try:
            if lost >= MOST_LOST:
                found = self._one_by_one(task)
            elif self.supervised:
                found = self._process.answers(task)
            else:
                found = self.desk.answers(chunk, task.known, task.skip)
            for answer in found:
                yield self._kept(answer)
        finally:  # an error or Ctrl-C is no loss of the process
            if self.ledger is not None:
                self.ledger.end(name)
                if self.supervised:
                    self.ledger.commit()

    def _one_by_one(self, task: Task) -> Iterator[Answer]:
        """The answers of a chunk that the run was lost with, each signal written down before its turn."""
        ledger, chunk = self.ledger, task.chunk
        assert ledger is not None
        for place in task.asked:
            answer = chunk.answer(place)
            lost = ledger.begin(answer.name, self.question)
            try:
                if lost >= MOST_TRIES:
                    error = f"{shown_name(answer.file)}: the run was lost {lost} times while it was analysed"
                    yield dataclasses.replace(answer, error=error, final=True)
                else:
                    alone = Task(chunk.alone(place), task.known, alone=True)
                    yield from self._process.answers(alone)
            finally:  # only a run that is killed leaves its try behind
                ledger.end(answer.name)

    def _elsewhere(self, cluster: Cluster) -> Iterator[Answer]:
        """The answers of all chunks by a cluster."""
        given_up: list[Answer] = []

        def tasks() -> Iterator[Task]:
            for chunk in self.plan.chunks():
                task, hopeless = self._task(chunk)
                given_up.extend(hopeless)
                if task.asked and self.scatter:
                    task = dataclasses.replace(task, chunk=self.desk.reader.with_signals(chunk))
                if task.asked:
                    yield task

        for _, found in cluster.answers(tasks()):
            kept = [self._kept(answer) for answer in found]
            if self.ledger is not None:
                self.ledger.commit()
            yield from kept
        yield from map(self._kept, given_up)

    # ------------------------------------------------------------------ the ledger

    def _kept(self, answer: Answer) -> Answer:
        """Keeps an answer in the ledger; one of an earlier run comes back with its record."""
        ledger = self.ledger
        if answer.same:
            assert ledger is not None
            record = ledger.get(answer.name, answer.key, answer.place)
            answer = dataclasses.replace(answer, record=record)
        elif answer.record is not None:
            self.computed += 1
            if ledger is not None:
                ledger.put(answer.name, answer.key, answer.record, answer.place)
        if answer.record is None:
            self.failed.append((answer.place, answer.failure))
            if ledger is not None:
                ledger.fail(answer, self._identity(answer))
        elif ledger is not None:
            ledger.forgive(answer.name)
        return answer

    def _identity(self, answer: Answer) -> str:
        """What must be the same for a signal not to be tried again: question, file and time limit."""
        try:
            stat = answer.file.stat()
            state = (stat.st_size, stat.st_mtime_ns)
        except OSError:
            state = (0, 0)
        text = repr((self.question, state, self.timeout))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _facts(self) -> dict[str, Any]:
        """What `merge` must know of the run."""
        plan, shard = self.plan, self.plan.shard
        return {
            "question": self.question,
            "files": [str(file) for file in plan.files],
            "total": plan.total,
            "chunk": plan.size,
            "shard": None if shard is None else [shard.number, shard.of],
            "places": [plan.places.start, plan.places.stop],
        }


def write_run(
    ledger: Ledger, out: Path, failed: list[Record], parquet: bool = False
) -> dict[str, str]:
    """Writes the tables of a folder of results, and says where they are.

    Args:
        ledger: With the results of the run.
        out: The folder.
        failed: Entries of the list of failures.
        parquet: Whether to write catalogue.parquet too.
    """
    tables = write_tables(ledger, out, parquet)
    listed = out / "failed.csv"
    if failed:
        tables["failed"] = str(listed)
        write_table(listed, failed)
    else:
        listed.unlink(missing_ok=True)
    return tables
