"""The picture of a posterior: data, spectrum, q(K | x) and every component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def plot_posterior(post: Posterior, truth: ArrayLike | None = None) -> Figure:
    """Draws the data, their spectrum, q(K | x) and the posterior of every component.

    Args:
        post: The posterior, with the observation that it came from.
        truth: True (amplitude, phase, frequency), shape (K, 3), where it is known.

    Returns:
        A figure with six panels; components keep their number and colour in all of them.
    """
    from matplotlib.figure import Figure

    draws = post.sample(N_DRAWS, seed=0)  # (n, K, 3)
    draws = draws[:, np.argsort(np.median(draws[..., 2], axis=0))]
    exact = None if truth is None else np.asarray(truth, dtype=float).reshape(-1, 3)
    band = _band(post, draws, exact)
    with style():
        figure = Figure(figsize=(11, 9.4), layout="constrained")
        figure.suptitle(_headline(post), x=0.01, ha="left", size=12, weight="bold")
        grid = figure.add_gridspec(3, 6, height_ratios=(1, 1.15, 1.25))
        _draw_data(figure.add_subplot(grid[0, :]), post, draws, exact, band)
        _draw_spectrum(figure.add_subplot(grid[1, :4]), post, draws, exact, band)
        _draw_k(figure.add_subplot(grid[1, 4:]), post, exact)
        panels = [figure.add_subplot(grid[2, 2 * j : 2 * j + 2]) for j in range(3)]
        _draw_components(panels, draws, exact)
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
    n = 32 * stream.n  # zero padding: a smooth line between the bins
    f = np.fft.rfftfreq(n, stream.dt)
    amplitude = 2 * np.abs(np.fft.rfft(stream.values, n)) / stream.n
    shown = (f >= low - margin) & (f <= high + margin)
    ax.fill_between(f[shown], amplitude[shown], color=GREY, alpha=0.25, lw=0)
    ax.plot(f[shown], amplitude[shown], color=GREY, lw=1, label="long stream")
    if np.isfinite(post.noise_std):
        floor = post.noise_std * np.sqrt(np.pi / stream.n)
        ax.axhline(floor, color=GREY, lw=0.8, ls=":", label="noise floor")
    for j in range(draws.shape[1]):
        q = np.quantile(draws[:, j], (0.05, 0.5, 0.95), axis=0)  # (3, 3)
        (a_low, a, a_high), (f_low, f_mid, f_high) = q[:, 0], q[:, 2]
        colour = colour_of(j)
        ax.errorbar(
            f_mid, a, yerr=[[a - a_low], [a_high - a]], xerr=[[f_mid - f_low], [f_high - f_mid]],
            fmt="o", color=colour, ms=5, lw=1.4, zorder=3,
            label="median, 5–95 %" if j == 0 else None,
        )  # fmt: skip
        near = np.abs(f - f_mid) <= 0.01 * (high - low)
        exact = (
            [] if truth is None else truth[np.abs(truth[:, 2] - f_mid) <= 0.02 * (high - low), 0]
        )
        top = max(a_high, amplitude[near].max(initial=0), *exact)
        ax.annotate(
            str(j + 1), (f_mid, top), (0, 7), textcoords="offset points", ha="center",
            color=colour, fontweight="bold",
        )  # fmt: skip
    if truth is not None:
        ax.plot(truth[:, 2], truth[:, 0], "x", color=INK, ms=7, mew=1.6, zorder=4, label="truth")
    ax.set(xlabel="frequency [Hz]", ylabel="amplitude", xlim=(low - margin, high + margin))
    ax.set_ylim(0, 1.12 * ax.get_ylim()[1])
    ax.set_title("Spectrum of the band")
    ax.legend(ncols=4, **LEGEND)


def _draw_k(ax: Axes, post: Posterior, truth: Float | None) -> None:
    """The bar chart of q(K | x)."""
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
    ax.set_title("q(K | x)")


def _draw_components(axes: list[Axes], draws: Float, truth: Float | None) -> None:
    """The marginal posterior of each component, one row each: amplitude, phase, frequency."""
    n_components = draws.shape[1]
    if n_components == 0:
        for ax in axes:
            ax.set_axis_off()
        axes[1].text(0.5, 0.5, "no component to show", transform=axes[1].transAxes, ha="center")
        return
    matched = _match(draws, truth)  # rows of NaN where there is no partner
    titles = ("Amplitude", "Phase at t = 0 [rad]", "Frequency − median [mHz]")
    for column, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        for j in range(n_components):
            samples = draws[:, j, column]
            exact = matched[j, column]
            if column == 1:  # unwrapped around the circular mean
                centre = float(np.angle(np.exp(1j * samples).mean()) % (2 * np.pi))
                samples = _wrap(samples - centre) + centre
                exact = _wrap(exact - centre) + centre
            if column == 2:
                centre = float(np.median(samples))
                samples = 1e3 * (samples - centre)
                exact = 1e3 * (exact - centre)
            _draw_row(ax, j, samples, exact)
        ax.set_title(title)
        ax.set_ylim(n_components - 0.7, -0.95)
        ax.set_yticks(range(n_components))
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    medians = np.median(draws[..., 2], axis=0)
    for ax in axes[1:]:
        ax.set_yticklabels([])
    axes[0].set_yticklabels([f"{j + 1}   {f:.4f} Hz" for j, f in enumerate(medians)])
    for j, label in enumerate(axes[0].get_yticklabels()):
        label.set_color(colour_of(j))


def _draw_row(ax: Axes, j: int, samples: Float, truth: float) -> None:
    """One marginal: a histogram that stands on its own base line, median and interval below it."""
    colour = colour_of(j)
    low, mid, high = np.quantile(samples, (0.05, 0.5, 0.95))
    first, last = np.quantile(samples, (0.002, 0.998))
    if last > first:
        counts, edges = np.histogram(samples, 40, (first, last))
        height = 0.8 * counts / max(counts.max(), 1)
        ax.stairs(j - height, edges, baseline=j, fill=True, color=colour, alpha=0.35)
        ax.stairs(j - height, edges, baseline=None, color=colour, lw=0.9)
    ax.plot([low, high], [j, j], color=colour, lw=2.2, solid_capstyle="butt")
    ax.plot(mid, j, "o", color=colour, ms=4)
    if np.isfinite(truth):
        ax.plot(truth, j, "x", color=INK, ms=7, mew=1.6, zorder=4)


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


def _band(post: Posterior, draws: Float, truth: Float | None) -> tuple[float, float]:
    """The band in Hz: the prior's, else the components and 20 bins around them, else everything."""
    f = np.concatenate([draws[..., 2].ravel(), [] if truth is None else truth[:, 2]])
    stream = post.observation.long
    prior = getattr(post.slots, "prior", None)
    if prior is not None:
        low, high = prior.frequency
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


def _wrap(angle: Any) -> Any:
    """Angles in [−π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def _match(draws: Float, truth: Float | None) -> Float:
    """The true component that belongs to each inferred one by its frequency.

    Args:
        draws: Shape (n, K, 3).
        truth: Shape (L, 3), or None.

    Returns:
        Shape (K, 3); rows of NaN where there is none.
    """
    from scipy.optimize import linear_sum_assignment

    matched = np.full(draws.shape[1:], np.nan)
    if truth is not None:
        cost = np.abs(np.median(draws[..., 2], axis=0)[:, None] - truth[None, :, 2])
        rows, columns = linear_sum_assignment(cost)
        matched[rows] = truth[columns]
    return matched
