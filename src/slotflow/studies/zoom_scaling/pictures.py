"""The picture of the study `zoom_scaling`: counts and errors against signals and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from slotflow.show.plots.style import COLOURS, INK, style
from slotflow.studies.frame.study import Data
from slotflow.studies.zoom_scaling.rows import RELEASED, smallest_and_largest, without

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

Point = tuple[float, float | None]
"""A mean over seeds and its standard error."""

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Shares of wrong counts that have a tick, as far as they lie in the panel."""
LINES = {"": "-", "without joint steps": "--", "without the second count": ":"}
MARKS = {"": "o", "without joint steps": "s", "without the second count": "^"}


def plot(data: Data) -> Figure:
    """Three panels: counts and errors against signals, counts against parameters."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(13, 4.2), layout="constrained")
        counts, errors, sizes = figure.subplots(1, 3)
        for ax, values in ((counts, _wrong_counts), (errors, _errors)):
            _draw_networks(ax, data, values)
            ax.set(xscale="log", yscale="log", xlabel="signals seen in training")
        counts.set(ylabel="share of wrong counts, frontier")
        errors.set(ylabel="error of f over the bound, nominal")
        errors.axhline(1, color=INK, lw=0.8)
        _draw_sizes(sizes, data)
        for ax in (counts, sizes):
            _label_shares(ax)
        errors.yaxis.set_major_formatter("{x:g}")
        errors.yaxis.set_minor_formatter("{x:g}")
        figure.legend(*counts.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _label_shares(ax: Axes) -> None:
    """Ticks at few round shares; those of a logarithmic axis would be powers of ten, of which there is one here."""
    from matplotlib.ticker import FixedLocator, NullLocator

    ax.yaxis.set_major_locator(FixedLocator(SHARES))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:g}")


def _wrong_counts(found: Data) -> list[Point]:
    """Wrong counts on the frontier and their errors, point by point."""
    return [(1 - value, error) for value, error in found["frontier"]]


def _errors(found: Data) -> list[Point]:
    """Errors of f over the bound, point by point."""
    return [(value, error) for value, error in found["error"]["f"]]


def _draw_networks(ax: Axes, data: Data, values: Callable[[Data], list[Point]]) -> None:
    """Every network against its numbers of signals; those of one size share a colour."""
    sizes = list(dict.fromkeys(found["parameters"] for found in data.values()))
    for name, found in data.items():
        own = values(found)
        lacks = without(name)
        released = name.startswith(RELEASED)
        ax.errorbar(
            found["signals"],
            [value for value, _ in own],
            [error or 0.0 for _, error in own],
            fmt="*" if released and not lacks else MARKS[lacks],
            ls="" if released else LINES[lacks],
            ms=11 if released and not lacks else 5,
            mfc="none" if released and lacks else None,
            lw=1.2,
            color=COLOURS[sizes.index(found["parameters"]) % len(COLOURS)],
            label=name,
        )


def _draw_sizes(ax: Axes, data: Data) -> None:
    """Wrong counts of the whole networks against their parameters, at each number of signals."""
    names = smallest_and_largest(data)
    shared = min((len(data[name]["signals"]) for name in names), default=0)
    for i in range(shared):
        points = np.array([data[name]["parameters"] for name in names])
        own = [_wrong_counts(data[name])[i] for name in names]
        ax.errorbar(
            points,
            [value for value, _ in own],
            [error or 0.0 for _, error in own],
            fmt="o-",
            ms=5,
            lw=1.2,
            color=INK,
            alpha=(1 + i) / shared,
            label=f"{data[names[0]]['signals'][i]:,} signals",
        )
    ax.set(
        xscale="log", yscale="log", xlabel="parameters", ylabel="share of wrong counts, frontier"
    )
    ax.set_xticks([data[name]["parameters"] for name in names], names)
    ax.minorticks_off()
    if shared:
        ax.legend(loc="best")
