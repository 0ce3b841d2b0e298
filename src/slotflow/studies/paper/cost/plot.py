"""The picture of time and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotflow.show.plots.style import COLOURS, GREY, INK, style
from slotflow.studies.paper.cost.methods import LABELS
from slotflow.studies.paper.result import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

MARKS = dict(zip(LABELS, "sDv^oP", strict=True))
SHADES = dict(zip(LABELS, (COLOURS[1], COLOURS[3], COLOURS[4], GREY, COLOURS[0], COLOURS[2]), strict=True))  # fmt: skip
PALE = 0.35
MB = 1e6


def plot(data: Data) -> Figure:
    """Time against K, time against draws, memory."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(13, 4.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.25, 0.9, 1.1))
        _against_k(left, data)
        _against_draws(middle, data)
        _memory(right, data)
        figure.legend(
            *left.get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False
        )
    return figure


def _against_k(ax: Axes, data: Data) -> None:
    """All methods, with 1.96 standard errors where there are several signals."""
    for name, found in data["methods"].items():
        counts = [entry["k"] for entry in found["by_k"]]
        seconds = [entry["seconds"] for entry in found["by_k"]]
        error = [1.96 * e["seconds"] * (e["log_error"] or 0.0) for e in found["by_k"]]
        ax.errorbar(
            counts, seconds, error, color=SHADES[name], marker=MARKS[name], ms=5, lw=1.2, capsize=2,
            label=LABELS[name],
        )  # fmt: skip
    forward = data["methods"]["network"]["forward"]
    if forward:
        ax.plot(
            [e["k"] for e in forward], [e["seconds"] for e in forward], color=SHADES["network"],
            ls=":", lw=1.4, label="network, no draw",
        )  # fmt: skip
    ax.set(xlabel="K", ylabel="time [s]", xscale="log", yscale="log")
    ax.set_xticks((1, 2, 3, 5, 10), ("1", "2", "3", "5", "10"))
    ax.minorticks_off()
    ax.set_title(f"{data['wanted']:,} effective draws, one thread")


def _against_draws(ax: Axes, data: Data) -> None:
    """Network and exact step."""
    for name in ("network", "exact"):
        points = data["methods"][name]["by_draws"]
        ax.plot(
            [p["n"] for p in points], [1e3 * p["seconds"] for p in points], color=SHADES[name],
            marker=MARKS[name], ms=5, lw=1.2,
        )  # fmt: skip
    ax.set(xlabel="draws", ylabel="time [ms]", xscale="log")
    ax.set_ylim(bottom=0)
    ax.set_title(f"Any number of draws, K = {data['drawn_k']}")


def _memory(ax: Axes, data: Data) -> None:
    """Process peak as a bar, pale as far as it was there before the answer; Python's peak as a dot."""
    names = list(data["methods"])[::-1]
    for y, name in enumerate(names):
        found = data["methods"][name]
        before, peak = found["process_before"] / MB, found["process_peak"] / MB
        python = found["python_peak"] / MB
        ax.barh(y, before, color=SHADES[name], alpha=PALE, height=0.6)
        ax.barh(y, peak - before, left=before, color=SHADES[name], height=0.6)
        ax.plot(python, y, "o", ms=6, color=INK, mec="white", mew=0.8, zorder=3)
        ax.annotate(
            f"{peak:.0f} (+{peak - before:.0f})",
            (peak, y),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
        text = f"{python:.1f} MB" if python >= 1 else f"{1e3 * python:.0f} KB"
        ax.annotate(
            text, (python, y), (0, 11), textcoords="offset points", ha="center", va="center",
            fontsize=7.5,
        )  # fmt: skip
    ax.set_yticks(range(len(names)), [LABELS[name] for name in names])
    ax.set(xlabel="peak memory [MB]", xscale="log", ylim=(-0.6, len(names) - 0.3))
    lowest = min(found["python_peak"] for found in data["methods"].values()) / MB
    highest = max(found["process_peak"] for found in data["methods"].values()) / MB
    ax.set_xlim(min(lowest, 0.005) / 2, 10 * highest)
    ax.axvline(0.005, color=GREY, ls="--", lw=1)
    ax.annotate(
        "paper: 5 KB", (0.005, 1), (3, -2), xycoords=("data", "axes fraction"),
        textcoords="offset points", va="top", fontsize=8, color=GREY,
    )  # fmt: skip
    ax.grid(visible=False, axis="y")
    ax.set_title(f"Memory of one answer, K = {data['table_k']}")
