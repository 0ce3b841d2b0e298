"""A signal that has been through the network, with the likely choices of its slots' classes for each K.

Choices of a probability below `RARE` are left out, and slots of a K or a choice are made when they are asked for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.core.arrays import Array
from slotflow.network.family.alone import Alone, slots_alone
from slotflow.network.family.network import FamilyParts, Pass
from slotflow.network.family.record import Record
from slotflow.network.family.slots import Begun, Finished
from slotflow.signal.prior import Prior

__all__ = ["NEGLIGIBLE", "Choices", "Signal"]

RARE = 1e-4
"""Probability below which a choice of classes is left out."""
NEGLIGIBLE = 1e-4
"""Probability of K below which its slots are not looked at."""
MOST_CHOICES = 24
"""Choices of classes that are kept of each K."""


class Choices(NamedTuple):
    """Choices of the classes of K slots."""

    kinds: NDArray[np.int64]
    """Classes of the network, (R, K)."""
    probs: Array
    """(R,), summing to 1."""


@dataclass
class Signal:
    """A signal that has been through the network; slots for each K are made when they are asked for."""

    parts: FamilyParts
    answer: Pass
    """Of this signal alone."""
    record: Record
    prior: Prior
    begun: dict[int, tuple[Begun, Choices]] = field(default_factory=dict)
    finished: dict[tuple[int, ...], Finished] = field(default_factory=dict)
    known_alone: dict[int, list[Alone]] = field(default_factory=dict)

    @torch.inference_mode()
    def choices(self, k: int) -> Choices:
        """The likely choices of the classes of K slots."""
        if k not in self.begun:
            number = torch.tensor([k], device=self.answer.logits.device)
            self.begin(k, self.parts.given(self.answer, number))
        return self.begun[k][1]

    def begin(self, k: int, begun: Begun) -> None:
        """Keeps the K slots of this signal alone, before the decision on their classes."""
        allowed = [one.kind for one in self.record.maps]
        log_q = begun.logits[0, :k].log_softmax(-1).double().cpu().numpy()  # (K, C)
        every = list(itertools.product(allowed, repeat=k))
        kinds = np.array(every, dtype=np.int64).reshape(len(every), k)
        log_p = log_q[np.arange(k), kinds].sum(1)
        order = np.argsort(-log_p)[:MOST_CHOICES]
        p = np.exp(log_p[order] - log_p[order[0]])
        likely = p > RARE * p.sum()
        self.begun[k] = begun, Choices(kinds[order][likely], p[likely] / p[likely].sum())

    @torch.inference_mode()
    def slots(self, kinds: NDArray[np.int64]) -> Finished:
        """The slots under a choice of classes, (K,)."""
        key = tuple(int(kind) for kind in kinds)
        if key not in self.finished:
            self.choices(len(key))
            begun = self.begun[len(key)][0]
            kind = torch.zeros_like(begun.fit.slots.kind)
            kind[0, : len(key)] = torch.tensor(key)
            self.finished[key] = self.parts.slots.finish(
                self.parts.units, self.answer.seen, begun, kind
            )
        return self.finished[key]

    def alone(self, k: int) -> list[Alone]:
        """Each of K slots under their most probable classes as the likelihood has it."""
        if k not in self.known_alone:
            slots = self.slots(self.choices(k).kinds[0])
            self.known_alone[k] = slots_alone(self.parts.units, slots, [self.record], k)[0]
        return self.known_alone[k]
