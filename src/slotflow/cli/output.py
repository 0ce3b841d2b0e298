"""What commands print: JSON, facts and complaints. Nothing here waits for torch."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from slotflow.cli.terminal import complain, console

if TYPE_CHECKING:
    import torch

__all__ = ["complain", "console", "device_name", "finite", "print_facts", "print_json"]

Record = dict[str, Any]


def print_json(record: Record) -> None:
    """Prints one JSON document; numbers that are not finite become null."""
    typer.echo(json.dumps(finite(record), indent=2, allow_nan=False))


def finite(value: Any) -> Any:
    """The same with None for numbers that are not finite."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_facts(record: Record, indent: int = 0) -> None:
    """Prints nested facts, one per line."""
    for name, value in record.items():
        label = f"{' ' * indent}[bold]{escape(name)}[/bold]"
        if isinstance(value, dict):
            console.print(label)
            print_facts(value, indent + 2)
        else:
            console.print(label, escape(_text(value)))


def _text(value: Any) -> str:
    """A fact in words."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if type(value) is int else str(value)


def device_name(device: torch.device) -> str:
    """A device in words."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'' if threads == 1 else 's'}"
