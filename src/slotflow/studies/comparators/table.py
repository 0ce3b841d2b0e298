"""Rows of the leaderboard: what was measured of every method, then the paper's marks beside what they amount to here.

A mark is judged where it can be. Set Flow and MONet have no count of their own and are given one here, so that the
paper's "No" to trans-dimensional inference is not about the methods of this table and is not judged.
"""

from __future__ import annotations

from slotflow.studies.ablations.rows import claim
from slotflow.studies.frame.study import Data
from slotflow.studies.row import Row, Target

__all__ = ["DENSITIES", "REFERENCES", "TITLES", "compare"]

TITLES = {
    "paper": "SlotFlow (paper)",
    "saturated": "CoSMIC-like",
    "equivariant": "Set-Flow-like",
    "sequential": "MONet-like",
    "presences": "NPE, fixed K_max",
    "zoom": "zoom, released",
    "exact": "exact step",
}
"""The methods as tables and pictures call them."""
DENSITIES = {
    "paper": "permanent over slots, radius integrated out",
    "saturated": "sum over orders of sorted components",
    "equivariant": "K! times the symmetric density",
    "sequential": "sum over all assignments to present slots",
    "presences": "sum over orders, absent slots by importance sampling: a lower bound on average",
    "zoom": "permanent over slots",
    "exact": "K! times the joint density, by its evidence",
}
"""How each method's density of a set comes about."""
REFERENCES = ("zoom", "exact")
"""What is not trained here."""
SAME_WITHIN = 1e-6
"""Change of ln q in nats that counts as none, in float64."""
CORRELATED = 0.1
"""Correlation above which components count as dependent; independent ones show about half of it."""
EXPONENTS = {"O(K)": Target(low=0.7, high=1.3), "O(K_max)": Target(high=0.3)}
"""Exponents of K in the number of operations that a mark asks for."""


def compare(data: Data) -> list[Row]:
    """The leaderboard, then the properties."""
    rows = [row for name, found in data.items() for row in _scores(name, found)]
    for part in (_trans_dimensional, _equivariant, _dependent, _scalable):
        rows += [row for name, found in data.items() for row in part(name, found)]
    return rows


def _scores(name: str, found: Data) -> list[Row]:
    """What a method reaches."""
    title = TITLES[name]
    plural = "s" if found["seeds"] > 1 else ""
    seeds = f"{found['seeds']} seed{plural}"
    sets = f"not trained here; {found['seeds']} set{plural} of fresh signals"
    skipped = f", {found['skipped']} steps left out" if found["skipped"] else ""
    trained = f"{seeds}, trained in {found['seconds']:.0f} s each{skipped}"
    level, parameter, sign = max(found["coverage_at"], key=lambda one: abs(one[2]))
    prior = found["log_prior"][0]

    def row(what: str, key: str, form: str, note: str = "", factor: float = 1.0) -> Row:
        value, error = found[key]
        error = None if error is None else factor * error
        return Row(f"{title}: {what}", factor * value, error=error, form=form, note=note)

    return [
        row("exact-K", "exact_k", ".1%", sets if name in REFERENCES else trained),
        row("catalogue F1", "f1", ".3f", f"f within {1e3 * found['tolerance']:g} mHz, at the most probable K"),
        row("median error of f [mHz]", "f_error", ".3g", "of the medians of draws at the true K", 1e3),
        row("ECE of K", "ece", ".3f", f"a perfect q(K given x): 95 % below {found['ece_perfect']:.3f}"),
        row("largest |coverage − α|", "coverage", ".3f",
            f"{parameter} at α = {level:g}, {sign:+.3f}; perfect: 95 % below {found['coverage_perfect']:.3f}"),
        row("ln q(Θ, K given x) at the truth [nat]", "log_q", ".2f", f"the prior has {prior:.2f}; {DENSITIES[name]}"),
        row("draws per second", "draws_per_second", ",.0f", "of whole sets, encoder included"),
        Row(f"{title}: parameters [10⁶]", found["parameters"] / 1e6, form=".2f"),
    ]  # fmt: skip


