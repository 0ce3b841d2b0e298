"""Bands and shapes of components that are no tones, where they are not stated: as much as can be shown and analysed.

A chirp, a decay or a harmonic series reaches beyond its place, and real samples show it between 0 and the Nyquist
frequency alone. What is stated stays as it is. Of the rest,

- the **shapes** that a waveform suggests are as wide as usual, or the largest share of that at which the band holds
  what stands out of the spectrum: a tone at bin 5 leaves room for a drift of ten bins;
- the **band** is the derived one, as far as components in it stay between these frequencies. Where it is wide, it is
  the part around what stands out: 300 bins take seconds, and the time goes with the third power of the width.

**What stands out** are runs of neighbouring bins above the noise, each one line at the middle of its power, as a drift
makes them. Where components have harmonics, fundamentals are the places that collect the most power of lines at their
multiples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slotflow.data.channel import Channel
from slotflow.data.noise_level import median_power
from slotflow.data.observation import Observation
from slotflow.data.preprocess import FALSE_ALARM, LEAKAGE, LOWEST_BIN, Band, spectrum_of
from slotflow.data.trend import scaled, without_line
from slotflow.exact.family.layout import members_of
from slotflow.infer.fill import Fields
from slotflow.infer.statement import Statement
from slotflow.posterior.assumed import DATA, STATED
from slotflow.signal.likelihood.compressed import bins_needed, shown_by
from slotflow.signal.waveforms import Waveform, suited

__all__ = ["fill_reach"]

Bounds = tuple[float, float]

SHARES = (1.0, 0.75, 0.5, 0.25, 1 / 12)
"""Shares of the usual shapes that are tried; at the last one a component reaches hardly more than a bin."""
EASY, WIDEST = 300.0, 600.0
"""Bins that are analysed in seconds, and the most that are analysed where the band is not stated."""
MARGIN = 1.0
"""Bins beside a line that belong to it."""
BESIDE = 10.0
"""Bins beside the outermost lines that a wide band holds at least."""
RUN = 5
"""Bins between two peaks up to which they are of one line."""
MOST_LINES = 40
"""Lines that are looked at, the strongest ones."""
NEAR, NEAR_SHARE = 1.5, 0.25
"""Distance of a line from a multiple of a fundamental, in bins, and as a share of the fundamental, at most."""
AS_GOOD = 0.9
"""Share of the largest power that a fundamental may collect, and of as good ones the highest is taken."""


class _Line(NamedTuple):
    """Something that stands out."""

    place: float
    """In Hz."""
    power: float
    """Over the noise's, summed over its bins."""


class _Reach:
    """Where the places of components of a waveform may lie.

    Args:
        waveform: What a component is.
        observation: The data.
    """

    def __init__(self, waveform: Waveform, observation: Observation) -> None:
        self.waveform, self.observation = waveform, observation
        self.duration = observation.long.duration
        self.low, self.high = shown_by(observation)

    def holds(self, band: Bounds) -> bool:
        """Whether components with places in a band stay within what the samples show."""
        every = self.waveform.occupied(band, self.duration)
        return self.low <= min(a for a, _ in every) and max(b for _, b in every) <= self.high

    def room(self, band: Bounds) -> Bounds:
        """The part of a band in which they do; lower > upper where there is none."""
        # Every interval that a place occupies moves in proportion to it.
        zero, one = (
            [pair for m in members_of(self.waveform) for pair in m.occupied((f, f), self.duration)]
            for f in (0.0, 1.0)
        )
        low = max((self.low - a) / (c - a) for (a, _), (c, _) in zip(zero, one, strict=True))
        high = min((self.high - b) / (d - b) for (_, b), (_, d) in zip(zero, one, strict=True))
        return _rounded((max(low, band[0]), min(high, band[1])), band, self.duration)

    def stretch(self, room: Bounds, lines: Sequence[_Line]) -> Bounds:
        """The part of the room around lines, the strongest first, that is not too wide to be analysed."""
        if self._bins(room) <= EASY:
            return room
        centre, pad = lines[0].place, BESIDE / self.duration
        held = sorted((line.place for line in lines), key=lambda f: abs(f - centre))

        def around(beside: float) -> Bounds:
            return max(room[0], min(held) - beside), min(room[1], max(held) + beside)

        while len(held) > 1 and self._bins(around(pad)) > WIDEST:
            held.pop()
        most, widest = max(EASY, self._bins(around(pad))), room[1] - room[0]
        while widest - pad > 0.5 / self.duration:
            beside = 0.5 * (pad + widest)
            pad, widest = (beside, widest) if self._bins(around(beside)) <= most else (pad, beside)
        return _rounded(around(pad), room, self.duration)

    def _bins(self, band: Bounds) -> float:
        """How many bins of 1/T components with places in a band need."""
        return bins_needed(self.waveform.occupied(band, self.duration), self.observation)


