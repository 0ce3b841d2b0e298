"""A gain that is not known: in such a channel every component has an amplitude and a phase of its own.

Two detectors of unknown response see the same frequencies, and nothing else links what they measure. The first channel
of an observation has a known gain; what a component is called by (`amplitude`, `phase`) is measured there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["FREE", "FreeGain", "checked_gain"]

FREE = "free"
"""Short for `FreeGain()`."""


@dataclass(frozen=True)
class FreeGain:
    """The gain of a channel in which amplitude and phase of each component are free.

    Args:
        amplitude: Bounds of a component's amplitude in this channel, in its units, under the law of the prior's
            amplitudes. If None they are the prior's own, or what this channel shows where the prior's amplitudes
            come from the data.
    """

    amplitude: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.amplitude is None:
            return
        bounds = tuple(float(bound) for bound in self.amplitude)
        if len(bounds) != 2 or not (0 <= bounds[0] < bounds[1] < math.inf):
            raise ValueError(
                f"expected the bounds of an amplitude, 0 <= low < high, received {self.amplitude!r}."
            )
        object.__setattr__(self, "amplitude", bounds)


def checked_gain(gain: complex | FreeGain | str) -> complex | FreeGain:
    """A gain as a channel keeps it: a number other than 0, or a `FreeGain`."""
    if isinstance(gain, FreeGain):
        return gain
    if isinstance(gain, str):
        if gain != FREE:
            raise ValueError(f"expected a gain as a number or {FREE!r}, received {gain!r}.")
        return FreeGain()
    try:
        size = abs(complex(gain))
    except (TypeError, ValueError):
        raise ValueError(f"expected a gain as a number or {FREE!r}, received {gain!r}.") from None
    if not (math.isfinite(size) and size > 0):
        raise ValueError(f"expected a finite gain other than 0, received {gain}.")
    return gain
