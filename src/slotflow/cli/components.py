"""The components of a record as a table and in words, in its units, beside the truth where it is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from slotflow.core.store import Record
from slotflow.core.units import HERTZ, FrequencyUnit, frequency_unit
from slotflow.show.wording import chance, measured, number
from slotflow.signal.waveforms import Parameter, Waveform, waveform_named

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

    def table(self, most: int | None = None) -> Table:
        """One row per component, with its true values beside it where they are known.

        Args:
            most: Rows at most, those of the strongest components; all of them if None.
        """
        table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("#", justify="right", no_wrap=True, min_width=1)
        rows = self.record["components"]
        several = any("class" in row for row in rows)
        if several:
            longest = max(len(self._class_of(row)) for row in rows)
            table.add_column("class", no_wrap=True, min_width=longest)
        units = dict(
            zip(self.waveform.names, self.waveform.units(self.record["unit"]), strict=True)
        )
        for parameter in self.waveform.measured:
            unit = units[parameter.name]
            unit = self.unit.name if parameter.unit == HERTZ.name else unit
            heading = f"{parameter.name} [{unit}]" if unit else parameter.name
            table.add_column(escape(heading), justify="right", no_wrap=True)
            if self.truth:
                table.add_column("truth", justify="right", style="cyan")
        doubtful = any(row["existence"] < SURE_EXISTENCE for row in rows)
        if doubtful:
            table.add_column("exists", justify="right")
        related = any(row.get("combination") for row in rows)
        if related:
            table.add_column("is")
        for row, exact in self._strongest(self._pairs(), most):
            cells = [str(row["component"]) if row else "–"]
            if several:
                cells.append(self._class_of(row) if row else "")
            for parameter in self.waveform.measured:
                cells += self._cells(row, exact, parameter)
            if doubtful:
                cells.append(chance(row["existence"], 2) if row else "")
            if related:
                cells.append((row.get("combination") or "") if row else "")
            table.add_row(*cells)
        return table

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

    def _cells(self, row: Record | None, exact: Record | None, parameter: Parameter) -> list[str]:
        """A parameter with its uncertainty, and its true value where the truth is known."""
        factor, name = self.factor(parameter), parameter.name
        if row is None:
            sd, cells = math.nan, ["missed"]
        else:
            value, sd = self._measured(row, name)
            sd *= factor * self._inflation(row)
            cells = [measured(factor * value, sd)]
        if self.truth:
            cells.append(number(factor * exact[name], sd) if exact else "none")
        return cells

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
