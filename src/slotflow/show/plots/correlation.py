"""The matrix of posterior correlations of all parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotflow.show.plots.panels import draw_nothing
from slotflow.show.plots.style import INK, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.posterior.posterior import Posterior

__all__ = ["plot_correlation"]

FEW = 12
"""Parameters up to which numbers stand in the cells."""


def plot_correlation(post: Posterior, k: int | None = None) -> Figure:
    """Draws the correlations of amplitude, phase and frequency of all components given K.

    Args:
        post: The posterior.
        k: Number of components; k_map if None.
    """
    from matplotlib.figure import Figure

    matrix = post.correlation(k)
    size = len(matrix)
    side = min(2.2 + 0.42 * size if size <= FEW else 2.5 + 0.22 * size, 14.0)
    with style():
        figure = Figure(figsize=(side + 0.9, side), layout="constrained")
        ax = figure.subplots()
        if size == 0:
            draw_nothing(ax, "no component to show")
            return figure
        image = ax.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
        names = [f"${s}_{{{j + 1}}}$" for j in range(size // 3) for s in ("A", r"\phi", "f")]
        ax.set_xticks(range(size), names)
        ax.set_yticks(range(size), names)
        ax.tick_params(length=0, labelsize=9 if size <= FEW else 7)
        ax.grid(False)
        for edge in range(3, size, 3):  # between components
            ax.axhline(edge - 0.5, color="white", lw=1.5)
            ax.axvline(edge - 0.5, color="white", lw=1.5)
        if size <= FEW:
            for i in range(size):
                for j in range(size):
                    shade = "white" if abs(matrix[i, j]) > 0.6 else INK
                    text = f"{matrix[i, j]:+.2f}".replace("-", "−") if i != j else "1"
                    text = "0.00" if text[1:] == "0.00" else text
                    ax.text(j, i, text, ha="center", va="center", size=7, color=shade)
        ax.set_title(f"Correlations given K = {size // 3}")
        figure.colorbar(image, ax=ax, shrink=0.8)
    return figure
