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
from slotflow.studies.paper.scaling import SCALING
from slotflow.studies.paper.slots.specialization import SLOTS

__all__ = ["NUMBERS", "RESULTS", "choose", "missing"]

NUMBERED = {
    1: DATASET,
    2: SLOTS,
    3: CARDINALITY,
    4: CALIBRATION,
    5: COMPARISON,
    6: SCALING,
    7: INTERFERENCE,
    8: COST,
    9: LATENT,
    10: PROPERTIES,
}
RESULTS: dict[str, Result] = {result.name: result for result in NUMBERED.values()}
"""All results."""
NUMBERS: dict[str, int] = {result.name: number for number, result in NUMBERED.items()}
"""The number of each, which the command line takes as well as the name."""


def choose(only: Sequence[str] | None) -> list[Result]:
    """The results that are named or numbered, in the order of the page; all if None."""
    by_number = {str(number): result.name for number, result in NUMBERED.items()}
    names = {by_number.get(word, word) for word in only or ()}
    unknown = names - set(RESULTS)
    if unknown or (only is not None and not only):
        known = ", ".join(f"{number} {result.name}" for number, result in NUMBERED.items())
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
