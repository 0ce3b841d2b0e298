r"""Model cards: where weights come from, what they reach, and a hash that tells whether they are the same.

The card of NAME.safetensors is NAME.json beside it. Its hash is taken of what a model is made of, not of the file:
SHA-256 over the canonical JSON of the model's config and then, in the order of their names, over each tensor's name,
type, shape and bytes. A tensor's bytes follow a line that determines their number, so that two different models never
feed the hash the same stream. Saving a model again, with other facts or by another safetensors, changes nothing.

A maintainer writes a card, with the output of ``slotflow evaluate --json`` where there is one, by

    python -m slotflow.network.cards src/slotflow/weights/debug.safetensors \
        --evaluation report.json --fact gpu_minutes=52.5
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slotflow.core.files import atomic_path
from slotflow.network.checkpoint import CheckpointError, build_model, model_config, read_model
from slotflow.network.model import SlotFlow

__all__ = [
    "Card",
    "card_path",
    "content_hash",
    "embedded_card",
    "load_embedded",
    "load_verified",
    "read_evaluation",
    "write_card",
]

CARD_FORMAT = 1
"""Version of the card's layout; a card of a newer one is refused."""

Row = dict[str, Any]


def content_hash(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> str:
    """Hash of a model, "sha256:" and 64 hexadecimal digits.

    Args:
        tensors: Named weights of any shape and type, as they are stored.
        config: The model's config in plain values (dictionaries, lists, numbers and strings).
    """
    digest = hashlib.sha256(_canonical(config))
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        kind = str(tensor.dtype).removeprefix("torch.")
        digest.update(_canonical([name, kind, list(tensor.shape)]))
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)  # NumPy has no bfloat16
    return f"sha256:{digest.hexdigest()}"


@dataclass(frozen=True)
class Card:
    """What is known of a set of weights."""

    name: str
    """Name of the model."""
    version: str
    """Version of slotflow that wrote the weights."""
    date: str
    """Day on which the card was written, YYYY-MM-DD."""
    hash: str
    """`content_hash` of the weights."""
    parameters: int
    """Number of trainable numbers."""
    config: dict[str, Any]
    """The model's config."""
    prior: dict[str, Any]
    """The prior of training."""
    seeds: list[int]
    """Seeds of training, in the order of its stages."""
    signals: int
    """Simulated signals seen in training."""
    gpu_minutes: float
    """Minutes of one GPU; 0 for a training on the CPU."""
    training: dict[str, Any] = field(default_factory=dict)
    """Whatever else is known of the training: steps, seconds, device, validation."""
    evaluation: list[Row] = field(default_factory=list)
    """Rows of ``slotflow evaluate --json``."""
    format: int = CARD_FORMAT
    """Version of the card's layout."""

    @classmethod
    def load(cls, path: str | Path) -> Card:
        """Reads a card."""
        again = "write it again with `python -m slotflow.network.cards`"
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                raise ValueError(f"received {type(data).__name__}")
            if isinstance(version := data.get("format"), int) and version > CARD_FORMAT:
                again = "upgrade slotflow"
                raise ValueError(f"its format is {version}, later than {CARD_FORMAT}")
            return cls(**_checked(data))
        except FileNotFoundError as error:
            raise CheckpointError(
                f"{path}: expected a model card, found nothing there; install slotflow again, or {again}."
            ) from error
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"{path}: expected the model card of the weights beside it, but it cannot be read ({error}); {again}, "
                "or move the file away if it is something else."
            ) from error

    def save(self, path: str | Path) -> None:
        """Writes the card, atomically."""
        entries = dataclasses.asdict(self)
        text = json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False)
        with atomic_path(path) as temporary:
            temporary.write_text(f"{text}\n", encoding="utf-8")

    def verify(self, path: str | Path) -> None:
        """Raises a CheckpointError unless the weights of a file are those of the card."""
        tensors, header = read_model(path)
        self.check(content_hash(tensors, model_config(header, path)), path)

    def check(self, found: str, source: str | Path) -> None:
        """Raises a CheckpointError unless the hash of what was read in a source is the card's."""
        if found != self.hash:
            raise CheckpointError(
                f"{source}: expected the weights that its card describes, with content hash {self.hash}, received "
                f"{found}; the weights or their config were changed. Install slotflow or copy both files again; "
                "if the change is yours, write a new card with `python -m slotflow.network.cards`."
            )


def card_path(weights: str | Path) -> Path:
    """Where the card of a weights file is."""
    return Path(weights).with_suffix(".json")


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
    written = Card(**_checked(plain))
    written.save(card_path(weights))
    return written


def load_verified(path: str | Path) -> SlotFlow:
    """Loads a model and, where a card stands beside its file, checks it against the card."""
    card = card_path(path)
    return _load(path, Card.load(card) if card.is_file() else None)


def load_embedded(name: str) -> SlotFlow:
    """Loads weights of the package and checks them against their card, without which they are refused."""
    card = embedded_card(name)
    with resources.as_file(_embedded(f"{name}.safetensors")) as path:
        return _load(path, card)


def embedded_card(name: str) -> Card:
    """The card of weights of the package."""
    with resources.as_file(_embedded(f"{name}.json")) as path:
        return Card.load(path)


def _embedded(file: str) -> Traversable:
    return resources.files("slotflow") / "weights" / file


def _load(path: str | Path, card: Card | None) -> SlotFlow:
    tensors, header = read_model(path)
    if card is not None:
        card.check(content_hash(tensors, model_config(header, path)), path)
    return build_model(tensors, header, path)


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes a card; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m slotflow.network.cards",
        description="Writes the card of a weights file beside it.",
    )
    parser.add_argument("weights", type=Path, help="a .safetensors file")
    parser.add_argument("--evaluation", type=Path, help="output of `slotflow evaluate --json`")
    parser.add_argument(
        "--fact", action="append", default=[], metavar="KEY=VALUE", help="JSON or text; repeatable"
    )
    options = parser.parse_args(arguments)
    try:
        facts = dict(_fact(text) for text in options.fact)
        rows = [] if options.evaluation is None else read_evaluation(options.evaluation)
        card = write_card(options.weights, facts, rows)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"{card_path(options.weights)}: {card.hash}, {len(card.evaluation)} rows")


def _fact(text: str) -> tuple[str, Any]:
    """KEY=VALUE as a pair; the value is JSON where it can be, else text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f"--fact: expected KEY=VALUE, received {text!r}.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def _canonical(value: Any) -> bytes:
    """One line of JSON that depends on nothing but the value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _checked(data: Row) -> Row:
    """The entries of a card, or a ValueError that names the one that is wrong."""
    hints = typing.get_type_hints(Card)
    for entry in dataclasses.fields(Card):
        defaults = entry.default, entry.default_factory
        if entry.name not in data and defaults == (dataclasses.MISSING, dataclasses.MISSING):
            raise ValueError(f"the entry {entry.name!r} is missing")
    for name, value in data.items():
        if name not in hints:
            raise ValueError(f"unknown entry {name!r}")
        kind = typing.get_origin(hints[name]) or hints[name]
        kinds = (int, float) if kind is float else (kind,)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ValueError(f"entry {name!r}: expected {kind.__name__}, received {value!r}")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", data["hash"]):
        raise ValueError(
            f"entry 'hash': expected sha256: and 64 hexadecimal digits, received {data['hash']!r}"
        )
    if not all(isinstance(row, dict) for row in data.get("evaluation", [])):
        raise ValueError("entry 'evaluation': expected rows with named values")
    return data


if __name__ == "__main__":
    main()
