"""A catalogue of many signals in one call: here, in a process of its own, as a shard, or on a Dask cluster.

It is the work of ``slotflow infer --out`` on several signals, and writes the same files. Either goes on where the other
was stopped, if the question is the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotflow.core.files import PathLike
from slotflow.core.progress import progress
from slotflow.data.observation import Observation
from slotflow.data.read.files import find_files
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import count_signals
from slotflow.infer.statement import Statement
from slotflow.many.cluster import DaskCluster
from slotflow.many.ledger import FILE, Ledger
from slotflow.many.plan import CHUNK, Plan, Shard
from slotflow.many.results import Wanted, Writer, stems
from slotflow.many.run import Run
from slotflow.many.tables import component_rows, signal_rows
from slotflow.many.work import FEW_SIGNALS, Work, seconds_within
from slotflow.network.model import SlotFlow, with_method

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Catalogue", "RunSettings", "catalogue"]

IN_MEMORY = Path("observations")
"""What stands for a file where signals are not read from one."""

Source = PathLike | Observation | Iterable[Observation] | Iterable[PathLike]


@dataclass(frozen=True)
class RunSettings:
    """How a catalogue is made; each field is a keyword of `catalogue`."""

    timeout: float | None = None
    """Seconds that one signal may take; it is then stopped and listed as failed."""
    supervised: bool = False
    """Whether the work is done in a process of its own, so that a signal that ends it is listed. Implied by a timeout,
    a shard and a client."""
    shard: str | None = None
    """One of several equal parts, such as "3/200"; its results go to a folder of its own in ``out``."""
    chunk: int = CHUNK
    """Signals that go through the network together, and to one machine."""
    samples: int = 1000
    """Draws to summarize and to write."""
    save: bool = False
    """Whether each signal gets a folder with its posterior."""
    scatter: bool = False
    """Whether workers of a cluster are sent the signals, as they do not see the files."""
    parquet: bool = False
    """Whether the catalogue is written as a Parquet file too."""
    force: bool = False
    """Whether to forget what an earlier run has left in ``out``."""
    quiet: bool = True
    """Whether to show no progress."""
    reading: ReadOptions = field(default_factory=ReadOptions)
    """How files are read."""


@dataclass(frozen=True)
class Catalogue:
    """What was found in many signals."""

    components: pd.DataFrame
    """One row per component, with the verdict on its signal."""
    signals: pd.DataFrame
    """One row per signal."""
    failed: pd.DataFrame
    """Signals that could not be analysed, with their errors."""
    computed: int
    """Signals that this run has analysed; the others were done before."""
    files: dict[str, str]
    """The tables that were written."""


def catalogue(
    source: Source,
    out: PathLike | None = None,
    client: Any = None,
    *,
    model: str | Path | None = None,
    prior: Any = None,
    **options: Any,
) -> Catalogue:
    """Analyses many signals.

    Args:
        source: Files, folders or patterns, or the observations themselves.
        out: Folder of the results. A later run into it goes on where this one was stopped; None writes nothing.
        client: A `distributed.Client` of a Dask cluster that does the work; files must be where its workers see them
            under the same path. Observations are sent to them.
        model: Name or file of the network; None for the default one.
        prior: What is stated of the prior, as in `SlotFlow.infer`.
        **options: Fields of `RunSettings`, and further keywords of `SlotFlow.infer` such as ``method``, ``noise``,
            ``seed`` and ``max_seconds`` (of each signal).
    """
    names = {one.name for one in fields(RunSettings)}
    settings = RunSettings(**{name: options.pop(name) for name in names & options.keys()})
    plan = _plan(source, settings)
    if plan.idle:
        warnings.warn(plan.idle, stacklevel=2)
    folder = None if out is None else Path(out)
    if folder is not None and plan.shard is not None:
        folder /= plan.shard.folder
    work = _work(plan, folder, settings, model, prior, options)
    desk = work.desk()  # before anything is written, as it refuses what cannot be asked
    with Ledger(None if folder is None else folder / FILE, settings.force) as ledger:
        run = Run(
            work,
            plan,
            desk,
            ledger,
            folder,
            supervised=settings.supervised
            or settings.timeout is not None
            or plan.shard is not None,
            timeout=settings.timeout,
            cluster=None
            if client is None
            else DaskCluster(client, work.pickled(), settings.timeout),
            scatter=settings.scatter,
            parquet=settings.parquet,
        )
        with (
            closing(run.answers()) as answers,
            progress(len(plan.places), "catalogue", quiet=settings.quiet) as bar,
        ):
            for seen, _ in enumerate(answers, 1):
                bar.update(seen)
        return _catalogue(run, ledger)


def _catalogue(run: Run, ledger: Ledger) -> Catalogue:
    """The tables of a run that is over, written and as data frames."""
    import pandas as pd

    files = run.tables()
    failed = pd.DataFrame(run.failures(), columns=["file", "signal", "signals", "error"])
    components = pd.DataFrame(component_rows(ledger))
    return Catalogue(components, pd.DataFrame(signal_rows(ledger)), failed, run.computed, files)


def _plan(source: Source, settings: RunSettings) -> Plan:
    """The signals, and those that are analysed here."""
    shard = None if settings.shard is None else Shard.parsed(settings.shard)
    if isinstance(source, Observation):
        source = [source]
    given: Sequence[Any] = [source] if isinstance(source, str | Path) else list(source)  # type: ignore[arg-type]
    if not given:
        raise ValueError("expected files or observations, received none.")
    if all(isinstance(one, Observation) for one in given):
        return Plan([IN_MEMORY], [len(given)], size=settings.chunk, shard=shard, observations=given)
    files = find_files([Path(one) for one in given])
    counts = [count_signals(file, settings.reading) for file in files]
    return Plan(files, counts, size=settings.chunk, shard=shard)


def _work(
    plan: Plan,
    folder: Path | None,
    settings: RunSettings,
    model: str | Path | None,
    prior: Any,
    options: dict[str, Any],
) -> Work:
    """What is asked of every signal."""
    if isinstance(model, SlotFlow):
        raise ValueError(
            "expected the name or the file of a network, which other processes can load, received a SlotFlow; save it "
            "and give its path."
        )
    asked: dict[str, Any] = {"seed": 0, "threads": None} | options
    asked |= with_method(asked.pop("refine", True), asked)  # type: ignore[arg-type]
    method = asked.pop("method", "exact")
    counts = dict(zip(plan.files, plan.counts, strict=True))
    wanted, kept = Wanted(folder), settings.save or plan.total == 1
    writer = Writer(wanted, settings.samples, asked["seed"], stems(list(plan.files)), counts, kept)
    if method == "exact" and (within := seconds_within(settings.timeout)) is not None:
        asked.setdefault("max_seconds", within)
    seconds = asked.get("max_seconds")
    each = {} if seconds is None else {"seconds_each": seconds}
    return Work(
        writer,
        Statement.of(prior, asked.pop("k_prior", None)),
        method,
        asked,
        settings.reading,
        model,
        asked.pop("device", None),
        full=plan.total <= FEW_SIGNALS,
        facts={"sampler": {}, "seconds": None, "shown": (None, wanted.phase_at)} | each,
    )
