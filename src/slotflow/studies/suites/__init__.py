"""Suites: fresh test signals, analysed and measured, every measure beside its target.

- `sets`: the sets of test signals and the loop that analyses them in batches.
- `model`, `model_rows`: the suite of a network and the rows of its report.
- `rivals`: the classical estimator on the same signals; `timing`: signals per second.
- `exact/`: the suite of the exact step, signal by signal over several processes.
"""

from slotflow.studies.report import Report
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.model import quick_report, run_suite

__all__ = ["Report", "Row", "Target", "quick_report", "run_suite"]
