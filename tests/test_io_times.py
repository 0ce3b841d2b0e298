"""Times in files: units, dates, epochs, the reference of phases, and gaps."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from io_helpers import T, Write, X, read_stream, rows

from slotflow import Observation
from slotflow.data.read.dates import compact_dates, parse_date, print_date
from slotflow.data.read.files import read_observations
from slotflow.data.read.timestamps import header_unit, unit_seconds

ROOT = Path(__file__).resolve().parents[1]


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


def test_dates_without_strokes(write: Write) -> None:
    """Whole numbers that are all dates are dates; a count of seconds runs through numbers that are none."""
    days = np.arange(np.datetime64("1958-03-29"), np.datetime64("1960-03-29"), 7)
    compact = [str(day).replace("-", "") for day in days]
    assert (compact_dates(np.array(compact, dtype=float)) == days).all()
    text = "date,x\n" + "".join(f"{day},{i % 5}\n" for i, day in enumerate(compact))
    stream = read_stream(write("a.csv", text))
    assert stream.dt == pytest.approx(7 * 86400.0) and stream.is_even
    assert "time stamps 'date' taken as dates (time_unit says otherwise)" in stream.notes
    seconds = np.arange(19580329, 19580429)
    assert compact_dates(seconds) is None and compact_dates(seconds[:2]) is None
    counted = "t,x\n" + "".join(f"{s},{i % 5}\n" for i, s in enumerate(seconds))
    assert read_stream(write("b.csv", counted)).dt == 1.0
    for none in (20240230, 20241301, 20240100, 15991231, 20240101.5):
        assert compact_dates(np.array([20240101, 20240102, none])) is None


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


@pytest.mark.parametrize("rate", [60.0, 48.0, 80.0])
def test_two_decimals_of_a_fast_clock_are_no_jitter(tmp_path: Path, rate: float) -> None:
    # Taken as they were printed, these stamps gave a tone an image at rate/2 - f, and the verdict was "exact".
    t = np.arange(600) / rate
    lines = [f"{stamp:.2f},{i % 7}" for i, stamp in enumerate(t)]
    (tmp_path / "a.csv").write_text("t,x\n" + "\n".join(lines))
    found = read_stream(tmp_path / "a.csv")
    assert found.is_even
    assert found.dt == pytest.approx(1 / rate, abs=5 * 0.01 / 600**1.5)
    assert any("of few digits put on an even grid" in note for note in found.notes)


@pytest.mark.parametrize("start", [0.0, 9e5])
def test_single_precision_stamps_are_no_jitter(tmp_path: Path, start: float) -> None:
    stamps = (start + 0.1 * np.arange(600)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=np.arange(600.0) % 7, t=stamps)
    found = read_stream(tmp_path / "a.npz")
    assert found.is_even
    digit = float(np.spacing(stamps[-1]))
    assert found.dt == pytest.approx(0.1, abs=5 * digit / 600**1.5)


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
