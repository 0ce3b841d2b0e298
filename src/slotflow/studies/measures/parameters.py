"""The parameters of the components that are studied: how tables name and order them, differences, scales, circles.

The test signals of all studies are sums of tones, and this module alone says so: it asks the waveform for names and
columns, and the measures ask this module. All functions take NumPy arrays and torch tensors alike.
"""

from __future__ import annotations

import math

from slotflow.core.arrays import AnyArray, namespace
from slotflow.signal.waveforms import TONE

__all__ = [
    "AMPLITUDE",
    "CIRCULAR",
    "PHASE",
    "PLACE",
    "SIZE",
    "SYMBOLS",
    "TABLE_ORDER",
    "WAVEFORM",
    "differences",
    "relative_units",
    "unrolled",
    "wrap",
]

WAVEFORM = TONE
"""The form of the components in the test signals."""
SIZE = WAVEFORM.size
"""P, the number of parameters of a component."""
SYMBOLS = tuple(parameter.symbol for parameter in WAVEFORM.parameters)
"""The parameters as formulas call them, in the order of the columns."""
AMPLITUDE, PHASE = WAVEFORM.column("amplitude"), WAVEFORM.column("phase")
PLACE = WAVEFORM.column(WAVEFORM.place)
"""The column of the parameter that orders components, the frequency of a tone."""
TABLE_ORDER = (PLACE, *(i for i in range(SIZE) if i != PLACE))
"""The columns in the order in which tables list them: what orders components first."""
CIRCULAR = tuple(i for i, parameter in enumerate(WAVEFORM.parameters) if parameter.circular)
"""The columns that hold angles."""


def wrap(angle: AnyArray) -> AnyArray:
    """Angles in [−π, π)."""
    wrapped: AnyArray = namespace(angle).remainder(angle + math.pi, 2 * math.pi) - math.pi
    return wrapped


def differences(x: AnyArray, y: AnyArray) -> AnyArray:
    """Differences x − y of parameters, (..., P) each; those of angles are in [−π, π)."""
    found: AnyArray = x - y
    for i in CIRCULAR:
        found[..., i] = wrap(found[..., i])
    return found


def relative_units(theta: AnyArray) -> AnyArray:
    """What errors of components, (..., P), are divided by where an amplitude's is relative: A, and 1 otherwise."""
    unit: AnyArray = namespace(theta).ones_like(theta)
    unit[..., AMPLITUDE] = theta[..., AMPLITUDE]
    return unit


def unrolled(draws: AnyArray, axis: int = 0) -> AnyArray:
    """Draws of components, (..., P), with angles within π of their circular mean over an axis; a copy."""
    xp = namespace(draws)
    found: AnyArray = draws + 0.0
    for i in CIRCULAR:
        angle = found[..., i]
        centre = xp.arctan2(xp.sin(angle).mean(axis), xp.cos(angle).mean(axis))
        centre = xp.stack([centre], axis)
        found[..., i] = centre + wrap(angle - centre)
    return found
