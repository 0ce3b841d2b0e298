"""How close tones may be where nobody says it.

Plain series in one window are asked with no minimum separation. Any other data, and windows of a wide band, are asked
for lines that the record resolves, at least `UNRESOLVED` bins apart: real lines are rarely as steady as a tone, and a
cluster of close tones would explain what makes them broader. Where such lines do not explain the data, close ones are
tried as well (`run.py`).
"""

from __future__ import annotations

import dataclasses
import math

from slotflow.signal.prior import Prior

__all__ = ["UNRESOLVED", "separated", "unseparated"]

UNRESOLVED = 0.75
"""Distance of two tones, in bins, below which they may stand in for one line that is not steady."""


def separated(prior: Prior, duration: float) -> Prior | None:
    """The same prior for tones that a record of some seconds resolves; None where as many do not fit into the band."""
    low, high = prior.frequency
    separation = UNRESOLVED / duration
    room = math.floor((high - low) / separation)
    if prior.k_probs is not None or room < max(prior.k_min, 2):
        return None
    return dataclasses.replace(prior, min_separation=separation, k_max=min(prior.k_max, room))


def unseparated(prior: Prior) -> Prior:
    """The same prior without a smallest distance."""
    return dataclasses.replace(prior, min_separation=0.0)
