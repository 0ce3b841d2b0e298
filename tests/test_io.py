"""Readers and writers: every format, every refusal, and files that appear whole or not at all."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from io_helpers import Write, read_stream

from slotflow.core.files import atomic_path
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.read.files import read, read_observation, read_observations
from slotflow.data.read.options import ReadOptions, option_help
from slotflow.data.read.signals import SIGNALS_AT_ONCE, open_signals
from slotflow.data.sampling import Grid
from slotflow.data.trend import detrend
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import simulate
from slotflow.signal.simulation_file import write_simulation

X = np.array([0.5, -1.25, 2.0, 0.0, 3.5])
T = 10.0 + 0.25 * np.arange(5)


def table(delimiter: str, header: str = "") -> str:
    """X with its times as text."""
    return header + "".join(f"{t}{delimiter}{x}\n" for t, x in zip(T, X, strict=True))


# --- Formats ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "  ", ", "])
@pytest.mark.parametrize("header", ["", "time", "# comment\n\n% another\n"])
def test_text_table_with_times(write: Write, delimiter: str, header: str) -> None:
    if header == "time":
        header = f"time{delimiter}signal\n"
    stream = read_stream(write("a.csv", table(delimiter, header)))
    np.testing.assert_array_equal(stream.values, X)
    assert (stream.dt, stream.t0) == (0.25, 10.0)


@pytest.mark.parametrize("header", ["", "flux\n", '"flux (mJy)"\n'])
def test_text_table_with_one_column(write: Write, header: str) -> None:
    stream = read_stream(write("a.txt", header + "\n".join(map(str, X))), dt=0.1)
    np.testing.assert_array_equal(stream.values, X)
    assert (stream.dt, stream.t0) == (0.1, 0.0)


def test_text_table_as_instruments_write_it(write: Write, tmp_path: Path) -> None:
    """Units in a second header line, a trailing delimiter, CRLF, a byte-order mark, latin-1."""
    units = "\ufeffTime;Channel A;\r\n(ms);(mV);\r\n\r\n" + table(";").replace("\n", ";\r\n")
    np.testing.assert_array_equal(read_stream(write("a.csv", units)).values, X)
    comma = read_stream(write("b.csv", "t;x\n0,0;1,5\n0,5;2,5\n1,0;-3\n"))
    np.testing.assert_array_equal(comma.values, [1.5, 2.5, -3.0])
    assert comma.dt == 0.5
    (tmp_path / "c.csv").write_bytes("t [s],B [\u00b5T]\n0,1\n1,2\n".encode("latin-1"))
    np.testing.assert_array_equal(read_stream(tmp_path / "c.csv").values, [1.0, 2.0])


def test_column_by_name_and_number(write: Write) -> None:
    path = write("a.csv", "a,time,b\n1,0.0,5\n2,0.5,6\n3,1.0,7\n")
    for column in ("b", 3, "3"):
        np.testing.assert_array_equal(read_stream(path, column=column).values, [5, 6, 7])
    with pytest.raises(ValueError, match=r"one of the columns 'a', 'b', received 'c'"):
        read_stream(path, column="c")
    with pytest.raises(ValueError, match=r"one of the columns 'a', 'b', received 4"):
        read_stream(path, column=4)
    with pytest.raises(ValueError, match=r"received the columns 'a', 'b'; name the one"):
        read_stream(path)
    untimed = write("b.csv", "4,1\n3,2\n")
    np.testing.assert_array_equal(read_stream(untimed, dt=1.0, column=1).values, [4, 3])


def test_npy_npz_hdf5(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "dt.npz", x=X, dt=0.25)
    np.savez(tmp_path / "times.npz", values=X, times=T)
    np.savez(tmp_path / "only.npz", volts=X.astype(np.float32), t=T)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run/volts"] = X
        file["run/volts"].attrs.update(dt=0.25, unit="V")
        file["other/volts"] = -X
        file["other/dt"] = 0.5
    assert read_stream(tmp_path / "a.npy", dt=0.25).dt == 0.25
    for name in ("dt", "times", "only"):
        stream = read_stream(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(stream.values, X)
        assert (stream.dt, stream.t0) == (0.25, 0.0 if name == "dt" else 10.0)
    assert read_stream(tmp_path / "a.h5", dataset="run/volts").dt == 0.25
    assert read_stream(tmp_path / "a.h5", dataset="other/volts").dt == 0.5
    with pytest.raises(ValueError, match="received the arrays 'other/volts', 'run/volts'"):
        read_stream(tmp_path / "a.h5")


def test_observation_from_one_file_or_two(tmp_path: Path, write: Write) -> None:
    np.savez(tmp_path / "a.npz", long=X, short=X[:3], dt_long=0.1, dt_short=0.01, t0_short=2.0)
    obs = read_observation(tmp_path / "a.npz")
    assert obs.short is not None
    assert (obs.long.dt, obs.short.dt, obs.short.t0, obs.short.n) == (0.1, 0.01, 2.0, 3)
    path = write("a.csv", table(","))
    assert read_observation(path).short is None
    obs = read_observation(path, short_path=write("b.csv", "1\n2\n"), dt_short=0.001)
    assert obs.short is not None
    assert (obs.long.dt, obs.short.dt) == (0.25, 0.001)
    assert read_observation(path, short_path=tmp_path / "a.npz").short.n == 3  # type: ignore[union-attr]


# --- Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n# only a comment\n", "holds no data"),
        ("t,x\n0,1\n1,high\n", r"line 3: expected a number, received 'high'"),
        ("time flies\nlike an arrow\n", r"line 1: expected a number, received 'time flies'"),
        ("0,1\n1\n", r"line 2: expected 2 column\(s\) as in line 1, received 1"),
        ("0,1\n0,2\n0,3\n1,4\n", r"2 of 4 that repeat another one.*time='none' with dt"),
        ("nan,1\nnan,2\n1,2\n", r"expected time stamps, received 2 missing of 3"),
        ("nan,1\n1,2\n", r"at least 2 time stamps, received 1"),
        ("0,nan\n1,inf\n", r"received 2 that are all missing"),
        ("1\n2\n", r"expected a sampling step or time stamps.*dt"),
        ("1,2\0\n", r"expected text, received binary"),
    ],
)
def test_bad_text(write: Write, text: str, message: str) -> None:
    path = write("bad.csv", text)
    with pytest.raises(ValueError, match=message) as error:
        read_stream(path)
    assert str(error.value).startswith(str(path))


def test_bad_paths(tmp_path: Path, write: Write) -> None:
    with pytest.raises(ValueError, match="no such file"):
        read_stream(tmp_path / "absent.csv")
    with pytest.raises(ValueError, match=r"ends in one of \.csv .*received a spreadsheet; save"):
        read_stream(write("a.xlsx", "1"))
    with pytest.raises(ValueError, match="received a folder"):
        read_stream(tmp_path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["a", "b"]), "must be numbers"),
        (np.zeros((2, 3)), r"expected one signal, received 2 \(one per row\)"),
        (np.zeros((2, 3, 4)), r"received shape \(2, 3, 4\)"),
        (np.zeros(0), "at least one sample"),
        (np.array([{"a": 1}]), "pickled objects"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_bad_arrays(tmp_path: Path, array: np.ndarray, message: str, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        np.save(path, array, allow_pickle=True)
    else:
        np.savez(path, x=array)
    with pytest.raises(ValueError, match=message) as error:
        read_stream(path, dt=0.1)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("suffix", ["npy", "npz", "h5"])
def test_damaged_files(tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"whole.{suffix}"
    if suffix == "h5":
        with h5py.File(whole, "w") as file:
            file["x"] = np.arange(1000.0)
    else:
        (np.save if suffix == "npy" else np.savez)(whole, np.arange(1000.0))
    raw = whole.read_bytes()
    for size in (1, 10, 100, len(raw) // 2, len(raw) - 20):
        cut = tmp_path / f"cut.{suffix}"
        cut.write_bytes(raw[:size])
        with pytest.raises(ValueError, match="damaged or foreign"):
            read_stream(cut, dt=0.1)


def test_pickles_are_never_executed(tmp_path: Path) -> None:
    class Crafted:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "executed"),)

    (tmp_path / "a.npy").write_bytes(pickle.dumps(Crafted()))
    np.save(tmp_path / "b.npy", np.array([Crafted()], dtype=object), allow_pickle=True)
    for name in ("a.npy", "b.npy"):
        with pytest.raises(ValueError, match="pickled objects"):
            read_stream(tmp_path / name, dt=0.1)
    assert not (tmp_path / "executed").exists()


def test_wrong_keys_and_options(tmp_path: Path, write: Write) -> None:
    np.savez(tmp_path / "a.npz", a=X, b=X, dt=0.1)
    with pytest.raises(ValueError, match="received the arrays 'a', 'b'; name the one"):
        read_stream(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="one of the arrays 'a', 'b', received 'c'"):
        read_stream(tmp_path / "a.npz", dataset="c")
    with pytest.raises(ValueError, match="columns belong to tables"):
        read_stream(tmp_path / "a.npz", column="a")
    with pytest.raises(ValueError, match="a table or WAV file has no datasets"):
        read_stream(write("a.csv", "1\n"), dataset="a")
    np.savez(tmp_path / "b.npz", x=X, dt=np.ones(2))
    with pytest.raises(ValueError, match="expected one number as 'dt'"):
        read_stream(tmp_path / "b.npz")


def test_steps_must_agree(write: Write, tmp_path: Path) -> None:
    path = write("a.csv", table(","))
    assert read_stream(path, dt=0.25).dt == 0.25
    with pytest.raises(ValueError, match=r"0\.1 s \(dt as given\) and 0\.25 s \(the time stamps"):
        read_stream(path, dt=0.1)
    np.savez(tmp_path / "a.npz", x=X, dt=0.25)
    with pytest.raises(ValueError, match=r"and 0\.25 s \('dt' in the file\)"):
        read_stream(tmp_path / "a.npz", dt=0.3)
    with pytest.raises(ValueError, match="dt must be a positive number"):
        read_stream(write("b.csv", "1\n2\n"), dt=-1.0)


@pytest.mark.parametrize("style", [".5f", ".7g", ".18e"])
def test_rounded_stamps_are_put_back_on_their_grid(write: Write, style: str) -> None:
    """At 512 Hz five decimals move a stamp by 0.26 % of the step: rounding, not jitter."""
    n, dt = 2048, 1 / 512
    lines = (f"{i * dt:{style}} {i % 7}\n" for i in range(n))
    stream = read_stream(write("a.txt", "".join(lines)))
    assert stream.dt == pytest.approx(dt, rel=1e-5 / (n * dt))


def test_a_missing_sample_is_not_taken_for_rounding(write: Write) -> None:
    stamps = [i for i in range(100) if i != 50]
    for name, scale, digits in (("a.txt", 1.0, 0), ("b.txt", 0.01, 2)):
        found = read_stream(
            write(name, "".join(f"{i * scale:.{digits}f} {i % 7}\n" for i in stamps))
        )
        assert not found.is_even and found.n == 99
        np.testing.assert_allclose(found.times, scale * np.array(stamps), rtol=1e-12)


# --- Simulations and atomic writing -------------------------------------------------------------


@pytest.mark.parametrize("short", [Grid(32, 0.01, 1.0), None])
def test_simulation_round_trip(tmp_path: Path, short: Grid | None) -> None:
    sim = simulate(Prior(k_max=3), 4, Grid(64, 0.1), short, seed=3)
    path = tmp_path / "new" / "folder" / "sim.npz"
    write_simulation(path, sim)
    observations = read_observations(path)
    assert len(observations) == 4
    for i, obs in enumerate(observations):
        expected = sim.observation(i)
        np.testing.assert_array_equal(obs.long.values, expected.long.values)
        assert obs.long.dt == expected.long.dt
        assert (obs.short is None) == (short is None)
        if obs.short is not None and expected.short is not None:
            np.testing.assert_array_equal(obs.short.values, expected.short.values)
            assert (obs.short.dt, obs.short.t0) == (0.01, 1.0)
    with np.load(path) as file:
        np.testing.assert_array_equal(file["theta"], sim.theta)
        np.testing.assert_array_equal(file["k"], sim.k)
        np.testing.assert_array_equal(file["sigma"], sim.sigma)
    with pytest.raises(ValueError, match="expected one signal, received 4"):
        read_observation(path)
    with pytest.raises(ValueError, match=r"ends in \.npz"):
        write_simulation(tmp_path / "sim.csv", sim)


def test_unequal_numbers_of_streams(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", long=np.ones((3, 4)), short=np.ones((2, 4)), dt=0.1)
    with pytest.raises(ValueError, match="received 3 long and 2 short"):
        read_observations(tmp_path / "a.npz")


def test_atomic_path_writes_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("first")
        assert not path.exists()
        assert temporary.suffix == ".txt"
    for failure in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(failure)), atomic_path(path) as temporary:
            temporary.write_text("sec")
            raise failure
    assert path.read_text() == "first"
    with atomic_path(path) as temporary:
        temporary.write_text("second")
    assert path.read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_atomic_path_refuses_folders_and_follows_links(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="received a folder or a device"), atomic_path(tmp_path):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with atomic_path(tmp_path / "link") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "x"


# --- A few at a time ------------------------------------------------------------------------------


def test_a_second_pass_reads_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each signal is read and detrended once, as long as there is room for it in memory."""
    x = np.random.default_rng(seed).normal(5.0, 1.0, (2 * SIGNALS_AT_ONCE + 3, 50))
    x[7] = np.nan
    np.savez(tmp_path / "a.npz", x=x, dt=0.5)
    options = ReadOptions(detrend=1)
    calls: list[Channel] = []

    def counted(channel: Channel, order: int) -> Channel:
        calls.append(channel)
        return detrend(channel, order)

    monkeypatch.setattr("slotflow.data.read.series.detrend", counted)
    for room, passes in ((2**26, 1), (0, 3)):
        monkeypatch.setattr("slotflow.data.read.signals.KEPT_BYTES", room)
        calls.clear()
        with open_signals(tmp_path / "a.npz", options) as signals:
            for _ in range(3):
                found = [obs.long.values for obs in signals]
        assert len(calls) == passes * (len(x) - 1)
        np.testing.assert_allclose(np.mean(found, axis=1), 0, atol=1e-9)
        assert len(found) == len(x) - 1  # the empty one is left out


