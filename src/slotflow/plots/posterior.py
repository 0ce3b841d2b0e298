"""The picture of a posterior: data, spectrum, p(K | x), every component, and the verdict."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.plots.components import draw_components, quantity
from slotflow.plots.style import COLOURS, GREY, INK, LEGEND, colour_of, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slotflow.posterior import Posterior

__all__ = ["plot_posterior"]

Float = NDArray[np.float64]

N_DRAWS = 2000
PERIODS = 24
"""Periods of the band's centre that the stretch of data shows."""
REASON = 90
"""Letters of the verdict that have room beside the headline."""


def plot_posterior(
    post: Posterior, truth: ArrayLike | None = None, *, band: tuple[float, float] | None = None
) -> Figure:
    """Draws the data, their spectrum, q(K | x) and the posterior of every component.

    Args:
        post: The posterior, with the observation that it came from.
        truth: True (amplitude, phase, frequency), shape (K, 3), where it is known.
        band: Frequencies in Hz that the spectrum shows; by default the prior's, where the posterior knows it.

    Returns:
        A figure with six panels; components keep their number and colour in all of them. It is as tall as their
        number needs.
    """
    from matplotlib.figure import Figure

    draws = post.sample(N_DRAWS, seed=0)  # (n, K, 3)
    draws = draws[:, np.argsort(np.median(draws[..., 2], axis=0))]
    exact = None if truth is None else np.asarray(truth, dtype=float).reshape(-1, 3)
    band = _band(post, draws, exact, band)
    rows = draws.shape[1]
    heights = (2.5, 2.9, max(2.0, 0.7 + 0.37 * rows) if rows else 0.5)  # inches
    with style():
        figure = Figure(figsize=(11, sum(heights) + 0.9), layout="constrained")
        figure.suptitle(_headline(post), x=0.01, ha="left", size=12, weight="bold")
        verdict = textwrap.shorten(str(post.verdict), REASON)
        figure.text(0.99, 0.992, verdict, ha="right", va="top", size=9, color=INK)
        grid = figure.add_gridspec(3, 6, height_ratios=heights)
        _draw_data(figure.add_subplot(grid[0, :]), post, draws, exact, band)
        _draw_spectrum(figure.add_subplot(grid[1, :4]), post, draws, exact, band)
        _draw_k(figure.add_subplot(grid[1, 4:]), post, exact)
        panels = [figure.add_subplot(grid[2, 2 * j : 2 * j + 2]) for j in range(3)]
        draw_components(panels, draws, exact)
    return figure


