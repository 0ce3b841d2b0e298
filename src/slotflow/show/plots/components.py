"""The marginal posterior of every component, as offsets from its median in a unit that can be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.show.plots.style import INK, colour_of
from slotflow.show.plots.units import readable, scale, texts, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_components", "match_truth"]

Float = NDArray[np.float64]

WIDEST = 6.0
"""How much wider than half of the components one may be that is still shown whole."""
SURE = 0.995
"""Existence probability that need not be told."""


def draw_components(
    axes: list[Axes],
    draws: Float,
    truth: Float | None,
    existence: Float | None = None,
    *,
    unit: str = "",
    epoch: str = "t = 0",
) -> None:
    """The marginal posterior of each component, one row each: amplitude, phase, frequency.

    Widths are often a millionth of the values, so that a row shows the offset from its median, and the median with its
    standard deviation stands beside it.

    Args:
        axes: A panel for each of the three.
        draws: Components in the order of their frequencies, shape (n, K, 3).
        truth: Shape (L, 3), or None.
        existence: Probability of each component, (K,); told where it is below 0.995.
        unit: Of the data, empty if unknown.
        epoch: When the phases hold.
    """
    n_components = draws.shape[1]
    if n_components == 0:
        for ax in axes:
            ax.set_axis_off()
        axes[1].text(0.5, 0.5, "no component to show", transform=axes[1].transAxes, ha="center")
        return
    matched = match_truth(draws, truth)  # rows of NaN where there is no partner
    columns = (("Amplitude", ""), (f"Phase at {epoch}", "rad"), ("Frequency", "Hz"))
    for column, (ax, (name, si)) in enumerate(zip(axes, columns, strict=True)):
        samples, exact = draws[..., column].copy(), matched[:, column].copy()  # (n, K), (K,)
        if column == 1:  # unwrapped around the circular mean
            centre = np.angle(np.exp(1j * samples).mean(axis=0))
            samples = _wrap(samples - centre) + centre
            exact = _wrap(exact - centre) + centre
        median, sd = np.median(samples, axis=0), samples.std(axis=0)
        offsets = np.quantile(samples, (0.05, 0.95), axis=0) - median
        reaches = 1.8 * np.abs(offsets).max(axis=0)
        reach = min(float(reaches.max()), WIDEST * float(np.median(reaches)))
        reach = float(np.nanmax([reach, *(1.2 * np.abs(exact - median))]))
        factor, prefix = scale(reach / 3, si)
        for j in range(n_components):
            offset = factor * (samples[:, j] - median[j])
            _draw_row(ax, j, offset, factor * (exact[j] - median[j]), 1.5 * factor * reach)
        shown = np.mod(median, 2 * np.pi) if column == 1 else median
        values = texts(shown, sd, si or unit, prefixed=bool(si))
        for j, text in enumerate(values):
            ax.text(
                1.0, j - 0.3, text, transform=ax.get_yaxis_transform(),
                ha="right", va="center", size=7, color=colour_of(j),
            )  # fmt: skip
        reach *= factor
        if reach > 0:  # far tails may leave the panel; the values stand beside it
            room = 0.018 * max(len(re.sub(r"[${}^]", "", text)) for text in values)
            ax.set_xlim(-reach, reach * (1 + room) / (1 - room))
        ax.locator_params(axis="x", nbins=6)
        ax.set_title(with_unit(f"{name} − median", prefix, "" if si else unit))
        ax.set_ylim(n_components - 0.7, -0.95)
        ax.set_yticks(range(n_components))
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    for ax in axes[1:]:
        ax.set_yticklabels([])
    factor, prefix = readable(float(np.median(draws[..., 2], axis=0).max()), "Hz")
    low, medians, high = factor * np.quantile(draws[..., 2], (0.16, 0.5, 0.84), axis=0)
    digits = [_digits(float(width)) for width in 0.5 * (high - low)]
    sure = np.ones(n_components) if existence is None else existence
    doubts = ["" if p >= SURE else f"\nprobability {p:.2f}" for p in sure]
    axes[0].set_yticklabels(
        [f"{j + 1}   {f:.{digits[j]}f} {prefix}{doubts[j]}" for j, f in enumerate(medians)]
    )
    for j, label in enumerate(axes[0].get_yticklabels()):
        label.set_color(colour_of(j))


def _draw_row(ax: Axes, j: int, samples: Float, truth: float, reach: float) -> None:
    """One marginal: a histogram within reach on its own base line, median and interval below it."""
    colour = colour_of(j)
    low, mid, high = np.quantile(samples, (0.05, 0.5, 0.95))
    first, last = np.clip(np.quantile(samples, (0.002, 0.998)), -reach, reach)
    if last > first:
        counts, edges = np.histogram(samples, 40, (first, last))
        height = 0.8 * counts / max(counts.max(), 1)
        ax.stairs(j - height, edges, baseline=j, fill=True, color=colour, alpha=0.35)
        ax.stairs(j - height, edges, baseline=None, color=colour, lw=0.9)
    ax.plot([low, high], [j, j], color=colour, lw=2.2, solid_capstyle="butt")
    ax.plot(mid, j, "o", color=colour, ms=5)
    if np.isfinite(truth):
        ax.plot(truth, j, "x", color=INK, ms=6, mew=1.3, zorder=4)


def _digits(width: float) -> int:
    """Decimals of a value that name a component of a width."""
    return int(np.clip(-np.floor(np.log10(width)) - 1, 0, 15)) if width > 0 else 4


def _wrap(angle: Any) -> Any:
    """Angles in [−π, π)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi


def match_truth(draws: Float, truth: Float | None) -> Float:
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
