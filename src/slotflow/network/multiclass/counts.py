r"""How many components of each class: q(K, {c_k} | x) with a class for each slot (paper, section 3.7, modification 2).

Components have no order, so neither have the classes of a signal: only the numbers n = (K_1, …, K_C) of components of
each class can be known. Slots are therefore taken in the order of their classes, c_1 <= c_2 <= … <= c_K, which makes
every n one sequence of classes and every such sequence one n. A head predicts the class of slot k from the
classifier's embedding of the signal, from K, and from how many of the slots before k are of each class,

.. math:: q(n \mid x) = q(K \mid x) \prod_{k=1}^{K} q(c_k \mid c_1, \dots, c_{k-1}, K, x), \qquad
          q(c_k < c_{k-1} \mid \cdot) = 0 .

This is the chain rule, so that any distribution of n can be represented, and its sum over all n with
k_min <= ΣK_c <= k_max is one. Independent classes of slots could not say "one of the two is a chirp".
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload

__all__ = ["ClassHead", "SlotRows", "count_tables", "slot_rows"]


def count_tables(k_min: int, k_max: int, classes: int) -> Tensor:
    """Every n with k_min <= ΣK_c <= k_max, (R, C), int64, in the order of K."""
    every = itertools.product(range(k_max + 1), repeat=classes)
    rows = [n for n in every if k_min <= sum(n) <= k_max]
    return torch.tensor(sorted(rows, key=lambda n: (sum(n), [-k for k in n])))


class SlotRows(NamedTuple):
    """Slots of a batch, signal after signal, in the order of their classes: ΣK rows, int64, on the CPU."""

    signal: Tensor
    """Signal of each slot, (ΣK,)."""
    k: Tensor
    """Number of slots of its signal, (ΣK,)."""
    past: Tensor
    """How many slots of each class its signal has before it, (ΣK, C)."""
    kind: Tensor
    """Its own class, (ΣK,)."""


def slot_rows(counts: Tensor) -> SlotRows:
    """The slots of signals with known numbers of each class, (B, C), int64, on the CPU."""
    classes, k = counts.shape[1], counts.sum(1)
    group = torch.repeat_interleave(counts.flatten())  # signal and class in one number
    signal, kind = group // classes, group % classes
    slot = torch.arange(len(group)) - (k.cumsum(0) - k)[signal]
    before = (counts.cumsum(1) - counts)[signal]  # slots of the classes before each class, (ΣK, C)
    past = (slot[:, None] - before).clamp_min(0).minimum(counts[signal])
    return SlotRows(signal, k[signal], past, kind)


class ClassHead(nn.Module):
    """The class of a slot.

    Args:
        width: Of the embedding.
        k_max: Largest number of slots.
        classes: C.
    """

    def __init__(self, width: int, k_max: int, classes: int) -> None:
        super().__init__()
        self.k_max, self.classes = k_max, classes
        self.from_embedding = nn.Linear(width, width)
        self.from_slot = nn.Linear((k_max + 1) * (classes + 1), width, bias=False)
        self.out = nn.Sequential(nn.GELU(), nn.Linear(width, classes))

    def forward(self, embedding: Tensor, rows: SlotRows) -> Tensor:
        """Log-probability of each slot's class.

        Args:
            embedding: The classifier's embeddings, (..., S, H) or what broadcasts against it.
            rows: S slots; which signals they belong to is not looked at.

        Returns:
            (..., S), in the type of the weights, also where the embeddings are in lower precision.
        """
        device, kind = embedding.device, self.from_slot.weight.dtype
        numbers = torch.cat([rows.k[:, None], rows.past], 1)  # (S, 1 + C)
        identity = nn.functional.one_hot(numbers, self.k_max + 1).flatten(1)
        slot = upload(identity, device).to(kind)
        logits = self.out(self.from_embedding(embedding.to(kind)) + self.from_slot(slot))
        later = rows.past.flip(1).cumsum(1).flip(1) - rows.past  # slots so far of later classes
        log_probs = logits.masked_fill(upload(later > 0, device), -torch.inf).log_softmax(-1)
        index = upload(rows.kind, device).expand(log_probs.shape[:-1])
        chosen: Tensor = log_probs.gather(-1, index[..., None])[..., 0]
        return chosen

    def table_log_probs(self, embedding: Tensor, log_k: Tensor, tables: Tensor) -> Tensor:
        """Log q(n | x) of all n.

        Args:
            embedding: (B, H).
            log_k: Log q(K | x), (B, k_max + 1).
            tables: Every n, (R, C), on the CPU.

        Returns:
            (B, R), in the type of log_k.
        """
        rows, device = slot_rows(tables), embedding.device
        steps = self(embedding[:, None], rows).to(log_k.dtype)  # (B, S)
        start = log_k[:, upload(tables.sum(1), device)]  # (B, R)
        return start.index_add(1, upload(rows.signal, device), steps)
