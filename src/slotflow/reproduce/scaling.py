r"""How posterior widths grow with the number of components, beside the joint Cramér–Rao bound.

For each K the width of a signal is the mean over its tones of the posterior's standard deviation (A: over the true A),
and σ_K is the mean over signals, as in the paper; the bound is averaged in the same way.

**Exponent.** The slope of a straight line through (log K, log σ_K), K = 1..10, by least squares. With
w_K = (log K − mean) / Σ (log K − mean)² it is Σ w_K log σ_K. With s_K the standard error of σ_K, its Monte-Carlo error
is (Σ w_K² (s_K/σ_K)²)^{1/2}.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from slotflow.evaluate.precision import errors
from slotflow.evaluate.rows import PAPER_SD
from slotflow.evaluate.sets import NOMINAL, SetResult, SignalSet
from slotflow.evaluate.tones import SYMBOLS
from slotflow.plots.style import COLOURS, GREY, INK, style
from slotflow.reproduce.bench import Bench
from slotflow.reproduce.entry import Comparison, Data, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SCALING", "fit_exponent"]

FIRST_SET = 64
"""The set of K components has the number 64 + K."""
COUNTS = range(1, NOMINAL.k_max + 1)
UNITS = ((100.0, "%"), (1.0, "rad"), (1e3, "mHz"))
"""Factor and unit in which A (relative), φ and f are written."""
PAPER_EXPONENTS = (0.3, 0.6, 0.2)
PAPER_GROWTH = ("2.3", "4", "1.7")


def fit_exponent(k: list[int], value: list[float], error: list[float]) -> tuple[float, float]:
    """Slope of log value against log k, and its Monte-Carlo error.

    Args:
        k: Numbers of components, at least two different ones.
        value: Mean width at each, positive.
        error: Its standard error.
    """
    x = np.log(k)
    weight = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    relative = np.asarray(error) / np.asarray(value)
    return float(weight @ np.log(value)), float(np.sqrt((weight**2) @ relative**2))


def _run(bench: Bench) -> Data:
    """Widths for each K."""
    n = bench.settings.tenth
    return {
        "signals_per_k": n,
        "by_k": [
            {"k": k} | _widths(bench.analyse(SignalSet(FIRST_SET + k, NOMINAL, k=k), n))
            for k in COUNTS
        ],
    }


def _widths(result: SetResult) -> Data:
    """Mean and standard error of width, bound and error over the signals of one K; three numbers each."""
    assert result.tones is not None and result.bound is not None  # the sets ask for both
    k = int(result.k[0])
    scale = torch.ones_like(result.theta)
    scale[..., 0] = result.theta[..., 0]
    keep = slice(0, k)
    found: Data = {}
    miss = errors(result.tones.median, result.theta)
    for name, value in (("sd", result.tones.sd), ("bound", result.bound), ("bias", miss)):
        mean, error = _mean((value[:, keep] / scale[:, keep]).mean(1))
        found |= {name: mean, f"{name}_se": error}
    return found


def _mean(x: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard error over signals of (n, 3)."""
    return x.mean(0).tolist(), (x.std(0) / math.sqrt(len(x))).tolist()


