"""Answers to many signals in two steps: what batches decide at once, and the others as they are asked for.

`posteriors_together` hands over everything when all is done. Who keeps results as they come, and must know which signal
is under way, asks here: the decided signals are there first, as arrays, and every other one is answered in its turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.data.observation import Observation
from slotflow.infer.run import asked, one_by_one
from slotflow.infer.together import in_batches
from slotflow.network.model import SlotFlow
from slotflow.posterior.batched import Batched
from slotflow.posterior.many import Posteriors
from slotflow.posterior.posterior import Posterior

__all__ = ["InTurn", "posteriors_in_turn"]


class InTurn(NamedTuple):
    """The answers to many signals, some of them still to come."""

    decided: Posteriors
    """The posteriors of S signals that batches have decided, skipped ones among them."""
    places: NDArray[np.int64]
    """Where these signals stand, (S,)."""
    left: list[int]
    """Where the others stand that are not skipped, ascending."""
    others: Iterator[Posterior]
    """Their posteriors, each answered when it is asked for."""


def posteriors_in_turn(
    model: SlotFlow,
    observations: list[Observation],
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    skip: Collection[int] = (),
    company: int | None = None,
    **options: Any,
) -> InTurn:
    """The posteriors of many observations, those of batches first; no other process works on them.

    Args:
        model: The network.
        observations: What was measured.
        device: Where to move the network first.
        dtype: Its floating-point type.
        skip: Positions of observations that have their answers already. They keep the others company, whose rounding
            depends on it, in batches and in the network, and none of them is answered alone.
        company: How many observations are asked about in all, if these are only some of them.
        **options: The other keywords of `SlotFlow.infer`.
    """
    call = asked(model, **options)
    model._move(device, dtype)
    parts: list[Batched] = []
    places: list[int] = []
    alone: list[int] = []
    for answered, done, left in in_batches(model, observations, call, company):
        parts += [] if answered is None else [answered]
        places += done.tolist()
        alone += left.tolist()
    alone.sort()
    wanted = [place for place in alone if place not in skip]

    def others() -> Iterator[Posterior]:
        if wanted:
            skipped = {i for i, place in enumerate(alone) if place in skip}
            yield from one_by_one(model, [observations[place] for place in alone], call, skipped)

    return InTurn(Posteriors(parts), np.array(places, dtype=np.int64), wanted, others())