def fill_reach(
    observation: Observation,
    stated: Statement,
    given: Fields,
    sources: dict[str, str],
    proposed: Band | None,
) -> tuple[Band | None, tuple[str, ...]]:
    """Bounds of what is not stated within which components can be analysed.

    Args:
        observation: The data.
        stated: What the user says.
        given: Fields of the prior; frequency and waveform are changed where they are not stated.
        sources: Where the parts of the prior come from; that of the band is changed with it.
        proposed: The proposal behind the band, if there is one.

    Returns:
        The proposal behind the band that is left, and what to say of the shapes.
    """
    text, duration, band = stated.waveform, observation.long.duration, given["frequency"]
    waveforms = [given["waveform"]]
    if isinstance(text, str):
        waveforms = list(dict.fromkeys(suited(text, duration, share) for share in SHARES))
    reaches = [_Reach(waveform, observation) for waveform in waveforms]
    usual = reaches[0]
    notes: tuple[str, ...] = ()
    if sources["frequency"] == STATED:
        chosen = next((reach for reach in reaches if reach.holds(band)), usual)
    else:
        lines, ratio, significant = _lines(observation.long, band)
        most = max(member.amplitudes for member in members_of(usual.waveform))
        lines = _fundamentals(lines, most, band, 1 / duration)
        rooms = [reach.room(band) for reach in reaches]
        held = [_held(room, lines, band, duration) for room in rooms]
        best = held.index(max(held)) if max(held) > 0 else -1
        chosen, room = reaches[best], rooms[best]
        if not room[0] < room[1]:  # refused later, with all words
            return proposed, ()
        inside = [line for line in lines if room[0] <= line.place <= room[1]]
        inside = inside or [lines[0]._replace(place=min(max(lines[0].place, room[0]), room[1]))]
        found = chosen.stretch(room, inside)
        if found != band:
            given["frequency"], sources["frequency"] = found, DATA
            proposed = Band(*found, inside[0].place, ratio, significant)
            outside = [line for line in lines if not found[0] <= line.place <= found[1]]
            if significant and outside:
                notes += (
                    f"{outside[0].place:.6g} Hz stands out too, and lies outside the proposed band; state a band that "
                    "holds it to have it analysed",
                )
    given["waveform"] = chosen.waveform
    if chosen is not usual:
        notes += (
            f"assumed {chosen.waveform.text}, less than usual, so that components stay between {chosen.low:g} and "
            f"{chosen.high:.6g} Hz; state the settings or the band if they are wrong",
        )
    return proposed, notes


def _held(room: Bounds, lines: Sequence[_Line], band: Bounds, duration: float) -> float:
    """Power of the lines that a room within a band holds."""
    beside = MARGIN / duration
    return sum(
        line.power
        for line in lines
        if room[0] <= max(line.place - beside, band[0])
        and min(line.place + beside, band[1]) <= room[1]
    )


def _lines(channel: Channel, band: Bounds) -> tuple[list[_Line], float, bool]:
    """What stands out of the spectrum in a band, the strongest first, its highest power and whether it is significant.

    Where nothing is, the strongest bin stands in for it.
    """
    power, step = spectrum_of(channel, scaled(without_line(channel))[1])
    f = step * np.arange(len(power))
    if channel.is_complex:
        f = step * len(power) * np.fft.fftshift(np.fft.fftfreq(len(power)))
        power = np.fft.fftshift(power)
    else:
        power[:LOWEST_BIN] = 0.0
    level = max(float(median_power(power)), 1e-30)
    inside = (f >= band[0]) & (f <= band[1])
    if not inside.any():
        return [_Line(0.5 * (band[0] + band[1]), 0.0)], 0.0, False
    f, power = f[inside], power[inside] / level
    highest = float(power.max())
    threshold = max(math.log(len(power) / FALSE_ALARM), LEAKAGE * highest)
    bins = np.flatnonzero(power > threshold)
    if not len(bins):
        return [_Line(float(f[power.argmax()]), highest)], highest, False
    runs = np.split(bins, np.flatnonzero(np.diff(bins) > RUN) + 1)
    lines = [
        _Line(float(np.average(f[run], weights=power[run])), float(power[run].sum()))
        for run in runs
    ]
    lines.sort(key=lambda line: -line.power)
    return lines[:MOST_LINES], highest, True


def _fundamentals(lines: list[_Line], most: int, band: Bounds, bin: float) -> list[_Line]:
    """Lines that explain all others as their multiples, the strongest first; the lines themselves of a single tone.

    Args:
        lines: What stands out.
        most: The largest number of harmonics.
        band: Bounds of fundamentals, in Hz.
        bin: 1/T in Hz.
    """
    if most == 1:
        return lines

    def explains(f: float, line: _Line) -> bool:
        j = round(line.place / f)
        near = min(NEAR * bin, NEAR_SHARE * abs(f))
        return 1 <= j <= most and abs(line.place - j * f) <= near

    found, left = [], lines
    while left:
        tried = [line.place / j for line in left for j in range(1, most + 1)]
        sums = {
            f: sum(line.power for line in left if explains(f, line))
            for f in tried
            if f and band[0] <= f <= band[1]
        }
        top = max(sums.values(), default=0.0)
        if not top > 0:
            break
        best = max((f for f, total in sums.items() if total >= AS_GOOD * top), key=abs)
        found.append(_Line(best, sums[best]))
        left = [line for line in left if not explains(best, line)]
    return found or lines


def _rounded(edges: Bounds, within: Bounds, duration: float) -> Bounds:
    """Edges that are not those of a wider band, rounded inwards to a tenth of a bin or less."""
    scale = 10.0 ** max(0, 1 + math.ceil(math.log10(duration)))
    low = edges[0] if edges[0] == within[0] else math.ceil(edges[0] * scale) / scale
    high = edges[1] if edges[1] == within[1] else math.floor(edges[1] * scale) / scale
    return low, high
