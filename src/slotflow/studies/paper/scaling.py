r"""How posterior widths grow with the number of components, beside the joint Cramér–Rao bound.

For each K the width w of a signal is the mean over its tones of the posterior's standard deviation (A: over the true
A), and σ_K is the mean of w over signals, as in the paper; the bound b is averaged in the same way. Most of the scatter
is that of the noise level, which w and b share: their ratio r = Σ w / Σ b over n signals has the standard error
sd(w − r b) / (b̄ √n), so that methods which saw different signals can be compared by r.

An exponent of K is reported where the widths follow a power law (`slotflow.studies.measures.power_law`). Where they do
not, the row says how far they are from one, and what the exponent is at either end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm
from torch import Tensor

from slotflow.show.plots.style import COLOURS, GREY, INK, style
from slotflow.studies.measures.parameters import SIZE, SYMBOLS, differences, relative_units
from slotflow.studies.measures.power_law import (
    fit_exponent,
    follows_power_law,
    largest_factor,
    local_exponents,
)
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.model_rows import PAPER_SD
from slotflow.studies.suites.results import SetResult
from slotflow.studies.suites.sets import NOMINAL, SignalSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SCALING"]

FIRST_SET = 64
"""The set of K components has the number 64 + K."""
COUNTS = range(1, NOMINAL.k_max + 1)
UNITS = ((100.0, "%"), (1.0, "rad"), (1e3, "mHz"))
"""Factor and unit in which A (relative), φ and f are written."""
MOST_BOUNDS = (1.10, 1.15, 1.10)
"""Widths over the bound that the default network was asked for."""
LARGEST_BIAS = 4.0
"""Standard errors beyond which a mean error counts as a bias."""
FAR_FROM_THE_BOUND = 3.0
"""Widths over the bound from which on they are drawn on a logarithmic scale."""
SATURATES = 0.5
"""Local exponent at the largest K over that at the smallest, below which the widths are said to saturate."""
METHOD_COLOURS = {"network": COLOURS[0], "exact": COLOURS[1]}
PAPER_EXPONENTS = (0.3, 0.6, 0.2)
PAPER_GROWTH = ("2.3", "4", "1.7")


def _run(bench: Bench) -> Data:
    """Widths for each K by each method."""
    sets = {str(k): SignalSet(FIRST_SET + k, NOMINAL, k=k) for k in COUNTS}
    s, found = bench.settings, dict[str, Any]()
    if "network" in s.methods:
        found["network"] = {
            "signals_per_k": s.tenth,
            "by_k": [
                {"k": int(k)} | _widths(bench.analyse(one, s.tenth)) for k, one in sets.items()
            ],
        }
    if "exact" in s.methods:
        answers = bench.analyse_exact(sets, s.exact_tenth)
        found["exact"] = {
            "signals_per_k": s.exact_tenth,
            "by_k": [
                {"k": int(k)} | _widths(answer.result) | answer.facts()
                for k, answer in answers.items()
            ],
        }
    return {"methods": found}


def _widths(result: SetResult) -> Data:
    """Mean and standard error of width, bound and error over the signals of one K; a number for each parameter."""
    assert result.tones is not None and result.bound is not None  # the sets ask for both
    k = int(result.k[0])
    scale = relative_units(result.theta)
    keep = slice(0, k)
    found: Data = {}
    miss = differences(result.tones.median, result.theta)
    width, bound = ((x[:, keep] / scale[:, keep]).mean(1) for x in (result.tones.sd, result.bound))
    ratio = width.sum(0) / bound.sum(0)
    spread = (width - ratio * bound).std(0) / bound.mean(0) / math.sqrt(len(width))
    found |= {"ratio": ratio.tolist(), "ratio_se": spread.tolist()}
    for name, value in (("sd", result.tones.sd), ("bound", result.bound), ("bias", miss)):
        mean, error = _mean((value[:, keep] / scale[:, keep]).mean(1))
        found |= {name: mean, f"{name}_se": error}
    return found


def _mean(x: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard error over signals of (n, P)."""
    return x.mean(0).tolist(), (x.std(0) / math.sqrt(len(x))).tolist()


