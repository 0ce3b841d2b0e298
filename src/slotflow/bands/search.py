r"""All tones of a spectrum at once: peaks above a local noise floor, fitted together, until none is left.

Each round looks at the spectrum of what the tones found so far leave of the data, takes the peaks above the threshold
of `floor.py`, and fits all tones together (`spectrum_fit.py`). Where the floor may be made of tones that hide each
other, the search goes on below it (`crowds.py`). In the end tones that the data do not need are taken out
(`pruning.py`), and so are those that no longer reach the threshold.

The search does not count tones, the exact step does: it says where to look, which tones a window has to be freed of,
and down to which amplitude the rest is empty.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from slotflow.bands.crowds import search_crowds
from slotflow.bands.found import FoundTones
from slotflow.bands.level import Levels
from slotflow.bands.pruning import prune
from slotflow.bands.spectrum_fit import FALSE_ALARM, MOST_TONES, SpectrumFit
from slotflow.core.arrays import Array
from slotflow.signal.likelihood import Likelihood

__all__ = ["FALSE_ALARM", "search_spectrum"]

MOST_ROUNDS = 60
"""Rounds at most."""


def search_spectrum(
    likelihood: Likelihood,
    band: tuple[float, float],
    *,
    max_seconds: float = math.inf,
    levels: Levels | None = None,
    noise: float | None = None,
    report: Callable[[int], None] | None = None,
) -> FoundTones:
    """The tones between two frequencies.

    Args:
        likelihood: Of one signal.
        band: Lowest and highest frequency in Hz.
        max_seconds: The search ends after this time with what it has; one round is always made.
        levels: The offsets and trends that its data are without, if these are to follow the tones.
        noise: Its level where it is known to be the same at all frequencies; there is no local floor then.
        report: Called with the number of tones after each round.
    """
    tones = SpectrumFit(likelihood, band, time.perf_counter() + max_seconds, levels)
    if noise is not None:
        tones.known_level[:] = noise**2
    complete = False
    for done in range(MOST_ROUNDS):
        if (tones.out_of_time and done) or len(tones.theta) >= MOST_TONES:
            break
        candidates = tones.candidates()
        if not len(candidates):
            complete = True
            break
        tones.add(candidates)
        if report is not None:
            report(len(tones.theta))
    if not tones.out_of_time:
        tones.settle()
    if complete:
        complete = search_crowds(tones, report)
    prune(tones)
    return _result(tones, complete)


def _result(tones: SpectrumFit, complete: bool) -> FoundTones:
    """What was found, without the tones that no longer count."""
    significance, visible, likeliest = _significance(tones)
    if len(weak := np.flatnonzero(significance < 1.0)):
        tones.theta = np.delete(tones.theta, weak, axis=0)
        if not tones.out_of_time:
            tones.settle()
        significance, visible, likeliest = _significance(tones)
    return FoundTones(
        tones.theta,
        tones.frequencies,
        visible,
        tones.level,
        significance,
        likeliest,
        complete,
        time.perf_counter() - tones.began,
        tones.known_level,
    )


def _significance(tones: SpectrumFit) -> tuple[Array, Array, float]:
    """Power of each tone over the smallest that counts, (K,); that smallest amplitude, (F,); the likeliest place."""
    (power, visible), (_, smooth) = tones.spectra()
    likeliest = float(tones.frequencies[(power / visible).argmax()])
    smallest: Array = 2 * np.sqrt(np.minimum(visible, smooth) / tones.energy)
    least = np.interp(tones.places, tones.frequencies, smallest)
    significance: Array = (tones.waveform.of(tones.theta, "amplitude") / least) ** 2
    return significance, smallest, likeliest
