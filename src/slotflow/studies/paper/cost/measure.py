r"""Time and memory of the network, of the exact step and of their rivals, on one machine in one run.

Every method runs in a fresh process of its own with one thread (`worker.py`), one after the other, on the same signals:
nominal ones with σ from 0.5 to 1. `methods.py` says what counts as the time of an answer, `measures/memory.py` what
counts as its memory, and `steps.py` what each process does.

Preset `paper` takes part with random weights. Where it is the network itself it has its own, and there is no exact
step: the exact posterior that it is compared with elsewhere is that of the default network's proposals.

**Memory** is that of the first answer at the largest K that all methods were asked for, which is 5 as in the paper's
table where the size allows it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from slotflow.network.paper.model import PaperSlotFlow
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.cost.methods import LABELS, SAMPLERS, WANTED
from slotflow.studies.paper.cost.plot import plot
from slotflow.studies.paper.cost.steps import DRAWN_K, FULL, SMALL, Sizes, count_steps, steps_of
from slotflow.studies.paper.cost.table import compare
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.settings import Settings
from slotflow.studies.tasks import THREAD_VARIABLES

__all__ = ["COST", "measure", "measured"]

FULL_SIZE_FROM = 1000
"""Signals of a test set from which on the cost is measured at full size."""
ERYN_MISSING = "Eryn is not installed; pip install 'slotflow[baselines]'"

_found: WeakKeyDictionary[Bench, Data] = WeakKeyDictionary()


def _sizes(settings: Settings) -> Sizes:
    """Full or small."""
    return FULL if settings.n >= FULL_SIZE_FROM else SMALL


# ---------------------------------------------------------------------- numbers


def _run(bench: Bench) -> Data:
    """All methods, one after the other."""
    _found[bench] = found = measure(bench, _sizes(bench.settings))
    return found


def measured(bench: Bench) -> Data | None:
    """What a bench has measured before, if it has."""
    return _found.get(bench)


def measure(bench: Bench, sizes: Sizes, curves: bool = True) -> Data:
    """Times and memory of all methods that are installed.

    Args:
        bench: The network and the seed; its `advance` is called after every step.
        sizes: How much to measure.
        curves: Whether to measure the network without draws, at every K, and with other numbers of draws, too.
    """
    model, methods, skipped = bench.network(), {}, {}
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "model.safetensors"
        model.save(weights)
        task = {
            "weights": str(weights),
            "seed": bench.settings.seed,
            "effective": sizes.effective,
            "particles": sizes.particles,
        }
        for name in LABELS:
            steps = steps_of(name, sizes, curves)
            if name in ("paper", "exact") and isinstance(model, PaperSlotFlow):
                bench.advance(len(steps))
                continue
            if name == "rjmcmc" and find_spec("eryn") is None:
                skipped[name] = ERYN_MISSING
                bench.advance(len(steps))
                continue
            records = []
            for record in _records(
                task | {"method": name, "steps": [asdict(step) for step in steps]}
            ):
                records.append(record)
                if name in SAMPLERS and record["kind"] == "first":
                    records.append(record | {"kind": "answer"})
                bench.advance(1)
            methods[name] = _summary(records)
    return {
        "wanted": WANTED,
        "table_k": sizes.table_k,
        "drawn_k": DRAWN_K,
        "particles": sizes.particles,
        "methods": methods,
        "skipped": skipped,
    }


def _records(task: Data) -> Iterator[Data]:
    """The lines of a process that works on one method's task."""
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, "1")
    words = [sys.executable, "-m", "slotflow.studies.paper.cost.worker"]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            encoding="utf-8", env=environment,
        ) as process:  # fmt: skip
            try:
                assert process.stdin is not None and process.stdout is not None  # both are pipes
                process.stdin.write(json.dumps(task))
                process.stdin.close()
                for line in process.stdout:
                    yield json.loads(line)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            lines = errors.read().strip().splitlines()
            raise RuntimeError(
                f"measuring {LABELS[task['method']]} ended with {process.returncode}: "
                f"{lines[-1] if lines else 'no message'}"
            )


def _summary(records: list[Data]) -> Data:
    """Records of one method by kind."""
    first = next(r for r in records if r["kind"] == "first")
    python = [r["bytes"] for r in records if r["kind"] == "python"]
    drawn = [r for r in records if r["kind"] == "draws"]
    return {
        "by_k": _by_k(records, "answer"),
        "forward": _by_k(records, "forward"),
        "by_draws": [{"n": r["draws"], "seconds": r["seconds"]} for r in drawn],
        "first_seconds": first["seconds"],
        "process_before": first["before"],
        "process_peak": first["peak"],
        "python_peak": python[0],
        "python_forward": python[1] if len(python) > 1 else None,
    }


def _by_k(records: list[Data], kind: str) -> list[Data]:
    """Geometric mean over the signals of each K, the standard error of its logarithm, and what went with it."""
    found = []
    chosen = [r for r in records if r["kind"] == kind]
    for k in sorted({r["k"] for r in chosen}):
        here = [r for r in chosen if r["k"] == k]
        logs = np.log([r["seconds"] for r in here])
        n = len(here)
        entry: Data = {"k": k, "signals": n, "seconds": math.exp(logs.mean())}
        entry["log_error"] = float(logs.std(ddof=1)) / math.sqrt(n) if n > 1 else None
        if "effective" in here[0]:
            entry["effective"] = float(np.median([r["effective"] for r in here]))
            entry["right"] = sum(r["k_map"] == k for r in here)
        found.append(entry)
    return found


COST = Result(
    name="cost",
    title="Time and memory",
    section="5.2, table 3",
    caption="Left: time of 1,000 effective draws against K for all methods, and of the network without draws. Middle: "
    "time against the number of draws. Right: memory of a fresh process. Squares are what modules and weights take "
    "before the first answer, diamonds what the answer adds at its peak, and circles the part of it that Python's "
    "allocator sees. The dashed line is what the paper prints for its network.",
    uses=("n", "seed", "model"),
    work=lambda settings: count_steps(_sizes(settings)),
    run=_run,
    compare=compare,
    plot=plot,
)
