"""A run of `slotflow infer`: from what the command line says to results on the terminal and in files."""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from slotflow.cli import output
from slotflow.cli.display import Display
from slotflow.cli.machines import Machines
from slotflow.cli.request import MOST_SAVED, Computation, Request, Sampler
from slotflow.cli.watch import Watch
from slotflow.core.methods import SAMPLERS
from slotflow.core.progress import progress
from slotflow.data.read.files import find_files
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import count_signals
from slotflow.many.budget import Budget
from slotflow.many.cluster import DaskCluster, connected
from slotflow.many.ledger import FILE, Ledger
from slotflow.many.plan import Plan, Shard
from slotflow.many.results import Writer, stems
from slotflow.many.run import Run
from slotflow.many.work import FEW_SIGNALS, Work, seconds_within
from slotflow.network.model import SlotFlow
from slotflow.signal.waveforms import TONE
from slotflow.train.processes import stop_signals

__all__ = ["Session"]


class Session:
    """One run of the command.

    Args:
        request: What the command line says.
        watch: Shows what is being done.
        started: When the command began, by `time.perf_counter`.
    """

    def __init__(self, request: Request, watch: Watch, started: float) -> None:
        computation, results = request.computation, request.results
        _check(request)
        self.watch = watch
        self.open = ExitStack()
        stated, levels = request.prior.stated()
        self.network = SlotFlow.from_pretrained(computation.model, device=computation.device)
        _check_network(self.network)
        files = find_files(request.files)
        if request.data.short is not None and len(files) > 1:
            raise ValueError(
                f"--short goes with one file, received {len(files)}; analyse them one by one."
            )
        self.start = time.perf_counter()
        self.results = results
        options = request.data.options(levels)
        if request.data.join:
            files, options = files[:1], replace(options, further=tuple(files[1:]))
        plan = _plan(request, files, options)
        total, self.total = plan.total, len(plan.places)
        if plan.idle:
            output.complain("warning", plan.idle)
        if results.report is not None and total > 1:
            raise ValueError(
                f"--report shows one signal, received {total}; analyse them without it, then write a page for each "
                "that matters: Posterior.load(file).report(page)."
            )
        self.out = out = _folder(results.out, plan.shard)
        method = computation.method if computation.refine else "network"
        asked = _options(request, method, self.total)
        each = asked.get("max_seconds") if computation.max_seconds is None else None
        work = Work(
            _writer(request, plan, out),
            stated,
            method,
            asked,
            options,
            computation.model,
            None if computation.device is None else str(computation.device),
            full=results.as_json or total <= FEW_SIGNALS,
            facts={
                "sampler": {n: v for n, v in asdict(request.sampler).items() if v is not None},
                "seconds": computation.max_seconds,
                "shown": (results.frequency_unit, results.phase_at),
            }
            | ({} if each is None else {"seconds_each": each}),
            asked=_asked(computation, method, self.network.config.name),
        )
        self.method = method
        desk = work.desk(self.network, _budget(request, method, started, self.total))
        many = out is not None and (total > 1 or plan.shard is not None)
        self.ledger = Ledger(out / FILE, results.force) if many and out is not None else None
        self.run_of = Run(
            work,
            plan,
            desk,
            self.ledger,
            out,
            supervised=request.machines.supervised,
            timeout=request.machines.timeout,
            cluster=self._cluster(work, request.machines),
            scatter=request.machines.scatter,
            parquet=results.parquet,
        )
        self.display = Display(total, results)

    def _cluster(self, work: Work, machines: Machines) -> DaskCluster | None:
        """The cluster that does the work, if one is asked for; it is left when the session ends."""
        if machines.dask is None:
            return None
        client = self.open.enter_context(connected(machines.dask))
        if not self.results.quiet and not self.results.as_json:
            output.console.print(f"Dask: {client.scheduler.address}, {client.dashboard_link}")
        return DaskCluster(client, work.pickled(), machines.timeout)

    def run(self) -> None:
        """Answers all signals, and closes the run."""
        stopped: KeyboardInterrupt | None = None
        tables: dict[str, str] = {}
        if self.total > 1 or self.method in SAMPLERS:  # they have bars of their own
            self.watch.close()
        with (
            self.open,
            # Of many signals the one under way is finished; a second Ctrl-C does not wait for it.
            stop_signals() if self.total > 1 else nullcontext(threading.Event()) as stop,
            progress(self.total, "infer", quiet=self.results.quiet or self.total == 1) as bar,
            nullcontext() if self.ledger is None else self.ledger,
        ):
            seen = 0
            try:
                with closing(self.run_of.answers()) as answers:
                    for answer in answers:
                        if answer.record is not None:
                            self.display.add(answer.record)
                        seen += answer.count
                        bar.update(seen)
                        if stop.is_set():
                            raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                stopped = error
            if self.display.done or self.run_of.failed:
                tables = self.run_of.tables()
        self._close(tables, stopped)

    def _close(self, tables: dict[str, str], stopped: KeyboardInterrupt | None) -> None:
        """Lists what failed, shows what is left to show, and ends with the exit code."""
        self.watch.close()
        failed, computed = self.run_of.failures(), self.run_of.computed
        bad = sum(entry["signals"] for entry in failed)
        if bad and not self.display.done and stopped is None:
            more = "" if bad == 1 else f" (all {bad} signals failed)"
            raise ValueError(failed[0]["error"] + more)
        seconds = time.perf_counter() - self.start
        facts = {
            "model": self.network.config.name,
            "method": self.method,
            "seconds": seconds,
            "computed": computed,
            "signals_per_second": computed / seconds,
            "files": tables,
        }
        self.display.close(facts, failed, output.device_name(self.network.device))
        if stopped is not None:
            where = f" and kept in {self.out}" if self.out is not None and self.display.done else ""
            raise KeyboardInterrupt(f"{self.display.done} of {self.total} signals were done{where}")
        if bad:
            listed = f"; {tables['failed']} lists them" if "failed" in tables else ""
            output.complain("failed", f"{bad} of {self.total} signals{listed}")
            raise typer.Exit(1)


