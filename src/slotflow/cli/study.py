"""``slotflow study``: a claim of the paper, measured; our value beside the paper's, a picture, all numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.options import Device, Json, Seed, help_text
from slotflow.cli.rows import plain_table, print_rows
from slotflow.studies.frame.settings import NAMES, Settings

__all__ = ["HELP", "run"]

HELP = help_text(
    "Measures a claim of the paper in rounds of equal signals, and gives a table, a picture and a record. "
    "A run that was stopped or ran out of time continues with --resume.",
    "slotflow study list",
    "slotflow study elbo --quick --out quick/",
    "slotflow study gradient --minutes 5",
    "slotflow study gradient --minutes 5 --resume",
    "slotflow study domain --device cuda",
)
LIST = "list"
"""What is typed instead of a name to see all names."""


def _complete(incomplete: str) -> list[tuple[str, str]]:
    """Names of studies that begin as typed, with what they measure."""
    found = [(name, words) for name, words in NAMES.items() if name.startswith(incomplete)]
    return [*found, (LIST, "all studies")] if LIST.startswith(incomplete) else found


def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|list",
            autocompletion=_complete,
            help=f"One of {', '.join(NAMES)}; or list, to see what each measures.",
        ),
    ],
    minutes: Annotated[
        float | None,
        typer.Option(help="Begin no new round after this time; by default, run all rounds."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the rounds in the folder.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quick look instead of a full measurement.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for record, picture and rounds.")] = Path(
        "studies"
    ),
    seed: Seed = 0,
    jobs: Annotated[
        int, typer.Option(min=1, help="Rounds at a time, in processes that share the device.")
    ] = 1,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Json = False,
) -> None:
    """Runs a study and prints its table."""
    if name == LIST:
        _print_names(as_json)
        return
    settings = Settings(quick, seed, minutes, jobs)
    from slotflow.studies.frame.registry import find_study  # waits for torch
    from slotflow.studies.frame.runner import run_study
    from slotflow.studies.frame.study import Setup

    study = find_study(name)
    record = run_study(study, Setup(settings, out, device), resume=resume, progress=not quiet)
    if as_json:
        output.print_json({key: record[key] for key in ("name", "made", "facts", "rows")})
        return
    output.console.print(
        f"[bold]{escape(study.title)}[/bold] [dim]({study.source}, {study.section})[/dim]"
    )
    output.console.print(escape(study.claim))
    print_rows(record["rows"], "ours")
    _print_cost(record["facts"])
    output.console.print(f"Picture: {escape(str(out / f'{name}.png'))}")


def _print_names(as_json: bool) -> None:
    """The studies and what they measure."""
    if as_json:
        output.print_json(dict(NAMES))
        return
    table = plain_table()
    table.add_column("study", no_wrap=True)
    table.add_column("measures")
    for name, words in NAMES.items():
        table.add_row(name, words)
    output.console.print(table)


def _shared(facts: dict[str, Any]) -> str:
    """How many processes the seconds are those of, if there were several."""
    return f" ({facts['jobs']} processes at a time)" if facts["jobs"] > 1 else ""


def _print_cost(facts: dict[str, Any]) -> None:
    """Time, signals and rounds."""
    done, planned = facts["rounds"], facts["rounds_planned"]
    part = "" if done == planned else f", {done} of {planned} rounds; continue with --resume"
    output.console.print(
        f"{facts['seconds']:g} s on {escape(facts['device'])}{_shared(facts)}, {facts['signals']:,} signals{part}"
    )
