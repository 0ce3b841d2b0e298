r"""How the least training set N(K) for a given loss grows with K (paper, appendix B.3, figures 18 and 19).

The paper reports N = 2,000 for K in {1, 2} and N = 10,000 for K in {4, 6, 8, 10}, and describes the pairs by

- Spearman's rank correlation, 0.83 with p = 0.04, and the slope of a straight line, 964 signals per component: both
  follow from its numbers;
- the K³ curve through K = 2, which is 250,000 at K = 10: it follows too;
- an exponent α ≈ 0.35 "across the full range": it does not. The slope of ln N against ln K is 0.85 by least squares,
  0.70 between the ends (ln 5 / ln 10) and 1.0 from K = 2 to 10 (ln 5 / ln 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from slotflow.studies.measures.power_law import fit_exponent

__all__ = ["PAPER_COUNTS", "PAPER_SAMPLES", "Trend", "power_curve", "trend"]

PAPER_COUNTS = (1, 2, 4, 6, 8, 10)
"""K of appendix B.3."""
PAPER_SAMPLES = (2_000, 2_000, 10_000, 10_000, 10_000, 10_000)
"""Least N with a validation loss below 0 for each of them."""


@dataclass(frozen=True)
class Trend:
    """What is said of N against K."""

    rank_correlation: float
    """Spearman's ρ."""
    p_value: float
    """Probability of a larger one by chance, both signs, as SciPy has it."""
    slope: float
    """Signals per component, by least squares."""
    exponent: float
    """Slope of ln N against ln K, by least squares."""
    exponent_of_ends: float
    """The same through the first and the last K alone."""


def trend(counts: Sequence[int], samples: Sequence[float]) -> Trend:
    """How N grows with K.

    Args:
        counts: K, rising.
        samples: The least N of each.
    """
    found = spearmanr(counts, samples)
    exponent, _ = fit_exponent(list(counts), list(samples), [0.0] * len(samples))
    ends = np.log(samples[-1] / samples[0]) / np.log(counts[-1] / counts[0])
    return Trend(
        float(found.statistic),
        float(found.pvalue),
        float(np.polyfit(counts, samples, 1)[0]),
        exponent,
        float(ends),
    )


def power_curve(k: float, k_known: float, samples_known: float, power: float = 3.0) -> float:
    """N at K if it grew as a power of K through a known point."""
    return float(samples_known * (k / k_known) ** power)
