r"""Publishing a trained network: its weights in half precision, small enough to be kept, with a card beside them.

    python -m slotflow.network.publish runs/paper weights/paper.safetensors

All floating-point weights are rounded to float16, by at most 2⁻¹¹ of a number; loading brings them back to float32. The
facts of the training go along. What is published this way lies in the repository and not in the package: load it with
``SlotFlow.from_pretrained("weights/paper.safetensors")``, which refuses weights that are not those of the card.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotflow.core.fields import from_dict
from slotflow.core.files import atomic_path
from slotflow.network.build import MODEL_FILE
from slotflow.network.cards import Card, Row, card_path
from slotflow.network.checkpoint import model_config, read_model, save_model
from slotflow.network.config import ModelConfig
from slotflow.network.write_card import add_card_flags, stated_of, write_card

__all__ = ["LARGEST_FILE", "main", "publish"]

LARGEST_FILE = 16 * 2**20
"""Bytes up to which a file of weights is kept in the repository."""


def publish(
    source: str | Path,
    target: str | Path,
    facts: Mapping[str, Any] | None = None,
    evaluation: Sequence[Row] = (),
    largest: int = LARGEST_FILE,
) -> Card:
    """Writes a trained network in half precision, and its card.

    Args:
        source: A training folder, a model file or a training checkpoint.
        target: The .safetensors file to write; its card goes beside it.
        facts: As of `write_card`.
        evaluation: Rows of ``slotflow evaluate --json``.
        largest: Bytes that the file may have; a larger one is refused, and what was there before stays.

    Returns:
        The card.
    """
    path = Path(source) / MODEL_FILE if Path(source).is_dir() else Path(source)
    tensors, header = read_model(path)
    config = from_dict(ModelConfig, model_config(header, path))
    modules = {name for name, tensor in tensors.items() if tensor.is_floating_point()}
    target = Path(target)
    known = {**header.get("facts", {}), "precision": "float16"}
    with atomic_path(target) as temporary:
        save_model(temporary, tensors, config, known, half=tuple(sorted(modules)))
        size = temporary.stat().st_size
        if size > largest:
            raise ValueError(
                f"expected weights of at most {largest:,} bytes in half precision, received {size:,}; train a smaller "
                "network, or keep these somewhere else."
            )
    return write_card(target, facts, evaluation)


def main(arguments: Sequence[str] | None = None) -> None:
    """Publishes a network; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m slotflow.network.publish",
        description="Writes a trained network in half precision, with its card.",
    )
    parser.add_argument("source", type=Path, help="a training folder or a model file")
    parser.add_argument("target", type=Path, help="the .safetensors file to write")
    add_card_flags(parser)
    options = parser.parse_args(arguments)
    try:
        card = publish(options.source, options.target, *stated_of(options))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    size = options.target.stat().st_size
    print(f"{options.target}: {size:,} bytes; {card_path(options.target)}: {card.hash}")


if __name__ == "__main__":
    main()
