"""Study `distinguishable`: down to which distance slots take distinct components (paper, section 4.4).

Each round draws one pair of tones and puts it at every distance, for the default network on the paper's sampling, under
a prior without a minimum separation, and for the paper's parts in small (`debug`) on theirs, whose training had no pair
closer than three bins. The exact step says how many tones the data themselves show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from slotflow.network.model import DEFAULT
from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.signal.prior import Prior
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup, Study
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.sets import NOMINAL, suite_seed
from slotflow.studies.theory.distinguishability import PAPER_GAMMA
from slotflow.studies.theory.distinguishable.pairs import draw_pairs, pair_distance, told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DISTINGUISHABLE"]

SETS = {DEFAULT: 91, "debug": 92}
"""Numbers of the test sets, by network."""
DISTANCES = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Δf in bins of 1/T."""
QUICK_DISTANCES = (0.5, 1.0, 3.0)
RAYLEIGH, PAPER_SEPARATION = 1.0, 3.0
"""The distance of definition 4.1, and the smallest in the paper's data, in bins."""
PAIR_PRIOR = Prior(k_min=0, k_max=3, min_separation=0.0, sigma=NOMINAL.sigma)
"""What the default network and the exact step answer under."""
DRAWS, QUICK_DRAWS = 200, 25
"""Draws of each slot."""
EXACT_SECONDS, QUICK_EXACT_SECONDS = 5.0, 1.0
"""Time budget of the exact step of a pair."""
SHARES = ("counted", "separated", "labelled")
CERTAIN = 0.95
"""Share from which pairs are said to be told apart."""
STRAY = 2.0
"""Standard errors by which a share may lie below `CERTAIN` by chance."""


def _distances(settings: Settings) -> tuple[float, ...]:
    return QUICK_DISTANCES if settings.quick else DISTANCES


def _measure(setup: Setup, number: int) -> Data:
    """One pair for each network, at every distance."""
    return {name: _pair(setup, name, number) for name in SETS}


def _pair(setup: Setup, name: str, number: int) -> list[Data]:
    """What a network makes of one pair, distance by distance, and the exact step beside the default network."""
    network, settings = setup.network(name), setup.settings
    config = network.config
    prior = PAIR_PRIOR if name == DEFAULT else config.prior
    grids = (config.long, config.short)
    seed = suite_seed(SETS[name], number, settings.seed)
    pairs = draw_pairs(prior, grids, _distances(settings), seed)
    observations = [pair.observation(0) for pair in pairs]
    answers = network.infer_each(observations, prior=prior, refine=False)
    draws = QUICK_DRAWS if settings.quick else DRAWS
    found = [
        {"bins": bins, "distance": pair_distance(pair)}
        | asdict(told_apart(answer, pair.components(0), draws, number))
        for bins, pair, answer in zip(_distances(settings), pairs, answers, strict=True)
    ]
    if name == DEFAULT:
        seconds = QUICK_EXACT_SECONDS if settings.quick else EXACT_SECONDS
        exact = network.infer_each(observations, prior=prior, seed=number, max_seconds=seconds)
        for one, answer in zip(found, exact, strict=True):
            one["exact"] = answer.k_map == 2
    return found


def _gather(rounds: Sequence[Data]) -> Data:
    """For each network and distance: shares with their standard errors, and the distances D."""
    return {name: [_share(cell) for cell in zip(*(r[name] for r in rounds), strict=True)]
            for name in SETS}  # fmt: skip


def _share(cell: Sequence[Data]) -> Data:
    """All pairs at one distance."""
    found: Data = {"bins": cell[0]["bins"], "pairs": len(cell)}
    for key in (*SHARES, *(["exact"] if "exact" in cell[0] else [])):
        values = np.array([float(one[key]) for one in cell])
        found[key] = [float(values.mean()), float(values.std() / np.sqrt(len(values)))]
    separation = np.array([one["distance"] for one in cell])
    found["least_distance"] = float(separation.min())
    found["median_distance"] = float(np.median(separation))
    above = [one["separated"] for one in cell if one["distance"] > PAPER_GAMMA]
    found["above_gamma"] = [len(above), int(sum(above))]
    return found


# ---------------------------------------------------------------------- table


def _compare(data: Data) -> list[Row]:
    """What slots, counts and likelihood can tell, for each network."""
    return [row for name, cells in data.items() for row in _rows(name, cells)]


def _rows(name: str, cells: Sequence[Data]) -> list[Row]:
    """One network."""
    by_bins = {cell["bins"]: cell for cell in cells}
    above, separated = (int(n) for n in np.array([cell["above_gamma"] for cell in cells]).sum(0))
    share = separated / max(above, 1)
    rows = [
        _expected(
            f"{name}: pairs with D > {PAPER_GAMMA:g} whose slots take one component each",
            [share, math.sqrt(share * (1 - share) / max(above, 1))],
            f"{above:,} pairs, all distances, K = 2 given",
        )
    ]
    for bins, words in ((RAYLEIGH, "Rayleigh"), (PAPER_SEPARATION, "the paper's smallest")):
        cell, at = by_bins[bins], f"at Δf = {bins:g}/T"
        labelled, counted = cell["labelled"], cell["counted"]
        rows += [
            _expected(f"{name}: slots take one component each {at}", cell["separated"], words),
            Row(
                f"{name}: slot distinguishability {at}", labelled[0], error=labelled[1], form=".3f"
            ),
            Row(f"{name}: K = 2 found {at}", counted[0], error=counted[1], form=".1%"),
        ]
    for key, what, note in (
        ("separated", "a slot for each tone", "K = 2 given"),
        ("counted", "the right count", "network"),
        ("exact", "the right count", "exact step"),
    ):
        start = _from(cells, key) if key in cells[0] else None
        if start is not None:
            measure = f"{name}: least Δf from which {100 * CERTAIN:g} % of pairs have {what} [1/T]"
            rows.append(Row(measure, start, form=".2f", note=note))
    return rows


