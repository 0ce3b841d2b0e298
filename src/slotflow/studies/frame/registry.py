"""The studies by name."""

from __future__ import annotations

from slotflow.studies.ablations.depth import DEPTH
from slotflow.studies.ablations.domain import DOMAIN
from slotflow.studies.ablations.phase_weight import PHASE_WEIGHT
from slotflow.studies.comparators.leaderboard import LEADERBOARD
from slotflow.studies.complexity.study import SAMPLE_COMPLEXITY
from slotflow.studies.frame.settings import NAMES
from slotflow.studies.frame.study import Study
from slotflow.studies.theory.distinguishable.study import DISTINGUISHABLE
from slotflow.studies.theory.elbo.study import ELBO
from slotflow.studies.theory.formulas import FORMULAS
from slotflow.studies.theory.gradient.study import GRADIENT
from slotflow.studies.zoom_scaling.study import ZOOM_SCALING

__all__ = ["STUDIES", "find_study"]

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        FORMULAS,
        ELBO,
        GRADIENT,
        DISTINGUISHABLE,
        DOMAIN,
        PHASE_WEIGHT,
        DEPTH,
        SAMPLE_COMPLEXITY,
        LEADERBOARD,
        ZOOM_SCALING,
    )
}
"""All studies by name, in the order of the page."""


def find_study(name: str) -> Study:
    """The study of a name."""
    if name not in STUDIES:
        raise ValueError(f"expected one of {', '.join(NAMES)}, received {name!r}.")
    return STUDIES[name]
