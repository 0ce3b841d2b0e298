"""The paper's results from this software, our value beside the paper's.

- `bench`: sizes, seed, the network, and test sets that are analysed once; `exact_step`: sets behind the exact step.
- `pooled`: the paper's network on batches of test signals.
- `result`: what a result consists of; `registry`: all of them, in the order of the page.
- `runner`: makes results and keeps them in `files`; `words`, `markdown`, `html`: the page that shows them.
- One module or folder for each result, named as on the command line.
"""

from slotflow.studies.paper.bench import Bench, Settings
from slotflow.studies.paper.exact_step import ExactStep
from slotflow.studies.paper.registry import RESULTS, choose
from slotflow.studies.paper.result import Result
from slotflow.studies.paper.runner import reproduce

__all__ = ["RESULTS", "Bench", "ExactStep", "Result", "Settings", "choose", "reproduce"]
