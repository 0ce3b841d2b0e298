"""Where the windows of a band lie: cores around clusters of tones, and a guard on either side of each core.

A core reaches `MARGIN` bins beyond the outermost tones of its cluster; tones whose cores would come closer than
`ALONE` bins belong to one cluster. A cluster of many tones is cut at its widest gaps until each core holds a few and
each window, guards included, fewer than its prior allows; cores then meet in the middle of a gap, and either window has
a guard there. A core that no other one meets needs none. What lies between clusters belongs to no window: the search
has found nothing there.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass

import numpy as np

from slotflow.bands.core_draws import STRIP
from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["LAYOUTS", "MARGIN", "Layout", "cut", "empty_layout"]

Edges = tuple[float, float]

MARGIN = 20.0
"""Bins that a core reaches beyond its outermost tones, as far as there is room."""
ALONE = 20.0
"""Fewest bins between two cores that do not meet."""
LAYOUTS = ((6, 10.0), (4, 10.0), (4, 6.0), (2, 6.0), (1, 6.0), (1, 4.5))
"""Most tones of a core and guard in bins, the most comfortable first."""
WIDEST = 60.0
"""Most bins between the outermost tones of a core: with margins or guards a window has 130 at most."""
EMPTY_CORE = 45.0
"""Half width in bins of the core of a band in which nothing was found."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The windows of a band."""

    observation: Observation
    """The data."""
    prior: Prior
    """That of the band."""
    cores: list[Edges]
    """Lower and upper edge of each core in Hz, rising; cores do not overlap, and may meet."""
    guard: float
    """How far on either side of its core a window reaches, in Hz."""
    empty: bool = False
    """Whether nothing was found: the one window lies where a tone is least unlikely."""

    @property
    def gaps(self) -> list[Edges]:
        """What belongs to no core: lower and upper edges in Hz."""
        low, high = self.prior.frequency
        ends = [low, *itertools.chain.from_iterable(self.cores), high]
        return [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if b > a]

    def prior_of(self, i: int) -> Prior:
        """The prior of core and guard of window i."""
        (low, high), (a, b) = self.prior.frequency, self.cores[i]
        before, after = (
            a in (core[1] for core in self.cores),
            b in (core[0] for core in self.cores),
        )
        edges = (
            max(low, a - self.guard) if before else a,
            min(high, b + self.guard) if after else b,
        )
        return self._prior_between(edges)

    def far_and_near(self, i: int, tones: list[Array]) -> tuple[Array, Array]:
        """The tones of other cores beyond the reach of window i, and all others, (k, P) each.

        Args:
            i: The window.
            tones: Parameters of the tones in each core, (k, P) each.
        """
        a, b = self.cores[i]
        reach = self.guard - STRIP / self.observation.long.duration
        none = np.zeros((0, TONE.size))
        others = np.concatenate([none, *(t for j, t in enumerate(tones) if j != i)])
        place = TONE.place_of(others)
        beyond = (place < a - reach) | (place > b + reach)
        return others[beyond], np.concatenate([others[~beyond], tones[i]])

    def _prior_between(self, edges: Edges) -> Prior:
        """The prior of a window."""
        k_max, probs = self.prior.k_max, self.prior.k_probs
        if self.prior.min_separation > 0:  # as many as fit, and no more than stated
            room = math.ceil((edges[1] - edges[0]) / self.prior.min_separation)
            k_max = max(1, min(k_max, room))
        if self.empty and probs is None:
            # Any tone of the band lies in this window with the probability of its share of the band.
            band = self.prior.frequency[1] - self.prior.frequency[0]
            share = ((edges[1] - edges[0]) / band) ** np.arange(k_max + 1)
            probs = tuple((share / share.sum()).tolist())
        elif probs is not None:
            probs = probs[: k_max + 1]
        return dataclasses.replace(self.prior, frequency=edges, k_max=k_max, k_probs=probs)


def cut(observation: Observation, prior: Prior, places: Array) -> Layout:
    """Windows around tones that hold fewer of them than a window's prior allows, as far as the narrowest layout can.

    Args:
        observation: The data.
        prior: That of the band.
        places: Frequencies of the tones in Hz, (K,), at least one.
    """
    duration, places = observation.long.duration, np.sort(places)
    for most, guard in LAYOUTS:
        cores = _cores(places * duration, most)
        cores = [_within(core, duration, prior.frequency) for core in cores]
        reach = guard / duration
        held = [((places >= a - reach) & (places <= b + reach)).sum() for a, b in cores]
        if max(held) < prior.k_max:
            break
    return Layout(observation, prior, cores, reach)


def empty_layout(observation: Observation, prior: Prior, place: float) -> Layout:
    """One window around a frequency in Hz, for a band in which nothing was found."""
    duration = observation.long.duration
    core = (place * duration - EMPTY_CORE, place * duration + EMPTY_CORE)
    edges = _within(core, duration, prior.frequency)
    return Layout(observation, prior, [edges], LAYOUTS[0][1] / duration, empty=True)


def _within(core: Edges, duration: float, band: Edges) -> Edges:
    """A core given in bins, in Hz and inside the band."""
    return max(core[0] / duration, band[0]), min(core[1] / duration, band[1])


def _cores(places: Array, most: int) -> list[Edges]:
    """Cores in bins around sorted places in bins, (K,), each with at most so many of them."""
    found: list[Edges] = []
    for cluster in np.split(places, 1 + np.flatnonzero(np.diff(places) > 2 * MARGIN + ALONE)):
        parts = _parts(cluster, most)
        inner = [0.5 * (a[-1] + b[0]) for a, b in itertools.pairwise(parts)]
        borders = [float(cluster[0] - MARGIN), *map(float, inner), float(cluster[-1] + MARGIN)]
        found += itertools.pairwise(borders)
    return found


def _parts(places: Array, most: int) -> list[Array]:
    """Sorted places in runs of at most so many and not too wide, cut at the widest gaps first."""
    if len(places) <= most and places[-1] - places[0] <= WIDEST:
        return [places]
    cutting = 1 + int(np.diff(places).argmax())
    return _parts(places[:cutting], most) + _parts(places[cutting:], most)