def _expected(measure: str, share: Sequence[float], note: str) -> Row:
    """A share, with its standard error, that the paper expects to be one; open if it may be above `CERTAIN`."""
    value, error = share
    target = Target(low=CERTAIN, words=f"≥ {CERTAIN:.0%}")
    met = target.met(value) or (None if target.met(value, STRAY * error) else False)
    return Row(
        measure, value, "expected", error=error, form=".1%", note=note, target=target, met=met
    )


def _from(cells: Sequence[Data], key: str) -> float | None:
    """The smallest distance from which on a share stays above `CERTAIN`; None if it never does."""
    start = None
    for cell in reversed(cells):
        if cell[key][0] < CERTAIN:
            break
        start = float(cell["bins"])
    return start


# ---------------------------------------------------------------------- picture


def _plot(data: Data) -> Figure:
    """Shares against the distance for each network, and D of the pairs."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(12, 4.2), layout="constrained")
        axes = figure.subplots(1, 3)
        for ax, (name, cells) in zip(axes, data.items(), strict=False):
            _draw_shares(ax, name, cells)
        _draw_distance(axes[2], data)
    return figure


def _draw_shares(ax: Axes, name: str, cells: Sequence[Data]) -> None:
    """What a network and the exact step tell."""
    x = [cell["bins"] for cell in cells]
    labels = {
        "separated": "one component for each slot",
        "labelled": "slot distinguishability",
        "counted": "K = 2 found, network",
        "exact": "K = 2 found, exact step",
    }
    for i, (key, label) in enumerate(labels.items()):
        if key in cells[0]:
            value, error = np.array([cell[key] for cell in cells]).T
            around = {"ms": 8, "mfc": "none"} if key == "exact" else {"ms": 4}  # both are seen
            ax.errorbar(x, value, error, fmt="os^D"[i] + "-", lw=1.2, color=COLOURS[i],
                        label=label, **around)  # fmt: skip
    ax.axvline(RAYLEIGH, color=GREY, lw=0.9, ls="--", label="Rayleigh's distance")
    ax.axvline(PAPER_SEPARATION, color=GREY, lw=0.9, ls=":", label="least in the paper's data")
    ax.set(xscale="log", xlabel="Δf [1/T]", ylabel="share of pairs", ylim=(-0.03, 1.05))
    ax.set_xticks(x, [f"{one:g}" for one in x], rotation=60)
    ax.set_yticks((0, 0.25, 0.5, 0.75, 1))
    ax.minorticks_off()
    high = np.mean([cell["separated"][0] for cell in cells]) > 0.5
    ax.legend(
        loc="lower right" if high else "center left",  # beside the curves
        frameon=True, facecolor="white", edgecolor="none", framealpha=1.0,
    )  # fmt: skip
    ax.set_title(f"Network {name}, {cells[0]['pairs']} pairs at each distance")


def _draw_distance(ax: Axes, data: Data) -> None:
    """D of the pairs against their distance."""
    for i, (name, cells) in enumerate(data.items()):
        x = [cell["bins"] for cell in cells]
        ax.loglog(x, [cell["median_distance"] for cell in cells], "o-", ms=4, lw=1.2,
                  color=COLOURS[i], label=f"{name}'s data, median")  # fmt: skip
        ax.loglog(x, [cell["least_distance"] for cell in cells], "v:", ms=4, lw=1,
                  color=COLOURS[i], label=f"{name}'s data, smallest")  # fmt: skip
    ax.axhline(PAPER_GAMMA, color=GREY, lw=1, ls="--")
    ax.text(x[0], 1.3 * PAPER_GAMMA, f"γ = {PAPER_GAMMA:g}", fontsize=8)
    ax.set(xlabel="Δf [1/T]", ylabel="D = ‖μ₁ − μ₂‖² / σ²", ylim=(1, None))
    ax.set_xticks(x, [f"{one:g}" for one in x], rotation=60)
    ax.minorticks_off()
    ax.set_ylim(top=20 * ax.get_ylim()[1])  # room for the legend
    ax.legend(loc="upper left", ncols=2)
    ax.set_title("What the definition measures")


def _rounds(settings: Settings) -> int:
    return 1 if settings.quick else 25


DISTINGUISHABLE = Study(
    name="distinguishable",
    title="Distinguishable components and slots",
    section="4.4",
    claim="If all components are pairwise γ-distinguishable with γ > 2, each slot is expected to take a component of "
    "its own; for sinusoids this asks for |Δf| > C_f/T.",
    caption="Left and middle: two tones at the distance Δf, in the same noise at all distances; K = 2 is given for the "
    "slots, not for the counts; bars: one standard error. Right: the squared distance of the two tones in units of the "
    "noise.",
    code=(
        "studies/theory/distinguishable",
        "studies/theory/distinguishability",
        "studies/suites/signals",
    ),
    rounds=_rounds,
    signals=lambda settings: len(SETS) * len(_distances(settings)),
    measure=_measure,
    gather=_gather,
    compare=_compare,
    plot=_plot,
    networks=tuple(SETS),
)
