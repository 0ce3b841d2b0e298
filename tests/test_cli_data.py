"""`slotflow infer` on files of every kind: offset and trend, missing samples, clocks, patterns, refusals."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from slotflow.cli import app
from slotflow.data.channel import Stream
from slotflow.data.observation import Observation
from slotflow.data.preprocess import describe
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import open_signals
from slotflow.show.wording import data_warnings, fill_warnings
from slotflow.signal.prior import Prior

ROOT = Path(__file__).resolve().parents[1]
N, DT = 400, 0.25
TONE = (2.0, 1.0, 0.8)
"""Amplitude, phase at t = 0 and frequency: 80 cycles in 100 s."""
SIGMA = 0.3
FLAGS = ("--amplitude", "1:3", "--samples", 50, "--no-refine")
BAND = ("--band", "0.4:1.2")
Array = NDArray[np.float64]
Series = tuple[Array, Array]


@pytest.fixture
def tone(seed: int) -> Series:
    """Times and values of one tone in noise, (N,) each."""
    t = DT * np.arange(N)
    a, phi, f = TONE
    noise = np.random.default_rng(seed).standard_normal(N)
    return t, a * np.cos(2 * np.pi * f * t + phi) + SIGMA * noise


def write(path: Path, t: Array, x: Array, header: str = "time,x") -> Path:
    """A CSV file with a time column."""
    lines = [f"{a!r},{b!r}" for a, b in zip(t.tolist(), x.tolist(), strict=True)]
    path.write_text("\n".join([header, *lines]), encoding="utf-8")
    return path


def run(*args: object, code: int = 0, stdin: bytes | None = None) -> str:
    """Runs `slotflow infer`, checks its exit code and gives what it printed, complaints included."""
    result = CliRunner().invoke(app, ["infer", *(str(a) for a in args)], input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def answer(*args: object, stdin: bytes | None = None) -> dict[str, Any]:
    """The JSON document of `slotflow infer`."""
    record: dict[str, Any] = json.loads(run(*args, *FLAGS, "--json", stdin=stdin))
    return record


def the_tone(signal: dict[str, Any], phase: float = TONE[1]) -> dict[str, Any]:
    """The only component, which must be the true one."""
    assert signal["k_map"] == 1, signal["k_probs"]
    (row,) = signal["components"]
    assert abs(row["amplitude_median"] - TONE[0]) < 6 * row["amplitude_sd"]
    assert abs(row["frequency_median"] - TONE[2]) < 6 * row["frequency_sd"]
    off = np.angle(np.exp(1j * (row["phase_median"] - phase)))
    assert abs(off) < 6 * row["phase_sd"]
    return dict(row)


def refuse(*args: object) -> str:
    """Runs a command that must refuse its input with exit code 2 and one line."""
    line = run(*args, *FLAGS, code=2).strip()
    assert line.startswith("error:") and "\n" not in line
    return line


# --- Offset, trend, units -------------------------------------------------------------------------


def test_offset_and_trend_are_named_and_removed(tmp_path: Path, tone: Series) -> None:
    import xarray as xr

    t, x = tone
    path = write(tmp_path / "a.csv", 1e3 * t, x + 40 + 0.1 * t, "time [ms],voltage [mV]")
    named = Observation.read(path).long
    (doubt,) = describe(named).warnings
    assert re.match(r"a linear trend of (\S+) per second", doubt) and "--detrend 1" in doubt
    unasked = answer(path, *BAND)["signals"][0]  # what stands out is subtracted
    record = answer(path, *BAND, "--detrend", 1, "--out", tmp_path / "out")
    (signal,), (assumed,) = record["signals"], record["assumed"]
    the_tone(signal)
    assert signal["warnings"] == [] and signal["unit"] == "mV"
    assert signal["notes"][0] == "time stamps 'time [ms]' in ms"
    found = re.match(r"offset (\S+) and trend (\S+) per second subtracted", signal["notes"][1])
    assert found
    offset, trend = map(float, found.groups())
    # The fit is that of least squares, of the tone too; of the measured trend, a Hann window widens the error.
    slope, middle = np.polyfit(t - t.mean(), x + 40 + 0.1 * t, 1)
    assert (offset, trend) == (pytest.approx(middle, rel=1e-5), pytest.approx(slope, rel=1e-5))
    assert abs(describe(named).trend - 0.1) < 10 * SIGMA / (t.std() * N**0.5)
    # Unasked, the line is the one that is measured beside tones, which costs a little of the precision.
    row = the_tone(unasked)
    same = re.match(r"offset (\S+) and trend (\S+) per second subtracted", unasked["notes"][1])
    assert same and abs(float(same[2]) - describe(named).trend) < 1e-4 * abs(trend)
    assert row["amplitude_median"] == pytest.approx(
        signal["components"][0]["amplitude_median"], abs=row["amplitude_sd"] / 2
    )
    (stream,) = assumed["streams"]
    assert (stream["n"], stream["unit"], stream["t_ref"]) == (N, "mV", 0)
    assert stream["dt"] == pytest.approx(DT) and stream["rate"] == pytest.approx(4)
    with xr.open_dataset(tmp_path / "out" / "posterior.nc", engine="h5netcdf") as saved:
        assert saved["amplitude"].attrs["units"] == saved.attrs["unit"] == "mV"
        assert saved.attrs["t_ref"] == 0 and saved.attrs["filled_samples"] == 0


def test_an_offset_alone_is_subtracted_alone(tmp_path: Path, tone: Series) -> None:
    t, x = tone
    path = write(tmp_path / "a.csv", t, x + 40)
    (found,) = answer(path, *BAND)["signals"]
    the_tone(found)
    said = re.match(r"offset (\S+) subtracted", found["notes"][-1])
    assert said and abs(float(said[1]) - 40) < 10 * SIGMA / N**0.5 and found["warnings"] == []
    (flat,) = answer(path, *BAND, "--detrend", 0)["signals"]
    (row,), (same) = found["components"], flat["components"]
    assert row["amplitude_median"] == pytest.approx(
        same[0]["amplitude_median"], abs=row["amplitude_sd"] / 2
    )
    # down to two cycles the offset is marginalized: nothing is subtracted, and there is nothing to warn of
    (low,) = json.loads(run(path, "--band", "0.02:1.5", "--amplitude", "1:3", "--json"))["signals"]
    the_tone(low)
    assert low["warnings"] == [] and not any("subtracted" in note for note in low["notes"])


def test_what_was_read_is_shown(tmp_path: Path, tone: Series) -> None:
    t, x = tone
    path = write(tmp_path / "a.csv", t, x, "time [s],flow [m3/s]")
    text = run(path, *BAND, "--t-ref", 2, *FLAGS)
    for part in (
        "400 samples × 0.25 s = 100 s, 4 per second, Nyquist 2 Hz, from t = -2 s, in m3/s",
        "note   time stamps 'time [s]' in s",
        "note   phases refer to t_ref = 2.0 s",
        "amplitude [m3/s]",
    ):
        assert part in text
    assert re.search(r"σ = 0\.\d+ ± 0\.\d+ m3/s", text)


def test_a_short_stream_of_few_cycles_shows_no_offset(tone: Series) -> None:
    """Three cycles in a window look like one; thirty do not."""
    long = Stream(tone[1], DT)
    t = np.arange(300) / 100
    obs = Observation(long, Stream(2 * np.cos(2 * np.pi * 0.8 * t) + 9, 0.01))
    assert data_warnings(obs, Prior(frequency=(0.4, 1.2))) == []
    (doubt,) = data_warnings(obs, Prior(frequency=(10.0, 20.0)))
    assert doubt.startswith("short stream: a")


# --- Missing samples ------------------------------------------------------------------------------


def test_missing_samples(tmp_path: Path, tone: Series) -> None:
    import xarray as xr

    t, x = tone
    x[[30, 31, 200]] = np.nan
    path = write(tmp_path / "gaps.csv", t, x)
    assert "--max-gap" in refuse(path, *BAND, "--fill", "linear", "--max-gap", 1)
    assert "one of linear, mean, received 'cubic'" in refuse(path, *BAND, "--fill", "cubic")
    words = (
        "3 of 400 samples were missing and filled (2 gap(s)); the likelihood takes them for data"
    )
    (signal,) = answer(path, *BAND, "--fill", "mean", "--out", tmp_path / "out")["signals"]
    the_tone(signal)
    assert signal["verdict"]["warnings"] == [words] and signal["warnings"] == []
    assert "3 of 400 samples missing, filled (mean)" in signal["notes"]
    with xr.open_dataset(tmp_path / "out" / "posterior.nc", engine="h5netcdf") as saved:
        assert saved.attrs["filled_samples"] == 3
    text = run(path, *BAND, "--fill", "linear", *FLAGS)
    (verdict,) = (line for line in text.splitlines() if line.startswith("Verdict: "))
    assert verdict.endswith(f"; but {words}")


def test_nothing_filled_nothing_said(tmp_path: Path, tone: Series) -> None:
    path = write(tmp_path / "a.csv", *tone)
    (signal,) = answer(path, *BAND, "--fill", "linear")["signals"]
    assert signal["verdict"]["warnings"] == []
    assert "but" not in run(path, *BAND, "--fill", "linear", *FLAGS)


def test_filled_short_streams_are_named(tone: Series) -> None:
    x = tone[1]
    obs = Observation(Stream(x, DT), Stream(x, 0.01, filled=((3, 4),)))
    (words,) = fill_warnings(obs)
    assert words.startswith("short stream: 2 of 400 samples were missing")


def test_absent_stamps_and_uneven_ones(tmp_path: Path, tone: Series) -> None:
    t, x = tone
    keep = np.delete(np.arange(N), [50, 51, 300])
    gaps = write(tmp_path / "gaps.csv", t[keep], x[keep])
    (signal,) = answer(gaps, *BAND, "--fill", "linear")["signals"]
    the_tone(signal)
    assert signal["verdict"]["warnings"][0].startswith("3 of 400 samples")
    jitter = 0.02 * DT * np.random.default_rng(1).standard_normal(N)
    line = refuse(write(tmp_path / "uneven.csv", t + jitter, x), *BAND, "--fill", "linear")
    assert "expected even time stamps to fill missing samples of" in line and "--fill" in line


# --- Clocks ---------------------------------------------------------------------------------------


def test_epochs_and_dates(tmp_path: Path, tone: Series) -> None:
    import xarray as xr

    start = 1_700_000_000
    t, x = tone
    path = write(tmp_path / "epoch.csv", start + t, x)
    record = answer(path, *BAND, "--out", tmp_path / "out")
    the_tone(record["signals"][0])
    assert record["assumed"][0]["streams"][0]["t_ref"] == start
    with xr.open_dataset(tmp_path / "out" / "posterior.nc", engine="h5netcdf") as saved:
        assert (
            saved.attrs["t_ref"] == start and saved["phase"].attrs["long_name"] == "phase at t_ref"
        )
    earlier = TONE[1] - 2 * np.pi * TONE[2] * 3.3
    (signal,) = answer(path, *BAND, "--t-ref", f"{start - 3.3:.1f}")["signals"]
    the_tone(signal, earlier)
    assert f"phases refer to t_ref = {start - 3.3:.1f} s" in signal["notes"]
    days = write(tmp_path / "days.csv", t / 86400, x)
    (signal,) = answer(days, *BAND, "--time-unit", "d", "--t-ref", "-3.3")["signals"]
    the_tone(signal, earlier)
    lines = [
        f"2024-03-01T12:{int(a // 60):02d}:{a % 60:05.2f}Z,{b!r}"
        for a, b in zip(t.tolist(), x.tolist(), strict=True)
    ]
    (tmp_path / "dates.csv").write_text("\n".join(["time,x", *lines]), encoding="utf-8")
    before = ("--t-ref", "2024-03-01T11:59:56.7Z")
    (signal,) = answer(tmp_path / "dates.csv", *BAND, *before)["signals"]
    the_tone(signal, earlier)
    assert "t_ref as seconds, received 'noon'" in refuse(path, *BAND, "--t-ref", "noon")
    assert "--time-unit" in refuse(path, *BAND, "--time-unit", "miles")


# --- Formats and many files -----------------------------------------------------------------------


def test_wav_channel(tmp_path: Path) -> None:
    from scipy.io import wavfile

    rate, n = 800, 4000
    t = np.arange(n) / rate
    noise = np.random.default_rng(2).standard_normal((n, 2))
    right = 0.3 * np.cos(2 * np.pi * 110 * t) + 0.05 * noise[:, 1]
    sound = np.round(32767 * np.column_stack([0.05 * noise[:, 0], right])).astype(np.int16)
    wavfile.write(tmp_path / "a.wav", rate, sound)
    flags = ("--band", "100:120", "--amplitude", "0.1:0.5")
    (signal,) = json.loads(run(tmp_path / "a.wav", *flags, *FLAGS[2:], "--column", 2, "--json"))[
        "signals"
    ]
    assert signal["k_map"] == 1 and signal["unit"] == "full scale"
    assert abs(signal["components"][0]["frequency_median"] - 110) < 0.05
    assert "16-bit integers divided by 32768: full scale is ±1" in signal["notes"]
    quiet = run(tmp_path / "a.wav", *flags, *FLAGS[2:], "--column", 1, "--json")
    assert json.loads(quiet)["signals"][0]["k_map"] == 0
    line = refuse(tmp_path / "a.wav")
    assert "'channel 1', 'channel 2'" in line and "name the one to read with column" in line


def test_netcdf_variable(tmp_path: Path, tone: Series) -> None:
    import xarray as xr

    t, x = tone
    time = ("time", t / 60, {"units": "minutes since 2024-03-01 12:00"})
    variables = {"flux": ("time", x, {"units": "Jy"}), "other": ("time", 0 * x)}
    data = xr.Dataset(variables, coords={"time": time})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    record = answer(tmp_path / "a.nc", *BAND, "--dataset", "flux")
    the_tone(record["signals"][0])
    assert record["assumed"][0]["streams"][0]["unit"] == "Jy"
    chosen = answer(tmp_path / "a.nc", *BAND)["signals"][0]
    assert "array 'flux' chosen (others: 'other')" in chosen["notes"]


def test_patterns_and_folders(tmp_path: Path, tone: Series) -> None:
    t, x = tone
    (tmp_path / "runs").mkdir()
    files = [write(tmp_path / "runs" / f"{name}.csv", t, x) for name in "ba"]
    (tmp_path / "runs" / "notes.md").write_text("no data", encoding="utf-8")
    out = tmp_path / "out"
    record = answer(tmp_path / "runs" / "*.csv", *BAND, "--out", out)
    names = [signal["file"] for signal in record["signals"]]
    assert names == sorted(map(str, files))
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == ["a", "b"]
    for signal in answer(tmp_path / "runs", files[0], *BAND)["signals"]:
        the_tone(signal)
    assert "--short goes with one file, received 2" in refuse(
        tmp_path / "runs", "--short", files[0]
    )
    assert "fits this pattern" in refuse(tmp_path / "*.csv")
    (tmp_path / "empty").mkdir()
    assert "received one without any" in refuse(tmp_path / "empty")


def test_standard_input(tmp_path: Path, tone: Series) -> None:
    path = write(tmp_path / "a.csv", *tone)
    record = answer("-", *BAND, "--out", tmp_path / "out", stdin=path.read_bytes())
    the_tone(record["signals"][0])
    assert (tmp_path / "out" / "summary.csv").exists()
    both = answer("-", path, *BAND, "--out", tmp_path / "both", stdin=path.read_bytes())
    (first,), (second,) = (signal["components"] for signal in both["signals"])
    assert first == pytest.approx(second, rel=1e-6)  # rows of a batch differ in their rounding
    folders = [p.name for p in (tmp_path / "both").iterdir() if p.is_dir()]
    assert sorted(folders) == ["a", "stdin"]
    text = run("-", *BAND, *FLAGS, stdin=path.read_bytes())
    assert text.startswith("standard input\n")
    line = run("-", *BAND, *FLAGS, code=2, stdin=b"")
    assert line.startswith("error: standard input: ")


def test_rows_with_notes_of_their_own(tmp_path: Path, tone: Series) -> None:
    """What is told once for a file is not told again for its other signals."""
    x = tone[1]
    np.savez(tmp_path / "two.npz", x=np.stack([x + 1, x + 2]), dt=DT)
    text = run(tmp_path / "two.npz", *BAND, "--t-ref", 1, "--detrend", 0, *FLAGS)
    assert text.count("phases refer to t_ref") == 1 and text.count("subtracted") == 2


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        ("a.csv", b"", (), "the file is empty"),
        ("a.csv", b"time,x\n0,1\n1,two\n", (), "line 3: expected a number, received 'two'"),
        ("a.csv", b"1\n2\n3\n", (), "expected a sampling step or time stamps"),
        ("a.csv", b"1\n2\n3\n", ("--dt", "-1"), "dt must be a positive number"),
        ("a.csv", b"1\n2\n3\n", ("--dt", "1", "--dataset", "x"), "has no datasets"),
        ("a.npy", b"\x93NUMPY broken", ("--dt", "1"), "damaged or foreign"),
        ("a.wav", b"RIFF\xff\x00\x00\x00WAVE", (), "cut short"),
        ("a.nc", b"CDF nothing", (), "damaged or foreign"),
        ("a.xlsx", b"PK", (), "a file that ends in one of"),
    ],
)
def test_refusals(
    tmp_path: Path, name: str, content: bytes, flags: tuple[str, ...], message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    line = refuse(tmp_path / name, *flags)
    assert message in line and name in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--detrend", 4), "'--detrend': Input should be less than or equal to 3"),
        (("--detrend", -1), "'--detrend': Input should be greater than or equal to 0"),
        (("--max-gap", 0), "'--max-gap': Input should be greater than or equal to 1"),
        (("--fill",), "Option '--fill' requires an argument"),
        (("--fill", "cubic"), "expected fill to be one of linear, mean, received 'cubic'"),
    ],
)
def test_flags_out_of_range(
    tmp_path: Path, flags: tuple[object, ...], message: str, tone: Series
) -> None:
    """The complaint names the flag and what it takes; the same command with a good value works."""
    t, x = tone
    gap = np.where(t == t[17], np.nan, x)
    path = write(tmp_path / "a.csv", t, gap)
    said = " ".join(re.sub(r"[│╭╮╰╯─]", " ", run(path, *flags, code=2)).split())
    assert message in said
    run(path, *BAND, *FLAGS, "--fill", "linear", "--max-gap", 1, "--detrend", 3)


def test_help_shows_the_flags() -> None:
    text = run("--help")
    for part in ("--fill linear --max-gap 5", "--detrend 1", "--t-ref 2024-03-01", "infer - "):
        assert part in text


def test_a_bad_time_column_can_be_left_aside(tmp_path: Path, tone: Series) -> None:
    """By its name or without one; a step against stamps says how."""
    t, x = tone
    rough = t + 0.4 * DT * np.random.default_rng(0).random(N)
    path = write(tmp_path / "a.csv", rough, x)
    assert "--time none" in refuse(path, *BAND, "--dt", 4 * DT)
    (signal,) = answer(path, *BAND, "--time", "none", "--dt", DT)["signals"]
    the_tone(signal)
    assert "--dt)" in refuse(path, *BAND, "--time", "none")
    assert "expected the time stamps to be one of 'time', 'x', or 'none'" in refuse(
        path, "--time", "clock"
    )
    lines = [
        f"{a!r},{b!r},{c!r}" for a, b, c in zip(*map(np.ndarray.tolist, (rough, x, t)), strict=True)
    ]
    path.write_text("\n".join(["time,x,seconds", *lines]))
    for name in ("seconds", "3"):
        record = answer(path, *BAND, "--time", name)
        the_tone(record["signals"][0])
        assert record["signals"][0]["notes"][0].startswith("time stamps 'seconds'")


@pytest.mark.parametrize("flags", [("--dt", "1e300"), ("--dt", "1e-200")])
def test_steps_whose_powers_are_no_numbers(tmp_path: Path, tone: Series, flags: Any) -> None:
    np.save(tmp_path / "a.npy", tone[1])
    assert "check dt and the unit" in refuse(tmp_path / "a.npy", *flags)


def test_nothing_is_inferred_from_a_line(tmp_path: Path, tone: Series) -> None:
    """A constant, and a ramp, whose slope is marginalized."""
    t = tone[0]
    flat = write(tmp_path / "a.csv", t, np.full(N, 0.1))
    for order in ((), ("--detrend", 0), ("--detrend", 1)):
        assert "400 samples that all are 0.1" in refuse(flat, *order)
    whole = write(tmp_path / "c.csv", *tone)
    assert refuse(whole, "--short", flat).startswith(
        f"error: {flat}: expected a series that varies"
    )
    ramp = write(tmp_path / "b.csv", t, 3 * t + 1)
    assert "nothing but rounding is left" in refuse(ramp, "--detrend", 1)
    assert "nothing but rounding is left" in refuse(ramp, *BAND)


def test_the_baselines_say_which_signal_they_took(tmp_path: Path, tone: Series) -> None:
    x = tone[1]
    np.save(tmp_path / "a.npy", np.stack([x, x[::-1], np.full(N, np.nan)]))
    words = ["classical", str(tmp_path / "a.npy"), "--dt", str(DT), *BAND, "--amplitude", "1:3"]
    for flags, said in (([], "signal 0 of 3"), (["--signal", "1"], "signal 1 of 3")):
        result = CliRunner().invoke(app, [*words, *flags])
        assert result.exit_code == 0 and said in result.output, result.output
        record = json.loads(CliRunner().invoke(app, [*words, *flags, "--json"]).stdout)
        assert record["signals"][0]["signals_in_file"] == 3
    bad = CliRunner().invoke(app, [*words, "--signal", "2"])
    assert bad.exit_code == 2 and "row 3 of 3" in bad.output


def test_the_help_is_in_groups() -> None:
    text = run("--help")
    panels = re.findall(r"╭─ (\w+)", text)
    groups = ["File", "Prior", "Computation", "Sampler", "Many", "Output"]
    assert panels == ["Arguments", "Options", *groups]
    assert "Examples $ slotflow infer voltage.csv $" in " ".join(text.split())
    assert "1000000" in run("x.csv", "--samples", 1_000_001, code=2)


def test_reading_is_the_library_call(tmp_path: Path, tone: Series) -> None:
    t, x = tone
    x[5] = np.inf
    path = write(tmp_path / "a.csv", t, x + 3)
    with open_signals(path, ReadOptions(fill="linear", t_ref="1")) as source:
        (obs,) = source.read(0, source.count)
    assert isinstance(obs, Observation)
    library = Observation.read(path, fill="linear", t_ref=1.0)
    np.testing.assert_array_equal(obs.long.values, library.long.values)
    assert obs.long.t0 == library.long.t0 == -1


def test_rjmcmc_reads_alike(tmp_path: Path, tone: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler is handed what the flags ask for, and the band that infer would propose."""
    t, x = tone
    x[40] = np.nan
    path = write(tmp_path / "a.csv", t, x + 7)
    seen: list[Any] = []

    def sampler(*args: Any, **_: Any) -> None:
        seen.extend(args)
        raise ValueError("seen")

    monkeypatch.setattr("slotflow.baselines.methods.baseline", sampler)
    flags = ("--fill", "linear", "--detrend", "0", "--t-ref", "2")
    result = CliRunner().invoke(app, ["rjmcmc", str(path), *flags])
    assert result.exit_code == 2 and "seen" in result.output
    with open_signals(path, ReadOptions(fill="linear", detrend=0, t_ref="2")) as source:
        (obs,) = source.read(0, source.count)
    assert isinstance(obs, Observation)
    method, asked, prior = seen
    np.testing.assert_array_equal(asked.long.values, obs.long.values)
    assert method == "rjmcmc" and asked.long.filled == ((40, 40),) and asked.t_ref == 2
    low, high = prior.frequency
    assert low < TONE[2] < high


