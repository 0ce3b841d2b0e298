"""Study `elbo`: whether the bound lies below the exact evidence, and what it lacks (paper, proposition 4.1).

Each round has one signal for the default network and one for the paper's parts in small (`debug`), from the prior of
each; K goes through all values in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.network.model import DEFAULT, SlotFlow
from slotflow.show.plots.style import COLOURS, GREY, style
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import simulate
from slotflow.studies.answers import exact_answer
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup, Study
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.sets import NOMINAL, suite_seed
from slotflow.studies.theory.elbo.bound import (
    Evidence,
    independence,
    lower_bound,
    matched_loss,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ELBO"]

SETS = {DEFAULT: 88, "debug": 89}
"""Numbers of the test sets, by network."""
DRAWS, QUICK_DRAWS = 500, 60
"""Draws of q for each K."""
STRAY = 4.0
"""Standard errors by which a bound may exceed the evidence by chance, or two estimates of it may differ."""
TERMS = {
    "reconstruction": ("reconstruction", "E_q ln p(x given Θ, K); it follows the noise level"),
    "parameters": ("KL in Θ", "E_q(K) KL(q(Θ given x, K) ‖ p(Θ given K))"),
    "order": ("KL in K", "KL(q(K given x) ‖ p(K))"),
}
"""The three terms of proposition 4.1: what tables call them, and what they are."""
SMALLEST_DRAWN = 1e-4
"""Where the picture shows a gap that is smaller, or negative by its Monte-Carlo error."""
ENOUGH = 50.0
"""Effective draws from which an importance estimate has an error that can be believed."""


def _measure(setup: Setup, number: int) -> Data:
    """One signal for each network."""
    return {name: _signal(setup, name, number) for name in SETS}


def _signal(setup: Setup, name: str, number: int) -> Data:
    """The bound of one signal, from the prior that a network answers under."""
    network = setup.network(name)
    config = network.config
    prior = NOMINAL if name == DEFAULT else config.prior
    counts = range(prior.k_min, prior.k_max + 1)
    seed = suite_seed(SETS[name], number, setup.settings.seed)
    k = counts[number % len(counts)]
    sim = simulate(prior, 1, config.long, config.short, mode="physical", seed=seed, k=k)
    observation = sim.observation(0)
    exact = exact_answer(network, observation, prior, seed=number)
    draws = QUICK_DRAWS if setup.settings.quick else DRAWS
    evidence = _evidences(network, observation, prior, exact.log_evidence)
    bound = lower_bound(exact.amortized, exact, evidence, draws, number)
    lost = independence(exact)
    return asdict(bound) | {
        "k": k,
        "value": bound.value,
        "gap": bound.gap,
        "independence": lost if np.isfinite(lost) else None,
        "flow_loss": matched_loss(exact.amortized, sim.components(0)),
    }


def _evidences(network: SlotFlow, observation: Observation, prior: Prior, known: Array) -> Evidence:
    """Ln Z_K of any K: as the exact step found it, or asked for alone where it was excluded by a bound."""

    def evidence(k: int) -> tuple[float, float]:
        value, error = known[k]
        if not np.isfinite(error):
            alone = replace(prior, k_min=k, k_max=k, k_probs=None)
            value, error = exact_answer(network, observation, alone, seed=k).log_evidence[k]
        return float(value), float(error)

    return evidence


def _gather(rounds: Sequence[Data]) -> Data:
    """Signals by network."""
    return {name: [one[name] for one in rounds] for name in SETS}


# ---------------------------------------------------------------------- table


def _compare(data: Data) -> list[Row]:
    """The bound, its terms and its gap for each network."""
    return [row for name, signals in data.items() for row in _rows(name, signals)]


def _rows(name: str, signals: Sequence[Data]) -> list[Row]:
    """What is said of one network."""
    above = sum(one["gap"] < -STRAY * one["error"] for one in signals)
    none = Target(high=0, words="0")
    gaps = np.array([one["gap"] for one in signals])
    over_k = sum(one["gap_over_k"] for one in signals)
    rows = [
        Row(f"{name}: signals with ELBO > ln p(x) + {STRAY:g} standard errors", above, "0",
            form=".0f", note=f"of {len(signals)}", target=none, met=above == 0),
        _agreement(name, signals),
        *(
            Row(f"{name}: {words}, mean [nat]", _mean(signals, key), form=",.1f", note=note)
            for key, (words, note) in TERMS.items()
        ),
        Row(f"{name}: gap ln p(x) − ELBO, median [nat]", float(np.median(gaps)), form=".3g",
            note=f"{gaps.min():.2g} to {gaps.max():.3g}"),
        *_gap_rows(name, signals),
        Row(f"{name}: share of the gap that is in K", over_k / gaps.sum(), form=".2%",
            note="KL(q(K given x) ‖ p(K given x)); the rest is in Θ given K"),
        Row(f"{name}: mass of q outside the prior's support", _mean(signals, "outside"), form=".1%",
            note="as it is, q has the bound −∞; it was restricted to the support"),
    ]  # fmt: skip
    shares = [one["independence"] for one in signals]
    if all(share is not None for share in shares):
        lost = float(sum(shares)) / gaps.sum()
        rows.append(
            Row(f"{name}: share of the gap that independent slots cost", lost, form=".1%",
                note="divergence of the product of the exact marginals, Gaussian")
        )  # fmt: skip
    return [*rows, _surrogate(name, signals)]


def _gap_rows(name: str, signals: Sequence[Data]) -> list[Row]:
    """The gap at the smallest and the largest K."""
    counts = sorted({one["k"] for one in signals})
    rows = []
    for k in (counts[0], counts[-1]):
        gaps = np.array([one["gap"] for one in signals if one["k"] == k])
        spread = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else None
        rows.append(
            Row(f"{name}: gap at K = {k}, mean [nat]", float(gaps.mean()), error=spread,
                form=".3g", note=f"{len(gaps)} signals")
        )  # fmt: skip
    return rows


def _agreement(name: str, signals: Sequence[Data]) -> Row:
    """Importance sampling from q beside the exact evidence, where it has enough effective draws."""
    strays = [
        abs(order["log_importance"] - order["log_evidence"])
        / math.hypot(order["importance_error"], order["log_evidence_error"])
        for one in signals
        for order in one["orders"]
        if order["ess"] >= ENOUGH
    ]
    if not strays:
        return Row(f"{name}: evidence by importance sampling from q", 0, form=".0f",
                   note=f"no K of any signal has {ENOUGH:.0f} effective draws")  # fmt: skip
    # the largest of many normal deviates
    limit = STRAY + 0.5 * math.log10(len(strays))
    return Row(f"{name}: |ln Z_K from q's draws − exact| / error, largest", max(strays), form=".1f",
               note=f"{len(strays)} K of {len(signals)} signals with {ENOUGH:.0f} effective draws",
               target=Target(high=limit, words=f"≤ {limit:.1f}"), met=max(strays) <= limit)  # fmt: skip


def _surrogate(name: str, signals: Sequence[Data]) -> Row:
    """Whether the flow loss stands in for the reconstruction term, as the paper says."""
    loss = [-one["flow_loss"] for one in signals]
    found = [
        float(spearmanr(loss, [one[key] for one in signals]).statistic)
        for key in ("reconstruction", "value")
    ]
    gap = float(spearmanr(loss, [-one["gap"] for one in signals]).statistic)
    return Row(f"{name}: rank correlation of −flow loss and reconstruction", found[0],
               "a surrogate", form="+.2f",
               note=f"with the bound {found[1]:+.2f}, with −gap {gap:+.2f}, over signals")  # fmt: skip


def _mean(signals: Sequence[Data], key: str) -> float:
    """Mean of a number over signals."""
    return float(np.mean([one[key] for one in signals]))


# ---------------------------------------------------------------------- picture


def _plot(data: Data) -> Figure:
    """Gap by K with what independent slots cost, and the three terms of the bound."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(12, 4.2), layout="constrained")
        axes = figure.subplots(1, 3)
        for ax, (name, signals) in zip(axes, data.items(), strict=False):
            _draw_gap(ax, name, signals)
        _draw_importance(axes[2], data)
    return figure


