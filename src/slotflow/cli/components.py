"""The components of a record as a table and in words, in its units, beside the truth where it is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.table import Table

from slotflow.cli.fitted import Column, fitted
from slotflow.core.store import Record
from slotflow.core.units import HERTZ, FrequencyUnit, frequency_unit
from slotflow.show.prefixes import readable
from slotflow.show.wording import chance, measured, number
from slotflow.signal.waveforms import Parameter, Waveform, waveform_named
from slotflow.signal.waveforms.base import DATA_UNIT

__all__ = ["ShownComponents"]

Pair = tuple[Record | None, Record | None]
"""An inferred component and the true one beside it; None where there is none."""

SURE_EXISTENCE = 0.995
"""Existence probability that need not be told."""
FEW_SCATTERED, FEW_MODES = 3, 3
"""Components that may be at several places, and places of each, that are told unless all are asked for."""
FEW_PLACES = 6
"""Components whose frequencies are named in one line."""


@dataclass(frozen=True)
class ShownComponents:
    """The components of a record, in its units, beside the truth where it is known."""

    record: Record
    truth: Record | None

    @cached_property
    def unit(self) -> FrequencyUnit:
        """Of the frequencies."""
        return frequency_unit(self.record["frequency_unit"])

    @cached_property
    def waveform(self) -> Waveform:
        """What the components are."""
        return waveform_named(self.record["waveform"])

    def factor(self, parameter: Parameter) -> float:
        """What values of a parameter are multiplied by to be shown."""
        return self.unit.factor if parameter.unit == HERTZ.name else 1.0

    @cached_property
    def place(self) -> Parameter:
        """What tells the components apart: the frequency of tones."""
        return self.waveform.parameters[self.waveform.column(self.waveform.place)]

    @property
    def places(self) -> str:
        """Where the components are, in words: "at 5.6, 6.1 and 11.2 c/d"."""
        rows, factor = self.record["components"], self.factor(self.place)
        if not rows:
            return ""
        found = [self._measured(row, self.place.name) for row in rows]
        texts = [number(factor * value, factor * sd) for value, sd in found]
        if len(texts) > FEW_PLACES:
            return f"from {texts[0]} to {texts[-1]} {self.unit.name}"
        listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
        return f"at {listed} {self.unit.name}"

    @property
    def inflated(self) -> bool:
        """Whether the errors are larger than those of the draws, because the data are a misfit."""
        inflation = self.record["verdict"]["inflation"]
        return len(inflation) == len(self.record["components"]) and any(f > 1 for f in inflation)

    def other_modes(self, every: bool = True) -> list[str]:
        """Where components may be as well, a line for each that may be at several places.

        Args:
            every: Whether to tell all places of all components, or a few.
        """
        factor, lines = self.factor(self.place), []
        several = [row for row in self.record["components"] if len(row.get("modes", [])) > 1]
        for row in several if every else several[:FEW_SCATTERED]:
            texts = [
                f"{measured(factor * m['median'], factor * m['sd'])} {self.unit.name} ({chance(m['probability'], 2)})"
                for m in row["modes"]
            ]
            more = "" if every or len(texts) <= FEW_MODES else " or elsewhere"
            texts = texts if every else texts[:FEW_MODES]
            lines.append(f"Component {row['component']} is at {' or '.join(texts)}{more}")
        if len(lines) < len(several):
            others = len(several) - len(lines)
            lines.append(f"{others} more may be at several places (--verbose lists them)")
        return lines

    def tables(self, width: int, most: int | None = None) -> list[Table]:
        """One row per component, with its true values beside it where they are known; several tables if need be.

        Args:
            width: Characters of a line.
            most: Rows at most, those of the strongest components; all of them if None.
        """
        pairs = self._strongest(self._pairs(), most)
        rows, every = [row for row, _ in pairs], self.record["components"]
        lead = [Column("#", [str(row["component"]) if row else "–" for row in rows])]
        if any("class" in row for row in every):
            lead.append(
                Column("class", [self._class_of(row) if row else "" for row in rows], "left")
            )
        groups = [self._parameter(parameter, pairs) for parameter in self.waveform.measured]
        if any(row["existence"] < SURE_EXISTENCE for row in every):
            found = [chance(row["existence"], 2) if row else "" for row in rows]
            groups.append([Column("exists", found)])
        if any(row.get("combination") for row in every):
            named = [(row.get("combination") or "") if row else "" for row in rows]
            groups.append([Column("is", named, "left")])
        return fitted(lead, groups, width)

    def _parameter(self, parameter: Parameter, pairs: list[Pair]) -> list[Column]:
        """The column of a parameter, and that of its true values where they are known."""
        factor, unit = self._unit(parameter, pairs)
        cells = [self._cells(row, exact, parameter.name, factor) for row, exact in pairs]
        heading = f"{parameter.name} [{unit}]" if unit else parameter.name
        found = [Column(heading, [cell for cell, _ in cells])]
        if self.truth:
            found.append(Column("truth", [true for _, true in cells], style="cyan"))
        return found

    def _unit(self, parameter: Parameter, pairs: list[Pair]) -> tuple[float, str]:
        """What values of a parameter are multiplied by to be shown, and their unit then."""
        if parameter.unit == HERTZ.name:
            return self.unit.factor, self.unit.name
        unit = parameter.unit if parameter.unit != DATA_UNIT else self.record["unit"]
        if parameter.name not in self.waveform.shape:
            return 1.0, unit
        values = [abs(self._measured(row, parameter.name)[0]) for row, _ in pairs if row]
        return readable(max(filter(math.isfinite, values), default=0.0), unit)

    @staticmethod
    def _class_of(row: Record) -> str:
        """The class of a component with its probability, unless that is next to one."""
        name, probability = str(row["class"]), float(row["class_probability"])
        return name if probability > SURE_EXISTENCE else f"{name} ({chance(probability, 2)})"

    @staticmethod
    def _strongest(pairs: list[Pair], most: int | None) -> list[Pair]:
        """The pairs of the strongest components, in the order of their places; all where these are not too many."""
        if most is None or len(pairs) <= most or "amplitude_median" not in (pairs[0][0] or {}):
            return pairs
        size = [row["amplitude_median"] if row else math.inf for row, _ in pairs]
        kept = np.sort(np.argsort(-np.array(size), kind="stable")[:most])
        return [pairs[int(i)] for i in kept]

    def _cells(
        self, row: Record | None, exact: Record | None, name: str, factor: float
    ) -> tuple[str, str]:
        """A parameter with its uncertainty, and its true value where the truth is known."""
        if row is None:
            sd, cell = math.nan, "missed"
        else:
            value, sd = self._measured(row, name)
            sd *= factor * self._inflation(row)
            cell = measured(factor * value, sd)
        return cell, number(factor * exact[name], sd) if exact else "none"

    def _measured(self, row: Record, name: str) -> tuple[float, float]:
        """Median and sd of a parameter; of a place with several modes, those of the most probable one."""
        if "modes" in row and name == self.place.name:
            return row["modes"][0]["median"], row["modes"][0]["sd"]
        if row[f"{name}_median"] is None:  # the component's class has no such parameter
            return math.nan, math.nan
        return row[f"{name}_median"], row[f"{name}_sd"]

    def _inflation(self, row: Record) -> float:
        """The factor for the errors of a component."""
        if not self.inflated:
            return 1.0
        return float(self.record["verdict"]["inflation"][row["component"] - 1])

    def _pairs(self) -> list[Pair]:
        """Inferred and true components side by side, the nearest of each other; None where there is none."""
        from scipy.optimize import linear_sum_assignment

        rows, place = self.record["components"], self.waveform.place
        truth = self.truth["components"] if self.truth else []
        inferred, true = [r[f"{place}_median"] for r in rows], [t[place] for t in truth]
        i, j = linear_sum_assignment(np.abs(np.subtract.outer(inferred, true)))
        partner = dict(zip(i.tolist(), j.tolist(), strict=True))
        found = [(row, truth[partner[n]] if n in partner else None) for n, row in enumerate(rows)]
        missed = [(None, t) for n, t in enumerate(truth) if n not in partner.values()]
        return [*found, *missed]