def test_reading_options_are_stated_once(write: Write) -> None:
    """Every way in takes the same options, and an unknown one is refused."""
    path = write("a.csv", table(","))
    for found in (
        read(path, ReadOptions(dt=0.25, t_ref=10.0, detrend=0))[0],
        read_observation(path, 0.25, t_ref=10.0, detrend=0),
        Observation.read(path, 0.25, t_ref=10.0, detrend=0),
    ):
        np.testing.assert_allclose(found.long.values, X - X.mean())
        assert (found.long.dt, found.long.t0) == (0.25, 0.0)
    with pytest.raises(TypeError, match="columns"):
        Observation.read(path, columns=2)
    for name in ReadOptions.__dataclass_fields__:
        assert option_help(name).endswith(".")


def test_reading_waits_for_no_large_package(write: Write) -> None:
    """A small table is read without torch, pandas and the parsers of other formats."""
    packages = ("torch", "pandas", "xarray", "h5py", "scipy")
    code = (
        "import sys\n"
        "from slotflow import Observation\n"
        "print(Observation.read(sys.argv[1]).noise_level((0.1, 0.2))[0] > 0)\n"
        f"print([name for name in {packages!r} if name in sys.modules])"
    )
    rows = "".join(f"{i},{(7 * i) % 11}\n" for i in range(400))
    command = [sys.executable, "-c", code, str(write("a.csv", rows))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n[]\n"
