"""The results by name, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from slotflow.studies.paper.calibration import CALIBRATION
from slotflow.studies.paper.cardinality import CARDINALITY
from slotflow.studies.paper.comparison.three_tones import COMPARISON
from slotflow.studies.paper.cost.measure import COST
from slotflow.studies.paper.dataset.separations import DATASET
from slotflow.studies.paper.interference.maps import INTERFERENCE
from slotflow.studies.paper.latent.contexts import LATENT
from slotflow.studies.paper.properties.measure import PROPERTIES
from slotflow.studies.paper.result import Result
from slotflow.studies.paper.scaling.widths import SCALING
from slotflow.studies.paper.settings import NUMBERS
from slotflow.studies.paper.slots.specialization import SLOTS

__all__ = ["RESULTS", "choose", "missing"]

RESULTS: dict[str, Result] = {
    result.name: result
    for result in (
        DATASET,
        SLOTS,
        CARDINALITY,
        CALIBRATION,
        COMPARISON,
        SCALING,
        INTERFERENCE,
        COST,
        LATENT,
        PROPERTIES,
    )
}
"""All results by name, in the order of the page."""


def choose(only: Sequence[str] | None) -> list[Result]:
    """The results that are named or numbered, in the order of the page; all if None."""
    by_number = {str(number): name for name, number in NUMBERS.items()}
    names = {by_number.get(word, word) for word in only or ()}
    unknown = names - set(RESULTS)
    if unknown or (only is not None and not only):
        known = ", ".join(f"{number} {name}" for name, number in NUMBERS.items())
        raise ValueError(
            f"expected names or numbers of {known}; received {', '.join(sorted(unknown)) or 'none'}."
        )
    return [result for name, result in RESULTS.items() if only is None or name in names]


def missing(result: Result) -> str:
    """What has to be installed before a result can be made; empty if nothing."""
    if result.needs is None or find_spec(result.needs[0]) is not None:
        return ""
    module, extra = result.needs
    return f"{result.name} needs {module}: pip install 'slotflow[{extra}]'"
