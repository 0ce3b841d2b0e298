"""Our training of the paper's network beside the paper's own (5.2.1, B.4, figure 20), and how far it is from there.

The losses of the two cannot be compared: the paper's target has no lower bound, and its loss near −19 measures how thin
a density has become as well as how good it is (`slotflow.network.paper.target`). What can be compared is what was
spent, how the learning rate went, and the share of right counts. Where our own loss would be after the paper's number
of signals is asked of all laws with an offset that our annealed points allow (`studies/measures/learning_curve`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.show.plots.style import COLOURS, GREY, INK, name_figure, style
from slotflow.studies.measures.learning_curve import (
    FEWEST_POINTS,
    LawDraws,
    annealed_points,
    laws_through,
)
from slotflow.studies.row import Row, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PAPER_SIGNALS", "curve_rows", "plot_curve"]

PAPER_EPOCHS, PAPER_SET = 187, 8_000_000
PAPER_SIGNALS = PAPER_EPOCHS * PAPER_SET
"""Signals that the paper's network has seen, each of them 187 times."""
PAPER_RATE, PAPER_DROPS = 1e-4, (69, 114, 136, 176)
"""Learning rate, and the epochs after which it was halved."""
PAPER_GPU_HOURS = 4 * 190
"""Four GPUs for 190 hours."""
PAPER_LOSS, PAPER_ACCURACY = "−19.17", "0.9985"
LOSS_ERROR = 0.05
"""How far a loss may lie from a law, in nat: other seeds and schedules move it by about as much."""
RANGE = (0.1, 0.9)
"""Quantiles of what is said of a loss that was not measured."""

Metrics = Sequence[Mapping[str, Any]]


def curve_rows(metrics: Metrics, batch: int) -> list[Row]:
    """What was spent and reached, beside the paper's.

    Args:
        metrics: Lines of the training's metrics file.
        batch: Signals of a step, where the lines do not say how many were seen.
    """
    last = [line for line in metrics if line["split"] == "val"][-1]
    seen = int(last.get("signals", last["step"] * batch))
    rows = [
        Row("signals seen", seen, f"{PAPER_SIGNALS:,}", form=",.0f",
            note=f"{PAPER_SIGNALS / seen:,.0f} times fewer, all of them new; the paper has 187 passes over 8 million"),
        Row("GPU hours", last["seconds"] / 3600, f"{PAPER_GPU_HOURS}", form=".2f", note="one H200; four GH200"),
        Row("validation loss at the end [nat]", last["loss"], PAPER_LOSS, form=".2f",
            note="not comparable: the paper's target has no lower bound, ours has a thickness"),
        Row("right counts at the end", last["k_accuracy"], PAPER_ACCURACY, form=".4f", note="validation signals"),
    ]  # fmt: skip
    if "noise" in last:
        spread = math.sqrt(last["noise"])
        note = "validation signals; σ is uniform on 0 to 1.5 under the prior, with a standard deviation of 0.43"
        rows.append(
            Row("noise pathway: root mean square error of σ", spread, form=".3f", note=note)
        )
    points = annealed_points(metrics, batch)
    if len(points) >= FEWEST_POINTS:
        laws = laws_through(points, LOSS_ERROR)
        low, high = np.quantile(laws.at(PAPER_SIGNALS), RANGE)
        note = (
            f"median; [{low:.1f}, {high:.1f}] in 80 % of the laws L∞ + c N^−β through {len(points)} annealed points, β "
            f"{np.quantile(laws.exponent, RANGE[0]):.2f} to {np.quantile(laws.exponent, RANGE[1]):.2f} of 0.05 to 1.5"
        )
        value = float(np.median(laws.at(PAPER_SIGNALS)))
        rows.append(
            Row(
                "our loss after the paper's signals, if it went on [nat]",
                value,
                form=".1f",
                note=tidy(note),
            )
        )
    return rows


def plot_curve(metrics: Metrics, batch: int) -> Figure:
    """Loss with the laws that its annealed points allow, and learning rates of both trainings, against signals."""
    from matplotlib.figure import Figure

    points = annealed_points(metrics, batch)
    with style():
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        loss, rate = figure.subplots(1, 2)
        for split, look in (
            ("train", {"lw": 0.8, "alpha": 0.5}),
            ("val", {"marker": "o", "ms": 3}),
        ):
            lines = [line for line in metrics if line["split"] == split]
            seen = [line.get("signals", line["step"] * batch) for line in lines]
            values = [line["loss"] for line in lines]
            loss.plot(seen, values, color=COLOURS[0], label=f"ours, {split}", **look)
        if len(points) >= FEWEST_POINTS:
            _draw_laws(loss, laws_through(points, LOSS_ERROR), points[0][0])
        loss.axvline(PAPER_SIGNALS, color=GREY, ls="--", lw=1, label="the paper's signals")
        loss.set(xscale="log", xlabel="signals seen", ylabel="loss [nat]")
        loss.set_title("Loss, and what its annealed points allow")
        loss.legend(loc="best")
        _draw_rates(rate, metrics, batch)
        name_figure(figure, "Training of network paper: ours, and the authors' own")
    return figure


def _draw_laws(ax: Axes, laws: LawDraws, first: float) -> None:
    """Median and range of the laws beyond the first point."""
    signals = np.geomspace(first, PAPER_SIGNALS, 80)
    low, middle, high = np.quantile(laws.at(signals), (RANGE[0], 0.5, RANGE[1]), axis=0)
    ax.fill_between(signals, low, high, color=COLOURS[1], alpha=0.2, lw=0)
    ax.plot(signals, middle, color=COLOURS[1], lw=1.2, label="laws with an offset, 80 %")


def _draw_rates(ax: Axes, metrics: Metrics, batch: int) -> None:
    """Learning rates against the signals."""
    lines = [line for line in metrics if line["split"] == "train"]
    seen = [line.get("signals", line["step"] * batch) for line in lines]
    ax.plot(seen, [line["lr"] for line in lines], color=COLOURS[0], label="ours")
    epochs = [0, *PAPER_DROPS, PAPER_EPOCHS]
    rates = [PAPER_RATE / 2**i for i in range(len(PAPER_DROPS) + 1)]
    edges = [max(epoch, 0.1) * PAPER_SET for epoch in epochs]
    ax.stairs(rates, edges, baseline=None, color=INK, label="paper: halved at plateaus")
    ax.set(xscale="log", yscale="log", xlabel="signals seen", ylabel="learning rate")
    ax.set_title("Learning rate")
    ax.legend(loc="best")
