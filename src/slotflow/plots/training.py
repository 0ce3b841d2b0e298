"""The picture of a training run: loss, accuracy of K, learning rate and throughput."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.plots.style import GREY, colour_of, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_training"]


def plot_training(metrics_path: str | os.PathLike[str]) -> Figure:
    """Draws the course of a training run.

    Args:
        metrics_path: The run's ``metrics.jsonl``: one JSON object per line with ``step``,
            ``split`` ("train" or "val"), ``loss`` and, where they are known, ``ce``, ``flow``,
            ``noise``, ``k_accuracy``, ``lr`` and ``signals_per_second``.

    Returns:
        A figure with the loss, its terms, the accuracy of K, and learning rate with throughput.
    """
    from matplotlib.figure import Figure

    records = _read_metrics(Path(metrics_path))
    with style():
        figure = Figure(figsize=(10, 6.4), layout="constrained")
        axes = figure.subplots(2, 2)
        _draw_curves(axes[0, 0], records, ("loss",), "Loss")
        _draw_curves(axes[0, 1], records, ("ce", "flow", "noise"), "Terms of the loss")
        _draw_curves(axes[1, 0], records, ("k_accuracy",), "Share of signals with the right K")
        axes[1, 0].set_ylim(0, 1.03)
        _draw_curves(axes[1, 1], records, ("lr",), "Learning rate and throughput")
        _draw_throughput(axes[1, 1], records)
    return figure


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    """Reads JSON lines; a last line that was cut short by a kill is left out."""
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
    """Some quantities against the step: training thin, validation with dots."""
    for j, name in enumerate(names):
        for split in ("train", "val"):
            step, value = _points(records, name, split)
            if not step.size:
                continue
            style: dict[str, Any] = {"lw": 1.0, "alpha": 0.55}
            if split == "val":
                style = {"lw": 1.6, "marker": "o", "ms": 3.5}
            label = f"{name}, {split}" if len(names) > 1 else split
            ax.plot(step, value, color=colour_of(j), label=label, **style)
    ax.set_xlabel("step")
    ax.set_title(title)
    if ax.get_lines():
        ax.legend()
    else:
        ax.text(0.5, 0.5, "not recorded", transform=ax.transAxes, ha="center", color=GREY)


def _draw_throughput(ax: Axes, records: list[dict[str, Any]]) -> None:
    """Signals per second on a second axis of the learning rate's panel."""
    ax.set_ylabel("learning rate", color=colour_of(0))
    ax.set_ylim(bottom=0)
    step, rate = _points(records, "signals_per_second", "train")
    if not step.size:
        return
    right = ax.twinx()
    right.plot(step, rate, color=colour_of(1), lw=1.0)
    right.set_ylabel("signals per second", color=colour_of(1))
    right.set_ylim(bottom=0)
    right.grid(visible=False)
    if legend := ax.get_legend():
        legend.remove()
