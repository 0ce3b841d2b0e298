"""The exact suite: every measure of the exact layer beside its target.

Signals are analysed one by one (`tasks.py`), over several processes if asked, and their records are kept in a store
that a later run goes on from (`core/store.py`); the rows follow from the records alone (`rows.py`). A record is found
again only if the weights, the settings and the code that it depends on are the same. Times are taken at the end, in one
process with nothing beside it.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from slotflow.core.progress import progress as progress_bar
from slotflow.core.store import ANSWERING_ROOMS, Store, identity, package_code
from slotflow.network.model import SlotFlow
from slotflow.studies.answers import weights_hash
from slotflow.studies.report import Report
from slotflow.studies.suites.exact.coverage_rows import TARGETS
from slotflow.studies.suites.exact.misfits import KINDS
from slotflow.studies.suites.exact.parts import PARTS, Settings
from slotflow.studies.suites.exact.rows import exact_details, exact_rows
from slotflow.studies.suites.exact.tasks import worker
from slotflow.studies.tasks import Record, Task, Worker, run_recorded

__all__ = ["GROUPS", "record_keys", "run_exact_suite", "sizes"]

GROUPS: dict[str, tuple[str, ...]] = {
    "nominal": ("nominal",),
    "stress": ("stress",),
    "frontier": ("frontier",),
    "weak": ("weak",),
    "evidence": ("evidence",),
    "correlation": ("correlation",),
    "misfit": KINDS,
    "time": ("time", "batch"),
    "eryn": ("eryn",),
}
"""What `only` can name, and the parts behind it."""
TIMED_KINDS = ("time", "batch", "eryn")
"""Kinds of parts whose times are taken, with nothing beside them."""
RECORDING_CODE = (
    *ANSWERING_ROOMS,
    "studies/answers",
    "studies/measures",
    "studies/suites/sets",
    "studies/suites/signals",
    "studies/suites/sizes",
    "studies/suites/exact/misfits",
    "studies/suites/exact/parts",
    "studies/suites/exact/reference",
    "studies/suites/exact/tasks",
)
"""Rooms and modules whose code decides what a record says."""
STORE_FILE = "exact.sqlite"
"""Name of the store in the folder of the records."""


def run_exact_suite(
    settings: Settings | None = None,
    n: int | None = None,
    jobs: int = 1,
    only: Sequence[str] | None = None,
    work: Path | None = None,
    progress: bool = False,
    make: Callable[[], Worker] | None = None,
) -> Report:
    """Evaluates the exact layer against the targets.

    Args:
        settings: Model, seed, draws and budgets.
        n: Signals of the sets nominal, stress, frontier and weak; of other parts at most that many. None: as many
            as the targets ask for.
        jobs: Processes; 0: this one.
        only: Some of `GROUPS`; all if None.
        work: Folder of the records; None: they are forgotten.
        progress: Whether to show a bar on standard error.
        make: Makes a process's worker; that of `tasks.py` if None.
    """
    settings = Settings() if settings is None else settings
    chosen = _choose(only)
    if jobs < 0 or (n is not None and n < 1):
        raise ValueError(f"expected jobs >= 0 and n >= 1, received {jobs} and {n}.")
    wanted = sizes(chosen, n)
    missing = find_spec("eryn") is None and wanted.pop("eryn", None) is not None
    if n is not None:
        settings = replace(settings, batch=min(settings.batch, n))
    start = time.perf_counter()
    parts, analysed = _records(settings, wanted, jobs, work, progress, make)
    rows = exact_rows(parts)
    if missing:
        note = "Eryn is not installed (extra baselines)"
        rows.append(TARGETS.row("times faster than Eryn", math.nan, undecided=True, note=note))
    facts = {
        "suite": "exact",
        "signals": {name: len(records) for name, records in parts.items()},
        "draws": settings.draws,
        "seed": settings.seed,
        "jobs": jobs,
        "machine": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "analysed": analysed,
        "seconds": round(time.perf_counter() - start, 2),
    }
    return Report(rows, [], exact_details(parts), facts)


def _records(
    settings: Settings,
    wanted: Mapping[str, int],
    jobs: int,
    work: Path | None,
    progress: bool,
    make: Callable[[], Worker] | None,
) -> tuple[dict[str, list[Record]], int]:
    """The records of each part in the order of its signals, from the store or analysed now, and how many were.

    Args:
        settings: Model, seed, draws and budgets.
        wanted: Signals of each part.
        jobs: Processes; 0: this one.
        work: Folder of the records; None: they are forgotten.
        progress: Whether to show a bar on standard error.
        make: Makes a process's worker; that of `tasks.py` if None.
    """
    keys = dict.fromkeys(wanted, "")
    if work is not None:
        weights = weights_hash(SlotFlow.from_pretrained(settings.model))
        keys = record_keys(settings, wanted, weights)
    tasks = [(name, i) for name, count in wanted.items() for i in range(count)]
    timed = [task for task in tasks if PARTS[task[0]].kind in TIMED_KINDS]
    rest = [task for task in tasks if PARTS[task[0]].kind not in TIMED_KINDS]
    chosen = partial(worker, settings) if make is None else make
    count, analysed = 0, 0
    with (
        Store(None if work is None else work / STORE_FILE) as store,
        progress_bar(len(tasks), "evaluate", quiet=not progress) as bar,
    ):

        def identify(task: Task) -> tuple[str, str]:
            name, i = task
            return f"{name}, seed {settings.seed}#{i}", keys[name]

        def done(name: str, new: bool) -> None:
            nonlocal count, analysed
            count, analysed = count + 1, analysed + new
            bar.update(count, set=name)

        found = run_recorded(rest, chosen, store, identify, done, jobs)
        found |= run_recorded(timed, chosen, store, identify, done, min(jobs, 1))
    parts = {name: [found[name, i] for i in range(count)] for name, count in wanted.items()}
    return parts, analysed


def sizes(groups: Sequence[str], n: int | None) -> dict[str, int]:
    """Signals of each part of some groups; a batch is one task."""
    wanted: dict[str, int] = {}
    for group in groups:
        for name in GROUPS[group]:
            part = PARTS[name]
            if part.kind == "batch":
                wanted[name] = 1
            elif part.kind == "posterior":
                wanted[name] = part.n if n is None else n
            else:
                wanted[name] = part.n if n is None else min(part.n, n)
    return wanted


def record_keys(
    settings: Settings, parts: Sequence[str] | Mapping[str, int], weights: str
) -> dict[str, str]:
    """The identity of the records of each part: a hash of the weights, the code and the settings behind them.

    Args:
        settings: Model, seed, draws and budgets.
        parts: Names of the parts.
        weights: Hash of the network's weights.
    """
    code = package_code(RECORDING_CODE)
    return {
        name: identity(settings=_shaping(settings, name), weights=weights, code=code)
        for name in parts
    }


def _shaping(settings: Settings, name: str) -> dict[str, Any]:
    """The settings that the records of a part depend on, as plain values."""
    part = PARTS[name]
    shaping: dict[str, Any] = {
        "part": asdict(part) | {"n": None},  # as many signals as one likes
        "seed": settings.seed,
        "draws": settings.draws,
        "max_seconds": settings.max_seconds,
    }
    if part.kind == "batch":
        shaping["batch"] = settings.batch
    if part.kind in ("evidence", "correlation"):
        options = settings.long if part.kind == "evidence" else settings.longer
        shaping["reference"] = asdict(options)
    if part.kind == "eryn":
        shaping["chain"] = asdict(settings.chain)
    return shaping


def _choose(only: Sequence[str] | None) -> list[str]:
    """The groups to run, in their order."""
    unknown = set(only or ()) - set(GROUPS)
    if unknown or (only is not None and not only):
        raise ValueError(
            f"expected some of {', '.join(GROUPS)}, received {', '.join(sorted(unknown)) or 'none'}."
        )
    return [name for name in GROUPS if only is None or name in only]
