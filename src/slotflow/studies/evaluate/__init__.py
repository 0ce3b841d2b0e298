"""Evaluation: what a posterior should reach, and whether it does."""

from slotflow.studies.evaluate.report import Report, Row, Target
from slotflow.studies.evaluate.suite import quick_report, run_suite

__all__ = [
    "Report",
    "Row",
    "Target",
    "quick_report",
    "run_suite",
]