def _compare(data: Data) -> list[Row]:
    """Ends, exponents and growth beside the paper's, method after method."""
    return [
        row
        for method, found in data["methods"].items()
        for row in _rows(found, "" if method == "network" else ", exact step")
    ]


def _rows(found: Data, label: str) -> list[Row]:
    """The rows of one method."""
    by_k = found["by_k"]
    counts = [entry["k"] for entry in by_k]
    rows = []
    for i, symbol in enumerate(SYMBOLS):
        factor, unit = UNITS[i]
        for entry in (by_k[0], by_k[-1]):
            k = entry["k"]
            rows.append(
                Row(
                    f"sd of {symbol} at K = {k} [{unit}]{label}",
                    factor * entry["sd"][i],
                    f"{factor * PAPER_SD[k][i]:.2g}" if k in PAPER_SD else "",
                    factor * entry["sd_se"][i],
                    note=f"{entry['ratio'][i]:.3f} ± {entry['ratio_se'][i]:.1g} times the bound, which is "
                    f"{factor * entry['bound'][i]:.3g}; {found['signals_per_k']:,} signals",
                    target=Target(high=MOST_BOUNDS[i], words=f"≤ {MOST_BOUNDS[i]:.2f} bounds"),
                    met=entry["ratio"][i] <= MOST_BOUNDS[i],
                )
            )
    for i, symbol in enumerate(SYMBOLS):
        rows.append(_exponent_row(by_k, i, label))
        growth = PAPER_SD[10][i] / PAPER_SD[1][i]
        rows.append(
            Row(
                f"growth of {symbol} from K = {counts[0]} to {counts[-1]}{label}",
                by_k[-1]["sd"][i] / by_k[0]["sd"][i],
                PAPER_GROWTH[i],
                form=".2f",
                note=f"the paper's own ends give {growth:.1f}",
            )
        )
    worst = max(abs(e["bias"][i]) / e["bias_se"][i] for e in by_k for i in range(SIZE))
    limit = norm.isf(0.025 / (SIZE * len(by_k)))  # a few signals have heavier tails than this
    note = f"of {SIZE * len(by_k)} such ratios; without bias all stay below {limit:.1f} with probability 95 %"
    rows.append(
        Row(
            f"mean error over its standard error, largest{label}",
            worst,
            "no bias",
            form=".1f",
            note=note,
            target=Target(high=LARGEST_BIAS, words=f"≤ {LARGEST_BIAS:g}"),
            met=bool(worst <= LARGEST_BIAS),
        )
    )
    return rows


def _exponent_row(by_k: list[Data], i: int, label: str) -> Row:
    """The exponent of one parameter's widths, or how far they are from any power law."""
    counts = [entry["k"] for entry in by_k]
    sd, error, bound, bound_error = (
        [entry[key][i] for entry in by_k] for key in ("sd", "sd_se", "bound", "bound_se")
    )
    floor, _ = fit_exponent(counts, bound, bound_error)
    ends = math.log10(PAPER_SD[10][i] / PAPER_SD[1][i])
    first, last = local_exponents(counts, sd)
    note = f"bound {floor:.2f}; the paper's own ends give {ends:.2f}"
    if follows_power_law(counts, sd, error):
        slope, slope_error = fit_exponent(counts, sd, error)
        return Row(
            f"exponent of {SYMBOLS[i]}{label}",
            slope,
            f"{PAPER_EXPONENTS[i]:g}",
            slope_error,
            ".2f",
            f"{note}; ours is {first:.2f} at K = {counts[0]} and {last:.2f} at K = {counts[-1]}",
        )
    shape = ", so that they saturate" if last < SATURATES * first else ""
    return Row(
        f"largest factor between {SYMBOLS[i]} and a power law{label}",
        largest_factor(counts, sd),
        f"exponent {PAPER_EXPONENTS[i]:g}",
        form=".2f",
        note=f"no single exponent describes these widths: it is {first:.2f} at K = {counts[0]} and {last:.2f} at "
        f"K = {counts[-1]}{shape}; {note}",
    )


