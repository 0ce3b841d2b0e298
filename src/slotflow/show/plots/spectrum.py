"""The panel of the spectrum, with the components on it and upper limits where there may be none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slotflow.bands.posterior import BandPosterior
from slotflow.show.plots.axes import (
    channel_names,
    grow,
    hang_names,
    label_frequency,
    label_values,
    name_peaks,
)
from slotflow.show.plots.colours import COLOURS, GREY, INK, colour_of, mark_of
from slotflow.show.plots.series import amplitudes, cleaned, hann, in_band_only, window_amplitudes
from slotflow.show.plots.style import LEGEND
from slotflow.show.plots.units import quantity
from slotflow.show.plots.view import Band, Float, View
from slotflow.show.wording import chance
from slotflow.signal.likelihood import Statistics
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from slotflow.posterior.posterior import Posterior

__all__ = ["draw_spectrum"]

MOST_NAMED_AT_PEAKS = 10
"""Components whose names stand above their peaks; the names of more hang from the top of the panel."""
NEAR = 0.01
"""Share of the band around a component in which its name must stay above the spectrum."""
LONGEST_TRANSFORM = 2**22
"""Samples, padded with zeros, of a transform that is still quick."""
WIDE_RANGE = 100.0
"""Height of the spectrum over the noise from which on the axis of amplitudes is logarithmic."""
SPREAD = 4.0
"""Largest amplitude over the height of the spectrum from which on the same is done for components that are no tones."""
FEW_ENTRIES = 4
"""Entries of a legend that have room beside the title in letters of the usual size."""
FLOOR_POINTS = 400
"""Frequencies at which the noise is drawn."""
HANN_NOISE = 1.5**0.5
"""Amplitude of noise in a spectrum under a Hann window over that without one; a tone's is the same."""


def draw_spectrum(ax: Axes, view: View) -> None:
    """Draws the band's amplitude spectrum with the components on it, and upper limits where K = 0 is likely."""
    post, (low, high) = view.post, view.band
    ax.set_xlim(view.ends)
    f, spectrum = _amplitudes(view)
    if f.size:
        at, floor = _floor(view)
        if _is_wide(view, spectrum, floor):
            ax.set_yscale("log")
            ax.set_ylim(0.2 * float(np.nanmedian(floor)), 1.5 * float(spectrum.max()))
        ax.fill_between(f, spectrum, color=GREY, alpha=0.25, lw=0)
        ax.plot(f, spectrum, color=GREY, lw=1, label=channel_names(post.observation)[0])
        _draw_window(ax, view)
        ax.plot(at, floor, color=INK, lw=0.9, ls=":", label="noise, mean" if at.size else None)
    _draw_limit(ax, view)
    peaks = _draw_components(ax, view, f, spectrum)
    marks = _draw_other_modes(ax, view)
    if view.truth is not None and len(view.truth):
        true = _places(view, view.truth)
        ax.plot(*true.T, "x", color=INK, ms=5, mew=1.1, zorder=4, label="truth")
        marks = np.concatenate([marks, true])
    ax.axvspan(low, high, color=GREY, alpha=0.06, lw=0, zorder=0)
    _write_names(ax, view, peaks, marks)
    label_frequency(ax, max(abs(low), abs(high)), _bin_words(view), view.unit)
    label_values(ax, "amplitude", post.unit)
    handles, _ = ax.get_legend_handles_labels()
    crowded = len(handles) > FEW_ENTRIES
    title = "Spectrum" if crowded else "Spectrum of the band"
    ax.set_title(title if post.has_data else "Components (no data in the file)")
    if handles:
        small = {"fontsize": 7, "columnspacing": 1.0} if crowded else {}
        ax.legend(ncols=7, **LEGEND | small)


