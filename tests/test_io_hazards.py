"""Files that promise more than they hold, run in circles or mean two things: refused or noted, fast and with ease."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import wavfile

from slotflow.data.observation import Observation
from slotflow.data.read import tables
from slotflow.data.read.files import read_observation, read_observations
from slotflow.data.read.formats import hdf5
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import open_signals
from slotflow.data.read.timestamps import header_unit

X = np.arange(40.0) % 7
PATIENCE = 20.0
"""Seconds that a reader may take."""
MOST_MEMORY = 2**31
"""Bytes that a reader may take."""


def outcome(path: Path, **options: object) -> str:
    """What becomes of a file, read in a process of its own: "read", or the complaint; fails if it takes too much."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=report, args=(theirs, path, options), daemon=True
    )
    start = time.monotonic()
    child.start()
    theirs.close()
    try:
        assert ours.poll(PATIENCE), f"{path.name} took more than {PATIENCE} s"
        said, memory = ours.recv()
    finally:
        child.kill()
        child.join()
        ours.close()
    assert time.monotonic() - start < PATIENCE
    assert memory < MOST_MEMORY, f"{path.name} took {memory / 2**30:.1f} GiB"
    return str(said)


def report(pipe: Connection, path: Path, options: dict[str, object]) -> None:
    """Reads a file and sends what came of it, and the bytes by which this process grew at most.

    A forked process starts with what its parent holds at that moment, not with its parent's peak.
    """
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read_observations(path, **options)  # type: ignore[arg-type]
        said = "read"
    except ValueError as error:
        said = str(error)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    pipe.send((said, 1024 * grown))


# --- Sizes ----------------------------------------------------------------------------------------


def npy_header(descr: object, shape: tuple[int, ...], version: int = 1) -> bytes:
    """The opening of an NPY file that promises an array."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    width = 2 if version == 1 else 4
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + (len(text) + 1).to_bytes(width, "little")
        + text
        + b"\n"
    )


def huge_npy(path: Path) -> None:
    path.write_bytes(npy_header("<f8", (2**27,)) + bytes(80))


def huge_rows(path: Path) -> None:
    path.write_bytes(npy_header("<f8", (2**20, 2**7), 3) + bytes(80))


def no_item_size(path: Path) -> None:
    path.write_bytes(npy_header("|S0", (2**60,)) + bytes(80))


def records_of_no_size(path: Path) -> None:
    path.write_bytes(npy_header([("a", "|V0")], (2**60,)) + bytes(80))


def large_entries(path: Path) -> None:
    path.write_bytes(npy_header([("a", "<f8", (2**40,))], (1,)) + bytes(80))


def full_of_holes(path: Path) -> None:
    path.write_bytes(npy_header("<f8", (2**27,)))
    os.truncate(path, path.stat().st_size + 2**30)


def negative_shape(path: Path) -> None:
    path.write_bytes(npy_header("<f8", (-1, 2**40)) + bytes(80))


def long_header(path: Path) -> None:
    path.write_bytes(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little") + bytes(80))


def packed(path: Path, *parts: bytes, zeros: int) -> None:
    """An NPZ file with one member: some bytes, and a number of zeros that are packed to nearly nothing."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        for part in parts:
            member.write(part)
        block = bytes(2**24)
        for _ in range(zeros // 2**24):
            member.write(block)


def packed_zeros(path: Path) -> None:
    packed(path, npy_header("<f8", (2**26,)), zeros=2**29)


def packed_rows(path: Path) -> None:
    packed(path, npy_header("|i1", (2**20, 2**9)), zeros=2**29)


def packed_header(path: Path) -> None:
    packed(path, b"\x93NUMPY\x02\x00", (2**29).to_bytes(4, "little"), zeros=2**29)


def packed_something(path: Path) -> None:
    packed(path, b"no array", zeros=2**29)


def unwritten(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**27,), "f8", chunks=(1024,))


def unwritten_bytes(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**27,), "i1", chunks=(2**20,))


def unwritten_rows(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**40, 2**10), "f8", chunks=(1, 2**10))


def one_large_chunk(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (40,), "f8", chunks=(2**28,), maxshape=(None,), compression="gzip")


def large_attribute_of_words(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**22,), h5py.string_dtype(), fillvalue=1000 * "word")


