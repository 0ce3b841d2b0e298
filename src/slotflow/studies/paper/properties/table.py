"""The table of properties: from measured values to verdicts, rows and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slotflow.network.model import DEFAULT
from slotflow.show.plots.colours import text_colour
from slotflow.show.plots.style import COLOURS, GREY, INK, style
from slotflow.studies.paper.cost.methods import LABELS
from slotflow.studies.paper.result import Data
from slotflow.studies.row import Row, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Cell", "cells", "compare", "plot"]

COLUMNS = ("Amortized", "Trans-dimensional", "Equivariant", "Dependence", "Scaling")
SAMPLED = ("No", "Yes", "Inherits symmetry", "Yes", "Poor")
OWN = ("Yes", "Yes", "Yes", "Context-shared", "O(K)")
PAPER = {"rjmcmc": SAMPLED, "smc": SAMPLED, "paper": OWN, "network": OWN, "exact": OWN}
"""The paper's marks, those of its SlotFlow for all three of ours; it has no classical estimator."""
RIGHT_WITHIN = 0.1
"""A p(K | x) or a correlation that differs by less from the exact one is right."""
SAME_WITHIN = 1e-6
"""Log densities that differ by less are the same."""
TINTS = {"yes": COLOURS[0], "no": COLOURS[1], "off": COLOURS[4], "": GREY}


@dataclass(frozen=True)
class Cell:
    """One property of one method."""

    verdict: str
    """"yes", "no", "off" where it is there but wrong, or empty where a number says it all."""
    value: float
    """What was measured."""
    short: str
    """The same for the picture."""
    measure: str
    """What it is."""
    note: str = ""
    """How to read it."""
    error: float | None = None
    """Standard error of the value."""
    form: str = ".3g"
    """How the value is written."""


def _name(method: str, data: Data) -> str:
    """What a method is called; the network by its own name, in records from before there were two of them `zoom`."""
    network = str(data.get("network", DEFAULT))
    own = {"paper": "paper, untrained", "network": network, "exact": f"{network} + exact"}
    return own.get(method, LABELS[method])


def cells(data: Data) -> dict[tuple[str, str], Cell]:
    """The table, by method and column."""
    found: dict[tuple[str, str], Cell] = {}
    for name, one in data["methods"].items():
        made = (
            _amortized(name, one, data),
            _trans_dimensional(name, one, data),
            _equivariant(name, one),
            _dependence(name, one, data),
            _scaling(one, data),
        )
        found |= {(name, column): cell for column, cell in zip(COLUMNS, made, strict=True)}
    return found


def _amortized(name: str, one: Data, data: Data) -> Cell:
    size, first, later = (one[key] for key in ("parameters", "first_seconds", "later_seconds"))
    note = f"first answer of a process {_time(first)}, later ones {_time(later)} (K = {data['cost_k']})"
    if one["together_seconds"] is not None:
        note += f"; {data['together']} signals together, without draws, {_time(one['together_seconds'])} each"
    if name == "paper":
        note += "; untrained here"
    if not size:
        note += "; starts anew with every signal"
    return Cell(
        "yes" if size else "no",
        size / 1e6,
        (f"{size / 1e6:.1f} M parameters" if size else "no training")
        + f"\n{_time(later)} a signal",
        "trained parameters [10⁶]",
        note,
        form=".2f",
    )


def _trans_dimensional(name: str, one: Data, data: Data) -> Cell:
    probs, exact = one["k_probs"], data["doubt"]["k_probs"]
    several = sum(p > 0 for p in probs)
    if one["k_distance"] is None:
        note = "untrained, so that its p(K | x) means nothing yet"
        return Cell(
            "yes" if several > 1 else "no", several, f"p(K | x) of {several} K",
            "K with a probability", note, form="d",
        )  # fmt: skip
    ours = ", ".join(f"{p:.2f}" for p in probs[: len(exact)])
    note = f"p(K | x), K = 0..{len(exact) - 1}: {ours}; true K = {data['doubt']['k']}"
    verdict = "yes" if one["k_distance"] < RIGHT_WITHIN else "off"
    short = (
        "is the yardstick"
        if name == "exact"
        else f"{one['k_distance']:.3f} from the exact p(K | x)"
    )
    return Cell(
        verdict if several > 1 else "no",
        one["k_distance"],
        short,
        "p(K | x) in doubt: total variation from the exact one",
        note,
        form=".3f",
    )


