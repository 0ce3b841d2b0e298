"""``slotflow reproduce``: the paper's tables and figures, our value beside the paper's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slotflow.cards import content_hash
from slotflow.cli import output
from slotflow.cli.options import Device, Json, ModelName, Seed, help_text
from slotflow.evaluate.suite import check_analyser
from slotflow.model import DEFAULT, SlotFlow
from slotflow.reproduce import RESULTS, Bench, Result, Settings, choose, reproduce
from slotflow.reproduce.bench import QUICK
from slotflow.reproduce.runner import INDEX

__all__ = ["HELP", "run"]

HELP = help_text(
    "Reproduces the paper's results: for each a picture, a table of our value beside the paper's, and all numbers. "
    "Results that the folder holds already are not computed again.",
    "slotflow reproduce --quick --out quick/",
    "slotflow reproduce --only dataset,cardinality",
    "slotflow reproduce --device cuda",
)
WIDE = 150
"""Columns of the table where it goes to a file or a pipe."""


def run(
    only: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help=f"Some of: {', '.join(RESULTS)}."),
    ] = None,
    n: Annotated[
        int | None, typer.Option(help=f"Test signals of a set; {Settings.n:,} as in the paper.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help=f"Posterior draws per slot; {Settings.draws}.")
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(help=f"Repeated inferences of one signal; {Settings.repeats}."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Small sizes where none is given: n = {QUICK.n}, {QUICK.draws} draws, {QUICK.repeats} repeats.",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    force: Annotated[
        bool, typer.Option("--force", help="Compute what is there already, too.")
    ] = False,
    model: ModelName = None,
    seed: Seed = 0,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Json = False,
) -> None:
    """Runs results and prints their tables."""
    parts = None if only is None else [part.strip() for part in only.split(",") if part.strip()]
    results = _choose(parts)
    base = QUICK if quick else Settings()
    settings = Settings(
        n=base.n if n is None else n,
        draws=base.draws if draws is None else draws,
        repeats=base.repeats if repeats is None else repeats,
        seed=seed,
    )
    network = SlotFlow.from_pretrained(model, device=device)
    bench = Bench(check_analyser(network), settings, network.device)
    identity = {
        "name": model or DEFAULT,
        "hash": content_hash(network.state_dict(), {"config": repr(network.config)}),
    }
    records = reproduce(bench, results, out, model=identity, force=force, progress=not quiet)
    if as_json:
        keep = ("name", "made", "facts", "rows", "reused")
        found = [{key: record[key] for key in keep} for record in records]
        output.print_json({"settings": asdict(settings), "results": found})
        return
    for record in records:
        _print(record)
    output.console.print(f"Page: {escape(str(out / INDEX))}")


def _choose(parts: list[str] | None) -> list[Result]:
    """The results that --only names."""
    try:
        return choose(parts)
    except ValueError as error:
        raise ValueError(f"--only: {error}") from error


def _print(record: dict[str, Any]) -> None:
    """One result's table."""
    state = "already there" if record["reused"] else f"{record['facts']['seconds']:g} s"
    output.console.print(
        f"[bold]{escape(RESULTS[record['name']].title)}[/bold] [dim]({state})[/dim]"
    )
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("measure")
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("paper", justify="right", no_wrap=True)
    table.add_column("note", style="dim")
    for row in record["rows"]:
        table.add_row(*(escape(row[key]) for key in ("measure", "text", "paper", "note")))
    console = output.console if output.console.is_terminal else Console(highlight=False, width=WIDE)
    console.print(table, soft_wrap=False)
    output.console.print()
