"""``slotflow info``: what is installed, and what a model holds."""

from __future__ import annotations

import platform
from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from slotflow import __version__
from slotflow.checkpoint import describe
from slotflow.cli import output
from slotflow.cli.options import Json, help_text
from slotflow.config import Config, preset_names
from slotflow.model import DEFAULT, SlotFlow, pretrained_names

__all__ = ["HELP", "run"]

HELP = help_text(
    "Tells what is installed, or what a preset, a model file or a training folder holds.",
    "slotflow info",
    "slotflow info debug",
    "slotflow info runs/mine --json",
)


def run(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="Embedded weights, a preset, a file or a folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tells what is installed or what a model holds."""
    record = _installation() if model is None else _describe(model)
    if as_json:
        output.print_json(record)
    else:
        output.print_facts(record)


def _installation() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "version": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "devices": ["cpu", *gpus],
        "presets": preset_names(),
        "weights": pretrained_names(),
        "default": DEFAULT,
    }


def _describe(name: str) -> dict[str, Any]:
    """What is known of a model: its origin, size, training and config."""
    path, embedded = Path(name), name in pretrained_names()
    if name in preset_names() and not embedded and not path.exists():
        config = Config.from_preset(name)
        header: dict[str, Any] = {"config": config.to_dict()}
        network, origin = SlotFlow(config.model), "preset, untrained"
    else:
        path = path / "model.safetensors" if path.is_dir() else path
        weights = resources.files("slotflow") / "weights" / f"{name}.safetensors"
        with resources.as_file(weights) if embedded else nullcontext(path) as file:
            header, network = describe(file), SlotFlow.from_pretrained(file)
        origin = "embedded weights" if embedded else str(path)
    record = {"name": network.config.name, "origin": origin, "parameters": network.n_parameters}
    record |= {k: header[k] for k in ("kind", "format", "version", "facts") if k in header}
    return record | {"config": header.get("config") or {"model": header["model"]}}
