"""`slotflow infer` on data of one's own: the band and the prior as flags, what is assumed without them, refusals."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from slotflow.cli import app
from slotflow.cli.components import ShownComponents
from slotflow.network.config import Config
from slotflow.show.wording import measured, number
from slotflow.signal.simulation import simulate
from slotflow.signal.simulation_file import write_simulation

TONES = np.array([[3.0e-3, 1.0, 49.97], [1.5e-3, 2.0, 50.4]])
N, DT = 20_000, 1e-3
AMPLITUDE = ("--amplitude", "1e-3:1e-2")
BAND = ("--band", "48:52")
Array = NDArray[np.float64]


def run(*args: object, code: int = 0) -> str:
    """Runs a command, checks its exit code and gives what it printed, complaints included."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split()) if code else result.output


def answer(*args: object, refine: bool = False) -> dict[str, Any]:
    """The JSON document of `slotflow infer`; what is assumed does not depend on the exact step."""
    step = "--refine" if refine else "--no-refine"
    result = CliRunner().invoke(app, ["infer", *(str(a) for a in args), "--json", step])
    assert result.exit_code == 0, (result.output, result.exception)
    record: dict[str, Any] = json.loads(result.stdout)
    return record


@pytest.fixture(scope="module")
def voltage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty seconds of a mains voltage in a file with a time column: 1/T = 0.05 Hz."""
    t = DT * np.arange(N)
    a, phi, f = TONES.T[..., None]
    x = (a * np.cos(2 * np.pi * f * t + phi)).sum(0)
    x += 5e-3 * np.random.default_rng(1).standard_normal(N)
    path = tmp_path_factory.mktemp("data") / "voltage.csv"
    columns = np.column_stack([t, x])
    np.savetxt(path, columns, fmt="%.9g", delimiter=",", header="time,voltage", comments="")
    return path


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signal of four tones, sampled as the default model was trained."""
    model = Config.from_preset("zoom").model
    path = tmp_path_factory.mktemp("data") / "own.npz"
    write_simulation(path, simulate(model.prior, 1, model.long, model.short, seed=3, k=4))
    return path


def test_own_data_in_their_own_units(voltage: Path) -> None:
    record = answer(voltage, *BAND, *AMPLITUDE, refine=True)
    (signal,), (assumed,) = record["signals"], record["assumed"]
    assert signal["k_map"] == 2 and signal["warnings"] == []
    assert signal["verdict"]["status"] == "exact" and signal["ess"] > 0.5
    assert signal["log_evidence"][2]["error"] < 0.1
    for row, truth in zip(signal["components"], TONES, strict=True):
        for name, value in zip(("amplitude", "phase", "frequency"), truth, strict=True):
            assert abs(row[f"{name}_median"] - value) < 5 * row[f"{name}_sd"]
    (stream,) = assumed["streams"]
    assert (stream["n"], stream["t0"], stream["duration"]) == (N, 0, 20.0)
    assert stream["dt"] == pytest.approx(DT) and stream["rate"] == pytest.approx(1 / DT)
    assert (stream["t_ref"], stream["unit"], assumed["band_from"]) == (0, "", "stated")
    assert assumed["band_bins"] == pytest.approx(80)
    prior = assumed["prior"]
    assert prior["frequency"] == [48, 52] and prior["amplitude"] == [1e-3, 1e-2]
    assert prior["min_separation"] == 0 and assumed["separation_from"] == "weak"
    assert (prior["k_min"], prior["k_max"]) == (0, 10)


def test_what_was_assumed_is_shown(voltage: Path, tmp_path: Path) -> None:
    text = run("infer", voltage, *BAND, *AMPLITUDE, "--out", tmp_path / "r", "--plot")
    for part in (
        "20,000 samples × 0.001 s = 20 s",
        "48–52 Hz, 80 bins of 1/T = 0.05 Hz",
        "K = 0..10, A in 0.001–0.01, no minimum separation, σ in 0–",
    ):
        assert part in text
    assert (tmp_path / "r" / "posterior.png").exists()


def test_without_a_band_one_is_proposed_and_named(voltage: Path) -> None:
    record = answer(voltage, *AMPLITUDE)
    (assumed,), (signal,) = record["assumed"], record["signals"]
    assert assumed["band_from"] == "the data" and signal["k_map"] == 2
    low, high = assumed["prior"]["frequency"]
    assert low < TONES[0, 2] < TONES[1, 2] < high and (high - low) * 20 <= 150
    name = assumed["proposed"]["name"]
    assert name == f"{low!r}:{high!r}"
    assert abs(assumed["proposed"]["peak"] - TONES[0, 2]) <= 0.1  # two bins
    again = answer(voltage, "--band", name, *AMPLITUDE)
    for found in (*again["signals"], *record["signals"]):
        found.pop("assumed")
    assert again["signals"] == record["signals"] and again["assumed"][0]["proposed"] is None
    text = run("infer", voltage, *AMPLITUDE, "--no-refine")
    assert (
        f"proposed: --band {name}, which holds the strongest peak, at {assumed['proposed']['peak']:.6g} Hz"
        in text
    )


