"""The flags that say how a file is to be read, and what is printed of a series."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from slotflow.cli.options import FILE
from slotflow.data.gaps import LONGEST_GAP
from slotflow.data.read.formats import file_name as shown_name
from slotflow.data.read.options import ReadOptions, option_help
from slotflow.data.trend import HIGHEST_ORDER

__all__ = [
    "Column",
    "Complex",
    "DataFlags",
    "Dataset",
    "Detrend",
    "Errors",
    "Fill",
    "Join",
    "MaxGap",
    "Missing",
    "Relative",
    "Segments",
    "Short",
    "Step",
    "StepShort",
    "TRef",
    "Time",
    "TimeUnit",
    "Trend",
    "shown_name",
]


def _flag(field: str, *names: str, **settings: Any) -> Any:
    """A flag for a field of `ReadOptions`, with that field's description as its help."""
    return typer.Option(*names, help=option_help(field), rich_help_panel=FILE, **settings)


Short = Annotated[Path | None, _flag("short_path", "--short")]
Step = Annotated[float | None, _flag("dt", "--dt")]
StepShort = Annotated[float | None, _flag("dt_short", "--dt-short")]
FreeGain = Annotated[bool, _flag("free_gain", "--free-gain")]
Column = Annotated[str | None, _flag("column", "--column")]
Dataset = Annotated[str | None, _flag("dataset", "--dataset")]
TimeUnit = Annotated[str | None, _flag("time_unit", "--time-unit", metavar="UNIT")]
Time = Annotated[str | None, _flag("time", "--time", metavar="NAME|none")]
TRef = Annotated[str | None, _flag("t_ref", "--t-ref", metavar="SECONDS|DATE")]
Fill = Annotated[str | None, _flag("fill", "--fill", metavar="linear|mean")]
MaxGap = Annotated[int, _flag("max_gap", "--max-gap", min=1)]
Detrend = Annotated[int | None, _flag("detrend", "--detrend", min=0, max=HIGHEST_ORDER)]
Trend = Annotated[int | None, _flag("trend", "--trend", min=-1, max=HIGHEST_ORDER)]
Errors = Annotated[str | None, _flag("errors", "--errors", metavar="NAME|none")]
Segments = Annotated[str | None, _flag("segments", "--segments", metavar="NAME")]
Missing = Annotated[float | None, _flag("missing", "--missing")]
Complex = Annotated[bool, _flag("complex", "--complex")]
Relative = Annotated[bool, _flag("relative", "--relative")]
Join = Annotated[
    bool,
    typer.Option(
        "--join",
        help="Join all files (sectors, quarters) into one series, each with its own offset.",
        rich_help_panel=FILE,
    ),
]


@dataclass(frozen=True)
class DataFlags:
    """What the flags say about the files."""

    short: Short = None
    dt: Step = None
    dt_short: StepShort = None
    free_gain: FreeGain = False
    column: Column = None
    dataset: Dataset = None
    time_column: Time = None
    time_unit: TimeUnit = None
    t_ref: TRef = None
    fill: Fill = None
    max_gap: MaxGap = LONGEST_GAP
    detrend: Detrend = None
    trend: Trend = None
    errors: Errors = None
    segments: Segments = None
    missing: Missing = None
    complex: Complex = False
    relative: Relative = False
    join: Join = False

    def options(self, levels: tuple[float | None, float | None]) -> ReadOptions:
        """How the files are read, given the known noise levels of the long and of the short stream."""
        return ReadOptions(
            dt=self.dt,
            short_path=self.short,
            dt_short=self.dt_short,
            free_gain=self.free_gain,
            column=self.column,
            dataset=self.dataset,
            t_ref=self.t_ref,
            time_unit=self.time_unit,
            fill=self.fill,
            max_gap=self.max_gap,
            detrend=self.detrend,
            sigma=levels[0],
            sigma_short=levels[1],
            time=self.time_column,
            errors=self.errors,
            segments=self.segments,
            missing=self.missing,
            complex=self.complex,
            relative=self.relative,
            trend=self.trend,
            varying=True,
        )
