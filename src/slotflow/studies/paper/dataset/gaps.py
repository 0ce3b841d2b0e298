r"""The law of the gaps between neighbouring frequencies under the prior.

K frequencies are uniform over the part of a band of width W that respects the minimum separation s. Less
their compulsory gaps they are K sorted uniforms on W − (K−1)s, so a gap exceeds s by (W − (K−1)s)·Beta(1, K):

.. math:: P(\mathrm{gap} \le c\,s \mid K) = 1 - \left(1 - \frac{(c-1)\,s}{W - (K-1)\,s}\right)^K .

Over all neighbouring pairs, K counts with the weight (K − 1) p(K).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotflow.signal.prior import Prior

__all__ = ["gap_density", "gap_share"]

Array = NDArray[np.float64]


def gap_share(c: float, prior: Prior, k: int | None = None) -> float:
    """Share of neighbouring pairs closer than c times the minimum separation, by the formula above.

    Args:
        c: At least 1.
        prior: Band, separation and p(K).
        k: The same number of components in every signal, instead of p(K).
    """
    s, width = prior.min_separation, prior.frequency[1] - prior.frequency[0]
    counts = np.arange(2, prior.k_max + 1) if k is None else np.array([k])
    weight = (counts - 1) * (prior.k_probs_full[counts] if k is None else 1.0)
    room = width - (counts - 1) * s
    share = 1 - np.clip(1 - (c - 1) * s / room, 0.0, 1.0) ** counts
    return float(share @ weight / weight.sum())


def gap_density(c: Array, prior: Prior) -> Array:
    """Density of gap / minimum separation over neighbouring pairs, (n,) to (n,)."""
    s, width = prior.min_separation, prior.frequency[1] - prior.frequency[0]
    counts = np.arange(2, prior.k_max + 1)
    weight = (counts - 1) * prior.k_probs_full[counts]
    room = (width - (counts - 1) * s)[:, None]
    rest = np.clip(1 - (c - 1) * s / room, 0.0, 1.0) ** (counts[:, None] - 1)
    density: Array = weight @ (counts[:, None] * s / room * rest) / weight.sum()
    return density