def _equivariant(name: str, one: Data) -> Cell:
    change = one["label_change"]
    note = {
        "rjmcmc": "of the target that it samples",
        "smc": "of the target that it samples",
        "classical": "of Laplace's evidence",
    }.get(name, "of its density, symmetrized over slots")
    if name == "exact":
        note = "of its joint density"
    if "bare_change" in one:
        cut = "more than " if one["bare_change"] >= 1000 else ""
        note += (
            f"; the bare product of the slots' densities changes by {cut}{one['bare_change']:.3g}"
        )
    return Cell(
        "yes" if change < SAME_WITHIN else "no",
        change,
        f"ln p changes by {change:.0e}" if change else "ln p does not change",
        "largest change of ln p under permuted labels [nat]",
        note,
        form=".1e" if change else ".0f",
    )


def _dependence(name: str, one: Data, data: Data) -> Cell:
    values, exact = np.array(one["correlation"]), float(np.mean(one["correlation_exact"]))
    value = float(values.mean())
    value = 0.0 if abs(value) < 0.005 else value  # no minus zero
    note = f"exact {exact:.2f}; {len(values)} pair{'s' if len(values) > 1 else ''} at 1.2/T"
    if name == "paper":
        note += "; slots are drawn independently of each other, trained or not"
    if name == "network":
        note += "; slots are drawn independently of each other"
    return Cell(
        "yes" if abs(value - exact) < RIGHT_WITHIN else "no",
        value,
        "is the yardstick" if name == "exact" else f"correlation {value:.2f}, exact {exact:.2f}",
        "correlation between the tones of a close pair",
        note,
        float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else None,
        ".2f",
    )


def _scaling(one: Data, data: Data) -> Cell:
    counts = ", ".join(str(k) for k in one["exponent_counts"])
    note = f"on average over K = {counts}"
    if not data["from_cost"]:
        note += "; a small measurement, since `cost` was not run before"
    error = one["exponent_error"]
    short = f"time ∝ $K^{{{one['exponent']:.2f}" + (f" ± {error:.2f}}}$" if error else "}$")
    return Cell("", one["exponent"], short, "exponent of K in the time", note, error, ".2f")


def _time(seconds: float) -> str:
    """Seconds in words."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def compare(data: Data) -> list[Row]:
    """One row for each property of each method."""
    table = cells(data)
    rows = []
    for i, column in enumerate(COLUMNS):
        for name in data["methods"]:
            cell = table[name, column]
            paper = PAPER[name][i] if name in PAPER else ""
            note = f"{cell.verdict}: {cell.note}" if cell.verdict else cell.note
            value = int(cell.value) if cell.form == "d" else cell.value
            rows.append(
                Row(
                    f"{column}, {_name(name, data)}: {cell.measure}",
                    value,
                    paper,
                    cell.error,
                    cell.form,
                    note,
                )
            )
    if data["skipped"]:
        note = "; ".join(f"{LABELS[name]}: {why}" for name, why in data["skipped"].items())
        rows.append(Row("methods left out", len(data["skipped"]), form="d", note=note))
    return rows


# ---------------------------------------------------------------------- picture


def plot(data: Data) -> Figure:
    """The table as a picture."""
    from matplotlib.figure import Figure

    table, names = cells(data), list(data["methods"])
    with style():
        figure = Figure(figsize=(12, 0.9 + 0.78 * len(names)), layout="constrained")
        ax = figure.subplots()
        ax.set(xlim=(-0.75, len(COLUMNS)), ylim=(len(names) + 0.05, -0.5))
        ax.axis("off")
        for x, column in enumerate(COLUMNS):
            ax.text(x + 0.5, -0.22, column, ha="center", va="center", weight="bold", fontsize=10)
        for y, name in enumerate(names):
            ax.text(-0.05, y + 0.5, _name(name, data), ha="right", va="center", fontsize=10)
            for x, column in enumerate(COLUMNS):
                paper = PAPER[name][x] if name in PAPER else ""
                _cell(ax, x, y, table[name, column], paper)
    return figure


def _cell(ax: Axes, x: int, y: int, cell: Cell, paper: str) -> None:
    """One cell: verdict, what was measured, and the paper's mark."""
    from matplotlib.patches import Rectangle

    box = Rectangle((x + 0.03, y + 0.05), 0.94, 0.9, color=TINTS[cell.verdict], alpha=0.16, lw=0)
    ax.add_patch(box)
    text = cell.short if "$" in cell.short else tidy(cell.short)
    if cell.verdict:
        ax.text(
            x + 0.5, y + 0.22, cell.verdict, ha="center", va="center", weight="bold", fontsize=10,
            color=text_colour(TINTS[cell.verdict]),
        )  # fmt: skip
    middle = y + (0.52 if cell.verdict else 0.4)
    ax.text(x + 0.5, middle, text, ha="center", va="center", fontsize=8, color=INK, linespacing=1.1)
    if paper:
        ax.text(
            x + 0.5, y + 0.81, f"paper: {paper}", ha="center", va="center", fontsize=7.5,
            style="italic", color=text_colour(GREY),
        )  # fmt: skip
