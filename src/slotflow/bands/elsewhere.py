"""Whether a tone of a band could as well lie at another place, as at few and odd times.

A window holds the maxima around the place where the search has put a tone. Where few samples lie at odd times, the
spectrum of a tone has side lobes all over the band, and with noise, or before the other tones were known, one of them
may have been the highest. What the other tones leave of the data is therefore looked at once more: a tone is where its
power is highest, by more than noise would change.
"""

from __future__ import annotations

import numpy as np

from slotflow.bands.peeling import energies, powers
from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.general import GeneralTones

__all__ = ["place_doubt"]

MOST_SAMPLES, MOST_TONES = 1000, 20
"""Samples and tones up to which this is looked at: more samples have no such side lobes."""
BESIDE = 2.0
"""Bins around a place that are the same place."""
CLOSE = 2.0
"""Nats of log-likelihood by which the place of a tone must be better than any other."""


def place_doubt(
    likelihood: Likelihood, theta: Array, level: float, band: tuple[float, float]
) -> str:
    """Which tone may lie elsewhere, in words; empty where none may, or where it was not looked at.

    Args:
        likelihood: Of the data.
        theta: The tones, (K, P).
        level: Noise level.
        band: Frequencies in Hz that may hold tones.
    """
    few = isinstance(likelihood, GeneralTones) and likelihood.n <= MOST_SAMPLES
    if not few or not 0 < len(theta) <= MOST_TONES:
        return ""
    f, energy = energies(likelihood, band)
    for k, place in enumerate(likelihood.waveform.place_of(theta)):
        others = np.delete(theta, k, axis=0)
        rest = likelihood.less(likelihood.to_z(others)) if len(others) else likelihood
        gain = powers(rest, f, energy) / level**2
        here = np.abs(f - place) < BESIDE * likelihood.bin
        if here.all() or not here.any():
            continue
        best = np.where(here, 0.0, gain).argmax()
        if gain[best] > gain[here].max() - CLOSE:
            return (
                f"the tone at {place:.6g} Hz may as well lie at {f[best]:.6g} Hz, which these times hardly tell apart; "
                "state a band that holds one of them"
            )
    return ""
