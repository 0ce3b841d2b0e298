"""``slotflow reproduce``: the paper's tables and figures, our value beside the paper's."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.options import Device, Json, ModelName, Seed, help_text
from slotflow.cli.rows import print_rows
from slotflow.network.model import DEFAULT, SlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.studies.answers import weights_hash
from slotflow.studies.paper import RESULTS, Bench, ExactStep, Result, Settings, choose, reproduce
from slotflow.studies.paper.bench import METHODS, QUICK
from slotflow.studies.paper.pooled import PooledAnalyser
from slotflow.studies.paper.registry import NUMBERS, missing
from slotflow.studies.paper.runner import INDEX, RECORDS
from slotflow.studies.suites.analyser import Analyser

__all__ = ["HELP", "run"]

HELP = help_text(
    "Reproduces the paper's results: for each a picture, a table of our value beside the paper's, and all numbers. "
    "Results that the folder holds already are not computed again.",
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
        typer.Option(metavar="NAME,...", help=f"Some of, by name or number: {LISTED}."),
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
    method: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(METHODS),
            help="The network alone, the exact step behind it (on a tenth of the signals), or both, for the results "
            "that have the two: cardinality, calibration, scaling. Both unless given; of preset paper, the network.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes of the exact step, one core each.")
    ] = JOBS,
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
    chosen = _choose(parts)
    base = QUICK if quick else Settings()
    network = SlotFlow.from_pretrained(model, device=device)
    analyser = _analyser(network)
    usual = "network" if isinstance(network, PaperSlotFlow) else base.method
    settings = Settings(
        n=base.n if n is None else n,
        draws=base.draws if draws is None else draws,
        repeats=base.repeats if repeats is None else repeats,
        seed=seed,
        method=usual if method is None else method,
    )
    results = _possible(chosen, network, named=parts is not None)
    identity = {
        "name": _name(model, network),
        "hash": weights_hash(network),
    }
    step = ExactStep(
        model, jobs, weights=identity["hash"], records=None if force else out / RECORDS
    )
    bench = Bench(analyser, settings, network.device, step)
    records = reproduce(
        bench, results, out, model=identity, source=model, force=force, progress=not quiet
    )
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


def _possible(chosen: list[Result], network: SlotFlow, named: bool) -> list[Result]:
    """The results that can be made here; one that cannot is refused if it was named, else left out with a line."""
    kept, problems = [], []
    for result in chosen:
        problem = missing(result)
        own = "model" in result.uses and not result.pooled
        if not problem and own and not isinstance(network, ZoomSlotFlow):
            problem = f"{result.name} is made with a network of preset zoom only"
        if problem:
            problems.append(problem)
        else:
            kept.append(result)
    if problems and named:
        raise ValueError(f"--only: {'; '.join(problems)}.")
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    return kept


def _analyser(network: SlotFlow) -> Analyser:
    """What the results measure; refuses a network that cannot analyse the test sets."""
    if isinstance(network, PaperSlotFlow):
        return PooledAnalyser(network)
    assert isinstance(network, ZoomSlotFlow)  # there is no other kind
    return network


def _name(model: str | None, network: SlotFlow) -> str:
    """What the files and the page call a network: its preset, or its file where it is another one of preset zoom."""
    if model is None or model == DEFAULT:
        return DEFAULT
    if network.config.name != DEFAULT:
        return network.config.name
    path = Path(model)
    return path.parent.name if path.stem == "model" else path.stem


def _print(record: dict[str, Any]) -> None:
    """One result's table."""
    state = "already there" if record["reused"] else f"{record['facts']['seconds']:g} s"
    output.console.print(
        f"[bold]{escape(RESULTS[record['name']].title)}[/bold] [dim]({state})[/dim]"
    )
    print_rows(record["rows"], "ours")
    output.console.print()
