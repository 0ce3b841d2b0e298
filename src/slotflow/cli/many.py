"""Answers to any number of signals: read in chunks, answered in batches, a bad one listed and the rest gone on with."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.bands.windows import is_crowded, is_wide
from slotflow.cli.assumed import (
    assumed_prior,
    assumed_record,
    proposed_band,
    start_band,
    untrained,
)
from slotflow.cli.data import shown_name
from slotflow.core.store import identity
from slotflow.data.observation import Observation
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import SIGNALS_AT_ONCE, Signals, count_signals, open_signals
from slotflow.network.model import SlotFlow
from slotflow.network.options import KPrior
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["CHUNK", "FAILURES", "Answer", "Job", "answers", "content_of", "debug"]

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
    key: str = ""
    """Identity of input and settings."""
    prior: Prior | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """What was assumed."""
    post: Posterior | None = None
    """The posterior; None if it failed or was done before."""
    record: dict[str, Any] | None = None
    """The result of an earlier run."""
    error: str = ""
    """Why it failed."""


@dataclass(frozen=True)
class Job:
    """The question that is asked of every signal."""

    network: SlotFlow
    stated: dict[str, Any]
    """Fields of the prior that flags and prior file state; None where not."""
    k_prior: dict[int, float] | None
    f_lo: float | None
    refine: bool
    max_seconds: float
    samples: int
    seed: int
    threads: int | None
    weights: str
    """Hash of the model."""
    full: bool
    """Whether results hold everything that may be shown."""

    @property
    def limited(self) -> bool:
        """Whether the user has said how many components there may be; else windows may find more."""
        bounds = (self.stated.get("k_min"), self.stated.get("k_max"))
        return self.k_prior is not None or bounds != (None, None)

    def assume(self, source: Signals) -> tuple[Prior, dict[str, Any]]:
        """The prior for a file's signals and what was assumed; of signals that cannot be read nothing is taken."""
        first = next(iter(source), None)
        if first is None:
            return self.network.config.prior, {}  # there is nothing to answer
        stated, proposed = self.stated, None
        if self.f_lo is not None:
            stated = stated | {"frequency": start_band(self.network, first, self.f_lo)}
        given = stated
        if stated["frequency"] is None:
            proposed = proposed_band(self.network, source)
            given = stated if proposed is None else stated | {"frequency": proposed.edges}
        prior = assumed_prior(self.network, source, given, self.k_prior)
        facts = assumed_record(first, prior, self.network.config.prior, stated, proposed)
        return prior, facts | {
            "in_windows": is_wide(self.network, first, prior),
            "warnings": untrained(self.network, first, prior),
        }

    def settings(self, prior: Prior) -> dict[str, Any]:
        """Everything that shapes an answer beside the signal."""
        return {
            "prior": dataclasses.asdict(prior),
            "k_prior": self.k_prior,
            "limited": self.limited,
            "refine": self.refine,
            "max_seconds": self.max_seconds if self.refine else None,
            "samples": self.samples,
            "seed": self.seed,
            "full": self.full,
        }

    def infer(self, batch: list[Observation], prior: Prior) -> Iterator[Posterior]:
        """The posteriors of a batch, one after another."""
        k_prior: KPrior | None = self.k_prior
        options: dict[str, Any] = {
            "refine": self.refine,
            "k_prior": k_prior,
            "max_seconds": self.max_seconds,
            "seed": self.seed,
            "threads": self.threads,
        }
        if is_wide(self.network, batch[0], prior):
            for obs in batch:
                yield self.network.infer_band(obs, prior, **options)
            return
        posts = self.network.infer_each(batch, prior=prior, batch_size=CHUNK, **options)
        for obs, post in zip(batch, posts, strict=True):
            if not self.limited and is_crowded(self.network, post, prior):
                with suppress(ValueError):  # what windows refuse stays the misfit that it is
                    post = self.network.infer_band(obs, prior, **options)
            yield post


@dataclass(frozen=True)
class _Asked:
    """A signal that waits for its batch."""

    answer: Answer
    prior: Prior
    observation: Observation


def answers(
    job: Job,
    how: ReadOptions,
    files: list[Path],
    finished: Callable[[Path, int, str], dict[str, Any] | None],
) -> Iterator[Answer]:
    """Answers all signals of all files, in their order; never more than a chunk of them is in memory.

    Args:
        job: What to ask.
        how: How to read the files.
        files: The files.
        finished: The earlier result of a signal of a file (its number) with an identity, or None.
    """
    waiting: list[_Asked] = []
    for file in files:
        for found in _signals(job, how, file):
            ready = found if isinstance(found, Answer) else None
            if isinstance(found, _Asked):
                key = identity(
                    settings=job.settings(found.prior),
                    weights=job.weights,
                    inputs=content_of(found.observation),
                )
                found = dataclasses.replace(
                    found, answer=dataclasses.replace(found.answer, key=key)
                )
                if (record := finished(file, found.answer.signal, key)) is not None:
                    ready = dataclasses.replace(found.answer, record=record)
            last = isinstance(found, _Asked) and bool(waiting) and found.prior != waiting[0].prior
            if ready is not None or last or len(waiting) == CHUNK:
                yield from _flush(job, waiting)
                waiting = []
            if ready is not None:
                yield ready
            elif isinstance(found, _Asked):
                waiting.append(found)
    yield from _flush(job, waiting)


def _signals(job: Job, how: ReadOptions, file: Path) -> Iterator[_Asked | Answer]:
    """The signals of a file, and an answer for what cannot be asked."""
    done = 0
    try:
        with open_signals(file, how) as source:
            count = source.count
            try:
                prior, facts = job.assume(source)
            except ValueError as error:
                raise ValueError(f"{shown_name(file)}: {error}") from error
            for first in range(0, count, CHUNK):
                for index, one in enumerate(source.read(first, first + CHUNK), first):
                    if isinstance(one, ValueError):
                        yield Answer(file, index, error=str(one))
                    else:
                        yield _Asked(Answer(file, index, 1, "", prior, facts), prior, one)
                    done += 1
    except FAILURES as error:
        debug(error)
        yield Answer(file, -1, max(1, count_signals(file, how) - done), error=str(error))


def content_of(observation: Observation) -> str:
    """Hash of the samples, the sampling and what is known of a signal, 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for s in observation.channels:
        facts = (s.n, s.dt, s.t0, s.sigma, s.t_ref, s.unit, s.filled, s.notes)
        digest.update(repr(facts).encode())
        digest.update(s.values.tobytes())
    return digest.hexdigest()


def _flush(job: Job, batch: list[_Asked]) -> Iterator[Answer]:
    """The answers of a batch of signals under one prior; if it fails, each signal alone."""
    if not batch:
        return
    done, prior = 0, batch[0].prior
    try:
        for post in _quietly(job.infer([asked.observation for asked in batch], prior)):
            yield dataclasses.replace(batch[done].answer, post=post)
            done += 1
    except FAILURES as error:
        if len(batch) == 1:
            debug(error)
            name = shown_name(batch[0].answer.file)
            yield dataclasses.replace(batch[0].answer, error=f"{name}: {error}")
            return
        for asked in batch[done:]:
            yield from _flush(job, [asked])


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
