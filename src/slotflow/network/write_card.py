r"""Writing a model card: a maintainer's command.

    python -m slotflow.network.write_card src/slotflow/weights/debug.safetensors \
        --evaluation report.json --fact gpu_minutes=52.5

`--evaluation` takes the output of ``slotflow evaluate --json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slotflow.network.build import build_model
from slotflow.network.cards import Card, Row, card_path, checked_entries, content_hash
from slotflow.network.checkpoint import model_config, read_model

__all__ = ["add_card_flags", "fact_of", "main", "read_evaluation", "stated_of", "write_card"]


def write_card(
    weights: str | Path,
    facts: Mapping[str, Any] | None = None,
    evaluation: Sequence[Mapping[str, Any]] = (),
) -> Card:
    """Writes the card of a weights file beside it.

    Args:
        weights: The file.
        facts: What the file's own facts do not say or say differently: "seeds", "signals", "gpu_minutes", "prior",
            "date" (today's if not given) and anything else, which goes to the card's "training".
        evaluation: Rows of ``slotflow evaluate --json``.

    Returns:
        The card.
    """
    tensors, header = read_model(weights)
    model = build_model(tensors, header, weights)
    config = model_config(header, weights)
    known: dict[str, Any] = {**header.get("facts", {}), **(facts or {})}
    on_cpu = known.get("device", "cpu") == "cpu"
    seconds, seed = known.get("seconds", 0.0), known.pop("seed", None)
    card = {
        "name": model.config.name,
        "version": header["version"],
        "date": known.pop("date", datetime.now(UTC).date().isoformat()),
        "hash": content_hash(tensors, config),
        "parameters": model.n_parameters,
        "config": config,
        "prior": known.pop("prior", config.get("prior", {})),
        "seeds": known.pop("seeds", [] if seed is None else [seed]),
        "signals": known.pop("signals", 0),
        "gpu_minutes": known.pop("gpu_minutes", 0.0 if on_cpu else round(seconds / 60, 2)),
        "training": known,
        "evaluation": [dict(row) for row in evaluation],
    }
    plain = json.loads(json.dumps(card), parse_constant=lambda _: None)  # JSON has no NaN
    written = Card(**checked_entries(plain))
    written.save(card_path(weights))
    return written


def read_evaluation(path: str | Path) -> list[Row]:
    """Rows of a report: the JSON document of ``slotflow evaluate --json``, a list of rows or an object with "rows"."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path}: expected the output of `slotflow evaluate --json` ({error})."
        ) from error
    rows = data.get("rows") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(
            f'{path}: expected a list of rows, or an object with a list "rows", received '
            f"{type(data).__name__}; write it with `slotflow evaluate --json`."
        )
    return rows


def add_card_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that tell what a card cannot find out by itself."""
    parser.add_argument("--evaluation", type=Path, help="output of `slotflow evaluate --json`")
    parser.add_argument(
        "--fact", action="append", default=[], metavar="KEY=VALUE", help="JSON or text; repeatable"
    )


def stated_of(options: argparse.Namespace) -> tuple[dict[str, Any], list[Row]]:
    """Facts and rows of an evaluation that these flags state."""
    facts = dict(fact_of(text) for text in options.fact)
    return facts, [] if options.evaluation is None else read_evaluation(options.evaluation)


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes a card; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m slotflow.network.write_card",
        description="Writes the card of a weights file beside it.",
    )
    parser.add_argument("weights", type=Path, help="a .safetensors file")
    add_card_flags(parser)
    options = parser.parse_args(arguments)
    try:
        card = write_card(options.weights, *stated_of(options))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"{card_path(options.weights)}: {card.hash}, {len(card.evaluation)} rows")


def fact_of(text: str) -> tuple[str, Any]:
    """KEY=VALUE as a pair; the value is read as JSON if it is JSON, otherwise as text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f"--fact: expected KEY=VALUE, received {text!r}.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


if __name__ == "__main__":
    main()
