"""What files hold beyond numbers: WAV, NetCDF, standard input, many files, units, dates, epochs and gaps."""

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
from io_helpers import Write, read_stream
from scipy.io import wavfile

from slotflow import Observation
from slotflow.data.read.files import find_files, read_observations
from slotflow.data.read.formats import large
from slotflow.data.read.timestamps import header_unit, parse_date, print_date, unit_seconds

ROOT = Path(__file__).resolve().parents[1]
X = np.array([0.5, -0.25, 0.125, 0.0, 0.75, -1.0])
T = 0.25 * np.arange(6)


def rows(times: object, delimiter: str = ",") -> str:
    """X with some time stamps as text."""
    return "".join(f"{t}{delimiter}{x}\n" for t, x in zip(times, X, strict=False))  # type: ignore[call-overload]


# --- Text tables as instruments and spreadsheets write them ---------------------------------------

TABLES = {
    "a comment that names the columns": "# time [ms], voltage [mV]\n" + rows(1e3 * T),
    "a comment with white space between": "# time (ms)  voltage (mV)\n" + rows(1e3 * T, " "),
    "a header with white space between": "Time (ms) Voltage (mV)\n" + rows(1e3 * T, " "),
    "a preamble": "Device: 7\nOperator: me, myself\n\ntime [ms],x [mV]\n" + rows(1e3 * T),
    "settings of the table's width": "Step,250,ms\nRecords,6\nt/ms,a [V],x [mV]\n"
    + "".join(f"{1e3 * t},7,{x}\n" for t, x in zip(T, X, strict=True)),
    "settings padded to its width": "Operator,me,\nt/ms,a [V],x [mV]\n"
    + "".join(f"{1e3 * t},7,{x}\n" for t, x in zip(T, X, strict=True)),
    "a note to spreadsheets": "sep=;\ntime [ms];x [mV]\n" + rows(1e3 * T, ";").replace(".", ","),
    "tabs and decimal commas": "time [ms]\tx [mV]\n" + rows(1e3 * T, "\t").replace(".", ","),
    "white space and decimal commas": "t/ms x[mV]\n" + rows(1e3 * T + 0.5, "  ").replace(".", ","),
    "a name twice": "t [ms],a,a,x [mV]\n"
    + "".join(f"{1e3 * t},7,8,{x}\n" for t, x in zip(T, X, strict=True)),
    "a column that stays empty": "t [ms],x [mV],remarks\n" + rows(1e3 * T).replace("\n", ",\n"),
    "a column that counts": ",t [ms],x [mV]\n"
    + "".join(f"{i},{1e3 * t},{x}\n" for i, (t, x) in enumerate(zip(T, X, strict=True))),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_headers_are_found(write: Write, name: str) -> None:
    """Above all the unit of time, without which everything is wrong by a factor of a thousand."""
    last = TABLES[name].splitlines()[-1].replace(";", ",").count(",") + 1
    several = name.startswith(("settings", "a name"))
    stream = read_stream(write("a.txt", TABLES[name]), column=last if several else None)
    np.testing.assert_array_equal(stream.values, X)
    assert (stream.dt, stream.unit) == (pytest.approx(0.25), "mV")
    skipped = name.startswith(("a preamble", "settings"))
    assert ("above the table skipped" in " ".join(stream.notes)) == skipped


def test_rows_are_never_skipped(write: Write) -> None:
    """What looks like data is data, and wrong if it does not fit."""
    for text, message in {
        "t,x\n0,1,2\n1,2\n2,3\n": "line 2: expected 2 column(s) as in line 3, received 3",
        "t,x\n0,one\n1,2\n2,3\n": "line 2: expected a number, received 'one'",
        "t,x\n0,1\n1,2\nt,x\n2,3\n": "line 4: expected a number, received",
        "# t,x\n": "holds no data",
    }.items():
        with pytest.raises(ValueError, match=re.escape(message)):
            read_stream(write("a.csv", text), column=None)


def test_utf_16(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(("time [ms]\tx [µV]\n" + rows(1e3 * T, "\t")).encode("utf-16"))
    stream = read_stream(tmp_path / "a.txt")
    np.testing.assert_array_equal(stream.values, X)
    assert (stream.dt, stream.unit) == (0.25, "µV")


def test_missing_values_of_spreadsheets(write: Write) -> None:
    """Also where the mark of a comment opens them."""
    text = "".join("#N/A\n" if i == 2 else f"{x}\n" for i, x in enumerate(X))
    stream = read_stream(write("a.csv", text), dt=0.25)
    assert (stream.n, stream.missing) == (5, 1)
    assert "1 of 6 samples missing, left out" in stream.notes
    first = "".join(f"{'#N/A' if i == 2 else i},{x}\n" for i, x in enumerate(X))
    for delimiter in ",;\t ":  # the row stays
        path = write("b.csv", "u,v\n" + first.replace(",", delimiter))
        np.testing.assert_array_equal(read_stream(path, dt=0.25, column=2).values, X)


# What large tables of numbers may look like: delimiter, decimal sign, lines above them, end of lines.
LARGE = {
    "commas": (",", ".", "", "\n"),
    "a header with units": (",", ".", "time [ms],x [mV]\n", "\n"),
    "white space": ("  ", ".", "# t (s)  x (V)\n", "\n"),
    "tabs and decimal commas": ("\t", ",", "t/min\tx\n", "\r\n"),
    "a preamble": (";", ".", "Device: 7\n\nOperator: me\ntime;x [V]\n", "\n"),
    "a column that counts": (",", ".", "index,x\n", "\n"),
}


def large_tables(name: str, seed: int) -> dict[str, str]:
    """A table of numbers, and the same with something else in one line."""
    delimiter, decimal, above, end = LARGE[name]
    words = [repr(x) for x in np.random.default_rng(seed).normal(size=1500).tolist()]
    first = [f"{i}" if "index" in above else f"{0.25 * i:.2f}" for i in range(len(words))]
    good = [delimiter.join(pair).replace(".", decimal) for pair in zip(first, words, strict=True)]
    k = 1234
    stamp = first[k].replace(".", decimal)
    lines = {
        "the same": good[k],
        "a word": f"{stamp}{delimiter}high",
        "a missing value": f"{stamp}{delimiter}n/a",
        "a nan": f"{stamp}{delimiter}nan",
        "a nothing": f"{stamp}{delimiter}" if delimiter.strip(" ") else good[k],
        "a short row": stamp,
        "a long row": f"{good[k]}{delimiter}1",
        "an empty field at the end": good[k] + delimiter.strip(" "),
        "a comment": "# a remark",
    }
    return {
        what: above.replace("\n", end) + end.join([*good[:k], line, *good[k + 1 :]]) + end
        for what, line in lines.items()
    }


@pytest.mark.parametrize("name", list(LARGE))
def test_pandas_reads_what_line_by_line_reads(
    tmp_path: Path, name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same numbers, bit for bit, the same notes and the same complaints."""
    monkeypatch.setattr(large, "SAMPLE", 2**12)
    options = {"dt": 0.25, "time": "none"} if "counts" in name else {}
    tables = large_tables(name, seed)
    for what, text in tables.items():
        plain, found = text == tables["the same"] or what in ("a nan", "a nothing"), []
        for limit in (0, 2**40):  # bytes from which on pandas is asked
            monkeypatch.setattr(large, "LARGE", limit)
            for mark in ("", "\ufeff"):
                (tmp_path / "a.txt").write_bytes((mark + text).encode())
                by_pandas = large.read_large((mark + text).encode()) is not None
                assert by_pandas == (limit == 0 and plain), what
                try:
                    stream = read_stream(tmp_path / "a.txt", **options)
                    times = stream.times.tolist()
                    found.append((stream.values.tolist(), times, stream.unit, stream.notes))
                except ValueError as error:
                    found.append((str(error),))
        assert all(one == found[0] for one in found), what
        assert (len(found[0]) == 1) == (what.split()[-1] in ("word", "row")), what


def test_a_counter_is_no_time(write: Write) -> None:
    path = write("a.csv", "sample,x\n" + rows(range(6)))
    with pytest.raises(ValueError, match="neither; give the step"):
        read_stream(path)
    assert read_stream(path, dt=0.25).dt == 0.25


def test_a_current_is_no_counter(write: Write) -> None:
    """Headers that may name a counter are believed where the numbers count."""
    for header in ("t,U,I", "t,U,n"):
        three = "".join(f"{t},{x},{2 * x}\n" for t, x in zip(T, X, strict=True))
        with pytest.raises(ValueError, match="name the one to read with column"):
            read_stream(write("a.csv", f"{header}\n{three}"))
    counted = "".join(f"{i},{t},{x}\n" for i, (t, x) in enumerate(zip(T, X, strict=True), 1))
    np.testing.assert_array_equal(read_stream(write("b.csv", "I,t,x\n" + counted)).values, X)
    # A table of pandas whose index are dates.
    dates = [f"2024-03-01 12:00:0{i}" for i in range(6)]
    assert read_stream(write("c.csv", ",x\n" + rows(dates))).t_ref == parse_date(dates[0]) / 1e9  # type: ignore[operator]


def test_a_column_is_no_fact_of_another(write: Write) -> None:
    """What an array of one number beside a series would be: its step, its rate, its start."""
    for name in ("dt", "fs", "t0"):
        three = "".join(f"{t},7,{x}\n" for t, x in zip(T, X, strict=True))
        stream = read_stream(write("a.csv", f"time,{name},v\n{three}"), column="v")
        assert (stream.dt, stream.t0) == (0.25, 0.0)


def test_times_of_day(write: Write) -> None:
    clock = [
        "23:59:59.50",
        "23:59:59.75",
        "00:00:00.00",
        "00:00:00.25",
        "0:00:00.50",
        "00:00:00.75",
    ]
    stream = read_stream(write("a.csv", "elapsed (h:m:s),x\n" + rows(clock)))
    assert (stream.dt, stream.t_ref) == (0.25, 86399.5)
    days = ["2024-03-01"] * 2 + ["2024-03-02"] * 4
    two = "".join(f"{d};{c};{x}\n" for d, c, x in zip(days, clock, X, strict=True))
    stream = read_stream(write("b.csv", "date;time;x\n" + two))
    assert (stream.dt, print_date(stream.t_ref)) == (0.25, "2024-03-01T23:59:59.500000 UTC")
    dotted = read_stream(
        write("c.csv", "Datum;x\n" + rows([f"01.03.2024 12:00:0{i}" for i in range(6)], ";"))
    )
    assert (dotted.dt, print_date(dotted.t_ref)) == (1.0, "2024-03-01T12:00:00 UTC")
    strokes = write("d.csv", "date,x\n" + rows([f"03/01/2024 12:00:0{i}" for i in range(6)]))
    with pytest.raises(ValueError, match=r"line 2: expected a number or a date .* year first"):
        read_stream(strokes)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_counts_since_1970_need_a_unit(write: Write, tmp_path: Path, unit: str) -> None:
    """Taken as seconds, they would pass for a series of days."""
    worth = unit_seconds(unit)
    assert worth is not None
    stamps = [round((1_700_000_000 + t) / worth) for t in T]
    with pytest.raises(ValueError, match=f"looks like {unit} since 1970"):
        read_stream(write("a.csv", "timestamp,x\n" + rows(stamps)))
    stream = read_stream(tmp_path / "a.csv", time_unit=unit)
    assert (stream.dt, stream.t_ref) == (pytest.approx(0.25), 1_700_000_000)
    assert read_stream(tmp_path / "a.csv", time_unit="s").dt == pytest.approx(0.25 / worth)


def test_nanoseconds_in_integers_are_exact(tmp_path: Path) -> None:
    """A float64 of this size has steps of 256."""
    np.savez(tmp_path / "a.npz", x=X, t=1_700_000_000_000_000_000 + 1000 * np.arange(6))
    assert read_stream(tmp_path / "a.npz", time_unit="ns").dt == pytest.approx(1e-6, rel=1e-12)


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


# --- Units of time and dates ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("time [ms]", "ms"),
        ("t (s)", "s"),
        ("Time/µs", "µs"),
        ("time_ms", "ms"),
        ("elapsed min", "min"),
        ("days", "days"),
        ("BJD", "BJD"),
        ("time", None),
        ("s", None),
        ("t [m]", "m"),
    ],
)
def test_units_in_headers(header: str, unit: str | None) -> None:
    assert header_unit(header, of_time=True) == unit


@pytest.mark.parametrize(
    ("header", "unit"),
    [("BJD_TDB", "BJD"), ("BJD - 2457000", "BJD"), ("year", "year"), ("seconds ago", None)],
)
def test_units_in_the_first_word(header: str, unit: str | None) -> None:
    assert header_unit(header, True) == unit


def test_units_of_time() -> None:
    known = {"ms": 1e-3, "µs": 1e-6, "μs": 1e-6, "us": 1e-6, "Hours": 3600.0, "MJD": 86400.0}
    assert {unit: unit_seconds(unit) for unit in known} == known
    assert unit_seconds("m") is None and unit_seconds("V") is None


def test_time_columns_with_units(write: Write) -> None:
    for header, dt in (("time [ms],x", 1e-3), ("t/min,x", 60.0), ("hours,x", 3600.0), ("t,x", 1.0)):
        stream = read_stream(write("a.csv", f"{header}\n" + rows(range(6))))
        assert stream.dt == pytest.approx(dt, rel=1e-12), header
    assert "time stamps 't' without a unit, taken as seconds" in stream.notes
    second_line = read_stream(write("a.csv", "Time,Channel A\n(ms),(mV)\n" + rows(range(6))))
    assert (second_line.dt, second_line.unit) == (pytest.approx(1e-3), "mV")
    with pytest.raises(ValueError, match=r"received 'm'; state the unit with time_unit"):
        read_stream(write("a.csv", "t [m],x\n" + rows(range(6))))
    assert read_stream(write("a.csv", "t [m],x\n" + rows(range(6))), time_unit="min").dt == 60.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-02T00:00:00Z", 86400),
        ("1970-01-01 01:00:00.25", 3600.25),
        ("1970-01-01T01:00+01:00", 0),
        ("1969-12-31T23:59:59", -1),
        ("2024-02-30", None),
        ("2024-13-01T00:00", None),
        ("12:00:00", None),
        ("1.5", None),
    ],
)
def test_dates(text: str, seconds: float | None) -> None:
    assert parse_date(text) == (None if seconds is None else seconds * 10**9)


@pytest.mark.parametrize("delimiter", [",", "\t", " ", ";"])
@pytest.mark.parametrize("between", ["T", " "])
def test_dated_tables(write: Write, delimiter: str, between: str) -> None:
    stamps = [f"2024-03-01{between}12:00:0{i // 4}.{250 * (i % 4):03d}" for i in range(6)]
    stream = read_stream(write("a.txt", rows(stamps, delimiter)))
    np.testing.assert_array_equal(stream.values, X)
    assert (stream.dt, stream.t0) == (0.25, 0.0)
    assert print_date(stream.t_ref) == "2024-03-01T12:00:00 UTC"
    assert any("2024-03-01T12:00:00 UTC" in note for note in stream.notes)
    other = read_stream(write("a.txt", rows(stamps, delimiter)), t_ref="2024-03-01T11:59:59")
    assert (other.t0, other.t_ref) == (1.0, stream.t_ref - 1)
    with pytest.raises(ValueError, match="expected t_ref as a date such as"):
        read_stream(write("a.txt", rows(stamps, delimiter)), t_ref="noon")


def test_nanoseconds_of_dates_count(write: Write) -> None:
    stamps = [f"2024-03-01T12:00:00.{125 * i:09d}" for i in range(6)]
    assert read_stream(write("a.csv", rows(stamps))).dt == pytest.approx(125e-9, rel=1e-9)


def test_words_among_dates(write: Write) -> None:
    with pytest.raises(ValueError, match=r"line 2: expected a date such as .* received 'noon'"):
        read_stream(write("a.csv", "2024-03-01T12:00:00,1\nnoon,2\n"))


# --- The phase's reference ------------------------------------------------------------------------


def test_epochs_move_the_reference(write: Write) -> None:
    path = write("a.csv", rows(1.7e9 + T))
    stream = read_stream(path)
    assert (stream.t0, stream.t_ref, stream.dt) == (0.0, 1.7e9, 0.25)
    assert "phases refer to t_ref = 1700000000.0 s" in stream.notes
    own = read_stream(path, t_ref=0)
    assert (own.t0, own.t_ref) == (1.7e9, 0.0)
    for t_ref in (1.7e9 - 2, "1699999998"):
        assert read_stream(path, t_ref=t_ref).t0 == 2.0
    near = read_stream(write("a.csv", rows(100 + T)))
    assert (near.t0, near.t_ref) == (100.0, 0.0)
    for wrong in (float("nan"), "soon"):
        with pytest.raises(ValueError, match="t_ref"):
            read_stream(path, t_ref=wrong)


def test_both_streams_share_the_reference(tmp_path: Path, write: Write) -> None:
    path = write("a.csv", rows(1.7e9 + T))
    later = Observation.read(path, short_path=write("b.csv", rows(1.7e9 + 0.5 + 0.01 * T)))
    assert later.short is not None and (later.short.t0, later.t_ref) == (0.5, 1.7e9)
    np.save(tmp_path / "c.npy", X)
    plain = Observation.read(path, short_path=tmp_path / "c.npy", dt_short=0.01)
    assert plain.short is not None and (plain.short.t0, plain.short.t_ref) == (0.0, 1.7e9)
    dates = write("d.csv", "2023-11-14T22:13:20,1\n2023-11-14T22:13:21,2\n")
    with pytest.raises(ValueError, match=r"d\.csv: .*on one clock"):
        Observation.read(path, short_path=dates)


def test_phases_refer_to_t_ref(write: Write) -> None:
    """The same samples, stamped from an epoch: the model sees the same times."""
    obs = [Observation.read(write("a.csv", rows(start + T))) for start in (0.0, 1.7e9)]
    np.testing.assert_array_equal(obs[0].long.times, obs[1].long.times)


# --- Gaps -----------------------------------------------------------------------------------------


def test_missing_values_are_counted_and_filled(write: Write) -> None:
    values = [str(i) for i in range(100)]
    for i, text in ((5, "nan"), (17, ""), (18, "n/a"), (19, "inf")):
        values[i] = text
    path = write("a.csv", "t,x\n" + "".join(f"{i},{x}\n" for i, x in enumerate(values)))
    found = read_stream(path)
    assert (found.n, found.missing, found.is_even) == (96, 4, False)
    np.testing.assert_array_equal(found.times, np.delete(np.arange(100.0), [5, 17, 18, 19]))
    assert "4 of 100 samples missing, left out" in found.notes
    stream = read_stream(path, fill="linear")
    np.testing.assert_allclose(stream.values, np.arange(100.0))
    assert stream.filled == ((5, 5), (17, 19))
    assert "4 of 100 samples missing, filled (linear)" in stream.notes
    with pytest.raises(ValueError, match="gaps of at most 2 samples, received one of 3"):
        read_stream(path, fill="linear", max_gap=2)


def test_missing_stamps_are_counted_and_filled(write: Write) -> None:
    kept = [i for i in range(100) if i not in (50, 51, 70)]
    for scale, digits in ((1.0, 0), (0.01, 2), (1 / 512, 5)):
        lines = "".join(f"{i * scale:.{digits}f} {i}\n" for i in kept)
        path = write("a.txt", lines)
        found = read_stream(path)
        assert (found.n, found.missing) == (97, 3)
        np.testing.assert_allclose(found.times, scale * np.array(kept), atol=1e-5 * scale * 100)
        assert "3 of 100 time stamps of an even grid absent" in found.notes
        stream = read_stream(path, fill="linear")
        np.testing.assert_allclose(stream.values, np.arange(100.0))
        assert stream.dt == pytest.approx(scale, rel=1e-4)
        assert stream.filled == ((50, 51), (70, 70))


def test_jitter_is_no_gap(write: Write, seed: int) -> None:
    """Stamps that stray from the grid are kept as they are, and cannot be filled."""
    times = np.arange(100.0) + np.random.default_rng(seed).uniform(-0.3, 0.3, 100)
    path = write("a.txt", "".join(f"{t} {t % 7}\n" for t in times))
    found = read_stream(path)
    np.testing.assert_allclose(found.times, times, rtol=1e-12)
    assert any("uneven time stamps kept" in note for note in found.notes)
    with pytest.raises(ValueError, match="expected even time stamps to fill"):
        read_stream(path, fill="linear")


def test_one_bad_row_is_named(tmp_path: Path) -> None:
    data = np.ones((3, 8))
    data[1] = np.nan
    np.savez(tmp_path / "a.npz", x=data, dt=0.5)
    with pytest.raises(ValueError, match=r"a\.npz: row 2 of 3: .*8 that are all missing"):
        read_observations(tmp_path / "a.npz")


# --- The documentation ----------------------------------------------------------------------------


def test_the_page_on_data_keeps_its_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "data-in.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/data-in.md", "exec"), names)
    expected = re.findall(r"# prints: (.*)", "\n".join(blocks))
    shown = capsys.readouterr().out
    assert expected and all(line in shown for line in expected), shown
