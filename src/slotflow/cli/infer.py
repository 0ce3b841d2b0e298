"""``slotflow infer``: the components of the signals in files."""

from __future__ import annotations

import time
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
    unlikely,
    untrained,
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
)
from slotflow.io import atomic_path, read_observations
from slotflow.model import SlotFlow
from slotflow.plots import plot_posterior, save_figure
from slotflow.progress import progress

if TYPE_CHECKING:
    import pandas as pd

    from slotflow.posterior import Posterior
    from slotflow.priors import Prior

__all__ = ["HELP", "run"]

HELP = help_text(
    "Infers the components of the signals in files.\n\n"
    "Reads CSV, TSV, NPY, NPZ and HDF5. With --out, writes summary.csv (one row per component) and "
    "posterior.nc (draws over K and all parameters); several signals get a folder each, as soon as they are done.\n\n"
    "The network's answer is checked and corrected against the likelihood. The verdict says how far to trust the "
    "result: exact, approximate or misfit (the tones do not explain the data), and why. --no-refine leaves it out.\n\n"
    "The default model takes any even sampling. Say where tones may lie (--band, 10 to 150 bins of 1/T) and what "
    "they may be (--amplitude, --min-separation, --k-min, --k-max, --sigma); what is not said is taken from the "
    "model's own prior, and all of it is shown back.",
    "slotflow infer long.csv --short short.csv --out result",
    "slotflow infer voltage.csv --dt 0.001 --band 49:51 --amplitude 1e-3:1e-2 --out result --plot",
    "slotflow infer long.npy --dt 0.05 --min-separation 0 --k-max 5 --max-seconds 60",
    "slotflow infer test.npz --no-refine --k-prior 1:0.5,2:0.5 --json > answers.json",
)


def run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of long streams.")],
    short: Annotated[
        Path | None, typer.Option(help="File of the short stream, if it has its own.")
    ] = None,
    dt: Annotated[
        float | None, typer.Option(help="Step of the long stream in seconds, if not in the file.")
    ] = None,
    dt_short: Annotated[
        float | None, typer.Option(help="Step of the short stream in seconds, if not in the file.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of a text table: its name, or its number from 1.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the array in an NPZ or HDF5 file.")
    ] = None,
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
    if short is not None and len(files) > 1:
        raise ValueError(f"--short goes with one file, received {len(files)}; run them one by one.")
    if plot and out is None:
        raise ValueError("--plot needs a folder to write to; give --out.")
    if k_prior is not None and (k_min is not None or k_max is not None):
        raise ValueError(
            "--k-prior says which K are possible, and so do --k-min and --k-max; give one or the other."
        )
    chosen_prior = None if k_prior is None else _k_prior(k_prior)
    stated = {
        "frequency": bounds("--band", band),
        "amplitude": bounds("--amplitude", amplitude),
        "min_separation": min_separation,
        "k_min": k_min,
        "k_max": k_max,
        "sigma": bounds("--sigma", sigma),
    }
    network = SlotFlow.from_pretrained(model, device=device)
    observations = {
        file: read_observations(file, dt, short, dt_short, column=column, dataset=dataset)
        for file in files
    }
    start = time.perf_counter()
    priors: dict[Path, Prior] = {}
    answers: list[tuple[Path, int, Iterator[Posterior]]] = []
    for file, group in observations.items():  # everything is checked before the first answer
        try:
            priors[file] = prior = assumed_prior(network, group, stated, chosen_prior)
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
            raise ValueError(f"{file}: {error}") from error
        answers += [(file, i, each) for i in range(len(group))]
    assumed = {
        file: assumed_record(group[0], priors[file])
        | {"warnings": untrained(network, group[0], priors[file])}
        for file, group in observations.items()
    }
    records: list[dict[str, Any]] = []
    names = _names({file: len(group) for file, group in observations.items()})
    stopped = False
    with progress(len(answers), "infer", quiet=len(answers) == 1) as bar:
        try:
            for (file, index, each), name in zip(answers, names, strict=True):
                post = _next(each, file)
                summary = post.summary(n=samples, seed=seed)
                record = {"file": str(file), "signal": index}
                record |= output.posterior_record(post, summary)
                if (doubt := unlikely(post.observation, priors[file])) is not None:
                    record["warning"] = doubt
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
        return next(each)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


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
    for record in records:
        title = record["file"]
        title += f" [{record['signal']}]" if title in several else ""
        output.console.print(f"[bold]{escape(title)}[/bold]")
        if record["file"] != told:  # once for all signals of a file
            told = record["file"]
            print_assumed(assumed[Path(told)])
            for doubt in assumed[Path(told)]["warnings"]:
                output.complain("warning", f"{told}: {doubt}")
        output.print_posterior(record)
        if "warning" in record:
            output.complain("warning", f"{title}: {record['warning']}")
        for path in record.get("files", {}).values():
            output.console.print(f"Written: {escape(path)}")
    place = output.device_name(network.device)
    output.console.print(f"{len(records)} signal(s) in {1e3 * seconds:.0f} ms on {place}")


def _names(counts: dict[Path, int]) -> list[str]:
    """A name for each signal of files that hold ``counts`` of them."""
    stems = [file.stem for file in counts]
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


def _k_prior(text: str) -> list[float] | dict[int, float]:
    """Reads ``P0,P1,...`` or ``K:P,K:P,...``."""
    parts = text.split(",")
    try:
        if ":" in text:
            pairs = [part.split(":") for part in parts]
            if len({int(k) for k, _ in pairs}) < len(pairs):
                raise ValueError("a K is named twice")
            return {int(k): float(p) for k, p in pairs}
        return [float(part) for part in parts]
    except ValueError:
        raise ValueError(
            f"--k-prior: expected numbers for K = 0, 1, ... such as 0,1,1,2 or pairs such as "
            f"1:0.5,2:0.5, received {text!r}."
        ) from None
