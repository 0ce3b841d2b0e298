"""``slotflow infer``: the components of the signals in files."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from slotflow.cli import output
from slotflow.cli.data import (
    Column,
    Dataset,
    Detrend,
    Fill,
    MaxGap,
    Short,
    Step,
    StepShort,
    Time,
    TimeUnit,
    TRef,
    shown_name,
)
from slotflow.cli.display import FEW, Display
from slotflow.cli.many import FAILURES, Job, answers, debug
from slotflow.cli.options import (
    COMPUTATION,
    OUTPUT,
    Amplitude,
    Band,
    Device,
    FLow,
    Json,
    KMax,
    KMin,
    MinSeparation,
    ModelName,
    Out,
    OverK,
    PriorFile,
    Quiet,
    Report,
    Samples,
    Seed,
    Sigma,
    SigmaShort,
    help_text,
)
from slotflow.cli.results import Writer, result_record, stems
from slotflow.cli.stated import stated_prior
from slotflow.cli.tables import write_table, write_tables
from slotflow.core.progress import progress
from slotflow.core.store import Store, signal_name
from slotflow.data.gaps import LONGEST_GAP
from slotflow.data.read.files import find_files
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import count_signals
from slotflow.network.cards import content_hash
from slotflow.network.model import SlotFlow
from slotflow.train.processes import stop_signals

__all__ = ["HELP", "run"]

SAVED = 100
"""Signals whose posteriors are written unless the user says otherwise; of more, the catalogue alone."""
STORE = "ledger.sqlite"
"""File in the output folder from which a stopped run goes on."""

HELP = help_text(
    "Infers the components of the signals in files.\n\n"
    "Reads CSV, TSV, NPY, NPZ, HDF5, NetCDF and WAV: files, folders, patterns in quotes, and - for a text table on "
    "standard input. With --out, writes summary.csv (one row per component) and "
    "posterior.nc (draws over K and all parameters).\n\n"
    "Several signals give catalogue.csv (one row per component), signals.csv (one row per signal) and a folder of "
    f"their own each (--save; beyond {SAVED} signals only if asked for). The same command again goes on where it was "
    "stopped (--force: from the beginning). A signal that cannot be analysed is listed at the end and in failed.csv; "
    "the exit code is then 1, or 2 if there is no other.\n\n"
    "The network's answer is checked and corrected against the likelihood. The verdict says how far to trust the "
    "result: exact, approximate or misfit (the tones do not explain the data), and why. --no-refine leaves it out.\n\n"
    "The default model takes any even sampling. Say where tones may lie (--band, from 10 bins of 1/T on; more than 150 "
    "are analysed in overlapping windows; or --f-lo) and what they may be (--amplitude, --min-separation, --k-min, "
    "--k-max, --sigma, or a file: --prior); what is not said is taken from the "
    "model's own prior, or from the data where they contradict it (a strongest peak elsewhere, amplitudes and noise in "
    "other units), and all of it is shown back.\n\n"
    "A noise level that is known (--sigma 0.7; --sigma-short 0.2 where the short stream has another) is held fixed in "
    "the exact step, and tested: the verdict says if the residual scatters more or less. The network takes the noise "
    "from the data.",
    "slotflow infer voltage.csv",
    "slotflow infer long.csv --short short.csv --out result",
    "slotflow infer voltage.csv --dt 0.001 --band 49:51 --amplitude 1e-3:1e-2 --out result --plot",
    "slotflow infer voltage.csv --prior prior.yaml --f-lo 48 --report voltage.html",
    "slotflow infer long.npy --dt 0.05 --min-separation 0 --k-max 5 --max-seconds 60",
    "slotflow infer long.csv --short short.csv --sigma 0.7 --sigma-short 0.2",
    "slotflow infer test.npz --no-refine --k-prior 1:0.5,2:0.5 --json > answers.json",
    "slotflow infer many.npz --out results --quiet",
    "slotflow infer 'runs/*.csv' more/ --detrend 1 --out results --save none",
    "slotflow infer gaps.csv --fill linear --max-gap 5 --time-unit ms",
    "slotflow infer log.csv --time none --dt 0.01 --column voltage",
    "slotflow infer chord.wav --column 2 --band 435:445 --amplitude 0.01:0.5",
    "slotflow infer star.nc --dataset flux --t-ref 2024-03-01T12:00:00 --detrend 0",
    "tail -n 5000 log.csv | slotflow infer - --dt 0.01 --column 3",
)


def run(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files, folders, patterns, or -.")
    ],
    short: Short = None,
    dt: Step = None,
    dt_short: StepShort = None,
    column: Column = None,
    dataset: Dataset = None,
    time_column: Time = None,
    time_unit: TimeUnit = None,
    t_ref: TRef = None,
    fill: Fill = None,
    max_gap: MaxGap = LONGEST_GAP,
    detrend: Detrend = None,
    prior: PriorFile = None,
    band: Band = None,
    f_lo: FLow = None,
    amplitude: Amplitude = None,
    min_separation: MinSeparation = None,
    k_min: KMin = None,
    k_max: KMax = None,
    sigma: Sigma = None,
    sigma_short: SigmaShort = None,
    k_prior: OverK = None,
    model: ModelName = None,
    refine: Annotated[
        bool,
        typer.Option(
            help="Check and correct the network's answer against the likelihood, or leave it as it is.",
            rich_help_panel=COMPUTATION,
        ),
    ] = True,
    max_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            help="Time budget of --refine for one signal, in seconds.",
            rich_help_panel=COMPUTATION,
        ),
    ] = 10.0,
    samples: Samples = 1000,
    seed: Seed = 0,
    out: Out = None,
    save: Annotated[
        str | None,
        typer.Option(
            metavar="all|none",
            help=f"Whether each of several signals gets a folder; if not given, up to {SAVED} do.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Compute again what an earlier run has left in --out.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Write posterior.png too.", rich_help_panel=OUTPUT)
    ] = False,
    report: Report = None,
    device: Device = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads.", rich_help_panel=COMPUTATION)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infers the components of the signals in files."""
    if plot and out is None:
        raise ValueError("--plot needs a folder to write to; give --out.")
    if save not in (None, "all", "none"):
        raise ValueError(f"--save: expected all or none, received {save!r}.")
    if plot and save == "none":
        raise ValueError(
            "--plot draws a picture of each signal, --save none writes none; drop one."
        )
    if band is not None and f_lo is not None:
        raise ValueError("--band and --f-lo both say where to look; give one of them.")
    stated = stated_prior(
        prior,
        band=band,
        amplitude=amplitude,
        min_separation=min_separation,
        k_min=k_min,
        k_max=k_max,
        sigma=sigma,
        sigma_short=sigma_short,
        k_prior=k_prior,
    )
    how = ReadOptions(
        dt, short, dt_short, column, dataset, t_ref, time_unit, fill, max_gap, detrend, *stated.levels, time_column,
        varying=True,
    )  # fmt: skip
    network = SlotFlow.from_pretrained(model, device=device)
    found = find_files(files)
    if short is not None and len(found) > 1:
        raise ValueError(f"--short goes with one file, received {len(found)}; run them one by one.")
    start = time.perf_counter()
    counts = {file: count_signals(file, how) for file in found}
    total = sum(counts.values())
    if report is not None and total > 1:
        raise ValueError(
            f"--report shows one signal, received {total}; analyse them without it, then write pages of those that "
            "matter: Posterior.load(file).report(page)."
        )
    kept = plot or save == "all" or (save is None and total <= SAVED)
    full = as_json or total <= FEW
    weights = content_hash(network.state_dict(), {"name": network.config.name})
    job = Job(
        network, stated.fields, stated.k_prior, f_lo, refine, max_seconds, samples, seed, threads, weights, full
    )  # fmt: skip
    writer = Writer(
        out, samples, seed, plot, stems(found), counts, kept or total == 1, report=report
    )
    asked = {
        "model": network.config.name + (f" from {model}" if model else ""),
        "exact step": f"at most {max_seconds:g} s" if refine else "left out",
        "draws": samples,
        "seed": seed,
    }
    store = Store(out / STORE, force) if out is not None and total > 1 else None
    display = Display(total, as_json, quiet, lines=out is None)
    failed: list[dict[str, Any]] = []
    computed = seen = 0
    stopped: KeyboardInterrupt | None = None

    def finished(file: Path, signal: int, key: str) -> dict[str, Any] | None:
        if store is None or not writer.written(file, signal):
            return None
        return store.get(signal_name(str(file), signal), key)

    with (
        # Of many signals the one under way is finished; a second Ctrl-C does not wait for it.
        stop_signals() if total > 1 else nullcontext(threading.Event()) as stop,
        progress(total, "infer", quiet=quiet or total == 1) as bar,
        nullcontext() if store is None else store,
    ):
        try:
            for answer in answers(job, how, found, finished):
                record, error = answer.record, answer.error
                if record is None and not error:
                    try:
                        record = result_record(answer, writer, full, asked)
                    except FAILURES as failure:  # as of any other step, the rest goes on
                        debug(failure)
                        error = f"{shown_name(answer.file)}: {failure}"
                    else:
                        if store is not None:
                            name = signal_name(str(answer.file), answer.signal)
                            store.put(name, answer.key, record)
                        computed += 1
                if record is not None:
                    display.add(record, answer.facts)
                else:
                    number = answer.signal if answer.signal >= 0 else None
                    entry = {"file": str(answer.file), "signal": number, "signals": answer.count}
                    failed.append(entry | {"error": error})
                seen += answer.count
                bar.update(seen)
                if stop.is_set():
                    raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            stopped = error
        tables = {}
        if store is not None and out is not None and display.done:
            tables = write_tables(store, out)
    bad = sum(entry["signals"] for entry in failed)
    if out is not None and total > 1:
        if failed:
            tables["failed"] = str(out / "failed.csv")
            write_table(out / "failed.csv", failed)
        else:
            (out / "failed.csv").unlink(missing_ok=True)
    if bad and not display.done and stopped is None:
        more = "" if bad == 1 else f" (and so for all {bad} signals)"
        raise ValueError(failed[0]["error"] + more)
    seconds = time.perf_counter() - start
    facts = {
        "model": network.config.name,
        "seconds": seconds,
        "computed": computed,
        "signals_per_second": computed / seconds,
        "files": tables,
    }
    display.close(facts, failed, output.device_name(network.device))
    if stopped is not None:
        where = f" and kept in {out}" if out is not None and display.done else ""
        raise KeyboardInterrupt(f"{display.done} of {total} signals were done{where}")
    if bad:
        listed = f"; {tables['failed']} lists them" if "failed" in tables else ""
        output.complain("failed", f"{bad} of {total} signals{listed}")
        raise typer.Exit(1)
