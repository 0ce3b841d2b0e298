"""Files in and out: series from CSV, NPY, NPZ and HDF5, simulations to NPZ, and atomic writing.

Whatever its format, a file is read as a table of named arrays, and the same rules choose among
them:

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

import math
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.streams import Observation, Stream

if TYPE_CHECKING:
    from slotflow.simulate import Simulation

__all__ = [
    "atomic_path",
    "read_observation",
    "read_observations",
    "read_stream",
    "write_simulation",
]

Array = NDArray[Any]
PathLike = str | os.PathLike[str]

TEXT = (".csv", ".tsv", ".txt", ".dat")
NUMPY = (".npy", ".npz")
HDF5 = (".h5", ".hdf5", ".hdf")

SLACK = 0.05
"""Share of a step by which two accounts of the same time grid may differ at most."""

TIME_NAMES = ("times", "time", "t")
TIME_HEADER = re.compile(
    r"(times?|timestamps?|seconds?|secs?)(?![a-z])|t(\s*[\[(/].*)?$", re.IGNORECASE
)
AUXILIARY = re.compile(r"(dt|t0|times?|t|k|theta|sigma|snr_db)(_long|_short)?$")
MISSING = {"", "-", "--", "?", "na", "n/a", "null", "none", "missing"}


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
    streams = _read_streams(Path(path), "long", dt, column, dataset)
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
    path = Path(path)
    longs = _read_streams(path, "long", dt, column, dataset)
    if short_path is not None:
        shorts = _read_streams(Path(short_path), "short", dt_short, None, None)
    elif dataset in (None, "long") and _holds_both(path):
        shorts = _read_streams(path, "short", dt_short, None, "short")
    else:
        return [Observation(stream) for stream in longs]
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
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path}: expected a file name that ends in .npz; rename it.")
    long, short = simulation.grids
    arrays: dict[str, Any] = {
        "long": simulation.long,
        "dt_long": long.dt,
        "t0_long": long.t0,
        "k": simulation.k,
        "theta": simulation.theta,
        "sigma": simulation.sigma,
        "snr_db": simulation.snr_db(),
    }
    if short is not None:
        arrays |= {"short": simulation.short, "dt_short": short.dt, "t0_short": short.t0}
    with atomic_path(path) as temporary:
        numeric: Any = {name: _to_numpy(array) for name, array in arrays.items()}
        np.savez(temporary, **numeric)


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
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


# --- From a table of arrays to streams --------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """The arrays of one file.

    Args:
        names: Their names, in the file's order.
        get: Gives an array by name.
        text: Whether the arrays are columns of a text table.
        time: Name of the column of time stamps in a text table.
        resolution: Worth in seconds of the last printed digit of the time stamps.
    """

    names: list[str]
    get: Callable[[str], Array]
    text: bool = False
    time: str | None = None
    resolution: float = 0.0

    def find(self, name: str, role: str, bases: tuple[str, ...]) -> str | None:
        """Finds what belongs to a series: ``dt`` beside it, in its attributes or at the root."""
        parent = name.rpartition("/")[0]
        prefixes = dict.fromkeys((f"{name}/", f"{parent}/" if parent else "", ""))
        wanted = (f"{p}{b}{r}" for p in prefixes for r in (f"_{role}", "") for b in bases)
        return next((candidate for candidate in wanted if candidate in self.names), None)


def _read_streams(
    path: Path, role: str, dt: float | None, column: str | int | None, dataset: str | None
) -> list[Stream]:
    """Reads the series of a file: one, or one per row."""
    with (
        _errors_name(path),
        _open_table(path, untimed=dt is not None and column is not None) as table,
    ):
        if column is not None and not table.text:
            raise ValueError("columns belong to text tables; name the array with dataset instead.")
        if dataset is not None and table.text:
            raise ValueError("a text table has no datasets; name the column with column instead.")
        name = _series_name(table, role, column if table.text else dataset)
        values = table.get(name)
        if values.ndim == 2 and 0 not in values.shape:
            return [_stream(table, name, role, row, dt) for row in values]
        return [_stream(table, name, role, values, dt)]


def _series_name(table: _Table, role: str, wanted: str | int | None) -> str:
    """Chooses the series among the arrays of a file."""
    series = [n for n in table.names if n != table.time]
    if not table.text:
        series = [n for n in series if not AUXILIARY.match(n.rpartition("/")[2])]
    if isinstance(wanted, str) and wanted.isdecimal() and wanted not in table.names:
        wanted = int(wanted)
    if isinstance(wanted, int) and 1 <= wanted <= len(table.names):
        return table.names[wanted - 1]
    if wanted in table.names:
        return str(wanted)
    kind = "column" if table.text else "array"
    listing = ", ".join(repr(n) for n in (series or table.names)[:12]) or "none"
    if wanted is not None:
        raise ValueError(f"expected one of the {kind}s {listing}, received {wanted!r}.")
    for name in (role, "x", "values"):
        if name in series:
            return name
    if len(series) != 1:
        option = "column" if table.text else "dataset"
        raise ValueError(
            f"expected one series (named {role!r}, 'x' or 'values' if there are more), "
            f"received the {kind}s {listing}; name the one to read with {option}."
        )
    return series[0]


def _stream(table: _Table, name: str, role: str, values: Array, dt: float | None) -> Stream:
    """Joins a series with its step, and checks that all accounts of the step agree."""
    stated = {} if dt is None else {"dt as given": float(dt)}
    if found := table.find(name, role, ("dt",)):
        stated[f"{found!r} in the file"] = _scalar(table, found)
    found = table.find(name, role, ("t0",))
    t0 = _scalar(table, found) if found else 0.0
    time = table.time or table.find(name, role, TIME_NAMES)
    measured: dict[str, float] = {}
    if time is not None and time != name:
        times = _restore_grid(np.asarray(table.get(time)), table.resolution)
        stream = Stream.from_times(times, values)
        measured, t0 = {f"the time stamps {time!r}": stream.dt}, stream.t0
    steps = list((stated | measured).items())
    if not steps:
        raise ValueError(
            "expected a sampling step or time stamps, received neither; "
            "give the step in seconds with dt (on the command line --dt)."
        )
    for source, step in steps:
        if not abs(step - steps[0][1]) * np.size(values) <= SLACK * abs(step):
            raise ValueError(
                f"expected one sampling step, received {steps[0][1]:.9g} s ({steps[0][0]}) and "
                f"{step:.9g} s ({source}); correct or drop one of them."
            )
    return Stream(values, steps[0][1], t0)


def _restore_grid(times: Array, resolution: float) -> Array:
    """Puts rounded time stamps (n,) back on the even grid that they were printed from."""
    if resolution == 0 or times.size < 3 or not np.isfinite(times).all():
        return times
    grid = np.linspace(times[0], times[-1], times.size)
    step = grid[1] - grid[0]
    if resolution <= SLACK * step and np.abs(times - grid).max() <= resolution:
        return grid
    return times


def _scalar(table: _Table, name: str) -> float:
    """One number of a table."""
    value = np.asarray(table.get(name))
    if value.size != 1 or value.dtype.kind not in "fiu":
        raise ValueError(
            f"expected one number as {name!r}, received shape {value.shape} of type {value.dtype}."
        )
    return float(value.reshape(()))


# --- From a file to a table --------------------------------------------------------------------


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Opens the message of every ValueError with the file's name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


@contextmanager
def _open_table(path: Path, untimed: bool = False) -> Iterator[_Table]:
    """Opens a file of any known format; ``untimed`` text tables hold no column of times."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise ValueError("no such file; check the path.")
    if path.is_dir():
        raise ValueError("expected a file, received a folder; name the file in it.")
    if suffix not in TEXT + NUMPY + HDF5:
        known = " ".join(TEXT + NUMPY + HDF5)
        raise ValueError(
            f"expected a file that ends in one of {known}, received {suffix or 'no ending'!r}; "
            "convert or rename it."
        )
    with path.open("rb") as file:  # a file that may not be read is an OSError here, with its reason
        if not file.read(1):
            raise ValueError("the file is empty; expected at least one sample.")
    if suffix in TEXT:
        yield _text_table(path, untimed)
    elif suffix in NUMPY:
        with _numpy_table(path) as table:
            yield table
    else:
        with _hdf5_table(path) as table:
            yield table


