r"""Tones of a wide band that cancel each other: what they stand for.

The sum of some steady tones has a mean square of Σ A²/2 if they are resolved, so that none is much larger than the
largest sample. A search that may put tones as close as it likes describes a short decay by many of them, of huge
amplitudes that cancel for most of the record. Such tones are a description of their sum and no components: if one of
a cluster is more than `TIMES` as large as any sample, the verdict names what the sum is, a decaying or a growing one
by the centroid of its energy in time, and otherwise a modulated one.
"""

from __future__ import annotations

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.directed.groups import clusters
from slotflow.posterior.alternative import Alternative
from slotflow.signal.waveforms import TONE

__all__ = ["cancelling"]

TIMES = 3.0
"""Amplitude of a tone, in units of the largest sample, above which it is cancelled by others."""
EARLY = 0.5
"""Distance of the centroid from the middle of the record, in units of half its length, of a decay or a growth."""
INSTANTS_PER_BIN = 8
"""Instants at which a sum of tones is looked at for each bin that it spans."""


def cancelling(observation: Observation, theta: Array) -> tuple[Alternative, ...]:
    """What clusters of tones stand for that are too large for the data.

    Args:
        observation: The data.
        theta: Tones of all windows, (K, P).
    """
    first = observation.long
    largest = float(np.abs(first.values).max(initial=0.0)) / abs(first.factor)
    if not len(theta) or float(TONE.of(theta, "amplitude").max()) <= TIMES * largest:
        return ()
    theta = TONE.sorted(theta[None])[0]
    places, amplitude = TONE.place_of(theta), TONE.of(theta, "amplitude")
    found = [list(one) for one in clusters(places, 1 / first.duration)]
    return tuple(
        Alternative(_kind(observation, theta[one]), tuple(float(f) for f in places[one]), 0.0)
        for one in found
        if float(amplitude[one].max()) > TIMES * largest
    )


def _kind(observation: Observation, theta: Array) -> str:
    """What a sum of tones, (k, P), does in the course of the record."""
    times = observation.long.times
    low, high = float(times[0]), float(times[-1])
    middle, places = 0.5 * (low + high), TONE.place_of(theta)
    bins = float(np.ptp(places)) * (high - low) + 1
    s = np.linspace(-1, 1, int(INSTANTS_PER_BIN * bins) + 2)
    u = middle + 0.5 * (high - low) * s
    waves = np.exp(2j * np.pi * np.outer(u, places) + 1j * TONE.of(theta, "phase"))
    power = np.abs(waves @ TONE.of(theta, "amplitude")) ** 2
    centroid = float(power @ s) / max(float(power.sum()), 1e-300)
    if abs(centroid) < EARLY:
        return "modulated"
    return "damped" if centroid < 0 else "growing"
