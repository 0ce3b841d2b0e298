"""The picture of the comparison with RJMCMC: one signal's corner plot, and all signals in its empty half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.packages import needed
from slotflow.show.plots.style import COLOURS, GREY, INK, style
from slotflow.studies.measures.parameters import PLACE, SIZE, SYMBOLS
from slotflow.studies.paper.result import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

Array = NDArray[np.float64]

LOOKS: dict[str, dict[str, Any]] = {
    "rjmcmc": {"color": INK, "linestyle": "-", "label": "RJMCMC"},
    "exact": {"color": COLOURS[0], "linestyle": "--", "label": "exact"},
    "network": {"color": COLOURS[1], "linestyle": "-", "label": "network"},
}
PAIR_LOOKS = {
    "network_rjmcmc": ("network, RJMCMC", COLOURS[1]),
    "exact_rjmcmc": ("exact, RJMCMC", COLOURS[0]),
    "network_exact": ("network, exact", COLOURS[2]),
    "floor": ("floor: one law twice", GREY),
}
AXIS_SCALES = ((1.0, ""), (1e3, " [mrad]"), (1e6, " [µHz]"))
"""Factor and unit of the axes of A, φ and f."""
CONTOUR_LEVELS = (0.393, 0.865)
"""Mass inside one and two standard deviations of a 2-D Gaussian."""
AXIS_REACH = 4.0
"""Half the width of an axis, in the widest posterior's standard deviations."""
LOWEST_PROBABILITY = 1e-8
"""Lowest probability that the panel of K shows."""
PAPER_RANGES = ((1.5, 2.0), (2.0, 2.0), (2.0, 3.0))
"""Ratios of standard deviations that the paper prints for A, φ and f."""
WIDE = 5.0
"""Ratio or distance beyond which an axis is logarithmic."""


