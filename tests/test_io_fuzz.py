"""Readers meet any bytes: a stream or a ValueError that names the file, nothing else, and nothing is executed.

SLOTFLOW_FUZZ is the number of damaged files (400 unless the environment says otherwise); `SLOTFLOW_FUZZ=10000 pytest
tests/test_io_fuzz.py` is the full run.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat, wavfile

from slotflow.data.channel import Stream
from slotflow.data.observation import Observation
from slotflow.data.preprocess import describe, detrend, strongest_band
from slotflow.data.read.files import read_observations
from slotflow.data.read.formats import SUFFIXES

FUZZ = int(os.environ.get("SLOTFLOW_FUZZ", "400"))
PATIENCE = 4.0
"""Seconds after which a reader counts as hung."""
EXAMPLES = max(FUZZ // 4, 50)
quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def check(path: Path, **options: object) -> str:
    """Reads a file in every way; "read" or "refused"."""
    try:
        found = read_observations(path, **options)  # type: ignore[arg-type]
    except ValueError as error:
        message = str(error)
        assert message.startswith(f"{path}: "), message
        assert len(message) > len(f"{path}: ")
        return "refused"
    assert found and all(isinstance(one, Observation) for one in found)
    for one in found:
        for stream in one.channels:
            assert np.isfinite(stream.values).all() and np.isfinite(stream.times).all()
            assert stream.n == 1 or (stream.step > 0 and np.isfinite(stream.nyquist))
            assert stream.is_even == (stream.dt > 0)
    return "read"


OPTIONS: list[dict[str, object]] = [{}, {"dt": 0.5}, {"dt": 0.5, "fill": "linear", "max_gap": 3}]

# --- Any bytes ------------------------------------------------------------------------------------

MAGIC = [
    b"",
    b"\x93NUMPY\x01\x00",
    b"PK\x03\x04",
    b"\x89HDF\r\n\x1a\n",
    b"CDF\x01",
    b"CDF\x02",
    b"RIFF",
    b"RIFF\xff\xff\xff\xffWAVEfmt ",
    b"SIMPLE  =                    T",
    b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM",
    b"MATLAB 7.3 MAT-file",
    b"\xef\xbb\xbf",
    b"\x80\x04",
]


@quick
@given(
    suffix=st.sampled_from(SUFFIXES),
    magic=st.sampled_from(MAGIC),
    tail=st.binary(max_size=300),
    options=st.sampled_from(OPTIONS),
)
def test_any_bytes(
    tmp_path: Path, suffix: str, magic: bytes, tail: bytes, options: dict[str, object]
) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(magic + tail)
    check(path, **options)


FIELD = st.one_of(
    st.floats(width=64).map(repr),
    st.integers(-5, 5).map(str),
    st.sampled_from(
        [
            "",
            "nan",
            "-inf",
            "n/a",
            "1,5",
            "1e999",
            "0x1",
            "1_0",
            "²",
            "1j",
            "t",
            "time [ms]",
            '"',
            "٣",
        ]
    ),
    st.sampled_from(
        ["2024-03-01", "2024-03-01 12:00:00", "1677-01-01T00:00:00", "2024-03-01T25:00"]
    ),
    st.text(max_size=5),
)


@quick
@given(
    rows=st.lists(st.lists(FIELD, max_size=4), max_size=8),
    delimiter=st.sampled_from([",", ";", "\t", " ", ", "]),
    end=st.sampled_from(["\n", "\r\n", "\r", ",\n"]),
    options=st.sampled_from(OPTIONS),
)
def test_any_text(
    tmp_path: Path, rows: list[list[str]], delimiter: str, end: str, options: dict[str, object]
) -> None:
    path = tmp_path / "any.csv"
    text = "".join(delimiter.join(row) + end for row in rows)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    check(path, **options)


FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=64)


@quick
@given(
    values=st.lists(FLOATS, max_size=40),
    times=st.one_of(st.none(), st.lists(FLOATS, max_size=40)),
    dt=st.one_of(st.none(), FLOATS),
    t_ref=st.one_of(st.none(), FLOATS, st.text(max_size=4)),
)
def test_any_arrays(
    tmp_path: Path,
    values: list[float],
    times: list[float] | None,
    dt: float | None,
    t_ref: float | str | None,
) -> None:
    arrays = {"x": np.array(values)} | ({} if times is None else {"times": np.array(times)})
    np.savez(tmp_path / "any.npz", **arrays)  # type: ignore[arg-type]
    check(tmp_path / "any.npz", dt=dt, t_ref=t_ref)


@quick
@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=80),
    dt=st.floats(1e-300, 1e300),
    t0=st.floats(-1e300, 1e300),
)
def test_any_series_can_be_looked_at(values: list[float], dt: float, t0: float) -> None:
    with np.errstate(all="ignore"):
        try:
            stream = Stream(values, dt, t0)
        except ValueError as error:
            assert "finite" in str(error)
            return
        assert str(describe(stream))
        for order in range(4):
            try:
                assert np.isfinite(detrend(stream, order).values).all()
            except ValueError as error:  # the largest numbers have no room for a trend
                assert "finite" in str(error)
                return
        try:
            band = strongest_band(stream)
        except ValueError as error:
            assert "samples" in str(error) or "finite" in str(error)
            return
        assert 0 < band.low < band.high <= stream.nyquist


# --- Damaged files --------------------------------------------------------------------------------


def write_csv(path: Path) -> None:
    lines = [f"{0.25 * i},{i * i % 7},ok" for i in range(40)]
    path.write_text("time [ms],x [V],state\n" + "\n".join(lines))


def write_dates(path: Path) -> None:
    path.write_text("\n".join(f"2024-03-01 12:00:{i:02d} {i % 5}" for i in range(40)))


def write_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["run/x"] = np.arange(40.0)
        file["run/x"].attrs.update(dt=0.25, units="V")
        file.create_dataset("packed", data=np.arange(400) % 7, compression="gzip", chunks=(50,))


def write_netcdf(path: Path) -> None:
    data = xr.Dataset(
        {"x": ("time", np.arange(40.0), {"units": "V"})},
        coords={"time": ("time", np.arange(40.0), {"units": "minutes since 2024-03-01"})},
    )
    data.to_netcdf(path, engine="scipy" if path.suffix == ".cdf" else "h5netcdf")


def write_fits(path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    columns = [
        fits.Column("TIME", "D", "d", array=np.arange(40.0)),
        fits.Column("FLUX", "E", "e-/s", array=np.arange(40) % 7),
        fits.Column("QUALITY", "J", array=np.zeros(40)),
    ]
    fits.BinTableHDU.from_columns(columns).writeto(path)


MATLAB = {"run": {"x": np.arange(40.0) % 7, "dt": 0.5, "name": "words"}}

WRITERS: dict[str, Callable[[Path], None]] = {
    "a.csv": write_csv,
    "b.txt": write_dates,
    "c.npy": lambda path: np.save(path, np.arange(40.0)),
    "d.npz": lambda path: np.savez(path, x=np.arange(40.0), times=np.arange(40.0)),
    "e.npz": lambda path: np.savez_compressed(path, x=np.arange(40), dt=0.5),
    "f.h5": write_hdf5,
    "g.nc": write_netcdf,
    "h.cdf": write_netcdf,
    "i.wav": lambda path: wavfile.write(path, 8000, np.arange(40, dtype=np.int16)),
    "j.mat": lambda path: savemat(path, MATLAB),
    "k.mat": lambda path: savemat(path, MATLAB, do_compression=True),
    "l.fits": write_fits,
}


def damage(raw: bytes, draw: np.random.Generator) -> bytes:
    """Cuts, flips, repeats or overwrites a part; the head, where sizes and offsets stand, more often."""
    data = bytearray(raw)
    for _ in range(int(draw.integers(1, 4))):
        size = max(len(data), 1)
        place = int(draw.integers(size if draw.random() < 0.5 else min(size, 128)))
        length = int(draw.integers(1, 9))
        kind = draw.integers(5)
        if kind == 0:
            data = data[:place]
        elif kind == 1 and data:
            data[place] ^= 1 << int(draw.integers(8))
        elif kind == 2:
            data[place : place + length] = draw.bytes(length)
        elif kind == 3:
            data[place : place + length] = draw.choice([b"\xff", b"\0", b"\x7f"]) * length
        else:
            data[place:place] = data[place : place + 8 * length]
    return bytes(data)


def outcomes(jobs: list[tuple[Path, dict[str, object]]]) -> list[str]:
    """What becomes of each file, read in a child process that may hang or crash without harm."""
    context = multiprocessing.get_context("fork")
    found: list[str] = []
    while len(found) < len(jobs):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=read_all, args=(theirs, jobs[len(found) :]))
        child.start()
        theirs.close()
        try:
            while len(found) < len(jobs):
                if not ours.poll(PATIENCE):
                    found.append("hung")
                    break
                found.append(ours.recv())
        except EOFError:
            found.append("crashed")
        child.kill()
        child.join()
        ours.close()
    return found


def read_all(pipe: Connection, jobs: list[tuple[Path, dict[str, object]]]) -> None:
    """Reports the outcome of each file."""
    for path, options in jobs:
        try:
            pipe.send(check(path, **options))
        except Exception:
            pipe.send(traceback.format_exc())


@pytest.mark.skipif(sys.platform == "win32", reason="child processes are forked")
@pytest.mark.parametrize("name", list(WRITERS))
def test_damaged_files(tmp_path: Path, name: str, seed: int) -> None:
    """Every file is read or refused within a few seconds."""
    whole = tmp_path / name
    WRITERS[name](whole)
    options: dict[str, object] = {"dt": 0.25} if name[0] in "cf" else {}
    options |= {"dataset": "run/x"} if name == "f.h5" else {}
    assert check(whole, **options) == "read"  # the file itself is good
    raw, draw = whole.read_bytes(), np.random.default_rng(seed)
    jobs = []
    for i in range(max(FUZZ // len(WRITERS), 1)):
        path = tmp_path / f"damaged-{i}{whole.suffix}"
        path.write_bytes(damage(raw, draw))
        packed = name == "f.h5" and i % 2
        jobs.append((path, options | {"dataset": "packed"} if packed else options))
    found = outcomes(jobs)
    expected = {"read", "refused"}
    for (path, _), one in zip(jobs, found, strict=True):
        assert one in expected, f"{path}: {one}"
    assert "refused" in found  # the damage was felt


def places(raw: bytes, mark: bytes) -> list[int]:
    """Where the parts of an HDF5 file begin that a mark opens."""
    return [i for i in range(len(raw) - 4) if raw[i : i + len(mark)] == mark]


def impossible(raw: bytes) -> Iterator[bytes]:
    """HDF5 files that the library itself reads for ever: a ring in an index, and blocks that do not add up."""
    for place in places(raw, b"TREE"):
        ring = place.to_bytes(8, "little")
        yield raw[: place + 8] + 2 * ring + raw[place + 24 :]
    for place in places(raw, b"GCOL"):
        for number, size in ((b"\0\0", 8 * b"\0"), (b"\1\0", 8 * b"\xff")):  # of its first object
            head = raw[place : place + 4] + b"\1\0\0\1" + raw[place + 8 : place + 16]
            yield raw[:place] + head + number + bytes(6) + size + bytes(64) + raw[place + 96 :]


@pytest.mark.skipif(sys.platform == "win32", reason="child processes are forked")
@pytest.mark.parametrize("name", ["f.h5", "g.nc"])
def test_files_that_would_be_read_for_ever(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    options: dict[str, object] = {"dt": 0.25, "dataset": "run/x"} if name == "f.h5" else {}
    jobs = []
    for i, content in enumerate(impossible((tmp_path / name).read_bytes())):
        path = tmp_path / f"{i}-{name}"
        path.write_bytes(content)
        jobs.append((path, options))
    assert len(jobs) >= 2
    found = outcomes(jobs)
    assert set(found) <= {"read", "refused"} and found.count("refused") >= 2, found


def test_rings_of_groups(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/x"] = np.arange(40.0)
        file["a/self"], file["a/top"] = file["a"], file["/"]
    (found,) = read_observations(tmp_path / "a.h5", dt=1.0, dataset="a/x")
    assert found.long.n == 40


# --- Nothing is executed --------------------------------------------------------------------------

PROBE = "print('executed')"


class Crafted:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (PROBE,)


def test_crafted_files_are_not_executed(tmp_path: Path) -> None:
    crafted = pickle.dumps(Crafted())
    objects = np.array([Crafted(), 1.0], dtype=object)
    np.save(tmp_path / "object.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "object.npz", x=objects, dt=1.0)
    with zipfile.ZipFile(tmp_path / "raw.npz", "w") as archive:
        archive.writestr("x.npy", crafted)
        archive.writestr("../../escape.npy", crafted)
    header = "{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (1,)}"
    evil = header.ljust(117).encode() + b"\n"
    (tmp_path / "header.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(evil).to_bytes(2, "little") + evil
    )
    with h5py.File(tmp_path / "void.h5", "w") as file:
        file["x"] = np.void(crafted)
        file["x"].attrs["dt"] = 1.0
    for suffix in SUFFIXES:
        (tmp_path / f"raw{suffix}").write_bytes(crafted)
    files = sorted(path for path in tmp_path.iterdir())
    code = (
        "import sys\n"
        "from slotflow.data.read.files import read_observations\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        read_observations(path, dt=1.0)\n"
        "    except ValueError:\n"
        "        continue\n"
        "    print('read', path)\n"
    )
    command = [sys.executable, "-c", code, *map(str, files)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout == ""  # neither read nor executed
    control = [sys.executable, "-c", f"import pickle; pickle.loads({crafted!r})"]
    shown = subprocess.run(control, capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout == "executed\n"  # what would be seen if it were
