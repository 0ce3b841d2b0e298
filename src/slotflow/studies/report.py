"""A report: the rows of an evaluation, and the details behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from slotflow.studies.row import Row

__all__ = ["Report"]


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
        return [row for row in self.rows if row.met is False]

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
