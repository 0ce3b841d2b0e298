"""What the pictures of the ablations are made of: histograms of errors, curves of training, matrices of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotflow.show.plots.style import COLOURS
from slotflow.studies.ablations.errors import HISTOGRAM_BINS, HISTOGRAM_HALF_WIDTHS
from slotflow.studies.frame.study import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_curves", "draw_errors", "draw_values"]

LABELS = {"A": "A − truth [data units]", "φ": "φ − truth [rad]", "f": "f − truth [mHz]"}
FACTORS = {"A": 1.0, "φ": 1.0, "f": 1e3}
DRAWN_SHARE = 0.005
"""Share of the highest bin of a histogram below which a bin need not be in the picture."""


def draw_errors(ax: Axes, found: Mapping[str, Data], parameter: str) -> None:
    """Errors of one parameter, pooled over draws, slots and signals, for each variant."""
    half = FACTORS[parameter] * HISTOGRAM_HALF_WIDTHS[parameter]
    edges = np.linspace(-half, half, HISTOGRAM_BINS + 1)
    for i, (name, one) in enumerate(found.items()):
        density = np.asarray(one["histogram"][parameter]) / np.diff(edges)
        ax.stairs(density, edges, color=COLOURS[i % len(COLOURS)], lw=1.2, label=name)
    shown = max(_reach(one["histogram"][parameter], edges) for one in found.values())
    ax.set(xlabel=LABELS[parameter], ylabel="density of draws", xlim=(-shown, shown))


def _reach(shares: Sequence[float], edges: NDArray[np.float64]) -> float:
    """How far from 0 the bins of a histogram, (bins + 1,) edges, are worth drawing."""
    drawn = np.asarray(shares) > DRAWN_SHARE * max(shares)
    return float(
        np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))[drawn].max(initial=edges[1] - edges[0])
    )


def draw_curves(ax: Axes, found: Mapping[str, Data], key: str) -> None:
    """One of the curves of each variant against the steps of its training; those without it are left out."""
    for i, (name, one) in enumerate(found.items()):
        curve = one["curve"]
        if any(value is not None for value in curve[key]):
            values = [np.nan if value is None else value for value in curve[key]]
            turn, colour = divmod(i, len(COLOURS))
            ax.plot(curve["step"], values, "o", ls=("-", "--", ":")[turn], ms=3, lw=1.2,
                    color=COLOURS[colour], label=name)  # fmt: skip
    ax.set(xlabel="steps of training")


def draw_values(
    ax: Axes, found: Mapping[float, Data], parameter: str, label: str, number: int = 0
) -> None:
    """Standard deviation and, dotted, the spread by quantiles of a parameter's errors against a setting."""
    from matplotlib.ticker import LogLocator

    place = np.arange(len(found))
    for kind, line in (("sd", "-"), ("robust", ":")):
        values = [FACTORS[parameter] * one[kind][parameter][0] for one in found.values()]
        errors = [FACTORS[parameter] * (one[kind][parameter][1] or 0.0) for one in found.values()]
        name = label if kind == "sd" else f"{label}, by quantiles"
        ax.errorbar(place, values, errors, fmt="o", ls=line, ms=4, lw=1.2, label=name,
                    color=COLOURS[number % len(COLOURS)])  # fmt: skip
    ax.set_xticks(place, [f"{setting:g}" for setting in found])
    ax.set(yscale="log", ylabel=f"spread of {LABELS[parameter]}")
    ax.yaxis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("{x:g}")
