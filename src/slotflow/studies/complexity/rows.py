"""The table of the study: loss and least training set of each K, how the latter grows, and what B.3 says of it.

The paper's statements are judged for `paper`, and in the same words for `zoom`. The score −ln q(A, φ, f | x) is shown
without a verdict: the paper has none.
"""

from __future__ import annotations

from dataclasses import replace

from slotflow.studies.ablations.rows import claim
from slotflow.studies.complexity.curves import Curves, curves_of
from slotflow.studies.complexity.least import Least, growth
from slotflow.studies.frame.study import Data
from slotflow.studies.row import Row, Target
from slotflow.studies.theory.minimum_samples import (
    PAPER_COUNTS,
    PAPER_SAMPLES,
    Trend,
    power_curve,
)
from slotflow.studies.theory.regimes import critical
from slotflow.studies.theory.sample_complexity import Network, terms

__all__ = ["compare"]

PAPER_LOSSES = {1: "−5.0", 4: "−7.5", 10: "−1.5"}
"""The paper's losses at N = 10⁴; of K = 4 it also says that it lies in [−2.5, −1.5]."""
PAPER_GAPS = {1000: "4.2", 10_000: "3.5"}
"""Its loss at K = 10 less that at K = 1, by N."""
ANCHOR, PLATEAU = 2, 4
"""K through which the K³ curve is drawn, and from which on the paper finds the same N."""
SAME = 2.0
"""Factor up to which two least N count as the same."""
ORDER_OF_MAGNITUDE = 10.0
SIGNIFICANT = 0.05


def compare(data: Data) -> list[Row]:
    """All rows."""
    rows = []
    for curves in curves_of(data):
        rows += [*_loss_rows(curves), *_least_rows(curves)]
        if curves.is_loss:
            rows += _curve_claims(curves)
        rows += _growth_rows(curves)
    return rows


def _is_papers(curves: Curves) -> bool:
    """Whether the paper's numbers belong beside these."""
    return curves.is_loss and curves.learner.preset == "paper"


def _loss_rows(curves: Curves) -> list[Row]:
    """What the largest training set reaches at each K."""
    rows = []
    for k, curve in curves.by_count.items():
        n = curve.sizes[-1]
        printed = PAPER_LOSSES.get(k, "") if _is_papers(curves) and n == max(PAPER_SAMPLES) else ""
        kind = "loss" if curves.is_loss else "−ln q(A, φ, f given x)"
        start = f"{curve.loss[0]:.2f} at N = {curve.sizes[0]:,}"
        rows.append(
            Row(f"{curves.name}: {kind} at N = {n:,}, K = {k}", curve.loss[-1], printed,
                error=curve.errors[-1], form=".2f", note=start)
        )  # fmt: skip
    return rows


def _least_rows(curves: Curves) -> list[Row]:
    """The least training set of each K that has one, and how many have."""
    rows, target = [], curves.target
    found = curves.least()
    for k, one in found.items():
        if one.size is None or one.on_grid is None:
            continue
        printed = f"{PAPER_SAMPLES[PAPER_COUNTS.index(k)]:,}" if k in PAPER_COUNTS else ""
        on_grid = f"first N that was tried: {one.on_grid:,.0f}"
        rows.append(
            Row(f"{curves.name}: least N for {_reached(curves)}, K = {k}", one.size,
                printed if _is_papers(curves) else "", form=",.0f",
                error=curves.by_count[k].least_error(target),
                note="at most; no smaller set was tried" if one.at_most else on_grid)
        )  # fmt: skip
    count = sum(one.size is not None for one in found.values())
    measure = f"{curves.name}: numbers of tones K that reach {_reached(curves)}"
    others = [
        f"{sum(curve.least(line).size is not None for curve in curves.by_count.values())} reach {line:g}"
        for line in curves.learner.lines
    ]
    note = f"of {len(found)}; " + ", ".join(others)
    if not curves.is_loss:
        return [*rows, Row(measure, count, form=".0f", note=f"of {len(found)}")]
    target_count = Target(low=len(found), words="all")
    return [*rows, Row(measure, count, "all", form=".0f", note=note, target=target_count,
                       met=target_count.met(count))]  # fmt: skip


def _reached(curves: Curves) -> str:
    kind = "a loss" if curves.is_loss else "−ln q"
    return f"{kind} ≤ {curves.target:g}"


def _curve_claims(curves: Curves) -> list[Row]:
    """Losses fall with N, rise with K, and lie closer together for large N."""
    name, by_count = curves.name, curves.by_count
    rises = sum(curve.rises() for curve in by_count.values())
    steps = sum(len(curve.sizes) - 1 for curve in by_count.values())
    rows = [
        claim(f"{name}: steps to the next N at which the loss rises", rises, "0", Target(high=0, words="monotone"),
              f"of {steps}, beyond two standard errors"),
    ]  # fmt: skip
    low, high = min(by_count), max(by_count)
    gaps = {}
    for n, printed in PAPER_GAPS.items():
        if low < high and all(n in by_count[k].sizes for k in (low, high)):
            below, above = (by_count[k].loss[by_count[k].sizes.index(n)] for k in (low, high))
            gaps[n] = above - below
            measure = f"{name}: loss at K = {high} less that at K = {low}, N = {n:,}"
            beside = printed if _is_papers(curves) else ""
            rows.append(claim(measure, gaps[n], beside, Target(low=0, strict=True)))
    if len(gaps) == len(PAPER_GAPS) and gaps[min(gaps)] > 0:
        value = gaps[max(gaps)] / gaps[min(gaps)]
        measure = f"{name}: the same, N = {max(gaps):,} over N = {min(gaps):,}"
        beside = "0.83" if _is_papers(curves) else ""
        rows.append(claim(measure, value, beside, Target(high=1, strict=True)))
    return rows


