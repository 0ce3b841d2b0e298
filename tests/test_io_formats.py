"""Files that are no text tables: arrays, WAV and NetCDF; many files and standard input."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import xarray as xr
from io_helpers import T, Write, X, read_stream, rows
from scipy.io import wavfile

from slotflow import Observation
from slotflow.data.read.dates import print_date
from slotflow.data.read.files import find_files, read_observations
from slotflow.io import ReadOptions, open_signals

# --- Arrays ---------------------------------------------------------------------------------------


def test_columns_of_arrays(tmp_path: Path) -> None:
    """One column is a series, two are not a thousand signals."""
    x = np.arange(50.0)
    np.save(tmp_path / "column.npy", x[:, None])
    np.savez(tmp_path / "column.npz", x=x[:, None], dt=0.5)
    with h5py.File(tmp_path / "column.h5", "w") as file:
        file["x"] = x[:, None]
    for name in ("column.npy", "column.npz", "column.h5"):
        (obs,) = read_observations(tmp_path / name, dt=0.5)
        np.testing.assert_array_equal(obs.long.values, x)
    np.save(tmp_path / "two.npy", np.stack([x % 7, x], 1))
    with pytest.raises(ValueError, match=r"50 rows of 2 .* np\.savez\(file, t=a\[:, 0\]"):
        read_observations(tmp_path / "two.npy", dt=0.5)
    np.save(tmp_path / "three.npy", np.zeros((2, 3, 50)))
    with pytest.raises(ValueError, match=r"received shape \(2, 3, 50\) .* write the part"):
        read_observations(tmp_path / "three.npy", dt=0.5)
    np.save(tmp_path / "rows.npy", np.zeros((3, 50)))
    assert len(read_observations(tmp_path / "rows.npy", dt=0.5)) == 3


def test_fields_of_tables(tmp_path: Path) -> None:
    table = np.array(
        list(zip(T, X, 2 * X, strict=True)), dtype=[("t", "f8"), ("x", "f8"), ("y", "f4")]
    )
    np.save(tmp_path / "a.npy", table)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["obs/tdi"] = table
    for name, prefix in (("a.npy", ""), ("a.h5", "obs/tdi/")):
        stream = read_stream(tmp_path / name, dataset=f"{prefix}y")
        np.testing.assert_array_equal(stream.values, 2 * X)
        assert stream.dt == 0.25


def test_words_and_single_numbers_are_no_series(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", signal=X, gain=3.0, author="me")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["strain/Strain"], file["meta/Detector"], file["meta/gain"] = X, "H1", 3.0
    for name in ("a.npz", "a.h5"):
        np.testing.assert_array_equal(read_stream(tmp_path / name, dt=0.25).values, X)
    h5py.File(tmp_path / "none.h5", "w").close()
    with pytest.raises(ValueError, match="holds no data sets"):
        read_stream(tmp_path / "none.h5")


@pytest.mark.parametrize("name", ["fs", "sample_rate", "sampling_rate", "samplerate"])
def test_sampling_rates(tmp_path: Path, name: str) -> None:
    """Beside a series or in its attributes, in samples per second; a step must agree."""
    np.savez(tmp_path / "a.npz", voltage=X, **{name: 4})
    assert read_stream(tmp_path / "a.npz").dt == 0.25
    assert read_stream(tmp_path / "a.npz", dt=0.25).dt == 0.25
    with pytest.raises(
        ValueError, match=rf"0\.5 s \(dt as given\) and 0\.25 s \(the rate '{name}'"
    ):
        read_stream(tmp_path / "a.npz", dt=0.5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run/x"], file["run/y"] = X, X
        file["run/x"].attrs[name] = 4.0
    assert read_stream(tmp_path / "a.h5", dataset="run/x").dt == 0.25
    with pytest.raises(ValueError, match="received neither"):
        read_stream(tmp_path / "a.h5", dataset="run/y")
    xr.Dataset({"x": ("n", X)}, attrs={name: 4.0}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert read_stream(tmp_path / "a.nc").dt == 0.25
    np.savez(tmp_path / "a.npz", voltage=X, **{name: 0.0})
    with pytest.raises(ValueError, match=f"above 0 as '{name}', received 0"):
        read_stream(tmp_path / "a.npz")


def test_strain_files_of_gravitational_wave_detectors(tmp_path: Path) -> None:
    """Step and start are attributes of the data set."""
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["strain/Strain"] = X
        file["strain/Strain"].attrs.update({"Xspacing": 2.0**-12, "Xstart": 1126259446})
        file["quality/simple/DQmask"] = np.ones(2)
    found = read_stream(tmp_path / "a.hdf5", dataset="strain/Strain")
    assert found.dt == 2.0**-12 and found.t_ref == 1126259446 and found.t0 == 0


def test_time_stamps_by_name(tmp_path: Path, write: Write) -> None:
    """Any array may hold them, and none need to."""
    np.savez(tmp_path / "a.npz", x=X, t=T**2, clock=T)
    np.testing.assert_array_equal(read_stream(tmp_path / "a.npz", dataset="x").times, T**2)
    assert read_stream(tmp_path / "a.npz", dataset="x", time="clock").dt == 0.25
    assert read_stream(tmp_path / "a.npz", dt=0.5, dataset="x", time="none").dt == 0.5
    with pytest.raises(ValueError, match="one of 'x', 't', 'clock', or 'none', received 'y'"):
        read_stream(tmp_path / "a.npz", dataset="x", time="y")
    path = write("a.csv", rows(T**2))
    assert read_stream(path, dt=0.25, time="none").n == 6
    path = write("b.csv", "".join(f"{x},{t}\n" for t, x in zip(T, X, strict=True)))
    found = read_stream(path, time=2)
    assert found.dt == 0.25
    np.testing.assert_array_equal(found.values, X)
    (obs,) = read_observations(path, short_path=path, time="2")
    assert obs.short is not None and obs.short.dt == 0.25


def test_errors_name_the_flag(tmp_path: Path, write: Write) -> None:
    long, short = write("a.csv", "x\n1\n2\n"), write("b.csv", "x\n3\n4\n")
    with pytest.raises(ValueError, match=r"b\.csv: .*dt_short \(on the command line --dt-short\)"):
        read_observations(long, 0.5, short)
    np.savez(tmp_path / "a.npz", a=X, b=X)
    with pytest.raises(ValueError, match=r"with dataset \(on the command line --dataset\)"):
        read_stream(tmp_path / "a.npz", 0.5)
    path = write("c.csv", "time,a,b\n0,1,2\n1,1,2\n2,3,4\n")
    with pytest.raises(ValueError, match=r"with column \(on the command line --column\)"):
        read_stream(path)
    with pytest.raises(ValueError, match=r"'c'; name one of them .*--column"):
        read_stream(path, column="c")
    with pytest.raises(ValueError, match=r"if 'time' holds no times, .*--time none.*--column"):
        read_stream(path, 0.5, column="a")


def test_advice_for_other_formats(write: Write) -> None:
    for name, advice in {
        "a.xlsx": "save the sheet as CSV",
        "a.csv.gz": "unpack it",
    }.items():
        with pytest.raises(ValueError, match=advice):
            read_stream(write(name, "1,2"))


# --- WAV ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "full"), [("uint8", 128), ("int16", 2**15), ("int32", 2**31), ("float32", 1)]
)
def test_wav_full_scale_is_one(tmp_path: Path, dtype: str, full: float) -> None:
    raw = X * full if dtype != "uint8" else X * full + 128
    wavfile.write(tmp_path / "a.wav", 8000, raw.astype(dtype))
    stream = read_stream(tmp_path / "a.wav")
    np.testing.assert_array_equal(stream.values, X)
    assert (stream.dt, stream.t0) == (1 / 8000, 0.0)
    assert ("full scale is ±1" in " ".join(stream.notes)) == (dtype != "float32")


def test_wav_of_24_bits(tmp_path: Path) -> None:
    """Three bytes to a sample, which most recorders write."""
    data = b"".join(int(x * (2**23 - 1)).to_bytes(3, "little", signed=True) for x in X)
    fmt = (
        b"fmt "
        + (16).to_bytes(4, "little")
        + bytes.fromhex("0100 0100 803e0000 80bb0000 0300 1800")
    )
    body = b"WAVE" + fmt + b"data" + len(data).to_bytes(4, "little") + data
    (tmp_path / "a.wav").write_bytes(b"RIFF" + len(body).to_bytes(4, "little") + body)
    stream = read_stream(tmp_path / "a.wav")
    np.testing.assert_allclose(stream.values, X, atol=2**-22)
    assert stream.dt == 1 / 16000


def test_wav_channels_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    wavfile.write(path, 100, np.stack([X, -X], 1))
    for column in (2, "2", "channel 2"):
        np.testing.assert_array_equal(read_stream(path, column=column).values, -X)
    with pytest.raises(ValueError, match="received the columns 'channel 1', 'channel 2'; name"):
        read_stream(path)
    with pytest.raises(ValueError, match=r"0\.5 s \(dt as given\) and 0\.01 s \(the sampling rate"):
        read_stream(path, dt=0.5, column=1)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="cut short"):
        read_stream(path, column=1)


# --- NetCDF ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("engine", "suffix"), [("h5netcdf", "nc"), ("scipy", "cdf")])
def test_netcdf(tmp_path: Path, engine: str, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    data = xr.Dataset(
        {
            "flux": (("time",), X, {"units": "mJy"}),
            "both": (("time", "star"), np.stack([X, 2 * X], 1)),
            "depth": (("x",), X),
        },
        coords={"time": ("time", 4 * T, {"units": "hours"}), "x": ("x", T, {"units": "m"})},
    )
    data.to_netcdf(path, engine=engine)  # type: ignore[call-overload]
    stream = read_stream(path, dataset="flux")
    np.testing.assert_array_equal(stream.values, X)
    assert (stream.dt, stream.unit) == (3600.0, "mJy")
    assert "time stamps 'time' in hours" in stream.notes
    pair = read_observations(path, dataset="both")  # time is not its last dimension
    np.testing.assert_array_equal(pair[1].long.values, 2 * X)
    with pytest.raises(ValueError, match="a sampling step or time stamps"):  # metres are no time
        read_stream(path, dataset="depth")
    assert read_stream(path, dt=0.5, dataset="depth").dt == 0.5
    named = read_stream(path)  # by the obvious name
    np.testing.assert_array_equal(named.values, X)
    assert any("'flux' chosen" in note for note in named.notes)


def test_netcdf_packed_and_dated(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    x = np.tile(X, 4)
    x[3] = np.nan
    time = xr.Variable("time", np.arange(24.0), {"units": "minutes since 2024-03-01 12:00:00"})
    data = xr.Dataset({"x": ("time", x)}, coords={"time": time})
    packed = {"dtype": "int16", "scale_factor": 0.125, "_FillValue": -999}
    data.to_netcdf(path, engine="h5netcdf", encoding={"x": packed})
    found = read_stream(path)
    assert (found.n, found.missing, found.times[3], found.time_unit) == (23, 1, 240.0, "s")
    stream = read_stream(path, fill="linear")
    np.testing.assert_allclose(np.delete(stream.values, 3), np.delete(x, 3), atol=0.0625)
    assert stream.filled == ((3, 3),)
    assert (stream.dt, stream.t0, print_date(stream.t_ref)) == (
        60.0,
        0.0,
        "2024-03-01T12:00:00 UTC",
    )


def test_numbers_in_other_files_are_refused(tmp_path: Path) -> None:
    """A file may not choose what else is read."""
    (tmp_path / "secret").write_bytes(bytes(80))
    for name in ("a.h5", "a.nc"):
        with h5py.File(tmp_path / name, "w") as file:
            external = [(str(tmp_path / "secret"), 0, 80)]
            file.create_dataset("x", (10,), "f8", external=external)
        with pytest.raises(ValueError, match="'x' that refers to other files"):
            read_stream(tmp_path / name, dt=1.0)
    with h5py.File(tmp_path / "b.nc", "w") as file:
        file["x"] = h5py.ExternalLink(str(tmp_path / "a.h5"), "x")
    with pytest.raises(ValueError, match="'x' that refers to other files"):
        read_stream(tmp_path / "b.nc", dt=1.0)


def test_arrays_of_absurd_size_are_refused(tmp_path: Path) -> None:
    for name in ("a.h5", "a.nc"):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("x", (2**40,), "f8", chunks=(1024,))  # a few kilobytes on the disk
        with pytest.raises(ValueError, match=r"a file of [\d,]+ bytes can hold"):
            read_stream(tmp_path / name, dt=1.0)


# --- Many files and standard input ----------------------------------------------------------------


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def pipe(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))

    pipe(rows(T))
    stream = read_stream("-")
    np.testing.assert_array_equal(stream.values, X)
    pipe("a,b\n1,x\n")
    with pytest.raises(ValueError, match=r"^standard input: .*'x'"):
        read_stream("-", dt=1.0, column="b")


def test_find_files(tmp_path: Path, write: Write) -> None:
    for name in ("b.csv", "a.npy", "c.md", ".hidden.csv"):
        write(name, "1")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    below = write("deep/er/d.csv", "1")
    a, b = tmp_path / "a.npy", tmp_path / "b.csv"
    assert find_files([tmp_path]) == [a, b]
    assert find_files([str(tmp_path / "*.csv"), tmp_path]) == [b, a]  # each once
    assert find_files([str(tmp_path / "**/*.csv")]) == [b, below]
    assert find_files(["-", tmp_path / "c.md"]) == [Path("-"), tmp_path / "c.md"]  # named: taken
    odd = write("run[1].csv", "1")
    assert find_files([odd]) == [odd]
    for pattern in (tmp_path / "deep", tmp_path / "*.wav", tmp_path / "absent.csv"):
        with pytest.raises(ValueError, match=re.escape(str(pattern))):
            find_files([pattern])


def test_observation_read(tmp_path: Path, write: Write) -> None:
    path = write(
        "a.csv", "time [ms],voltage [mV],state\n" + "".join(f"{i},{i * i},ok\n" for i in range(9))
    )
    obs = Observation.read(path)  # words in a column that is no series do no harm
    assert (obs.long.dt, obs.long.unit, obs.long.n, obs.t_ref) == (0.001, "mV", 9, 0.0)
    np.save(tmp_path / "b.npy", X)
    two = Observation.read(path, short_path=tmp_path / "b.npy", dt_short=1e-4)
    assert two.short is not None and two.short.dt == 1e-4


def test_no_row_of_a_damaged_archive_is_answered(tmp_path: Path) -> None:
    """The checksum of an archive's member is known at its end, long after the first rows."""
    x = np.random.default_rng(0).standard_normal((300, 500))
    np.savez(tmp_path / "whole.npz", x=x)
    damaged = bytearray((tmp_path / "whole.npz").read_bytes())
    damaged[1_000_000:1_000_100] = bytes(100)
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with open_signals(tmp_path / "whole.npz", ReadOptions(dt=0.1)) as signals:
        np.testing.assert_array_equal(signals.all()[0].long.values, x[0])
    with (
        pytest.raises(ValueError, match="damaged or foreign file"),
        open_signals(tmp_path / "damaged.npz", ReadOptions(dt=0.1)) as signals,
    ):
        signals.all()
