"""The matrix of posterior correlations of all parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slotflow.posterior.moments import own_names
from slotflow.posterior.summaries import components
from slotflow.show.plots.axes import draw_nothing
from slotflow.show.plots.colours import INK
from slotflow.show.plots.style import style
from slotflow.show.plots.units import symbol_of
from slotflow.show.plots.view import DRAWS, Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_correlation"]

MOST_WITH_NUMBERS = 12
"""Parameters up to which numbers stand in the cells."""
STRONG = 0.6
"""Correlation whose cell is so dark that its number is written in white."""


def plot_correlation(post: Posterior, k: int | None = None) -> Figure:
    """Draws the correlations of all parameters of all components given K.

    Args:
        post: The posterior.
        k: Number of components; k_map if None.
    """
    from matplotlib.figure import Figure

    whole, waveform = post.correlation(k), post.waveform
    count = len(whole) // waveform.size
    own = own_names(components(post, count, DRAWS, 0)[0], waveform) if count else []
    kept = [j * waveform.size + waveform.column(name) for j in range(count) for name in own[j]]
    matrix, size = whole[np.ix_(kept, kept)], len(kept)
    small = size <= MOST_WITH_NUMBERS
    side = min(2.2 + 0.42 * size if small else 2.5 + 0.22 * size, 14.0)
    with style():
        figure = Figure(figsize=(side + 0.9, side), layout="constrained")
        ax = figure.subplots()
        if size == 0:
            draw_nothing(ax, "no component to show")
            return figure
        image = ax.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
        names = [
            symbol_of(waveform.parameters[i % waveform.size], i // waveform.size) for i in kept
        ]
        ax.set_xticks(range(size), names)
        ax.set_yticks(range(size), names)
        ax.tick_params(length=0, labelsize=9 if small else 7)
        ax.grid(False)
        for edge in np.cumsum([len(names) for names in own])[:-1]:  # between components
            ax.axhline(edge - 0.5, color="white", lw=1.5)
            ax.axvline(edge - 0.5, color="white", lw=1.5)
        if small:
            _write_numbers(ax, matrix)
        ax.set_title(f"Correlations given K = {count}")
        figure.colorbar(image, ax=ax, shrink=0.8)
    return figure


def _write_numbers(ax: Axes, matrix: Float) -> None:
    """Writes each correlation into its cell."""
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            text = f"{value:+.2f}".replace("-", "−") if i != j else "1"
            text = "0.00" if text[1:] == "0.00" else text
            colour = "white" if abs(value) > STRONG else INK
            ax.text(j, i, text, ha="center", va="center", size=7, color=colour)