@pytest.mark.parametrize("n", [24, 40, 400, 4000, 31_337])
@pytest.mark.parametrize("dt", [1e-4, 0.3, 3600.0])
def test_a_band_is_proposed_for_any_sampling(tmp_path: Path, n: int, dt: float) -> None:
    """It is one that the model takes: below Nyquist, and not wider than the model's window."""
    rng = np.random.default_rng(n)
    path = tmp_path / "x.npy"
    tone = 0.45 * (n // 2)
    np.save(path, np.cos(2 * np.pi * tone * np.arange(n) / n) + 0.1 * rng.standard_normal(n))
    flags = ("--dt", dt, "--min-separation", 0, "--samples", 10)
    (assumed,) = answer(path, *flags)["assumed"]
    low, high = assumed["prior"]["frequency"]
    assert low < tone / (n * dt) < high <= 0.5 / dt


def test_the_own_band_is_left_for_a_stronger_peak(tmp_path: Path) -> None:
    """Sampled so that the model's own band can be shown: a tone elsewhere moves it, without one all counts."""
    t = 0.1 * np.arange(3000)
    noise = np.random.default_rng(4).standard_normal(t.size)
    found = {}
    for f in (1.2, 2.7, 0.0):
        path = tmp_path / f"{f}.npy"
        np.save(path, noise + (np.cos(2 * np.pi * f * t) if f else 0.0))
        (found[f],) = answer(path, "--dt", 0.1, "--samples", 10)["assumed"]
    assert [facts["band_from"] for facts in found.values()] == [
        "the data",
        "the model",
        "the data",
    ]
    low, high = found[1.2]["prior"]["frequency"]
    assert low < 1.2 < high < 2.5
    low, high = found[0.0]["prior"]["frequency"]
    assert low < 0.01 and high > 4.99


def test_own_sampling_needs_no_flags(own: Path) -> None:
    record = answer(own)
    prior = Config.from_preset("zoom").model.prior
    assert record["assumed"][0]["prior"]["frequency"] == list(prior.frequency)
    assert record["assumed"][0]["prior"]["min_separation"] == 0
    assert record["assumed"][0]["band_bins"] == pytest.approx(150)
    assert record["signals"][0]["k_map"] == 4


def test_bounds_of_k(own: Path) -> None:
    few = answer(own, "--k-max", 3)["signals"][0]["k_probs"]
    assert len(few) == 11 and sum(few[4:]) == 0 and few[3] > 0.99
    many = answer(own, "--k-min", 5)["signals"][0]["k_probs"]
    assert sum(many[:5]) == 0


def test_components_that_do_not_fit_into_a_narrow_band(voltage: Path) -> None:
    """20 bins: seven tones at 3 bins. A number that is not stated gives way, one that is stated is refused."""
    narrow = ("--band", "49.7:50.7", *AMPLITUDE, "--min-separation", 0.15, "--samples", 10)
    record = answer(voltage, *narrow)
    assert record["signals"][0]["k_map"] == 2 and record["assumed"][0]["prior"]["k_max"] == 7
    record = answer(voltage, *narrow, "--k-prior", "1:0.5,2:0.5")
    assert record["signals"][0]["k_map"] == 2 and record["assumed"][0]["prior"]["k_max"] == 2
    for flags in (("--k-max", 8), ("--k-min", 8), ("--k-prior", "0,0,0,0,0,0,0,0,1")):
        line = run("infer", voltage, *narrow, *flags, code=2)
        assert "8 components at a separation of 0.15 Hz do not fit into the band 49.7–50.7" in line
        assert "room for 7" in line and "--min-separation" in line


def test_a_short_list_is_a_prior_over_k(voltage: Path, tmp_path: Path) -> None:
    """Without an entry, K is impossible: with flags and in a file."""
    flags = (voltage, *BAND, *AMPLITUDE, "--samples", 10)
    probs = answer(*flags, "--k-prior", "1,1")["signals"][0]["k_probs"]
    assert len(probs) == 11 and probs[1] > 0.99 and sum(probs[2:]) == 0
    (tmp_path / "prior.yaml").write_text("k_prior: [1, 1]")
    again = answer(*flags, "--prior", tmp_path / "prior.yaml")["signals"][0]["k_probs"]
    assert again == probs
    assert "expected K in 0..10" in run("infer", *flags, "--k-prior", ",".join("1" * 12), code=2)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--band", "48"), "--band: expected LOW:HIGH"),
        (("--band", "52:48"), "lower < upper, received (52.0, 48.0)"),
        (("--band", "490:510"), "below the Nyquist frequency of 500 Hz, received 490–510 Hz"),
        (("--band", "40:60", "--k-min", 1), "expected k_min = 0, received 1"),
        (("--band", "48:52", "--f-lo", 48), "give one of them"),
        (("--band", "48:48.2", "--no-refine"), "at least 10 bins of 1/T"),
        ((*BAND, "--amplitude", "3:2"), "lower < upper, received (3.0, 2.0)"),
        ((*BAND, "--k-min", 1, "--k-max", 12), "up to 10 components"),
        ((*BAND, "--method", "guess"), "expected one of exact, network, classical, rjmcmc, smc"),
        ((*BAND, "--method", "smc", "--no-refine"), "--no-refine asks for the network's answer"),
        ((*BAND, "--method", "smc", "--walkers", 8), "--walkers is not an option of --method smc"),
        ((*BAND, "--signal", 1), "holds 1 signal(s), received --signal 1"),
        ((*BAND, "--k-min", 4, "--k-max", 2), "k_min <= k_max"),
        ((*BAND, "--min-separation", -1), "min_separation >= 0, received -1.0"),
        ((*BAND, "--min-separation", 1, "--k-max", 5), "do not fit"),
        ((*BAND, "--k-prior", "1:1", "--k-max", 2), "give one or the other"),
        ((*BAND, "--model", "debug"), "under the prior of its training only"),
    ],
)
def test_refusals(voltage: Path, flags: tuple[object, ...], message: str) -> None:
    line = run("infer", voltage, *flags, code=2)
    assert line.startswith("error:") and message in line


