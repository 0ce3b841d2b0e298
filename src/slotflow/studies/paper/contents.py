"""Every table and figure of the paper in its order, what stands beside it here, and whether what it says held.

What the paper says of a table or figure is a range for one or more rows of a result (`Claim`). It held if all of these
rows lie in their ranges, and held in part if some do. A network that is better than the paper's does not hold a claim
such as "two to three times broader".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotflow.network.model import DEFAULT
from slotflow.studies.paper.files import Record
from slotflow.studies.row import Target

__all__ = ["CONTENTS", "Claim", "Item", "contents_table", "item_verdict"]

NOT_YET = "**not yet**"
"""What stands where a counterpart is missing."""
PAPER = "paper"
"""The network of the paper's text, as the results call it."""
NETWORKS = (DEFAULT, PAPER)
DOMAIN_STUDY = "[study `domain`](studies.md#domain-representation)"


@dataclass(frozen=True)
class Claim:
    """A row of a result, and where it lies if the paper is right."""

    measure: str
    target: Target

    def held(self, rows: Mapping[str, float]) -> bool:
        """Whether the row of that measure lies there; a KeyError if there is no such row."""
        return self.target.met(rows[self.measure])


@dataclass(frozen=True)
class Item:
    """One table or figure of the paper."""

    name: str
    """Its number."""
    section: str
    what: str
    """What it shows, in a few words."""
    result: str = ""
    """The result of `slotflow reproduce` that stands beside it; empty where there is none."""
    claims: tuple[Claim, ...] = ()
    """What it says."""
    words: str = ""
    """What must be said besides, or why there is no result."""
    beside: str = ""
    """What stands beside it instead, in a word or two."""


def _near(value: float, slack: float) -> Target:
    return Target(low=value - slack, high=value + slack)