def _draw_data(
    ax: Axes, post: Posterior, draws: Float, truth: Float | None, band: tuple[float, float]
) -> None:
    """A stretch of the long stream with the reconstruction and its 90 % band."""
    stream = post.observation.long
    stop = min(stream.duration, PERIODS / (0.5 * sum(band)))
    shown = stream.times <= stream.t0 + stop
    t = np.linspace(stream.t0, stream.t0 + stop, 1200)
    signals = _signal(draws[:400], t)  # (400, 1200)
    low, high = np.quantile(signals, (0.05, 0.95), axis=0)
    ax.fill_between(
        t, low, high, color=COLOURS[0], alpha=0.25, lw=0, label="90 % band of the signal"
    )
    ax.plot(t, signals.mean(axis=0), color=COLOURS[0], lw=1.2, label="posterior mean")
    if truth is not None:
        ax.plot(
            t, _signal(truth[None], t)[0], color=INK, lw=0.8, ls=(0, (4, 2)), label="true signal"
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
    ax.set(xlabel="time [s]", ylabel="x(t)", xlim=(t[0], t[-1]))
    ax.set_title(f"Data and reconstruction, first {stop:.3g} s of {stream.duration:.4g} s")
    ax.legend(ncols=5, **LEGEND)


def _draw_spectrum(
    ax: Axes, post: Posterior, draws: Float, truth: Float | None, band: tuple[float, float]
) -> None:
    """The band's amplitude spectrum with the components on it."""
    stream = post.observation.long
    low, high = band
    margin = 0.05 * (high - low)
    n = stream.n * int(
        np.clip(2**22 // stream.n, 4, 32)
    )  # zero padding: a smooth line between the bins
    f = np.fft.rfftfreq(n, stream.dt)
    amplitude = 2 * np.abs(np.fft.rfft(stream.values, n)) / stream.n
    shown = (f >= low - margin) & (f <= high + margin)
    ax.fill_between(f[shown], amplitude[shown], color=GREY, alpha=0.25, lw=0)
    ax.plot(f[shown], amplitude[shown], color=GREY, lw=1, label="long stream")
    if np.isfinite(post.noise_std):
        floor = post.noise_std * np.sqrt(np.pi / stream.n)
        ax.axhline(floor, color=INK, lw=0.9, ls=":", label="noise, mean")
    last, level = -np.inf, 0
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
        level = (
            level + 1 if f_mid - last < 0.018 * (high - low) else 0
        )  # names of close ones in steps
        last = f_mid
        ax.annotate(
            str(j + 1), (f_mid, top), (0, 7 + 11 * level), textcoords="offset points", ha="center",
            color=colour, fontweight="bold",
        )  # fmt: skip
    if truth is not None and len(truth):
        ax.plot(truth[:, 2], truth[:, 0], "x", color=INK, ms=5, mew=1.1, zorder=4, label="truth")
    ax.axvspan(low, high, color=GREY, alpha=0.06, lw=0, zorder=0)
    ax.set(
        xlabel=f"frequency [Hz]; one bin, 1/T, is {quantity(1 / stream.duration, 'Hz')}",
        ylabel="amplitude", xlim=(low - margin, high + margin),
    )  # fmt: skip
    ax.set_ylim(0, 1.15 * ax.get_ylim()[1])
    ax.set_title("Spectrum of the band")
    ax.legend(ncols=4, **LEGEND)


def _draw_k(ax: Axes, post: Posterior, truth: Float | None) -> None:
    """The bar chart of p(K | x)."""
    k = np.arange(len(post.k_probs))
    ax.bar(k, post.k_probs, color=[COLOURS[0] if i == post.k_map else "#a8c8de" for i in k])
    for i, p in enumerate(post.k_probs):
        if p >= 0.005:
            ax.annotate(f"{p:.2f}", (i, p), (0, 2), textcoords="offset points", ha="center", size=8)
    if truth is not None:
        ax.plot(len(truth), 0, "^", color=INK, ms=7, clip_on=False, zorder=5, label="true K")
        ax.legend(**LEGEND)
    ax.set(xlabel="number of components K", ylabel="probability", ylim=(0, 1.12), xticks=k)
    ax.grid(axis="x", visible=False)
    ax.set_title("p(K | x)" if post.verdict.status == "exact" else "q(K | x), not exact")


def _signal(theta: Float, t: Float) -> Float:
    """Noise-free signals.

    Args:
        theta: (amplitude, phase, frequency), shape (n, K, 3).
        t: Times in seconds, shape (m,).

    Returns:
        Signals, shape (n, m).
    """
    amplitude, phase, frequency = np.moveaxis(theta, -1, 0)[..., None]  # (n, K, 1) each
    signals: Float = (amplitude * np.cos(2 * np.pi * frequency * t + phase)).sum(axis=1)
    return signals


def _band(
    post: Posterior, draws: Float, truth: Float | None, band: tuple[float, float] | None
) -> tuple[float, float]:
    """The band in Hz: the caller's or the prior's, else the components and 20 bins around, else everything."""
    f = np.concatenate([draws[..., 2].ravel(), [] if truth is None else truth[:, 2]])
    stream = post.observation.long
    if band is None and post.prior is not None:
        band = post.prior.frequency
    if band is not None:
        low, high = band
        return float(f.min(initial=low)), float(f.max(initial=high))
    if not f.size:
        return 0.0, stream.nyquist
    margin = 20 / stream.duration
    return max(0.0, float(f.min()) - margin), min(stream.nyquist, float(f.max()) + margin)


def _headline(post: Posterior) -> str:
    """The answer in one line."""
    k, sigma = post.k_map, post.noise_std
    text = f"{k} component{'' if k == 1 else 's'} (probability {post.k_probs[k]:.2f})"
    return f"{text}, noise σ = {sigma:.3g}" if np.isfinite(sigma) else text
