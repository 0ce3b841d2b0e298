"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotflow.core.presets import preset_names

__all__ = [
    "COMPUTATION",
    "FILE",
    "MANY",
    "OUTPUT",
    "PRIOR",
    "SAMPLER",
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
    "Out",
    "OverK",
    "Preset",
    "PriorFile",
    "Quiet",
    "Report",
    "Samples",
    "Seed",
    "Settings",
    "Sigma",
    "SigmaShort",
    "Signal",
    "band_bounds",
    "bounds",
    "help_text",
]


def help_text(text: str, *examples: str) -> str:
    """A command's help: a text and worked examples, each on a line of its own."""
    lines = "\n".join(f"  $ {example}" for example in examples)
    return f"{text}\n\n\b\n[bold]Examples[/bold]\n{lines}"


def _check_device(name: str | None) -> str | None:
    """Refuses a device that this machine does not have."""
    if name is not None:
        from slotflow.core.devices import check_device

        try:
            check_device(name)
        except ValueError as error:
            raise ValueError(f"--device: {error}") from error
    return name


def _check_report(path: Path | None) -> Path | None:
    """Refuses a page of another kind before anything is computed."""
    if path is not None:
        from slotflow.show.report.report import check_name

        check_name(path)
    return path


FILE, PRIOR, COMPUTATION, OUTPUT = "File", "Prior", "Computation", "Output"
SAMPLER = "Sampler (--method rjmcmc or smc)"
MANY = "Many signals"
"""Groups of options in a command's help."""
MOST_DRAWS = 1_000_000
"""Draws to write at most: they are held in memory at once."""

Samples = Annotated[
    int,
    typer.Option(
        min=1, max=MOST_DRAWS, help="Draws to summarize and to write.", rich_help_panel=COMPUTATION
    ),
]
Out = Annotated[Path | None, typer.Option(help="Folder for the results.", rich_help_panel=OUTPUT)]
Signal = Annotated[
    int,
    typer.Option(
        min=0, help="Which signal to take from a file that holds several.", rich_help_panel=FILE
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, help="The same seed gives the same result.", rich_help_panel=COMPUTATION),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document instead of a table.", rich_help_panel=OUTPUT
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        callback=_check_device,
        help="Where to compute: cpu, cuda, cuda:1. By default, training uses a GPU and everything else the CPU.",
        rich_help_panel=COMPUTATION,
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
    typer.Option(
        help="Name of embedded weights, a model file or a training folder.",
        rich_help_panel=COMPUTATION,
    ),
]
Band = Annotated[
    str | None,
    typer.Option(
        metavar="F_LO:F_HI[UNIT]",
        help="Band that may hold tones, in Hz or with a unit: 5:7c/d, 0.1:0.5/yr.",
        rich_help_panel=PRIOR,
    ),
]
Amplitude = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH",
        help="Bounds of the amplitudes, in the data's units.",
        rich_help_panel=PRIOR,
    ),
]
MinSeparation = Annotated[
    float | None,
    typer.Option(
        metavar="HZ",
        help="Smallest distance between two frequencies, in Hz.",
        rich_help_panel=PRIOR,
    ),
]
WaveformText = Annotated[
    str | None,
    typer.Option(
        "--waveform",
        metavar="NAME[(BOUNDS)]",
        help="What a component is: tone, chirp, damped, harmonic or another waveform of the package. Its bounds may "
        "follow in brackets: chirp(drift=-1e-4:1e-4) in Hz/s, damped(rate=0.01:0.2) in 1/s, damped(time=5:100) in s, "
        "harmonic(harmonics=4); by default they depend on the length of the record.",
        rich_help_panel=PRIOR,
    ),
]
ClassesText = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="tone,chirp,...",
        help="The kinds of components that there may be, such as tone,chirp,damped, with bounds as for --waveform.",
        rich_help_panel=PRIOR,
    ),
]
Sigma = Annotated[
    str | None,
    typer.Option(
        "--sigma",
        metavar="LEVEL|LOW:HIGH",
        help="Known noise level per sample, or its bounds, in the data's units.",
        rich_help_panel=PRIOR,
    ),
]
SigmaShort = Annotated[
    float | None,
    typer.Option(
        "--sigma-short",
        metavar="LEVEL",
        help="Known noise level of the short stream, if it differs from --sigma.",
        rich_help_panel=PRIOR,
    ),
]
FLow = Annotated[
    float | None,
    typer.Option(
        "--f-lo",
        metavar="HZ",
        help="Instead of --band: lower edge of a band as wide as the model's.",
        rich_help_panel=PRIOR,
    ),
]
PriorFile = Annotated[
    Path | None,
    typer.Option(
        "--prior",
        metavar="YAML",
        help="A file that states the prior: band, amplitude, amplitude_law, min_separation, sigma and sigma_short, "
        "k_min and k_max or k_prior, and waveform or classes. Flags override it.",
        rich_help_panel=PRIOR,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only warnings and errors, and what --json asks for.",
        rich_help_panel=OUTPUT,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="HTML",
        callback=_check_report,
        help="HTML page to write: verdict, tables and pictures of one signal in one file.",
        rich_help_panel=OUTPUT,
    ),
]
OverK = Annotated[
    str | None,
    typer.Option(
        metavar="P0,P1,...|K:P,...",
        help="Prior over K, instead of a uniform one; any K that is not named is impossible.",
        rich_help_panel=PRIOR,
    ),
]
KMin = Annotated[
    int | None, typer.Option(min=0, help="Smallest number of components.", rich_help_panel=PRIOR)
]
KMax = Annotated[
    int | None, typer.Option(min=1, help="Largest number of components.", rich_help_panel=PRIOR)
]


def band_bounds(option: str, text: str | None) -> tuple[float, float] | None:
    """Reads ``LOW:HIGH`` in Hz, or with a unit of frequency behind it: ``5:7c/d``, ``0.1:0.5/yr``."""
    from slotflow.core.units import split_unit

    if text is None:
        return None
    numbers, unit = split_unit(text)
    low, high = bounds(option, numbers) or (0.0, 0.0)
    return low * unit.hertz, high * unit.hertz


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
