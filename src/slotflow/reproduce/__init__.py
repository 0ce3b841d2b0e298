"""The paper's results from this software: one module per result, our value beside the paper's."""

from slotflow.reproduce.bench import Bench, Settings
from slotflow.reproduce.entry import Comparison, Result
from slotflow.reproduce.exact_step import ExactStep
from slotflow.reproduce.registry import RESULTS, choose
from slotflow.reproduce.runner import reproduce

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
