"""Pictures of the study: loss against N by K (figure 18), and the least N against K with the K³ curve (figure 19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.studies.complexity.curves import Curves, curves_of
from slotflow.studies.frame.study import Data
from slotflow.studies.theory.minimum_samples import PAPER_COUNTS, PAPER_SAMPLES, power_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

ANCHOR = 2
"""K through which the K³ curves are drawn, as in the paper."""
BEYOND = 1.4
"""Factor by which marks for "more than the largest set" lie above it, clear of values at that size."""


def plot(data: Data) -> Figure:
    """A panel for each network's losses, and one for the least training sets."""
    from matplotlib.figure import Figure

    found = curves_of(data)
    losses = [curves for curves in found if curves.is_loss]
    with style():
        figure = Figure(figsize=(4.6 * (len(losses) + 1), 4.2), layout="constrained")
        *left, right = np.atleast_1d(figure.subplots(1, len(losses) + 1))
        for ax, curves in zip(left, losses, strict=True):
            _draw_losses(ax, curves)
        for number, curves in enumerate(found):
            _draw_least(right, curves, number)
        right.plot(PAPER_COUNTS, PAPER_SAMPLES, "x", color=GREY, label="the paper's")
        _explain_marks(right, found)
        right.set(xscale="log", yscale="log", xlabel="K", ylabel="least N")
        right.set_xticks(PAPER_COUNTS, [str(k) for k in PAPER_COUNTS])
        right.minorticks_off()
        right.legend(loc="upper left", fontsize="small")
        right.set_title("Least training set")
    return figure


def _draw_losses(ax: Axes, curves: Curves) -> None:
    """Loss against N, one line for each K, with the values of single seeds as faint dots."""
    for i, (k, curve) in enumerate(curves.by_count.items()):
        for losses in curve.by_seed:
            ax.plot(
                curve.sizes, losses, "o", ms=3, mew=0, alpha=0.6, color=COLOURS[i % len(COLOURS)]
            )
        errors = [error or 0.0 for error in curve.errors]
        ax.errorbar(curve.sizes, curve.loss, errors, fmt="o-", ms=3.5, lw=1.2,
                    color=COLOURS[i % len(COLOURS)], label=f"K = {k}")  # fmt: skip
    ax.axhline(curves.target, color=GREY, lw=1.1)
    for line in curves.learner.lines:
        ax.axhline(line, color=GREY, lw=0.8, ls=":")
    ax.set(
        xscale="log", xlabel="training signals N", ylabel=f"validation loss: {curves.learner.words}"
    )
    ax.legend(loc="best", fontsize="small")
    ax.set_title(f"{curves.name}, {curves.facts['steps']:,} steps of {curves.facts['batch']}")


def _draw_least(ax: Axes, curves: Curves, number: int) -> None:
    """Least N against K; upper bounds point down, K without a value point up above the largest N."""
    colour, found = COLOURS[number % len(COLOURS)], curves.least()
    label = f"{curves.name} ≤ {curves.target:g}"
    inside = {k: one.size for k, one in found.items() if one.size is not None}
    ax.plot(list(inside), list(inside.values()), "-", lw=1.2, color=colour, label=label)
    for k, one in found.items():
        if one.size is None:
            ax.plot(k, BEYOND * curves.by_count[k].sizes[-1], "^", color=colour, mfc="none")
        else:
            ax.plot(k, one.size, "v" if one.at_most else "o", ms=4.5, color=colour)
    if curves.is_loss and ANCHOR in inside:
        counts = np.array([k for k in found if k >= ANCHOR])
        cubic = [power_curve(k, ANCHOR, inside[ANCHOR]) for k in counts]
        ax.plot(counts, cubic, ":", lw=1.0, color=colour)


def _explain_marks(ax: Axes, found: Sequence[Curves]) -> None:
    """Lines of the legend for values outside the range of N, where there are any."""
    least = [(curves.by_count[k], one) for curves in found for k, one in curves.least().items()]
    for size in sorted({curve.sizes[0] for curve, one in least if one.at_most}):
        ax.plot([], [], "v", ms=4.5, color=GREY, label=f"at most {size:,}")
    for size in sorted({curve.sizes[-1] for curve, one in least if one.size is None}):
        ax.plot([], [], "^", color=GREY, mfc="none", label=f"more than {size:,}")
