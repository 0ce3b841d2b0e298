"""The exact step behind the network's answers to many signals that are sampled alike (`slotflow.exact.batch`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.exact.batch.answers import LATER, exact_answers, suits_batches
from slotflow.exact.batch.group import DECIDED, Group
from slotflow.exact.batch.posteriors import ExactPosteriors, Question, judging
from slotflow.infer.call import Call, Case
from slotflow.infer.rest import Rest
from slotflow.network.cardinality import under_k_prior
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.posteriors import ZoomPosteriors
from slotflow.posterior.batched import Rows
from slotflow.posterior.joined import Joined
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["FEWEST_SIGNALS", "exact_step", "is_for_batches"]

FEWEST_SIGNALS = 8
"""Signals below which one after the other is as quick."""


def is_for_batches(model: SlotFlow, case: Case, call: Call, count: int) -> bool:
    """Whether the exact step takes signals together.

    That depends on how many are asked about in all, and not on how many of them are alike or in one part of the work:
    so a signal has the same answer, but for rounding, in whatever parts the work is done.

    Args:
        model: The network.
        case: What is assumed of each of them.
        call: What is asked.
        count: How many signals are asked about.
    """
    prior = _prior(model, case, call)
    return count >= FEWEST_SIGNALS and suits_batches(prior, 1 / case.observation.long.duration)


def exact_step(
    model: SlotFlow,
    answered: Sequence[ZoomPosteriors],
    case: Case,
    call: Call,
    places: NDArray[np.int64],
    rest: Rest | None,
) -> tuple[ExactPosteriors | None, NDArray[np.int64]]:
    """The exact posteriors of the signals that can be decided together.

    Args:
        model: The network.
        answered: Its answers, in one batch or several.
        case: What is assumed of each signal.
        call: What is asked.
        places: Of the signals among all that were given, (B,).
        rest: Gets what a group of signals leaves to be done as soon as that is known; None if nobody does it beside.

    Returns:
        The posteriors, and the rows of these signals among the answers.
    """
    analyses = [part.analysis for part in answered]
    first = np.cumsum([0, *map(len, answered)])

    def starts(rows: Rows, k: int) -> Tensor:
        """Rows ascend."""
        found = []
        for analysis, low, high in zip(analyses, first[:-1], first[1:], strict=True):
            own = rows[(rows >= low) & (rows < high)] - low
            if own.size:
                index = torch.from_numpy(own)
                slots = analysis.slots_of(index, torch.full_like(index, k))
                found.append(TONE.place_of(slots.centres()))
        return torch.cat(found)

    question = Question(
        _prior(model, case, call), call.effort(call.seconds), case.basis.noise, case.assumed
    )
    together = answered[0] if len(answered) == 1 else Joined(answered)
    statistics = Statistics.joined([analysis.statistics for analysis in analyses])

    def told(rows: Rows, group: Group) -> None:
        assert rest is not None
        reasons = np.array(group.reasons)
        rest.take(places[rows[(reasons != DECIDED) & (reasons != LATER)]].tolist())
        if not rest.judges:
            return
        for i in np.flatnonzero((reasons == DECIDED) & ~group.steady).tolist():
            rest.judge(group, i, judging(together, (int(rows[i]), group, i), question))

    return exact_answers(together, statistics, starts, question, None if rest is None else told)


def _prior(model: SlotFlow, case: Case, call: Call) -> Prior:
    """The prior that the exact step answers under."""
    return under_k_prior(case.assumed.prior, call.k_prior, model.config.prior)