def packed_matlab(path: Path) -> None:
    """A MATLAB file with an array of 2²⁶ zeros, packed."""
    shape = (2**26).to_bytes(4, "little") + (1).to_bytes(4, "little")
    head = b"".join(
        (
            (14).to_bytes(4, "little") + (2**29 + 56).to_bytes(4, "little"),  # an array
            (6).to_bytes(4, "little") + (8).to_bytes(4, "little") + (6).to_bytes(8, "little"),
            (5).to_bytes(4, "little") + (8).to_bytes(4, "little") + shape,
            (1).to_bytes(2, "little") + (1).to_bytes(2, "little") + b"x\0\0\0",  # its name
            (9).to_bytes(4, "little") + (2**29).to_bytes(4, "little"),  # numbers
        )
    )
    packer = zlib.compressobj(1)
    body = packer.compress(head)
    for _ in range(32):
        body += packer.compress(bytes(2**24))
    body += packer.flush()
    opening = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    path.write_bytes(opening + (15).to_bytes(4, "little") + len(body).to_bytes(4, "little") + body)


def holes_in_fits(path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    columns = [fits.Column(name, "D", array=np.zeros(8)) for name in ("TIME", "FLUX")]
    fits.BinTableHDU.from_columns(columns).writeto(path)
    raw = path.read_bytes().replace(
        b"NAXIS2  =                    8", b"NAXIS2  =             67108864"
    )
    path.write_bytes(raw)
    os.truncate(path, len(raw) + 2**30)


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a.npy": (huge_npy, "damaged or foreign"),
    "b.npy": (huge_rows, "damaged or foreign"),
    "c.npy": (no_item_size, "entries of no size"),
    "d.npy": (records_of_no_size, "damaged or foreign"),
    "e.npy": (large_entries, "damaged or foreign"),
    "f.npy": (negative_shape, "damaged or foreign"),
    "g.npy": (long_header, "a header of 4,294,967,295 bytes"),
    "h.npy": (full_of_holes, "unpacks to the shape"),
    "a.npz": (packed_zeros, "unpacks to the shape"),
    "b.npz": (packed_rows, "unpacks to the shape"),
    "c.npz": (packed_header, "a header of 536,870,912 bytes"),
    "d.npz": (packed_something, "an array in NumPy's format"),
    "a.h5": (unwritten, "unpacks to the shape"),
    "b.h5": (unwritten_bytes, "unpacks to the shape"),
    "c.h5": (unwritten_rows, "unpacks to the shape"),
    "d.h5": (one_large_chunk, "unpacks to the shape"),
    "e.h5": (large_attribute_of_words, "values must be numbers"),
    "a.nc": (unwritten, "unpacks to the shape"),
    "b.nc": (unwritten_rows, "unpacks to the shape"),
    "c.nc": (one_large_chunk, "unpacks to the shape"),
    "a.mat": (packed_matlab, "unpacks to more than"),
    "a.fits": (holes_in_fits, "unpacks to the shape"),
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_sizes_are_checked_before_memory_is_asked_for(tmp_path: Path, name: str) -> None:
    make, message = BOMBS[name]
    make(tmp_path / name)
    assert tables.stored_bytes(tmp_path / name) < 2**22  # a small file
    assert message in outcome(
        tmp_path / name, dt=1.0, dataset=None if name[2:] in ("npy", "fits") else "x"
    )


def test_a_series_that_packs_well_is_read(tmp_path: Path) -> None:
    """The control: what fits into memory is no bomb, however well it is packed."""
    x = np.zeros(2**20)
    np.savez_compressed(tmp_path / "a.npz", x=x)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, compression="gzip")
    for name in ("a.npz", "a.h5"):
        assert (tmp_path / name).stat().st_size < x.nbytes / 50
        assert outcome(tmp_path / name, dt=1.0) == "read"


def test_series_of_an_absurd_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_NUMBERS", 30)
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", x=X)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = X
    for name in ("a.npy", "a.npz", "a.h5"):
        with pytest.raises(ValueError, match="at most 30 numbers in one array"):
            read_observation(tmp_path / name, 1.0)
    np.save(tmp_path / "rows.npy", np.tile(X[:20], (20, 1)))  # more, but row by row
    with open_signals(tmp_path / "rows.npy", ReadOptions(1.0)) as signals:
        assert signals.count == 20 and isinstance(signals.read(19, 20)[0], Observation)


