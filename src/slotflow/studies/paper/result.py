"""What a result consists of: numbers, a comparison with the paper, and a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from slotflow.studies.paper.bench import Bench
    from slotflow.studies.paper.settings import Settings
    from slotflow.studies.row import Row

__all__ = ["Data", "Result"]

Data = dict[str, Any]
"""Plain values that survive a JSON file: dictionaries, lists, numbers, strings."""


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
    exact_caption: str = ""
    """What the picture shows besides, where the exact step was asked for as well."""
    pooled: bool = False
    """Whether it can be made for the paper's network too, which knows one prior and one sampling only."""
