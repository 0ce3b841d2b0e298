"""The components of a report: their table, and other places where one may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.posterior.summaries import components as components_of
from slotflow.posterior.summaries import place_modes
from slotflow.show.prefixes import readable
from slotflow.show.report.page import Missing, Stacked, Table
from slotflow.show.wording import chance, measured, number

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["components", "other_places"]

DRAWS = 2000
"""Draws behind the table of components."""


def components(
    post: Posterior, seed: int, unit: FrequencyUnit = HERTZ, phase_at: str | float = "auto"
) -> Table | Missing:
    """One row per component: existence, and median, sd and interval of each parameter."""
    try:
        frame = post.summary(n=DRAWS, seed=seed, phase_at=phase_at)
    except ValueError as error:  # a file without draws
        return Missing("Components", str(error))
    waveform = post.waveform
    units = dict(zip(waveform.names, waveform.units(post.unit), strict=True))
    units |= {p.name: unit.name for p in waveform.parameters if p.unit == HERTZ.name}
    factors = {p.name: unit.factor if p.unit == HERTZ.name else 1.0 for p in waveform.parameters}
    for parameter in waveform.measured:
        if parameter.name in waveform.shape and parameter.unit != HERTZ.name:  # drifts, rates
            largest = float(frame[f"{parameter.name}_median"].abs().max())
            factors[parameter.name], units[parameter.name] = readable(largest, parameter.unit)
    names = [p.name for p in waveform.measured]
    order = sorted(names, key=lambda name: name != waveform.place)  # its place first
    columns = {"name": "", "existence": "exists"}
    several = "class" in frame
    if several:
        columns["class"] = "class (probability)"
    columns |= {name: f"{name} [{units[name]}]" if units[name] else name for name in order}
    related = "combination" in frame
    if related:
        columns["combination"] = "combination (by chance)"
    inflation = post.verdict.inflation
    if len(inflation) != len(frame):
        inflation = (1.0,) * len(frame)
    cells = [
        [
            f"Component {row['component']}",
            chance(float(row["existence"])),
            *([f"{row['class']} ({chance(row['class_probability'], 2)})"] if several else []),
            *(_measured(row, name, factors[name], larger) for name in order),
            *([_label(row)] if related else []),
        ]
        for row, larger in zip(
            frame.reset_index().to_dict(orient="records"), inflation, strict=True
        )
    ]
    return Table(columns, cells)


def _measured(row: Mapping[Any, Any], name: str, factor: float, inflation: float) -> Stacked:
    """A parameter in a cell, its values times a factor and its standard deviation inflated."""
    sd = factor * float(row[f"{name}_sd"])
    if not math.isfinite(sd):  # the component's class has no such parameter
        return Stacked("–", "")
    low, high = (number(factor * float(row[f"{name}_{q}"]), sd) for q in ("q05", "q95"))
    value = measured(factor * float(row[f"{name}_median"]), inflation * sd)
    return Stacked(value, f"{low} to {high}")


def _label(row: Mapping[Any, Any]) -> str:
    """Which combination of others a component is, and how probable that is by chance; empty if it is none."""
    label = row["combination"]
    return f"{label} ({row['combination_chance']:.1g})" if label else ""


def other_places(post: Posterior, unit: FrequencyUnit = HERTZ) -> list[str]:
    """Components that may be at several places, such as aliases, each in a sentence."""
    try:
        draws = components_of(post, post.k_map, DRAWS, 0)[0]
    except ValueError:  # a file without draws
        return []
    found, cores = [], [row.core for row in post.window_rows]
    for j, modes in enumerate(place_modes(draws, post.resolution, post.waveform, cores)):
        texts = [
            f"{measured(unit.factor * mode.median, unit.factor * mode.sd)} {unit.name} "
            f"(probability {chance(mode.probability, 2)})"
            for mode in modes
        ]
        if len(texts) > 1:
            found.append(f"Component {j + 1} is at {' or '.join(texts)}.")
    return found
