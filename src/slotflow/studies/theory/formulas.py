"""Study `formulas`: the paper's worked numbers beside what its own formulas give (section 4, appendices A and B.3).

Nothing is random here. Each number that the paper prints has a target as wide as its printed digits, or a factor of two
where it prints a power of ten; the formulas, and why they give something else, are in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.studies.frame.study import Data, Setup, Study
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.sets import GRIDS, NOMINAL
from slotflow.studies.theory.depth import (
    Budget,
    best_depth,
    depth_of_the_paper,
    samples_bought,
    total_error,
)
from slotflow.studies.theory.distinguishability import PAPER_GAMMA, closest, expected_square
from slotflow.studies.theory.minimum_samples import (
    PAPER_COUNTS,
    PAPER_SAMPLES,
    power_curve,
    trend,
)
from slotflow.studies.theory.phase_weight import best_weight, mean_square
from slotflow.studies.theory.regimes import critical, crossover
from slotflow.studies.theory.sample_complexity import Network, samples_needed, terms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FORMULAS"]

NETWORK = Network()
"""The architecture of the paper's section 4."""
K_MAX = NOMINAL.k_max
EPSILON = 0.01
"""The divergence of A.7's example."""
BUDGET = Budget()
ALPHA, C_LAYERS = 0.2, 100.0
"""α and C_0 of the remark in A.6."""
COARSE = 1.0
"""The ε with which the remark's first term is the printed 23."""
SNRS = (1.0, 10.0)
"""Where proposition 4.2 is evaluated."""


def _measure(setup: Setup, number: int) -> Data:
    """All numbers; nothing depends on settings."""
    layers, width = NETWORK.layers, NETWORK.width
    needed = [samples_needed(EPSILON, k, NETWORK) for k in (1, K_MAX)]
    approximation, remark = depth_of_the_paper(BUDGET, ALPHA, C_LAYERS, COARSE, power=1 / 2)
    proof = depth_of_the_paper(BUDGET, ALPHA, C_LAYERS, COARSE)[1]
    proposition = depth_of_the_paper(BUDGET, ALPHA, C_LAYERS, COARSE, in_proof=False)[1]
    amplitude, frequency = mean_square(*NOMINAL.amplitude), mean_square(*NOMINAL.frequency)
    squares = {"⟨A²f²⟩ of the data": amplitude * frequency, "unit scale": 1.0, "⟨A²⟩": amplitude}
    long, short = GRIDS
    return {
        "critical": critical(layers, width),
        "critical_base_two": critical(layers, width, 2),
        "crossover": crossover(layers, width),
        "needed_one": needed[0],
        "needed_ten": needed[1],
        "depth": {
            "approximation": approximation,
            "remark": remark,
            "proof": proof,
            "proposition": proposition,
            "least_error": best_depth(BUDGET, ALPHA, C_LAYERS),
            "samples": samples_bought(BUDGET, layers),
        },
        "trend": asdict(trend(PAPER_COUNTS, PAPER_SAMPLES)),
        "cubic": power_curve(PAPER_COUNTS[-1], PAPER_COUNTS[1], PAPER_SAMPLES[1]),
        "weights": {n: [best_weight(s, snr) for snr in SNRS] for n, s in squares.items()},
        "squares": squares,
        "same_signal": expected_square(0.0, long.n + short.n),
        "closest": closest(1.0, sum(NOMINAL.sigma) / 2, long.n),
    }


def _printed(
    measure: str,
    value: float,
    paper: float,
    half: float,
    where: str,
    *,
    form: str = ".3g",
    note: str = "",
) -> Row:
    """A row that asks whether a formula gives the printed number, which is known to ± half its last digit."""
    target = Target(low=paper - half, high=paper + half, words="as printed")
    return Row(
        measure,
        value,
        f"{paper:{form}}",
        form=form,
        note=f"{where}; {note}" if note else where,
        target=target,
        met=target.met(value),
    )


def _order(measure: str, value: float, paper: float, where: str, note: str) -> Row:
    """The same for a printed order of magnitude, which holds to a factor of two."""
    target = Target(low=paper / 2, high=2 * paper, words="as printed")
    return Row(
        measure,
        value,
        f"~ {paper:.0e}",
        note=f"{where}; {note}",
        target=target,
        met=target.met(value),
    )


