"""What batches leave to be done: signals that are answered alone, and verdicts on tones that may change.

Beside a GPU that is done in processes while the GPU goes on; they have the network on the CPU. Elsewhere signals are
answered at the end, and verdicts when they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch

from slotflow.core.beside import Beside, can_be_copied, processes_for
from slotflow.data.observation import Observation
from slotflow.exact.batch.group import Group
from slotflow.exact.batch.posteriors import Judging
from slotflow.infer.call import Call, Case
from slotflow.infer.each import each_answered, named_case, places_of
from slotflow.network.model import SlotFlow
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Verdict

__all__ = ["Rest"]

Task = Judging | tuple[int, Observation]
"""A verdict to be given, or a signal to be answered, with its place."""
SILENT = 60.0
"""Seconds beyond twice the time of one signal after which processes that send nothing are given up."""


class Rest:
    """The signals and verdicts that batches leave; to be used as a context.

    Args:
        model: The network.
        observations: All signals.
        call: What is asked. Where it states no number of processes, there are none beside a CPU; beside a GPU, as many
            as the exact step is worth.
    """

    def __init__(self, model: SlotFlow, observations: Sequence[Observation], call: Call) -> None:
        self.model, self.observations, self.call = model, observations, call
        processes = call.processes
        if processes is None:
            worth_it = model.device.type == "cuda" and call.exact
            processes = processes_for(len(observations)) if worth_it else 0
        elif not can_be_copied():
            processes = 0
        self._names = places_of(observations)
        self._alone: dict[int, Case] = {}
        """What is assumed of the signals that this process answers, by their places."""
        self._owners: list[int | tuple[Group, int]] = []
        """Whom each task is for: the place of a signal, or a row of a group."""
        self._taken: set[int] = set()
        self._beside: Beside[Task, Posterior | Verdict] | None = None
        if processes:
            copy, own = deepcopy(model).to("cpu"), replace(call, threads=1)

            def work(task: Task) -> Posterior | Verdict:
                if isinstance(task, Judging):
                    return task()
                place, observation = task
                name = self._names[place]
                case = named_case(copy, observation, own, name)
                return next(each_answered(copy, [case], own, [name]))

            patience = SILENT + 2 * call.seconds
            self._beside = Beside(work, processes, list(copy.modules()), patience)

    def take(self, places: Sequence[int]) -> None:
        """Signals to be answered alone, each of them once; those that this process answers are checked at once."""
        fresh = [place for place in places if place not in self._taken]
        self._taken |= set(fresh)
        if self._beside is None:
            with torch.inference_mode(False):  # what is assumed outlives the batch
                for place in fresh:
                    one, name = self.observations[place], self._names[place]
                    self._alone[place] = named_case(self.model, one, self.call, name)
            return
        for place in fresh:
            self._owners.append(place)
            self._beside.submit((place, self.observations[place]))

    @property
    def judges(self) -> bool:
        """Whether verdicts that a batch leaves open are given here; otherwise they are when they are asked for."""
        return self._beside is not None

    def judge(self, group: Group, row: int, judging: Judging) -> None:
        """A verdict that a batch has left open, on a row of one of its groups."""
        if self._beside is not None:
            self._owners.append((group, row))
            self._beside.submit(judging)

    def posteriors(self) -> dict[int, Posterior]:
        """The posteriors of the signals by their places, once all is done."""
        if self._beside is None:
            some = sorted(self._alone)
            cases, names = [self._alone[i] for i in some], [self._names[i] for i in some]
            single = each_answered(self.model, cases, self.call, names)
            return dict(zip(some, single, strict=True))
        answers: dict[int, Posterior] = {}
        for owner, found in zip(self._owners, self._beside.results(), strict=True):
            if isinstance(owner, int):
                assert isinstance(found, Posterior)
                answers[owner] = found
            else:
                assert isinstance(found, Verdict)
                owner[0].judged[owner[1]] = found
        return answers

    def __enter__(self) -> Rest:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._beside is not None:
            self._beside.__exit__(*error)