def plot(data: Data) -> Figure:
    """Corner plot of the signal on show, with the three summaries in the upper right."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(14, 14))
        if data["shown"]:
            _corner(figure, data["shown"])
        panels = [
            figure.add_axes(box)
            for box in (
                (0.50, 0.755, 0.17, 0.175),
                (0.74, 0.755, 0.22, 0.175),
                (0.74, 0.525, 0.22, 0.165),
            )
        ]
        _counts(panels[0], data)
        entries = [entry for entry in data["signals"] if "w2" in entry]
        if entries:
            _distances(panels[1], entries)
            _ratios(panels[2], entries)
    return figure


def _corner(figure: Figure, shown: Data) -> None:
    """9 × 9 panels of the draws less the truth."""
    corner = needed("corner")

    k = len(shown["truth"])
    step = np.asarray(shown["step"]) * np.tile([factor for factor, _ in AXIS_SCALES], k)
    draws: dict[str, Array] = {
        name: np.array([column.split() for column in shown[name]], dtype=float).T * step
        for name in LOOKS
    }
    labels = [
        f"Δ{symbol}$_{j + 1}${AXIS_SCALES[i][1]}"
        for j in range(k)
        for i, symbol in enumerate(SYMBOLS)
    ]
    middle = draws["exact"].mean(0)
    half = AXIS_REACH * np.max([x.std(0) for x in draws.values()], axis=0)
    half = np.maximum(half, np.abs(middle) * 1.05)  # the truth, 0, is inside
    for name, look in LOOKS.items():
        lines = {"linestyles": look["linestyle"], "linewidths": 1.1}
        corner.corner(
            draws[name], fig=figure, bins=24, range=list(zip(middle - half, middle + half, strict=True)),
            color=look["color"], labels=labels, truths=np.zeros(SIZE * k), truth_color=GREY, levels=CONTOUR_LEVELS,
            smooth=1.3, plot_datapoints=False, plot_density=False, no_fill_contours=True, max_n_ticks=3,
            contour_kwargs=lines, hist_kwargs={"density": True, "linestyle": look["linestyle"], "lw": 1.1},
            label_kwargs={"fontsize": 9}, labelpad=0.1,
        )  # fmt: skip
    panels = list(figure.axes)
    for ax in panels:
        ax.grid(False)
        ax.tick_params(labelsize=7)
        for line in ax.get_lines():
            line.set(linewidth=0.7, markersize=3)
    for j in range(SIZE * k):
        _fit_height(panels[j * (SIZE * k + 1)])
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.065, top=0.985, wspace=0.06, hspace=0.06)  # fmt: skip
    frequencies = ", ".join(f"{line[PLACE]:.3f}" for line in shown["truth"])
    figure.text(
        0.20,
        0.95,
        f"tones at {frequencies} Hz, σ = {shown['sigma']:.2f}",
        size=11,
        weight="bold",
    )


def _fit_height(ax: Axes) -> None:
    """Makes room for the tallest of several histograms."""
    tops = [np.asarray(patch.get_path().vertices)[:, 1].max() for patch in ax.patches]
    if tops:
        ax.set_ylim(0, 1.08 * max(tops))


def _counts(ax: Axes, data: Data) -> None:
    """Mean p(K | x) of each method on a logarithmic axis."""
    for shift, (name, look) in zip((-0.22, 0.0, 0.22), LOOKS.items(), strict=True):
        probs = np.mean([entry["k_probs"][name] for entry in data["signals"]], axis=0)
        k = np.arange(1, len(probs))
        ax.plot(
            k + shift, probs[1:].clip(LOWEST_PROBABILITY), "o", ms=5, color=look["color"], label=look["label"],
            clip_on=False, zorder=3,
        )  # fmt: skip
    ax.set(
        yscale="log",
        ylim=(LOWEST_PROBABILITY, 2),
        xlabel="K",
        ylabel="p(K | x), mean of the signals",
    )
    ax.set_xticks(range(1, 11))
    n = len(data["signals"])
    ax.set_title(f"{n} signal{'s' if n > 1 else ''} of K = {data['k']}")
    ax.legend(loc="upper right")


def _distances(ax: Axes, entries: list[Data]) -> None:
    """W₂ over the exact posterior's sd, a point for each component of each signal."""
    rng = np.random.default_rng(0)
    sd = np.array([entry["sd"]["exact"] for entry in entries])
    for j, (pair, (label, colour)) in enumerate(PAIR_LOOKS.items()):
        value = np.array([entry["w2"][pair] for entry in entries]) / sd  # (n, K, P)
        for i in range(SIZE):
            flat = value[..., i].ravel()
            place = i + 0.2 * (j - 1.5)
            spread = rng.uniform(-0.06, 0.06, flat.size)
            name = label if i == 0 else None
            ax.plot(place + spread, flat, ".", ms=6, alpha=0.6, mew=0, color=colour, label=name)
            ax.plot((place - 0.08, place + 0.08), [np.median(flat)] * 2, color=INK, lw=1.4)
    ax.set_xticks(range(SIZE), SYMBOLS)
    ax.set(ylabel="W₂ in posterior sd")
    if ax.get_ylim()[1] > WIDE:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    ax.set_title("Distance of marginals (line: median)")
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, markerscale=2, handletextpad=0.2
    )


def _ratios(ax: Axes, entries: list[Data]) -> None:
    """Standard deviations over RJMCMC's, with the paper's ranges."""
    from matplotlib.patches import Rectangle

    rng = np.random.default_rng(0)
    sd = {name: np.array([entry["sd"][name] for entry in entries]) for name in LOOKS}
    for i, (low, high) in enumerate(PAPER_RANGES):
        thick = max(high - low, 0.03)
        ax.add_patch(Rectangle((i - 0.35, low), 0.7, thick, color=GREY, alpha=0.35, lw=0))
        for shift, name in ((-0.15, "network"), (0.15, "exact")):
            flat = (sd[name] / sd["rjmcmc"])[..., i].ravel()
            place = i + shift + rng.uniform(-0.08, 0.08, flat.size)
            label = LOOKS[name]["label"] if i == 0 else None
            ax.plot(
                place, flat, ".", ms=6, alpha=0.6, mew=0, color=LOOKS[name]["color"], label=label
            )
    ax.add_patch(Rectangle((0, 0), 0, 0, color=GREY, alpha=0.35, lw=0, label="paper's network"))
    ax.axhline(1, color=INK, lw=0.8)
    ax.set_xticks(range(SIZE), SYMBOLS)
    ax.set(ylabel="sd over RJMCMC's", xlim=(-0.5, 2.5))
    largest = max(float((sd[name] / sd["rjmcmc"]).max()) for name in ("network", "exact"))
    if largest > WIDE:  # room for the legend above the points
        ax.set(yscale="log", ylim=(0.5, 8 * largest))
    else:
        ax.set(ylim=(0.8, max(3.2, 1.1 * largest)))
    ax.set_title("Ratio of standard deviations")
    ax.legend(loc="upper left", markerscale=2, handletextpad=0.4)
