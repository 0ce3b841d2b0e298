"""The picture of the latent space: planes of t-SNE and Isomap, and how much of each parameter the contexts explain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.show.plots.style import COLOURS, style
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
        _bars(axes[1, 2], data["explained"])
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


def _bars(ax: Axes, explained: Data) -> None:
    """R² of each parameter in each space."""
    order = TABLE_ORDER
    place = np.arange(len(order))
    width = 0.8 / len(explained)
    for j, (where, shares) in enumerate(explained.items()):
        values = [max(shares[i], 0.0) for i in order]
        bars = ax.bar(
            place + (j - (len(explained) - 1) / 2) * width, values, 0.9 * width, color=COLOURS[j],
            alpha=0.8, label=where,
        )  # fmt: skip
        labels = [f"{shares[i]:.2f}" if shares[i] > 0 else "< 0" for i in order]
        ax.bar_label(bars, labels, fontsize=8, padding=2)
    ax.set_xticks(place, [SYMBOLS[i] for i in order])
    ax.set(ylabel="R² on other signals", ylim=(0, 1.45), yticks=(0, 0.25, 0.5, 0.75, 1.0))
    ax.grid(visible=False, axis="x")
    ax.legend(loc="upper right")
    ax.set_title("How much of each parameter the context explains")
