"""Model files and training checkpoints: one safetensors file each, JSON in its header, never pickle.

A model file may hold some of its tensors in half precision; loading brings them back to the model's own type.

A file is written beside its destination, flushed to the disk and moved over it in one step, so that a crash, a full
disk or kill -9 leaves either the old file or the new one, whole.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from slotflow.core.fields import plain
from slotflow.core.files import atomic_path
from slotflow.core.version import __version__
from slotflow.network.config import ModelConfig

__all__ = [
    "FORMAT",
    "CheckpointError",
    "describe",
    "flatten_optimizer",
    "load_training",
    "load_weights",
    "model_config",
    "read_model",
    "restore_optimizer",
    "save_model",
    "save_training",
]

FORMAT = 1
"""Version of the file layout; a file of a newer one is refused."""
HEADER_KEY = "slotflow"
"""Entry of the safetensors header that holds our JSON."""
FILE_KINDS = ("model", "training")
"""What a file can hold."""


class CheckpointError(ValueError):
    """A file that is missing, damaged, foreign or too new."""


def save_model(
    path: str | Path,
    weights: Mapping[str, Tensor],
    config: ModelConfig,
    facts: Mapping[str, object],
    half: tuple[str, ...] = (),
) -> None:
    """Writes a model's weights and config.

    Args:
        path: File to write.
        weights: The model's `state_dict`.
        config: What the model is.
        facts: JSON-able facts about its training.
        half: Modules or parameters, such as "encoder" or "flow.layers.0", whose floating-point tensors are stored in
            float16: half the bytes, rounded by at most 2⁻¹¹ of a number (2⁻²⁵ below 6e-5). Loading casts them back.
    """
    header = {
        "kind": "model",
        "model": plain(dataclasses.asdict(config)),
        "facts": dict(facts),
    }
    _write(path, _halve(weights, half), header)


def read_model(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights of a model file as they are stored, and its header.

    Of a training checkpoint these are the weights that the training would keep: their average if there is one.
    """
    tensors, header = _read(path)
    if header["kind"] == "training":
        tensors = _part(tensors, "ema.") or _part(tensors, "model.")
    return tensors, header


def model_config(header: Mapping[str, Any], source: str | Path) -> dict[str, Any]:
    """The model's config as a header holds it."""
    try:
        config = header["config"]["model"] if header["kind"] == "training" else header["model"]
        if not isinstance(config, dict):
            raise TypeError(f"expected a mapping, received {config!r}")
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{source}: its config cannot be read ({error!s}).") from error
    return config


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str | Path) -> None:
    """Loads weights that must fit the model."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(
            f"{source}: its weights do not fit the model of the config; give the config that it was "
            f"trained with ({error})."
        ) from error


def save_training(
    path: str | Path, parts: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object]
) -> None:
    """Writes a training checkpoint.

    Args:
        path: File to write.
        parts: Named groups of tensors, such as "model", "ema", "optimizer" and "rng".
        state: JSON-able rest: config, step, schedule and so on.
    """
    tensors = {f"{part}.{name}": t for part, group in parts.items() for name, t in group.items()}
    _write(path, tensors, {"kind": "training", **state})


def load_training(path: str | Path) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Reads a training checkpoint; the inverse of `save_training`."""
    tensors, header = _read(path)
    if header["kind"] != "training":
        raise CheckpointError(
            f"{path}: expected a training checkpoint, received a {header['kind']} file; resume from "
            "checkpoint.safetensors, or start a new run from the weights."
        )
    names = {name.split(".", 1)[0] for name in tensors}
    return {part: _part(tensors, f"{part}.") for part in names}, header


def describe(path: str | Path) -> dict[str, Any]:
    """The JSON header of a model file or checkpoint."""
    return _read(path, tensors=False)[1]


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], Any]:
    """An optimizer's state as named tensors and its parameter groups as plain values."""
    state = optimizer.state_dict()
    tensors = {
        f"{index}.{name}": torch.as_tensor(value)
        for index, values in state["state"].items()
        for name, value in values.items()
    }
    return tensors, state["param_groups"]


def restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], groups: Any
) -> None:
    """The inverse of `flatten_optimizer`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _halve(tensors: Mapping[str, Tensor], modules: tuple[str, ...]) -> dict[str, Tensor]:
    """The tensors with the floating-point ones of some modules in float16."""
    stored = dict(tensors)
    for module in modules:
        names = [n for n in tensors if n == module or n.startswith(f"{module}.")]
        names = [n for n in names if tensors[n].is_floating_point()]
        if not names:
            raise ValueError(
                f"half: expected a module or parameter of the model with floating-point numbers, received {module!r}; "
                f"the modules are {sorted({n.split('.', 1)[0] for n in tensors})}."
            )
        for name in names:
            stored[name] = tensors[name].half()
            if not bool((stored[name].isfinite() == tensors[name].isfinite()).all()):
                raise ValueError(
                    f"half: expected numbers up to {torch.finfo(torch.float16).max:g}, received "
                    f"{float(tensors[name].abs().max()):g} in {name!r}; store it in full precision."
                )
    return stored


def _write(path: str | Path, tensors: Mapping[str, Tensor], header: dict[str, Any]) -> None:
    header = {"format": FORMAT, "version": __version__, **header}
    on_cpu = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    try:
        with atomic_path(path) as temporary:
            save_file(on_cpu, temporary, metadata={HEADER_KEY: json.dumps(header)})
    except SafetensorError as error:  # how safetensors reports a full disk
        raise OSError(f"{path}: could not be written ({error}); is the disk full?") from error


def _read(path: str | Path, tensors: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(
            f"{path}: expected a model file, a training folder or the name of embedded weights, found "
            "nothing there; check the path."
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = file.keys() if tensors else []
            values = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path}: expected a whole safetensors file, but it is truncated or of another kind "
            f"({error}); copy or train it again."
        ) from error
    if HEADER_KEY not in metadata:
        raise CheckpointError(
            f"{path}: a safetensors file, but not one of slotflow's; expected one written by "
            "`slotflow train` or SlotFlow.save."
        )
    try:
        header: dict[str, Any] = json.loads(metadata[HEADER_KEY])
        found = int(header["format"])
        if found <= FORMAT and header["kind"] not in FILE_KINDS:
            raise ValueError(f"expected a kind of {FILE_KINDS}, received {header['kind']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: its header is damaged ({error}).") from error
    if found > FORMAT:
        raise CheckpointError(
            f"{path}: written by slotflow {header.get('version')} in format {found}, but this version "
            f"reads formats up to {FORMAT}; upgrade slotflow."
        )
    return values, header


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n[len(prefix) :]: t for n, t in tensors.items() if n.startswith(prefix)}
