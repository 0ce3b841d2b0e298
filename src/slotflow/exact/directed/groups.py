"""Groups of close tones, and one slowly changing component that may stand in for each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.directed.envelopes import (
    CHIRP,
    DAMPED,
    MODULATED,
    Component,
    Envelope,
    periodic,
)
from slotflow.exact.directed.slow import Slow

__all__ = ["clusters", "envelopes_for", "may_be_one", "runs", "stand_in"]

LINK = 3.3
"""Distance of two neighbours of a group at most, in bins."""
BLENDED = 2.4
"""Distance of two neighbours in bins above which only sidebands of one tone may be that far apart."""
WIDEST = 8.0
"""Width of a group at most, in bins."""
MOST_TONES = 6
"""Tones of a group at most."""


def clusters(places: Array, bin: float) -> list[tuple[int, ...]]:
    """Numbers of tones that neighbours link, two or more each, among places in Hz, sorted, (K,)."""
    found: list[list[int]] = [[0]] if len(places) else []
    for j, gap in enumerate(np.diff(places) / bin, start=1):
        if gap < LINK:
            found[-1].append(j)
        else:
            found.append([j])
    return [tuple(one) for one in found if len(one) > 1]


def runs(cluster: tuple[int, ...], places: Array, bin: float) -> Iterator[tuple[int, ...]]:
    """Neighbours in a cluster that may be one component, the largest sets first."""
    for size in range(min(MOST_TONES, len(cluster)), 1, -1):
        for first in range(len(cluster) - size + 1):
            own = cluster[first : first + size]
            if (places[own[-1]] - places[own[0]]) / bin < WIDEST:
                yield own


def may_be_one(cluster: tuple[int, ...], places: Array, bin: float) -> bool:
    """Whether there is anything that some neighbours of a cluster may be as one (`envelopes_for`)."""
    return any(
        len(own) >= 3 or np.diff(places[list(own)]).max() / bin < BLENDED
        for own in runs(cluster, places, bin)
    )


def envelopes_for(tones: Sequence[Component], bin: float) -> list[Envelope]:
    """What some tones, sorted by place, may be as one; three or more also a periodic modulation."""
    places = np.array([one.frequency for one in tones]) / bin
    near = len(tones) < 2 or np.diff(places).max() < BLENDED
    found = [CHIRP, DAMPED, *MODULATED] if near else []
    if len(tones) >= 3:
        found.append(periodic((places[-1] - places[0]) / 2))
    return found


def stand_in(slow: Slow, tones: Sequence[Component], envelope: Envelope) -> Component:
    """One changing component that resembles a sum of tones: its frequency and change by moments of the sum."""
    times = slow.data.times
    strength = np.array([abs(one.c) ** 2 for one in tones])
    carrier = float(strength @ [one.frequency for one in tones]) / float(strength.sum())
    slow_tones = [replace(one, frequency=one.frequency - carrier) for one in tones]
    total = slow.total(slow_tones)
    slope = slow.total([replace(one, c=2j * np.pi * one.frequency * one.c) for one in slow_tones])
    weight = np.abs(total) ** 2
    weight /= max(float(weight.sum()), 1e-300)
    late = times - weight @ times
    turning = np.imag(slope * total.conj()) / (
        2 * np.pi * max(float((np.abs(total) ** 2).sum()), 1e-300)
    )
    frequency = carrier + float(turning.sum())
    if envelope is CHIRP:
        drift = float(turning @ late) / max(float(weight @ late**2), 1e-300)
        x = np.array([math.pi * drift * (times[-1] - times[0]) ** 2 / 6])
        frequency -= drift * float(weight @ times)
    else:
        logs = np.log(np.maximum(np.abs(total), 0.05 * float(np.abs(total).max())))
        columns = np.concatenate([np.ones((1, len(times))), slow.exponents(envelope).real])
        table = columns.T * np.sqrt(weight)[:, None]
        x = np.linalg.lstsq(table, logs * np.sqrt(weight), rcond=None)[0][1:]
    b = slow.function(Component(frequency - carrier, 1.0, envelope, x))
    c = complex(np.vdot(b, total) / max(float((np.abs(b) ** 2).sum()), 1e-300))
    return Component(frequency, c, envelope, x)
