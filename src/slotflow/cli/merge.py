"""``slotflow merge``: the results of shards as one catalogue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotflow.cli import output
from slotflow.cli.folders import check_folder
from slotflow.cli.options import OUTPUT, Json, Quiet, help_text

if TYPE_CHECKING:
    from slotflow.many.merge import Merged

__all__ = ["HELP", "run"]

HELP = help_text(
    "Joins the results of shards into one catalogue.\n\n"
    "Takes folders that slotflow infer --shard has written to, and writes catalogue.csv, signals.csv and failed.csv as "
    "a single run would have. Results found in several folders are taken once. If signals are missing, it writes "
    "nothing, names the shards that must be run (again) and ends with exit code 2; --partial takes what there is. The "
    "exit code is 1 if some signals have failed or are missing.",
    "slotflow merge results",
    "slotflow merge results --parquet",
    "slotflow merge night-1 night-2 --out both --partial",
)


def run(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="Folders of results, or of shards.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the merged results; by default FOLDER, if there is only one.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Merge even if signals are missing.", rich_help_panel=OUTPUT
        ),
    ] = False,
    parquet: Annotated[
        bool,
        typer.Option(
            "--parquet",
            help="Also write the catalogue as a Parquet file (needs the extra 'parquet').",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Joins the results of shards into one catalogue."""
    if out is None and len(folders) > 1:
        raise ValueError(
            f"expected --out, because {len(folders)} folders are merged; name a folder."
        )
    if missing := [folder for folder in folders if not folder.is_dir()]:
        raise ValueError(f"{missing[0]}: expected a folder of results, found none; check the path.")
    target = folders[0] if out is None else out
    check_folder("--out", target)
    from slotflow.many.merge import merge

    merged = merge(folders, target, partial=partial, parquet=parquet)
    if as_json:
        _print_json(merged)
    elif not quiet:
        _print(merged)
    bad = sum(entry["signals"] for entry in merged.failed)
    if bad:
        output.complain("failed", f"{bad:,} signal(s); {merged.files['failed']} lists them")
    if merged.lost:
        of = f", of the shards {', '.join(merged.shards)}" if merged.shards else ""
        output.complain("missing", f"{merged.lost:,} signal(s){of}")
    if bad or merged.lost:
        raise typer.Exit(1)


def _print(merged: Merged) -> None:
    """Says what was merged."""
    output.console.print(
        f"{merged.done:,} of {merged.total:,} signals from {len(merged.folders):,} folder(s)"
    )
    if merged.repeated:
        output.console.print(
            f"{merged.repeated:,} result(s) were in several folders, and were taken once"
        )
    for path in merged.files.values():
        output.console.print(f"Written: {path}", markup=False)


def _print_json(merged: Merged) -> None:
    """The same as one JSON document."""
    record = {
        "folders": [str(folder) for folder in merged.folders],
        "total": merged.total,
        "done": merged.done,
        "repeated": merged.repeated,
        "failed": merged.failed,
        "missing": [[gap.start, gap.stop] for gap in merged.missing],
        "shards": merged.shards,
        "files": merged.files,
    }
    typer.echo(json.dumps(record, indent=2))