def test_amplitudes_that_cannot_be_are_named(voltage: Path) -> None:
    stated = (*BAND, "--amplitude", "0.5:1.5")
    (low,) = answer(voltage, *stated)["signals"][0]["warnings"]
    assert "below the assumed 0.5–1.5" in low and "--amplitude" in low
    (high,) = answer(voltage, *BAND, "--amplitude", "1e-5:5e-4")["signals"][0]["warnings"]
    assert "above the assumed 1e-05–0.0005" in high
    assert "warning:" in run("infer", voltage, *stated, "--no-refine")


# --- bounds that are derived from the data -----------------------------------------------------------

TRIPLE = [(1.0, 1.0, 50.3), (0.3, 2.0, 53.9), (0.5, 0.3, 61.1)]
"""Amplitude in units of the strongest, phase and frequency."""


def series(size: float, noise: float, seed: int, offset: float = 0.0) -> Array:
    """Four seconds of three tones, of which the strongest has a given size, (4000,)."""
    t = 1e-3 * np.arange(4000)
    tones = sum(a * np.cos(2 * np.pi * f * t + phi) for a, phi, f in TRIPLE)
    rng = np.random.default_rng(seed)
    return np.asarray(size * tones + noise * rng.standard_normal(t.size) + offset)


@pytest.mark.parametrize(("size", "noise"), [(320.0, 100.0), (3e-21, 1e-21)])
def test_amplitudes_in_any_unit_need_no_flag(
    tmp_path: Path, seed: int, size: float, noise: float
) -> None:
    """Integers of a converter, and strains: the bounds are taken from the highest peak, and said to be."""
    x = series(size, noise, seed)
    path = tmp_path / "x.npy"
    np.save(path, np.rint(x).astype(np.int16) if size > 1 else x)
    flags = ("--dt", 1e-3, "--max-seconds", 600)
    record = answer(path, *flags, refine=True)
    (signal,), (assumed,) = record["signals"], record["assumed"]
    assert signal["k_map"] == 3 and signal["verdict"]["status"] == "exact"
    for row, (a, _, f) in zip(signal["components"], TRIPLE, strict=True):
        assert abs(row["amplitude_median"] - size * a) < 5 * row["amplitude_sd"]
        assert abs(row["frequency_median"] - f) < 5 * row["frequency_sd"]
    assert assumed["amplitude_from"] == assumed["sigma_from"] == "the data"
    assert assumed["warnings"] == [] and signal["warnings"] == []
    lower, upper = assumed["prior"]["amplitude"]
    level = noise * np.sqrt(2 / 4000)
    assert upper == pytest.approx(2 * size, rel=0.15)  # the peak's noise, and two digits
    assert lower == pytest.approx(5 * level, rel=0.11)
    text = run("infer", path, *flags[:2], "--no-refine")
    trained = 0.1 / 1.5 * upper  # the network alone stays within its training
    shown = re.search(r"A in (\S+)–(\S+) \(from the data\), no minimum separation", text)
    assert shown is not None and float(shown[2]) == upper
    assert float(shown[1]) == pytest.approx(max(lower, trained), rel=0.1)
    stated = answer(path, *flags[:2], "--amplitude", f"{lower}:{upper}", "--samples", 10)
    assert stated["assumed"][0]["amplitude_from"] == "stated"
    assert stated["assumed"][0]["prior"] == assumed["prior"]


