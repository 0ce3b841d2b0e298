r"""Whether what looks like a slope is a tone of a few cycles.

A tone of less than about three cycles passes for a slope even under a Hann window (`trend.py`). Both are fitted with
the weights of that window: an offset with a slope, and an offset with one tone of the best number of cycles c. With the
weighted sums of squares

.. math:: R_0 \text{ (offset)}, \quad R_{line}, \quad R_{tone}, \quad R_{both} ,

it is a tone if the tone explains more than the line, and if beside the tone a slope explains next to nothing:
R_tone − R_both is below `LITTLE` of R_0 − R_both, or of what noise would explain. Slow changes are all that matters
here, so that means of neighbouring samples stand for them.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.trend import places, scaled

__all__ = ["is_slow_tone"]

GROUPS = 400
"""Means of neighbouring samples that stand for a longer series."""
FEWEST, MOST, STEP = 1.25, 3.25, 0.125
"""Cycles of a tone that are tried. With fewer it is hardly told from a slope, with more it does not look like one."""
LITTLE = 0.01
"""Share of what line and tone explain that a slope may add to the tone."""
CHANCE = 25.0
"""Sum of squares over σ² that noise may explain."""


def is_slow_tone(channel: Channel, noise: float) -> bool:
    """Whether a slope that stands out of a real series is better explained by a tone of a few cycles.

    Args:
        channel: The series.
        noise: Its noise level.
    """
    scale, x = scaled(channel)
    u = places(channel)
    cycles = u / (2 * float(np.abs(u).max()))  # −½ to ½
    weight = np.cos(np.pi * cycles) ** 2
    groups = np.linspace(0, x.size, min(x.size, GROUPS), endpoint=False).astype(np.int64)
    size = np.diff(np.append(groups, x.size))
    t, y, w = (np.add.reduceat(each, groups) / size for each in (cycles, x, weight))
    root = np.sqrt(w * size)

    def left(*columns: Array) -> float:
        """Weighted sum of squares that an offset and some columns leave."""
        basis = root[:, None] * np.stack([np.ones_like(t), *columns], 1)
        rest = root * y - basis @ np.linalg.lstsq(basis, root * y, rcond=None)[0]
        return float(rest @ rest)

    def waves(c: float) -> tuple[Array, Array]:
        return np.cos(2 * np.pi * c * t), np.sin(2 * np.pi * c * t)

    tried = np.arange(FEWEST, MOST + STEP, STEP)
    best = float(tried[np.argmin([left(*waves(c)) for c in tried])])
    bounds = (max(best - STEP, FEWEST), min(best + STEP, MOST))
    best = float(minimize_scalar(lambda c: left(*waves(c)), bounds=bounds, method="bounded").x)
    tone, both = left(*waves(best)), left(*waves(best), t)
    by_chance = CHANCE * (noise / scale) ** 2
    little = max(LITTLE * (left() - both), by_chance)
    return tone + by_chance < left(t) and tone - both < little
