"""The panel of data: a stretch of the series with the signals that the posterior sees in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotflow.data.channel import Channel
from slotflow.data.sampling import Grid
from slotflow.show.plots.axes import (
    channel_names,
    draw_nothing,
    label_time,
    label_values,
    time_scale,
)
from slotflow.show.plots.colours import COLOURS, GREY, INK
from slotflow.show.plots.series import Values, cleaned, cut_to_band, in_band_only, signals_at
from slotflow.show.plots.style import LEGEND
from slotflow.show.plots.view import Float, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_data"]

PERIODS = 24
"""Periods of the components, or of the band's centre, that the stretch of data shows."""
FEWEST_SAMPLES = 60
"""Samples that the stretch shows at least, if there are as many."""
NEARLY_ALL = 0.75
"""Share of a series from which on all of it is shown."""
SIGNALS = 400
"""Draws behind the band of the signal."""
POINTS = 1200
"""Instants at which signals are drawn."""


class _Part(NamedTuple):
    """The real or the imaginary part of what is drawn."""

    name: str
    """Empty for real samples."""
    take: Any
    """Gives the part of an array."""
    signal: str
    """Colour of the signals."""
    looks: tuple[dict[str, Any], ...]
    """How the samples of each channel are drawn."""


POINTS_OF_CHANNELS = (
    {"color": INK, "ms": 3},
    {"color": GREY, "alpha": 0.9, "ms": 2.2, "zorder": 1},
)
REAL = _Part("", np.real, COLOURS[0], POINTS_OF_CHANNELS)
COMPLEX = (
    _Part("real part", np.real, COLOURS[0], ({"color": INK, "ms": 3},)),
    _Part("imaginary part", np.imag, COLOURS[1], ({"color": COLOURS[1], "ms": 2.6, "mfc": "none", "mew": 0.7},)),
)  # fmt: skip


def draw_data(ax: Axes, view: View) -> None:
    """Draws a stretch of the series with the reconstruction and its 90 % band."""
    post = view.post
    if not post.has_data:
        draw_nothing(ax, "the file does not hold the data")
        return
    first = post.observation.long
    stop, values = _stretch_of(view, first), cleaned(post)
    filtered = in_band_only(post) and all(c.is_even for c in post.observation.channels)
    start = float(first.times[0])
    if filtered:  # from the middle: at its ends a filter errs
        start += 0.5 * (first.duration - stop)
        every = zip(post.observation.channels, values, strict=True)
        values = [cut_to_band(channel, x, view.ends) for channel, x in every]
    instants = Grid(POINTS, stop / (POINTS - 1), start)
    t = instants.times
    waveform, draws = view.waveform.in_channel(view.draws[:SIGNALS], "")  # the first channel's
    found = signals_at(draws, instants, waveform, first.is_complex)
    true = None
    if view.truth is not None:
        truth = view.waveform.in_channel(view.truth, "")[1]
        true = signals_at(truth, instants, waveform, first.is_complex)
    for part in COMPLEX if first.is_complex else (REAL,):
        _draw_signal(ax, part, t, found, true)
        _draw_samples(ax, part, view, values, (t[0], t[-1]))
    ax.set(xlim=(t[0], t[-1]))
    label_time(ax, post, stop)
    label_values(ax, "x(t)", post.unit)
    whole, which = f"of {_words(view, first.duration)}", "middle" if filtered else "first"
    shown = f"{which} {_words(view, stop)} {whole}" if stop < first.duration else f"all {whole[3:]}"
    kind = "" if values[0] is first.values else " without offset"
    kind = " in the band" if filtered else kind
    ax.set_title(f"Data{kind} and reconstruction, {shown}")
    ax.legend(ncols=6, **LEGEND)


def _stretch_of(view: View, channel: Channel) -> float:
    """Length of the stretch that is shown, in seconds: a few periods, but not too few samples."""
    f = np.abs(np.median(view.waveform.of(view.draws, "frequency"), axis=0))
    typical = float(np.median(f)) if f.size else 0.5 * sum(abs(edge) for edge in view.band)
    typical = max(typical, 1 / channel.duration)
    some = channel.times[min(FEWEST_SAMPLES, channel.n) - 1] - channel.times[0]
    stretch = max(PERIODS / typical, float(some))
    return stretch if stretch < NEARLY_ALL * channel.duration else channel.duration


def _draw_signal(ax: Axes, part: _Part, t: Float, found: Values, true: Values | None) -> None:
    """The signals of all draws, (SIGNALS, POINTS), as their mean and a band, and the true one."""
    curves = part.take(found)
    low, high = np.quantile(curves, (0.05, 0.95), axis=0)
    label = None if part is COMPLEX[1] else "90 % band of the signal"
    ax.fill_between(t, low, high, color=part.signal, alpha=0.25, lw=0, label=label)
    label = None if part.name else "posterior mean"
    ax.plot(t, curves.mean(axis=0), color=part.signal, lw=1.2, label=label)
    if true is not None:
        label = None if part.name else "true signal"
        ax.plot(t, part.take(true), color=INK, lw=0.8, ls=(0, (4, 2)), label=label)


def _draw_samples(
    ax: Axes, part: _Part, view: View, values: list[Values], ends: tuple[float, float]
) -> None:
    """The samples of each channel of a known gain between two times as points, with their errors where known."""
    observation, sigma = view.post.observation, view.post.noise_std
    names = channel_names(observation)
    for i, (channel, name) in reversed(
        list(enumerate(zip(observation.channels, names, strict=True)))
    ):
        if channel.has_free_gain:  # in units of its own
            continue
        look = part.looks[min(i, len(part.looks) - 1)]
        shown = (channel.times >= ends[0]) & (channel.times <= ends[1])
        t, x = channel.times[shown], part.take(values[i][shown])
        if channel.errors is not None and np.isfinite(sigma):
            errors = sigma * channel.errors[shown]
            ax.errorbar(t, x, errors, fmt="none", ecolor=GREY, elinewidth=0.6, alpha=0.6, zorder=1)
        ax.plot(t, x, "o", label=part.name or name, **{"mew": 0} | look)


def _words(view: View, seconds: float) -> str:
    """A length of time in words: 0.113 s, 7,990 s, 4.01 d."""
    factor, unit = time_scale(view.post, seconds)
    value = factor * seconds
    return f"{value:,.0f} {unit}" if round(value) >= 1000 else f"{value:.3g} {unit}"
