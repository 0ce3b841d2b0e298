"""What the best fit leaves of the data, over time and over frequency, beside what white noise would leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.show.plots.axes import channel_names, hang_names, label_frequency, label_time
from slotflow.show.plots.colours import COLOURS, GREY, INK, colour_of
from slotflow.show.plots.series import power
from slotflow.show.plots.style import LEGEND, style
from slotflow.show.plots.view import Band, Float, View
from slotflow.signal.likelihood.general import GeneralTones

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_residual"]

MOST_POINTS = 4000
"""Samples up to which each is a point; of a longer series, the range of each of many pieces is drawn."""
PIECES = 1500
RARE = 0.01
"""Chance that the highest peak of white noise in the band exceeds the dashed line."""


def plot_residual(
    post: Posterior, *, band: Band | None = None, frequency_unit: str | None = None
) -> Figure:
    """Draws the whitened residual of each channel over time, and the spectrum of the first one's in the band.

    Args:
        post: The posterior, with its data.
        band: Frequencies in Hz to show; by default the prior's.
        frequency_unit: Unit of the frequencies; by default that which goes with the data's times.
    """
    from matplotlib.figure import Figure

    rests = post.residual()
    view = View.of(post, band=band, frequency_unit=frequency_unit)
    sigma = post.noise_std
    if not (np.isfinite(sigma) and sigma > 0):
        sigma = float(np.sqrt(np.mean(np.abs(rests[0]) ** 2))) or 1.0
    times, names = _times(post, rests), channel_names(post.observation)
    with style():
        figure = Figure(figsize=(9, 2.0 * len(rests) + 3.2), layout="constrained")
        heights = [*[2.0] * len(rests), 2.8]
        axes = figure.subplots(len(rests) + 1, 1, height_ratios=heights)
        for ax, name, rest, t in zip(axes, names, rests, times, strict=False):
            _draw_time(ax, rest / sigma, t, name)
            label_time(ax, post, float(t[-1] - t[0]))
        _draw_spectrum(axes[-1], view, rests[0] / sigma, times[0])
        axes[-1].set_title(f"Spectrum of the residual of the {names[0]}")
    return figure


def _times(post: Posterior, rests: list[Any]) -> list[Float]:
    """When the samples of each channel's residual were taken; a filter of coloured noise spends the first ones."""
    whole = [channel.times for channel in post.observation.channels]
    likelihood = post.statistics()
    if isinstance(likelihood, GeneralTones) and len(whole[0]) != len(rests[0]):
        return [sampling.times for sampling in likelihood.samplings]
    return whole


def _draw_time(ax: Axes, rest: Any, times: Float, name: str) -> None:
    """Draws a residual over time on the band that holds 95 % of white noise.

    Args:
        ax: The panel.
        rest: The residual in units of σ, (n,), real or complex.
        times: In seconds, (n,).
        name: Of the channel.
    """
    rms = float(np.sqrt(np.mean(np.abs(rest) ** 2)) / np.sqrt(2 if np.iscomplexobj(rest) else 1))
    ax.axhspan(-1.96, 1.96, color=COLOURS[0], alpha=0.12, lw=0, label="95 % of white noise")
    ax.axhline(0, color=COLOURS[0], lw=0.8)
    parts = [rest.real, rest.imag] if np.iscomplexobj(rest) else [rest]
    for part, colour in zip(parts, (INK, COLOURS[1]), strict=False):
        if part.size <= MOST_POINTS:
            ax.plot(times, part, ".", color=colour, ms=2, mew=0)
            continue
        edges = np.linspace(0, part.size, PIECES + 1).astype(int)[:-1]
        low, high = np.minimum.reduceat(part, edges), np.maximum.reduceat(part, edges)
        ax.vlines(times[edges], low, high, color=colour, lw=0.6)
    reach = max(4.5, 1.1 * max(float(np.abs(part).max()) for part in parts))
    ax.set(ylabel="residual / σ", ylim=(-reach, reach), xlim=(times[0], times[-1]))
    kind = ", real and imaginary part" if len(parts) > 1 else ""
    ax.set_title(f"Residual of the {name}{kind}, rms {rms:.3f} σ")
    ax.legend(**LEGEND)


def _draw_spectrum(ax: Axes, view: View, rest: Any, times: Float) -> None:
    """Draws the periodogram of the first channel's residual in units of σ, in which white noise is 1 on average.

    Args:
        ax: The panel.
        view: What the picture shows.
        rest: The residual in units of σ, (n,), real or complex.
        times: When its samples were taken, in seconds, (n,).
    """
    low, high = view.band
    f, found = power(times, rest, view.ends)
    inner, outer = np.log(1 / 0.95), np.log(1 / 0.05)  # quantiles of an exponential
    name = "90 % of white noise"
    ax.axhspan(inner, outer, color=COLOURS[0], alpha=0.12, lw=0, label=name)
    ax.plot(f, found, color=INK, lw=0.9, label="residual")
    peak = _highest(max((high - low) / view.post.resolution, 1.0))
    name = f"highest peak of noise, {100 * RARE:g} % level"
    ax.axhline(peak, color=COLOURS[1], lw=1.1, ls="--", label=name)
    ax.axvspan(low, high, color=GREY, alpha=0.06, lw=0, zorder=0)
    ax.set(ylabel="power / σ²", xlim=view.ends)
    places = np.median(view.waveform.place_of(view.draws), axis=0)
    for j, place in enumerate(places):
        ax.axvline(place, color=colour_of(j), lw=1, alpha=0.7, zorder=0)
    rows = hang_names(ax, places, view.band)
    ax.set_ylim(0, (1.2 + 0.08 * rows) * max(peak, float(found.max(initial=0))))
    label_frequency(ax, max(abs(low), abs(high)), unit=view.unit)
    ax.legend(ncols=3, **LEGEND)


def _highest(bins: float) -> float:
    """Height that the largest peak of a noise periodogram over some bins exceeds with a chance of 1 %."""
    from scipy.optimize import brentq

    from slotflow.posterior.whiteness import peak_probability

    return float(brentq(lambda z: peak_probability(z, bins) - RARE, 1.0, 200.0))