def _compare(data: Data) -> list[Row]:
    """Each printed number beside its formula."""
    return [*_bound_rows(data), *_depth_rows(data["depth"]), *_data_rows(data), *_weight_rows(data)]


def _bound_rows(data: Data) -> list[Row]:
    """Theorem 4.2 and its regimes."""
    growth = data["needed_ten"] / data["needed_one"]
    return [
        _printed("K_crit = L² d_h² ln d_h", data["critical"], 1.5e8, 0.05e8, "4.3, B.3",
                 note=f"{data['critical_base_two']:.2e} with a logarithm to base 2"),
        _order("K_crit, as in A.7", data["critical"], 1e8, "A.7", "natural logarithm"),
        Row("K where the terms of theorem 4.2 are equal", data["crossover"], "100–500",
            note="B.3; K_crit without the approximation ln K ≈ 1",
            target=Target(low=100, high=500, words="100–500"),
            met=100 <= data["crossover"] <= 500),
        _order(f"theorem 4.2: N for ε = {EPSILON:g}, K_max = {K_MAX}", data["needed_ten"], 1e10,
               "A.7", "C_ρ = 1, no noise"),
        Row("theorem 4.2: growth of N from K_max = 1 to 10", growth, "K-independent", form=".0f",
            note="4.3, A.7; both leading terms carry K²",
            target=Target(high=2, words="K-independent"), met=growth <= 2),
    ]  # fmt: skip


def _depth_rows(depth: Data) -> list[Row]:
    """Proposition 4.3."""
    return [
        _printed("L*: ln(C_0/ε)/α", depth["approximation"], 23, 0.5, "A.6",
                 note="needs ε = 1 with C_0 = 100, α = 0.2"),
        _printed("L*: √(𝓑/(d_h³ K T)), the remark's", depth["remark"], 6, 0.5, "A.6", form=".2f"),
        Row("L*: (𝓑/(d_h³ K T))^⅓, the proof's", depth["proof"], form=".2f", note="A.6"),
        Row("L*: (𝓑/(d_h² K))^⅓, the proposition's", depth["proposition"], form=".1f", note="4.2"),
        Row("L of the least E(L), C_2 = 1", depth["least_error"], form=".1f",
            note="A.6, minimized instead of balanced by orders of magnitude; C_2 is not given"),
        _order("signals that 10¹² operations buy at L = 8", depth["samples"], 1e6, "4.2",
               "by the cost model of A.6"),
    ]  # fmt: skip


def _data_rows(data: Data) -> list[Row]:
    """Appendix B.3 and definition 4.1."""
    found = data["trend"]
    same = Target(high=PAPER_GAMMA, words=f"≤ {PAPER_GAMMA:g}")
    return [
        _printed("Spearman's ρ of N and K", found["rank_correlation"], 0.83, 0.005, "B.3"),
        _printed("its p", found["p_value"], 0.04, 0.005, "B.3", form=".2g"),
        _printed("slope of N against K", found["slope"], 964, 0.5, "B.3", form=".0f"),
        _printed("K³ curve through K = 2, at K = 10", data["cubic"], 250_000, 500, "B.3",
                 form=",.0f"),
        _printed("exponent of N in K", found["exponent"], 0.35, 0.005, "B.3", form=".2f",
                 note=f"{found['exponent_of_ends']:.2f} between the ends"),
        Row("definition 4.1: E‖x − μ‖²/σ² of a signal from itself", data["same_signal"],
            form=",.0f", note="the paper calls what exceeds γ = 2 distinguishable", target=same,
            met=same.met(data["same_signal"])),
        Row("Δf at which ‖μ − μ'‖² exceeds 2σ² [1/T]", data["closest"], "1", form=".3f",
            note="A = 1, mean σ, long stream; the paper asks for Δf > C_f/T as well"),
    ]  # fmt: skip


def _weight_rows(data: Data) -> list[Row]:
    """Proposition 4.2, with all constants 1."""
    return [
        Row(f"w_φ* at SNR {snr:g}, {name}", weights[i], "1–2", form=".2f",
            note="4.2; constants are not given and are 1 here")
        for name, weights in data["weights"].items()
        for i, snr in enumerate(SNRS)
    ]  # fmt: skip


# ---------------------------------------------------------------------- picture