def _draw_gap(ax: Axes, name: str, signals: Sequence[Data]) -> None:
    """The gap of each signal, and the part that independent slots cannot avoid."""
    k = np.array([one["k"] for one in signals], dtype=float)
    ax.semilogy(k - 0.12, [max(one["gap"], SMALLEST_DRAWN) for one in signals], "o", ms=4, alpha=0.7,
                color=COLOURS[0], label="gap ln p(x) − ELBO")  # fmt: skip
    lost = [one["independence"] for one in signals]
    if all(value is not None for value in lost):
        # one tone has no other to be independent of
        shown = [(x, v) for x, v in zip(k, lost, strict=True) if v > 1e-6]
        ax.semilogy([x + 0.12 for x, _ in shown], [v for _, v in shown], "x", ms=4,
                    color=COLOURS[1], label="cost of independent slots")  # fmt: skip
    ax.set(xlabel="K", ylabel="nat", xticks=sorted(set(k)))
    ax.legend(loc="best")
    ax.set_title(f"Network {name}, {len(signals)} signals")


def _draw_importance(ax: Axes, data: Data) -> None:
    """ELBO and importance estimate relative to the exact evidence, against the effective draws."""
    for i, (name, signals) in enumerate(data.items()):
        orders = [order for one in signals for order in one["orders"]]
        ess = [order["ess"] for order in orders]
        off = [order["log_importance"] - order["log_evidence"] for order in orders]
        ax.plot(ess, off, "o^"[i], ms=4, alpha=0.7, color=COLOURS[i], label=name)
    ax.axhline(0, color=GREY, lw=0.9)
    ax.axvline(ENOUGH, color=GREY, lw=0.9, ls=":")
    ax.set(
        xscale="log", xlabel="effective draws of q", ylabel="ln Z_K from q's draws − exact [nat]"
    )
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_ylim(top=10)
    ax.legend(loc="upper left")
    ax.set_title("Evidence by importance sampling from q")


def _rounds(settings: Settings) -> int:
    return 3 if settings.quick else 60


ELBO = Study(
    name="elbo",
    title="The evidence lower bound",
    section="4.1, A.2",
    claim="ELBO = reconstruction − KL in Θ − KL in K is a lower bound of ln p(x), and the Hungarian-matched flow loss "
    "is a surrogate of its reconstruction term.",
    caption="Left and middle: what the bound of each network lacks, signal by signal, and what slots that are "
    "independent of each other lack if their marginals are right (gaps below 10⁻⁴ are drawn there). Right: the "
    "evidence from the network's own draws by importance sampling; dotted, where there are enough effective draws to "
    "compare.",
    code=("studies/theory/elbo",),
    rounds=_rounds,
    signals=lambda settings: len(SETS),
    measure=_measure,
    gather=_gather,
    compare=_compare,
    plot=_plot,
    networks=tuple(SETS),
)
