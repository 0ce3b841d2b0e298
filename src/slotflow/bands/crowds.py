r"""Crowds: stretches of a spectrum in which tones hide each other, so that what looks like a noise floor are tones.

Where there is a tone in every few bins, the spectrum between the peaks is made of their main lobes, and no peak stands
out of a floor that is local in frequency. Such a stretch stands high above the quietest parts of the spectrum, but so
does red noise. Only a joint fit tells the two apart. In stretches that stand high (`floor.stands_high`) above the quiet
parts, whose level is q (the median of all that stands lower), the search therefore goes on as if the noise were q:
peaks are taken, the strongest few at a time, and fitted until none exceeds the threshold over q. Then tones that are
not needed are taken out (`pruning.py`). In pieces of m bins of 1/T, with S and S' the mean power of a piece before and
after, the logarithm of the likelihood of noise with a level of its own in each piece has grown by

.. math:: \sum m \ln (S / S') ,

and K' more tones must have gained about z K', z being the power over a known noise that a single tone needs (`GAINS`).
Tones that were fitted to noise gain less, half to two thirds of that at most densities, until they are so many that
they fit anything (`MOST_IN_A_BIN`). Both bounds were chosen on simulated noise with a level of up to 300 q between two
frequencies, of which none passed, and on simulated crowds of up to 90 tones in 120 bins. Where this fails, the stretch
is left as it was: its floor is noise.

Peaks are taken in several ways (`WAYS`), some of which end in wrong places; the one with the smallest RSS/2q + zK is
kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slotflow.bands.floor import stands_high
from slotflow.bands.pruning import prune
from slotflow.bands.spectrum_fit import MOST_TONES, POINTS_PER_BIN, SpectrumFit
from slotflow.core.arrays import Array

__all__ = ["search_crowds"]

NARROWEST = 10.0
"""Bins of a crowd at least."""
PIECE = 10.0
"""Width in bins of pieces with a noise level of their own."""
LEAST_LEFT = 0.3
"""Mean power of a piece over the noise's that tones leave at least, however many they are."""
MOST_IN_A_BIN = 0.5
"""Tones for each bin of a crowd at most."""
MOST_ON_THE_WAY = 0.8
"""The same before those that are not needed are taken out."""
WAYS = ((3.0, 0.7), (3.0, 0.5), (1.0, 0.0))
"""Distance in bins of peaks that are taken at once, and smallest amplitude of one over that of the strongest: what the
strongest peaks of a crowd leave, once they are fitted, tells whether the others are tones or what these leaked."""
MOST_ROUNDS = 80
"""Rounds at most."""
GAINS = (0.15, 0.55, 0.88)
"""Gain of each tone in units of z that is asked for on the way, when no peak is left, and after pruning."""


def search_crowds(tones: SpectrumFit, report: Callable[[int], None] | None = None) -> bool:
    """Goes on with the search where what is left may be tones that hide each other; says whether it came to its end.

    Args:
        tones: What an ordinary search has found; it has the tones of the crowds afterwards.
        report: Called with the number of tones after each round.
    """
    tones.spectra()
    level = tones.level**2
    high = stands_high(level)
    stretches = [run for run in _runs(high) if run.stop - run.start >= NARROWEST * POINTS_PER_BIN]
    if not stretches or _exhausted(tones):
        return not stretches
    before, power, quiet = tones.theta.copy(), tones.power(), float(np.median(level[~high]))
    best: tuple[float, Array, Array, bool] | None = None
    for apart, comparable in WAYS:
        if best is not None and time.perf_counter() > 0.5 * (tones.began + tones.deadline):
            break  # another way might not come to its end
        tones.theta, tones.tried = before.copy(), np.zeros(0)
        tones.known_level = np.full_like(power, np.nan)
        for stretch in stretches:
            tones.known_level[stretch] = quiet
        ended = _one_way(tones, before, power, stretches, (apart, comparable), report)
        score = 0.5 * tones.rss / quiet + tones.cost * len(tones.theta)
        if best is None or score < best[0]:
            best = score, tones.theta, tones.known_level, ended
    assert best is not None
    _, tones.theta, tones.known_level, ended = best
    return ended


