"""One line of a table: a value with its error and its target, and how it was measured.

The suites of `slotflow evaluate` and the results of `slotflow reproduce` are tables of such rows. A row that asks for
something has a target and a verdict: met, missed, or open where a perfect method could miss the target as well with so
few signals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "SIGNS",
    "WORDS",
    "Row",
    "Target",
    "Targets",
    "is_compared",
    "met_of",
    "tally",
    "tidy",
    "verdict",
]

WORDS = {True: "met", False: "missed", None: "open"}
"""A verdict in a word."""
SIGNS = {True: "✓", False: "✗", None: "?"}
"""A verdict in a sign."""


@dataclass(frozen=True)
class Target:
    """Where a value should lie."""

    low: float | None = None
    """Smallest value allowed."""
    high: float | None = None
    """Largest value allowed."""
    strict: bool = False
    """Whether the bounds themselves miss the target."""
    words: str = ""
    """How the target is written; from its bounds if empty."""

    def excess(self, value: float) -> float:
        """How far outside the bounds a value lies; negative or 0 inside."""
        below = [] if self.low is None else [self.low - value]
        above = [] if self.high is None else [value - self.high]
        return max(below + above)

    def met(self, value: float, slack: float = 0.0) -> bool:
        """Whether a value lies inside, give or take the slack; NaN does not."""
        excess = self.excess(value)
        return excess < slack if self.strict else excess <= slack

    def __str__(self) -> str:
        if self.words:
            return self.words
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
    """One line of a table."""

    measure: str
    """What was measured."""
    value: float
    """Its value, ours where there is another."""
    paper: str = ""
    """The paper's value as it is printed; empty where the paper gives none."""
    error: float | None = None
    """Monte-Carlo standard error of the value."""
    form: str = ".3g"
    """How the value is written."""
    note: str = ""
    """How it was measured and what it must be read with: counts, other methods, why the paper's may differ."""
    target: Target | None = None
    """What the value should be; None where nothing is asked."""
    met: bool | None = None
    """Whether the target is met; None where nothing is asked, or where too few signals were measured to tell."""
    slack: float = 0.0
    """How far outside the target the value may lie: three standard errors, where the target says so."""

    @classmethod
    def judged(
        cls,
        measure: str,
        value: float,
        target: Target | None,
        *,
        slack: float = 0.0,
        undecided: bool = False,
        form: str = ".4f",
        note: str = "",
    ) -> Row:
        """A row whose verdict follows from its value.

        Args:
            measure: What was measured.
            value: Its value.
            target: Where it should lie; None for a value that is only reported.
            slack: How far outside the target the value may lie.
            undecided: Whether a perfect method could miss the target like this with so few signals.
            form: How the value is written.
            note: How it was measured.
        """
        met = None if target is None else target.met(value, slack)
        if undecided and not met:
            met = None
        return cls(measure, value, form=form, note=note, target=target, met=met, slack=slack)

    @property
    def text(self) -> str:
        """The value with its error, written."""
        value = tidy(format(self.value, self.form))
        if self.error is None:
            return value
        if self.form.endswith("%"):
            return f"{value} ± {100 * self.error:.2g} %"
        return f"{value} ± {self.error:{'.1g' if self.error < 9.5 else '.0f'}}"

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values; `ours` and `passed` are what version 0.1 called `value` and `met`."""
        target = self.target
        return {
            "measure": self.measure,
            "value": self.value,
            "ours": self.value,
            "text": self.text,
            "error": self.error,
            "paper": tidy(self.paper),
            "target": None if target is None else tidy(str(target)),
            "low": None if target is None else target.low,
            "high": None if target is None else target.high,
            "slack": self.slack,
            "met": self.met,
            "passed": self.met,
            "note": tidy(self.note),
        }


class Targets(dict[str, Target]):
    """The targets of a suite by what they are about."""

    def row(self, measure: str, value: float, key: str | None = None, **options: Any) -> Row:
        """A row with the target of its measure, where there is one.

        Args:
            measure: What was measured.
            value: Its value.
            key: What the target is about, if it is not the measure itself.
            **options: As of `Row.judged`.
        """
        return Row.judged(measure, value, self.get(key or measure), **options)


def met_of(row: Mapping[str, Any]) -> bool | None:
    """Whether the row of a file meets its target, whichever version wrote it."""
    met: bool | None = row["met"] if "met" in row else row.get("passed")
    return met


def is_compared(row: Mapping[str, Any]) -> bool:
    """Whether the row of a file is judged or has the paper's value beside ours; others only report a number."""
    return bool(row.get("target") or row["paper"])


def verdict(row: Mapping[str, Any]) -> str:
    """The verdict on the row of a file in a sign and a word; empty where nothing is asked."""
    if not row.get("target"):
        return ""
    met = met_of(row)
    return f"{SIGNS[met]} {WORDS[met]}"


def tally(rows: Iterable[Mapping[str, Any]]) -> str:
    """How many targets of the rows of a file are met, missed and open; empty where there are none."""
    verdicts = [met_of(row) for row in rows if row.get("target")]
    counts = [f"{verdicts.count(key)} {word}" for key, word in WORDS.items() if key in verdicts]
    return f"targets: {', '.join(counts)}" if counts else ""


def tidy(text: str) -> str:
    """The same text with a space between a number and its percent sign, and true minus signs."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", re.sub(r"(?<=\d)%", " %", text))
