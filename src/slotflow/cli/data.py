"""The data of a command: which files, what the flags say about them, and what came of reading them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from slotflow.formats import STANDARD_INPUT, TEXT, WAV
from slotflow.formats import file_name as shown_name
from slotflow.preprocess import detrend
from slotflow.sampling import LONGEST_GAP
from slotflow.signals import Signals, open_signals
from slotflow.streams import Observation, Stream

__all__ = [
    "Column",
    "Dataset",
    "Detrend",
    "Fill",
    "MaxGap",
    "Reading",
    "Short",
    "Source",
    "Step",
    "StepShort",
    "TRef",
    "TimeUnit",
    "shown_name",
    "stream_record",
]

Short = Annotated[
    Path | None, typer.Option("--short", help="File of the short stream, if it has its own.")
]
Step = Annotated[
    float | None,
    typer.Option("--dt", help="Step of the long stream in seconds, if not in the file."),
]
StepShort = Annotated[
    float | None,
    typer.Option("--dt-short", help="Step of the short stream in seconds, if not in the file."),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column", help="Column of a text table or channel of a WAV file: its name or number."
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option("--dataset", help="Name of the array in an NPZ, HDF5 or NetCDF file."),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(
        "--time-unit",
        metavar="UNIT",
        help="Unit of the time stamps, if not in the file: ns, us, ms, s, min, h or d.",
    ),
]
TRef = Annotated[
    str | None,
    typer.Option(
        "--t-ref",
        metavar="SECONDS|DATE",
        help="Instant on the file's clock that phases refer to; if not given, its zero, or the first sample where "
        "the stamps are dates or start at an epoch.",
    ),
]
Fill = Annotated[
    str | None,
    typer.Option(
        "--fill", metavar="linear|mean", help="How to fill missing samples, which are refused else."
    ),
]
MaxGap = Annotated[
    int, typer.Option("--max-gap", min=1, help="Longest run of missing samples to fill.")
]
Detrend = Annotated[
    int | None,
    typer.Option(
        "--detrend", min=0, max=1, help="Remove the offset (0), or offset and linear trend (1)."
    ),
]


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the flags say about the files, as `slotflow.io.read_observations` takes it, and the order of `detrend`."""

    dt: float | None = None
    short: Path | None = None
    dt_short: float | None = None
    column: str | None = None
    dataset: str | None = None
    t_ref: str | None = None
    time_unit: str | None = None
    fill: str | None = None
    max_gap: int = LONGEST_GAP
    detrend: int | None = None

    @contextmanager
    def open(self, file: Path) -> Iterator[Source]:
        """The signals of a file, to be read a few at a time."""
        with open_signals(
            file,
            self.dt,
            self.short,
            self.dt_short,
            column=self.column,
            dataset=self.dataset,
            t_ref=self.t_ref,
            time_unit=self.time_unit,
            fill=self.fill,
            max_gap=self.max_gap,
        ) as signals:
            yield Source(signals, self.detrend)

    def read(self, file: Path) -> list[Observation]:
        """The signals of a file, without offset and trend if that was asked; a bad one is refused."""
        with self.open(file) as source:
            found = source.read(0, source.count)
            for one in found:
                if isinstance(one, ValueError):
                    raise one
        return [one for one in found if isinstance(one, Observation)]

    def count(self, file: Path) -> int:
        """How many signals a file holds; one if it cannot be read."""
        if os.fspath(file) == STANDARD_INPUT or file.suffix.lower() in TEXT + WAV:
            return 1
        try:
            with self.open(file) as source:
                return source.count
        except (ValueError, OSError):
            return 1


@dataclasses.dataclass(frozen=True)
class Source:
    """The signals of an open file."""

    signals: Signals
    detrend: int | None

    @property
    def count(self) -> int:
        """How many there are."""
        return self.signals.count

    def read(self, first: int, last: int) -> list[Observation | ValueError]:
        """The signals first, …, last − 1, without offset and trend if that was asked, or why one cannot be used."""
        found, order = self.signals.read(first, last), self.detrend
        if order is None:
            return found
        return [
            one
            if isinstance(one, ValueError)
            else Observation(*(detrend(stream, order) for stream in one.streams))
            for one in found
        ]


def stream_record(stream: Stream) -> dict[str, Any]:
    """Length, step and unit of a series as plain values."""
    return {
        "n": stream.n,
        "dt": stream.dt,
        "rate": 1 / stream.dt,
        "duration": stream.duration,
        "t0": stream.t0,
        "t_ref": stream.t_ref,
        "unit": stream.unit,
    }
