"""Files in and out: series from files of any known format, simulations to NPZ, and atomic writing.

Whatever its format (:mod:`slotflow.formats`), a file is read as a table of named arrays, and the same rules choose
among them (:mod:`slotflow.series`).

Nothing that is read is ever executed: pickled objects are refused. Every refusal is a ValueError that opens with the
file's name and says what was expected, what was found and what to do.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.formats import find_files, open_table
from slotflow.sampling import LONGEST_GAP
from slotflow.series import Choices, read_series
from slotflow.signals import open_signals
from slotflow.streams import Observation, Stream

if TYPE_CHECKING:
    from slotflow.simulate import Simulation

__all__ = [
    "atomic_path",
    "find_files",
    "read_observation",
    "read_observations",
    "read_stream",
    "write_simulation",
]

PathLike = str | os.PathLike[str]


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
) -> Stream:
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
        fill: How to fill missing samples: ``linear`` or ``mean`` (see :func:`slotflow.sampling.fill_gaps`); None
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


def write_simulation(path: PathLike, simulation: Simulation) -> None:
    """Writes simulated signals with their truth to one NPZ file.

    The arrays, for n signals: ``long`` (n, N) and ``short`` (n, M) float32, ``dt_long``,
    ``dt_short``, ``t0_long`` and ``t0_short`` in seconds, and the truth: ``k`` (n,), ``theta``
    (n, K_max, 3) with amplitude, phase and frequency padded by zeros, ``sigma`` (n,) and
    ``snr_db`` (n,).

    Args:
        path: File to write; its suffix must be .npz.
        simulation: The signals.
    """
    if Path(path).suffix.lower() != ".npz":
        raise ValueError(f"{path}: expected a file name that ends in .npz; rename it.")
    arrays: dict[str, Any] = {
        "k": simulation.k.numpy(),
        "theta": simulation.theta.cpu().numpy(),
        "sigma": simulation.sigma.cpu().numpy(),
        "snr_db": simulation.snr_db().cpu().numpy(),
    }
    values = simulation.long, simulation.short
    for role, grid, x in zip(("long", "short"), simulation.grids, values, strict=True):
        if grid is not None and x is not None:
            arrays |= {role: x.cpu().numpy(), f"dt_{role}": grid.dt, f"t0_{role}": grid.t0}
    with atomic_path(path) as temporary:
        np.savez(temporary, **arrays)


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Lets a file appear whole or not at all.

    The body writes to the temporary name that it is given, in the folder of the target and with the
    same suffix. When the body succeeds, that file replaces the target in one step; when it fails
    (a full disk, Ctrl-C), the temporary file is removed and the target stays as it was.

    Args:
        path: The file to write. Missing folders above it are created; a link is followed.

    Yields:
        The temporary path, which does not exist yet.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ValueError(f"{path}: expected a file to write, received a folder or a device.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(6)}{target.suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(
            0o666 & ~_umask()
        )  # as any new file: some writers leave it to its owner alone
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The permission bits that this process takes from new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
