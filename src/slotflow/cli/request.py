"""What `slotflow infer` is asked, in groups of options; each field is an option of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotflow.cli.data import DataFlags
from slotflow.cli.machines import Machines
from slotflow.cli.options import (
    COMPUTATION,
    OUTPUT,
    PRIOR,
    SAMPLER,
    Device,
    Json,
    ModelName,
    Out,
    Quiet,
    Report,
    Samples,
    Seed,
)
from slotflow.cli.stated import PriorFlags
from slotflow.core.methods import METHODS
from slotflow.core.units import frequency_unit

if TYPE_CHECKING:
    from slotflow.many.results import Wanted

__all__ = ["MOST_SAVED", "Computation", "Request", "Results", "Sampler"]

SHOWN_UNITS = ("Hz", "kHz", "mHz", "uHz", "c/d", "1/d", "1/h", "1/yr")
"""Units that the help names."""
MOST_SAVED = 100
"""Signals whose posteriors are written unless the user says otherwise; of more, the catalogue alone."""


def _check_method(name: str) -> str:
    """Refuses a method that does not exist."""
    if name not in METHODS:
        raise ValueError(f"--method: expected one of {', '.join(METHODS)}, received {name!r}.")
    return name


def _check_outliers(name: str | None) -> str | None:
    """Refuses a way to treat outliers that does not exist."""
    if name not in (None, "clip"):
        raise ValueError(f"--outliers: expected clip, received {name!r}.")
    return name


def _check_unit(name: str | None) -> str | None:
    """Refuses a unit of frequency that is not known."""
    if name is not None:
        try:
            frequency_unit(name)
        except ValueError as error:
            raise ValueError(f"--frequency-unit: {error}") from None
    return name


@dataclass(frozen=True)
class Computation:
    """How the answer is found."""

    method: Annotated[
        str,
        typer.Option(
            metavar="|".join(METHODS),
            callback=_check_method,
            help="How to find the answer.",
            rich_help_panel=COMPUTATION,
        ),
    ] = "exact"
    model: ModelName = None
    refine: Annotated[
        bool,
        typer.Option(
            help="Check and correct the network's answer against the likelihood; --no-refine means --method network.",
            rich_help_panel=COMPUTATION,
        ),
    ] = True
    noise: Annotated[
        str,
        typer.Option(
            metavar="auto|white|local|ar(P)|power_law|FILE",
            help="The noise: white; local (each band has its own level); coloured, with P coefficients or a power law; "
            "or a file with frequencies and power spectral densities. auto tests the data and says what it chose.",
            rich_help_panel=PRIOR,
        ),
    ] = "auto"
    outliers: Annotated[
        str | None,
        typer.Option(
            metavar="clip",
            callback=_check_outliers,
            help="clip: leave out samples that lie far beyond the scatter of the others, and say how many.",
            rich_help_panel=PRIOR,
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Time budget of the command in seconds, shared by its signals. By default, the exact step has 10 for "
            "each signal, and a sampler takes as long as it needs.",
            rich_help_panel=COMPUTATION,
        ),
    ] = None
    samples: Samples = 1000
    seed: Seed = 0
    device: Device = None
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads.", rich_help_panel=COMPUTATION)
    ] = None


@dataclass(frozen=True)
class Sampler:
    """Sizes of the samplers; None for the method's own."""

    effective: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="rjmcmc: stop at this many effective draws of the most probable K.",
            rich_help_panel=SAMPLER,
        ),
    ] = None
    walkers: Annotated[
        int | None,
        typer.Option(min=2, help="rjmcmc: walkers at each temperature.", rich_help_panel=SAMPLER),
    ] = None
    temperatures: Annotated[
        int | None,
        typer.Option(min=1, help="rjmcmc: number of temperatures.", rich_help_panel=SAMPLER),
    ] = None
    hottest: Annotated[
        float | None,
        typer.Option(min=1, help="rjmcmc: the highest temperature.", rich_help_panel=SAMPLER),
    ] = None
    chain: Annotated[
        Path | None,
        typer.Option(
            help="rjmcmc: HDF file of the chain; the same command continues from it.",
            rich_help_panel=SAMPLER,
        ),
    ] = None
    particles: Annotated[
        int | None, typer.Option(min=1, help="smc: particles of each K.", rich_help_panel=SAMPLER)
    ] = None
    islands: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="smc: independent groups of particles, for the standard error.",
            rich_help_panel=SAMPLER,
        ),
    ] = None
    sweeps: Annotated[
        int | None,
        typer.Option(
            min=1, help="smc: rounds of moves at each point of the path.", rich_help_panel=SAMPLER
        ),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="smc: after this many negligible K in a row, no larger one is tried.",
            rich_help_panel=SAMPLER,
        ),
    ] = None


@dataclass(frozen=True)
class Results:
    """What is printed and written."""

    out: Out = None
    save: Annotated[
        str | None,
        typer.Option(
            metavar="all|none",
            help=f"Whether each of several signals gets a folder; by default, if there are up to {MOST_SAVED}.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Compute again what an earlier run left in --out.",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    plot: Annotated[
        bool, typer.Option("--plot", help="Also write posterior.png.", rich_help_panel=OUTPUT)
    ] = False
    report: Report = None
    parquet: Annotated[
        bool,
        typer.Option(
            "--parquet",
            help="Also write the catalogue of many signals as a Parquet file (needs the extra 'parquet').",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    frequency_unit: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(SHOWN_UNITS),
            callback=_check_unit,
            help="Unit of the frequencies in tables, pictures and reports. By default, c/d, 1/h or 1/yr for times in "
            "days, hours or years, and Hz otherwise. JSON is in Hz.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    phase_at: Annotated[
        str,
        typer.Option(
            metavar="auto|mid|start|zero|TIME",
            help="Instant that phases refer to. TIME is in seconds, has a unit (1990.5yr) or is a date. auto: t = 0 if "
            "it lies in the series, otherwise the middle of the series.",
            rich_help_panel=OUTPUT,
        ),
    ] = "auto"
    as_json: Json = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Print more: every window of a wide band, and all probabilities.",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    quiet: Quiet = False

    @property
    def wanted(self) -> Wanted:
        """What is written of each signal."""
        from slotflow.many.results import Wanted

        return Wanted(self.out, self.plot, self.report, self.frequency_unit, self.phase_at)


@dataclass(frozen=True)
class Request:
    """Everything that the command line says."""

    files: list[Path]
    signal: int | None
    data: DataFlags
    prior: PriorFlags
    computation: Computation
    sampler: Sampler
    machines: Machines
    results: Results
