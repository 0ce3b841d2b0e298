"""The scripts that score real and published series: made series with known answers, and wrong answers that lose."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
SIGMA = 0.0025


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def imported(name: str) -> ModuleType:
    __import__(name)
    return sys.modules[name]


def made_star(folder: Path, seed: int = 0) -> None:
    """A folder as STAR SHADOW's, with one light curve: two eclipses per orbit, three pulsations, one gap."""
    rng = np.random.default_rng(seed)
    t = np.arange(4000) / 48
    t = t[(t < 30) | (t > 32)]
    period = 5.3
    phase = np.mod(t / period, 1)
    eclipses = sum(
        depth * np.exp(-0.5 * ((np.mod(phase - at + 0.5, 1) - 0.5) / 0.02) ** 2)
        for at, depth in ((0.2, 0.2), (0.7, 0.08))
    )
    table = np.array([[3.1, 0.004, 0.13], [3.4, 0.003, -0.42], [7.9, 0.002, 0.77]])
    pulsations = (table[:, 1] * np.sin(2 * np.pi * (np.outer(t, table[:, 0]) + table[:, 2]))).sum(1)
    flux = 1 - eclipses + pulsations + SIGMA * rng.standard_normal(len(t))
    (folder / "pulse_data").mkdir()
    np.savetxt(folder / "sim_000_lc.dat", np.stack([t, flux, 0 * t], 1))
    np.savetxt(
        folder / "pulse_data" / "sim_000_lc_pulse_info.dat", table, delimiter=",", header="f,a,phi"
    )
    (folder / "sim_parameters.csv").write_text(f",simID,t0,period\n0,sim_000,0,{period}\n", "utf-8")


def test_eclipses_go_and_pulsations_stay(scripts: None, tmp_path: Path) -> None:
    made_star(tmp_path)
    curves = imported("star_curves")
    assert curves.names(tmp_path) == ["sim_000_lc"]
    star = curves.load(tmp_path, "sim_000_lc")
    a, phi, f = star.truth.T
    model = (a * np.cos(2 * np.pi * np.outer(star.times, f) + phi)).sum(1)
    residual = star.flux - model
    n = len(residual)
    # the spline takes at most a tenth of the noise; five standard errors of an sd and of a correlation
    assert 0.95 - 5 / np.sqrt(2 * n) < residual.std() / SIGMA < 1 + 5 / np.sqrt(2 * n)
    assert abs(np.corrcoef(residual[1:], residual[:-1])[0, 1]) < 5 / np.sqrt(n)
    assert (star.flux - model[::-1]).std() > 1.3 * SIGMA  # the control: wrong phases do not fit


def test_a_light_curve_without_numbers_is_left_out(scripts: None, tmp_path: Path) -> None:
    made_star(tmp_path)
    table = np.loadtxt(tmp_path / "sim_000_lc.dat")
    table[:, 1] = np.nan
    np.savetxt(tmp_path / "sim_000_lc.dat", table)
    assert imported("star_curves").load(tmp_path, "sim_000_lc") is None


def test_stars_are_scored_one_to_one(scripts: None, tmp_path: Path) -> None:
    made_star(tmp_path)
    star = imported("star_curves").load(tmp_path, "sim_000_lc")
    stars = imported("stars")
    errors = np.tile([1e-4, 0.05, 1e-4], (4, 1))
    shifted = star.truth + errors[:3] * [1.0, -2.0, 0.5]
    extra = np.concatenate([shifted, [[0.001, 0.0, star.truth[0, 2] + 2e-3]]])
    row = stars.scored(star, extra, errors)
    assert (row["true"], row["found"], row["matched"]) == (3, 4, 3)
    np.testing.assert_allclose(row["pulls"], np.tile([1.0, -2.0, 0.5], (3, 1)), atol=1e-6)
    total = stars.summary([row | {"cpu_seconds": 1.0, "status": "exact"}])
    assert (total["recall"], total["false"], total["right_count"]) == (1.0, 1, 0)
    assert total["pulls"]["rms"] == {"A": 1.0, "phi": 2.0, "f": 0.5}
    assert (
        stars.scored(star, star.truth + np.array([0, 0, 0.5]), errors[:3])["matched"] == 0
    )  # the control


def test_prewhitening_finds_what_is_there(scripts: None, tmp_path: Path) -> None:
    pytest.importorskip("astropy")
    made_star(tmp_path)
    star = imported("star_curves").load(tmp_path, "sim_000_lc")
    tones, errors = imported("prewhitening").prewhiten(star.times, star.flux)
    row = imported("stars").scored(star, tones, errors)
    assert (row["found"], row["matched"]) == (3, 3)
    assert np.abs(row["pulls"]).max() < 5
    noise = np.random.default_rng(1).standard_normal(len(star.times))
    assert len(imported("prewhitening").prewhiten(star.times, noise, snr=5.0)[0]) == 0