def _plot(data: Data) -> Figure:
    """The terms of theorem 4.2, the error against depth, and the best weight."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(12, 4), layout="constrained")
        bound, depth, weight = figure.subplots(1, 3)
        _draw_terms(bound, data)
        _draw_depth(depth, data["depth"])
        _draw_weight(weight, data["squares"])
    return figure


def _draw_terms(ax: Axes, data: Data) -> None:
    """Two terms of the bound against K."""
    k = np.unique(np.logspace(0.31, 9.5, 200).astype(int))
    both = [terms(int(one), NETWORK) for one in k]
    ax.loglog(k, [t.architectural for t in both], color=COLOURS[0], label="K² L² d_h² ln d_h")
    ax.loglog(k, [t.combinatorial for t in both], color=COLOURS[1], label="K³ ln K")
    ax.axvspan(100, 500, color=GREY, alpha=0.25, lw=0, label="transition by B.3")
    ax.axvline(data["crossover"], color=GREY, ls="--", lw=1, label="terms equal")
    ax.axvline(data["critical"], color=GREY, ls=":", lw=1.2, label="K_crit")
    ax.set(xlabel="K", ylabel="term of theorem 4.2")
    ax.legend(loc="upper left")
    ax.set_title("Theorem 4.2, L = 8, d_h = 512")


def _draw_depth(ax: Axes, depth: Data) -> None:
    """E(L) with its minimum and the depths that the paper names."""
    layers = np.linspace(1, 30, 300)
    for i, estimation in enumerate((0.3, 1.0, 3.0)):
        error = [total_error(x, BUDGET, ALPHA, C_LAYERS, estimation) for x in layers]
        best = best_depth(BUDGET, ALPHA, C_LAYERS, estimation)
        ax.plot(layers, error, color=COLOURS[i], label=f"C₂ = {estimation:g}")
        least = total_error(best, BUDGET, ALPHA, C_LAYERS, estimation)
        ax.plot(best, least, "o", ms=5, color=COLOURS[i])
    for place, words in ((depth["remark"], "by A.6's root"), (6, "printed"), (8, "chosen")):
        ax.axvline(place, color=GREY, lw=0.9, ls=":")
        ax.text(place + 0.3, 118, words, rotation=90, va="top", fontsize=8, color=GREY)
    ax.set(xlabel="depth L", ylabel="E(L), dots: least", ylim=(0, 120), xlim=(0, 30))
    ax.legend(loc="upper center")
    ax.set_title("Proposition 4.3, 10¹² operations")


def _draw_weight(ax: Axes, squares: Data) -> None:
    """w* against the signal-to-noise ratio."""
    snr = np.logspace(-1, 3, 100)
    for i, (name, square) in enumerate(squares.items()):
        weights = [best_weight(square, x) for x in snr]
        ax.loglog(snr, weights, color=COLOURS[i], ls=("-", "--", ":")[i], label=name)
    low, high = SNRS
    box_x, box_y = (low, high, high, low), (1, 1, 2, 2)
    ax.fill(box_x, box_y, color=GREY, alpha=0.25, lw=0, label="the paper's prediction")
    ax.axhline(2, color=GREY, lw=0.9, ls=":")
    ax.set(xlabel="SNR (power)", ylabel="w_φ*, all constants 1")
    ticks = (0.2, 0.5, 1, 2, 4)
    ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
    ax.minorticks_off()
    ax.legend(loc="lower left")
    ax.set_title("Proposition 4.2")


def _gather(rounds: Sequence[Data]) -> Data:
    """The one round."""
    return rounds[0]


FORMULAS = Study(
    name="formulas",
    title="The formulas and the paper's worked numbers",
    section="4, A, B.3",
    claim="Section 4 and appendix A give closed formulas for the training set, the depth and the phase weight, and "
    "work them out for L = 8, d_h = 512 and K ≤ 10.",
    caption="Left: the terms of theorem 4.2, and where they are equal, where the formula of K_crit has them equal, and "
    "where B.3 expects it. Middle: the error that A.6 minimizes, for three values of a constant that the paper leaves "
    "open. Right: the phase weight with all open constants 1.",
    code=("studies/theory",),
    rounds=lambda settings: 1,
    signals=lambda settings: 0,
    measure=_measure,
    gather=_gather,
    compare=_compare,
    plot=_plot,
)
