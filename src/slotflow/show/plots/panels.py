"""The panels that pictures of a posterior are made of: data, spectrum with components, p(K | x)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.show.plots.style import COLOURS, GREY, INK, LEGEND, colour_of
from slotflow.show.plots.units import clock, quantity, readable, tick_in, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slotflow.posterior.posterior import Posterior

__all__ = [
    "band_of",
    "draw_data",
    "draw_k",
    "draw_nothing",
    "draw_spectrum",
    "label_frequency",
    "label_time",
    "signal",
]

Float = NDArray[np.float64]

PERIODS = 24
"""Periods of the band's centre that the stretch of data shows."""
SIGNALS = 400
"""Draws behind the band of the signal."""
MANY = 24
"""Bars that have room in a panel."""
ROOM = 14
"""How many of them can be named."""
FEWEST = 6
"""Values of K that a panel has room for at least, lest two of them fill it."""
NAMED = 10
"""Components whose names stand beside their peaks; those of more hang from the top of the panel."""
LIMIT = COLOURS[1]
"""Colour of the upper limits."""


def draw_nothing(ax: Axes, text: str) -> None:
    """A panel with words instead."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center")


def draw_data(
    ax: Axes, post: Posterior, draws: Float, truth: Float | None, band: tuple[float, float]
) -> None:
    """A stretch of the long stream with the reconstruction and its 90 % band."""
    if not post.has_data:
        draw_nothing(ax, "the file does not hold the data")
        return
    stream = post.observation.long
    stop = min(stream.duration, PERIODS / (0.5 * sum(band)))
    shown = stream.times <= stream.t0 + stop
    t = np.linspace(stream.t0, stream.t0 + stop, 1200)
    signals = signal(draws[:SIGNALS], t)  # (SIGNALS, 1200)
    low, high = np.quantile(signals, (0.05, 0.95), axis=0)
    ax.fill_between(
        t, low, high, color=COLOURS[0], alpha=0.25, lw=0, label="90 % band of the signal"
    )
    ax.plot(t, signals.mean(axis=0), color=COLOURS[0], lw=1.2, label="posterior mean")
    if truth is not None:
        ax.plot(
            t, signal(truth[None], t)[0], color=INK, lw=0.8, ls=(0, (4, 2)), label="true signal"
        )
    short = post.observation.short
    if short is not None:
        inside = (short.times >= t[0]) & (short.times <= t[-1])
        ax.plot(
            short.times[inside], short.values[inside], "o", color=GREY, alpha=0.9, ms=2.2, mew=0,
            zorder=1, label="short stream",
        )  # fmt: skip
    ax.plot(
        stream.times[shown], stream.values[shown], "o", color=INK, ms=3, mew=0, label="long stream"
    )
    ax.set(xlim=(t[0], t[-1]))
    label_time(ax, post, stop)
    _label_values(ax, post, "x(t)")
    ax.set_title(f"Data and reconstruction, first {_stretch(stop)} of {_stretch(stream.duration)}")
    ax.legend(ncols=5, **LEGEND)


def label_time(ax: Axes, post: Posterior, length: float) -> None:
    """Names the axis of time of so many seconds, in a unit that fits; with an epoch, from there on."""
    factor, unit = clock(length)
    tick_in(ax.xaxis, factor)
    name = f"time since t = {post.t_ref:.12g} s" if post.t_ref else "time"
    ax.set_xlabel(with_unit(name, unit))


def label_frequency(ax: Axes, highest: float, more: str = "") -> None:
    """Names the axis of frequencies up to a highest one in Hz, in a unit that fits."""
    factor, unit = readable(highest, "Hz")
    tick_in(ax.xaxis, factor)
    ax.set_xlabel(with_unit("frequency", unit) + more)


def _label_values(ax: Axes, post: Posterior, name: str) -> None:
    """Names the axis of data or amplitudes, with a power of ten where the numbers need one."""
    factor, power = readable(float(np.abs(ax.get_ylim()).max()), "")
    tick_in(ax.yaxis, factor)
    ax.set_ylabel(with_unit(name, power, post.unit))


def _stretch(seconds: float) -> str:
    """A length of time in words: 0.113 s, 7,990 s, 4.01 d."""
    factor, unit = clock(seconds)
    value = factor * seconds
    return f"{value:,.0f} {unit}" if round(value) >= 1000 else f"{value:.3g} {unit}"


def draw_spectrum(
    ax: Axes, post: Posterior, draws: Float, truth: Float | None, band: tuple[float, float]
) -> None:
    """The band's amplitude spectrum with the components on it, and the upper limits where K = 0 is likely."""
    low, high = band
    margin = 0.05 * (high - low)
    f: Float = np.zeros(0)
    amplitude: Float = np.zeros(0)
    if post.has_data:
        stream = post.observation.long
        n = stream.n * int(np.clip(2**22 // stream.n, 4, 32))  # zero padding: a smooth line
        f = np.asarray(np.fft.rfftfreq(n, stream.dt), dtype=np.float64)
        amplitude = 2 * np.abs(np.fft.rfft(stream.values, n)) / stream.n
        shown = (f >= low - margin) & (f <= high + margin)
        f, amplitude = f[shown], amplitude[shown]
        ax.fill_between(f, amplitude, color=GREY, alpha=0.25, lw=0)
        ax.plot(f, amplitude, color=GREY, lw=1, label="long stream")
        if np.isfinite(post.noise_std):
            floor = post.noise_std * np.sqrt(np.pi / stream.n)
            ax.axhline(floor, color=INK, lw=0.9, ls=":", label="noise, mean")
    limit = post.upper_limit()
    if limit is not None:
        both = ", both streams" if post.has_data and post.observation.short is not None else ""
        name = f"{100 * limit.credibility:g} % upper limit of a tone{both}"
        ax.plot(limit.frequency, limit.amplitude, color=LIMIT, lw=1.2, label=name)
    last, level = -np.inf, 0
    rows: list[float] = []  # of names, if these are many: the frequency of the last one in each
    crowded = draws.shape[1] > NAMED
    for j in range(draws.shape[1]):
        q = np.quantile(draws[:, j], (0.05, 0.5, 0.95), axis=0)  # (3, 3)
        (a_low, a, a_high), (f_low, f_mid, f_high) = q[:, 0], q[:, 2]
        colour = colour_of(j)
        ax.errorbar(
            f_mid, a, yerr=[[a - a_low], [a_high - a]], xerr=[[f_mid - f_low], [f_high - f_mid]],
            fmt="o", color=colour, ms=6, lw=1.4, zorder=3,
            label="median, 5–95 %" if j == 0 else None,
        )  # fmt: skip
        near = np.abs(f - f_mid) <= 0.01 * (high - low)
        exact = (
            [] if truth is None else truth[np.abs(truth[:, 2] - f_mid) <= 0.02 * (high - low), 0]
        )
        top = max(a_high, amplitude[near].max(initial=0), *exact)
        style: dict[str, Any] = {
            "textcoords": "offset points",
            "ha": "center",
            "color": colour,
            "weight": "bold",
        }
        if crowded:
            free = (i for i, end in enumerate(rows) if f_mid - end >= 0.035 * (high - low))
            row = next(free, len(rows))
            rows[row : row + 1] = [f_mid]
            hang = ("data", "axes fraction")
            ax.annotate(str(j + 1), (f_mid, 1), (0, -10 - 10 * row), xycoords=hang, **style)
            continue
        close = f_mid - last < 0.018 * (high - low)
        last, level = f_mid, level + 1 if close else 0  # names of close ones in steps
        ax.annotate(str(j + 1), (f_mid, top), (0, 7 + 11 * level), **style)
    if truth is not None and len(truth):
        ax.plot(truth[:, 2], truth[:, 0], "x", color=INK, ms=5, mew=1.1, zorder=4, label="truth")
    ax.axvspan(low, high, color=GREY, alpha=0.06, lw=0, zorder=0)
    bin_width = f"; one bin, 1/T, is {quantity(post.resolution, 'Hz')}" if post.resolution else ""
    ax.set_xlim(low - margin, high + margin)
    ax.set_ylim(0, (1.15 + 0.08 * len(rows)) * ax.get_ylim()[1])
    label_frequency(ax, high, bin_width)
    _label_values(ax, post, "amplitude")
    ax.set_title("Spectrum of the band" if post.has_data else "Components (no data in the file)")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(ncols=4, **LEGEND)


def draw_k(ax: Axes, post: Posterior, truth: Float | None) -> None:
    """The bar chart of p(K | x)."""
    k = np.arange(len(post.k_probs))
    if k.size > MANY:  # those that matter and a few around them
        likely = np.flatnonzero(post.k_probs > 1e-3)
        k = k[max(likely[0] - 3, 0) : likely[-1] + 4]
    colours = [COLOURS[0] if i == post.k_map else "#a8c8de" for i in k]
    ax.bar(k, post.k_probs[k], color=colours)
    for i in k:
        if (p := post.k_probs[i]) >= 0.005:
            ax.annotate(f"{p:.2f}", (i, p), (0, 2), textcoords="offset points", ha="center", size=8)
    if truth is not None and len(truth) in k:
        ax.plot(len(truth), 0, "^", color=INK, ms=7, clip_on=False, zorder=5, label="true K")
        ax.legend(**LEGEND)
    ax.set(xlabel="number of components K", ylabel="probability", ylim=(0, 1.12))
    step = 1 + k.size // ROOM
    ax.set_xticks(k[(post.k_map - k[0]) % step :: step])
    ax.set_xlim(k[0] - 0.7, max(k[-1], k[0] + FEWEST) + 0.7)
    ax.grid(axis="x", visible=False)
    ax.set_title("p(K | x)" if post.verdict.status == "exact" else "q(K | x), not exact")


def signal(theta: Float, t: Float) -> Float:
    """Noise-free signals.

    Args:
        theta: (amplitude, phase, frequency), shape (n, K, 3).
        t: Times in seconds, shape (m,).

    Returns:
        Signals, shape (n, m).
    """
    signals = np.zeros((len(theta), t.size))
    for tone in np.moveaxis(theta, 1, 0):  # (n, 3)
        amplitude, phase, frequency = tone.T[..., None]  # (n, 1) each
        signals += amplitude * np.cos(2 * np.pi * frequency * t + phase)
    return signals


def band_of(
    post: Posterior, draws: Float, truth: Float | None, band: tuple[float, float] | None
) -> tuple[float, float]:
    """The band in Hz: the caller's or the prior's, else the components and 20 bins around, else everything."""
    f = np.concatenate([draws[..., 2].ravel(), [] if truth is None else truth[:, 2]])
    if band is None and post.prior is not None:
        band = post.prior.frequency
    if band is not None:
        low, high = band
        return float(f.min(initial=low)), float(f.max(initial=high))
    highest = post.observation.long.nyquist if post.has_data else np.inf
    if not f.size:
        return 0.0, highest if np.isfinite(highest) else 1.0
    margin = 20 * post.resolution or 0.1 * float(np.ptp(f)) or 0.01 * float(f[0])
    return max(0.0, float(f.min()) - margin), min(highest, float(f.max()) + margin)