def _one_way(
    tones: SpectrumFit,
    before: Array,
    power: Array,
    stretches: list[slice],
    way: tuple[float, float],
    report: Callable[[int], None] | None,
) -> bool:
    """Takes the peaks of crowds in one way (`WAYS`); says whether it came to its end.

    Args:
        tones: What was found before; it has the tones of the crowds afterwards.
        before: The same, (K, P).
        power: P(f) of what these leave, (F,).
        stretches: Parts of the grid that may be crowds.
        way: Distance in bins of peaks that are taken at once, and how weak the weakest may be.
        report: Called with the number of tones after each round.
    """
    ended = False
    for _ in range(MOST_ROUNDS):
        candidates = tones.candidates(*way)
        ended = not len(candidates)
        if ended or _exhausted(tones):
            break
        tones.add(candidates)
        if report is not None:
            report(len(tones.theta))
        stretches = _kept(tones, before, power, stretches, GAINS[0], MOST_ON_THE_WAY)
        if not stretches:
            return True
    tones.settle()
    if stretches := _kept(tones, before, power, stretches, GAINS[1], MOST_ON_THE_WAY):
        prune(tones)
        _kept(tones, before, power, stretches, GAINS[2], MOST_IN_A_BIN)
    return ended


def _exhausted(tones: SpectrumFit) -> bool:
    """Whether there is no time, or no room for more tones."""
    return tones.out_of_time or len(tones.theta) >= MOST_TONES


def _runs(chosen: NDArray[np.bool_]) -> list[slice]:
    """Runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _kept(
    tones: SpectrumFit,
    before: Array,
    power: Array,
    stretches: list[slice],
    share: float,
    density: float,
) -> list[slice]:
    """The stretches in which more tones pay; in the others everything is as it was before.

    Args:
        tones: What was found.
        before: Tones before that, (K, P).
        power: P(f) before that, (F,).
        stretches: Parts of the grid to look at.
        share: Of its cost that a tone must gain.
        density: Tones for each bin at most.
    """
    left, bins = tones.power(), tones.frequencies / tones.likelihood.bin
    kept: list[slice] = []
    given_up: list[slice] = []
    for stretch in stretches:
        m = bins[stretch.stop - 1] - bins[stretch][0]
        now, then = (_inside(tones, theta, stretch).sum() for theta in (tones.theta, before))
        gain = _gain(power[stretch], left[stretch], tones.known_level[stretch], m)
        pays = gain >= share * tones.cost * (now - then) and now <= density * m
        (kept if pays else given_up).append(stretch)
    for stretch in given_up:
        tones.known_level[stretch] = np.nan
        old = before[_inside(tones, before, stretch)]
        new = tones.theta[~_inside(tones, tones.theta, stretch)]
        tones.theta = tones.waveform.sorted(np.concatenate([new, old]))
    if given_up and kept:
        tones.settle()
    elif given_up:
        tones.theta = before
    return kept


def _gain(before: Array, after: Array, level: Array, bins: float) -> float:
    """Growth of the logarithm of the likelihood with a noise level of its own in each piece of a stretch.

    Args:
        before: P(f) of what fewer tones leave, (F',).
        after: P(f) of what is left now, (F',).
        level: Of the noise, (F',), which no fit can undercut by much.
        bins: Width of the stretch in 1/T.
    """
    pieces = max(round(bins / PIECE), 1)
    total = 0.0
    for old, new, floor in zip(
        *(np.array_split(each, pieces) for each in (before, after, level)), strict=True
    ):
        least = LEAST_LEFT * floor.mean()
        total += np.log(max(old.mean(), least) / max(new.mean(), least))
    return float(bins / pieces * total)


def _inside(tones: SpectrumFit, theta: Array, stretch: slice) -> NDArray[np.bool_]:
    """Which tones of (K, P) lie in a part of the grid, (K,)."""
    f, place = tones.frequencies[stretch], tones.waveform.place_of(theta)
    found: NDArray[np.bool_] = (place >= f[0]) & (place <= f[-1])
    return found
