"""The picture of time and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotflow.show.plots.colours import text_colour
from slotflow.show.plots.style import COLOURS, GREY, INK, style
from slotflow.studies.paper.cost.methods import LABELS
from slotflow.studies.paper.result import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

MARKS = dict(zip(LABELS, "sDv^oP", strict=True))
SHADES = dict(zip(LABELS, (COLOURS[1], COLOURS[3], COLOURS[4], GREY, COLOURS[0], COLOURS[2]), strict=True))  # fmt: skip
MB = 1e6
PAPER_BYTES = 5e3
"""What the paper's table states for its network."""
MEMORY_LOOKS: dict[str, tuple[str, str, str, tuple[int, int]]] = {
    "before": ("s", "open", "left", (6, 0)),
    "added": ("D", "full", "center", (0, 10)),
    "python": ("o", "open", "right", (-6, 0)),
}
"""Mark, filling, and where the number stands beside it (in points), of each kind of memory."""
MEMORY_LABELS = {
    "before": "process before",
    "added": "added by the answer",
    "python": "seen by Python",
}


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
    """Network and exact step, where there is one."""
    for name in (name for name in ("network", "exact") if name in data["methods"]):
        points = data["methods"][name]["by_draws"]
        ax.plot(
            [p["n"] for p in points], [1e3 * p["seconds"] for p in points], color=SHADES[name],
            marker=MARKS[name], ms=5, lw=1.2,
        )  # fmt: skip
    ax.set(xlabel="draws", ylabel="time [ms]", xscale="log")
    ax.set_ylim(bottom=0)
    ax.set_title(f"Any number of draws, K = {data['drawn_k']}")


def _memory(ax: Axes, data: Data) -> None:
    """What was there before the answer, what the answer added, and what Python's allocator saw: a point for each."""
    names = list(data["methods"])[::-1]
    for y, name in enumerate(names):
        found = data["methods"][name]
        before = found["process_before"]
        added = found["process_peak"] - before
        for key, size in (("python", found["python_peak"]), ("added", added), ("before", before)):
            mark, fill, side, offset = MEMORY_LOOKS[key]
            ax.plot(
                size / MB, y, mark, ms=6.5, color=SHADES[name], mfc="white" if fill == "open" else None,
                mew=1.4,
            )  # fmt: skip
            ax.annotate(
                _bytes(size), (size / MB, y), offset, textcoords="offset points", ha=side,
                va="center", fontsize=7.5,
            )  # fmt: skip
    ax.set_yticks(range(len(names)), [LABELS[name].replace(", ", ",\n") for name in names])
    ax.set(xlabel="memory [MB]", xscale="log", ylim=(-0.6, len(names) - 0.2))
    lowest = min(found["python_peak"] for found in data["methods"].values())
    highest = max(found["process_peak"] for found in data["methods"].values())
    ax.set_xlim(min(lowest, PAPER_BYTES) / MB / 2.5, 15 * highest / MB)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.axvline(PAPER_BYTES / MB, color=GREY, ls="--", lw=1)
    ax.annotate(
        "paper: 5 KB", (PAPER_BYTES / MB, 1), (3, -2), xycoords=("data", "axes fraction"),
        textcoords="offset points", va="top", fontsize=8, color=text_colour(GREY),
    )  # fmt: skip
    ax.grid(visible=False, axis="y")
    for key, label in MEMORY_LABELS.items():
        mark, fill, *_ = MEMORY_LOOKS[key]
        ax.plot([], [], mark, color=INK, mfc="white" if fill == "open" else None, label=label)
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=3, handletextpad=0.2)
    ax.set_title(f"Memory of one answer, K = {data['table_k']}")


def _bytes(size: float) -> str:
    """A size of memory with its unit."""
    if size < MB:
        return f"{size / 1e3:.0f} KB"
    return f"{size / MB:.0f} MB" if size >= 10 * MB else f"{size / MB:.1f} MB"
