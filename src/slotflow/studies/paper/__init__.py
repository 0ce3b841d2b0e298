"""The paper's results from this software: one module per result, our value beside the paper's."""

from slotflow.studies.paper.bench import Bench, Settings
from slotflow.studies.paper.entry import Comparison, Result
from slotflow.studies.paper.exact_step import ExactStep
from slotflow.studies.paper.registry import RESULTS, choose
from slotflow.studies.paper.runner import reproduce

__all__ = [
    "RESULTS",
    "Bench",
    "Comparison",
    "ExactStep",
    "Result",
    "Settings",
    "choose",
    "reproduce",
]