CONTENTS = (
    Item(
        "Table 1", "1.2", "properties of methods", "properties",
        (
            Claim("Equivariant, zoom: largest change of ln p under permuted labels [nat]", Target(high=1e-6)),
            Claim("Dependence, zoom: correlation between the tones of a close pair", Target(low=0.1)),
        ),
        "symmetric, but slots are not dependent; of the methods that the table compares, RJMCMC and SMC alone are here",
    ),
    Item("Figure 1", "3", "architecture", beside="–", words="nothing to measure; [line by line](paper-notes.md)"),
    Item(
        "Figure 2", "5.1.1", "separations", "dataset",
        (
            Claim("neighbours within 1.5 Δf_min", _near(0.31, 0.005)),
            Claim("neighbours within 3 Δf_min", _near(0.73, 0.005)),
            Claim("Δφ triangular on [0, π]: p of a KS test", Target(low=0.05)),
        ),
        "the printed shares do not follow from the stated prior",
    ),
    Item("Figure 3", "5.1.1", "signal-to-noise ratio", "dataset", (Claim("SNR, mode [dB]", _near(8, 1)),),
         "nor does the mode"),
    Item(
        "Figure 4", "5.1.2", "slots by frequency", "slots",
        (Claim("range of the slots' median frequencies [Hz]", Target(low=0.38)),),
        "built into `zoom`, emergent in `paper`",
    ),
    Item("Figure 5", "5.1.3", "confusion of K", "cardinality", (Claim("accuracy of K", Target(low=0.9985)),)),
    Item(
        "Figure 6", "5.1.4", "coverage", "calibration",
        (Claim("largest |coverage − α|, all sets and parameters", Target(low=-0.03, high=0.03)),),
    ),
    Item(
        "Figure 7", "5.1.5", "p(K given x) and RJMCMC", "comparison",
        (Claim("p(K ≠ 3 | x), mean, network", Target(high=0.01)),),
    ),
    Item(
        "Figure 8", "5.1.5", "corner plot and RJMCMC", "comparison",
        (Claim("sd of f, network over RJMCMC", Target(low=2, high=3)),),
        "`zoom` is as narrow as RJMCMC, not 2–3 times broader",
    ),
    Item(
        "Table 2", "5.1.5", "Wasserstein distances", "comparison",
        tuple(
            Claim(f"W₂ of {name}, network and RJMCMC [{unit}]", Target(high=value))
            for name, unit, value in (("A", "data units", 0.0069), ("φ", "rad", 0.0227), ("f", "Hz", 6e-4))
        ),
        "at most the printed distances",
    ),
    Item(
        "Figure 9", "5.1.6", "widths against K", "scaling",
        tuple(
            Claim(f"sd of {name} at K = {k} [{unit}]", Target(high=value))
            for name, unit, values in (("A", "%", (2.2, 4)), ("φ", "rad", (0.03, 0.14)), ("f", "mHz", (0.09, 0.55)))
            for k, value in zip((1, 10), values, strict=True)
        ),
        "at most the printed widths",
    ),
    Item(
        "Figure 10", "5.1.6", "two sources", "interference",
        (
            Claim("error of A, both SNR ≥ −10 dB, network, A ≥ 0.5", Target(high=0.1)),
            Claim("sources with an error of f below 10 mHz, network, A ≥ 0.5", Target(low=0.95)),
        ),
        "errors of A, but not “nearly all” frequencies",
    ),
    Item(
        "Table 3", "5.2.2", "time and memory", "cost",
        (
            Claim("network: time of 1,000 effective draws, K = 5 [s]", Target(high=0.0135)),
            Claim("RJMCMC over network: time, K = 5", Target(low=1e5)),
            Claim("network, no draw: Python's allocator peak, K = 5 [KB]", Target(high=5.15)),
        ),
        "`paper` takes part untrained",
    ),
    Item("Figure 11", "5.3.1", "domain representation, widths", beside=DOMAIN_STUDY,
         words="not held by small networks on a small task: samples of both streams give f as well, and spectra "
         "of both give phases that are no broader"),
    Item("Figure 12", "5.3.1", "domain representation, K", beside=DOMAIN_STUDY,
         words="in part, by small networks on a small task: spectra count every K, and so do samples"),
    Item("Figure 13", "5.3.2", "phase weight", beside="[study `phase_weight`](studies.md#phase-weight)",
         words="not held by small networks on a small task, one seed; with a well-posed target the least error of φ is "
         "at w_φ = 2, with the paper's it is not"),
    *(
        Item(f"Figure {number}", section, what, beside=NOT_YET,
             words=f"the [study `{study}`](studies.md#{anchor}) is there, its measurement is not")
        for number, section, what, study, anchor in (
            (14, "5.3.3", "flow depth", "depth", "flow-depth"),
        )
    ),
    Item(
        "Figure 15", "B.1", "repeated inference", "slots",
        (Claim("consistency, repeated inference", Target(low=0.995)),),
    ),
    Item(
        "Figure 16", "B.2", "t-SNE of slot contexts", "latent",
        (Claim("R² of f, all coordinates, neighbours", Target(low=0.5)),),
        "slots of `zoom` with like contexts have unlike frequencies",
    ),
    Item(
        "Figure 17", "B.2", "Isomap of one slot", "latent",
        tuple(
            Claim(f"R² of {name}, lowest slot, plane of Isomap, neighbours", Target(low=0.5)) for name in "Aφ"
        ),
        "A varies smoothly, φ is not there",
    ),
    Item("Table 4", "B.3", "regimes of sample complexity", beside=NOT_YET,
         words="its formulas are in the [study `formulas`](studies.md#the-formulas); the "
               "[study `sample_complexity`](studies.md#sample-complexity) is there, its measurement is not"),
    *(
        Item(f"Figure {number}", "B.3", what, beside=NOT_YET,
             words="the [study `sample_complexity`](studies.md#sample-complexity) is there, its measurement is not")
        for number, what in ((18, "loss against training set"), (19, "least training set"))
    ),
    Item("Figure 20", "B.4", "training curve", beside="[curve](model.md#preset-paper-beside-it)",
         words="of a training of minutes; the paper's run is not repeated, and its loss is that of another target"),
)  # fmt: skip
"""All of them, in the order of the paper."""


def contents_table(groups: Sequence[Sequence[Record]]) -> list[list[str]]:
    """One line for each table and figure: its name, section, subject, what stands beside it, verdicts, words.

    Args:
        groups: Records of each result.
    """
    records = {(record.result.name, record.model): record for group in groups for record in group}
    return [
        [
            item.name,
            item.section,
            item.what,
            f"`{item.result}`" if item.result else item.beside,
            *_verdicts(item, records),
            item.words,
        ]
        for item in CONTENTS
    ]


def _verdicts(item: Item, records: Mapping[tuple[str, str], Record]) -> list[str]:
    """What held, with the default network and with the paper's; an item without a network has one verdict."""
    without = records.get((item.result, ""))
    found = [records.get((item.result, network), without) for network in NETWORKS]
    return [item_verdict(item, record) for record in found]


def item_verdict(item: Item, record: Record | None) -> str:
    """Held, not held, in part; a dash where there is nothing to judge."""
    if record is None or not item.claims:
        return "–"
    rows = {row["measure"]: float(row["value"]) for row in record.content["rows"]}
    held = [claim.held(rows) for claim in item.claims if claim.measure in rows]
    if not held:
        return "–"
    return "held" if all(held) else "in part" if any(held) else "not held"
