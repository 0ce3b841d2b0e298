"""Pictures: one colour-blind-safe style, figures that need no window, files that appear whole.

Every function builds a :class:`matplotlib.figure.Figure` of its own. ``pyplot`` is never imported,
so neither the user's backend nor their style is touched, and nothing has to be closed.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.io import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slotflow.posterior import Posterior

__all__ = ["plot_posterior", "plot_training", "save_figure"]

Float = NDArray[np.float64]

INK = "#222222"
GREY = "#8c8c8c"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, without black (data, truth) and yellow (too pale on white)."""

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "legend.columnspacing": 1.4,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.hashsalt": "slotflow",
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 8,
    "ytick.color": INK,
    "ytick.labelsize": 8,
}

FORMATS = (".png", ".svg", ".pdf")
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
    with _style():
        figure = Figure(figsize=(11, 9.4), layout="constrained")
        figure.suptitle(_headline(post), x=0.01, ha="left", size=12, weight="bold")
        grid = figure.add_gridspec(3, 6, height_ratios=(1, 1.15, 1.25))
        _draw_data(figure.add_subplot(grid[0, :]), post, draws, exact)
        _draw_spectrum(figure.add_subplot(grid[1, :4]), post, draws, exact)
        _draw_k(figure.add_subplot(grid[1, 4:]), post, exact)
        panels = [figure.add_subplot(grid[2, 2 * j : 2 * j + 2]) for j in range(3)]
        _draw_components(panels, draws, exact)
    return figure


def plot_training(metrics_path: str | os.PathLike[str]) -> Figure:
    """Draws the course of a training run.

    Args:
        metrics_path: The run's ``metrics.jsonl``: one JSON object per line with ``step``,
            ``split`` ("train" or "val"), ``loss`` and, where they are known, ``ce``, ``flow``,
            ``noise``, ``k_accuracy``, ``lr`` and ``signals_per_second``.

    Returns:
        A figure with the loss, its terms, the accuracy of K, and learning rate with throughput.
    """
    from matplotlib.figure import Figure

    records = _read_metrics(Path(metrics_path))
    with _style():
        figure = Figure(figsize=(10, 6.4), layout="constrained")
        axes = figure.subplots(2, 2)
        _draw_curves(axes[0, 0], records, ("loss",), "Loss")
        _draw_curves(axes[0, 1], records, ("ce", "flow", "noise"), "Terms of the loss")
        _draw_curves(axes[1, 0], records, ("k_accuracy",), "Share of signals with the right K")
        axes[1, 0].set_ylim(0, 1.03)
        _draw_curves(axes[1, 1], records, ("lr",), "Learning rate and throughput")
        _draw_throughput(axes[1, 1], records)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: int = 160) -> None:
    """Writes a figure as PNG, SVG or PDF, whole or not at all.

    The same figure gives the same bytes: dates are left out.

    Args:
        figure: The figure.
        path: File to write; its suffix chooses the format.
        dpi: Resolution of a PNG.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(
            f"{path}: expected a figure's name to end in one of {' '.join(FORMATS)}, "
            f"received {suffix or 'no ending'!r}; rename it."
        )
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with _style(), atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=dpi, metadata=metadata)


# --- Panels of the posterior -------------------------------------------------------------------


def _draw_data(ax: Axes, post: Posterior, draws: Float, truth: Float | None) -> None:
    """A stretch of the long stream with the reconstruction and its 90 % band."""
    stream = post.observation.long
    centre = np.mean(_band(post, draws, truth))
    stop = min(stream.duration, PERIODS / float(centre))
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
            short.times[inside], short.values[inside], "o", color=GREY, alpha=0.5, ms=1.8, mew=0,
            zorder=1, label="short stream",
        )  # fmt: skip
    ax.plot(
        stream.times[shown], stream.values[shown], "o", color=INK, ms=3, mew=0, label="long stream"
    )
    ax.set(xlabel="time [s]", ylabel="x(t)", xlim=(t[0], t[-1]))
    ax.set_title(f"Data and reconstruction, first {stop:.3g} s of {stream.duration:.4g} s")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=5, borderaxespad=0.2)


def _draw_spectrum(ax: Axes, post: Posterior, draws: Float, truth: Float | None) -> None:
    """The band's amplitude spectrum with the components on it."""
    stream = post.observation.long
    low, high = _band(post, draws, truth)
    margin = 0.05 * (high - low)
    n = 8 * stream.n  # zero padding: a smooth line between the bins
    f = np.fft.rfftfreq(n, stream.dt)
    amplitude = 2 * np.abs(np.fft.rfft(stream.values, n)) / stream.n
    shown = (f >= low - margin) & (f <= high + margin)
    ax.fill_between(f[shown], amplitude[shown], color=GREY, alpha=0.25, lw=0)
    ax.plot(f[shown], amplitude[shown], color=GREY, lw=1, label="long stream")
    sigma = post.noise_std
    if np.isfinite(sigma):
        floor = sigma * np.sqrt(np.pi / stream.n)
        ax.axhline(floor, color=GREY, lw=0.8, ls=":", label="noise floor")
    for j in range(draws.shape[1]):
        q = np.quantile(draws[:, j], (0.05, 0.5, 0.95), axis=0)  # (3, 3)
        (a_low, a, a_high), (f_low, f_mid, f_high) = q[:, 0], q[:, 2]
        colour = _colour(j)
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
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2)


