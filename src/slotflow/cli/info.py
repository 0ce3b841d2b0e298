"""``slotflow info``: what is installed, and what a model holds."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from slotflow.cli import output
from slotflow.cli.installation import devices, installed, package_version
from slotflow.cli.options import Json, Quiet, help_text
from slotflow.network.build import build_model
from slotflow.network.cards import Card, card_path, content_hash, embedded_card
from slotflow.network.checkpoint import model_config, read_model
from slotflow.network.config import Config, preset_names
from slotflow.network.model import DEFAULT, SlotFlow, pretrained_names

__all__ = ["HELP", "run"]

COLUMNS = ("measure", "value", "target", "passed", "note")
"""Entries of an evaluation's row that are shown; ``--json`` shows all."""

HELP = help_text(
    "Shows what is installed, or what a preset, a model file or a training folder holds: its config, training and "
    "content hash, and the model card with its table of results if there is one. Weights that do not match their card "
    "are refused.",
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
    quiet: Quiet = False,
) -> None:
    """Tells what is installed or what a model holds."""
    record = _installation() if model is None else _describe(model)
    if as_json:
        output.print_json(record)
    elif not quiet:
        _print(record)


def _print(record: dict[str, Any]) -> None:
    """Prints facts, then those of the card that are not among them, then its table."""
    card = record.pop("card", None)
    output.print_facts(record)
    if card is not None:
        rows, facts = card.pop("evaluation"), record.get("facts", {})
        shown = {"name", "version", "hash", "parameters", "config", "training", "format"}
        if card["prior"] == card["config"].get("prior"):
            shown.add("prior")
        more = {k: v for k, v in card["training"].items() if facts.get(k) != v}
        output.print_facts({"card": {k: v for k, v in card.items() if k not in shown} | more})
        if rows:
            output.console.print("\n[bold]evaluation[/bold]")
            output.console.print(_table(rows), soft_wrap=False)
        else:
            output.print_facts({"evaluation": []}, indent=2)


def _table(rows: list[dict[str, Any]]) -> Table:
    """One line per row of an evaluation, in red where it misses its target."""
    names = [name for name in COLUMNS if any(name in row for row in rows)]
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), show_edge=False)
    for name in names:
        table.add_column(escape(name), justify="right" if name == "value" else "left")
    for row in rows:
        style = "red" if row.get("passed") is False else None
        table.add_row(*(escape(_cell(row.get(name))) for name in names), style=style)
    return table


def _cell(value: Any) -> str:
    """An entry of a row in a few characters."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)


def _installation() -> dict[str, Any]:
    """What is installed, which presets and weights there are; `doctor` looks whether all of it works."""
    facts = installed()
    return {
        "version": facts["slotflow"],
        "python": facts["python"],
        "torch": package_version("torch"),
        "devices": ["cpu", *devices()["gpus"]],
        "presets": preset_names(),
        "weights": pretrained_names(),
        "default": DEFAULT,
    }


def _describe(name: str) -> dict[str, Any]:
    """What is known of a model: its origin, size, training, config, content hash and card."""
    path, embedded = Path(name), name in pretrained_names()
    if name in preset_names() and not embedded and not path.exists():
        config = Config.from_preset(name)
        header: dict[str, Any] = {"config": config.to_dict()}
        extra: dict[str, Any] = {}
        network, origin = SlotFlow(config.model), "preset, untrained"
    else:
        path = path / "model.safetensors" if path.is_dir() else path
        weights = resources.files("slotflow") / "weights" / f"{name}.safetensors"
        with resources.as_file(weights) if embedded else nullcontext(path) as file:
            tensors, header = read_model(file)
            network = build_model(tensors, header, file)
            found = content_hash(tensors, model_config(header, file))
            card = embedded_card(name) if embedded else None
            if not embedded and card_path(file).is_file():
                card = Card.load(card_path(file))
            if card is not None:
                card.check(found, file)
        origin = "embedded weights" if embedded else str(path)
        extra = {"hash": found, "card": None if card is None else dataclasses.asdict(card)}
    record = {"name": network.config.name, "origin": origin, "parameters": network.n_parameters}
    record |= {k: header[k] for k in ("kind", "format", "version", "facts") if k in header}
    record |= {"config": header.get("config") or {"model": header["model"]}}
    return record | extra
