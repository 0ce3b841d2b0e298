"""The style that all pictures share, and how they are written to a file."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotflow.core.files import atomic_path
from slotflow.show.plots.colours import COLOURS, GREY, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "GREY", "INK", "LEGEND", "name_figure", "save_figure", "style"]

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

LEGEND: Any = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
"""A legend above the axes, right-aligned beside the title."""

BESIDE_CORNER = 0.2
"""Where the empty half of a corner plot begins, as a share of the figure's width."""

FORMATS = (".png", ".svg", ".pdf")


def style() -> AbstractContextManager[None]:
    """The style, for the enclosed code only."""
    from matplotlib import rc_context

    return rc_context(STYLE)


def name_figure(figure: Figure, name: str) -> None:
    """Writes above all panels, at the left, what a figure is about; a corner plot's first panel is left free."""
    x = BESIDE_CORNER if figure.get_layout_engine() is None else 0.005
    figure.suptitle(name, x=x, ha="left", size=11, weight="bold", color=INK)


def save_figure(figure: Figure, path: str | os.PathLike[str], dpi: int = 160) -> None:
    """Writes a figure as PNG, SVG or PDF, whole or not at all.

    The same figure gives the same bytes, except for the names of clip paths in SVG: dates are left out.

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
    with style(), atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=dpi, metadata=metadata)
