"""Files in and out: series from CSV, NPY, NPZ and HDF5, simulations to NPZ, and atomic writing.

Whatever its format, a file is read as a table of named arrays (:mod:`slotflow.tables`), and the same
rules choose among them:

- the series is the array (or column) that the caller names, else ``long`` (``short`` for a short
  stream), ``x`` or ``values``, else the only one there is;
- its step is the caller's ``dt``, else the file's ``dt_long`` (``dt_short``) or ``dt``, else it is
  measured on the time stamps. Where two of them are known they must agree: over the whole series
  the two grids may drift apart by 5 % of one step;
- time stamps must be even to 0.1 % of the step (see :class:`slotflow.Stream`). Stamps printed with
  few digits are put back on the even grid first, if no more than their last digit is moved and
  that digit is worth less than 5 % of the step;
- two-dimensional arrays hold one signal per row.

Nothing that is read is ever executed: pickled objects are refused. Every refusal is a ValueError
that opens with the file's name and says what was expected, what was found and what to do.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.streams import Observation, Stream
from slotflow.tables import AUXILIARY, Array, Table, open_table

if TYPE_CHECKING:
    from slotflow.simulate import Simulation

__all__ = [
    "atomic_path",
    "read_observation",
    "read_observations",
    "read_stream",
    "write_simulation",
]

PathLike = str | os.PathLike[str]

SLACK = 0.05
"""Share of a step by which two accounts of the same time grid may differ at most."""


def read_stream(
    path: PathLike,
    dt: float | None = None,
    column: str | int | None = None,
    dataset: str | None = None,
) -> Stream:
    """Reads one evenly sampled series.

    Args:
        path: A text table (.csv, .tsv, .txt, .dat), a NumPy file (.npy, .npz) or an HDF5 file.
        dt: Sampling step in seconds; needed where the file holds neither a step nor time stamps.
        column: Column of a text table: its name in the header, or its number counted from 1.
        dataset: Name of the array in an NPZ or HDF5 file.

    Returns:
        The series. Its t0 is the first time stamp, or 0 where there is none.
    """
    with open_table(path, untimed=dt is not None and column is not None) as table:
        streams = _streams(table, "long", dt, column, dataset)
    if len(streams) != 1:
        raise ValueError(
            f"{path}: expected one series of shape (n,), received {len(streams)} rows of "
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
) -> Observation:
    """Reads one observation: a long stream and, where there is one, a short stream.

    Args:
        long_path: File of the long stream. An NPZ or HDF5 file with arrays ``long`` and ``short``
            gives both streams.
        dt: Sampling step of the long stream in seconds, if its file does not tell.
        short_path: File of the short stream, if it is a file of its own.
        dt_short: Sampling step of the short stream in seconds, if its file does not tell.
        column: Column of the long stream in a text table.
        dataset: Name of the long stream's array in an NPZ or HDF5 file.
    """
    observations = read_observations(
        long_path, dt, short_path, dt_short, column=column, dataset=dataset
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
) -> list[Observation]:
    """Reads all observations of a file: one, or one per row of its two-dimensional arrays.

    Args:
        path: File of the long streams, as in :func:`read_observation`, with arrays of the shapes
            (N,) or (n_signals, N) for the long and (M,) or (n_signals, M) for the short streams.
        dt: Sampling step of the long streams in seconds, if the file does not tell.
        short_path: File of the short streams, if it is a file of its own.
        dt_short: Sampling step of the short streams in seconds, if the file does not tell.
        column: Column of the long stream in a text table.
        dataset: Name of the long streams' array in an NPZ or HDF5 file.
    """
    shorts: list[Stream] | None = None
    with open_table(path, untimed=dt is not None and column is not None) as table:
        longs = _streams(table, "long", dt, column, dataset)
        holds_both = not table.text and {"long", "short"} <= set(table.names)
        if short_path is None and dataset in (None, "long") and holds_both:
            shorts = _streams(table, "short", dt_short, dataset="short")
    if short_path is not None:
        with open_table(short_path) as table:
            shorts = _streams(table, "short", dt_short)
    if shorts is None:
        return [Observation(long) for long in longs]
    if len(longs) != len(shorts):
        raise ValueError(
            f"{path}: expected as many short streams as long ones, received {len(longs)} long and "
            f"{len(shorts)} short; check the rows of both arrays."
        )
    return [Observation(*pair) for pair in zip(longs, shorts, strict=True)]


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


def _streams(
    table: Table,
    role: str,
    dt: float | None,
    column: str | int | None = None,
    dataset: str | None = None,
) -> list[Stream]:
    """The series of a table: one, or one per row."""
    if column is not None and not table.text:
        raise ValueError("columns belong to text tables; name the array with dataset instead.")
    if dataset is not None and table.text:
        raise ValueError("a text table has no datasets; name the column with column instead.")
    name = _series_name(table, role, column if table.text else dataset)
    values = table.get(name)
    rows = values if values.ndim == 2 and values.size else [values]
    return [_stream(table, name, role, row, dt) for row in rows]


def _series_name(table: Table, role: str, wanted: str | int | None) -> str:
    """Chooses the series among the arrays of a file."""
    if wanted in table.names:
        return str(wanted)
    if str(wanted).isdecimal() and 1 <= int(str(wanted)) <= len(table.names):
        return table.names[int(str(wanted)) - 1]
    series = [n for n in table.names if n != table.time]
    if not table.text:
        series = [n for n in series if not AUXILIARY.match(n.rpartition("/")[2])]
    kind, option = ("column", "column") if table.text else ("array", "dataset")
    listing = ", ".join(repr(n) for n in (series or table.names)[:12]) or "none"
    if wanted is not None:
        raise ValueError(f"expected one of the {kind}s {listing}, received {wanted!r}.")
    for name in (role, "x", "values"):
        if name in series:
            return name
    if len(series) != 1:
        raise ValueError(
            f"expected one series (named {role!r}, 'x' or 'values' if there are more), "
            f"received the {kind}s {listing}; name the one to read with {option}."
        )
    return series[0]


def _stream(table: Table, name: str, role: str, values: Array, dt: float | None) -> Stream:
    """Joins a series (n,) with its step, and checks that all accounts of the step agree."""
    steps = {} if dt is None else {"dt as given": float(dt)}
    if found := table.find(name, role, "dt"):
        steps[f"{found!r} in the file"] = table.number(found)
    found = table.find(name, role, "t0")
    t0 = table.number(found) if found else 0.0
    time = table.time or table.find(name, role, "times", "time", "t")
    if time is not None and time != name:
        stream = Stream.from_times(_restore_grid(table.get(time), table.resolution), values)
        steps[f"the time stamps {time!r}"], t0 = stream.dt, stream.t0
    if not steps:
        raise ValueError(
            "expected a sampling step or time stamps, received neither; "
            "give the step in seconds with dt (on the command line --dt)."
        )
    (first, chosen), *others = steps.items()
    for source, step in others:
        if not abs(step - chosen) * np.size(values) <= SLACK * abs(step):
            raise ValueError(
                f"expected one sampling step, received {chosen:.9g} s ({first}) and "
                f"{step:.9g} s ({source}); correct or drop one of them."
            )
    return Stream(values, chosen, t0)


def _restore_grid(times: Array, resolution: float) -> Array:
    """Puts rounded time stamps (n,) back on the even grid that they were printed from."""
    if resolution == 0 or times.size < 3 or not np.isfinite(times).all():
        return times
    grid = np.linspace(times[0], times[-1], times.size)
    rounded = np.abs(times - grid).max() <= resolution <= SLACK * (grid[1] - grid[0])
    return grid if rounded else times