def _growth_rows(curves: Curves) -> list[Row]:
    """How the least N grows with K: figure 19, and the regimes of table 4."""
    found = curves.least()
    trend = growth(found)
    if trend is None:
        return []
    name, papers = curves.name, _is_papers(curves)
    bounds = sum(one.at_most for one in found.values())
    missing = sum(one.size is None for one in found.values())
    words = [f"{missing} K without a value"] * bool(missing) + [f"{bounds} upper bounds"] * bool(
        bounds
    )
    note = ", ".join(words)
    exponent_note = "; ".join([f"{trend.exponent_of_ends:.2f} between the ends", *words])
    rows = [
        _judged(curves, Row(f"{name}: Spearman's ρ of N and K", trend.rank_correlation, "0.83" if papers else "",
                            form=".2f", note=note), Target(low=0, strict=True)),
        _significance_row(curves, trend, words),
        Row(f"{name}: slope of N against K", trend.slope, "964" if papers else "", form=",.0f"),
        _judged(curves, Row(f"{name}: exponent of N in K", trend.exponent, "0.35" if papers else "", form=".2f",
                            note=exponent_note), Target(high=1, strict=True, words="sub-linear"), not words),
    ]  # fmt: skip
    return rows + _ratio_rows(curves, found)


def _significance_row(curves: Curves, trend: Trend, words: list[str]) -> Row:
    """The p of the rank correlation, for either sign; that of a fall cannot support a growth."""
    falls = trend.rank_correlation <= 0
    note = ", ".join(["of a fall"] * falls + words)
    printed = "0.04" if _is_papers(curves) else ""
    row = Row(f"{curves.name}: its p", trend.p_value, printed, form=".2g", note=note)
    row = _judged(curves, row, Target(high=SIGNIFICANT))
    return replace(row, met=False) if falls and curves.is_loss else row


def _ratio_rows(curves: Curves, found: dict[int, Least]) -> list[Row]:
    """Least N at the largest K beside the K³ curve, K = 4, from where on it is to be flat, and the smallest K."""
    name, papers = curves.name, _is_papers(curves)
    sizes = {k: one.size for k, one in found.items() if one.size is not None}
    low, high = min(found), max(found)
    rows = []
    if high in sizes and ANCHOR in sizes and high > ANCHOR:
        cubic = power_curve(high, ANCHOR, sizes[ANCHOR])
        row = Row(f"{name}: K³ curve through K = {ANCHOR} over the least N, K = {high}", cubic / sizes[high],
                  "25" if papers else "", note=f"the curve is at {cubic:,.0f}")  # fmt: skip
        target = Target(low=ORDER_OF_MAGNITUDE)
        rows.append(_judged(curves, row, target, not found[ANCHOR].at_most))
    if high in sizes and PLATEAU in sizes and high > PLATEAU:
        row = Row(f"{name}: least N at K = {high} over K = {PLATEAU}", sizes[high] / sizes[PLATEAU],
                  "1" if papers else "")  # fmt: skip
        target = Target(low=1 / SAME, high=SAME, words="the same")
        rows.append(_judged(curves, row, target, not found[PLATEAU].at_most))
    if high in sizes and low in sizes and high > low:
        network = Network(curves.facts["layers"], curves.facts["width"])
        theorem = terms(high, network).total / terms(low, network).total
        note = (
            f"theorem 4.2 for this flow: {theorem:.0f}; K³ alone: {(high / low) ** 3:.0f}; "
            f"K_crit = {critical(network.layers, network.width):.1e}"
        )
        row = Row(f"{name}: least N at K = {high} over K = {low}", sizes[high] / sizes[low],
                  "5" if papers else "", note=note)  # fmt: skip
        target = Target(high=high / low, strict=True, words="sub-linear")
        rows.append(_judged(curves, row, target, not found[low].at_most))
    return rows


def _judged(curves: Curves, row: Row, target: Target, sure: bool = True) -> Row:
    """The row with its verdict, where it is about the loss.

    Args:
        curves: Whose row it is.
        row: The row.
        target: Where its value lies if the paper is right.
        sure: Whether all N behind it are known. An upper bound at a small K, or no value at a large one, can make
            growth look weaker than it is, so that such a claim stays open and is not held.
    """
    if not curves.is_loss:
        return row
    met = target.met(row.value)
    return replace(row, target=target, met=met if sure or not met else None)
