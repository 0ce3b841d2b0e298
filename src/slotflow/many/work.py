"""The work on every signal, as something that another process can be handed."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from slotflow.core.threads import threads
from slotflow.data.read.formats import file_name as shown_name
from slotflow.data.read.options import ReadOptions
from slotflow.infer.call import DEFAULT_SECONDS
from slotflow.infer.exact_arrays import FEWEST_SIGNALS
from slotflow.infer.run import asked
from slotflow.infer.statement import Statement
from slotflow.many.answers import Reader, answers
from slotflow.many.budget import Budget
from slotflow.many.job import FAILURES, Job, debug
from slotflow.many.plan import Answer, Chunk
from slotflow.many.results import Writer, found_in, result_record
from slotflow.network.cards import content_hash
from slotflow.network.model import SlotFlow

__all__ = ["FEW_SIGNALS", "Desk", "Work", "seconds_within"]

FEW_SIGNALS = 20
"""Signals of which records tell all that may be shown."""


SOFT_SHARE = 0.8
"""Share of a time limit after which the exact step ends by itself, so that a slow signal still has an answer."""


def seconds_within(timeout: float | None) -> float | None:
    """The time budget of the exact step under a time limit; None where its own budget fits into the limit."""
    if timeout is None or SOFT_SHARE * timeout >= DEFAULT_SECONDS:
        return None
    return SOFT_SHARE * timeout


@dataclass(frozen=True)
class Work:
    """What is asked of every signal, and what is written of it: plain values, which can be pickled."""

    writer: Writer
    """Writes the files of each signal."""
    stated: Statement = field(default_factory=Statement)
    """What is stated of the prior."""
    method: str = "exact"
    options: dict[str, Any] = field(default_factory=dict)
    """Further keywords of `SlotFlow.infer`."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    """How files are read."""
    model: str | Path | None = None
    """Name or file of the network; None for the default one."""
    device: str | None = None
    """Where the network computes."""
    full: bool = False
    """Whether records tell all that may be shown of a single signal."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Whatever else shapes a result, as plain values."""
    asked: dict[str, object] = field(default_factory=dict)
    """Settings that a report tells."""
    folder: Path | None = None
    """The folder that relative paths begin in, for processes elsewhere."""

    def pickled(self) -> bytes:
        """The same for another process, which begins in this folder."""
        return pickle.dumps(replace(self, folder=Path.cwd()))

    def network(self) -> SlotFlow:
        """The network, loaded."""
        return SlotFlow.from_pretrained(self.model, device=self.device)

    def job(self, network: SlotFlow, budget: Budget | None = None) -> Job:
        """The question to a network that is loaded; one that cannot be asked of any signal is refused."""
        asked(network, self.method, self.stated, **self.options)
        weights = content_hash(network.state_dict(), {"name": network.config.name})
        company = sum(self.writer.counts.values())
        facts = self.facts | {"samples": self.writer.samples, "full": self.full}
        facts["in_batches"] = company >= FEWEST_SIGNALS
        return Job(
            network,
            self.stated,
            self.method,
            self.options,
            weights,
            facts,
            budget,
            partial(found_in, writer=self.writer),
            company,
        )

    def desk(self, network: SlotFlow | None = None, budget: Budget | None = None) -> Desk:
        """Someone who does the work in this process."""
        return Desk(self, self.job(self.network() if network is None else network, budget))


class Desk:
    """Answers chunk after chunk in this process, and makes and writes the results.

    Args:
        work: What is asked and written.
        job: The question to the loaded network.
    """

    def __init__(self, work: Work, job: Job) -> None:
        self.work, self.job = work, job
        self.reader = Reader(work.reading)

    def answers(
        self,
        chunk: Chunk,
        known: Mapping[int, str],
        skip: Collection[int] = (),
        begin: Callable[[int], None] = lambda place: None,
    ) -> Iterator[Answer]:
        """The answers of a chunk with their records, files written; the arguments are those of `answers`."""
        for answer in answers(self.job, self.reader, chunk, known, skip, begin):
            yield answer if answer.found is None else self._recorded(answer)

    def _recorded(self, answer: Answer) -> Answer:
        """The result as plain values, or why there is none; as after any other step, the rest goes on."""
        try:
            with threads(self.job.options.get("threads")):
                record = result_record(answer, self.work.writer, self.work.full, self.work.asked)
        except FAILURES as failure:
            debug(failure)
            error = f"{shown_name(answer.file)}: {failure}"
            return replace(answer, found=None, error=error)
        return replace(answer, found=None, record=record)

    def close(self) -> None:
        """Closes what is open."""
        self.reader.close()