# --- Circles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_groups_with_several_names_are_entered_once(tmp_path: Path, suffix: str) -> None:
    """In a chain of 60 groups, each with two names for the next, there are 2⁶⁰ paths."""
    path = tmp_path / f"a.{suffix}"
    with h5py.File(path, "w") as file:
        file["x"] = X
        group = file.create_group("top")
        for _ in range(60):
            below = group.create_group("left")
            group["right"] = below
            group = below
        group["y"] = X
    found = outcome(path, dt=1.0, dataset="x")
    assert found == "read" if suffix == "h5" else "groups with one name each" in found


def test_a_group_goes_by_the_name_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["first/deep/x"] = X
        file["first/deep/dt"] = 0.5
        file["second"] = file["first"]
    for name in ("first/deep/x", "second/deep/x", "/second/deep/x"):
        assert read_observation(path, dataset=name).long.dt == 0.5


def test_deep_and_crowded_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = X
        file["/".join(["g"] * 300)] = X
        for i in range(30):
            file[f"y{i}"] = i
    with pytest.raises(ValueError, match="more than 200 groups inside each other"):
        read_observation(tmp_path / "a.h5", 1.0, dataset="x")
    monkeypatch.setattr(hdf5, "MOST_LEVELS", 400)
    assert read_observation(tmp_path / "a.h5", 1.0, dataset="x").long.n == X.size
    monkeypatch.setattr(hdf5, "MOST_OBJECTS", 20)
    with pytest.raises(ValueError, match="more than 20 groups and data sets"):
        read_observation(tmp_path / "a.h5", 1.0, dataset="x")


def test_links_into_other_files(tmp_path: Path) -> None:
    """What is asked for is refused, what lies beside it is noted."""
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["run/x"] = X
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["own"] = X
        file["away"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "run")
    found = read_observation(tmp_path / "a.h5", 1.0).long
    assert found.notes == ("links to other files not followed: 'away'",)
    for name in ("away", "away/x"):
        with pytest.raises(ValueError, match="'away' that refers to other files"):
            read_observation(tmp_path / "a.h5", 1.0, dataset=name)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["away"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "run")
    with pytest.raises(ValueError, match="'away' that refers to other files"):
        read_observation(tmp_path / "b.h5", 1.0)


# --- Text -----------------------------------------------------------------------------------------


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "cell",
    ["(" + 20_000 * " ", 20_000 * "(", 20_000 * " " + ")", "t" + 20_000 * " ", 20_000 * "t("],
)
def test_long_headers_take_no_time(tmp_path: Path, cell: str) -> None:
    start = time.monotonic()
    for of_time in (False, True):
        header_unit(cell, of_time)
    assert time.monotonic() - start < 0.5
    rows = [f"{i},{x}" for i, x in enumerate(X)]
    path = write(tmp_path / "a.csv", f"time,x {cell} y", *rows)
    assert outcome(path) == "read"


@pytest.mark.parametrize("count", [16_382, 1_000_000])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_with_many_empty_fields(tmp_path: Path, count: int, delimiter: str) -> None:
    """As spreadsheets write them."""
    tail = count * delimiter
    rows = [f"{i}{delimiter}{x}{tail}" for i, x in enumerate(X[: 40 if count < 10**6 else 4])]
    path = write(tmp_path / "a.csv", f"time{delimiter}x{tail}", *rows)
    assert outcome(path) == "read"
    assert read_observation(path).long.values.tolist() == X[: len(rows)].tolist()


def test_rows_of_too_many_columns(tmp_path: Path) -> None:
    for delimiter in ", ":
        path = write(tmp_path / "a.csv", delimiter.join(["1"] * 10**6), "2")
        assert "line 1: expected at most 16,384 columns" in outcome(path, dt=1.0)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("1_000", "received '1_000'; write it without thousands separators"),
        ('"1,000"', "received '1,000'; write it without thousands separators"),
        ("1'000", 'received "1\'000"; write it without thousands separators'),
        ("1_0", "expected a number, received '1_0'"),
        ("0x10", "expected a number, received '0x10'"),
    ],
)
def test_numbers_that_mean_two_things_are_refused(tmp_path: Path, field: str, message: str) -> None:
    path = write(tmp_path / "a.csv", "time,x", "0,999", f"1,{field}", "2,998", "3,997")
    with pytest.raises(ValueError, match="line 3: ") as error:
        read_observation(path)
    assert message in str(error.value)


