"""Rows that the tables of all ablations have, from what `Ablation.gather` puts together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from slotflow.studies.frame.study import Data
from slotflow.studies.row import Row, Target

__all__ = [
    "Best",
    "best_claim",
    "best_of",
    "claim",
    "ratio",
    "score_row",
    "size_rows",
    "spread_rows",
]

UNITS = {"A": (1.0, "data units"), "φ": (1.0, "rad"), "f": (1e3, "mHz")}
"""Factor and unit in which the paper prints an error."""

TELLS_APART = 2.0
"""Standard errors of a difference from which on one setting counts as better than another."""

PAPERS_TASK = "300 s with 3,000 + 5,120 samples, K 1 to 5"
"""What the ablations of section 5.3 are made with."""


def size_rows(size: Data, default: str) -> list[Row]:
    """How large task and networks are, beside the paper's.

    Args:
        size: What `Ablation.measure` says of it.
        default: Name of the variant that has the paper's choices.
    """
    weights, (long, short) = size["weights"], size["samples"]
    task = (
        f"{size['seconds']:g} s with {long} + {short} samples, K 1 to {size['k_max']}; "
        f"the paper: {PAPERS_TASK}"
    )
    spread = f"{min(weights.values()):,} to {max(weights.values()):,} in all variants"
    seen = size["steps"] * size["batch"]
    return [
        Row("size of the task: bins 1/T of the band", size["bins"], "150", note=task),
        Row(f"weights of the network, {default}", weights[default], form=",.0f", note=spread),
        Row("signals of a training", seen, form=",.0f", note=f"{size['steps']} steps of {size['batch']}"),
    ]  # fmt: skip


def spread_rows(name: str, found: Data, printed: Mapping[str, str] | None = None) -> list[Row]:
    """Standard deviations of the errors of a variant.

    Args:
        name: What the variant is called.
        found: What was measured of it.
        printed: The paper's values by parameter, where it has them.
    """
    rows = []
    for parameter, (factor, unit) in UNITS.items():
        value, error = found["sd"][parameter]
        robust = factor * found["robust"][parameter][0]
        row = Row(
            f"{name}: sd of {parameter} [{unit}]",
            factor * value,
            (printed or {}).get(parameter, ""),
            error=None if error is None else factor * error,
            note=f"{robust:.3g} by quantiles",
        )
        rows.append(row)
    return rows


def score_row(name: str, found: Data) -> Row:
    """The score of a variant, and the steps that it had to leave out."""
    value, error = found["score"]
    skipped = f"{found['skipped']} steps left out" if found["skipped"] else ""
    measure = f"{name}: −ln q(A, φ, f given x) at the truth, mean [nat]"
    return Row(measure, value, error=error, form=".2f", note=skipped)


def claim(measure: str, value: float, paper: str, target: Target, note: str = "") -> Row:
    """A row that the paper makes a statement about."""
    return Row(measure, value, paper, note=note, target=target, met=target.met(value))


def ratio(above: Data, below: Data, parameter: str, kind: str = "sd") -> float:
    """Spread of a parameter's errors in one variant over that in another."""
    return float(above[kind][parameter][0] / below[kind][parameter][0])


class Best(NamedTuple):
    """The setting with the least value, and how sure that is."""

    setting: float
    """The setting."""
    words: str
    """Its distance to the next best in words."""
    near: list[float]
    """The settings that may be the best as well: all of them if there are no errors."""


def best_of(found: Mapping[float, Data], value: Callable[[Data], Sequence[float | None]]) -> Best:
    """The setting with the least value.

    Args:
        found: What was measured, by the setting.
        value: Mean and standard error of what is to be small.
    """
    order = sorted(found, key=lambda setting: value(found[setting])[0] or 0.0)
    above = [_errors_above(value(found[order[0]]), value(found[other])) for other in order[1:]]
    if any(errors is None for errors in above):
        return Best(order[0], f"then {order[1]:g}; one seed", order)
    far = zip(order[1:], above, strict=True)
    near = [other for other, errors in far if errors is not None and errors < TELLS_APART]
    return Best(order[0], f"then {order[1]:g}, {above[0]:.1f} errors above", [order[0], *near])


def _errors_above(least: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """How many standard errors of their difference a mean lies above the least; None without errors."""
    (first, first_error), (second, second_error) = least, other
    assert first is not None and second is not None
    if first_error is None or second_error is None:
        return None
    return (second - first) / max(math.hypot(first_error, second_error), 1e-300)


def best_claim(measure: str, best: Best, paper: str, target: Target) -> Row:
    """A row about the best setting; open where one that may be the best as well would change the verdict."""
    verdicts = {target.met(setting) for setting in best.near}
    met = verdicts.pop() if len(verdicts) == 1 else None
    return Row(measure, best.setting, paper, note=best.words, target=target, met=met)
