r"""Model cards: where weights come from, what they reach, and a hash that tells whether they are the same.

The card of NAME.safetensors is NAME.json beside it. Its hash is taken of what a model is made of, not of the file:
SHA-256 over the canonical JSON of the model's config and then, in the order of their names, over each tensor's name,
type, shape and bytes. A tensor's bytes follow a line that determines their number, so that two different models never
feed the hash the same stream. Saving a model again, with other facts or by another safetensors, changes nothing.

A maintainer writes a card with `slotflow.network.write_card`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slotflow.core.files import atomic_path
from slotflow.network.checkpoint import CheckpointError, model_config, read_model

__all__ = [
    "Card",
    "card_path",
    "checked_entries",
    "content_hash",
    "embedded",
    "embedded_card",
    "read_verified",
]

CARD_FORMAT = 1
"""Version of the card's layout; a card of a newer one is refused."""

Row = dict[str, Any]
"""Named values of one measure of an evaluation."""


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
        again = "write it again with `python -m slotflow.network.write_card`"
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                raise ValueError(f"received {type(data).__name__}")
            if isinstance(version := data.get("format"), int) and version > CARD_FORMAT:
                again = "upgrade slotflow"
                raise ValueError(f"its format is {version}, later than {CARD_FORMAT}")
            return cls(**checked_entries(data))
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

    def check(self, found: str, source: str | Path) -> None:
        """Raises a CheckpointError unless the hash of what was read in a source is the card's."""
        if found != self.hash:
            raise CheckpointError(
                f"{source}: expected the weights that its card describes, with content hash {self.hash}, received "
                f"{found}; the weights or their config were changed. Install slotflow or copy both files again; "
                "if the change is yours, write a new card with `python -m slotflow.network.write_card`."
            )


def card_path(weights: str | Path) -> Path:
    """Where the card of a weights file is."""
    return Path(weights).with_suffix(".json")


def embedded_card(name: str) -> Card:
    """The card of weights of the package."""
    with resources.as_file(embedded(f"{name}.json")) as path:
        return Card.load(path)


def embedded(file: str) -> Traversable:
    """A file among the weights of the package."""
    return resources.files("slotflow") / "weights" / file


def read_verified(path: str | Path, card: Card | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights of a model file as they are stored, and its header; refused unless they are those of the card."""
    tensors, header = read_model(path)
    if card is not None:
        card.check(content_hash(tensors, model_config(header, path)), path)
    return tensors, header


def _canonical(value: Any) -> bytes:
    """One line of JSON that depends on nothing but the value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def checked_entries(data: Row) -> Row:
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