def _holds_both(path: Path) -> bool:
    """Whether a file of named arrays holds ``long`` and ``short``."""
    if path.suffix.lower() in TEXT:
        return False
    with _errors_name(path), _open_table(path) as table:
        return {"long", "short"} <= set(table.names)


@contextmanager
def _foreign(format_name: str) -> Iterator[None]:
    """Turns whatever a format's own parser raises on a damaged file into a ValueError."""
    try:
        yield
    except Exception as error:  # the parsers promise no particular type
        raise ValueError(
            f"expected a {format_name} file of plain numbers, received a damaged or foreign file "
            f"or pickled objects ({type(error).__name__}: {error}); write it again."
        ) from error


@contextmanager
def _numpy_table(path: Path) -> Iterator[_Table]:
    """Opens NPY (one array, ``values``) or NPZ."""
    with path.open("rb") as file:
        with _foreign("NumPy"):
            loaded = np.load(file, allow_pickle=False)
        names = ["values"] if isinstance(loaded, np.ndarray) else list(loaded.files)

        def get(name: str) -> Array:
            with _foreign("NumPy"):
                return np.asarray(loaded if isinstance(loaded, np.ndarray) else loaded[name])

        yield _Table(names, get)


@contextmanager
def _hdf5_table(path: Path) -> Iterator[_Table]:
    """Opens HDF5: data sets by their paths, attributes as ``path/attribute``."""
    import h5py

    with _foreign("HDF5"):
        file = h5py.File(path, "r")
    with file:
        nodes: dict[str, Any] = {}

        def visit(name: str | bytes, node: Any) -> None:
            name = os.fsdecode(name)  # h5py gives bytes where a name is not UTF-8
            if isinstance(node, h5py.Dataset):
                nodes[name] = node
            for key in filter(AUXILIARY.match, node.attrs):
                nodes[f"{name}/{key}".lstrip("/")] = node.attrs

        with _foreign("HDF5"):
            visit("", file)
            file.visititems(visit)

        def get(name: str) -> Array:
            node = nodes[name]
            with _foreign("HDF5"):
                return np.asarray(
                    node[()] if isinstance(node, h5py.Dataset) else node[name.rpartition("/")[2]]
                )

        yield _Table(list(nodes), get)


