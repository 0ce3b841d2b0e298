"""How a band is cut into windows: cores that meet at borders, and a guard on either side of each core."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass

import numpy as np

from slotflow.bands.core_draws import STRIP, without
from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["LARGEST_SHIFT", "LAYOUTS", "Layout", "at_gaps", "cut"]

LARGEST_SHIFT = 10.0
"""Largest way of a border to the widest gap, in bins."""
LAYOUTS = ((90.0, 20.0), (45.0, 20.0), (22.0, 20.0), (22.0, 10.0), (12.0, 10.0))
"""Widest core and guard in bins; narrower ones where a window would hold as many tones as its prior allows."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The windows of a band."""

    observation: Observation
    """The data."""
    prior: Prior
    """That of the band."""
    borders: Array
    """Edges of the cores in Hz, (W + 1,)."""
    guard: float
    """How far on either side of its core a window reaches, in Hz."""

    @property
    def cores(self) -> list[tuple[float, float]]:
        """Lower and upper edge of each core in Hz."""
        return [(float(a), float(b)) for a, b in itertools.pairwise(self.borders)]

    def view(self, i: int, tones: list[Array]) -> tuple[Observation, Prior]:
        """What window i is asked: the data without the tones far from its core, and the prior of core and guard.

        Args:
            i: The window.
            tones: Parameters of the tones in each core, (k, P) each.
        """
        duration, (low, high) = self.observation.long.duration, self.prior.frequency
        a, b = self.cores[i]
        reach = self.guard - STRIP / duration
        none = np.zeros((0, TONE.size))
        others = np.concatenate([none, *(t for j, t in enumerate(tones) if j != i)])
        place = TONE.place_of(others)
        far = others[(place < a - reach) | (place > b + reach)]
        edges = max(low, a - self.guard), min(high, b + self.guard)
        k_max = self.prior.k_max
        if self.prior.min_separation > 0:  # as many as fit, and no more than stated
            room = math.ceil((edges[1] - edges[0]) / self.prior.min_separation)
            k_max = max(1, min(k_max, room))
        probs = self.prior.k_probs
        own = dataclasses.replace(
            self.prior,
            frequency=edges,
            k_max=k_max,
            k_probs=None if probs is None else probs[: k_max + 1],
        )
        return without(self.observation, far), own


def cut(observation: Observation, prior: Prior, places: Array) -> Layout:
    """Windows that hold fewer tones than a window's prior allows, as far as the narrowest layout can.

    Args:
        observation: The data.
        prior: That of the band.
        places: Frequencies of the tones in Hz, (K,).
    """
    duration, (low, high) = observation.long.duration, prior.frequency
    for core, guard in LAYOUTS:
        nominal = np.linspace(low, high, math.ceil((high - low) * duration / core) + 1)
        borders = at_gaps(nominal, places, min(LARGEST_SHIFT, core / 4) / duration)
        reach = guard / duration
        held = [
            ((places >= a - reach) & (places <= b + reach)).sum()
            for a, b in itertools.pairwise(borders)
        ]
        if max(held) < prior.k_max:
            break
    return Layout(observation, prior, borders, reach)


def at_gaps(nominal: Array, places: Array, shift: float) -> Array:
    """Borders (W + 1,), the inner ones in the middle of the widest gap between tones within reach.

    Args:
        nominal: Borders at equal distances, in Hz, (W + 1,).
        places: Frequencies of the tones in Hz, (K,).
        shift: How far a border may move, in Hz.
    """
    borders = nominal.copy()
    for i in range(1, len(nominal) - 1):
        low, high = nominal[i] - shift, nominal[i] + shift
        near = np.sort(places[(places > low) & (places < high)])
        edges = np.concatenate([[low], near, [high]])
        if len(near):
            widest = int(np.diff(edges).argmax())
            borders[i] = edges[widest : widest + 2].mean()
    return borders