def _check_network(network: SlotFlow) -> None:
    """Refuses a network that the command line cannot ask."""
    if network.config.prior.waveform != TONE:
        raise ValueError(
            f"the model {network.config.name!r} is for {network.config.prior.waveform.text} and works only from "
            "Python: SlotFlow.from_pretrained(model).infer(observation); on the command line, leave out --model and "
            "give --classes."
        )


def _plan(request: Request, files: list[Path], options: ReadOptions) -> Plan:
    """The signals of the files, and those of them that are analysed here."""
    one = request.signal is not None
    counts = [1 if one else count_signals(file, options) for file in files]
    machines = request.machines
    shard = None if machines.shard is None else Shard.parsed(machines.shard)
    return Plan(files, counts, request.signal, machines.chunk, shard)


def _folder(out: Path | None, shard: Shard | None) -> Path | None:
    """The folder of the results; that of a shard lies in the one that is named."""
    return out if out is None or shard is None else out / shard.folder


def _writer(request: Request, plan: Plan, out: Path | None) -> Writer:
    """Who writes the files of each signal."""
    results, computation, total = request.results, request.computation, plan.total
    kept = results.plot or results.save == "all" or (results.save is None and total <= MOST_SAVED)
    return Writer(
        replace(results.wanted, out=out),
        computation.samples,
        computation.seed,
        stems(list(plan.files)),
        dict(zip(plan.files, plan.counts, strict=True)),
        kept or total == 1,
    )


def _check(request: Request) -> None:
    """Refuses options that contradict each other."""
    results, computation, machines = request.results, request.computation, request.machines
    machines.check(results.out, computation.max_seconds)
    if results.plot and results.out is None:
        raise ValueError("--plot needs a folder to write to; give --out.")
    if results.save not in (None, "all", "none"):
        raise ValueError(f"--save: expected all or none, received {results.save!r}.")
    if results.plot and results.save == "none":
        raise ValueError(
            "--plot draws a picture of each signal, --save none writes none; drop one."
        )
    if not computation.refine and computation.method not in ("exact", "network"):
        raise ValueError(
            f"--no-refine asks for the network's answer alone, but --method is {computation.method}; drop one."
        )


def _budget(request: Request, method: str, started: float, signals: int) -> Budget | None:
    """The stated time, where it is shared among the answers of the exact step or of the network in this process."""
    seconds = request.computation.max_seconds
    if seconds is None or method in SAMPLERS or request.machines.supervised:
        return None
    return Budget(seconds, started, signals)


def _options(request: Request, method: str, signals: int) -> dict[str, Any]:
    """Keywords of `SlotFlow.infer`, but for the time of each signal."""
    computation = request.computation
    options: dict[str, Any] = {"seed": computation.seed, "threads": computation.threads}
    if computation.noise != "auto":
        options["noise"] = computation.noise
    if computation.outliers is not None:
        options["outliers"] = computation.outliers
    if method in SAMPLERS:
        seconds = math.inf
        if computation.max_seconds is not None:
            seconds = computation.max_seconds / max(signals, 1)
        show = signals == 1 and not request.results.quiet
        options["sampler"] = _sampler(request.sampler, method, seconds, show)
    elif request.machines.supervised and computation.max_seconds is not None:
        options["max_seconds"] = computation.max_seconds / max(signals, 1)
    elif method == "exact" and (within := seconds_within(request.machines.timeout)) is not None:
        options["max_seconds"] = within
    return options


def _sampler(flags: Sampler, method: str, max_seconds: float, show: bool) -> dict[str, object]:
    """Arguments of a classical method; refuses those of another one."""
    names = {
        "classical": (),
        "rjmcmc": ("effective", "walkers", "temperatures", "hottest", "chain"),
        "smc": ("particles", "islands", "sweeps", "patience"),
    }[method]
    given = {name: value for name, value in asdict(flags).items() if value is not None}
    if foreign := [name for name in given if name not in names]:
        raise ValueError(f"--{foreign[0]} is not an option of --method {method}; drop it.")
    if method == "classical":
        return {}
    given["max_seconds"] = max_seconds
    if method == "rjmcmc":
        from slotflow.baselines import ensemble

        chain = given.pop("chain", None)
        return {"options": ensemble.ChainOptions(**given), "file": chain, "progress": show}
    from slotflow.baselines import particles

    return {"options": particles.ParticleOptions(**given), "progress": show}


def _asked(computation: Computation, method: str, name: str) -> dict[str, object]:
    """Settings that a report tells."""
    model = name + (f" from {computation.model}" if computation.model else "")
    facts: dict[str, object] = {"model": model, "method": method}
    if method == "network":
        facts["exact step"] = "left out"
    if computation.max_seconds is not None:
        facts["time budget"] = f"{computation.max_seconds:g} s"
    if computation.outliers is not None:
        facts["outliers"] = computation.outliers
    return facts | {"draws": computation.samples, "seed": computation.seed}