def _draw_k(ax: Axes, post: Posterior, truth: Float | None) -> None:
    """The bar chart of q(K | x)."""
    k = np.arange(len(post.k_probs))
    bars = ax.bar(k, post.k_probs, color=[COLOURS[0] if i == post.k_map else "#a8c8de" for i in k])
    for bar, p in zip(bars, post.k_probs, strict=True):
        if p >= 0.005:
            x = bar.get_x() + bar.get_width() / 2
            ax.annotate(f"{p:.2f}", (x, p), (0, 2), textcoords="offset points", ha="center", size=8)
    if truth is not None:
        ax.plot(len(truth), 0, "^", color=INK, ms=7, clip_on=False, zorder=5, label="true K")
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
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
        label.set_color(_colour(j))


def _draw_row(ax: Axes, j: int, samples: Float, truth: float) -> None:
    """One marginal: a histogram that stands on its own base line, median and interval below it."""
    colour = _colour(j)
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


# --- Panels of training --------------------------------------------------------------------------


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    """Reads JSON lines; a last line that was cut short by a kill is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; expected a run's metrics.jsonl.") from None
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            if number == len(lines):
                break
            raise ValueError(f"{path}: line {number}: expected a JSON object.") from None
        if not isinstance(record, dict) or "step" not in record:
            raise ValueError(f"{path}: line {number}: expected a JSON object with a 'step'.")
        records.append(record)
    if not records:
        raise ValueError(f"{path}: holds no records yet; wait for the first step of training.")
    return records


def _points(records: list[dict[str, Any]], name: str, split: str) -> Float:
    """The steps and values of a quantity, shape (2, n)."""
    points = [
        (r["step"], r[name])
        for r in records
        if r.get("split", "train") == split and isinstance(r.get(name), (int, float))
    ]
    return np.array(points, dtype=float).reshape(-1, 2).T


def _draw_curves(
    ax: Axes, records: list[dict[str, Any]], names: tuple[str, ...], title: str
) -> None:
    """Some quantities against the step: training thin, validation with dots."""
    for j, name in enumerate(names):
        for split in ("train", "val"):
            step, value = _points(records, name, split)
            if not step.size:
                continue
            style: dict[str, Any] = {"lw": 1.0, "alpha": 0.55}
            if split == "val":
                style = {"lw": 1.6, "marker": "o", "ms": 3.5}
            label = f"{name}, {split}" if len(names) > 1 else split
            ax.plot(step, value, color=_colour(j), label=label, **style)
    ax.set_xlabel("step")
    ax.set_title(title)
    if ax.get_lines():
        ax.legend()
    else:
        ax.text(0.5, 0.5, "not recorded", transform=ax.transAxes, ha="center", color=GREY)


def _draw_throughput(ax: Axes, records: list[dict[str, Any]]) -> None:
    """Signals per second on a second axis of the learning rate's panel."""
    ax.set_ylabel("learning rate", color=_colour(0))
    ax.set_ylim(bottom=0)
    step, rate = _points(records, "signals_per_second", "train")
    if not step.size:
        return
    right = ax.twinx()
    right.plot(step, rate, color=_colour(1), lw=1.0)
    right.set_ylabel("signals per second", color=_colour(1))
    right.set_ylim(bottom=0)
    right.grid(visible=False)
    if legend := ax.get_legend():
        legend.remove()


# --- Shared ---------------------------------------------------------------------------------------


def _style() -> AbstractContextManager[None]:
    """The style, for the enclosed code only."""
    from matplotlib import rc_context

    return rc_context(STYLE)


def _colour(j: int) -> str:
    """Colour of component j, counted from 0; numbers tell components apart where colours repeat."""
    return COLOURS[j % len(COLOURS)]


def _signal(theta: Float, t: Float) -> Float:
    """Noise-free signals.

    Args:
        theta: (amplitude, phase, frequency), shape (n, K, 3).
        t: Times in seconds, shape (m,).

    Returns:
        Signals, shape (n, m).
    """
    total = np.zeros((len(theta), len(t)))
    for k in range(theta.shape[1]):
        amplitude, phase, frequency = (theta[:, k, i, None] for i in range(3))
        total += amplitude * np.cos(2 * np.pi * frequency * t + phase)
    return total


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
    matched = np.full(draws.shape[1:], np.nan)
    if truth is not None and len(truth):
        from scipy.optimize import linear_sum_assignment

        cost = np.abs(np.median(draws[..., 2], axis=0)[:, None] - truth[None, :, 2])
        rows, columns = linear_sum_assignment(cost)
        matched[rows] = truth[columns]
    return matched