def test_each_signal_has_bounds_of_its_own(tmp_path: Path, seed: int) -> None:
    """The answer to a signal does not depend on the others of its file."""
    x = [series(3e-3 * size, 1e-3, seed + i) for i, size in enumerate((0.1, 1.0, 0.0))]
    np.save(tmp_path / "x.npy", np.stack(x))
    flags = ("--dt", 1e-3, "--samples", 10)
    record = answer(tmp_path / "x.npy", *flags)
    quiet, loud, noise = (
        signal["assumed"]["prior"]["amplitude"][1] for signal in record["signals"]
    )
    assert loud == pytest.approx(6e-3, rel=0.15) and noise < quiet < loud
    np.save(tmp_path / "x.npy", x[0])
    (alone,) = answer(tmp_path / "x.npy", *flags)["signals"]
    assert alone["assumed"] == record["signals"][0]["assumed"]
    (named,) = answer(tmp_path / "x.npy", *flags, "--signal", 0)["signals"]
    assert named == alone


def test_noise_alone_in_other_units(tmp_path: Path, seed: int) -> None:
    """Bounds of A around what such noise could hide, not the model's own, which rule out everything."""
    x = series(0.0, 1e-6, seed)
    np.save(tmp_path / "x.npy", x)
    (assumed,) = answer(tmp_path / "x.npy", "--dt", 1e-3, "--samples", 10)["assumed"]
    low, high = assumed["prior"]["amplitude"]
    assert low == pytest.approx(5e-6 * np.sqrt(2 / x.size), rel=0.1) and low < high < 1e-5


@pytest.mark.parametrize(
    ("size", "offset", "slope"),
    [
        (1.4, 0.0, 0.0),
        (1.0, 1000.0, 0.0),  # an offset is neither a tone nor noise, and is subtracted
        (1.0, -3.0, 0.0),
        (1.0, 5.0, 20.0),
        (0.3, 0.0, 0.0),
        (60.0, 0.0, 0.0),
    ],
)
def test_bounds_contain_what_the_data_show(
    tmp_path: Path, seed: int, size: float, offset: float, slope: float
) -> None:
    x = series(size, 0.5, seed, offset) + slope * 1e-3 * np.arange(4000)
    np.save(tmp_path / "x.npy", x)
    record = answer(tmp_path / "x.npy", "--dt", 1e-3, refine=True)
    (assumed,), (signal,) = record["assumed"], record["signals"]
    assert signal["k_map"] == 3 and signal["verdict"]["status"] == "exact"
    assert signal["warnings"] == []
    (low, high), (quiet, loud) = assumed["prior"]["amplitude"], assumed["prior"]["sigma"]
    assert low < 0.3 * size < size < high < 3 * size
    rms = np.sqrt(0.5**2 + size**2 * (1 + 0.09 + 0.25) / 2)
    assert quiet == 0 and 0.5 < loud < 1.2 * max(rms, 3 * 0.5)
    subtracted = [note for note in signal["notes"] if "subtracted" in note]
    assert len(subtracted) == (offset != 0) and all("offset" in note for note in subtracted)
    assert all(("trend" in note) == (slope != 0) for note in subtracted)


def test_noise_in_any_unit_has_no_tones(tmp_path: Path, seed: int) -> None:
    """Bounds from nothing but noise lie above its peaks, and within those of the training."""
    np.save(tmp_path / "x.npy", series(0.0, 1e-21, seed))
    record = answer(tmp_path / "x.npy", "--dt", 1e-3, "--band", "45:65")
    (signal,), (assumed,) = record["signals"], record["assumed"]
    assert signal["k_map"] == 0 and assumed["warnings"] == []
    assert assumed["amplitude_from"] == "the data"


