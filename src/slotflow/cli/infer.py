"""``slotflow infer``: the components of the signals in files."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.assumed import (
    assumed_prior,
    assumed_record,
    print_assumed,
    proposed_band,
    unlikely,
    untrained,
)
from slotflow.cli.data import (
    Column,
    Dataset,
    Detrend,
    Fill,
    MaxGap,
    Reading,
    Short,
    Step,
    StepShort,
    TimeUnit,
    TRef,
    data_notes,
    data_warnings,
    read_files,
    shown_name,
)
from slotflow.cli.options import (
    Amplitude,
    Band,
    Device,
    Json,
    KMax,
    KMin,
    MinSeparation,
    ModelName,
    Seed,
    bounds,
    help_text,
    prior_over_k,
)
from slotflow.formats import STANDARD_INPUT
from slotflow.io import atomic_path
from slotflow.model import SlotFlow
from slotflow.plots import plot_posterior, save_figure
from slotflow.progress import progress
from slotflow.sampling import LONGEST_GAP

if TYPE_CHECKING:
    import pandas as pd

    from slotflow.posterior import Posterior
    from slotflow.priors import Prior

__all__ = ["HELP", "run"]

HELP = help_text(
    "Infers the components of the signals in files.\n\n"
    "Reads CSV, TSV, NPY, NPZ, HDF5, NetCDF and WAV: files, folders, patterns in quotes, and - for a text table on "
    "standard input. With --out, writes summary.csv (one row per component) and "
    "posterior.nc (draws over K and all parameters); several signals get a folder each, as soon as they are done.\n\n"
    "The network's answer is checked and corrected against the likelihood. The verdict says how far to trust the "
    "result: exact, approximate or misfit (the tones do not explain the data), and why. --no-refine leaves it out.\n\n"
    "The default model takes any even sampling. Say where tones may lie (--band, 10 to 150 bins of 1/T) and what "
    "they may be (--amplitude, --min-separation, --k-min, --k-max, --sigma); what is not said is taken from the "
    "model's own prior, the band from the data if the strongest peak lies elsewhere, and all of it is shown back.",
    "slotflow infer long.csv --short short.csv --out result",
    "slotflow infer voltage.csv --dt 0.001 --band 49:51 --amplitude 1e-3:1e-2 --out result --plot",
    "slotflow infer long.npy --dt 0.05 --min-separation 0 --k-max 5 --max-seconds 60",
    "slotflow infer test.npz --no-refine --k-prior 1:0.5,2:0.5 --json > answers.json",
    "slotflow infer 'runs/*.csv' more/ --detrend 1 --out results",
    "slotflow infer gaps.csv --fill linear --max-gap 5 --time-unit ms",
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
    time_unit: TimeUnit = None,
    t_ref: TRef = None,
    fill: Fill = None,
    max_gap: MaxGap = LONGEST_GAP,
    detrend: Detrend = None,
    band: Band = None,
    amplitude: Amplitude = None,
    min_separation: MinSeparation = None,
    k_min: KMin = None,
    k_max: KMax = None,
    sigma: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="Bounds of the noise level, in the data's units."),
    ] = None,
    k_prior: Annotated[
        str | None,
        typer.Option(metavar="P0,P1,...|K:P,...", help="Prior over K instead of a uniform one."),
    ] = None,
    model: ModelName = None,
    refine: Annotated[
        bool,
        typer.Option(
            help="Check and correct the network's answer against the likelihood, or leave it as it is.",
        ),
    ] = True,
    max_seconds: Annotated[
        float, typer.Option(min=0, help="Time budget of --refine for one signal, in seconds.")
    ] = 10.0,
    samples: Annotated[int, typer.Option(min=1, help="Draws to summarize and to write.")] = 1000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Write posterior.png too.")] = False,
    device: Device = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    as_json: Json = False,
) -> None:
    """Infers the components of the signals in files."""
    if plot and out is None:
        raise ValueError("--plot needs a folder to write to; give --out.")
    if k_prior is not None and (k_min is not None or k_max is not None):
        raise ValueError(
            "--k-prior says which K are possible, and so do --k-min and --k-max; give one or the other."
        )
    chosen_prior = None if k_prior is None else prior_over_k(k_prior)
    stated = {
        "frequency": bounds("--band", band),
        "amplitude": bounds("--amplitude", amplitude),
        "min_separation": min_separation,
        "k_min": k_min,
        "k_max": k_max,
        "sigma": bounds("--sigma", sigma),
    }
    how = Reading(
        dt, short, dt_short, column, dataset, t_ref, time_unit, fill, max_gap, detrend
    )  # fmt: skip
    network = SlotFlow.from_pretrained(model, device=device)
    observations = read_files(files, how)
    start = time.perf_counter()
    priors: dict[Path, Prior] = {}
    assumed: dict[Path, dict[str, Any]] = {}
    answers: list[tuple[Path, int, Iterator[Posterior]]] = []
    for file, group in observations.items():  # everything is checked before the first answer
        try:
            proposed = proposed_band(network, group) if band is None else None
            given = stated if proposed is None else stated | {"frequency": proposed.edges}
            priors[file] = prior = assumed_prior(network, group, given, chosen_prior)
            each = network.infer_each(
                group,
                refine=refine,
                prior=prior,
                k_prior=chosen_prior,
                max_seconds=max_seconds,
                seed=seed,
                threads=threads,
            )
        except ValueError as error:
            raise ValueError(f"{shown_name(file)}: {error}") from error
        answers += [(file, i, each) for i in range(len(group))]
        facts = assumed_record(group[0], prior, proposed, stated=band is not None)
        assumed[file] = facts | {"warnings": untrained(network, group[0], prior)}
    records: list[dict[str, Any]] = []
    names = _names({file: len(group) for file, group in observations.items()})
    stopped = False
    with progress(len(answers), "infer", quiet=len(answers) == 1) as bar:
        try:
            for (file, index, each), name in zip(answers, names, strict=True):
                post = _next(each, file)
                summary = post.summary(n=samples, seed=seed)
                record: dict[str, Any] = {"file": str(file), "signal": index}
                record |= output.posterior_record(post, summary)
                record["notes"] = data_notes(post.observation)
                record["warnings"] = data_warnings(post.observation, priors[file])
                if (doubt := unlikely(post.observation, priors[file])) is not None:
                    record["warnings"].append(doubt)
                if out is not None:
                    folder = out / name if len(names) > 1 else out
                    shown = priors[file] if plot else None
                    record["files"] = _write(post, summary, folder, samples, seed, shown)
                records.append(record)
                bar.update(len(records))
        except KeyboardInterrupt:
            stopped = True
    seconds = time.perf_counter() - start
    _print(records, assumed, network, seconds, as_json)
    if stopped:
        kept = f" and kept in {out}" if out is not None and records else ""
        raise KeyboardInterrupt(f"{len(records)} of {len(answers)} signals were done{kept}")


def _next(each: Iterator[Posterior], file: Path) -> Posterior:
    """The next answer; a refusal names the file."""
    try:
        with warnings.catch_warnings():
            # The command says the same of every signal, with its own advice (`data_warnings`).
            warnings.filterwarnings("ignore", "the long stream has a mean of")
            return next(each)
    except ValueError as error:
        raise ValueError(f"{shown_name(file)}: {error}") from error


def _print(
    records: list[dict[str, Any]],
    assumed: dict[Path, dict[str, Any]],
    network: SlotFlow,
    seconds: float,
    as_json: bool,
) -> None:
    """Shows what was assumed and what was found."""
    if as_json:
        shown = [{"file": str(file)} | facts for file, facts in assumed.items()]
        facts = {"model": network.config.name, "seconds": seconds, "assumed": shown}
        output.print_json(facts | {"signals": records})
        return
    several = {record["file"] for record in records if record["signal"] > 0}
    told: str | None = None
    known: list[str] = []
    for record in records:
        title = shown_name(record["file"])
        title += f" [{record['signal']}]" if record["file"] in several else ""
        output.console.print(f"[bold]{escape(title)}[/bold]")
        if record["file"] != told:  # once for all signals of a file
            told, known = record["file"], []
            print_assumed(assumed[Path(told)])
            for doubt in assumed[Path(told)]["warnings"]:
                output.complain("warning", f"{shown_name(told)}: {doubt}")
        for note in record["notes"]:
            if note not in known:
                output.console.print(f"  note   {escape(note)}")
        known = record["notes"]
        output.print_posterior(record)
        for doubt in record["warnings"]:
            output.complain("warning", f"{title}: {doubt}")
        for path in record.get("files", {}).values():
            output.console.print(f"Written: {escape(path)}")
    place = output.device_name(network.device)
    output.console.print(f"{len(records)} signal(s) in {1e3 * seconds:.0f} ms on {place}")


def _names(counts: dict[Path, int]) -> list[str]:
    """A name for each signal of files that hold ``counts`` of them."""
    stems = ["stdin" if file == Path(STANDARD_INPUT) else file.stem for file in counts]
    if len(set(stems)) < len(stems):  # equal names in different folders
        stems = [f"{i:03d}-{stem}" for i, stem in enumerate(stems)]
    return [
        stem if n == 1 else f"{stem}-{i:05d}"
        for stem, n in zip(stems, counts.values(), strict=True)
        for i in range(n)
    ]


def _write(
    post: Posterior,
    summary: pd.DataFrame,
    folder: Path,
    samples: int,
    seed: int,
    plot: Prior | None,
) -> dict[str, str]:
    """Writes one signal's results, each file whole or not at all; a picture of the prior's band if it is given."""
    files = {"summary": folder / "summary.csv", "posterior": folder / "posterior.nc"}
    with atomic_path(files["summary"]) as temporary:
        summary.to_csv(temporary)
    post.save(files["posterior"], n=samples, seed=seed)
    if plot is not None:
        files["figure"] = folder / "posterior.png"
        save_figure(plot_posterior(post, band=plot.frequency), files["figure"])
    return {name: str(path) for name, path in files.items()}
