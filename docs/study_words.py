"""Sentences of docs/studies.md that change with the records of two studies, phase weight and distinguishable slots.

What else the page says of its numbers is written by hand, and tests hold it to the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from study_tables import study_records

from slotflow.studies.row import met_of

__all__ = ["study_words"]

Record = Mapping[str, Any]


def study_words(data: Path) -> Iterator[tuple[str, str]]:
    """Names of the blocks and their Markdown; a study without a record has nothing to say.

    Args:
        data: docs/data/.
    """
    records = study_records(data)
    for name, words in (("phase_weight", phase_weight), ("distinguishable", distinguishable)):
        yield f"found_{name}", words(records[name]) if name in records else "Not yet measured."


AT_THE_PAPERS = {
    True: "as in the paper",
    False: "not at 2 as in the paper",
    None: "and the seeds differ too much to say whether it is at 2 as in the paper",
}
"""Where the least error is, by the verdict on the paper's claim."""


def phase_weight(record: Record) -> str:
    """Where the least errors are, for both targets, and how far loss and score fall.

    Args:
        record: Of the study `phase_weight`.
    """
    rows = {row["measure"]: row for row in record["rows"]}
    said = {measure: row["text"] for measure, row in rows.items()}
    words = [_seeds(record["data"]["variants"])]
    for key, target in (("3-D", "the well-posed target (3-D)"), ("4-D", "the paper's own (4-D)")):
        least = rows[f"{key}: w_φ with the least sd of φ"]
        where = AT_THE_PAPERS[met_of(least)]
        words.append(
            f"With {target} the standard deviation of φ is least at w_φ = {least['text']} ({least['note']}), {where}. "
            f"Its spread by quantiles is least at {said[f'{key}: w_φ with the least spread of φ by quantiles']}, the "
            f"score at {said[f'{key}: w_φ with the least −ln q']}."
        )
    widest = "{}: sd of A, its largest over its least among all w_φ"
    spoiled = "{}: sd of f, w_φ = 20 over the largest of the others"
    words.append(
        f"The largest sd of A among all w_φ is {said[widest.format('4-D')]} times the least with the 4-D target and "
        f"{said[widest.format('3-D')]} times with the 3-D one, where the paper has less than 1.02. The sd of f at "
        f"w_φ = 20 is {said[spoiled.format('4-D')]} and {said[spoiled.format('3-D')]} times the largest of the others, "
        "where the paper has more than 2.5."
    )
    fall = "4-D: fall of the {} in the last half of training [nat]"
    loss, score = fall.format("loss"), fall.format("−ln q(A, φ, f given x)")
    thickness = "4-D: thickness of the circle at the end, in units of its radius"
    if {loss, score, thickness} <= set(said):
        words.append(
            f"In the last half of training at the paper's weights, the 4-D loss falls by {said[loss]} nat and the "
            f"score by {said[score]} nat. The density around the circle ends {said[thickness]} radii thick."
        )
    return " ".join(words)


def _seeds(variants: Mapping[str, Any]) -> str:
    """Whether differences between variants have errors."""
    one = any(found["sd"]["φ"][1] is None for found in variants.values())
    if one:
        return "Only one seed is measured, so differences between variants have no errors yet."
    return "The errors in the tables are over seeds."


def distinguishable(record: Record) -> str:
    """From which distance on slots and counts are right, network by network.

    Args:
        record: Of the study `distinguishable`.
    """
    words = [_pairs(record["data"])]
    for name, cells in record["data"].items():
        least = {
            (row["measure"].partition("pairs have ")[2].partition(" [")[0], row["note"]): row[
                "text"
            ]
            for row in record["rows"]
            if row["measure"].startswith(f"{name}: least Δf")
        }
        widest = f"{cells[-1]['bins']:g}/T"
        slots = _from(least.get(("a slot for each tone", "K = 2 given")), widest)
        count = _from(least.get(("the right count", "network")), widest)
        beside = ""
        if "exact" in cells[0]:
            beside = f"; that of the exact step {_from(least.get(('the right count', 'exact step')), widest)}"
        words.append(
            f"In at least 95 % of pairs, the slots of `{name}` take one tone each {slots}, and its count is right "
            f"{count}{beside}."
        )
    return " ".join(words)


def _pairs(data: Mapping[str, Any]) -> str:
    """How far above the definition's γ all pairs lie."""
    least = min(cell["least_distance"] for cells in data.values() for cell in cells)
    pairs = min(cell["pairs"] for cells in data.values() for cell in cells)
    return f"Of {pairs} pairs at each distance, the least distinguishable has D = {least:.2g}, where γ is 2."


def _from(least: str | None, widest: str) -> str:
    """The distance from which on something holds, in words."""
    return f"from {least}/T on" if least else f"at no distance up to {widest}"
