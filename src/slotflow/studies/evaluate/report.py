"""A report: rows of measure, value, target and verdict, and the details behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Report", "Row", "Target"]


@dataclass(frozen=True)
class Target:
    """Where a value should lie."""

    low: float | None = None
    """Smallest value allowed."""
    high: float | None = None
    """Largest value allowed."""
    strict: bool = False
    """Whether the bounds themselves miss the target."""

    def excess(self, value: float) -> float:
        """How far outside a value lies; negative or 0 inside."""
        below = [] if self.low is None else [self.low - value]
        above = [] if self.high is None else [value - self.high]
        return max(below + above)

    def met(self, value: float, slack: float = 0.0) -> bool:
        """Whether a value lies inside, give or take the slack; NaN does not."""
        excess = self.excess(value)
        return excess < slack if self.strict else excess <= slack

    def __str__(self) -> str:
        less, more = ("<", ">") if self.strict else ("<=", ">=")
        if self.low is None:
            return f"{less} {self.high:g}"
        if self.high is None:
            return f"{more} {self.low:g}"
        if self.low == -self.high:
            return f"±{self.high:g}"
        return f"{self.low:.2f}–{self.high:.2f}"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    measure: str
    """What was measured."""
    value: float
    """Its value."""
    target: Target | None = None
    """What it should be; None for a value that is only reported."""
    slack: float = 0.0
    """How far outside the target a value may lie: three standard errors, where the target says so."""
    undecided: bool = False
    """Whether a perfect posterior might miss the target like this with so few signals."""
    note: str = ""
    """What the value must be read with: counts, errors, other methods."""
    form: str = ".4f"
    """How the value is written."""

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; None where there is none, or where a miss says nothing yet."""
        if self.target is None:
            return None
        met = self.target.met(self.value, self.slack)
        return None if self.undecided and not met else met

    @property
    def text(self) -> str:
        """The value, written."""
        return format(self.value, self.form)

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values."""
        target = self.target
        return {
            "measure": self.measure,
            "value": self.value,
            "target": None if target is None else str(target),
            "low": None if target is None else target.low,
            "high": None if target is None else target.high,
            "slack": self.slack,
            "passed": self.passed,
            "note": self.note,
        }


@dataclass(frozen=True)
class Report:
    """All rows of an evaluation."""

    rows: list[Row]
    """The table."""
    by_k: list[dict[str, float]] = field(default_factory=list)
    """Widths and errors over the bound, one entry for each K."""
    details: dict[str, Any] = field(default_factory=dict)
    """Curves and counts by set, as plain values."""
    facts: dict[str, Any] = field(default_factory=dict)
    """How the evaluation was run: signals, draws, seed, device, time."""

    @property
    def missed(self) -> list[Row]:
        """Rows that miss their target."""
        return [row for row in self.rows if row.passed is False]

    def __getitem__(self, measure: str) -> Row:
        """The row of a measure."""
        for row in self.rows:
            if row.measure == measure:
                return row
        raise KeyError(f"{measure!r}; the report has {[row.measure for row in self.rows]}")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON; numbers that are not finite become None."""
        values: dict[str, Any] = _finite(
            {
                "facts": self.facts,
                "rows": [row.to_dict() for row in self.rows],
                "by_k": self.by_k,
                "details": self.details,
            }
        )
        return values


def _finite(value: Any) -> Any:
    """The same with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