def _is_wide(view: View, spectrum: Float, floor: Float) -> bool:
    """Whether noise, spectrum and components are of too different a size for one linear axis.

    A component that decays or drifts has a peak that is lower than its amplitude.
    """
    if not np.isfinite(floor).any():
        return False
    heights = np.median(view.waveform.of(view.draws, "amplitude"), axis=0)  # (K,)
    spread = view.waveform != TONE and heights.max(initial=0.0) > SPREAD * spectrum.max()
    return bool(spread or spectrum.max() > WIDE_RANGE * np.nanmedian(floor))


def _write_names(ax: Axes, view: View, peaks: Float, marks: Float) -> None:
    """The numbers of the components: above their peaks, or from the top of the panel if they are many."""
    if ax.get_yscale() == "linear":
        ax.set_ylim(bottom=0)
    if view.count > MOST_NAMED_AT_PEAKS:
        rows = hang_names(ax, np.median(view.waveform.place_of(view.draws), axis=0), view.band)
        grow(ax, 1.15 + 0.08 * rows)
    else:
        grow(ax, 1.1)
        name_peaks(ax, np.median(_places(view, view.draws), axis=0), peaks, marks)


def _bin_words(view: View) -> str:
    """The width of a bin, behind the name of the axis."""
    resolution, unit = view.post.resolution, view.unit
    if not resolution:
        return ""
    width = quantity(resolution, "Hz") if unit.name == "Hz" else unit.text(resolution, 3)
    return f"; one bin, 1/T, is {width}"