def test_the_noise_of_simulated_tides_has_the_residual_s_spectrum(scripts: None) -> None:
    tides = imported("tides")
    n, rng = 4096, np.random.default_rng(2)
    red = np.zeros(n)
    for i, step in enumerate(rng.standard_normal(n)):
        red[i] = 0.9 * red[i - 1] + step
    level = red + 50 * np.cos(2 * np.pi * 0.0805 * np.arange(n))
    power = tides.red_spectrum(level, {"f": np.array([0.0805])})
    f = np.arange(n + 1) / (2 * n)
    expected = 1 / np.abs(1 - 0.9 * np.exp(-2j * np.pi * f)) ** 2
    ratio = power[200:] / expected[200:]
    # a median of 65 powers scatters by 1/√65 / (2 ln 2 · 0.5) ≈ 0.18 of itself: five of these, and the mean within 10 %
    assert np.all(np.abs(np.log(ratio)) < 0.9)
    assert abs(np.log(ratio).mean()) < 0.1


def test_frequencies_are_paired_within_a_distance(scripts: None) -> None:
    proof = imported("series_proof")
    i, j = proof.paired(np.array([0.1, 0.2004, 0.3]), np.array([0.2, 0.3, 0.4]), 1000.0, 0.5)
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(1, 0), (2, 1)]
    turned = proof.differences(np.array([[1.0, 6.2, 2.0]]), np.array([[0.5, 0.1, 2.5]]))
    np.testing.assert_allclose(turned, [[0.5, 6.1 - 2 * np.pi, -0.5]])


def half(number: float) -> dict[str, float] | None:
    """Work for a record: some numbers have no row, and some fail."""
    if number < 0:
        raise ValueError("negative")
    return {"half": number / 2} if number else None


def test_a_record_grows_and_goes_on(scripts: None, tmp_path: Path) -> None:
    """A task that fails is a row; the next run makes only what is missing, and that task again."""
    proof = imported("series_proof")
    file = tmp_path / "record.json"
    tasks: dict[str, tuple[float, ...]] = {"a": (4.0,), "b": (-1.0,), "c": (0.0,)}
    rows = proof.run_all(half, tasks, file, jobs=1)
    assert rows["a"] == {"half": 2.0} and rows["c"] is None
    assert rows["b"] == {"error": "ValueError: negative"} == json.loads(file.read_text())["b"]
    proof.write_record(file, rows | {"a": {"half": 7.0}})
    again = proof.run_all(half, tasks | {"b": (2.0,)}, file, jobs=2)
    assert again == {"a": {"half": 7.0}, "b": {"half": 1.0}, "c": None}
    assert proof.run_all(half, tasks | {"d": (1.0,)}, file, jobs=1, limit=0.01).keys() == {*"abc"}


def test_a_small_copy_of_the_stars_is_read_alike(scripts: None, tmp_path: Path) -> None:
    made_star(tmp_path)
    curves = imported("star_curves")
    assert curves.copied(tmp_path, tmp_path / "small") == 1
    one, other = (curves.load(folder, "sim_000_lc") for folder in (tmp_path, tmp_path / "small"))
    assert curves.names(tmp_path / "small") == ["sim_000_lc"]
    for name in ("times", "flux", "truth"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def record(f: list[float], status: str = "exact") -> dict[str, object]:
    components = [{"frequency_median": each} for each in f]
    return {
        "components": components,
        "k_map": len(f),
        "verdict": {"status": status},
        "assumed": {"streams": [{"duration": 365 * 86400.0}]},
    }


def test_first_contact_finds_names_in_either_clock(scripts: None) -> None:
    contact = imported("first_contact")
    truth = {"clock": 86400, "tones": {"M2": 1.9322736, "K1": 1.0027379}}
    in_hertz = record([1.9322736 / 86400])
    assert contact.found(in_hertz, truth) == ["M2"]
    in_days = record([1.9322736, 1.0027379])
    in_days["assumed"] = {"streams": [{"duration": 365.0}]}
    assert contact.found(in_days, truth) == ["M2", "K1"]
    assert contact.signed(in_days, ["M2", "K1"], truth)
    assert not contact.signed(in_hertz, ["M2"], truth)
    assert not contact.signed(record([1.0], "misfit"), [], {})
    drifts = truth | {"misfit_deserved": "drifts"}
    assert contact.signed(record([1.0, 2.0], "misfit"), ["M2", "K1"], drifts)
    assert contact.signed(record([]), [], {"empty": True})
    assert not contact.signed(record([1.0]), [], {"empty": True})


def test_first_contact_knows_its_series() -> None:
    truths = yaml.safe_load((ROOT / "benchmarks" / "first_contact.yaml").read_text("utf-8"))
    assert len(truths) >= 20
    for name, truth in truths.items():
        assert truth["what"] and truth["source"], name
        assert all(f > 0 for f in truth.get("tones", {}).values()), name


def test_first_contact_runs_a_file(scripts: None, tmp_path: Path) -> None:
    contact = imported("first_contact")
    file = tmp_path / "nothing.csv"
    file.write_text("", "utf-8")
    line = contact.row(file, {"tones": {"a": 1.0}}, 60.0, [])
    assert line["status"] == "refused" and line["reason"]
    assert "-/1" in contact.printed(line)
    json.dumps(line)
