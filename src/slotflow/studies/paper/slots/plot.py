"""The picture of what slots take, how stable that is, and what a change of the components does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.studies.measures.matching import consistency
from slotflow.studies.paper.result import Data
from slotflow.studies.paper.slots.changes import draw_moves, draw_shares
from slotflow.studies.suites.sets import NOMINAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PAPER_ENDS", "QUANTILES", "median_frequencies", "plot"]

K = NOMINAL.k_max
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Those of the boxes and their whiskers."""
PAPER_ENDS = (2.55, 2.95)
"""Frequencies in Hz of the first and the last slot, read off the paper's text."""
SLOT_AXIS = "number of the slot, in the order of f"


def median_frequencies(data: Data) -> list[float]:
    """Median frequency of the components that each slot takes, slot by slot."""
    return [row[QUANTILES.index(0.5)] for row in data["frequency"]]


def plot(data: Data) -> Figure:
    """Box plots of frequency and amplitude by slot, the two match matrices, and what a change does.

    Slots stand in the order of their median frequency, as in the paper, since their numbers mean nothing; the numbers
    are written at the axes.
    """
    from matplotlib.figure import Figure

    repeated = data["repeated"]
    order = np.argsort(median_frequencies(data))
    with style():
        figure = Figure(figsize=(12, 12), layout="constrained")
        axes = figure.subplots(3, 2)
        draw_shares(axes[2, 0], data["changes"])
        draw_moves(axes[2, 1], data["changes"])
        _boxes(axes[0, 0], data["frequency"], order, COLOURS[0])
        axes[0, 0].plot(
            (1, K), PAPER_ENDS, "D:", ms=5, color=GREY, label="paper, first and last slot"
        )
        axes[0, 0].set(ylabel="f of the matched component [Hz]", ylim=NOMINAL.frequency)
        axes[0, 0].legend(loc="lower right")
        axes[0, 0].set_title(f"Frequency by slot, {data['mixtures']:,} mixtures of K = {K}")
        _boxes(axes[0, 1], data["amplitude"], order, COLOURS[1])
        axes[0, 1].set(ylabel="A of the matched component", ylim=NOMINAL.amplitude)
        axes[0, 1].set_title("Amplitude by slot")
        for ax, key, what in (
            (axes[1, 0], "draws", f"{repeated['runs']} draws of one posterior"),
            (axes[1, 1], "noise", f"{repeated['runs']} draws of the noise"),
        ):
            matrix = np.asarray(repeated[key])[order]
            image = ax.imshow(
                matrix / matrix.sum(1, keepdims=True),
                cmap="Blues",
                vmin=0,
                vmax=1,
                extent=(0.5, K + 0.5, K + 0.5, 0.5),
                aspect="auto",
            )
            ax.set(xlabel="component, by frequency", ylabel=SLOT_AXIS, xticks=range(1, K + 1))
            ax.set_yticks(range(1, K + 1), [str(slot + 1) for slot in order])
            ax.grid(visible=False)
            ax.set_title(f"One signal, {what}: consistency {consistency(matrix):.3f}")
            figure.colorbar(image, ax=ax, label="share of runs")
    return figure


def _boxes(ax: Axes, quantiles: list[list[float]], order: NDArray[np.intp], colour: str) -> None:
    """Boxes from the quantiles of each slot, in the order given; whiskers reach from 5 to 95 %."""
    ends = ("whislo", "q1", "med", "q3", "whishi")
    boxes = [dict(zip(ends, quantiles[slot], strict=True)) for slot in order]
    ax.bxp(
        boxes,
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": colour, "alpha": 0.35},
        medianprops={"color": colour, "lw": 1.8},
    )
    ax.set_xticks(range(1, K + 1), [str(slot + 1) for slot in order])
    ax.set_xlabel(SLOT_AXIS)
