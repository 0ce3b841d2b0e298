r"""Calibration of the parameters: coverage of central intervals, and ranks of the truth among the draws.

Both follow from the level u of the truth among the draws (`slotflow.studies.measures.tones`), uniform on [0, 1) for a
calibrated posterior. The draws are those sorted by frequency and, with rows of their own, those of the slot that takes
the tone, which is the paper's protocol. Bands count signals, not tones, since tones of one signal share its noise: with
d_s the sum over the tones of signal s of (indicator − share), a share has the standard error (Σ_s d_s²)^{1/2} / N.

**Test of the ranks.** One tone per signal, the lowest, makes them independent: with n signals in B equal bins,
χ² = Σ (n_b − n/B)² / (n/B) has B − 1 degrees of freedom, and χ²/(B − 1) is 1 on average, with the standard deviation
(2/(B − 1))^{1/2}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.studies.measures.calibration import LEVELS, coverage, deviation_of_perfect
from slotflow.studies.measures.parameters import SIZE, SYMBOLS
from slotflow.studies.measures.tones import ToneSummary
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.result import METHOD_SUFFIXES, Data, Result, unasked
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.model_rows import NOMINAL_SETS
from slotflow.studies.suites.results import SetResult
from slotflow.studies.suites.sets import SETS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CALIBRATION", "rank_histogram"]

RANK_BINS = 20
"""Bins of the ranks."""
PAPER_DEVIATION = 0.03
PAPER_LABEL = f"paper, ±{100 * PAPER_DEVIATION:g} %"
MARKS = "os^Dv"
METHOD_TITLES = {"network": "Network", "exact": "Exact step", "slots": "Slot by slot"}

Array = NDArray[np.float64]


def rank_histogram(level: Tensor, mask: Tensor, bins: int = RANK_BINS) -> tuple[Tensor, Tensor]:
    """Shares of u in equal bins, and their standard errors with signals independent.

    Args:
        level: u, shape (n, K, P).
        mask: Which tones exist, shape (n, K), bool.
        bins: Number of bins.

    Returns:
        Two tensors of shape (bins, P), float64.
    """
    total = mask.sum()
    index = (level.double() * bins).long().clamp(0, bins - 1)
    inside = torch.nn.functional.one_hot(index, bins).double() * mask[..., None, None]
    share = inside.sum((0, 1)) / total  # (P, bins)
    excess = ((inside - share) * mask[..., None, None]).sum(1)  # (n, P, bins)
    return share.T, ((excess**2).sum(0).sqrt() / total).T


def _run(bench: Bench) -> Data:
    """Coverage and ranks of every set by each method."""
    sets = {name: SETS[name] for name in NOMINAL_SETS}
    found: Data = {}
    results: dict[str, SetResult] = {}
    if "network" in bench.settings.methods:
        results = {name: bench.analyse(one) for name, one in sets.items()}
        found["network"] = {name: _summary(one, one.tones) for name, one in results.items()}
    if "exact" in bench.settings.methods:
        answers = bench.analyse_exact(sets, bench.settings.exact_n)
        found["exact"] = {
            name: _summary(answer.result, answer.result.tones) | answer.facts()
            for name, answer in answers.items()
        }
    if results and all(one.slot_tones is not None for one in results.values()):
        found["slots"] = {name: _summary(one, one.slot_tones) for name, one in results.items()}
    return {"methods": found}


def _summary(result: SetResult, tones: ToneSummary | None) -> Data:
    """What is kept of a set."""
    assert tones is not None  # the sets ask for it
    level, mask = tones.level, result.mask
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
        "chi2": (
            result.n * RANK_BINS * ((lowest - 1 / RANK_BINS) ** 2).sum(0) / (RANK_BINS - 1)
        ).tolist(),
    }


def _label(name: str) -> str:
    """A set in words."""
    return "K = 1..10" if name == "nominal" else NOMINAL_SETS[name]


def _deviation(found: Data) -> Array:
    """Coverage − α, (levels, P)."""
    deviation: Array = np.asarray(found["coverage"]) - np.asarray(found["levels"])[:, None]
    return deviation


def _compare(data: Data) -> list[Row]:
    """The rows of each method."""
    methods = data["methods"]
    return unasked(
        [row for name, sets in methods.items() for row in _rows(sets, METHOD_SUFFIXES[name])]
    )


def _rows(sets: Data, suffix: str) -> list[Row]:
    """The largest deviation of all, of each parameter and of each set, and how even the ranks are."""
    curves = {name: _deviation(found) for name, found in sets.items()}
    rows = [_largest(sets, curves, suffix)]
    for i, symbol in enumerate(SYMBOLS):
        rows.append(
            _worst(curves["nominal"][:, i], sets["nominal"], i, f"{symbol}, K = 1..10{suffix}")
        )
    for name, found in sets.items():
        if name != "nominal":
            i = int(np.abs(curves[name]).max(0).argmax())
            label = f"{_label(name)}, worst parameter ({SYMBOLS[i]}){suffix}"
            rows.append(_worst(curves[name][:, i], found, i, label))
    mean = float(curves["nominal"].mean())
    rows.append(
        Row(
            f"mean of coverage − α, K = 1..10{suffix}",
            mean,
            "mildly > 0",
            form="+.2%",
            note="positive: intervals too wide on average; a mean of signed errors, in which opposite ones cancel",
        )
    )
    return rows + [_rank_row(name, sets[name]["chi2"], suffix) for name in ("k1", "nominal")]


def _largest(sets: Data, curves: Mapping[str, Array], suffix: str) -> Row:
    """The largest deviation of all sets and parameters, which may miss the paper's claim by chance."""
    places = (
        (int(np.abs(d[:, i]).argmax()), name, i) for name, d in curves.items() for i in range(SIZE)
    )
    at, name, i = max(places, key=lambda place: abs(curves[place[1]][place[0], place[2]]))
    together = 0.95 ** (1 / (SIZE * len(sets)))
    perfect = max(
        deviation_of_perfect(found["tones"], quantile=together, repeats=10_000)
        for found in sets.values()
    )
    largest = float(abs(curves[name][at, i]))
    return Row(
        f"largest |coverage − α|, all sets and parameters{suffix}",
        largest,
        "< 3%",
        sets[name]["standard_error"][at][i],
        ".2%",
        f"{SYMBOLS[i]}, {_label(name)}, α = {LEVELS[at]:g}; a calibrated posterior stays below "
        f"{perfect:.2%} with probability 95 % at this size",
        Target(high=PAPER_DEVIATION, strict=True, words=f"< {PAPER_DEVIATION:.0%}"),
        True if largest < PAPER_DEVIATION else (None if largest < perfect else False),
    )