def _amplitudes(view: View) -> tuple[Float, Float]:
    """Frequencies of the band and the first channel's amplitudes at them, (m,) each; m = 0 without data."""
    post = view.post
    if not post.has_data:
        return np.zeros(0), np.zeros(0)
    channel, ends, values = post.observation.long, view.ends, cleaned(post)[0]
    if _is_tapered(post):
        return amplitudes(channel, values * hann(channel), ends)
    if not post.observation.is_plain:
        return amplitudes(channel, values, ends)
    n = channel.n * int(np.clip(LONGEST_TRANSFORM // channel.n, 4, 32))  # zeros make a smooth line
    f = np.asarray(np.fft.rfftfreq(n, channel.dt), dtype=np.float64)
    amplitude = 2 * np.abs(np.fft.rfft(values, n)) / channel.n
    shown = (f >= ends[0]) & (f <= ends[1])
    return f[shown], amplitude[shown]


def _is_tapered(post: Posterior) -> bool:
    """Whether the spectrum is that of tapered data: what lies outside the band must not leak into the picture."""
    return post.has_data and in_band_only(post) and post.observation.long.is_even


def _floor(view: View) -> tuple[Float, Float]:
    """Frequencies of the band and the mean amplitude of noise at them, (m,) each; m = 0 where it is not known.

    Windows of a band have a noise of their own each; NaN stands between them.
    """
    if not isinstance(view.post, BandPosterior):
        f, level = _floor_of(view.post, view.ends)
        return f, level * (HANN_NOISE if _is_tapered(view.post) else 1.0)
    nothing = (np.array([np.nan]), np.array([np.nan]))
    parts = [_floor_of(window.posterior, window.core) for window in view.post.windows]
    joined = [part for one in parts if one[0].size for part in (one, nothing)]
    if not joined:
        return np.zeros(0), np.zeros(0)
    return np.concatenate([f for f, _ in joined]), np.concatenate([y for _, y in joined])


def _floor_of(post: Posterior, ends: Band) -> tuple[Float, Float]:
    """The same of one posterior, between two frequencies."""
    if not np.isfinite(post.noise_std):
        return np.zeros(0), np.zeros(0)
    shape = np.sqrt(np.pi / post.observation.long.n)
    if post.observation.is_plain and (post.noise is None or post.noise.name == "white"):
        return np.array(ends), np.full(2, shape * post.noise_std)
    likelihood = post.statistics()
    if isinstance(likelihood, Statistics):  # a file does not keep the filter
        level = post.noise_std if post.noise is None else post.noise.in_band.mean
        return np.array(ends), np.full(2, shape * level)
    low, high = likelihood.limits
    f = np.linspace(max(ends[0], low), min(ends[1], high), FLOOR_POINTS)
    weight = np.asarray(likelihood.weight_at(f))
    seen = weight > 0.01 * weight.max()  # not what is integrated out with an offset
    return f[seen], post.noise_std * np.sqrt(np.pi / weight[seen])


def _draw_window(ax: Axes, view: View) -> None:
    """What the strongest component alone would look like in samples that are not even: its aliases are seen."""
    channel = view.post.observation.long
    if channel.is_even or view.count == 0:
        return
    places = np.median(_places(view, view.draws), axis=0)  # (K, 2)
    strongest = int(places[:, 1].argmax())
    centre, height = places[strongest]
    f, window = window_amplitudes(channel, float(centre), view.ends)
    ax.plot(
        f, height * window, color=colour_of(strongest), lw=0.8, alpha=0.6,
        label="sampling window",
    )  # fmt: skip


def _draw_limit(ax: Axes, view: View) -> None:
    """The upper limits on the amplitude, where the posterior has them, and what would have been found elsewhere."""
    post, limit = view.post, view.post.upper_limit()
    if regions := post.empty_regions:
        ax.hlines(
            [region.amplitude for region in regions],
            [region.low for region in regions],
            [region.high for region in regions],
            color=COLOURS[1], lw=1.2, label="found from here on",
        )  # fmt: skip
    if limit is None:
        return
    both = ", both streams" if post.has_data and post.observation.short is not None else ""
    name = f"{100 * limit.credibility:g} % upper limit of a tone{both}"
    ax.plot(limit.frequency, limit.amplitude, color=COLOURS[1], lw=1.2, label=name)


def _draw_components(ax: Axes, view: View, f: Float, spectrum: Float) -> Float:
    """Median and interval of each component; of one with several modes, those of the most probable one.

    Args:
        ax: The panel.
        view: What it shows.
        f: Frequencies of the spectrum, (m,).
        spectrum: Amplitudes at them, (m,).

    Returns:
        The height that the name of each component must stay above, (K,).
    """
    places = _places(view, view.draws)  # (n, K, 2)
    peaks = np.zeros(view.count)
    for j in range(view.count):
        low, middle, high = np.quantile(places[:, j], (0.05, 0.5, 0.95), axis=0)
        below, above = middle - low, high - middle
        if len(view.modes[j]) > 1:
            first = view.modes[j][0]
            middle[0], below[0], above[0] = first.median, first.sd, first.sd
        ax.errorbar(
            middle[0], middle[1], xerr=[[below[0]], [above[0]]], yerr=[[below[1]], [above[1]]],
            fmt=mark_of(view.kinds[j]), color=colour_of(j), ms=6, lw=1.4, zorder=3,
            label=None if j or view.class_names else "median, 5–95 %",
        )  # fmt: skip
        near = np.abs(f - middle[0]) <= NEAR * (view.band[1] - view.band[0])
        peaks[j] = max(high[1], spectrum[near].max(initial=0))
    for kind in sorted(set(view.kinds)) if view.class_names else []:
        ax.plot([], [], mark_of(kind), color=INK, ms=6, label=view.class_names[kind])
    return peaks


def _draw_other_modes(ax: Axes, view: View) -> Float:
    """The less probable places of components that may be at several, each with its probability; (m, 2)."""
    heights, marks = np.median(_places(view, view.draws), axis=0), []
    for j, modes in enumerate(view.modes):
        for mode in modes[1:]:
            place = (mode.median, float(heights[j, 1]))
            ax.plot(*place, "o", color=colour_of(j), mfc="white", ms=6, zorder=3)
            ax.annotate(
                f"{j + 1}: {chance(mode.probability, 2)}", place, (0, 6), textcoords="offset points",
                ha="center", size=7,
            )  # fmt: skip
            marks.append(place)
    return np.array(marks).reshape(-1, 2)


def _places(view: View, theta: Float) -> Float:
    """Where components stand on the panel: frequency and amplitude, (..., 2)."""
    waveform = view.waveform
    return np.stack([waveform.of(theta, "frequency"), waveform.of(theta, "amplitude")], -1)
