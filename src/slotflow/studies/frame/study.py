"""What a study consists of: a claim, rounds of measurements, a table and a picture.

A study is measured in rounds. A round is known by its number, from which its seeds follow, and may be measured in any
process and at any time. What a study compares sees the same signals, be it in one round or in several; a study that is
ended early says how many rounds its numbers come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotflow.network.model import SlotFlow
from slotflow.studies.frame.settings import Settings
from slotflow.studies.row import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Data", "Setup", "Study"]

Data = dict[str, Any]
"""Plain values that survive a JSON file: dictionaries, lists, numbers, strings."""


@dataclass
class Setup:
    """What the rounds of a study work with."""

    settings: Settings
    folder: Path
    """Where a round may leave files for later ones, such as the state of a training; made when it is needed."""
    device: str | None = None
    """Where networks compute; the CPU if None."""
    _networks: dict[str, SlotFlow] = field(default_factory=dict)

    def network(self, name: str) -> SlotFlow:
        """Embedded weights by their name, read once."""
        if name not in self._networks:
            self._networks[name] = SlotFlow.from_pretrained(name, device=self.device)
        return self._networks[name]


@dataclass(frozen=True)
class Study:
    """One study."""

    name: str
    """What the command line calls it, and the stem of its files."""
    title: str
    """Its heading."""
    section: str
    """Where the paper makes the claim."""
    claim: str
    """What the paper says, in a sentence or two."""
    caption: str
    """What the picture shows."""
    code: tuple[str, ...]
    """Modules and folders under the package that decide its numbers, besides those that decide answers."""
    rounds: Callable[[Settings], int]
    """How many rounds there are in all."""
    measure: Callable[[Setup, int], Data]
    """Measures one round."""
    signals: Callable[[Settings], int]
    """Signals of one round."""
    gather: Callable[[Sequence[Data]], Data]
    """Puts the rounds together."""
    compare: Callable[[Data], list[Row]]
    """Judges what was put together; a row with a target says whether a claim held."""
    plot: Callable[[Data], Figure]
    """Draws it."""
    networks: tuple[str, ...] = ()
    """Embedded weights that its numbers depend on."""
    source: str = "paper"
    """Who makes the claim, if it is not the paper: its section is a place there."""
