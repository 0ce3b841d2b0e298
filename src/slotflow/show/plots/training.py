"""The picture of a training run: loss and its terms, share of wrong counts, learning rate and throughput."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.show.plots.colours import INK, colour_of, text_colour
from slotflow.show.plots.style import LEGEND, name_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_training"]

TERMS = ("ce", "count", "first_count", "heat", "offset", "rounds", "flow", "noise")
"""Terms of the losses that the presets use."""
WIDE_RANGE = 300.0
"""Ratio of the largest to the smallest value from which on only powers of ten are marked on an axis."""


def plot_training(metrics_path: str | os.PathLike[str], *, model: str = "") -> Figure:
    """Draws the course of a training run.

    Args:
        metrics_path: The run's ``metrics.jsonl``: one JSON object per line with ``step``,
            ``split`` ("train" or "val"), ``loss`` and, where they are known, its terms, ``k_accuracy``,
            ``lr`` and ``signals_per_second``.
        model: Name of the network, which is written above the panels; nothing if empty.

    Returns:
        A figure with the loss, its terms, the share of signals whose K is wrong (1 − ``k_accuracy``), and learning rate
        with throughput.
    """
    from matplotlib.figure import Figure

    records = _read_metrics(Path(metrics_path))
    with style():
        figure = Figure(figsize=(10, 6.4), layout="constrained")
        (loss, terms), (errors, rate) = figure.subplots(2, 2)
        _draw_curves(loss, records, ("loss",), "Loss")
        _draw_curves(terms, records, TERMS, "Terms of the loss")
        wrong = [
            r | {"wrong": 1 - r["k_accuracy"]} for r in records if r.get("k_accuracy") is not None
        ]
        _draw_curves(errors, wrong, ("wrong",), "Share of signals with a wrong K")
        for ax in (loss, terms, errors):
            _use_decades(ax)
        _draw_curves(rate, records, ("lr",), "Learning rate and throughput")
        _draw_throughput(rate, records)
        if model:
            name_figure(figure, f"Training of network {model}")
    return figure


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    """Reads JSON lines; a last line that was cut short when the run was killed is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; expected a run's metrics.jsonl.") from None
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            if number == len(lines):
                break
            raise ValueError(f"{path}: line {number}: expected a JSON object.") from None
        if not isinstance(record, dict) or "step" not in record:
            raise ValueError(f"{path}: line {number}: expected a JSON object with a 'step'.")
        records.append(record)
    if not records:
        raise ValueError(f"{path}: holds no records yet; wait for the first step of training.")
    return records


def _points(records: list[dict[str, Any]], name: str, split: str) -> NDArray[np.float64]:
    """The steps and values of a quantity, shape (2, n)."""
    points = [
        (r["step"], r[name])
        for r in records
        if r.get("split", "train") == split and isinstance(r.get(name), (int, float))
    ]
    return np.array(points, dtype=float).reshape(-1, 2).T


def _draw_curves(
    ax: Axes, records: list[dict[str, Any]], names: tuple[str, ...], title: str
) -> None:
    """Some quantities against the step: training thin and pale, validation with dots."""
    drawn = 0
    for name in names:
        curves = {split: _points(records, name, split) for split in ("train", "val")}
        curves = {split: points for split, points in curves.items() if points.size}
        for split, (step, value) in curves.items():
            style: dict[str, Any] = {"lw": 1.0, "alpha": 0.55}
            if split == "val":
                style = {"lw": 1.6, "marker": "o", "ms": 3.5}
            label = split if len(names) == 1 else name if split == list(curves)[-1] else None
            ax.plot(step, value, color=colour_of(drawn), label=label, **style)
        drawn += bool(curves)
    ax.set_xlabel("step")
    ax.set_title(title)
    if ax.get_lines():
        above = LEGEND if drawn == 1 else {"loc": "upper right"}
        ax.legend(ncols=3, **above)
    else:
        ax.text(0.5, 0.5, "not recorded", transform=ax.transAxes, ha="center", color=INK)


def _use_decades(ax: Axes) -> None:
    """A logarithmic axis with plain numbers, where the values span more than a decade; zeros are left out then."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    lines = [np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()]
    values = np.concatenate([*lines, np.zeros(0)])
    positive = values[values > 0]
    if (values < 0).any() or not 10 * positive.min(initial=np.inf) < positive.max(initial=0):
        return
    ax.set_yscale("log", nonpositive="mask")
    wide = positive.max() > WIDE_RANGE * positive.min()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _draw_throughput(ax: Axes, records: list[dict[str, Any]]) -> None:
    """Signals per second on a second axis of the learning rate's panel."""
    ax.set_ylabel("learning rate", color=text_colour(colour_of(0)))
    ax.set_ylim(bottom=0)
    step, rate = _points(records, "signals_per_second", "train")
    if not step.size:
        return
    right = ax.twinx()
    right.plot(step, rate, color=colour_of(1), lw=1.0)
    right.set_ylabel("signals per second", color=text_colour(colour_of(1)))
    right.set_ylim(bottom=0)
    right.grid(visible=False)
    if legend := ax.get_legend():
        legend.remove()
