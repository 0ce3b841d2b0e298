"""The config of a network and its training, as options of a command describe it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotflow.network.config import Config

__all__ = ["load_config"]


def load_config(
    preset: str | None, file: Path | None, settings: Sequence[str], default: str = "debug"
) -> Config:
    """A preset or a file, with some entries changed.

    Args:
        preset: Name of a preset.
        file: A YAML file.
        settings: Changes such as ``train.batch_size=64``.
        default: The preset if nothing is named.
    """
    from slotflow.network.config import Config

    if preset is not None and file is not None:
        raise ValueError("--preset and --config exclude each other; give one of them.")
    if file is not None and not file.is_file():
        raise ValueError(f"{file}: no such config file; check the path.")
    config = Config.from_preset(preset or default) if file is None else Config.from_yaml(file)
    data = config.to_dict()
    for setting in settings:
        _apply(data, setting)
    return Config.from_dict(data)


def _apply(data: dict[str, Any], setting: str) -> None:
    """Changes one entry of nested dictionaries: ``train.batch_size=64``."""
    key, equals, text = setting.partition("=")
    *parents, last = key.strip().split(".")
    node: Any = data
    for parent in parents:
        node = node.get(parent) if isinstance(node, dict) else None
    if not equals or not isinstance(node, dict) or last not in node:
        raise ValueError(
            f"--set: expected KEY=VALUE with a key of the config such as train.batch_size=64, "
            f"received {setting!r}; `slotflow info paper --json` lists the keys."
        )
    import yaml

    try:
        node[last] = json.loads(text)  # numbers such as 1e-4, which YAML takes for text
    except json.JSONDecodeError:
        try:
            node[last] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError(f"--set: expected a YAML value, received {text!r}.") from None