def test_priors_beyond_the_training_are_named(voltage: Path) -> None:
    flags = ("--samples", 10)
    assert answer(voltage, *BAND, *AMPLITUDE, *flags)["assumed"][0]["warnings"] == []
    cases = {
        ("--band", "48:52", "--amplitude", "0:1e-2"): "lower bounds of A from 0.0667 to 0.667",
        (
            "--band",
            "49.7:50.7",
            *AMPLITUDE,
            "--k-max",
            "2",
        ): "bands of 30 bins and more, received 20",
        (*BAND, *AMPLITUDE, "--min-separation", "0.3"): "separations of up to 4.5 bins, received 6",
    }
    for args, message in cases.items():
        (found,) = answer(voltage, *args, *flags)["assumed"][0]["warnings"]
        assert message in found
        assert "warning:" in run("infer", voltage, *args, *flags, "--no-refine")


def test_noise_alone(tmp_path: Path) -> None:
    path = tmp_path / "noise.npy"
    np.save(path, 1e-7 * np.random.default_rng(0).standard_normal(3000))
    text = run("infer", path, "--dt", 0.1, "--amplitude", "5e-8:1.5e-7")
    assert "No component" in text and "Components, given" not in text and "drawn again" not in text
    assert re.search(r"σ = 9\.\d+e-08 ± |σ = 1\.\d+e-07 ± ", text)


def test_simulate_draws_for_the_default_model(tmp_path: Path) -> None:
    record = json.loads(run("simulate", "--n", 40, "--out", tmp_path / "a.npz", "--json"))
    assert record["preset"] == "zoom" and record["long"]["n"] == 3000
    assert record["signals_per_k"][0] > 0 and len(record["signals_per_k"]) == 11
    small = ("simulate", "--preset", "debug", "--n", 4, "--out", tmp_path / "b.npz", "--json")
    assert json.loads(run(*small))["long"]["n"] == 128


def test_demo_counts_right(tmp_path: Path) -> None:
    record = json.loads(run("demo", "--json", "--out", tmp_path / "demo.png"))
    assert record["model"] == "zoom" and record["k_map"] == record["truth"]["k"] == 6
    assert record["assumed"]["band_bins"] == pytest.approx(150)


@pytest.mark.parametrize(
    ("value", "sd", "text"),
    [
        (2.5260531, 3.3e-5, "2.526053 ± 0.000033"),
        (1.2345e-7, 2e-9, "1.235e-07 ± 2.0e-09"),
        (1234.0, 120.0, "1230 ± 120"),
        (28.4, 221.0, "30 ± 220"),
        (12345678.0, 120.0, "1.234568e+07 ± 120"),
        (0.0, 1e-12, "0 ± 1.0e-12"),
        (28.4, 2.2e7, "0 ± 2.2e+07"),
        (-3.0, 221.0, "0 ± 220"),
        (-0.001, 0.3, "0.00 ± 0.30"),
        (2.5, 0.0, "2.5"),
        (-3e-21, 0.0, "-3e-21"),
        (5.99762029786432, 2.7e-15, "5.99762"),  # of draws that are all at a bound
        (0.5321402005777837, 7.0e-15, "0.53214"),
        (5.99762029786432, 2.7e-11, "5.997620297864 ± 2.7e-11"),
        (48.2971, math.nan, "48.2971"),
        (48.2971, math.inf, "48.2971"),
        (0.0, 0.0, "0"),
        (math.nan, 0.1, "–"),
    ],
)
def test_two_digits_of_the_uncertainty(value: float, sd: float, text: str) -> None:
    assert measured(value, sd) == text


@pytest.mark.parametrize("sd", [math.nan, math.inf, 0.0, *10.0 ** np.arange(-20, 6)])
def test_numbers_of_any_uncertainty_are_plain(sd: float) -> None:
    """What is written is the value to its uncertainty, or to six digits, without exponents and endless decimals."""
    for value in (48.126263561206557, -0.0123456789012345, 123456.789012345, 3.0):
        text = number(value, sd)
        assert "e" not in text and len(text) <= 19, text
        error = sd if math.isfinite(sd) else 0.0
        assert float(text) == pytest.approx(value, rel=1e-5, abs=error)


def test_places_without_errors_are_written_like_their_neighbours() -> None:
    rows = [
        {"component": i + 1, "frequency_median": f, "frequency_sd": sd, "existence": 1.0}
        for i, (f, sd) in enumerate(
            [(48.126263561206557, 7e-15), (48.2971, 0.0), (48.46958, 0.002)]
        )
    ]
    shown = ShownComponents({"components": rows, "frequency_unit": "Hz", "waveform": "tone"}, None)
    assert shown.places == "at 48.1263, 48.2971 and 48.4696 Hz"
