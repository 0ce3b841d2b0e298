"""``slotflow reproduce``: the paper's tables and figures, our value beside the paper's."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.options import Device, Json, ModelName, Seed, help_text
from slotflow.cli.rows import print_rows
from slotflow.studies.paper.settings import INDEX, METHODS, NUMBERS, QUICK, Settings

__all__ = ["HELP", "run"]

HELP = help_text(
    "Reproduces the paper's results. Each has a picture, a table with our values beside the paper's, and all numbers. "
    "Results that are already in the folder are not computed again.",
    "slotflow reproduce --quick --out quick/",
    "slotflow reproduce --only dataset,3",
    "slotflow reproduce --device cuda --method network",
    "slotflow reproduce --model runs/paper",
)
JOBS = min(os.cpu_count() or 1, 8)
"""Processes of the exact step if none are asked for; each takes some hundred megabytes."""
LISTED = ", ".join(f"{number} {name}" for name, number in NUMBERS.items())


def run(
    only: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help=f"Only some results, by name or number: {LISTED}."),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option(help=f"Test signals per set; by default {Settings.n:,}, as in the paper."),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help=f"Posterior draws per slot; by default {Settings.draws}.")
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(help=f"Repeated inferences of one signal; by default {Settings.repeats}."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Use small sizes by default: n = {QUICK.n}, {QUICK.draws} draws, {QUICK.repeats} repeats.",
        ),
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(METHODS),
            help="The network alone, the exact step after it (on a tenth of the signals), or both, for the results "
            "that have the two: cardinality, calibration, scaling. By default both; for preset paper, the network.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes for the exact step, one core each.")
    ] = JOBS,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    force: Annotated[
        bool, typer.Option("--force", help="Also compute what is already there.")
    ] = False,
    model: ModelName = None,
    seed: Seed = 0,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Json = False,
) -> None:
    """Runs results and prints their tables."""
    parts = None if only is None else [part.strip() for part in only.split(",") if part.strip()]
    base = QUICK if quick else Settings()
    settings = Settings(
        n=base.n if n is None else n,
        draws=base.draws if draws is None else draws,
        repeats=base.repeats if repeats is None else repeats,
        seed=seed,
        method=base.method if method is None else method,
    )
    from slotflow.studies.paper.request import Request, reproduce_request  # waits for torch

    request = Request(parts, settings, method is not None, model, device, jobs, force)
    records = reproduce_request(request, out, progress=not quiet)
    if as_json:
        keep = ("name", "made", "facts", "rows", "reused")
        found = [{key: record[key] for key in keep} for record in records]
        output.print_json({"settings": asdict(settings), "results": found})
        return
    for record in records:
        _print(record)
    output.console.print(f"Page: {escape(str(out / INDEX))}")


def _print(record: dict[str, Any]) -> None:
    """One result's table."""
    from slotflow.studies.paper.registry import RESULTS

    state = "already there" if record["reused"] else f"{record['facts']['seconds']:g} s"
    output.console.print(
        f"[bold]{escape(RESULTS[record['name']].title)}[/bold] [dim]({state})[/dim]"
    )
    print_rows(record["rows"], "ours")
    output.console.print()
