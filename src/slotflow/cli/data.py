"""The data of a command: which files, what the flags say about them, and what came of reading them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from slotflow.cli.options import FILE
from slotflow.data.channel import Channel
from slotflow.data.gaps import LONGEST_GAP
from slotflow.data.observation import Observation
from slotflow.data.preprocess import EXTREME, detrend
from slotflow.data.read.formats import STANDARD_INPUT, TEXT, WAV
from slotflow.data.read.formats import file_name as shown_name
from slotflow.data.read.signals import Signals, open_signals

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
    "Time",
    "TimeUnit",
    "shown_name",
    "stream_record",
]

ROUNDING = 1e-13
"""Share of the largest sample below which what is left without offset and trend is rounding."""

Short = Annotated[
    Path | None,
    typer.Option(
        "--short", help="File of the short stream, if it has its own.", rich_help_panel=FILE
    ),
]
Step = Annotated[
    float | None,
    typer.Option(
        "--dt", help="Step of the long stream in seconds, if not in the file.", rich_help_panel=FILE
    ),
]
StepShort = Annotated[
    float | None,
    typer.Option(
        "--dt-short",
        help="Step of the short stream in seconds, if not in the file.",
        rich_help_panel=FILE,
    ),
]
Column = Annotated[
    str | None,
    typer.Option(
        "--column",
        help="Column of a text table or channel of a WAV file: its name or number.",
        rich_help_panel=FILE,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset", help="Name of the array in an NPZ, HDF5 or NetCDF file.", rich_help_panel=FILE
    ),
]
TimeUnit = Annotated[
    str | None,
    typer.Option(
        "--time-unit",
        metavar="UNIT",
        help="Unit of the time stamps, if not in the file: ns, us, ms, s, min, h, d or yr.",
        rich_help_panel=FILE,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="NAME|none",
        help="Column or array of the time stamps; none: leave stamps aside and take --dt or the file's rate.",
        rich_help_panel=FILE,
    ),
]
TRef = Annotated[
    str | None,
    typer.Option(
        "--t-ref",
        metavar="SECONDS|DATE",
        help="Instant on the file's clock that phases refer to; if not given, its zero, or the first sample where "
        "the stamps are dates or start at an epoch.",
        rich_help_panel=FILE,
    ),
]
Fill = Annotated[
    str | None,
    typer.Option(
        "--fill",
        metavar="linear|mean",
        help="How to fill missing samples, which are refused else.",
        rich_help_panel=FILE,
    ),
]
MaxGap = Annotated[
    int,
    typer.Option(
        "--max-gap", min=1, help="Longest run of missing samples to fill.", rich_help_panel=FILE
    ),
]
Detrend = Annotated[
    int | None,
    typer.Option(
        "--detrend",
        min=0,
        max=1,
        help="Remove the offset (0), or offset and linear trend (1).",
        rich_help_panel=FILE,
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
    sigma: float | None = None
    sigma_short: float | None = None
    time: str | None = None

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
            sigma=self.sigma,
            sigma_short=self.sigma_short,
            time=self.time,
        ) as signals:
            yield Source(signals, self.detrend)

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
        found = self.signals.read(first, last)
        return [one if isinstance(one, ValueError) else self._prepared(one) for one in found]

    def _prepared(self, obs: Observation) -> Observation | ValueError:
        """A signal without offset and trend if that was asked, or why nothing can be inferred from it."""
        parts = [part for part in (self.signals.long, self.signals.short) if part is not None]
        streams = []
        for part, stream in zip(parts, obs.channels, strict=True):
            try:
                streams.append(_varying(stream, self.detrend))
            except ValueError as error:
                return ValueError(f"{shown_name(part.path)}: {error}")
        return Observation(*streams)


def _varying(stream: Channel, order: int | None) -> Channel:
    """A series without offset and trend if that was asked; refuses one of which there is nothing to infer."""
    size = float(np.abs(stream.values).max())
    if np.ptp(stream.values) == 0:
        raise ValueError(
            f"expected a series that varies, received {stream.n:,} samples that all are {stream.values[0]:g}; there "
            "is nothing to infer from it: check the column or array that was read."
        )
    if not 1 / EXTREME < size < EXTREME:
        raise ValueError(
            f"expected samples whose squares are numbers, received some of up to {size:.4g}; scale the data, or check "
            "the column or array that was read."
        )
    if order is None:
        return stream
    rest = detrend(stream, order)
    if float(np.abs(rest.values).max()) <= ROUNDING * size:
        raise ValueError(
            f"nothing but rounding is left of the {stream.n:,} samples without offset and trend; there is nothing to "
            "infer from them: check the column or array that was read."
        )
    return rest


def stream_record(stream: Channel) -> dict[str, Any]:
    """Length, step, unit and known noise level of a series as plain values."""
    return {
        "n": stream.n,
        "dt": stream.dt,
        "rate": 1 / stream.dt,
        "duration": stream.duration,
        "t0": stream.t0,
        "t_ref": stream.t_ref,
        "unit": stream.unit,
        "sigma": stream.sigma,
    }
