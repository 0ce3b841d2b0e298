r"""Time and memory of the network, of the exact step and of their rivals, on one machine in one run.

Every method runs in a fresh process of its own with one thread (`cost_worker.py`), one after the other, on the same
signals: nominal ones with σ from 0.5 to 1. What a time and what a memory is, `methods.py` and `memory.py` say.

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
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from slotflow.studies.paper.bench import Bench, Settings
from slotflow.studies.paper.comparison.three_tones import network
from slotflow.studies.paper.cost.methods import LABELS, SAMPLERS, WANTED
from slotflow.studies.paper.cost.plot import plot
from slotflow.studies.paper.cost.table import compare
from slotflow.studies.paper.cost.worker import FEWEST_DRAWS
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.tasks import THREAD_VARIABLES

__all__ = ["COST", "SMALL", "Sizes", "count_steps", "measure", "measured"]

COUNTS = tuple(range(1, 11))
DRAWN_K = 5
"""K at which the number of draws varies."""
FULL_SIZE_FROM = 1000
"""Signals of a test set from which on the cost is measured at full size."""
ERYN_MISSING = "Eryn is not installed; pip install 'slotflow[baselines]'"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    signals: int
    """Signals of each K,"""
    sampled: int
    """and of the samplers."""
    repeats: int
    """Timed calls for each signal; the median counts. Samplers and the published size are asked once."""
    counts: tuple[int, ...]
    """K of the methods' table,"""
    counts_smc: tuple[int, ...]
    """of SMC, which takes longest,"""
    counts_rjmcmc: tuple[int, ...]
    """and of RJMCMC."""
    draws: tuple[int, ...]
    """Numbers of draws."""
    effective: float
    """Effective draws after which a chain ends."""
    particles: int
    """Of SMC."""

    def of(self, name: str) -> tuple[int, ...]:
        """K that a method is asked for."""
        return {"smc": self.counts_smc, "rjmcmc": self.counts_rjmcmc}.get(name, self.counts)

    @property
    def table_k(self) -> int:
        """The largest K that all methods are asked for."""
        return max(set(self.counts) & set(self.counts_smc) & set(self.counts_rjmcmc))


FULL = Sizes(
    8, 3, 5, (1, 2, 5, 8), (1, 2, 5), (1, 2, 5, 8), (1, 10, 100, 1000, 10_000), 2000.0, 1000
)
SMALL = Sizes(1, 1, 1, (1, 2, 5), (1, 2), (1, 2), (1, 10, 100, 1000), 500.0, 96)

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
        bench: The network, the seed and whom to tell of every step.
        sizes: How much to measure.
        curves: Whether to measure the network without draws, at every K, and with other numbers of draws, too.
    """
    model, methods, skipped = network(bench), {}, {}
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
            steps = _steps(name, sizes, curves)
            if name == "rjmcmc" and find_spec("eryn") is None:
                skipped[name] = ERYN_MISSING
                bench.advance(len(steps))
                continue
            records = []
            for record in _records(task | {"method": name, "steps": steps}):
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


def _steps(name: str, sizes: Sizes, curves: bool) -> list[Data]:
    """What a method's process does, in its order."""
    own, sampler = name in ("network", "exact"), name in SAMPLERS
    repeats = sizes.repeats if own or name == "classical" else 1
    at = {"k": sizes.table_k, "i": 0}
    steps: list[Data] = [{"kind": "first"} | at, {"kind": "python"} | at]
    counts = COUNTS if own and curves else sizes.of(name)
    for k in counts:
        for i in range(sizes.sampled if sampler else sizes.signals):
            if not (sampler and {"k": k, "i": i} == at):  # a sampler's first answer counts as well
                steps.append({"kind": "answer", "k": k, "i": i, "repeats": repeats})
    if name == "network":
        steps.append({"kind": "python", "forward": True} | at)
    if name == "network" and curves:
        for k in COUNTS:
            for i in range(sizes.signals):
                steps.append({"kind": "forward", "k": k, "i": i, "repeats": repeats})
    if own and curves:
        exact = name == "exact"
        for n in sizes.draws:
            if n >= FEWEST_DRAWS or not exact:
                steps.append(
                    {"kind": "draws", "k": DRAWN_K, "i": 0, "n": n, "exact": exact}
                    | {"repeats": repeats}
                )
    return steps


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
        "by_draws": [{"n": r["n"], "seconds": r["seconds"]} for r in drawn],
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


def count_steps(sizes: Sizes, curves: bool = True) -> int:
    """Steps of all methods; arguments as of `measure`."""
    return sum(len(_steps(name, sizes, curves)) for name in LABELS)


COST = Result(
    name="cost",
    title="Time and memory",
    section="5.2, table 3",
    caption="Left: time of 1,000 effective draws against K, all methods, and of the network without a draw. Middle: "
    "time against the number of draws. Right: peak memory of a fresh process, pale what modules and weights take "
    "before the first answer, in brackets what comes on top; dots what Python's allocator sees of the answer.",
    uses=("n", "seed", "model"),
    work=lambda settings: count_steps(_sizes(settings)),
    run=_run,
    compare=compare,
    plot=plot,
)