def _rank_row(name: str, chi2: list[float], suffix: str) -> Row:
    """How far the ranks of a set are from even, for the worst parameter."""
    symbol = SYMBOLS[int(np.argmax(chi2))]
    spread = math.sqrt(2 / (RANK_BINS - 1))
    return Row(
        f"ranks: χ² per degree of freedom, {_label(name)}, worst ({symbol}){suffix}",
        max(chi2),
        form=".2f",
        note=f"1 ± {spread:.2f} for each parameter if calibrated; grows with n otherwise",
    )


def _worst(deviation: Array, found: Data, i: int, label: str) -> Row:
    """The level at which one curve strays furthest."""
    at = int(np.abs(deviation).argmax())
    return Row(
        f"coverage − α, {label}",
        float(deviation[at]),
        f"< {PAPER_DEVIATION:.0%}",
        found["standard_error"][at][i],
        "+.2%",
        f"at α = {LEVELS[at]:g}, {found['tones']:,} tones",
    )


def _plot(data: Data) -> Figure:
    """For each method: coverage − α of each parameter for every K, above the ranks of each parameter."""
    from matplotlib.figure import Figure

    methods = data["methods"]
    with style():
        figure = Figure(figsize=(12, 6.6 * len(methods)), layout="constrained")
        grid = figure.subplots(2 * len(methods), SIZE, squeeze=False)
        for row, (method, sets) in enumerate(methods.items()):
            _draw_coverage(grid[2 * row], sets, METHOD_TITLES[method])
            for i, ax in enumerate(grid[2 * row + 1]):
                _draw_ranks(ax, sets["nominal"], i, METHOD_TITLES[method])
    return figure


