r"""The catalogue that a posterior amounts to: which true tones it finds, and what it invents.

Estimated and true frequencies of a signal are assigned to each other so that as many pairs as possible lie within a
tolerance, and then at the smallest total distance (Hungarian assignment; a pair beyond the tolerance costs as much
as a miss). With M pairs within it, K̂ estimates and K true tones, summed over n signals,

.. math:: \mathrm{recall} = \frac{\sum M}{\sum K}, \qquad
          \mathrm{false\ positives\ per\ mixture} = \frac{\sum (\hat K - M)}{n} .
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slotflow.network.matching import all_pairs, match

__all__ = ["Catalogue", "compare_catalogues"]

MISS_COST = 1e3
"""Cost of a pair beyond the tolerance, in units of the tolerance: above that of all close pairs together."""


@dataclass(frozen=True)
class Catalogue:
    """Counts over n signals."""

    matched: int
    """Pairs within the tolerance."""
    estimated: int
    """Estimated tones."""
    true: int
    """True tones."""
    signals: int
    """Signals."""

    @property
    def recall(self) -> float:
        """Share of the true tones that were found; 1 where there is none."""
        return self.matched / self.true if self.true else 1.0

    @property
    def precision(self) -> float:
        """Share of the estimated tones that are true; 1 where there is none."""
        return self.matched / self.estimated if self.estimated else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; 1 where there is no tone on either side."""
        total = self.estimated + self.true
        return 2 * self.matched / total if total else 1.0

    @property
    def false_positives(self) -> float:
        """Estimated tones without a partner, per signal."""
        return (self.estimated - self.matched) / self.signals


def compare_catalogues(
    estimate: Tensor, k_estimate: Tensor, truth: Tensor, k: Tensor, tolerance: float
) -> Catalogue:
    """Compares estimated with true frequencies.

    Args:
        estimate: Estimated frequencies, shape (n, K), the first k_estimate of each signal; on the CPU.
        k_estimate: How many there are, shape (n,), int64.
        truth: True frequencies, shape (n, K'), the first k of each signal.
        k: How many there are, shape (n,), int64.
        tolerance: Largest distance of a pair, in the unit of the frequencies.
    """
    if not tolerance > 0:
        raise ValueError(f"expected a tolerance above 0, received {tolerance}.")
    flat_estimate = estimate[torch.arange(estimate.shape[1]) < k_estimate[:, None]]
    flat_truth = truth[torch.arange(truth.shape[1]) < k[:, None]]
    i, j = all_pairs(k_estimate, k)
    distance = (flat_estimate[i] - flat_truth[j]).abs()
    cost = torch.where(distance <= tolerance, distance, MISS_COST * tolerance)
    rows, columns = match(cost, k_estimate, k)
    pairs = (flat_estimate[rows] - flat_truth[columns]).abs() <= tolerance
    return Catalogue(int(pairs.sum()), int(k_estimate.sum()), int(k.sum()), len(k))
