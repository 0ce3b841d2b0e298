"""A run of `slotflow infer`: from what the command line says to results on the terminal and in files."""

from __future__ import annotations

import math
import threading
import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from slotflow.cli import output
from slotflow.cli.budget import Budget
from slotflow.cli.data import shown_name
from slotflow.cli.display import FEW_SIGNALS, Display
from slotflow.cli.many import FAILURES, Answer, Job, Sources, answers, debug
from slotflow.cli.request import MOST_SAVED, Computation, Request, Results, Sampler
from slotflow.cli.results import Writer, result_record, stems
from slotflow.cli.tables import write_table, write_tables
from slotflow.cli.watch import Watch
from slotflow.core.methods import SAMPLERS
from slotflow.core.progress import progress
from slotflow.core.store import Record, Store, signal_name
from slotflow.data.read.files import find_files
from slotflow.network.cards import content_hash
from slotflow.network.model import SlotFlow
from slotflow.signal.waveforms import TONE
from slotflow.train.processes import stop_signals

__all__ = ["Session"]

STORE = "ledger.sqlite"
"""File in the output folder from which a stopped run goes on."""


class Session:
    """One run of the command.

    Args:
        request: What the command line says.
        watch: Shows what is being done.
        started: When the command began, by `time.perf_counter`.
    """

    def __init__(self, request: Request, watch: Watch, started: float) -> None:
        computation, results = request.computation, request.results
        _check(results, computation)
        self.watch = watch
        stated, levels = request.prior.stated()
        writer = Writer(results, computation.samples, computation.seed)
        self.network = SlotFlow.from_pretrained(computation.model, device=computation.device)
        if self.network.config.prior.waveform != TONE:
            raise ValueError(
                f"the model {self.network.config.name!r} knows {self.network.config.prior.waveform.text} and "
                "answers by SlotFlow.from_pretrained(model).infer(observation) in Python alone; on the command line "
                "leave --model out and state --classes."
            )
        files = find_files(request.files)
        if request.data.short is not None and len(files) > 1:
            raise ValueError(
                f"--short goes with one file, received {len(files)}; run them one by one."
            )
        self.start = time.perf_counter()
        self.results = results
        options = request.data.options(levels)
        if request.data.join:
            files, options = files[:1], replace(options, further=tuple(files[1:]))
        self.sources = Sources(files, options, request.signal)
        counts = {file: self.sources.count(file) for file in files}
        self.total = total = sum(counts.values())
        if results.report is not None and total > 1:
            raise ValueError(
                f"--report shows one signal, received {total}; analyse them without it, then write pages of those that "
                "matter: Posterior.load(file).report(page)."
            )
        kept = (
            results.plot or results.save == "all" or (results.save is None and total <= MOST_SAVED)
        )
        self.writer = writer.of(stems(files), counts, kept or total == 1)
        self.full = results.as_json or total <= FEW_SIGNALS
        method = computation.method if computation.refine else "network"
        self.job = Job(
            self.network,
            stated,
            method,
            _options(request, method, total),
            weights=content_hash(self.network.state_dict(), {"name": self.network.config.name}),
            facts={
                "samples": computation.samples,
                "full": self.full,
                "sampler": asdict(request.sampler),
                "seconds": computation.max_seconds,
                "shown": (results.frequency_unit, results.phase_at),
            },
            budget=_budget(computation, method, started, total),
        )
        self.asked = _asked(computation, method, self.network.config.name)
        many = results.out is not None and total > 1
        self.store = Store(results.out / STORE, results.force) if many and results.out else None
        self.display = Display(total, results)
        self.failed: list[Record] = []
        self.computed = 0

    def run(self) -> None:
        """Answers all signals, and closes the run."""
        stopped: KeyboardInterrupt | None = None
        tables: dict[str, str] = {}
        if self.total > 1 or self.job.method in SAMPLERS:  # they have bars of their own
            self.watch.close()
        with (
            # Of many signals the one under way is finished; a second Ctrl-C does not wait for it.
            stop_signals() if self.total > 1 else nullcontext(threading.Event()) as stop,
            progress(self.total, "infer", quiet=self.results.quiet or self.total == 1) as bar,
            nullcontext() if self.store is None else self.store,
        ):
            seen = 0
            try:
                for answer in answers(self.job, self.sources, self._finished):
                    self._take(answer)
                    seen += answer.count
                    bar.update(seen)
                    if stop.is_set():
                        raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                stopped = error
            if self.store is not None and self.results.out is not None and self.display.done:
                tables = write_tables(self.store, self.results.out)
        self._close(tables, stopped)

    def _finished(self, file: Path, signal: int, key: str) -> Record | None:
        """The result of an earlier run, if its files are there too."""
        if self.store is None or not self.writer.written(file, signal):
            return None
        return self.store.get(signal_name(str(file), signal), key)

    def _take(self, answer: Answer) -> None:
        """Writes, keeps and shows one answer, or notes why there is none."""
        record, error = answer.record, answer.error
        if record is None and not error:
            try:
                record = result_record(answer, self.writer, self.full, self.asked)
            except FAILURES as failure:  # as after any other step, the rest goes on
                debug(failure)
                error = f"{shown_name(answer.file)}: {failure}"
            else:
                if self.store is not None:
                    name = signal_name(str(answer.file), answer.signal)
                    self.store.put(name, answer.key, record)
                self.computed += 1
        if record is not None:
            self.display.add(record)
            return
        number = answer.signal if answer.signal >= 0 else None
        entry = {"file": str(answer.file), "signal": number, "signals": answer.count}
        self.failed.append(entry | {"error": error})

    def _close(self, tables: dict[str, str], stopped: KeyboardInterrupt | None) -> None:
        """Lists what failed, shows what is left to show, and ends with the exit code."""
        self.watch.close()
        bad, out = sum(entry["signals"] for entry in self.failed), self.results.out
        if out is not None and self.total > 1:
            if self.failed:
                tables["failed"] = str(out / "failed.csv")
                write_table(out / "failed.csv", self.failed)
            else:
                (out / "failed.csv").unlink(missing_ok=True)
        if bad and not self.display.done and stopped is None:
            more = "" if bad == 1 else f" (and so for all {bad} signals)"
            raise ValueError(self.failed[0]["error"] + more)
        seconds = time.perf_counter() - self.start
        facts = {
            "model": self.network.config.name,
            "method": self.job.method,
            "seconds": seconds,
            "computed": self.computed,
            "signals_per_second": self.computed / seconds,
            "files": tables,
        }
        self.display.close(facts, self.failed, output.device_name(self.network.device))
        if stopped is not None:
            where = f" and kept in {out}" if out is not None and self.display.done else ""
            raise KeyboardInterrupt(f"{self.display.done} of {self.total} signals were done{where}")
        if bad:
            listed = f"; {tables['failed']} lists them" if "failed" in tables else ""
            output.complain("failed", f"{bad} of {self.total} signals{listed}")
            raise typer.Exit(1)


def _check(results: Results, computation: Computation) -> None:
    """Refuses options that contradict each other."""
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
            f"--no-refine asks for the network's answer alone, received --method {computation.method}; drop one."
        )


def _budget(computation: Computation, method: str, started: float, signals: int) -> Budget | None:
    """The stated time, where it is shared among the answers of the exact step or of the network."""
    if computation.max_seconds is None or method in SAMPLERS:
        return None
    return Budget(computation.max_seconds, started, signals)


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
        raise ValueError(f"--{foreign[0]} is no option of --method {method}; drop it.")
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
