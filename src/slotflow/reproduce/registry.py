"""The results by name, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

from slotflow.reproduce.calibration import CALIBRATION
from slotflow.reproduce.cardinality import CARDINALITY
from slotflow.reproduce.dataset import DATASET
from slotflow.reproduce.entry import Result
from slotflow.reproduce.scaling import SCALING
from slotflow.reproduce.slots import SLOTS

__all__ = ["RESULTS", "choose"]

RESULTS: dict[str, Result] = {
    result.name: result for result in (DATASET, CARDINALITY, SCALING, CALIBRATION, SLOTS)
}
"""All results."""


def choose(only: Sequence[str] | None) -> list[Result]:
    """The results that are named, in the order of the page; all if None."""
    unknown = set(only or ()) - set(RESULTS)
    if unknown or (only is not None and not only):
        raise ValueError(
            f"expected some of {', '.join(RESULTS)}, received {', '.join(sorted(unknown)) or 'none'}."
        )
    return [result for name, result in RESULTS.items() if only is None or name in only]
