"""The picture of the latent space: planes of t-SNE and Isomap, and how much of each parameter the contexts explain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.signal.waveforms.base import DATA_UNIT
from slotflow.studies.measures.parameters import (
    AMPLITUDE,
    PHASE,
    PLACE,
    SYMBOLS,
    TABLE_ORDER,
    WAVEFORM,
)
from slotflow.studies.paper.result import Data
from slotflow.studies.row import tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]


def plot(data: Data) -> Figure:
    """Above: t-SNE of all slots by A, f, φ. Below: Isomap of the lowest slot by A and φ, and R²."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(12, 7.6), layout="constrained")
        axes = figure.subplots(2, 3)
        for ax, i in zip(axes[0], (AMPLITUDE, PLACE, PHASE), strict=True):
            _cloud(ax, data["tsne"], i, f"t-SNE of {len(data['tsne']['at']):,} slots")
        for ax, i in zip(axes[1], (AMPLITUDE, PHASE), strict=False):
            _cloud(
                ax, data["isomap"], i, f"Isomap of the lowest slot, {data['mixtures']:,} mixtures"
            )
        _draw_explained(axes[1, 2], data["explained"])
    return figure


def _cloud(ax: Axes, found: Data, i: int, title: str) -> None:
    """Points of a plane, coloured by one parameter."""
    at, value = np.asarray(found["at"]), np.asarray(found["theta"])[:, i]
    symbol = SYMBOLS[i]
    parameter = WAVEFORM.parameters[i]
    limits: Any = {"vmin": 0, "vmax": 2 * math.pi} if parameter.circular else {}
    colours = "twilight" if parameter.circular else "viridis"
    size = 5 if len(at) > 1000 else 9
    points = ax.scatter(at[:, 0], at[:, 1], s=size, c=value, cmap=colours, lw=0, **limits)
    unit = "" if parameter.unit == DATA_UNIT else f" [{parameter.unit}]"
    assert ax.figure is not None
    ax.figure.colorbar(points, ax=ax, label=f"{symbol}{unit}")
    ax.set(xticks=(), yticks=())
    ax.grid(visible=False)
    ax.set_title(f"{title}, by {symbol}")


def _draw_explained(ax: Axes, explained: Data) -> None:
    """R² of each parameter in each space; below 0, a regression is worse than the mean."""
    place = np.arange(len(TABLE_ORDER))
    for j, (where, shares) in enumerate(explained.items()):
        at, values = place + 0.25 * (j - (len(explained) - 1) / 2), [shares[i] for i in TABLE_ORDER]
        ax.plot(at, values, "os^"[j], ms=6, color=COLOURS[j], label=where)
        for x, y in zip(at, values, strict=True):
            ax.annotate(
                tidy(f"{y:.2f}"), (x, y), (0, 9), textcoords="offset points", ha="center",
                va="center", fontsize=8,
            )  # fmt: skip
    ax.axhline(0, color=GREY, lw=0.9)
    ax.set_xticks(place, [SYMBOLS[i] for i in TABLE_ORDER])
    ax.set(ylabel="R² on other signals", ylim=(-0.2, 1.05), yticks=(0, 0.25, 0.5, 0.75, 1.0))
    ax.set_xlim(-0.5, len(place) - 0.5)
    ax.grid(visible=False, axis="x")
    ax.legend(loc="center right")
    ax.set_title("How much of each parameter the context explains")
