"""Series from files of any known format.

Whatever its format (:mod:`slotflow.data.read.formats`), a file is read as a table of named arrays, and the same rules
choose among them (:mod:`slotflow.data.read.series`).

Nothing that is read is ever executed: pickled objects are refused. Every refusal is a ValueError that opens with the
file's name and says what was expected, what was found and what to do.
"""

from __future__ import annotations

from slotflow.core.files import PathLike
from slotflow.data.channel import Channel
from slotflow.data.gaps import LONGEST_GAP
from slotflow.data.observation import Observation
from slotflow.data.read.formats import find_files, open_table
from slotflow.data.read.series import Choices, read_series
from slotflow.data.read.signals import open_signals

__all__ = [
    "find_files",
    "read_observation",
    "read_observations",
    "read_stream",
]


def read_stream(
    path: PathLike,
    dt: float | None = None,
    column: str | int | None = None,
    dataset: str | None = None,
    *,
    t_ref: float | str | None = None,
    time_unit: str | None = None,
    fill: str | None = None,
    max_gap: int = LONGEST_GAP,
    sigma: float | None = None,
    time: str | int | None = None,
) -> Channel:
    """Reads one evenly sampled series.

    Args:
        path: A text table (.csv, .tsv, .txt, .dat, or ``-`` for standard input), NumPy (.npy, .npz), HDF5 (.h5, .hdf5),
            NetCDF (.nc) or WAV (.wav).
        dt: Sampling step in seconds; needed where the file holds neither a step nor time stamps.
        column: Column of a text table or channel of a WAV file: its name, or its number counted from 1.
        dataset: Name of the array in an NPZ, HDF5 or NetCDF file.
        t_ref: Instant on the file's clock that phases refer to, in seconds or as a date; None: the clock's zero, or the
            first sample where the stamps are dates or start at an epoch.
        time_unit: Unit of the time stamps, if the file does not tell: ns, us, ms, s, min, h, d or yr.
        fill: How to fill missing samples: ``linear`` or ``mean`` (see :func:`slotflow.data.gaps.fill_gaps`); None
            refuses them.
        max_gap: Longest run of samples to fill.
        sigma: Noise standard deviation per sample, if known; see :class:`slotflow.Stream`.
        time: Column or array of the time stamps, by its name (a column also by its number); ``none``: stamps that the
            file has are left aside. None: what headers and names tell.

    Returns:
        The series, its times counted from t_ref; its `notes` say what was assumed and done.
    """
    choices = Choices(dt, column, dataset, time_unit, fill, max_gap, sigma, time)
    with open_table(path, dt is not None and column is not None, time) as table:
        series = read_series(table, "long", choices)
        streams = series.streams(choices, series.reference(t_ref), t_ref is not None)
        if len(streams) != 1:
            raise ValueError(
                f"expected one series of shape (n,), received {len(streams)} rows of "
                f"{streams[0].n} samples; read_observations reads one signal per row."
            )
    return streams[0]


def read_observation(
    long_path: PathLike,
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
) -> Observation:
    """Reads one observation: a long stream and, where there is one, a short stream.

    Args:
        long_path: File of the long stream. An NPZ, HDF5 or NetCDF file with arrays ``long`` and ``short`` gives both
            streams.
        dt: Sampling step of the long stream in seconds, if its file does not tell.
        short_path: File of the short stream, if it is a file of its own.
        dt_short: Sampling step of the short stream in seconds, if its file does not tell.
        column: Column of the long stream in a text table, or its channel in a WAV file.
        dataset: Name of the long stream's array in an NPZ, HDF5 or NetCDF file.
        t_ref: Instant that the phases of both streams refer to, as in :func:`read_stream`.
        time_unit: Unit of the time stamps of both files, if they do not tell.
        fill: How to fill missing samples of both streams; None refuses them.
        max_gap: Longest run of samples to fill.
        sigma: Noise standard deviation per sample of the long stream, if known; see :class:`slotflow.Stream`.
        sigma_short: The same of the short stream, if it differs.
        time: Column or array of the time stamps in both files, or ``none``; see :func:`read_stream`.
    """
    observations = read_observations(
        long_path,
        dt,
        short_path,
        dt_short,
        column=column,
        dataset=dataset,
        t_ref=t_ref,
        time_unit=time_unit,
        fill=fill,
        max_gap=max_gap,
        sigma=sigma,
        sigma_short=sigma_short,
        time=time,
    )
    if len(observations) != 1:
        raise ValueError(
            f"{long_path}: expected one signal, received {len(observations)} (one per row); "
            "read_observations reads them all."
        )
    return observations[0]


def read_observations(
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
) -> list[Observation]:
    """Reads all observations of a file: one, or one per row of its two-dimensional arrays.

    Args:
        path: File of the long streams, as in :func:`read_observation`, with arrays of the shapes (N,) or (n_signals, N)
            for the long and (M,) or (n_signals, M) for the short streams.
        dt: As in :func:`read_observation`, like all that follow.
        short_path: File of the short streams, if it is a file of its own.
        dt_short: Sampling step of the short streams in seconds.
        column: Column or channel of the long stream.
        dataset: Name of the long streams' array.
        t_ref: Instant that phases refer to.
        time_unit: Unit of the time stamps.
        fill: How to fill missing samples.
        max_gap: Longest run of samples to fill.
        sigma: Noise level of the long streams, if known.
        sigma_short: Noise level of the short streams, if it differs.
        time: Column or array of the time stamps, or ``none``.
    """
    with open_signals(
        path,
        dt,
        short_path,
        dt_short,
        column=column,
        dataset=dataset,
        t_ref=t_ref,
        time_unit=time_unit,
        fill=fill,
        max_gap=max_gap,
        sigma=sigma,
        sigma_short=sigma_short,
        time=time,
    ) as signals:
        return signals.all()
