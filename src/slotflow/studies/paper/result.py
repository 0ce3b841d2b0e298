"""What a result consists of: numbers, a comparison with the paper, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.studies.paper.bench import Bench
    from slotflow.studies.paper.settings import Settings
    from slotflow.studies.row import Row

__all__ = ["METHOD_SUFFIXES", "Data", "Result", "unasked"]

Data = dict[str, Any]
"""Plain values that survive a JSON file: dictionaries, lists, numbers, strings."""
METHOD_SUFFIXES = {"network": "", "exact": ", exact step", "slots": ", slot by slot"}
"""What the rows of a method end with. "slots" is the network alone, each tone compared with the slot that takes it, as
in the paper; the others compare tones and draws in the order of their frequencies."""


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
    uses: tuple[str, ...]
    """Settings that its numbers depend on; "model" if they depend on the network."""
    work: Callable[[Settings], int]
    """Signals that `run` goes through, for the progress bar."""
    run: Callable[[Bench], Data]
    """Computes the numbers."""
    compare: Callable[[Data], list[Row]]
    """Judges them."""
    plot: Callable[[Data], Figure]
    """Draws them."""
    needs: tuple[str, str] | None = None
    """A module that is not always installed, and the extra that brings it."""
    method_captions: Mapping[str, str] = field(default_factory=dict)
    """What the picture shows besides, by the method that was asked for as well."""


def unasked(rows: Sequence[Row]) -> list[Row]:
    """The rows, those about slots without their targets: what was asked for is about sorted draws."""
    return [
        replace(row, target=None, met=None)
        if row.measure.endswith(METHOD_SUFFIXES["slots"])
        else row
        for row in rows
    ]
