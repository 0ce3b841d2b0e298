"""The picture of the leaderboard: one panel for each measure, one line for each method, points for seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.studies.comparators.table import REFERENCES, TITLES
from slotflow.studies.frame.study import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]


@dataclass(frozen=True)
class Panel:
    """One measure."""

    key: str
    label: str
    logarithmic: bool = False
    mark: str = ""
    """Where a dotted line is drawn, by the name of the value."""


PANELS = (
    Panel("exact_k", "exact-K →"),
    Panel("f1", "catalogue F1 →"),
    Panel("log_q", "ln q(Θ, K | x) [nat] →", mark="log_prior"),
    Panel("draws_per_second", "draws per second →", logarithmic=True),
    Panel("ece", "← ECE of K", mark="ece_perfect"),
    Panel("coverage", "← largest |coverage − α|", mark="coverage_perfect"),
    Panel("dependence", "correlation of a close pair", mark="exact"),
    Panel("f_error", "← median error of f [mHz]", logarithmic=True),
)


def plot(data: Data) -> Figure:
    """All panels."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(13, 5.6), layout="constrained")
        axes = figure.subplots(2, 4, sharey=True)
        for ax, panel in zip(axes.flat, PANELS, strict=True):
            _draw(ax, data, panel)
        for ax in axes[:, 0]:
            ax.set_yticks(range(len(data)), [TITLES[name] for name in data])
        axes[0, 0].invert_yaxis()
    return figure


def _draw(ax: Axes, data: Data, panel: Panel) -> None:
    """One measure of all methods: seeds as points, their mean as a cross."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    for i, (name, found) in enumerate(data.items()):
        colour = GREY if name in REFERENCES else COLOURS[i % len(COLOURS)]
        values, mean = _values(found, panel.key)
        ax.plot(values, [i] * len(values), "o", ms=4, color=colour, alpha=0.6)
        ax.plot([mean], [i], "x", ms=8, mew=1.6, color=colour)
        limit = _limit(found, panel.mark)
        if limit is not None:
            ax.plot([limit, limit], [i - 0.35, i + 0.35], ":", lw=1.4, color=GREY)
    ax.set(xlabel=panel.label)
    if panel.logarithmic:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(
            LogLocator(subs=(1.0, 2.0, 5.0) if panel.key == "f_error" else (1.0,))
        )
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
        ax.xaxis.set_minor_formatter("")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(4))


def _values(found: Data, key: str) -> tuple[list[float], float]:
    """The values of the seeds and their mean."""
    if key == "dependence":
        mean = found["dependence"]["largest"][0]
        return [], mean
    factor = 1e3 if key == "f_error" else 1.0
    return [factor * value for value in found["values"][key]], factor * found[key][0]


def _limit(found: Data, mark: str) -> float | None:
    """Where the dotted line of a method is, if there is one."""
    if not mark:
        return None
    value = found["dependence"]["exact"] if mark == "exact" else found[mark]
    return float(value[0] if isinstance(value, list) else value)
