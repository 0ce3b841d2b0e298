"""What a result consists of: numbers, a comparison with the paper, and a picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.studies.paper.bench import Bench, Settings

__all__ = ["Comparison", "Data", "Result", "tidy"]

Data = dict[str, Any]
"""Plain values that survive a JSON file: dictionaries, lists, numbers, strings."""


@dataclass(frozen=True)
class Comparison:
    """One line of a result's table."""

    measure: str
    """What was measured."""
    ours: float
    """Our value."""
    paper: str = ""
    """The paper's, as it is printed; empty where the paper gives none."""
    error: float | None = None
    """Monte-Carlo standard error of ours."""
    form: str = ".3g"
    """How ours is written."""
    note: str = ""
    """What the two must be read with, above all where the paper's figure does not follow from its own statements."""
    target: str = ""
    """What ours should be, in words or signs; empty where nothing is asked."""
    met: bool | None = None
    """Whether it is; None: nothing is asked, or too few signals to tell."""

    @property
    def text(self) -> str:
        """Our value with its error, written."""
        value = tidy(format(self.ours, self.form))
        if self.error is None:
            return value
        if self.form.endswith("%"):
            return f"{value} ± {100 * self.error:.2g} %"
        return f"{value} ± {self.error:{'.1g' if self.error < 9.5 else '.0f'}}"

    def to_dict(self) -> Data:
        """The line as plain values."""
        return {
            "measure": self.measure,
            "ours": self.ours,
            "text": self.text,
            "error": self.error,
            "paper": tidy(self.paper),
            "note": tidy(self.note),
            "target": tidy(self.target),
            "met": self.met,
        }


def tidy(text: str) -> str:
    """The same with a space between a number and its percent sign, and true minus signs."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", re.sub(r"(?<=\d)%", " %", text))


@dataclass(frozen=True)
class Result:
    """One table or figure of the paper."""

    name: str
    """What the command line calls it, and the stem of its files."""
    title: str
    """Its heading."""
    section: str
    """Where the paper has it."""
    caption: str
    """What the picture shows."""
    version: int
    """Raised when `run` gives other numbers than before, so that old files are not reused."""
    uses: tuple[str, ...]
    """Settings that its numbers depend on; "model" if they depend on the network."""
    work: Callable[[Settings], int]
    """Signals that `run` goes through, for the progress bar."""
    run: Callable[[Bench], Data]
    """Computes the numbers."""
    compare: Callable[[Data], list[Comparison]]
    """Judges them."""
    plot: Callable[[Data], Figure]
    """Draws them."""
    needs: tuple[str, str] | None = None
    """A module that is not always installed, and the extra that brings it."""
    pooled: bool = False
    """Whether it can be made for the paper's network too, which knows one prior and one sampling only."""