def _compare(data: Data) -> list[Comparison]:
    """Ends, exponents and growth beside the paper's."""
    by_k = data["by_k"]
    counts = [entry["k"] for entry in by_k]
    rows = []
    for i, symbol in enumerate(SYMBOLS):
        factor, unit = UNITS[i]
        for entry in (by_k[0], by_k[-1]):
            k, bound = entry["k"], entry["bound"][i]
            rows.append(
                Comparison(
                    f"sd of {symbol} at K = {k} [{unit}]",
                    factor * entry["sd"][i],
                    f"{factor * PAPER_SD[k][i]:.2g}" if k in PAPER_SD else "",
                    factor * entry["sd_se"][i],
                    note=f"bound {factor * bound:.3g}; ours is {entry['sd'][i] / bound:.3f} times it",
                )
            )
    for i, symbol in enumerate(SYMBOLS):
        value, error = fit_exponent(
            counts, [e["sd"][i] for e in by_k], [e["sd_se"][i] for e in by_k]
        )
        floor, _ = fit_exponent(
            counts, [e["bound"][i] for e in by_k], [e["bound_se"][i] for e in by_k]
        )
        growth = PAPER_SD[10][i] / PAPER_SD[1][i]
        note = f"bound {floor:.2f}; the paper's own ends give {math.log10(growth):.2f}"
        rows.append(
            Comparison(
                f"exponent of {symbol}", value, f"{PAPER_EXPONENTS[i]:g}", error, ".2f", note
            )
        )
        rows.append(
            Comparison(
                f"growth of {symbol} from K = {counts[0]} to {counts[-1]}",
                by_k[-1]["sd"][i] / by_k[0]["sd"][i],
                PAPER_GROWTH[i],
                form=".2f",
                note=f"the paper's own ends give {growth:.1f}",
            )
        )
    worst = max(abs(e["bias"][i]) / e["bias_se"][i] for e in by_k for i in range(3))
    limit = norm.isf(0.025 / (3 * len(by_k)))
    note = f"of {3 * len(by_k)} such ratios; without bias all stay below {limit:.1f} with probability 95 %"
    rows.append(
        Comparison(
            "mean error over its standard error, largest", worst, "no bias", form=".1f", note=note
        )
    )
    return rows


def _plot(data: Data) -> Figure:
    """One panel per parameter: network, bound, fitted law, and the ends that the paper prints."""
    from matplotlib.figure import Figure

    by_k = data["by_k"]
    counts = np.array([entry["k"] for entry in by_k])
    titles = ("Amplitude, relative", "Phase", "Frequency")
    with style():
        figure = Figure(figsize=(12, 4), layout="constrained")
        axes = figure.subplots(1, 3)
        for i, ax in enumerate(axes):
            factor, unit = UNITS[i]
            sd, error, bound = (
                factor * np.array([entry[key][i] for entry in by_k])
                for key in ("sd", "sd_se", "bound")
            )
            slope, _ = fit_exponent(counts.tolist(), sd.tolist(), error.tolist())
            fit = np.exp(np.log(sd).mean() + slope * (np.log(counts) - np.log(counts).mean()))
            ax.plot(counts, bound, color=INK, lw=1.4, label="joint Cramér–Rao bound")
            ax.plot(counts, fit, color=COLOURS[0], lw=1.0, ls="--", label=f"∝ K^{slope:.2f}")
            ax.errorbar(
                counts, sd, 1.96 * error, fmt="o", ms=4, lw=1.1, capsize=2, color=COLOURS[0],
                label="network, 95 % error",
            )  # fmt: skip
            ends = [factor * PAPER_SD[k][i] for k in (1, 10)]
            ax.plot((1, 10), ends, "D:", ms=5, lw=0.9, color=GREY, label="paper, K = 1 and 10")
            ax.set(xlabel="K", ylabel=f"mean posterior sd [{unit}]", yscale="log", xscale="log")
            ax.set_xticks((1, 2, 3, 5, 10), ("1", "2", "3", "5", "10"))
            ax.minorticks_off()
            _decimal_ticks(ax)
            ax.set_title(f"{titles[i]} ({SYMBOLS[i]})")
            ax.legend(loc="upper left")
            low, high = ax.get_ylim()
            ax.set_ylim(low, high * (high / low) ** 0.35)
    return figure


def _decimal_ticks(ax: Axes) -> None:
    """Plain numbers at 1, 2 and 5 of each decade of a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


SCALING = Result(
    name="scaling",
    title="Posterior widths against K",
    section="5.1.6, figure 9",
    caption="Mean posterior standard deviation at the true K, with the joint bound of both streams and the values that "
    "the paper prints for its network.",
    version=1,
    uses=("n", "draws", "seed", "model"),
    work=lambda settings: settings.tenth * len(COUNTS),
    run=_run,
    compare=_compare,
    plot=_plot,
)
