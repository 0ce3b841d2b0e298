"""Lines instead of pairs: tones closer than the record resolves, where the noise is not white.

A line that is modulated a little stands on a foot, and in noise whose level follows the lines (the cusps of tides, the
sidebands of mains) a search describes that foot by pairs of tones a fraction of a bin apart, with large amplitudes that
cancel. Such a pair tells less than one line: neither of its amplitudes is known. Where the noise is local to each
window, pairs of which one amplitude is not known to a tenth of itself therefore become one tone each, at the mean of
their places weighted with their amplitudes, and all tones are fitted again. Peaks that this leaves are taken as tones
if they are far enough from all others to be resolved.

Two kinds of places are left as they are, since tones that the data do not need were taken out there as they are in
white noise: crowds (`crowds.py`), whose noise is known, and tones of moderate strength where the floor is that of the
quiet parts of the spectrum. A series may be red at its lowest frequencies only, and its close pairs far from there are
as good as those of a white one. The foot of a line shows over a quiet floor only if the line is strong.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.bands.fisher import joint_covariance
from slotflow.bands.floor import stands_high
from slotflow.bands.found import FoundTones
from slotflow.bands.spectrum_fit import SpectrumFit
from slotflow.core.arrays import Array
from slotflow.signal.fit import linear_amplitudes
from slotflow.signal.likelihood import Likelihood

__all__ = ["as_lines"]

UNRESOLVED = 1.25
"""Distance in bins below which two tones are no lines of their own."""
KNOWN = 10.0
"""Amplitude over its standard deviation from which on it is known."""
STRONG = 5000.0
"""Power of a tone over the noise, a hundred standard deviations of its amplitude, from which on a modulation by a few
percent shows."""
FAR = 5.0
"""Distance in bins from which on two pairs are merged at once: they hardly change each other."""
ROUNDS = 4
"""Rounds of merging and of looking at what is left, at most."""


def as_lines(
    likelihood: Likelihood, found: FoundTones, band: tuple[float, float], deadline: float
) -> FoundTones:
    """What a search found, with one tone for each pair that is not known to be one.

    Args:
        likelihood: Of one signal.
        found: The search's tones, at their joint maximum.
        band: Lowest and highest frequency in Hz.
        deadline: When to end, on the clock of `time.perf_counter`.
    """
    tones = SpectrumFit(likelihood, band, deadline)
    tones.theta, tones.known_level = found.theta, found.known_level
    for _ in range(ROUNDS):
        merged = _merged(tones, found)
        if not merged and np.array_equal(tones.theta, found.theta):
            return found
        more = tones.candidates()
        apart = np.abs(more[:, None] - tones.places).min(1, initial=np.inf)
        more = more[apart > UNRESOLVED * likelihood.bin]
        if not len(more) or tones.out_of_time:
            break
        tones.add(more)
    _merged(tones, found)
    tones.settle()
    old = likelihood.waveform.place_of(found.theta)
    nearest = np.abs(tones.places[:, None] - old).argmin(1)
    return dataclasses.replace(found, theta=tones.theta, significance=found.significance[nearest])


def _merged(tones: SpectrumFit, found: FoundTones) -> bool:
    """Makes one tone of each pair that is not known to be two; whether there was any."""
    before = len(tones.theta)
    while len(tones.theta) > 1 and not tones.out_of_time:
        pairs = _doubtful_pairs(tones, found)
        if not pairs:
            break
        place, weight = tones.places, tones.waveform.of(tones.theta, "amplitude")
        middles = [float(np.average(place[i : i + 2], weights=weight[i : i + 2])) for i in pairs]
        left = np.delete(place, [k for i in pairs for k in (i, i + 1)])
        places = np.sort(np.concatenate([left, middles]))
        start = linear_amplitudes(tones.likelihood, torch.from_numpy(places[None]))
        tones.theta = start[0].numpy()
        tones.settle()
    return len(tones.theta) < before


def _doubtful_pairs(tones: SpectrumFit, found: FoundTones) -> list[int]:
    """Pairs (i, i + 1) that are not known to be two, the least known first; those near another one wait for it."""
    width, place = tones.likelihood.bin, tones.places
    known = _known(tones.likelihood, found, tones.theta)
    level = np.interp(place, tones.frequencies, tones.known_level)  # NaN outside crowds
    close = (np.diff(place) < UNRESOLVED * width) & np.isnan(level[1:] + level[:-1])
    foot = _may_have_a_foot(tones, found)
    close &= foot[1:] | foot[:-1]
    doubtful = np.where(close, np.minimum(known[1:], known[:-1]), np.inf)
    pairs: list[int] = []
    for i in np.argsort(doubtful, kind="stable"):
        if doubtful[i] >= KNOWN:
            break
        if all(abs(place[i] - place[other]) > FAR * width for other in pairs):
            pairs.append(int(i))
    return pairs


def _may_have_a_foot(tones: SpectrumFit, found: FoundTones) -> NDArray[np.bool_]:
    """Which tones, (K,), stand over a raised floor or are so strong that a slight modulation of them would show."""
    place, level = tones.places, found.level**2
    raised = np.interp(place, found.frequencies, stands_high(level)) > 0
    energy = np.interp(place, tones.frequencies, tones.energy)
    power = 0.25 * tones.waveform.of(tones.theta, "amplitude") ** 2 * energy
    strong: NDArray[np.bool_] = power > STRONG * np.interp(place, found.frequencies, level)
    return raised | strong


def _known(likelihood: Likelihood, found: FoundTones, theta: Array) -> Array:
    """Amplitudes of tones (K, P) over their standard deviations with all others unknown, (K,)."""
    waveform, k = likelihood.waveform, len(theta)
    z, covariance = likelihood.to_z(theta), joint_covariance(likelihood, theta)
    first, size, every = len(waveform.shape), waveform.coordinates, np.arange(k)
    blocks = covariance.reshape(k, size, k, size)[every, first:, every, first:]
    c = z[:, first:]
    squared = (c**2).sum(1)
    spread = np.einsum("ki,kij,kj->k", c, blocks, c) / squared  # along c, for σ = 1
    level = np.interp(waveform.place_of(theta), found.frequencies, found.level)
    ratio: Array = np.sqrt(squared / spread) / level
    return ratio
