"""How data were sampled and where they were searched, in words, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slotflow.core.units import TIME_UNITS, FrequencyUnit, natural_unit
from slotflow.data.channel import Channel

if TYPE_CHECKING:
    from slotflow.posterior.facts import EmptyRegion
    from slotflow.posterior.posterior import Posterior

__all__ = ["empty_words", "noise_unit", "sampling_words", "time_words"]

GAP = 1.5
"""Steps of an uneven series that are longer than this many median ones are gaps."""


def noise_unit(post: Posterior) -> str:
    """What stands behind the noise level of a posterior: its unit, or that it is a multiple of the samples' errors."""
    if post.has_data and post.observation.long.errors is not None:
        return " × the errors"
    return f" {post.unit}" if post.unit else ""


def empty_words(
    regions: Sequence[EmptyRegion], data_unit: str, unit: FrequencyUnit, most: int | None = None
) -> str:
    """Where nothing was found, and how large a tone would have been found there.

    Args:
        regions: The empty regions, one at least.
        data_unit: Of the amplitudes.
        unit: Of the frequencies.
        most: Regions that are named, the widest of them; all if None.
    """
    named = sorted(regions, key=lambda region: region.low - region.high)[:most]
    behind = f" {data_unit}" if data_unit else ""
    texts = [
        f"{unit.span(region.low, region.high, 5)} above {region.amplitude:.3g}{behind}"
        for region in sorted(named)
    ]
    if rest := len(regions) - len(named):
        texts.append(f"and {rest} smaller region{'' if rest == 1 else 's'}")
    return f"Searched without finding a tone: {'; '.join(texts)}"


def time_words(seconds: float, time_unit: str = "s", digits: int = 6) -> str:
    """A time in the unit in which the file counts, such as 26.98 d; in seconds where that is another."""
    unit = time_unit if time_unit in TIME_UNITS else "s"
    return f"{seconds / TIME_UNITS[unit]:.{digits}g} {unit}"


def sampling_words(channel: Channel) -> str:
    """Number of samples, step, length and what is known of them, in the unit in which the file counts time."""
    unit, nyquist = channel.time_unit, natural_unit(channel.time_unit).text(channel.nyquist)
    kind = "complex samples" if channel.is_complex else "samples"
    length = time_words(channel.duration, unit)
    if channel.is_even:
        text = f"{channel.n:,} {kind} × {time_words(channel.dt, unit)} = {length}"
        if unit not in TIME_UNITS or unit == "s":
            text += f", {1 / channel.dt:.6g} per second"
        text += f", Nyquist {nyquist}"
    else:
        text = (
            f"{channel.n:,} {kind} in {length}, uneven, median step {time_words(channel.step, unit, 4)}"
            f"{_gap_words(channel)}, Nyquist of the median step {nyquist}"
        )
    start = float(channel.times[0])
    text += f", from t = {time_words(start, unit)}" if start else ""
    return text + "".join(f", {part}" for part in _known(channel))


def _gap_words(channel: Channel) -> str:
    """How many gaps an uneven series has, and how long the longest is."""
    steps = np.diff(channel.times)
    gaps = steps[steps > GAP * channel.step]
    if not gaps.size:
        return ""
    longest = time_words(float(gaps.max()), channel.time_unit, 3)
    if gaps.size == 1:
        return f", one gap of {longest}"
    return f", {gaps.size:,} gaps of up to {longest}"


def _known(channel: Channel) -> list[str]:
    """What else is known of the samples."""
    found = [f"{channel.missing:,} missing"] if channel.missing else []
    if channel.errors is not None:
        found.append("with errors")
    if channel.segments is not None:
        count = np.unique(channel.segments).size
        found.append(f"{count} segment{'' if count == 1 else 's'} with offsets of their own")
    if channel.trend > 0:
        found.append(f"a trend of order {channel.trend} marginalized")
    return found
