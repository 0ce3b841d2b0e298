"""From a config or a file to a network: which class belongs to a config, and how its weights get into it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from torch import Tensor

from slotflow.core.fields import from_dict
from slotflow.network.cards import Card, card_path, embedded, embedded_card, read_verified
from slotflow.network.checkpoint import CheckpointError, load_weights, model_config, read_model
from slotflow.network.config import ModelConfig
from slotflow.network.family.model import FamilySlotFlow
from slotflow.network.model import DEFAULT, SlotFlow, pretrained_names
from slotflow.network.multiclass.model import MulticlassSlotFlow
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.waveforms import Classes

__all__ = [
    "build_model",
    "load_embedded",
    "load_model",
    "load_pretrained",
    "load_verified",
    "network_class",
]

MODEL_FILE = "model.safetensors"
"""The model in a training folder."""


def network_class(config: ModelConfig) -> type[SlotFlow]:
    """The class of the network that a config describes."""
    if config.family is not None:
        return FamilySlotFlow
    if isinstance(config.prior.waveform, Classes):
        return MulticlassSlotFlow
    return PaperSlotFlow if config.zoom is None else ZoomSlotFlow


def build_model(
    tensors: dict[str, Tensor], header: Mapping[str, Any], source: str | Path
) -> SlotFlow:
    """The model of what `read_model` read.

    Args:
        tensors: Weights of any floating-point type; the model's are float32.
        header: The file's header.
        source: The name of the file, for error messages.
    """
    try:
        config = from_dict(ModelConfig, model_config(header, source))
        model = network_class(config)(config)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: its config cannot be read ({error!s}).") from error
    load_weights(model, tensors, source)
    return model


def load_model(path: str | Path) -> SlotFlow:
    """Builds the model that a file describes and loads its weights; a card beside the file is not looked at."""
    return build_model(*read_model(path), path)


def load_verified(path: str | Path) -> SlotFlow:
    """Loads a model and, if a card stands beside its file, checks the weights against the card."""
    beside = card_path(path)
    card = Card.load(beside) if beside.is_file() else None
    return build_model(*read_verified(path, card), path)


def load_embedded(name: str) -> SlotFlow:
    """Loads weights of the package, which are refused unless they are those of their card."""
    card = embedded_card(name)
    with resources.as_file(embedded(f"{name}.safetensors")) as path:
        return build_model(*read_verified(path, card), path)


def load_pretrained(source: str | Path | None) -> SlotFlow:
    """A trained network by the name of embedded weights, from a model file or from a training folder."""
    name = str(source or DEFAULT)
    if name in pretrained_names():
        return load_embedded(name)
    path = Path(name)
    return load_verified(path / MODEL_FILE if path.is_dir() else path)