def test_the_commands_of_the_page_run(
    tmp_path: Path, tone: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of docs/data-in.md, word for word, on files of the names they use."""
    import xarray as xr
    from scipy.io import wavfile

    text = (ROOT / "docs" / "data-in.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    t, x = tone[0], tone[1] / 2  # an amplitude that the model expects unasked
    write(Path("voltage.csv"), t, x)
    np.save("voltage.npy", x)
    write(Path("drift.csv"), t, x + 3 + 0.1 * t)
    write(Path("minutes.csv"), t / 60, x)
    write(Path("log.csv"), t, x)
    write(Path("left.csv"), t, x)
    write(Path("right.csv"), t, 50 * np.random.default_rng(1).permutation(x) + 80 * x)
    write(Path("gaps.csv"), t, np.where(t == t[17], np.nan, x))
    half = t < t[200]
    write(Path("day1.csv"), t[half], x[half])
    write(Path("day2.csv"), t[~half], x[~half])
    errors = SIGMA * np.where(np.arange(N) % 2, 0.4, 0.6)
    np.savetxt("star.dat", np.c_[t, x, errors])
    wavfile.write("chord.wav", 4, np.column_stack([0 * x, x]))
    stamps = ("time", t / 86400, {"units": "days since 2024-03-01"})
    flux = xr.Dataset({"flux": ("time", x)}, coords={"time": stamps})
    flux.to_netcdf("star.nc", engine="h5netcdf")
    for folder in ("runs", "more"):
        Path(folder).mkdir()
        write(Path(folder) / "a.csv", t, x)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert len(lines) >= 9
    for words in lines:
        stdin = None
        if "|" in words:
            assert words[:3] == ["tail", "-n", "300"]
            stdin = "\n".join(Path(words[3]).read_text().splitlines()[-300:]).encode()
            words = words[words.index("|") + 1 :]
        assert words[:2] == ["slotflow", "infer"]
        general = {"--errors", "--join", "--free-gain"}
        plain = not general & {*words} and words[2:] != ["gaps.csv"]
        flags = ("--no-refine",) if plain else ()  # the network reads even series alone
        record = json.loads(run(*words[2:], *flags, "--json", stdin=stdin))
        for signal in record["signals"]:
            assert signal["k_map"] == 1
            found = signal["components"][0]
            assert abs(found["frequency_median"] - TONE[2]) < 6 * found["frequency_sd"]
    assert {p.name for p in Path("results").iterdir() if p.is_dir()} == {"000-a", "001-a"}


def test_more_tones_than_the_model_knows(tmp_path: Path, seed: int) -> None:
    """Eighteen tones in 120 bins: windows answer, unless the user has said how many there may be."""
    rng, k, duration = np.random.default_rng(seed), 18, 300.0
    bins = np.sort(rng.uniform(0, 120 - 3 * (k - 1), k)) + 3 * np.arange(k)
    t = 0.1 * np.arange(3000)
    waves = np.cos(2 * np.pi * np.outer(t, 1.5 + bins / duration) + rng.uniform(0, 6, k))
    file = tmp_path / "crowded.csv"
    np.savetxt(file, np.c_[t, waves.sum(1) + 0.5 * rng.standard_normal(3000)], delimiter=",")
    words = [
        "infer",
        str(file),
        "--band",
        "1.5:1.9",
        "--min-separation",
        "0.01",
        "--max-seconds",
        "60",
    ]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert "windows is exact" in found.output and "p(K | x)" in found.output
    assert "K = 18" in found.output and "K = 3 " not in found.output  # far from what is possible
    for flags in (("--k-max", "3"), ("--k-max", "10")):  # ten are those of the model itself
        stated = CliRunner().invoke(app, [*words, *flags])
        assert "Verdict: misfit" in stated.output and "windows" not in stated.output


def test_what_windows_refuse_stays_a_misfit(tmp_path: Path) -> None:
    """More tones than the model knows, and no noise for the windows to work with."""
    t = 0.1 * np.arange(3000)
    np.save(tmp_path / "a.npy", np.cos(2 * np.pi * np.outer(t, 1.52 + 0.03 * np.arange(12))).sum(1))
    words = ["infer", str(tmp_path / "a.npy"), "--dt", "0.1", "--band", "1.5:1.9"]
    found = CliRunner().invoke(app, [*words, "--max-seconds", "60"])
    assert found.exit_code == 0 and "Verdict: misfit" in found.output, found.output