def _trans_dimensional(name: str, found: Data) -> list[Row]:
    """Whether q(K | x) knows more than p(K)."""
    mark = {"paper": "Yes", "saturated": "Yes", "equivariant": "No†", "sequential": "No"}.get(name)
    measure = f"Trans-dimensional, {TITLES[name]}: mean of ln q(K given x) − ln p(K) [nat]"
    value = found["log_count"][0]
    if mark == "Yes":
        return [claim(measure, value, mark, Target(low=0, strict=True))]
    note = {
        "equivariant": "with a classifier of K, which Set Flow does not have",
        "sequential": "from presences, which MONet does not have",
    }.get(name, "")
    return [Row(measure, value, mark or "", found["log_count"][1], note=note)]


def _equivariant(name: str, found: Data) -> list[Row]:
    """Whether the labelled density depends on the labels."""
    mark = {"paper": "Yes", "saturated": "Via masking", "equivariant": "Yes", "sequential": "No"}
    change = found["label_change"]
    measure = f"Equivariant, {TITLES[name]}: largest change of ln q under permuted labels [nat]"
    note = {
        "paper": "of the bare product of its slots, as it is trained",
        "saturated": "components are sorted; masks do not make it symmetric",
        "presences": "components are sorted",
        "sequential": "of the bare product of its slots; the density of the set, which it is trained on, has no labels",
        "zoom": "of the bare product of its slots",
        "exact": "its density has no labels",
    }.get(name, "")
    note += "; cut off at 1,000" if change >= 1000 else ""
    form = ".1e" if change < 0.01 else ".3g" if change < 100 else ",.0f"
    if name not in mark:
        return [Row(measure, change, form=form, note=note)]
    same = Target(high=SAME_WITHIN, words="≤ 1e-6")
    target = Target(low=SAME_WITHIN, words="> 1e-6") if mark[name] == "No" else same
    return [Row(measure, change, mark[name], form=form, note=note, target=target, met=target.met(change))]  # fmt: skip


def _dependent(name: str, found: Data) -> list[Row]:
    """Whether the tones of a close pair are correlated in the draws."""
    mark = {"paper": "Context-shared‡", "saturated": "Coupling-based", "equivariant": "Coupling-based",
            "sequential": "Partial"}  # fmt: skip
    pairs = found["dependence"]
    value, error = pairs["largest"]
    measure = f"Dependence, {TITLES[name]}: largest correlation between the tones of a close pair"
    note = (
        f"where the exact posterior has its largest, {pairs['exact'][0]:.2f}, "
        f"the draws have {pairs['found'][0]:.2f}"
    )
    targets = {
        "paper": Target(high=CORRELATED, words=f"≤ {CORRELATED}"),
        "saturated": Target(low=CORRELATED, words=f"> {CORRELATED}"),
        "equivariant": Target(low=CORRELATED, words=f"> {CORRELATED}"),
    }
    if name == "paper":
        note += "; ‡ the paper's footnote: the posterior factorizes across slots"
    if name == "equivariant":
        note += " in the order of frequency"
    target = targets.get(name)
    met = None if target is None else target.met(value)
    return [Row(measure, value, mark.get(name, ""), error, ".2f", note, target, met)]


def _scalable(name: str, found: Data) -> list[Row]:
    """How the work grows with K."""
    marks = {
        "paper": "O(K)",
        "saturated": "O(K_max)",
        "equivariant": "O(K)",
        "sequential": "O(K_max)",
    }
    notes = {
        ("paper", "loss"): "every slot is compared with every component",
        ("saturated", "draw"): "coordinate by coordinate, each with networks for K_max components",
        ("sequential", "draw"): "the masks of all slots, which do not depend on K, are not in it",
    }
    rows = []
    for what, words in (("draw", "a draw"), ("loss", "the loss")):
        value, mark = found[f"work_{what}"], marks.get(name, "")
        if value is None:
            continue
        measure = f"Scalability, {TITLES[name]}: exponent of K in the operations of {words}"
        target = EXPONENTS.get(mark)
        met = None if target is None else target.met(value)
        note = notes.get((name, what), "")
        rows.append(Row(measure, value, mark, form=".2f", note=note, target=target, met=met))
    return rows
