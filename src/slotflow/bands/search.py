"""The tones of a wide band before it is cut: the classical pursuit, block by block.

Bands of more than `WIDEST_BLOCK` bins are searched in blocks, each without the tones of the others, until no tone moves
any more.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from slotflow.bands.core_draws import without
from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.classical import classical
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["find_tones"]

WIDEST_BLOCK = 1000.0
"""Widest band in bins that is searched at once."""
MOST_TONES = 150
"""Most tones that the search looks for in a block."""
MOST_SWEEPS = 4
"""Most rounds of the search over several blocks."""
SAME_PLACE = 0.1
"""Largest change of a place, in bins, between sweeps that count as the same."""


def find_tones(obs: Observation, prior: Prior) -> Array:
    """Parameters of the tones that the classical pursuit finds in the band, (K, P)."""
    duration, (low, high) = obs.long.duration, prior.frequency
    blocks = np.linspace(low, high, math.ceil((high - low) * duration / WIDEST_BLOCK) + 1)
    none = np.zeros((0, TONE.size))
    tones = [none for _ in blocks[1:]]
    for _ in range(MOST_SWEEPS if len(tones) > 1 else 1):
        before = np.concatenate(tones)
        for i, edges in enumerate(itertools.pairwise(blocks)):
            others = np.concatenate([none, *tones[:i], *tones[i + 1 :]])
            own = dataclasses.replace(
                prior,
                frequency=(float(edges[0]), float(edges[1])),
                k_max=MOST_TONES,
                k_probs=None,
                min_separation=0.0,
            )
            found = classical(without(obs, others), own)
            tones[i] = found.fits[int(found.k_bic[0])].theta[0].numpy()
        after = np.concatenate(tones)
        if _same(before, after, duration):
            break
    return np.concatenate(tones)


def _same(before: Array, after: Array, duration: float) -> bool:
    """Whether two sets of tones are in the same places."""
    if len(before) != len(after):
        return False
    places = (np.sort(TONE.place_of(theta)) for theta in (before, after))
    return bool((np.abs(np.subtract(*places)) * duration < SAME_PLACE).all())
