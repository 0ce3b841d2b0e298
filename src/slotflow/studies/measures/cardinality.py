r"""How good q(K | x) is: exact counts, confusion, and the calibration of its confidence.

**Expected calibration error.** With the confidence c = max_K q(K | x) sorted into equal bins of [0, 1],

.. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \mathrm{accuracy}_b - \overline{c}_b \right| .

The absolute value makes it positive even for a perfect posterior, whose accuracy fluctuates around its confidence. What
such a posterior would show at the same n follows from labels drawn from q itself: the top label is then right with
the probability c, so one uniform number per signal stands for its label.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slotflow.core.seeds import spread_seed

__all__ = ["confusion", "ece", "ece_of_perfect", "top_label"]

CONFIDENCE_BINS = 10
"""Bins of the confidence."""


def top_label(k_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Most probable K and its probability.

    Args:
        k_probs: q(K | x), shape (n, k_max + 1), index = K.

    Returns:
        k_map, shape (n,), int64, and the confidence, shape (n,).
    """
    confidence, k_map = k_probs.max(-1)
    return k_map, confidence


def confusion(k_map: Tensor, k: Tensor, k_max: int) -> Tensor:
    """Counts of (true K, most probable K).

    Args:
        k_map: Most probable K, shape (n,), int64.
        k: True K, shape (n,), int64.
        k_max: Largest K of either.

    Returns:
        Shape (k_max + 1, k_max + 1), int64; rows are the truth.
    """
    size = k_max + 1
    return torch.bincount(k * size + k_map, minlength=size * size).reshape(size, size)


def ece(confidence: Tensor, correct: Tensor, bins: int = CONFIDENCE_BINS) -> Tensor:
    """Expected calibration error of a top label.

    Args:
        confidence: Probability of the top label, shape (n,).
        correct: Whether it is the true one, shape (..., n), bool.
        bins: Number of equal bins of [0, 1].

    Returns:
        Shape (...), float64.
    """
    confidence = confidence.double()
    index = (confidence * bins).long().clamp(0, bins - 1)  # (n,)
    excess = correct.double() - confidence  # (..., n)
    total = excess.new_zeros(*excess.shape[:-1], bins)
    total = total.index_add(-1, index, excess)  # n_b (accuracy_b − mean confidence_b)
    return total.abs().sum(-1) / confidence.shape[0]


def ece_of_perfect(
    k_probs: Tensor, repeats: int = 200, seed: int = 0, bins: int = CONFIDENCE_BINS
) -> tuple[float, float]:
    """ECE that the same probabilities would show if they were right.

    Args:
        k_probs: q(K | x), shape (n, k_max + 1).
        repeats: How often the labels are drawn.
        seed: The same seed gives the same labels.
        bins: Number of equal bins of [0, 1].

    Returns:
        Mean and 95 % quantile over the repeats.
    """
    _, confidence = top_label(k_probs.double().cpu())
    generator = torch.Generator().manual_seed(spread_seed(seed))
    values = torch.stack(
        [
            ece(confidence, torch.rand(len(confidence), generator=generator) < confidence, bins)
            for _ in range(repeats)
        ]
    )
    return float(values.mean()), float(values.quantile(0.95))
