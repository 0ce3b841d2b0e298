"""Every table and figure of the paper in its order, what stands beside it here, and what it claims.

Whether a claim held follows from the records (`verdicts`): a new measurement changes the list, and nobody has to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotflow.network.model import DEFAULT
from slotflow.studies.paper.files import Record
from slotflow.studies.paper.verdicts import (
    PAPER,
    Claim,
    Item,
    StudyClaims,
    StudyRecord,
    item_line,
)
from slotflow.studies.row import Target

__all__ = ["CONTENTS", "contents_table"]

SMALL_TASK = "small networks of the paper's parts on a small task"
BROADER = "sd of f, network over RJMCMC"
LARGEST_DEVIATION = "largest |coverage − α|, all sets and parameters"
FREQUENCY_BY_CONTEXT = "R² of f, all coordinates, neighbours"
IN_ISOMAP = {symbol: f"R² of {symbol}, lowest slot, plane of Isomap, neighbours" for symbol in "Aφ"}
LABELS = "Equivariant, {network}: largest change of ln p under permuted labels [nat]"
CORRELATION = "Dependence, {network}: correlation between the tones of a close pair"
SMALL_ERRORS = "sources with an error of f below 10 mHz, network, A ≥ 0.5"


def _near(value: float, slack: float) -> Target:
    return Target(low=value - slack, high=value + slack)


def _complexity(pattern: str) -> StudyClaims:
    """Rows of the study of sample complexity, of small networks like each of the two."""
    patterns = {network: f"{network}: ({pattern})" for network in (DEFAULT, PAPER)}
    return StudyClaims("sample_complexity", "sample-complexity", patterns)


CONTENTS = (
    Item(
        "Table 1", "1.2", "properties of methods", "properties",
        (Claim(LABELS, Target(high=1e-6)), Claim(CORRELATION, Target(low=0.1))),
        (StudyClaims("leaderboard", "the-methods-of-table-1-trained-alike",
                     {PAPER: r".*SlotFlow \(paper\)", "others": r"(?!.*SlotFlow \(paper\))"}),),
        quoted={CORRELATION: "correlation between the slots of a close pair"},
    ),
    Item("Figure 1", "3", "architecture", beside="–", words="nothing to measure; [line by line](paper-notes.md)"),
    Item(
        "Figure 2", "5.1.1", "separations", "dataset",
        (
            Claim("neighbours within 1.5 Δf_min", _near(0.31, 0.005)),
            Claim("neighbours within 3 Δf_min", _near(0.73, 0.005)),
            Claim("Δφ triangular on [0, π]: p of a KS test", Target(low=0.05)),
        ),
        words="a matter of the stated prior, whatever the network",
    ),
    Item("Figure 3", "5.1.1", "signal-to-noise ratio", "dataset", (Claim("SNR, mode [dB]", _near(8, 1)),),
         words="as figure 2"),
    Item(
        "Figure 4", "5.1.2", "slots by frequency", "slots",
        (Claim("range of the slots' median frequencies [Hz]", Target(low=0.38)),),
        words="built into `zoom`, left to the training in `paper`",
    ),
    Item("Figure 5", "5.1.3", "confusion of K", "cardinality", (Claim("accuracy of K", Target(low=0.9985)),),
         quoted={"accuracy of K": "right counts"}),
    Item(
        "Figure 6", "5.1.4", "coverage", "calibration",
        (Claim(LARGEST_DEVIATION, Target(low=-0.03, high=0.03), by_slot=True),),
        quoted={LARGEST_DEVIATION: "largest deviation, sorted", f"{LARGEST_DEVIATION}, slot by slot": "slot by slot"},
    ),
    Item(
        "Figure 7", "5.1.5", "p(K given x) and RJMCMC", "comparison",
        (Claim("p(K ≠ 3 | x), mean, network", Target(high=0.01)),),
    ),
    Item(
        "Figure 8", "5.1.5", "corner plot and RJMCMC", "comparison", (Claim(BROADER, Target(low=2, high=3)),),
        quoted={BROADER: "sd of f over that of RJMCMC"},
    ),
    Item(
        "Table 2", "5.1.5", "Wasserstein distances", "comparison",
        tuple(
            Claim(f"W₂ of {name}, network and RJMCMC [{unit}]", Target(high=value))
            for name, unit, value in (("A", "data units", 0.0069), ("φ", "rad", 0.0227), ("f", "Hz", 6e-4))
        ),
        words="claimed: at most the printed distances",
    ),
    Item(
        "Figure 9", "5.1.6", "widths against K", "scaling",
        tuple(
            Claim(f"sd of {name} at K = {k} [{unit}]", Target(high=value), by_slot=True)
            for name, unit, values in (("A", "%", (2.2, 4)), ("φ", "rad", (0.03, 0.14)), ("f", "mHz", (0.09, 0.55)))
            for k, value in zip((1, 10), values, strict=True)
        ),
        words="claimed: at most the printed widths",
    ),
    Item(
        "Figure 10", "5.1.6", "two sources", "interference",
        (
            Claim("error of A, both SNR ≥ −10 dB, network, A ≥ 0.5", Target(high=0.1)),
            Claim(SMALL_ERRORS, Target(low=0.95)),
        ),
        quoted={SMALL_ERRORS: "frequencies within 10 mHz, “nearly all” in the paper:"},
    ),
    Item(
        "Table 3", "5.2.2", "time and memory", "cost",
        (
            Claim("network: time of 1,000 effective draws, K = 5 [s]", Target(high=0.0135)),
            Claim("RJMCMC over network: time, K = 5", Target(low=1e5)),
            Claim("network, no draw: Python's allocator peak, K = 5 [KB]", Target(high=5.15)),
        ),
    ),
    *(
        Item(f"Figure {number}", section, what, words=SMALL_TASK,
             studies=(StudyClaims(study, anchor, {PAPER: pattern}),))
        for number, section, what, study, anchor, pattern in (
            (11, "5.3.1", "domain representation, widths", "domain", "domain-representation", "sd of"),
            (12, "5.3.1", "domain representation, K", "domain", "domain-representation", "(accuracy|share of wrong)"),
            (13, "5.3.2", "phase weight", "phase_weight", "phase-weight", "4-D"),
            (14, "5.3.3", "flow depth", "depth", "flow-depth", ""),
        )
    ),
    Item(
        "Figure 15", "B.1", "repeated inference", "slots",
        (Claim("consistency, repeated inference", Target(low=0.995)),),
    ),
    Item(
        "Figure 16", "B.2", "t-SNE of slot contexts", "latent", (Claim(FREQUENCY_BY_CONTEXT, Target(low=0.5)),),
        quoted={FREQUENCY_BY_CONTEXT: "share of f that contexts explain"},
    ),
    Item(
        "Figure 17", "B.2", "Isomap of one slot", "latent",
        tuple(Claim(measure, Target(low=0.5)) for measure in IN_ISOMAP.values()),
        quoted={measure: f"R² of {symbol}" for symbol, measure in IN_ISOMAP.items()},
    ),
    Item(
        "Table 4", "B.3", "regimes of sample complexity",
        studies=(
            StudyClaims("formulas", "the-formulas", {"": "(K_crit|K where|theorem 4.2)"}),
            _complexity("exponent|K³ curve"),
        ),
        words="formulas, then small networks of both kinds",
    ),
    Item("Figure 18", "B.3", "loss against training set",
         studies=(_complexity("steps to|loss at K = .* less|the same"),), words="small networks of both kinds"),
    Item("Figure 19", "B.3", "least training set",
         studies=(_complexity("numbers of|Spearman|its p|K³ curve|least N at"),), words="small networks of both kinds"),
    Item("Figure 20", "B.4", "training curve", beside="[curve](model.md#preset-paper-beside-it)",
         words="our own training; the paper's run is not repeated, and its loss is that of another target"),
)  # fmt: skip
"""All of them, in the order of the paper."""


def contents_table(
    groups: Sequence[Sequence[Record]], studies: Mapping[str, StudyRecord]
) -> list[list[str]]:
    """One line for each table and figure.

    Args:
        groups: Records of each result.
        studies: Records of studies by their name.
    """
    records = {(record.result.name, record.model): record for group in groups for record in group}
    return [item_line(item, records, studies) for item in CONTENTS]
