"""``slotflow evaluate``: every measure of a model, or of the exact layer behind it, beside its target."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from slotflow.cli import output
from slotflow.cli.options import Device, Json, ModelName, Seed, help_text
from slotflow.cli.rows import plain_table, print_rows, wide_console
from slotflow.core.files import atomic_path
from slotflow.studies.report import Report
from slotflow.studies.suites.sizes import EXACT_DRAWS, EXACT_GROUPS, MODEL_PARTS, Sizes

__all__ = ["HELP", "run"]

HELP = help_text(
    "Evaluates a model on fresh signals: counts, catalogue, widths, errors, coverage, speed, each beside its target.",
    "slotflow evaluate --suite model --device cuda",
    "slotflow evaluate --suite model --n 500 --n-classical 0",
    "slotflow evaluate --only stress,frontier --out report.json",
    "slotflow evaluate --suite exact --jobs 8 --work exact-records",
)
SUITES = ("model", "exact")


def run(
    suite: Annotated[str, typer.Option(help=f"What to evaluate: {', '.join(SUITES)}.")] = "model",
    model: ModelName = None,
    n: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Signals per set; by default {Sizes.n:,}, or what the targets of suite exact ask for.",
        ),
    ] = None,
    n_classical: Annotated[
        int,
        typer.Option(min=0, help="How many of them the classical estimator gets as well; 0: none."),
    ] = Sizes.n_classical,
    draws: Annotated[
        int | None,
        typer.Option(
            min=2,
            help=f"Draws per slot ({Sizes.draws}), or of each K for suite exact ({EXACT_DRAWS:,}).",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="SET,...",
            help=f"Some of: {', '.join(MODEL_PARTS)}; of suite exact: {', '.join(EXACT_GROUPS)}.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes for suite exact, one core each.")] = 1,
    work: Annotated[
        Path | None,
        typer.Option(help="Folder for the records of suite exact; a later run continues from it."),
    ] = None,
    seed: Seed = 0,
    device: Device = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write the report to this JSON file.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Json = False,
) -> None:
    """Evaluates a model and prints its table."""
    from slotflow.network.model import DEFAULT, SlotFlow  # help does not wait for torch
    from slotflow.studies.suites.exact import suite as exact
    from slotflow.studies.suites.exact.parts import Settings
    from slotflow.studies.suites.model import check_analyser, run_suite

    if suite not in SUITES:
        raise ValueError(f"--suite: expected one of {SUITES}, received {suite!r}.")
    network = SlotFlow.from_pretrained(model, device=device)
    analyser = check_analyser(network)
    parts = None if only is None else [part.strip() for part in only.split(",") if part.strip()]
    if suite == "exact":
        settings = Settings(model=model, seed=seed, draws=draws or EXACT_DRAWS)
        report = exact.run_exact_suite(
            settings, n=n, jobs=jobs, only=parts, work=work, progress=not quiet
        )
    else:
        report = run_suite(
            analyser,
            Sizes(n or Sizes.n, draws or Sizes.draws, n_classical),
            device=network.device,
            seed=seed,
            only=parts,
            progress=not quiet,
            weights_bytes=_size(model or DEFAULT),
        )
    record = {"model": network.config.name} | report.to_dict()
    if out is not None:
        with atomic_path(out) as temporary:
            temporary.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if as_json:
        output.print_json(record)
        return
    _print(network.config.name, report)
    if out is not None:
        output.console.print(f"Report: {escape(str(out))}")


def _print(name: str, report: Report) -> None:
    """Prints the table, the widths and errors K by K, and how many targets are met."""
    facts = report.facts
    if facts["suite"] == "exact":
        about = f"+exact, {facts['draws']} draws of each K, seed {facts['seed']}, processes: {facts['jobs']}"
    else:
        about = f", {facts['signals_per_set']:,} signals per set, {facts['draws']} draws per slot, "
        about += f"seed {facts['seed']}, {facts['device']}"
    output.console.print(f"[bold]{escape(name)}[/bold]{escape(about)}")
    notes = print_rows([row.to_dict() for row in report.rows])
    output.console.print(
        "[dim]perfect: what a calibrated posterior shows at this number of signals; "
        "?: even a calibrated posterior could miss the target, use more signals"
        + ("" if notes else "; a wider terminal shows notes")
        + "[/dim]"
    )
    if report.by_k:
        output.console.print("\nPosterior sd and error over the bound, nominal")
        wide_console().print(_by_k(report.by_k), soft_wrap=False)
    verdicts = [row.met for row in report.rows if row.target is not None]
    speed = facts.get("signals_per_second")
    output.console.print(
        f"\n{verdicts.count(True)} of {len(verdicts)} targets met, {verdicts.count(False)} missed, "
        f"{verdicts.count(None)} open, in {facts['seconds']:.0f} s"
        + (f" ({speed:,.0f} signals/s)" if speed else "")
    )


def _by_k(entries: list[dict[str, float]]) -> Table:
    """One line for each K."""
    table = plain_table()
    names = [name for name in entries[0] if name.startswith(("sd", "error"))]
    for header in ("K", "tones", *names):
        table.add_column(header.replace(" / bound,", ""), justify="right", no_wrap=True)
    for entry in entries:
        table.add_row(
            f"{entry['k']:.0f}", f"{entry['tones']:,.0f}", *(f"{entry[x]:.3f}" for x in names)
        )
    return table


def _size(source: str) -> int:
    """Size of a model's file in bytes."""
    from slotflow.network.model import pretrained_names

    if source in pretrained_names():
        embedded = resources.files("slotflow") / "weights" / f"{source}.safetensors"
        with resources.as_file(embedded) as file:
            return file.stat().st_size
    path = Path(source)
    return (path / "model.safetensors" if path.is_dir() else path).stat().st_size
