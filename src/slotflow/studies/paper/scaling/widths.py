r"""How posterior widths grow with the number of components, beside the joint Cramér–Rao bound.

For each K the width w of a signal is the mean over its tones of the posterior's standard deviation (A: over the true
A), and σ_K is the mean of w over signals, as in the paper; the bound b is averaged in the same way. Most of the scatter
is that of the noise level, which w and b share: their ratio r = Σ w / Σ b over n signals has the standard error
sd(w − r b) / (b̄ √n), so that methods which saw different signals can be compared by r.

The posterior of a tone is taken in two ways (`slotflow.studies.measures.tones`): of the draws sorted by frequency, and
of the slot that takes the tone, which is the paper's protocol. The second has rows of its own.

An exponent of K is reported where the widths follow a power law (`slotflow.studies.measures.power_law`). Where they do
not, the row says how far they are from one, and what the exponent is at either end.
"""

from __future__ import annotations

import math
from typing import Any

from scipy.stats import norm
from torch import Tensor

from slotflow.studies.measures.parameters import SIZE, SYMBOLS, differences, relative_units
from slotflow.studies.measures.power_law import (
    fit_exponent,
    follows_power_law,
    largest_factor,
    local_exponents,
)
from slotflow.studies.measures.tones import ToneSummary
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.result import METHOD_SUFFIXES, Data, Result, unasked
from slotflow.studies.paper.scaling.plot import UNITS, plot
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.model_rows import PAPER_SD
from slotflow.studies.suites.results import SetResult
from slotflow.studies.suites.sets import NOMINAL, SignalSet

__all__ = ["SCALING"]

FIRST_SET = 64
"""The set of K components has the number 64 + K."""
COUNTS = range(1, NOMINAL.k_max + 1)
MOST_BOUNDS = (1.10, 1.15, 1.10)
"""Widths over the bound that the default network was asked for."""
LARGEST_BIAS = 4.0
"""Standard errors beyond which a mean error counts as a bias."""
SATURATES = 0.5
"""Local exponent at the largest K over that at the smallest, below which the widths are said to saturate."""
PAPER_EXPONENTS = (0.3, 0.6, 0.2)
PAPER_GROWTH = ("2.3", "4", "1.7")


def _run(bench: Bench) -> Data:
    """Widths for each K by each method."""
    sets = {str(k): SignalSet(FIRST_SET + k, NOMINAL, k=k) for k in COUNTS}
    s, found = bench.settings, dict[str, Any]()
    results = {}
    if "network" in s.methods:
        results = {int(k): bench.analyse(one, s.tenth) for k, one in sets.items()}
        found["network"] = {
            "signals_per_k": s.tenth,
            "by_k": [{"k": k} | _widths(one, one.tones) for k, one in results.items()],
        }
    if "exact" in s.methods:
        answers = bench.analyse_exact(sets, s.exact_tenth)
        found["exact"] = {
            "signals_per_k": s.exact_tenth,
            "by_k": [
                {"k": int(k)} | _widths(answer.result, answer.result.tones) | answer.facts()
                for k, answer in answers.items()
            ],
        }
    if results and all(one.slot_tones is not None for one in results.values()):
        found["slots"] = {
            "signals_per_k": s.tenth,
            "by_k": [{"k": k} | _widths(one, one.slot_tones) for k, one in results.items()],
        }
    return {"methods": found}


def _widths(result: SetResult, tones: ToneSummary | None) -> Data:
    """Mean and standard error of width, bound and error over the signals of one K; a number for each parameter."""
    assert tones is not None and result.bound is not None  # the sets ask for both
    k = int(result.k[0])
    scale = relative_units(result.theta)
    keep = slice(0, k)
    found: Data = {}
    miss = differences(tones.median, result.theta)
    width, bound = ((x[:, keep] / scale[:, keep]).mean(1) for x in (tones.sd, result.bound))
    ratio = width.sum(0) / bound.sum(0)
    spread = (width - ratio * bound).std(0) / bound.mean(0) / math.sqrt(len(width))
    found |= {"ratio": ratio.tolist(), "ratio_se": spread.tolist()}
    for name, value in (("sd", tones.sd), ("bound", result.bound), ("bias", miss)):
        mean, error = _mean((value[:, keep] / scale[:, keep]).mean(1))
        found |= {name: mean, f"{name}_se": error}
    return found


def _mean(x: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard error over signals of (n, P)."""
    return x.mean(0).tolist(), (x.std(0) / math.sqrt(len(x))).tolist()


def _compare(data: Data) -> list[Row]:
    """Ends, exponents and growth beside the paper's, method after method, and what slots say beyond sorted draws."""
    methods = data["methods"]
    rows = [row for name, found in methods.items() for row in _rows(found, METHOD_SUFFIXES[name])]
    if "slots" not in methods:
        return rows
    return unasked(rows) + _protocol_rows(methods["network"]["by_k"], methods["slots"]["by_k"])


def _protocol_rows(ordered: list[Data], by_slot: list[Data]) -> list[Row]:
    """How much wider a tone is for its own slot than among draws that are sorted by frequency, at the largest K."""
    note = (
        "1 where every slot knows its component; above 1 where slots share components, whose draws sorting parts among "
        "them. The paper's widths are those of slots"
    )
    return [
        Row(
            f"sd of {symbol}, slot by slot over sorted, K = {by_slot[-1]['k']}",
            by_slot[-1]["sd"][i] / ordered[-1]["sd"][i],
            form=".3f",
            note=note if i == 0 else "",
        )
        for i, symbol in enumerate(SYMBOLS)
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


SCALING = Result(
    name="scaling",
    title="Posterior widths against K",
    section="5.1.6, figure 9",
    caption="Above: mean posterior standard deviation at the true K, with the joint bound of both streams and the "
    "values that the paper prints for its network. Below: the same over the bound, each panel on the same scale.",
    method_captions={
        "exact": "The exact step behind the network saw other signals, a tenth as many.",
        "slots": "Slot by slot: widths of the draws of the slot that takes a tone, as the paper has it, instead of "
        "draws sorted by frequency.",
    },
    uses=("n", "draws", "seed", "method", "model"),
    work=lambda settings: settings.work(
        settings.tenth * len(COUNTS), settings.exact_tenth * len(COUNTS)
    ),
    run=_run,
    compare=_compare,
    plot=plot,
)