def test_decimal_commas_are_noted_and_not_mixed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "time;x", "0;1,234", "1;2,5", "2;3,75")
    found = read_observation(path).long
    assert found.values.tolist() == [1.234, 2.5, 3.75]
    assert "numbers such as '1,234' read with a decimal comma" in found.notes
    mixed = write(tmp_path / "b.csv", "time;x", "0;999.5", "1;1,234", "2;1,235", "3;998.5", "4;7")
    with pytest.raises(ValueError, match=r"'999\.5' in line 2 and '1,234' in line 3.*thousands"):
        read_observation(mixed)
    plain = write(tmp_path / "c.csv", "time;x", "0;999.5", "1;1234", "2;1235")
    assert not any("comma" in note for note in read_observation(plain).long.notes)


def test_times_of_two_parts(tmp_path: Path) -> None:
    """Minutes and seconds are not read as hours and minutes unless that is said."""

    def dt(header: str, *stamps: str) -> tuple[float, tuple[str, ...]]:
        rows = [f"{stamp},{i % 5}" for i, stamp in enumerate(stamps)]
        found = read_observation(write(tmp_path / "a.csv", header, *rows)).long
        return found.dt, found.notes

    minutes = [f"{i // 60:02d}:{i % 60:02d}" for i in range(200)]
    step, notes = dt("time,x", *minutes)
    assert step == 60 and notes[0] == "times such as '00:00' taken as hours and minutes"
    for header in ("time (mm:ss),x", "elapsed [min:s],x", "time (m:s),x"):
        step, notes = dt(header, *minutes)
        assert step == 1 and not any("taken as" in note for note in notes)
    assert dt("time (hh:mm),x", *minutes)[0] == 60
    step, notes = dt("time,x", *(f"{stamp}.5" for stamp in minutes))
    assert step == 1 and "taken as minutes and seconds" in notes[0]
    hourly = [f"{(i // 60 + 59) % 60:02d}:{i % 60:02d}" for i in range(200)]  # over the full hour
    assert dt("time (mm:ss),x", *hourly)[0] == 1
    long = [f"{i // 60:02d}:{i % 60:02d}" for i in range(60 * 30)]
    with pytest.raises(ValueError, match=r"hours up to 29, which may be minutes and seconds"):
        dt("time,x", *long)
    with pytest.raises(ValueError, match=r"all have two parts .* '59:58' and '1:00:00'"):
        dt("time,x", "59:58", "59:59", "1:00:00")
    assert dt("time,x", "0:59:58", "0:59:59", "1:00:00")[0] == 1


# --- Sound ----------------------------------------------------------------------------------------


def test_sound_that_was_cut(tmp_path: Path) -> None:
    """Also where a program has corrected the header of the file but not that of the sound."""
    path = tmp_path / "a.wav"
    wavfile.write(path, 100, (1000 * X).astype(np.int16))
    whole = path.read_bytes()
    cut = bytearray(whole[:-20])
    cut[4:8] = (len(cut) - 8).to_bytes(4, "little")
    path.write_bytes(cut)
    with pytest.raises(ValueError, match=rf"of {len(whole)} bytes .*received {len(cut)}: .*cut"):
        read_observation(path)
    streamed = bytearray(whole)
    place = whole.index(b"data") + 4
    for start in (4, place):
        streamed[start : start + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(streamed)
    found = read_observation(path).long
    assert found.n == X.size and "does not say how long" in found.notes[0]
    path.write_bytes(whole)
    assert not any("how long" in note for note in read_observation(path).long.notes)


def test_the_measure_of_memory_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a small file that does take memory, 128 MiB here, is found out."""
    packed(tmp_path / "a.npz", npy_header("<f8", (2**24,)), zeros=2**27)
    assert outcome(tmp_path / "a.npz", dt=1.0) == "read"
    monkeypatch.setattr(sys.modules[__name__], "MOST_MEMORY", 2**26)
    with pytest.raises(AssertionError, match="GiB"):
        outcome(tmp_path / "a.npz", dt=1.0)
