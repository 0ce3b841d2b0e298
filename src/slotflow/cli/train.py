"""``slotflow train``: a model from signals that are simulated on the fly."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from slotflow.cli import output
from slotflow.cli.configs import load_config
from slotflow.cli.options import (
    ConfigFile,
    Device,
    Json,
    Preset,
    Settings,
    help_text,
)
from slotflow.network.checkpoint import describe
from slotflow.show.plots import plot_training, save_figure

__all__ = ["HELP", "run"]

HELP = help_text(
    "Trains a model on signals that are simulated on the fly.",
    "slotflow train --preset debug --out runs/debug --minutes 2",
    "slotflow train --config mine.yaml --out runs/mine --set train.batch_size=64",
    "slotflow train --resume --out runs/mine",
    "torchrun --nproc-per-node 4 -m slotflow train --preset paper --out runs/paper",
)


def run(
    out: Annotated[Path, typer.Option(help="Folder for checkpoint, model, metrics and config.")],
    preset: Preset = None,
    config: ConfigFile = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder.")
    ] = False,
    init: Annotated[
        Path | None,
        typer.Option(help="Weights to start from: a model file, a folder, or a name such as zoom."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time budget; the schedule is fitted to it.")
    ] = None,
    settings: Settings = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of weights and signals.")] = None,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Json = False,
) -> None:
    """Trains a model."""
    from slotflow.train.loop import TrainingError, train  # slow to import, and needed here only

    if resume and not (out / "checkpoint.safetensors").is_file():
        raise ValueError(f"{out} holds no checkpoint to resume; check the path or start a new run.")
    if resume and preset is None and config is None:
        config = out / "config.yaml"
    overrides = [*(settings or []), *([] if seed is None else [f"train.seed={seed}"])]
    full = load_config(preset, config, overrides)
    try:
        model = train(
            full, out, resume=resume, init=init, minutes=minutes, device=device, quiet=quiet
        )
    except TrainingError as error:
        output.complain("failed", error)
        raise typer.Exit(1) from error
    if os.environ.get("RANK", "0") != "0":  # one process of several; the first one reports
        return
    figure = out / "training.png"
    save_figure(plot_training(out / "metrics.jsonl", model=full.model.name), figure)
    record = {"model": str(model), "figure": str(figure)} | describe(model)["facts"]
    if as_json:
        output.print_json(record)
    elif not quiet:
        output.print_facts(record)
