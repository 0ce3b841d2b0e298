"""Evaluation: what a posterior should reach, and whether it does."""

from slotflow.evaluate.bounds import crb_covariance, crb_std, fisher_matrix
from slotflow.evaluate.report import Report, Row, Target
from slotflow.evaluate.suite import quick_report, run_suite

__all__ = [
    "Report",
    "Row",
    "Target",
    "crb_covariance",
    "crb_std",
    "fisher_matrix",
    "quick_report",
    "run_suite",
]
