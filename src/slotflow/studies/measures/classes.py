r"""How good an answer for several classes is: numbers of each kind, classes given K, and coverage class by class.

**Numbers.** n = (K_1, …, K_C) is one label among R, judged as K is: share of right ones, expected calibration error and
mean log-score.

**Classes given K.** Among the n with the true K the most probable one n̂ is taken. Components of a class that it has too
many of must be of another class in truth, so that the share of right classes is Σ_c min(K_c, K̂_c) / K.

**Coverage** is that of the draws given the true numbers, each class's components in the order of their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.network.multiclass.posterior import ClassPosterior
from slotflow.studies.measures.calibration import Coverage, coverage
from slotflow.studies.measures.cardinality import ece, ece_of_perfect, top_label
from slotflow.studies.measures.tones import ToneSummary, summarise

__all__ = ["CountScores", "class_coverage", "count_scores", "right_classes"]


@dataclass(frozen=True)
class CountScores:
    """Scores of the numbers of each class over many signals."""

    counts_right: float
    """Share of signals with the right number of every class."""
    k_right: float
    """Share with the right number of components of any class."""
    ece: float
    """Expected calibration error of the most probable numbers."""
    ece_by_chance: float
    """What a perfect answer stays below in 95 of 100 cases."""
    log_score: float
    """Mean log-probability of the true numbers."""


def count_scores(tables: Tensor, probs: Tensor, counts: Tensor) -> CountScores:
    """Scores of q(n | x).

    Args:
        tables: Every n, (R, C), int64.
        probs: q(n | x), (S, R), float64.
        counts: True numbers, (S, C), int64.
    """
    row = _rows(tables, counts)
    top, confidence = top_label(probs)
    k, found = tables.sum(1), counts.sum(1)
    k_probs = probs.new_zeros(len(probs), int(k.max()) + 1).index_add(1, k, probs)
    return CountScores(
        counts_right=float((top == row).double().mean()),
        k_right=float((k_probs.argmax(1) == found).double().mean()),
        ece=float(ece(confidence, top == row)),
        ece_by_chance=ece_of_perfect(probs)[1],
        log_score=float(probs.gather(1, row[:, None]).clamp_min(1e-12).log().mean()),
    )


def right_classes(tables: Tensor, probs: Tensor, counts: Tensor) -> Tensor:
    """Components of each signal whose class is right, given the true K, (S,), int64; arguments as of `count_scores`."""
    allowed = tables.sum(1) == counts.sum(1)[:, None]  # (S, R)
    best = torch.where(allowed, probs, -1.0).argmax(1)
    return torch.minimum(tables[best], counts).sum(1)


def class_coverage(
    posteriors: Sequence[ClassPosterior],
    truths: Iterable[dict[str, Array]],
    draws: int = 200,
    seed: int = 0,
) -> dict[str, Coverage]:
    """Coverage of the central intervals of each class's parameters, given the true numbers.

    Args:
        posteriors: Answers, S of them.
        truths: True θ of each class by its name, (K_c, P_c) in the order of places, for each answer.
        draws: Draws of each answer.
        seed: Of the draws.

    Returns:
        The curve of each class that has a component.
    """
    parts: dict[str, list[tuple[ToneSummary, NDArray[np.bool_]]]] = {}
    for i, (post, truth) in enumerate(zip(posteriors, truths, strict=True)):
        counts = {name: len(theta) for name, theta in truth.items()}
        drawn, width = post.sample_classes(draws, seed + i, counts), post.k_max
        for name, theta in truth.items():
            if not len(theta):
                continue
            room = ((0, width - len(theta)), (0, 0))
            mask = torch.arange(width)[None] < len(theta)
            found = summarise(
                torch.as_tensor(np.pad(drawn.theta[name], ((0, 0), *room)))[None],
                torch.as_tensor(np.pad(theta, room))[None],
                mask,
                seed + i,
                post.mixed.waveform.members[name],
            )
            parts.setdefault(name, []).append((found, mask.numpy()))
    return {
        name: coverage(
            torch.cat([found.level for found, _ in some]),
            torch.as_tensor(np.concatenate([mask for _, mask in some])),
        )
        for name, some in parts.items()
    }


def _rows(tables: Tensor, counts: Tensor) -> Tensor:
    """The row of the tables that holds each signal's numbers, (S,), int64."""
    return (tables[None] == counts[:, None]).all(-1).int().argmax(1)