def _text_table(path: Path, untimed: bool) -> _Table:
    """Parses a text table; see :func:`_split` for its grammar."""
    numbers, rows, names = _split(path)
    width = len(rows[0])
    data = np.empty((len(rows), width))
    for i, (number, row) in enumerate(zip(numbers, rows, strict=True)):
        if len(row) != width:
            raise ValueError(
                f"line {number}: expected {width} column(s) as in line {numbers[0]}, "
                f"received {len(row)}; complete or remove the line."
            )
        for j, field in enumerate(row):
            try:
                data[i, j] = float(field)
            except ValueError:
                raise ValueError(f"line {number}: {_not_a_number(field)}") from None
    if len(names) != width or len(set(names)) != width:
        names = [f"column {j + 1}" for j in range(width)]
    time, resolution = None, 0.0
    if width > 1:
        named = [name for name in names if TIME_HEADER.match(name)]
        time = named[0] if named else None if untimed else names[0]
    if time is not None:
        j = names.index(time)
        digits = max(len(re.sub(r"[eE].*|\D", "", row[j]).lstrip("0")) for row in rows)
        largest = float(np.abs(data[:, j]).max())
        if math.isfinite(largest) and largest > 0:
            resolution = 10.0 ** (math.floor(math.log10(largest)) - digits + 1)
    columns = {name: data[:, j] for j, name in enumerate(names)}
    return _Table(names, columns.__getitem__, True, time, resolution)


def _split(path: Path) -> tuple[list[int], list[list[str]], list[str]]:
    """Splits a text table into fields.

    Lines that are blank or start with # or % are skipped. The delimiter is the first of tab,
    semicolon and comma that the second line holds (the first line, where the second is a single
    field), else white space; with semicolons a decimal
    comma is understood. Leading lines without any number are headers, the first of which names
    the columns.

    Returns:
        The line number of each row, counted from 1; the fields of each row; the names.
    """
    raw = path.read_bytes()
    if b"\0" in raw:
        raise ValueError("expected text, received binary data; check the format and the suffix.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # headers with a micro or degree sign from older instruments
    lines = [(i, s) for i, line in enumerate(text.splitlines(), 1) if (s := line.strip())]
    lines = [(i, s) for i, s in lines if s[0] not in "#%"]
    if not lines:
        raise ValueError("the file holds no data; expected at least one sample.")
    sample = lines[min(1, len(lines) - 1)][1]
    if len(re.split(r"[\s;,]", sample)) == 1:
        sample = lines[0][1]
    delimiter = next((d for d in "\t;," if d in sample), None)
    numbers: list[int] = []
    rows: list[list[str]] = []
    names: list[str] = []
    for number, line in lines:
        stripped = line.rstrip(delimiter).rstrip() if delimiter else line
        row = [field.strip().strip("\"'") for field in stripped.split(delimiter)]
        if delimiter == ";":
            row = [f.replace(",", ".") if f.count(",") == 1 and "." not in f else f for f in row]
        if not rows and not any(map(_numeric, row)):
            names = names or row
            continue
        numbers.append(number)
        rows.append(row)
    if not rows:
        number, line = lines[0]
        raise ValueError(f"line {number}: {_not_a_number(line[:40])}")
    return numbers, rows, names


def _numeric(field: str) -> bool:
    """Whether a field stands for a number, be it missing or complex."""
    try:
        complex(field.replace("i", "j") if field[-1:] == "i" else field)
    except ValueError:
        return field.lower() in MISSING
    return True


def _not_a_number(field: str) -> str:
    """Says what a field is that is not a real number."""
    if field.lower() in MISSING:
        return f"expected a number, received a missing value {field!r}; fill or cut it first."
    if _numeric(field):
        return f"expected a real number, received the complex {field!r}; keep the real part only."
    return f"expected a number, received {field!r}; numbers are written like 0.5 or 5e-1."


def _to_numpy(array: Any) -> Array:
    """An array or a tensor on any device, as NumPy."""
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
