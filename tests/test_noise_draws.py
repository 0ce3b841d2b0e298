"""Noise that is drawn: its spectrum is the one stated, at any times, and what infers noise finds it again."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from slotflow import Grid, Observation, Prior, simulate, simulate_like
from slotflow.cli import app
from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.io import read_observations
from slotflow.noise import ar, choose_noise, parse_noise, power_law, psd
from slotflow.signal.noise.draws import draw_noise
from slotflow.signal.noise.series import Series

STEP = 0.1
GRID = STEP * np.arange(2000)
PRIOR = Prior(k_max=3, frequency=(1.0, 2.0), amplitude=(0.5, 1.0), sigma=(1.0, 1.0))


def drawn(noise: object, times: Array, is_complex: bool = False, n: int = 60) -> Array:
    """Noise of level 1 at some times, (n, N)."""
    rng = np.random.default_rng(1)
    step = float(np.median(np.diff(times)))
    series = Series(np.zeros(len(times), dtype=complex if is_complex else float), times, step)
    return np.array([draw_noise(parse_noise(noise), [series], rng)[0][0] for _ in range(n)])


def mean_power(x: Array, f: Array, times: Array = GRID) -> Array:
    """Mean Hann power of series (n, N) at frequencies, in units where white noise of level 1 has 1, (F,)."""
    w = np.sin(np.pi * (np.arange(len(times)) + 0.5) / len(times))
    waves = np.exp(-2j * np.pi * np.multiply.outer(times, f)) * w[:, None]
    return np.asarray((np.abs(x @ waves) ** 2).mean(0) / (w**2).sum())


@pytest.mark.parametrize(
    ("noise", "spectrum"),
    [
        ("white", lambda f: np.ones_like(f)),
        ("ar(0.9)", lambda f: 1 / np.abs(1 - 0.9 * np.exp(-2j * np.pi * f * STEP)) ** 2),
        (power_law(0.5, 2.0), lambda f: 1 + (f / 0.5) ** -2.0),
        (psd(lambda f: 0.2 + 0.1 * np.cos(f)), lambda f: 1 + 0.5 * np.cos(f)),
    ],
)
def test_noise_has_the_spectrum_that_is_stated(noise: object, spectrum) -> None:  # type: ignore[no-untyped-def]
    """Sixty series, twelve frequencies: within 4.5 standard errors; a spectrum of twice the power is not."""
    f = np.geomspace(0.1, 4.5, 12)
    ratio = mean_power(drawn(noise, GRID), f) / spectrum(f)
    assert np.abs(ratio - 1).max() < 4.5 / math.sqrt(60)
    assert np.abs(ratio / 2 - 1).min() > 0.1


def test_complex_noise_has_both_sides() -> None:
    f = np.array([-2.0, 2.0])
    x = drawn(ar(coefficients=[0.8 * np.exp(2j * np.pi * 2.0 * STEP)]), GRID, is_complex=True)
    expected = 2 / np.abs(1 - 0.8 * np.exp(2j * np.pi * (2.0 - f) * STEP)) ** 2
    assert np.abs(mean_power(x, f) / expected - 1).max() < 4.5 / math.sqrt(60)
    assert expected[1] > 30 * expected[0]


def test_red_noise_at_uneven_times_has_the_even_covariance() -> None:
    """C(0) − C(τ) of one second, from 60 series at random times and at even ones."""
    rng = np.random.default_rng(2)
    times = np.sort(rng.choice(np.arange(0, 200, 0.01), 2000, replace=False))
    noise, lag = power_law(0.3, 2.0), 10
    even = drawn(noise, GRID)
    expected = 0.5 * np.mean((even[:, lag:] - even[:, :-lag]) ** 2)
    x = drawn(noise, times)
    gap = times[None, :] - times[:, None]
    i, j = np.nonzero(np.abs(gap - lag * STEP) < 0.01)
    step = float(np.median(np.diff(times)))
    found = 0.5 * np.mean((x[:, i] - x[:, j]) ** 2)
    assert found - 1 == pytest.approx((expected - 1) * step / STEP, rel=0.15)


def test_gaps_errors_and_channels_are_those_of_the_template() -> None:
    rng = np.random.default_rng(3)
    times = np.sort(rng.uniform(0, 100, 400))
    errors = np.where(np.arange(400) % 2, 0.5, 2.0)
    template = Observation(
        [Channel(np.zeros(400), times=times, errors=errors), Channel(np.zeros(300), STEP, gain=2.0)]
    )
    made = simulate_like(template, PRIOR, 30, k=2, seed=4)
    assert all(len(one.theta) == 2 for one in made)
    first = made[0].observation
    assert np.array_equal(first.channels[0].times, times)
    assert first.channels[1].gain == 2.0
    again = simulate_like(template, PRIOR, 30, k=2, seed=4)[0].observation
    assert np.array_equal(first.channels[0].values, again.channels[0].values)
    empty = simulate_like(template, PRIOR, 30, k=0, seed=4)
    scaled = np.array([one.observation.channels[0].values / errors for one in empty])
    assert scaled.std() == pytest.approx(1, abs=4.5 / math.sqrt(2 * scaled.size))


def test_missing_samples_stay_missing() -> None:
    x = np.zeros(1000)
    x[300:350] = np.nan
    made = simulate_like(Observation(Channel(x, STEP)), PRIOR, 1, noise="ar(0.9)", k=1)[0]
    assert made.observation.long.n == 950
    assert made.noise_values == (0.9,)


def test_complex_signals_have_complex_tones() -> None:
    template = Observation(Channel(np.zeros(1000, dtype=complex), STEP))
    made = simulate_like(template, PRIOR, 1, k=1, seed=5)[0]
    f = np.fft.fftfreq(1000, STEP)
    top = f[np.argmax(np.abs(np.fft.fft(made.observation.long.values)))]
    assert top == pytest.approx(made.theta[0, 2], abs=0.01)


def test_batches_hold_coloured_noise_and_its_numbers() -> None:
    grid = Grid(2000, STEP)
    sim = simulate(PRIOR, 4, grid, Grid(500, 0.01), noise=ar(1), seed=6, k=0)
    assert sim.noise_values is not None and sim.noise_values.shape == (4, 1)
    x = sim.long.numpy()
    found = (x[:, 1:] * x[:, :-1]).sum(1) / (x**2).sum(1)
    error = np.sqrt((1 - sim.noise_values[:, 0] ** 2) / 2000)
    assert (np.abs(found - sim.noise_values[:, 0]) < 4.5 * error + 0.005).all()
    white = simulate(PRIOR, 4, grid, seed=6, k=0)
    assert white.noise_values is None


def test_what_is_drawn_is_found_again() -> None:
    template = Observation(Channel(np.zeros(1500), STEP))
    made = simulate_like(template, PRIOR, 3, noise=ar(1), k=0, seed=7)
    for one in made:
        model = choose_noise(one.observation, ar(1), PRIOR.frequency)
        phi = one.noise_values[0]
        assert model.nodes[0].values[0] == pytest.approx(
            phi, abs=4.5 * math.sqrt((1 - phi**2) / 1500) + 0.01
        )


def test_what_cannot_be_drawn_is_refused() -> None:
    template = Observation(
        Channel(np.zeros(100), times=np.sort(np.random.default_rng(0).uniform(0, 9, 100)))
    )
    for noise, words in (
        ("local", "be drawn"),
        ("ar", "order"),
        ("ar(0.5)", "power_law"),
        ("ar(1.5)", "stationary"),
    ):
        with pytest.raises(ValueError, match=words):
            simulate_like(template, PRIOR, noise=noise)


def test_a_density_in_a_file_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "density.txt"
    path.write_text("0 0.2\n5 0.2\n")
    x = drawn(str(path), GRID, n=10)
    assert x.std() == pytest.approx(1, abs=4.5 / math.sqrt(2 * x.size))


# ---------------------------------------------------------------------- files and the command line


def run(*arguments: str) -> str:
    """What the command prints."""
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_draws_coloured_noise(tmp_path: Path) -> None:
    out = tmp_path / "red.npz"
    run("--preset", "debug", "--noise", "ar(0.9)", "--n", "3", "--out", str(out))
    with np.load(out) as arrays:
        assert arrays["noise_shape"].tolist() == [[0.9]] * 3


def test_the_command_draws_signals_like_those_of_a_file(tmp_path: Path) -> None:
    """Uneven times with errors, a grid with gaps, and complex samples come back as they were."""
    rng = np.random.default_rng(9)
    times = np.sort(rng.uniform(0, 100, 300))
    uneven = tmp_path / "uneven.csv"
    table = np.column_stack([times, rng.standard_normal(300), rng.uniform(1, 2, 300)])
    np.savetxt(uneven, table, delimiter=",", header="time,flux,flux_err", comments="")
    gappy = np.where(np.arange(1000) % 100 < 7, np.nan, 1.0)
    np.savez(tmp_path / "gaps.npz", values=gappy, dt=0.1)
    np.savez(tmp_path / "complex.npz", values=np.ones(500, dtype=complex), dt=0.1)
    common = (
        "--band",
        "0.5:1.5",
        "--amplitude",
        "1:2",
        "--k",
        "1",
        "--n",
        "2",
        "--noise",
        "power_law(0.1,2)",
    )
    for name, n, is_even in (
        ("uneven.csv", 300, False),
        ("gaps.npz", 930, False),
        ("complex.npz", 500, True),
    ):
        out = tmp_path / f"drawn-{name}.npz"
        assert "K = 1: 2" in run("--like", str(tmp_path / name), *common, "--out", str(out))
        found = read_observations(out)
        assert len(found) == 2
        channel = found[0].long
        assert (channel.n, channel.is_even) == (n, is_even)
        assert channel.is_complex == (name == "complex.npz")
        assert (channel.errors is not None) == (name == "uneven.csv")
    with np.load(tmp_path / "drawn-complex.npz.npz") as arrays:
        assert arrays["theta"].shape == (2, 1, 3)
    result = CliRunner().invoke(
        app,
        ["simulate", "--like", str(tmp_path / "complex.npz"), "--band", "8:9", "--out", str(out)],
    )
    assert result.exit_code != 0
    assert "Nyquist" in result.output
