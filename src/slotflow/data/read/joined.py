"""Several files as one series: the sectors or quarters of a star, the years of a tide gauge.

Each file becomes a segment, with an offset of its own. Times count from one instant on the clock that the files share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from slotflow.data.channel import Channel

__all__ = ["join_channels"]


def join_channels(channels: Sequence[Channel]) -> Channel:
    """One channel of the samples of several, in the order of their times.

    Args:
        channels: The parts, whose times count from the same instant.

    Returns:
        The channel. Samples of one part, and of one segment in it, share an offset. Of samples of different parts with
        the same time stamp the first is kept.
    """
    first = channels[0]
    if len(channels) == 1:
        return first
    _check_alike(channels)
    errors = [channel.errors for channel in channels]
    some = [one for one in errors if one is not None]
    times = np.concatenate([channel.times for channel in channels])
    order = np.argsort(times, kind="stable")
    order = order[np.diff(times[order], prepend=-math.inf) > 0]
    notes = dict.fromkeys(note for channel in channels for note in channel.notes)
    said = [f"{len(channels)} files joined, each with an offset of its own"]
    if len(order) < len(times):
        said.append(
            f"{len(times) - len(order)} samples with the time stamp of another file left out"
        )
    if 0 < len(some) < len(errors):
        said.append("errors left aside: some files have none")
    return replace(
        first,
        values=np.concatenate([channel.values for channel in channels])[order],
        dt=math.nan,
        times=times[order],
        errors=np.concatenate(some)[order] if len(some) == len(errors) else None,
        segments=_labels(channels)[order],
        filled=(),
        missing=sum(channel.missing for channel in channels),
        notes=(*notes, *said),
    )


def _labels(channels: Sequence[Channel]) -> NDArray[np.int64]:
    """A number for each sample: one for each part, and for each segment in it."""
    found, used = [], 0
    for channel in channels:
        labels = np.zeros(channel.n, np.int64) if channel.segments is None else channel.segments
        _, index = np.unique(labels, return_inverse=True)
        found.append(used + index)
        used += int(index.max()) + 1
    return np.concatenate(found)


def _check_alike(channels: Sequence[Channel]) -> None:
    """Refuses parts that are not of one series."""
    for name in ("unit", "is_complex", "t_ref", "sigma"):
        kinds = {getattr(channel, name) for channel in channels}
        if len(kinds) > 1:
            raise ValueError(
                f"expected files of one series to join, received different ones ({name}: "
                f"{', '.join(sorted(map(repr, kinds)))}); join only files of one series."
            )
