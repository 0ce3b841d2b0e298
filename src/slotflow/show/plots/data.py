"""The panel of data: a stretch of the series with the signals that the posterior sees in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.data.sampling import Grid
from slotflow.show.plots.axes import channel_names, draw_nothing, label_time, label_values
from slotflow.show.plots.colours import COLOURS, GREY, INK
from slotflow.show.plots.style import LEGEND
from slotflow.show.plots.units import clock
from slotflow.show.plots.view import View
from slotflow.signal.model import noise_free

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_data"]

PERIODS = 24
"""Periods of the band's centre that the stretch of data shows."""
SIGNALS = 400
"""Draws behind the band of the signal."""
POINTS = 1200
"""Instants at which signals are drawn."""


def draw_data(ax: Axes, view: View) -> None:
    """Draws a stretch of the long stream with the reconstruction and its 90 % band."""
    post = view.post
    if not post.has_data:
        draw_nothing(ax, "the file does not hold the data")
        return
    first = post.observation.channels[0]
    stop = min(first.duration, PERIODS / (0.5 * sum(view.band)))
    instants = Grid(POINTS, stop / (POINTS - 1), first.t0)
    t = instants.times
    found = noise_free(view.draws[:SIGNALS], instants, view.waveform)  # (SIGNALS, POINTS)
    low, high = np.quantile(found, (0.05, 0.95), axis=0)
    name = "90 % band of the signal"
    ax.fill_between(t, low, high, color=COLOURS[0], alpha=0.25, lw=0, label=name)
    ax.plot(t, found.mean(axis=0), color=COLOURS[0], lw=1.2, label="posterior mean")
    if view.truth is not None:
        true = noise_free(view.truth, instants, view.waveform)
        ax.plot(t, true, color=INK, lw=0.8, ls=(0, (4, 2)), label="true signal")
    looks: tuple[dict[str, Any], ...] = (
        {"color": INK, "ms": 3},
        {"color": GREY, "alpha": 0.9, "ms": 2.2, "zorder": 1},
    )
    channels = zip(post.observation.channels, channel_names(post.observation), looks, strict=False)
    for channel, name, look in reversed(list(channels)):
        shown = (channel.times >= t[0]) & (channel.times <= t[-1])
        ax.plot(channel.times[shown], channel.values[shown], "o", mew=0, label=name, **look)
    ax.set(xlim=(t[0], t[-1]))
    label_time(ax, post, stop)
    label_values(ax, "x(t)", post.unit)
    ax.set_title(f"Data and reconstruction, first {_stretch(stop)} of {_stretch(first.duration)}")
    ax.legend(ncols=5, **LEGEND)


def _stretch(seconds: float) -> str:
    """A length of time in words: 0.113 s, 7,990 s, 4.01 d."""
    factor, unit = clock(seconds)
    value = factor * seconds
    return f"{value:,.0f} {unit}" if round(value) >= 1000 else f"{value:.3g} {unit}"
