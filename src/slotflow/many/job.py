"""The question that is asked of every signal, and what is found of the signals of a batch."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from slotflow.core.stages import tell
from slotflow.core.store import identity
from slotflow.core.threads import threads
from slotflow.data.observation import Observation
from slotflow.exact.refine import STEP_FAILURES
from slotflow.infer.in_turn import InTurn, posteriors_in_turn
from slotflow.infer.statement import Statement
from slotflow.many.budget import Budget
from slotflow.many.found import Found
from slotflow.network.model import SlotFlow
from slotflow.posterior.many import Posteriors

__all__ = ["FAILURES", "Job", "content_of", "debug"]

FAILURES: tuple[type[Exception], ...] = (OSError, RuntimeError, *STEP_FAILURES)
"""What a bad signal may raise; anything else is a fault of the program."""

GATHERED = 32
"""Answers of the network to single signals whose tables are made together."""

Asking = Callable[..., InTurn]
"""Asks about some signals; `posteriors_in_turn` says what it takes."""


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
    found: Callable[[Posteriors], Sequence[Found]] = lambda posts: [
        Found.of(post) for post in posts
    ]
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
    ) -> Iterator[Found | Exception]:
        """What is found of the signals of a batch, in their order; for a signal that fails, why.

        What batches decide is there at once. The exact step answers the others in their turn; the network's answers to
        them are gathered, a few at a time, for the sake of their tables.

        Args:
            batch: The signals.
            skip: Positions of those that only keep the others company.
            begin: Called with the position of a signal when work on it alone begins.
        """
        tell("inference")
        ask = self._asking()
        answers = ask(batch, skip=skip, company=self.company)
        found: dict[int, Found | Exception] = {}
        found |= zip(answers.places.tolist(), self._found(answers.decided), strict=True)
        others = _others(ask, batch, answers, begin)
        for i in range(len(batch)):
            if i not in found and i not in skip:
                lot = dict(islice(others, GATHERED if self.method == "network" else 1))
                if self.method == "network":
                    good = {place: one for place, one in lot.items() if isinstance(one, Found)}
                    posts = Posteriors(one.post for one in good.values())
                    lot |= zip(good, self._found(posts), strict=True)
                found |= lot
            if i not in skip:
                yield found.pop(i)

    def _found(self, posts: Posteriors) -> Sequence[Found]:
        """What was found of some signals, computed with the threads that are asked for: rounding depends on them."""
        with threads(self.options.get("threads")):
            return self.found(posts)

    def _asking(self) -> Asking:
        """Asks about some signals, within the time that is left for each now."""
        time = {} if self.budget is None else {"max_seconds": self.budget.of_each()}
        asked: dict[str, Any] = {"prior": self.stated, "method": self.method, "processes": 0}
        return partial(posteriors_in_turn, self.network, **asked | self.options | time)

    def answered(self, signals: int = 1) -> None:
        """Counts signals that have their answers, or will have none."""
        if self.budget is not None:
            self.budget.spend(signals)


def _others(
    ask: Asking, batch: list[Observation], answers: InTurn, begin: Callable[[int], None]
) -> Iterator[tuple[int, Found | Exception]]:
    """The signals that batches leave, in their turn; once one has failed, each is asked about on its own."""
    together = True
    for i in answers.left:
        begin(i)
        if together:
            try:
                found: Found | Exception = Found.of(next(answers.others))
            except FAILURES as error:  # of this signal or of one that comes after it
                together, found = len(batch) == 1, error
        if not together:
            try:
                own = ask([batch[i]], company=1)
                found = Found.of([*own.decided, *own.others][0])
            except FAILURES as error:
                found = error
        yield i, found


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


def debug(error: BaseException) -> None:
    """Raises an error that SLOTFLOW_DEBUG=1 asks to see whole."""
    if os.environ.get("SLOTFLOW_DEBUG") == "1":
        raise error