def _draw_coverage(axes: Sequence[Axes], sets: Data, name: str) -> None:
    """Coverage − α, a panel for each parameter and a curve for each K.

    The paper averages over the parameters. A mean of signed errors may vanish where one parameter's intervals are too
    narrow and another's too wide, so there is none here.
    """
    from matplotlib.ticker import PercentFormatter

    for i, (ax, symbol) in enumerate(zip(axes, SYMBOLS, strict=True)):
        for j, (key, found) in enumerate(sets.items()):
            band = 1.96 * np.asarray(found["standard_error"])[:, i]
            levels = np.asarray(found["levels"])
            _curve(ax, levels, _deviation(found)[:, i], band, COLOURS[j], _label(key), MARKS[j])
        ax.set_title(f"{name}: coverage of {symbol}, with 95 % bands")
    high = max(1.25 * PAPER_DEVIATION, *(float(np.abs(ax.get_ylim()).max()) for ax in axes))
    for ax in axes:
        ax.axhline(0, color=GREY, lw=0.9)
        ax.axhline(PAPER_DEVIATION, color=GREY, lw=0.9, ls=":", label=PAPER_LABEL)
        ax.axhline(-PAPER_DEVIATION, color=GREY, lw=0.9, ls=":")
        # the legend stands below the curves
        ax.set(xlabel="level α of the central interval", ylim=(-1.45 * high, high))
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes[0].set_ylabel("coverage − α")
    axes[0].legend(loc="lower left", ncols=3)


def _curve(ax: Axes, x: Array, y: Array, band: Array, colour: str, label: str, mark: str) -> None:
    """A line with its band."""
    ax.fill_between(x, y - band, y + band, color=colour, alpha=0.15, lw=0)
    ax.plot(x, y, f"{mark}-", ms=3, lw=1.2, color=colour, label=label)


def _draw_ranks(ax: Axes, mixture: Data, i: int, name: str) -> None:
    """Ranks of the truth, and where 95 % of the bins lie if they are uniform."""
    share = RANK_BINS * np.asarray(mixture["ranks"])[:, i]
    spread = 1.96 * RANK_BINS * float(np.asarray(mixture["ranks_se"])[:, i].mean())
    label = "95 % of bins, if calibrated"
    ax.axhspan(1 - spread, 1 + spread, color=GREY, alpha=0.25, lw=0, label=label)
    ax.stairs(share, np.linspace(0, 1, RANK_BINS + 1), color=COLOURS[0], lw=1.5, baseline=None)
    reach = max([0.1, 1.3 * spread, 1.2 * float(np.abs(share - 1).max())])
    ax.set(xlabel=f"rank of the true {SYMBOLS[i]} among the draws, 0 to 1", xlim=(0, 1))
    ax.set_ylim(max(0.0, 1 - reach), 1 + 1.35 * reach)
    ax.legend(loc="upper left")
    ax.set_title(f"{name}: ranks of {SYMBOLS[i]}, K = 1..10")
    if i == 0:
        ax.set_ylabel("density")


CALIBRATION = Result(
    name="calibration",
    title="Calibration: coverage and ranks",
    section="5.1.4, figure 6",
    caption="Above: share of truths inside central intervals, less the level of the interval, for each parameter and "
    "several K. The paper shows the mean over parameters for each K, in which errors of opposite sign would cancel. "
    "Below: the distribution of the truth's rank among the draws, which is flat for a calibrated posterior.",
    method_captions={
        "exact": "First two rows for the network alone, then two for the exact step behind it, on a tenth of the "
        "signals.",
        "slots": "Last two rows: the network alone, slot by slot as in the paper, instead of draws sorted by "
        "frequency.",
    },
    uses=("n", "draws", "seed", "method", "model"),
    work=lambda settings: len(NOMINAL_SETS) * settings.work(settings.n, settings.exact_n),
    run=_run,
    compare=_compare,
    plot=_plot,
)
