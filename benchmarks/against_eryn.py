"""2,000 effective draws of K = 3 tones on one core: the exact step of one signal beside tuned Eryn on the same signal.

    python benchmarks/against_eryn.py --out docs/data/against-eryn.json     # 5 signals, about a minute
    python benchmarks/against_eryn.py --size 1                              # a look

A signal's record is that of `slotflow evaluate --suite exact --only eryn` (`studies/suites/exact/tasks.py`), and so is
what follows from it (`time_rows.py`): our answer with its draws is timed five times and the median counts. Eryn's
chain is run for longer than needed, and the seconds that count are those of its warm-up and of as many steps as give
our number of effective draws, which follows from its autocorrelation time. It starts cold, as a user would start it,
and once more from the true tones. Both are timed by the clock in a process of one thread: nothing else should run.

How a batch on a GPU compares with these seconds is worked out in docs/performance.md, from this record and that of
`benchmarks/batch_exact.py --device cuda`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.suites.exact.parts import CHAIN, PARTS, Settings
from slotflow.studies.suites.exact.tasks import worker
from slotflow.studies.suites.exact.time_rows import eryn_rows
from slotflow.studies.suites.sizes import EXACT_DRAWS
from slotflow.studies.tasks import Record, Worker

PART = "eryn"
KEPT = ("seconds", "least_seconds", "warm_up_seconds", "effective", "r_hat", "autocorrelation")
"""What is kept of a chain."""


@dataclass(frozen=True)
class Timed:
    """Makes the worker of a process."""

    seed: int

    def __call__(self) -> Worker:
        return worker(Settings(seed=self.seed))


def kept(record: Record) -> dict[str, Any]:
    """What the record of a signal says of time."""
    chains = {start: {key: record[start][key] for key in KEPT} for start in ("cold", "truth")}
    return {key: record[key] for key in ("k", "seconds", "effective")} | chains


def main() -> None:
    """Times both and prints how they compare."""
    options = parse(__doc__, [PART], PARTS[PART].n)
    settings = {"draws": EXACT_DRAWS, "chain": dataclasses.asdict(CHAIN)}
    # No records are gone on from: they would be times of another day and another code.
    fresh = dataclasses.replace(options, out=None)
    records = records_of(fresh, Timed(options.seed), settings)[PART]
    rows = [
        {"measure": row.measure, "value": row.value, "note": row.note} for row in eryn_rows(records)
    ]
    write_json(options, settings, {"rows": rows, "signals": [kept(one) for one in records]})


if __name__ == "__main__":
    main()
