"""The picture of two interfering sources: a row of maps for each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.show.plots.style import INK, style
from slotflow.studies.measures.parameters import PLACE, SIZE
from slotflow.studies.paper.result import Data

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

Array = NDArray[np.float64]

ROWS = {
    "trained": "Network, told A ≥ 0.5\n(out of distribution)",
    "wide": "Network, told A ≥ 0.05",
    "exact": "Exact, A ≥ 0.05",
}
COLUMNS = (
    "relative error of A",
    "error of φ [rad]",
    "error of f [mHz]",
    "error of f / claimed sd",
    "share with K = 2 found",
)


def plot(data: Data) -> Figure:
    """Errors of A, φ and f, the error of f over its claimed sd, and how often K = 2 was found, over both SNRs."""
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure

    axis = sorted({x for entry in data["cells"] for x in entry["snr"]})
    step = axis[1] - axis[0]
    edges = np.append(np.array(axis) - step / 2, axis[-1] + step / 2)
    looks: list[dict[str, Any]] = [
        {"norm": LogNorm(1e-3, 3.0), "cmap": "viridis"},
        {"norm": LogNorm(1e-3, 3.0), "cmap": "viridis"},
        {"norm": LogNorm(1e-3, 300.0), "cmap": "viridis"},
        {"norm": LogNorm(1.128 / 16, 1.128 * 16), "cmap": "RdBu_r"},
        {"norm": Normalize(0.0, 1.0), "cmap": "cividis"},
    ]
    rows = {name: label for name, label in ROWS.items() if name in data["cells"][0]}
    with style():
        figure = Figure(figsize=(15, 2.7 * len(rows)), layout="constrained")
        axes = figure.subplots(len(rows), len(COLUMNS), sharex=True, sharey=True)
        for r, (name, label) in enumerate(rows.items()):
            for c, title in enumerate(COLUMNS):
                ax = axes[r, c]
                image = ax.pcolormesh(edges, edges, _map(data, name, c, axis).T, **looks[c])
                _dress(ax)
                if r == 0:
                    ax.set_title(title)
                if c == 0:
                    ax.set_ylabel(f"{label}\n\nSNR$_2$ [dB]")
                if r == len(rows) - 1:
                    ax.set_xlabel("SNR$_1$ [dB]")
                    figure.colorbar(
                        image, ax=axes[:, c], location="bottom", shrink=0.9, aspect=30, pad=0.01,
                        extend="both" if c < 4 else "neither",
                    )  # fmt: skip
    return figure


def _map(data: Data, name: str, column: int, axis: list[float]) -> Array:
    """Values of one panel, (SNR₁, SNR₂); NaN where there is no cell."""
    values = np.full((len(axis), len(axis)), np.nan)
    for entry in data["cells"]:
        i, j = (axis.index(x) for x in entry["snr"])
        part = entry[name]
        error, sd = np.array(part["error"]), np.array(part["sd"])  # (2, P) each
        if column < SIZE:
            values[i, j] = error[:, column].mean() * (1e3 if column == PLACE else 1.0)
        elif column == SIZE:
            values[i, j] = np.exp(np.log(error[:, PLACE] / sd[:, PLACE]).mean())
        else:
            values[i, j] = part["found"]
    return values


def _dress(ax: Axes) -> None:
    """Equal axes, and where the paper sees the limit."""
    ax.set_aspect("equal")
    ax.grid(False)
    for line in (ax.axvline, ax.axhline):
        line(-10, color=INK, lw=0.7, ls=":")
    ax.set_xticks((-30, -10, 10, 30))
    ax.set_yticks((-30, -10, 10, 30))
