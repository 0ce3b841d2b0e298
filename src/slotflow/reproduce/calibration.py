r"""Calibration of the parameters: coverage of central intervals, and ranks of the truth among the draws.

Both follow from the level u of the truth among the draws (`evaluate/tones.py`), uniform on [0, 1) for a calibrated
posterior. Bands count signals, not tones, since tones of one signal share its noise: with d_s the sum over the tones of
signal s of (indicator − share), a share has the standard error (Σ_s d_s²)^{1/2} / N.

**Test of the ranks.** One tone per signal, the lowest, makes them independent: with n signals in B equal bins,
χ² = Σ (n_b − n/B)² / (n/B) has B − 1 degrees of freedom, and χ²/(B − 1) is 1 on average, with the standard deviation
(2/(B − 1))^{1/2}.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.evaluate.calibration import LEVELS, coverage, deviation_of_perfect
from slotflow.evaluate.rows import NOMINAL_SETS
from slotflow.evaluate.sets import SETS, SetResult
from slotflow.evaluate.tones import SYMBOLS
from slotflow.plots.style import COLOURS, GREY, style
from slotflow.reproduce.bench import Bench
from slotflow.reproduce.entry import Comparison, Data, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CALIBRATION", "rank_histogram"]

BINS = 20
"""Bins of the ranks."""
PAPER_DEVIATION = 0.03


def rank_histogram(level: Tensor, mask: Tensor, bins: int = BINS) -> tuple[Tensor, Tensor]:
    """Shares of u in equal bins, and their standard errors with signals independent.

    Args:
        level: u, shape (n, K, 3).
        mask: Which tones exist, shape (n, K), bool.
        bins: Number of bins.

    Returns:
        Two tensors of shape (bins, 3), float64.
    """
    total = mask.sum()
    index = (level.double() * bins).long().clamp(0, bins - 1)
    inside = torch.nn.functional.one_hot(index, bins).double() * mask[..., None, None]
    share = inside.sum((0, 1)) / total  # (3, bins)
    excess = ((inside - share) * mask[..., None, None]).sum(1)  # (n, 3, bins)
    return share.T, ((excess**2).sum(0).sqrt() / total).T


def _run(bench: Bench) -> Data:
    """Coverage and ranks of every set."""
    return {"sets": {name: _summary(bench.analyse(SETS[name])) for name in NOMINAL_SETS}}


def _summary(result: SetResult) -> Data:
    """What is kept of a set."""
    assert result.tones is not None  # the sets ask for it
    level, mask = result.tones.level, result.mask
    found = coverage(level, mask)
    ranks, error = rank_histogram(level, mask)
    lowest, _ = rank_histogram(level[:, :1], mask[:, :1])
    return {
        "signals": result.n,
        "tones": found.n_tones,
        "levels": list(LEVELS),
        "coverage": found.coverage.tolist(),
        "standard_error": found.standard_error.tolist(),
        "ranks": ranks.tolist(),
        "ranks_se": error.tolist(),
        "chi2": (result.n * BINS * ((lowest - 1 / BINS) ** 2).sum(0) / (BINS - 1)).tolist(),
    }


def _label(name: str) -> str:
    """A set in words."""
    return "K = 1..10" if name == "nominal" else NOMINAL_SETS[name]


def _deviation(found: Data) -> NDArray[np.float64]:
    """Coverage − α, (levels, 3)."""
    deviation: NDArray[np.float64] = (
        np.asarray(found["coverage"]) - np.asarray(found["levels"])[:, None]
    )
    return deviation


def _compare(data: Data) -> list[Comparison]:
    """The largest deviation of all, of each parameter and of each set."""
    sets = data["sets"]
    curves = {name: _deviation(found) for name, found in sets.items()}
    at, name, i = max(
        ((int(np.abs(d[:, i]).argmax()), name, i) for name, d in curves.items() for i in range(3)),
        key=lambda entry: abs(curves[entry[1]][entry[0], entry[2]]),
    )
    together = 0.95 ** (1 / (3 * len(sets)))
    perfect = max(
        deviation_of_perfect(found["tones"], quantile=together, repeats=10_000)
        for found in sets.values()
    )
    rows = [
        Comparison(
            "largest |coverage − α|, all sets and parameters",
            float(abs(curves[name][at, i])),
            "< 3%",
            sets[name]["standard_error"][at][i],
            ".2%",
            f"{SYMBOLS[i]}, {_label(name)}, α = {LEVELS[at]:g}; a calibrated posterior stays below "
            f"{perfect:.2%} with probability 95 % at this size",
        )
    ]
    for i, symbol in enumerate(SYMBOLS):
        rows.append(
            _worst(curves["nominal"][:, i], sets["nominal"], i, f"{symbol}, K = 1..10", "< 3%")
        )
    for name, found in sets.items():
        if name != "nominal":
            i = int(np.abs(curves[name]).max(0).argmax())
            label = f"{_label(name)}, worst parameter ({SYMBOLS[i]})"
            rows.append(_worst(curves[name][:, i], found, i, label, "< 3%"))
    mean = float(curves["nominal"].mean())
    rows.append(
        Comparison(
            "mean of coverage − α, K = 1..10",
            mean,
            "mildly > 0",
            form="+.2%",
            note="positive: intervals a little too wide",
        )
    )
    for name in ("k1", "nominal"):
        worst = max(sets[name]["chi2"])
        symbol = SYMBOLS[int(np.argmax(sets[name]["chi2"]))]
        spread = math.sqrt(2 / (BINS - 1))
        rows.append(
            Comparison(
                f"ranks: χ² per degree of freedom, {_label(name)}, worst ({symbol})",
                worst,
                form=".2f",
                note=f"1 ± {spread:.2f} for each parameter if calibrated; grows with n otherwise",
            )
        )
    return rows


def _worst(
    deviation: NDArray[np.float64], found: Data, i: int, label: str, paper: str
) -> Comparison:
    """The level at which one curve strays furthest."""
    at = int(np.abs(deviation).argmax())
    return Comparison(
        f"coverage − α, {label}",
        float(deviation[at]),
        paper,
        found["standard_error"][at][i],
        "+.2%",
        f"at α = {LEVELS[at]:g}, {found['tones']:,} tones",
    )


def _plot(data: Data) -> Figure:
    """Coverage − α per parameter, and its mean per K, above the ranks of each parameter."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    sets, mixture = data["sets"], data["sets"]["nominal"]
    levels = np.asarray(mixture["levels"])
    with style():
        figure = Figure(figsize=(12, 7), layout="constrained")
        grid = figure.add_gridspec(2, 6)
        left, right = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
        deviation = _deviation(mixture)
        for i, symbol in enumerate(SYMBOLS):
            band = 1.96 * np.asarray(mixture["standard_error"])[:, i]
            y = deviation[:, i]
            left.fill_between(levels, y - band, y + band, color=COLOURS[i], alpha=0.18, lw=0)
            left.plot(levels, y, "o-", ms=3, lw=1.2, color=COLOURS[i], label=symbol)
        left.set_title("Each parameter, K = 1..10, with 95 % bands")
        for i, (name, found) in enumerate(sets.items()):
            mean = _deviation(found).mean(1)
            # The parameters of a tone are correlated: the mean of their errors bounds the error of their mean.
            band = 1.96 * np.asarray(found["standard_error"]).mean(1)
            right.fill_between(levels, mean - band, mean + band, color=COLOURS[i], alpha=0.12, lw=0)
            right.plot(levels, mean, "o-", ms=3, lw=1.2, color=COLOURS[i], label=_label(name))
        right.set_title("Mean over parameters, each K, with 95 % bands")
        high = max(
            1.25 * PAPER_DEVIATION, *(float(np.abs(ax.get_ylim()).max()) for ax in (left, right))
        )
        for ax in (left, right):
            ax.axhline(0, color=GREY, lw=0.9)
            for sign in (-1, 1):
                ax.axhline(sign * PAPER_DEVIATION, color=GREY, lw=0.9, ls=":")
            ax.text(0.1, PAPER_DEVIATION, "the paper's 3 %", color=GREY, fontsize=8, va="bottom")
            ax.set(
                xlabel="level α of the central interval", ylabel="coverage − α", ylim=(-high, high)
            )
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
            ax.legend(loc="lower left", ncols=5)
        edges = np.linspace(0, 1, BINS + 1)
        for i, symbol in enumerate(SYMBOLS):
            ax = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
            share = BINS * np.asarray(mixture["ranks"])[:, i]
            spread = 1.96 * BINS * float(np.asarray(mixture["ranks_se"])[:, i].mean())
            ax.axhspan(
                1 - spread,
                1 + spread,
                color=GREY,
                alpha=0.25,
                lw=0,
                label="95 % of bins, if calibrated",
            )
            ax.stairs(share, edges, color=COLOURS[i], lw=1.5, baseline=None)
            reach = max([0.1, 1.3 * spread, 1.2 * float(np.abs(share - 1).max())])
            ax.set(xlabel=f"rank of the true {symbol} among the draws, 0 to 1", xlim=(0, 1))
            ax.set_ylim(1 - reach, 1 + 1.35 * reach)
            ax.legend(loc="upper left")
            ax.set_title(f"Ranks of {symbol}, K = 1..10")
            if i == 0:
                ax.set_ylabel("density")
    return figure


CALIBRATION = Result(
    name="calibration",
    title="Calibration: coverage and ranks",
    section="5.1.4, figure 6",
    caption="Share of truths inside central intervals, less the level of the interval, and the distribution of the "
    "truth's rank among the draws, flat if calibrated.",
    version=1,
    uses=("n", "draws", "seed", "model"),
    work=lambda settings: settings.n * len(NOMINAL_SETS),
    run=_run,
    compare=_compare,
    plot=_plot,
)
