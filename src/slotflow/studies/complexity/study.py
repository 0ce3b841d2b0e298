"""Study `sample_complexity`: how many training signals a loss needs, and how that grows with K (paper, B.3)."""

from __future__ import annotations

from slotflow.studies.complexity.pictures import plot
from slotflow.studies.complexity.rounds import gather, measure, rounds, signals
from slotflow.studies.complexity.rows import compare
from slotflow.studies.frame.study import Study

__all__ = ["SAMPLE_COMPLEXITY"]

SAMPLE_COMPLEXITY = Study(
    name="sample_complexity",
    title="Sample complexity",
    section="B.3, 4.3",
    claim="For every K the validation loss falls with the number N of training signals and gets below 0 before 10,000. "
    "The least N grows with K, but weakly: sub-linearly, with one value from K = 4 on, far below a K³ curve, since the "
    "architecture dominates the bound of theorem 4.2 (regime I of table 4).",
    caption="Left and middle: validation loss after early stopping against the size of the training set, means and "
    "standard errors over seeds, which are the faint dots; lines are the losses to reach. Right: the least training "
    "set for the solid line's loss, and for a score −ln q(A, φ, f | x) of 0. A filled triangle: the smallest set is "
    "enough. An open one: the largest is not. Dotted: K³ curves through K = 2.",
    code=(
        "studies/complexity",
        "studies/ablations/errors",
        "studies/slots",
        "studies/trainings",
        "train",
    ),
    rounds=rounds,
    signals=signals,
    measure=measure,
    gather=gather,
    compare=compare,
    plot=plot,
)
