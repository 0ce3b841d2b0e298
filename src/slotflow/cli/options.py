"""Options that several commands share, and the config that they describe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from slotflow.config import Config, preset_names
from slotflow.devices import check_device
from slotflow.prior_file import read_prior
from slotflow.report import check_name

__all__ = [
    "Amplitude",
    "Band",
    "ConfigFile",
    "Device",
    "FLow",
    "Json",
    "KMax",
    "KMin",
    "MinSeparation",
    "ModelName",
    "Preset",
    "PriorFile",
    "Quiet",
    "Report",
    "Seed",
    "Settings",
    "bounds",
    "help_text",
    "load_config",
    "prior_over_k",
    "stated_prior",
]


def help_text(text: str, *examples: str) -> str:
    """A command's help: a text and worked examples, each on a line of its own."""
    lines = "\n".join(f"  $ {example}" for example in examples)
    return f"{text}\n\n\b\n[bold]Examples[/bold]\n{lines}"


def _check_device(name: str | None) -> str | None:
    """Refuses a device that this machine does not have."""
    try:
        check_device(name)
    except ValueError as error:
        raise ValueError(f"--device: {error}") from error
    return name


def _check_report(path: Path | None) -> Path | None:
    """Refuses a page of another kind before anything is computed."""
    if path is not None:
        check_name(path)
    return path


Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Device = Annotated[
    str | None,
    typer.Option(
        callback=_check_device,
        help="Where to compute: cpu, cuda, cuda:1; if not given, training takes a GPU, the rest the CPU.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one entry of the config; repeatable."),
]
Preset = Annotated[str | None, typer.Option(help=f"One of: {', '.join(preset_names())}.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A YAML file instead of a preset.")
]
ModelName = Annotated[
    str | None,
    typer.Option(help="Name of embedded weights, a model file or a training folder."),
]
Band = Annotated[
    str | None, typer.Option(metavar="F_LO:F_HI", help="Band that may hold tones, in Hz.")
]
Amplitude = Annotated[
    str | None,
    typer.Option(metavar="LOW:HIGH", help="Bounds of the amplitudes, in the data's units."),
]
MinSeparation = Annotated[
    float | None, typer.Option(metavar="HZ", help="Smallest distance of two frequencies, in Hz.")
]
FLow = Annotated[
    float | None,
    typer.Option(
        "--f-lo",
        metavar="HZ",
        help="Lower edge of a band as wide as the model's, instead of --band.",
    ),
]
PriorFile = Annotated[
    Path | None,
    typer.Option(
        "--prior",
        metavar="YAML",
        help="A file that states the prior: band, amplitude, amplitude_law, min_separation, sigma, and k_min and "
        "k_max or k_prior; flags override it.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print nothing but complaints and what --json asks for."),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="HTML",
        callback=_check_report,
        help="Page to write: verdict, tables and pictures of one signal in one file.",
    ),
]
KMin = Annotated[int | None, typer.Option(min=0, help="Smallest number of components.")]
KMax = Annotated[int | None, typer.Option(min=1, help="Largest number of components.")]


def bounds(option: str, text: str | None) -> tuple[float, float] | None:
    """Reads ``LOW:HIGH``.

    Args:
        option: Its name, for the complaint.
        text: What the user wrote; None if nothing.
    """
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(
            f"{option}: expected LOW:HIGH such as 0.5:1.5, received {text!r}."
        ) from None
    return low, high


def prior_over_k(text: str) -> list[float] | dict[int, float]:
    """Reads --k-prior: ``P0,P1,...`` or ``K:P,K:P,...``."""
    parts = text.split(",")
    try:
        if ":" in text:
            pairs = [part.split(":") for part in parts]
            if len({int(k) for k, _ in pairs}) < len(pairs):
                raise ValueError("a K is named twice")
            return {int(k): float(p) for k, p in pairs}
        return [float(part) for part in parts]
    except ValueError:
        raise ValueError(
            f"--k-prior: expected numbers for K = 0, 1, ... such as 0,1,1,2 or pairs such as "
            f"1:0.5,2:0.5, received {text!r}."
        ) from None


def stated_prior(
    file: Path | None,
    flags: dict[str, Any],
    k_prior: str | None = None,
) -> tuple[dict[str, Any], list[float] | dict[int, float] | None]:
    """What prior file and flags state together; a flag overrides the file.

    Args:
        file: The prior file, if there is one.
        flags: Fields of a Prior that the flags state; None where not.
        k_prior: What --k-prior says.

    Returns:
        Fields of a Prior (None where nothing is stated), and p(K) if it is stated.
    """
    bounded = flags.get("k_min") is not None or flags.get("k_max") is not None
    if k_prior is not None and bounded:
        raise ValueError(
            "--k-prior says which K are possible, and so do --k-min and --k-max; give one or the other."
        )
    found = {} if file is None else read_prior(file)
    over_k = found.pop("k_prior", None)
    if "band" in found:
        found["frequency"] = found.pop("band")
    if k_prior is not None:
        over_k = prior_over_k(k_prior)
        found = {name: value for name, value in found.items() if name not in ("k_min", "k_max")}
    elif bounded:
        over_k = None
    stated = dict(flags)
    for name, value in found.items():
        if stated.get(name) is None:
            stated[name] = value
    return stated, over_k


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
    try:
        node[last] = json.loads(text)  # numbers such as 1e-4, which YAML takes for text
    except json.JSONDecodeError:
        try:
            node[last] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError(f"--set: expected a YAML value, received {text!r}.") from None
