"""The signals of a file, a few at a time: for files that hold more of them than fit into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from slotflow.core.files import PathLike
from slotflow.data.channel import Channel
from slotflow.data.gain import FREE
from slotflow.data.observation import Observation, stated_levels
from slotflow.data.read.formats import STANDARD_INPUT, file_name, naming, open_table
from slotflow.data.read.formats.sniff import kind_of
from slotflow.data.read.joined import join_channels
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.series import Series, read_series
from slotflow.data.read.tables import Table

__all__ = ["SIGNALS_AT_ONCE", "Signals", "count_signals", "open_signals"]

SIGNALS_AT_ONCE = 64
"""Signals that iterating over a file reads together."""
KEPT_BYTES = 2**26
"""Bytes of samples that are kept in memory, so that a second pass over a file need not read and detrend it again."""


class Signals:
    """The signals of an open file; see :func:`open_signals`.

    What has been read is kept as long as there is room for it (`KEPT_BYTES`), so that several passes over a file of
    usual size read, fill and detrend each signal once.

    Args:
        long: The long streams.
        short: The short streams, if there are any.
        t_ref: The instant that phases refer to.
        stated: Whether the caller chose it.
        further: Series that continue the long streams.
        free_gain: Whether the gain of the short streams is free.
    """

    def __init__(
        self,
        long: Series,
        short: Series | None,
        t_ref: float,
        stated: bool,
        further: tuple[Series, ...] = (),
        free_gain: bool = False,
    ) -> None:
        self.long = long
        self.further = further
        self.short = short
        self.free_gain = free_gain
        self.t_ref = t_ref
        self.stated = stated
        self._kept: dict[tuple[int, int], list[Observation | ValueError]] = {}
        self.room = KEPT_BYTES
        """Bytes of samples that may still be kept; 0 for who reads each signal once."""

    @property
    def count(self) -> int:
        """How many there are."""
        return self.long.rows.count

    def read(self, first: int, last: int) -> list[Observation | ValueError]:
        """The signals first, …, last − 1, counted from 0, or why one of them cannot be used."""
        last = min(last, self.count)
        if (first, last) not in self._kept:
            found = self._read(first, last)
            size = sum(
                channel.values.nbytes
                for one in found
                if isinstance(one, Observation)
                for channel in one.channels
            )
            if size > self.room:
                return found
            self.room -= size
            self._kept[first, last] = found
        return list(self._kept[first, last])

    def _read(self, first: int, last: int) -> list[Observation | ValueError]:
        """As `read`, from the file."""
        streams = [part for part in (self.long, self.short) if part is not None]
        columns = []
        for part in streams:
            with naming(part.file):
                columns.append(part.read(first, last, self.t_ref, self.stated))
        if self.further:
            parts = [columns[0]]
            for part in self.further:
                with naming(part.file):
                    parts.append(part.read(first, last, self.t_ref, self.stated))
            columns[0] = [_joined(one) for one in zip(*parts, strict=True)]
        if self.free_gain:
            columns[1] = [
                x if isinstance(x, ValueError) else replace(x, gain=FREE) for x in columns[1]
            ]
        found: list[Observation | ValueError] = []
        for one in zip(*columns, strict=True):
            bad = [x for x in one if isinstance(x, ValueError)]
            found.append(bad[0] if bad else Observation([x for x in one if isinstance(x, Channel)]))
        return found

    def __iter__(self) -> Iterator[Observation]:
        """The signals that can be used, one after another; those that cannot are left out."""
        for first in range(0, self.count, SIGNALS_AT_ONCE):
            for one in self.read(first, first + SIGNALS_AT_ONCE):
                if isinstance(one, Observation):
                    yield one

    def all(self) -> list[Observation]:
        """All signals; the first one that cannot be used is refused."""
        found = self._read(0, self.count)
        for one in found:
            if isinstance(one, ValueError):
                raise one
        return [one for one in found if isinstance(one, Observation)]


@contextmanager
def open_signals(path: PathLike, options: ReadOptions | None = None) -> Iterator[Signals]:
    """Opens a file of signals.

    Rows of two-dimensional arrays (NPY, NPZ, HDF5, NetCDF) are read when they are asked for; other files at once.

    Args:
        path: The file of the long streams, or of both: a text table of any suffix (``-`` for standard input), NumPy
            (.npy, .npz), HDF5 (.h5, .hdf5), NetCDF (.nc), WAV (.wav), FITS (.fits) or MATLAB (.mat).
        options: What the caller says about it.

    Yields:
        The signals, to be read until the block ends.
    """
    options = options or ReadOptions()
    with ExitStack() as stack:
        with naming(path):
            table = stack.enter_context(open_table(path, options))
            long = read_series(table, file_name(path), "long", options)
            reference = long.reference(options.t_ref)
            short_options = _short_options(table, path, options)
        short = None
        if short_options is not None:
            short_path = options.short_path or path
            with naming(short_path):
                if options.short_path is not None:
                    table = stack.enter_context(open_table(short_path, short_options))
                short = read_series(table, file_name(short_path), "short", short_options)
                _check_pair(long, short)
        further = []
        for one in options.further:
            with naming(one):
                table = stack.enter_context(open_table(one, options))
                further.append(read_series(table, file_name(one), "long", options))
                _check_further(long, further[-1])
        if options.free_gain and short is None:
            raise ValueError(
                f"{file_name(path)}: expected a second stream whose gain is free, received only one stream; give the "
                "other one (--short, short_path), or drop --free-gain (free_gain)."
            )
        stated = options.t_ref is not None
        yield Signals(long, short, reference, stated, tuple(further), options.free_gain)


def count_signals(path: PathLike, options: ReadOptions | None = None) -> int:
    """How many signals a file holds; 1 if it cannot be read."""
    if os.fspath(path) == STANDARD_INPUT:
        return 1
    with suppress(ValueError, OSError):
        if kind_of(Path(path)) in ("text", "wav", "fits"):
            return 1
        with open_signals(path, options) as signals:
            return signals.count
    return 1


def _short_options(table: Table, path: PathLike, options: ReadOptions) -> ReadOptions | None:
    """What the caller says about the short streams; None where there are none."""
    in_the_same = not table.columns and {"long", "short"} <= set(table.names)
    in_the_same = in_the_same and options.dataset in (None, "long")
    has_short = options.short_path is not None or in_the_same
    _, level = stated_levels(options.sigma, options.sigma_short, has_short)
    if not has_short:
        return None
    dataset = "short" if options.short_path is None else None
    return replace(options, dt=options.dt_short, column=None, dataset=dataset, sigma=level)


def _joined(parts: tuple[Channel | ValueError, ...]) -> Channel | ValueError:
    """The parts of one signal as one channel, or why they are none."""
    bad = [part for part in parts if isinstance(part, ValueError)]
    if bad:
        return bad[0]
    try:
        return join_channels([part for part in parts if isinstance(part, Channel)])
    except ValueError as error:
        return error


def _check_further(first: Series, other: Series) -> None:
    """Refuses a file that does not continue the series of another one."""
    if None in (first.clock.start, other.clock.start):
        raise ValueError(
            "expected files with time stamps to join, received some without; write them into one file."
        )
    if (first.rows.count, first.clock.dated) != (other.rows.count, other.clock.dated):
        raise ValueError(
            "expected files to join that hold as many signals and share one clock, received others (one signal per "
            "row; dates or numbers); join files of one kind."
        )


def _check_pair(long: Series, short: Series) -> None:
    """Refuses streams that do not belong together."""
    if None not in (short.clock.start, long.clock.start) and short.clock.dated != long.clock.dated:
        raise ValueError(
            "expected the time stamps of both streams on one clock, received dates in one file and numbers "
            "in the other; write both alike."
        )
    if long.rows.count != short.rows.count:
        raise ValueError(
            f"expected as many short streams as long ones, received {long.rows.count} long and "
            f"{short.rows.count} short; check the rows of both arrays."
        )
