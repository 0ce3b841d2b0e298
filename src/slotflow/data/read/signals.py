"""The signals of a file, a few at a time: for files that hold more of them than fit into memory.

:func:`slotflow.data.read.files.read_observations` reads the same signals at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from slotflow.data.channel import Channel
from slotflow.data.gaps import LONGEST_GAP
from slotflow.data.observation import Observation, stated_levels
from slotflow.data.read.formats import file_name, naming, open_plain
from slotflow.data.read.series import Choices, Series, read_series

__all__ = ["Signals", "open_signals"]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class _Part:
    """The long or the short streams of a file."""

    path: PathLike
    series: Series
    choices: Choices

    def read(self, first: int, last: int, t_ref: float, stated: bool) -> list[Channel | ValueError]:
        with naming(self.path):
            found = self.series.each(first, last, self.choices, t_ref, stated)
        return [
            ValueError(f"{file_name(self.path)}: {x}") if isinstance(x, ValueError) else x
            for x in found
        ]


@dataclass(frozen=True)
class Signals:
    """The signals of an open file; see :func:`open_signals`."""

    long: _Part
    short: _Part | None
    t_ref: float
    """The instant that phases refer to."""
    stated: bool
    """Whether the caller chose it."""

    @property
    def count(self) -> int:
        """How many there are."""
        return self.long.series.rows.count

    def read(self, first: int, last: int) -> list[Observation | ValueError]:
        """The signals first, …, last − 1, counted from 0, or why one of them cannot be used."""
        longs = self.long.read(first, last, self.t_ref, self.stated)
        if self.short is None:
            return [x if isinstance(x, ValueError) else Observation(x) for x in longs]
        found: list[Observation | ValueError] = []
        shorts = self.short.read(first, last, self.t_ref, self.stated)
        for pair in zip(longs, shorts, strict=True):
            bad = [x for x in pair if isinstance(x, ValueError)]
            good = [x for x in pair if isinstance(x, Channel)]
            found.append(bad[0] if bad else Observation(*good))
        return found

    def all(self) -> list[Observation]:
        """All signals; the first one that cannot be used is refused."""
        found = self.read(0, self.count)
        for one in found:
            if isinstance(one, ValueError):
                raise one
        return [one for one in found if isinstance(one, Observation)]


@contextmanager
def open_signals(
    path: PathLike,
    dt: float | None = None,
    short_path: PathLike | None = None,
    dt_short: float | None = None,
    *,
    column: str | int | None = None,
    dataset: str | None = None,
    t_ref: float | str | None = None,
    time_unit: str | None = None,
    fill: str | None = None,
    max_gap: int = LONGEST_GAP,
    sigma: float | None = None,
    sigma_short: float | None = None,
    time: str | int | None = None,
) -> Iterator[Signals]:
    """Opens a file of signals.

    Rows of two-dimensional arrays (NPY, NPZ, HDF5, NetCDF) are read when they are asked for; other files at once.

    Args:
        path: As in :func:`slotflow.data.read.files.read_observations`, like all that follow.
        dt: Sampling step of the long streams.
        short_path: File of the short streams.
        dt_short: Sampling step of the short streams.
        column: Column or channel of the long stream.
        dataset: Name of the long streams' array.
        t_ref: Instant that phases refer to.
        time_unit: Unit of the time stamps.
        fill: How to fill missing samples.
        max_gap: Longest run of samples to fill.
        sigma: Noise level of the long streams.
        sigma_short: Noise level of the short streams.
        time: Column or array of the time stamps, or ``none``.

    Yields:
        The signals, to be read until the block ends.
    """
    choices = Choices(dt, column, dataset, time_unit, fill, max_gap, sigma, time)
    with ExitStack() as stack:
        with naming(path):
            untimed = dt is not None and column is not None
            table = stack.enter_context(open_plain(path, untimed, time))
            series = read_series(table, "long", choices)
            reference = series.reference(t_ref)
            holds_both = not table.columns and {"long", "short"} <= set(table.names)
        short = None
        has_short = short_path is not None or (holds_both and dataset in (None, "long"))
        with naming(path):
            _, level = stated_levels(sigma, sigma_short, has_short)
        if has_short:
            others = Choices(dt_short, None, None, time_unit, fill, max_gap, level, time)
            if short_path is None:
                short_path, others = path, replace(others, dataset="short")
            else:
                with naming(short_path):
                    table = stack.enter_context(open_plain(short_path, False, time))
            with naming(short_path):
                short = _Part(short_path, read_series(table, "short", others), others)
                _check_pair(series, short.series)
        yield Signals(_Part(path, series, choices), short, reference, t_ref is not None)


def _check_pair(long: Series, short: Series) -> None:
    """Refuses streams that do not belong together."""
    if short.start is not None and long.start is not None and short.dated != long.dated:
        raise ValueError(
            "expected the time stamps of both streams on one clock, received dates in one file and numbers "
            "in the other; write both alike."
        )
    if long.rows.count != short.rows.count:
        raise ValueError(
            f"expected as many short streams as long ones, received {long.rows.count} long and "
            f"{short.rows.count} short; check the rows of both arrays."
        )
