"""The picture of posterior widths against K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slotflow.show.plots.style import COLOURS, GREY, INK, style
from slotflow.studies.measures.parameters import SIZE, SYMBOLS
from slotflow.studies.paper.result import Data
from slotflow.studies.suites.model_rows import PAPER_SD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["UNITS", "plot"]

UNITS = ((100.0, "%"), (1.0, "rad"), (1e3, "mHz"))
"""Factor and unit in which A (relative), φ and f are written."""
FAR_FROM_THE_BOUND = 3.0
"""Widths over the bound from which on they are drawn on a logarithmic scale."""
METHOD_COLOURS = {"network": COLOURS[0], "exact": COLOURS[1], "slots": COLOURS[2]}
METHOD_NAMES = {"network": "network", "exact": "exact", "slots": "network, slot by slot"}


def plot(data: Data) -> Figure:
    """Above: widths of the first method, the bound, and the ends that the paper prints. Below: all over the bound."""
    from matplotlib.figure import Figure

    titles = ("Amplitude, relative", "Phase", "Frequency")
    methods = data["methods"]
    first = next(iter(methods))
    with style():
        figure = Figure(figsize=(12, 7), layout="constrained")
        axes = figure.subplots(2, SIZE, height_ratios=(4, 3))
        for i, symbol in enumerate(SYMBOLS):
            _draw_widths(axes[0, i], first, methods[first], i)
            axes[0, i].set_title(f"{titles[i]} ({symbol})")
            _draw_ratios(axes[1, i], methods, i)
        _share_range(axes[1])
        for ax in axes.flat:
            ax.set_xlabel("K")
            ax.set_xscale("log")
            ax.set_xticks((1, 2, 3, 5, 10), ("1", "2", "3", "5", "10"))
            ax.minorticks_off()
    return figure


def _draw_widths(ax: Axes, method: str, found: Data, i: int) -> None:
    """Points of one method with their errors, the bound and the paper's ends.

    No power law is drawn: where widths grow by a third or less, one would fit curves of any shape.
    """
    (factor, unit), by_k = UNITS[i], found["by_k"]
    counts = np.array([entry["k"] for entry in by_k])
    sd, error, bound = (
        factor * np.array([entry[key][i] for entry in by_k]) for key in ("sd", "sd_se", "bound")
    )
    ax.plot(counts, bound, color=INK, lw=1.4, label="joint Cramér–Rao bound")
    ax.errorbar(
        counts, sd, np.minimum(1.96 * error, 0.9 * sd), fmt="o", ms=4, lw=1.1, capsize=2,
        color=METHOD_COLOURS[method], label=f"{method}, 95 % error",
    )  # fmt: skip
    ends = [factor * PAPER_SD[k][i] for k in (1, 10)]
    ax.plot((1, 10), ends, "D:", ms=5, lw=0.9, color=GREY, label="paper, K = 1 and 10")
    ax.set(ylabel=f"mean posterior sd [{unit}]", yscale="log")
    _decimal_ticks(ax)
    ax.legend(loc="upper left")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.3)


def _draw_ratios(ax: Axes, methods: Data, i: int) -> None:
    """Widths over the bound, all methods."""
    ax.axhline(1, color=INK, lw=1.0, label="bound")
    for j, (method, found) in enumerate(methods.items()):
        counts = np.array([entry["k"] for entry in found["by_k"]])
        ratio, error = (
            np.array([entry[key][i] for entry in found["by_k"]]) for key in ("ratio", "ratio_se")
        )
        ax.errorbar(
            counts * 1.03**j, ratio, 1.96 * error, fmt="os^"[j], ms=4, lw=1.1, capsize=2,
            color=METHOD_COLOURS[method], label=f"{METHOD_NAMES[method]}, 95 % error",
        )  # fmt: skip
    ax.set_ylabel(f"sd of {SYMBOLS[i]} / bound")


def _share_range(axes: Sequence[Axes]) -> None:
    """One range for all panels, that of their values; logarithmic where widths are far from the bound.

    The targets are not drawn. They lie where the widths do not reach, and would leave half of each panel empty; the
    table has them.
    """
    far = max(ax.get_ylim()[1] for ax in axes) > FAR_FROM_THE_BOUND
    if far:
        for ax in axes:
            ax.set_yscale("log")
            _decimal_ticks(ax)
    low, high = (f(ax.get_ylim()[j] for ax in axes) for j, f in enumerate((min, max)))
    for ax in axes:
        ax.set_ylim(low, high)
    (axes[0] if far else axes[1]).legend(loc="upper left" if far else "lower left")


def _decimal_ticks(ax: Axes) -> None:
    """Plain numbers at 1, 2 and 5 of each decade of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