def _plot(data: Data) -> Figure:
    """Above: widths of the first method, the bound, and the ends that the paper prints. Below: all over the bound."""
    from matplotlib.figure import Figure

    titles = ("Amplitude, relative", "Phase", "Frequency")
    methods = data["methods"]
    first = next(iter(methods))
    with style():
        figure = Figure(figsize=(12, 7), layout="constrained")
        axes = figure.subplots(2, SIZE, height_ratios=(4, 3))
        for i, symbol in enumerate(SYMBOLS):
            _draw_widths(axes[0, i], first, methods[first], i)
            axes[0, i].set_title(f"{titles[i]} ({symbol})")
            _draw_ratios(axes[1, i], methods, i)
        _share_range(axes[1])
        for ax in axes.flat:
            ax.set_xlabel("K")
            ax.set_xscale("log")
            ax.set_xticks((1, 2, 3, 5, 10), ("1", "2", "3", "5", "10"))
            ax.minorticks_off()
    return figure


def _draw_widths(ax: Axes, method: str, found: Data, i: int) -> None:
    """Points of one method with their errors, the bound and the paper's ends.

    No power law is drawn: where widths grow by a third or less, one would fit curves of any shape.
    """
    (factor, unit), by_k = UNITS[i], found["by_k"]
    counts = np.array([entry["k"] for entry in by_k])
    sd, error, bound = (
        factor * np.array([entry[key][i] for entry in by_k]) for key in ("sd", "sd_se", "bound")
    )
    ax.plot(counts, bound, color=INK, lw=1.4, label="joint Cramér–Rao bound")
    ax.errorbar(
        counts, sd, np.minimum(1.96 * error, 0.9 * sd), fmt="o", ms=4, lw=1.1, capsize=2,
        color=METHOD_COLOURS[method], label=f"{method}, 95 % error",
    )  # fmt: skip
    ends = [factor * PAPER_SD[k][i] for k in (1, 10)]
    ax.plot((1, 10), ends, "D:", ms=5, lw=0.9, color=GREY, label="paper, K = 1 and 10")
    ax.set(ylabel=f"mean posterior sd [{unit}]", yscale="log")
    _decimal_ticks(ax)
    ax.legend(loc="upper left")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.3)


def _draw_ratios(ax: Axes, methods: Data, i: int) -> None:
    """Widths over the bound, all methods."""
    ax.axhline(1, color=INK, lw=1.0, label="bound")
    for j, (method, found) in enumerate(methods.items()):
        counts = np.array([entry["k"] for entry in found["by_k"]])
        ratio, error = (
            np.array([entry[key][i] for entry in found["by_k"]]) for key in ("ratio", "ratio_se")
        )
        ax.errorbar(
            counts * 1.03**j, ratio, 1.96 * error, fmt="os"[j], ms=4, lw=1.1, capsize=2,
            color=METHOD_COLOURS[method], label=f"{method}, 95 % error",
        )  # fmt: skip
    ax.set_ylabel(f"sd of {SYMBOLS[i]} / bound")


def _share_range(axes: Sequence[Axes]) -> None:
    """One range for all panels, that of their values; logarithmic where widths are far from the bound.

    The targets are not drawn. They lie where the widths do not reach, and would leave half of each panel empty; the
    table has them.
    """
    far = max(ax.get_ylim()[1] for ax in axes) > FAR_FROM_THE_BOUND
    if far:
        for ax in axes:
            ax.set_yscale("log")
            _decimal_ticks(ax)
    low, high = (f(ax.get_ylim()[j] for ax in axes) for j, f in enumerate((min, max)))
    for ax in axes:
        ax.set_ylim(low, high)
    (axes[0] if far else axes[1]).legend(loc="upper left" if far else "lower left")


def _decimal_ticks(ax: Axes) -> None:
    """Plain numbers at 1, 2 and 5 of each decade of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


SCALING = Result(
    name="scaling",
    title="Posterior widths against K",
    section="5.1.6, figure 9",
    caption="Above: mean posterior standard deviation at the true K, with the joint bound of both streams and the "
    "values that the paper prints for its network. Below: the same over the bound, each panel on the same scale.",
    exact_caption="The exact step behind the network saw other signals, a tenth as many.",
    uses=("n", "draws", "seed", "method", "model"),
    work=lambda settings: settings.work(
        settings.tenth * len(COUNTS), settings.exact_tenth * len(COUNTS)
    ),
    pooled=True,
    run=_run,
    compare=_compare,
    plot=_plot,
)
