"""What the best fit leaves of the data, over time and over frequency, beside what white noise would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotflow.show.plots.panels import band_of, label_frequency, label_time
from slotflow.show.plots.style import COLOURS, GREY, INK, LEGEND, colour_of, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slotflow.data.sampling import Grid
    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_residual"]

Float = NDArray[np.float64]

POINTS = 4000
"""Samples up to which each is a point; of more, the range of each of many pieces is drawn."""
PIECES = 1500
RARE = 0.01
"""Chance that the highest peak of white noise in the band exceeds the dashed line."""


def plot_residual(post: Posterior, *, band: tuple[float, float] | None = None) -> Figure:
    """Draws the residual of each stream over time, and the spectrum of the long one's in the band.

    Args:
        post: The posterior, with its data.
        band: Frequencies in Hz to show; by default the prior's.
    """
    from matplotlib.figure import Figure

    rests = post.residual()
    draws = post.sample(200)
    band = band_of(post, draws, None, band)
    sigma = post.noise_std
    if not (np.isfinite(sigma) and sigma > 0):
        sigma = float(np.sqrt(np.mean(rests[0] ** 2))) or 1.0
    streams = post.observation.channels
    with style():
        figure = Figure(figsize=(9, 2.0 * len(rests) + 3.2), layout="constrained")
        heights = [*[2.0] * len(rests), 2.8]
        axes = figure.subplots(len(rests) + 1, 1, height_ratios=heights)
        for ax, name, rest, stream in zip(axes, ("long", "short"), rests, streams, strict=False):
            _draw_time(ax, rest / sigma, stream.grid, name)
            label_time(ax, post, stream.duration)
        _draw_spectrum(axes[-1], rests[0] / sigma, streams[0].grid.dt, band)
        last, level = -np.inf, 0
        for j, f in enumerate(np.sort(np.median(draws[..., 2], axis=0))):
            close = f - last < 0.018 * (band[1] - band[0])
            last, level = f, level + 1 if close else 0  # names of close ones in steps
            axes[-1].axvline(f, color=colour_of(j), lw=1, alpha=0.7, zorder=0)
            axes[-1].annotate(
                str(j + 1), (f, 1.0), (0, -9 - 10 * level), xycoords=("data", "axes fraction"), ha="center",
                textcoords="offset points", color=colour_of(j), fontweight="bold", size=8,
                bbox={"fc": "white", "ec": "none", "pad": 0.6},
            )  # fmt: skip
    return figure


def _draw_time(ax: Axes, rest: Float, grid: Grid, name: str) -> None:
    """The residual over time, in units of σ, on the band that holds 95 % of white noise."""
    times = grid.times
    ax.axhspan(-1.96, 1.96, color=COLOURS[0], alpha=0.12, lw=0, label="95 % of white noise")
    ax.axhline(0, color=COLOURS[0], lw=0.8)
    if rest.size <= POINTS:
        ax.plot(times, rest, ".", color=INK, ms=2, mew=0)
    else:
        edges = np.linspace(0, rest.size, PIECES + 1).astype(int)[:-1]
        low, high = np.minimum.reduceat(rest, edges), np.maximum.reduceat(rest, edges)
        ax.vlines(times[edges], low, high, color=INK, lw=0.6)
    reach = max(4.5, 1.1 * float(np.abs(rest).max()))
    rms = float(np.sqrt(np.mean(rest**2)))
    ax.set(ylabel="residual / σ", ylim=(-reach, reach), xlim=(times[0], times[-1]))
    ax.set_title(f"Residual of the {name} stream, rms {rms:.3f} σ")
    ax.legend(**LEGEND)


def _draw_spectrum(ax: Axes, rest: Float, dt: float, band: tuple[float, float]) -> None:
    """The periodogram of a residual in units of σ, white noise being 1 on average."""
    low, high = band
    margin = 0.05 * (high - low)
    n = rest.size
    f = np.fft.rfftfreq(4 * n, dt)
    power = np.abs(np.fft.rfft(rest, 4 * n)) ** 2 / n
    shown = (f >= low - margin) & (f <= high + margin)
    inner, outer = np.log(1 / 0.95), np.log(1 / 0.05)  # quantiles of an exponential
    name = "90 % of white noise"
    ax.axhspan(inner, outer, color=COLOURS[0], alpha=0.12, lw=0, label=name)
    ax.plot(f[shown], power[shown], color=INK, lw=0.9, label="residual")
    peak = _highest(max((high - low) * n * dt, 1.0))
    name = f"highest peak of noise, exceeded in {100 * RARE:g} %"
    ax.axhline(peak, color=COLOURS[1], lw=1.1, ls="--", label=name)
    ax.axvspan(low, high, color=GREY, alpha=0.06, lw=0, zorder=0)
    top = 1.25 * max(peak, float(power[shown].max(initial=0)))
    ax.set(ylabel="power / σ²", xlim=(low - margin, high + margin), ylim=(0, top))
    label_frequency(ax, high)
    ax.set_title("Spectrum of the long stream's residual")
    ax.legend(ncols=3, **LEGEND)


def _highest(bins: float) -> float:
    """Height that the largest peak of a noise periodogram over so many bins exceeds with a chance of 1 %."""
    from scipy.optimize import brentq

    from slotflow.posterior.whiteness import peak_probability

    return float(brentq(lambda z: peak_probability(z, bins) - RARE, 1.0, 200.0))
