"""The exact suite: every measure of the exact layer beside its target.

Signals are analysed one by one (`exact_tasks.py`), over several processes if asked, and their records are kept in a
folder that a later run goes on from (`exact_work.py`); the rows follow from the records alone (`exact_rows.py`). Times
are taken at the end, in one process with nothing beside it.
"""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from slotflow.core.progress import progress as progress_bar
from slotflow.studies.report import Report
from slotflow.studies.suites.exact.coverage_rows import TARGETS
from slotflow.studies.suites.exact.misfits import KINDS
from slotflow.studies.suites.exact.parts import PARTS, Settings
from slotflow.studies.suites.exact.rows import exact_details, exact_rows
from slotflow.studies.suites.exact.tasks import worker
from slotflow.studies.tasks import Ledger, Record, Worker, run_tasks

__all__ = ["GROUPS", "fingerprint", "run_exact_suite", "sizes"]

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
TIMED = ("time", "batch", "eryn")
"""Kinds of parts whose times are taken, with nothing beside them."""
RECORDING = ("exact_reference.py", "exact_sets.py", "exact_tasks.py", "misfits.py")
"""Modules of the evaluation that decide what a record says."""


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
        make: Makes a process's worker; that of `exact_tasks.py` if None.
    """
    settings = Settings() if settings is None else settings
    chosen = _choose(only)
    if jobs < 0 or (n is not None and n < 1):
        raise ValueError(f"expected jobs >= 0 and n >= 1, received {jobs} and {n}.")
    wanted = sizes(chosen, n)
    missing = find_spec("eryn") is None and wanted.pop("eryn", None) is not None
    if n is not None:
        settings = replace(settings, batch=min(settings.batch, n))
    ledgers = {
        name: Ledger(
            None if work is None else work / f"{name}-{settings.seed}.jsonl",
            _made(settings, name),
        )
        for name in wanted
    }
    tasks = [
        (name, i)
        for name, count in wanted.items()
        for i in range(count)
        if i not in ledgers[name].records
    ]
    timed = [task for task in tasks if PARTS[task[0]].kind in TIMED]
    rest = [task for task in tasks if task not in timed]
    start = time.perf_counter()
    total = sum(wanted.values())
    with progress_bar(total, "evaluate", quiet=not progress) as bar:
        count = total - len(tasks)

        def done(part: str, record: Record) -> None:
            nonlocal count
            count += 1
            ledgers[part].add(record)
            bar.update(count, set=part)

        chosen_worker = partial(worker, settings) if make is None else make
        for some, processes in ((rest, jobs), (timed, min(jobs, 1))):
            if some:
                run_tasks(some, chosen_worker, done, processes)
    parts = {name: ledgers[name].first(count) for name, count in wanted.items()}
    seconds = time.perf_counter() - start
    facts = {
        "suite": "exact",
        "signals": {name: len(records) for name, records in parts.items()},
        "draws": settings.draws,
        "seed": settings.seed,
        "jobs": jobs,
        "machine": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "analysed": len(tasks),
        "seconds": round(seconds, 2),
    }
    rows = exact_rows(parts)
    if missing:
        note = "Eryn is not installed (extra baselines)"
        rows.append(TARGETS.row("times faster than Eryn", math.nan, undecided=True, note=note))
    return Report(rows, [], exact_details(parts), facts)


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


def fingerprint(folders: Sequence[str] = ("exact", "evaluate")) -> str:
    """A few characters that change with the code that the records depend on."""
    digest = hashlib.sha256()
    package = resources.files("slotflow")
    for folder in folders:
        files = [f for f in (package / folder).iterdir() if f.name.endswith(".py")]
        for file in sorted(files, key=lambda f: f.name):
            if folder != "evaluate" or file.name in RECORDING:
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _made(settings: Settings, name: str) -> Mapping[str, Any]:
    """How the records of a part are made, as plain values."""
    made: dict[str, Any] = {"part": name, "code": fingerprint()} | {
        key: value
        for key, value in asdict(settings).items()
        if key in ("model", "seed", "draws", "max_seconds")
    }
    kind = PARTS[name].kind
    if kind == "batch":
        made["batch"] = settings.batch
    if kind in ("evidence", "correlation"):
        options = settings.long if kind == "evidence" else settings.longer
        made["reference"] = asdict(options)
    if kind == "eryn":
        made |= {"chain": asdict(settings.chain), "sampler": fingerprint(("baselines",))}
    return made


def _choose(only: Sequence[str] | None) -> list[str]:
    """The groups to run, in their order."""
    unknown = set(only or ()) - set(GROUPS)
    if unknown or (only is not None and not only):
        raise ValueError(
            f"expected some of {', '.join(GROUPS)}, received {', '.join(sorted(unknown)) or 'none'}."
        )
    return [name for name in GROUPS if only is None or name in only]
