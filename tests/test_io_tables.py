"""Text tables as instruments and spreadsheets write them: headers, missing values, times of day, counters."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from io_helpers import T, Write, X, read_stream, rows

from slotflow.data.read.dates import parse_date, print_date
from slotflow.data.read.formats import large
from slotflow.data.read.timestamps import unit_seconds

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
