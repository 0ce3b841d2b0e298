"""Tempered sequential Monte Carlo against the prior, a grid and the exact layer; the classical posterior."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from evidence_helpers import assert_draws_as_on_grid, grid_around
from scipy.stats import f as f_law
from statistics_helpers import assert_mean, assert_same_law, assert_within
from tone_helpers import to_theta, to_z
from typer.testing import CliRunner

from slotflow import Prior, SlotFlow
from slotflow.baselines.annealing import Annealing
from slotflow.baselines.laplace_posterior import classical_posterior
from slotflow.baselines.moves import StatePrior
from slotflow.baselines.particles import ParticleOptions, Tempered, tempered
from slotflow.baselines.redraw import Redraw
from slotflow.baselines.rjmcmc import rough_noise
from slotflow.baselines.smc import _finished, effective_draws, smc
from slotflow.baselines.tabulated import Tabulated
from slotflow.cli import app
from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed
from slotflow.data.channel import Stream
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.exact.target import Target
from slotflow.show.plots import plot_posterior
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import Simulation, simulate
from slotflow.signal.simulation_file import write_simulation

GRIDS = Grid(3000, 0.1), Grid(5120, 1 / 512)
SMALL = ParticleOptions(particles=400, islands=8, sweeps=2)


def signal(seed: int, k: int) -> tuple[Simulation, Statistics]:
    sim = simulate(Prior(), 1, *GRIDS, mode="physical", seed=seed, k=k)
    return sim, Statistics.from_observation(sim.observation(0))


def prior_draws(prior: Prior, n: int, k: int, seed: int) -> Array:
    """(A, φ, f), (n, k, 3)."""
    generator = torch.Generator().manual_seed(spread_seed(seed))
    theta: Array = prior.sample_theta(torch.full((n,), k), generator).numpy()[:, :k]
    return theta


# --- parts ---------------------------------------------------------------------------------------


def test_annealing(seed: int) -> None:
    """From a constant to ln L, with slopes of at most τ/2, and steps that keep the share they were asked for."""
    _, statistics = signal(seed, 2)
    table = Tabulated(statistics, Prior())
    path, n = Annealing(table), statistics.n
    rss = table.energy * np.geomspace(0.05, 4.0, 400)
    assert np.ptp(path(0.0, rss)) == 0
    np.testing.assert_array_equal(path(math.inf, rss), table.log_likelihood(rss))
    for tau in (1e-3, 0.5, n / table.energy, 20.0):
        value = path(tau, rss)
        slope = -np.diff(value) / np.diff(rss)
        assert slope.max() < 0.5 * tau * (1 + 1e-6) and (slope > 0).all()
    felt = path.level(1e9, np.array([0.5 * table.energy]))
    assert felt == pytest.approx(math.sqrt(0.5 * table.energy / n), rel=0.01)
    assert path.level(1e-4, rss) == pytest.approx(100.0)
    some = table.energy * np.random.default_rng(seed).uniform(1, 2, 500)
    tau = path.next(0.0, some, 0.8)
    weights = np.exp(path(tau, some) - path(tau, some).max())
    assert weights.sum() ** 2 / (500 * (weights**2).sum()) == pytest.approx(0.8, abs=1e-3)
    assert path.next(1e9, some, 0.8) == math.inf


@pytest.mark.parametrize("honest", [True, False])
def test_a_tone_drawn_anew_leaves_the_prior_as_it_is(honest: bool, seed: int) -> None:
    """With its Hastings ratio; without it, tones gather at the periodogram's peaks."""
    sim, statistics = signal(seed, 2)
    prior, rng, n = Prior(min_separation=0.05), np.random.default_rng(seed), 4000
    states = StatePrior(replace(prior, k_min=2, k_max=2))
    redraw = Redraw(Tabulated(statistics, prior), prior, float(sim.sigma))
    z = to_z(prior_draws(prior, n, 2, seed), statistics.reference)
    places = np.ones((n, 2), dtype=bool)
    for _ in range(12):
        new, hastings = redraw(z, 12.0, rng)
        gain = states(new, places) - states(z, places) + (hastings if honest else 0.0)
        taken = np.log(rng.random(n)) < gain
        z[taken] = new[taken]
    expected = prior_draws(prior, n, 2, seed + 1)
    which = rng.integers(2, size=n)
    theta = to_theta(z, statistics.reference)[np.arange(n), which]
    expected = expected[np.arange(n), rng.integers(2, size=n)]
    for i in (0, 2):
        if honest:
            assert_same_law(theta[:, i], expected[:, i])
    if not honest:
        with pytest.raises(AssertionError):
            assert_same_law(theta[:, 2], expected[:, 2])


def test_effective_draws(seed: int) -> None:
    """Independent particles count fully; those of islands that each stand in one place count as their number."""
    rng = np.random.default_rng(seed)
    one = Tempered(
        rng.standard_normal((800, 2, 3)), np.ones(800), np.zeros(800), np.zeros(8), 1, 1, {}
    )
    assert np.median(effective_draws(one)) > 400
    stuck = replace(one, z=np.repeat(rng.standard_normal((8, 2, 3)), 100, 0))
    assert effective_draws(stuck).max() < 16
    assert one.error < 1e-6 and one.log_evidence == pytest.approx(0.0)
    numbers = np.arange(1.0, 9.0)
    uneven = replace(one, log_z=np.log(numbers))
    assert uneven.log_evidence == pytest.approx(math.log(4.5))
    spread = np.log(numbers).var(ddof=1)
    assert uneven.error == pytest.approx(math.sqrt(math.log1p(math.expm1(spread) / 8)))
    upper = replace(one, log_z=np.log(np.array([1.0] * 7 + [3.0])))
    assert upper.error == pytest.approx(2 / 8 / 1.25)


@pytest.mark.parametrize("spread", [0.2, 1.5])
def test_the_error_of_the_evidence_is_its_scatter(spread: float, seed: int) -> None:
    """Of islands whose ln Z is Gaussian; √(variance/n), which ignores how skew Z is, falls short of a wide one."""
    rng = np.random.default_rng(seed)
    none = np.zeros((8, 0, 3)), np.ones(8), np.zeros(8)
    runs = [Tempered(*none, log_z) for log_z in spread * rng.standard_normal((4000, 8))]
    scatter = float(np.std([run.log_evidence for run in runs]))
    stated = math.sqrt(np.mean([run.error**2 for run in runs]))
    plain = math.sqrt(np.mean([run.log_z.var(ddof=1) / 8 for run in runs]))
    if spread < 1:
        assert_within(stated, scatter, scatter / math.sqrt(8000) + 0.01 * stated)
    else:  # rather too large, since exponentials of large variances dominate the mean square
        assert plain < 0.8 * scatter < scatter < stated < 2 * scatter


def test_evidences_of_repeated_runs_scatter_as_stated(seed: int) -> None:
    """Over independent runs on three signals; a quarter of the stated error would be told from it."""
    squares, stated = [], []
    for i in range(3):
        sim, statistics = signal(seed + i, 1)
        table = Tabulated(statistics, Prior())
        redraw = Redraw(table, Prior(), rough_noise(sim.observation(0), Prior()))
        runs = [tempered(table, Prior(), 1, redraw, SMALL, j) for j in range(8)]
        values = np.array([run.log_evidence for run in runs if run is not None])
        squares += list((values - values.mean()) ** 2 * 8 / 7)
        stated += [run.error**2 for run in runs if run is not None]
    # 21 degrees of freedom above and 168 below.
    ratio = float(np.mean(squares) / np.mean(stated))
    low, high = f_law.isf([1 - 1e-5, 1e-5], 21, 168)
    assert low < ratio < high
    assert not low < 16 * ratio < high


def test_where_it_ends() -> None:
    def order(log_z: float) -> Tempered:
        return Tempered(np.zeros((8, 0, 3)), np.ones(8), np.zeros(8), np.full(8, log_z))

    prior, options = Prior(), ParticleOptions()
    rising = {1: order(-100.0), 2: order(-50.0)}
    assert not _finished(rising, prior, options)
    assert not _finished(rising | {3: order(-60.0)}, prior, options)  # 4.5e-5 of the best
    assert _finished(rising | {3: order(-70.0)}, prior, options)
    assert not _finished(rising | {3: order(-70.0)}, prior, replace(options, patience=2))
    assert not _finished(rising | {3: order(-70.0)}, prior, replace(options, negligible=0.0))


@pytest.mark.parametrize(
    "wrong",
    [{"islands": 1}, {"particles": 20}, {"sweeps": 0}, {"keep": 1.0}, {"max_seconds": 0.0}],
)
def test_options_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expects"):
        ParticleOptions(**wrong)  # type: ignore[arg-type]


# --- the sampler ---------------------------------------------------------------------------------


def test_flat_likelihood_gives_back_the_prior(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """p(K) and the laws of A and f are the prior's, K = 0 included; a likelihood that is not flat changes both."""
    probs = np.array([0.1, 0.3, 0.2, 0.4])
    prior = Prior(k_min=0, k_max=3, k_probs=tuple(probs), min_separation=0.05)
    observation = signal(seed, 1)[0].observation(0)
    monkeypatch.setattr(Tabulated, "log_likelihood", lambda self, rss: np.zeros(np.shape(rss)))
    options = ParticleOptions(particles=1200, sweeps=4, negligible=0.0)
    post = smc(observation, prior, options, seed=seed)
    np.testing.assert_allclose(post.k_probs, probs)
    np.testing.assert_allclose(post.log_evidence, 0.0, atol=1e-6)
    rng = np.random.default_rng(seed)
    for k in (1, 3):
        which = np.arange(1200), rng.integers(k, size=1200)
        expected = prior_draws(prior, 1200, k, seed)
        for i in (0, 1, 2):
            assert_same_law(post.slots.theta[k][which][:, i], expected[which][:, i])
    monkeypatch.setattr(Tabulated, "log_likelihood", lambda self, rss: -2e-4 * rss)
    other = smc(observation, prior, options, seed=seed)
    assert np.abs(other.k_probs - probs).max() > 0.02
    with pytest.raises(AssertionError):
        assert_mean(other.slots.theta[3][..., 0].ravel(), 1.0)


def test_one_tone_equals_the_grid(seed: int) -> None:
    """Evidence, and mean and sd of f and A, as a sum over a fine grid of (f, Re c, Im c) gives them."""
    prior = Prior(k_min=1, k_max=1)
    sim, statistics = signal(seed, 1)
    target = Target(statistics, prior, 1)
    post = smc(sim.observation(0), prior, ParticleOptions(islands=20), seed=seed)
    theta, weights, log_z = grid_around(target, sim.components(0))
    value, error = post.log_evidence[1]
    assert 0 < error < 0.3
    assert_within(value, log_z, error)
    with pytest.raises(AssertionError):
        assert_within(value + 2.0, log_z, error)
    draws, n = post.slots.theta[1][:, 0], post.sampling.least_effective
    assert_draws_as_on_grid(draws, n, theta, weights)


def test_three_tones_equal_the_exact_layer(zoom: SlotFlow, seed: int) -> None:
    """A short series with a tone that may not be there: p(K), ln Z, means and sds."""
    prior = Prior(k_min=2, k_max=3, amplitude=(0.05, 1.5), min_separation=0.05)
    rng, t = np.random.default_rng(seed), 0.1 * np.arange(600)
    tones = np.array([[1.0, 1.0, 2.6], [0.7, 2.0, 2.75], [0.14, 3.0, 2.9]])
    turns = tones[:, 2:] * t
    x = (tones[:, :1] * np.cos(2 * math.pi * turns + tones[:, 1:2])).sum(0)
    observation = Observation(Stream(x + 0.5 * rng.standard_normal(600), 0.1))
    amortized = zoom.infer(observation, prior=prior, refine=False)
    exact = amortized.refine(draws=4000, max_seconds=60.0)
    post = smc(observation, prior, ParticleOptions(particles=960, islands=16, sweeps=2), seed=seed)
    assert post.sampling.r_hat < 1.1
    value, error = post.log_evidence[2:4].T
    assert_within(value, exact.log_evidence[2:4, 0], error)
    assert_within(post.k_probs[3], exact.k_probs[3], max(post.sampling.k_error, 0.01))
    with pytest.raises(AssertionError):
        assert_within(value + 2.0, exact.log_evidence[2:4, 0], error)
    k = 3
    theta, _, log_weights = exact.weighted(k)
    weights = np.exp(log_weights)
    n = 1 / (1 / (len(post.slots.theta[k]) / 3) + (weights**2).sum() / weights.sum() ** 2)
    for j in range(3):
        for i in (0, 2):
            # Quantiles, since the weak tone may be somewhere else altogether.
            low, middle, high = quantiles(theta[:, j, i], weights)
            draws = post.slots.theta[k][:, j, i]
            found = quantiles(draws, np.ones(len(draws)))
            width = 0.5 * (high - low)
            assert_within(found[1], middle, 1.25 * width / math.sqrt(n))
            assert_within(0.5 * (found[2] - found[0]), width, width / math.sqrt(n))
            with pytest.raises(AssertionError):
                assert_within(found[1] + width, middle, 1.25 * width / math.sqrt(n))


def quantiles(values: Array, weights: Array) -> Array:
    """The points below which 16, 50 and 84 % of weighted values lie, (3,)."""
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    return np.interp([0.16, 0.5, 0.84], share, values[order])


def test_time_and_band(seed: int) -> None:
    observation = signal(seed, 1)[0].observation(0)
    with pytest.raises(ValueError, match="not enough for a single K"):
        smc(observation, Prior(), replace(SMALL, max_seconds=1e-9))
    with pytest.raises(ValueError, match="Nyquist"):
        smc(observation, Prior(frequency=(4.0, 6.0)))
    # K = 0 takes no time, and whatever comes after it is given up.
    post = smc(observation, Prior(k_min=0, k_max=2), replace(SMALL, max_seconds=1e-9))
    assert post.sampling.given_up == 1 and post.k_map == 0
    assert post.verdict.status == "approximate" and "before K = 1" in post.verdict.reason


# --- files and commands --------------------------------------------------------------------------


def invoke(command: str, words: list[str], code: int = 0) -> str:
    """What a command prints on its two streams."""
    result = CliRunner().invoke(app, [command, *words])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout if code == 0 else result.output


@pytest.mark.parametrize("method", ["smc", "classical"])
def test_command_line(method: str, seed: int, tmp_path: Path) -> None:
    """Both write what `infer` writes; signals are chosen by their number."""
    sim = simulate(Prior(), 2, *GRIDS, mode="physical", seed=seed, k=1)
    write_simulation(tmp_path / "data.npz", sim)
    flags = ["--particles=96", "--islands=4", "--sweeps=1"] if method == "smc" else []
    words = [str(tmp_path / "data.npz"), "--k-max=2", *flags, f"--out={tmp_path / 'out'}"]
    (record,) = json.loads(invoke(method, [*words, "--signal=1", "--json"]))["signals"]
    truth, found = sim.components(1)[0], record["components"][0]
    assert record["k_map"] == 1 and record["signal"] == 1
    assert abs(found["frequency_median"] - truth[2]) < 6 * found["frequency_sd"]
    assert (tmp_path / "out" / "summary.csv").exists()
    with xr.open_dataset(tmp_path / "out" / "posterior.nc", engine="h5netcdf") as saved:
        assert saved.attrs["method"] == method and saved["amplitude"].shape == (1000, 2)
        assert {"sigma", "log_evidence", "k_probs"} <= set(saved.variables)
        assert abs(float(saved["sigma"].mean()) - float(sim.sigma[1])) < 0.1
    shown = invoke("infer", [*words, f"--method={method}", "--signal=0"])
    assert "Components, given K = 1" in shown and "Written" in shown
    assert shown.split("Noise level")[0] == invoke(method, words).split("Noise level")[0]
    assert "holds 2 signal" in " ".join(invoke(method, [*words, "--signal=2"], code=2).split())


def test_classical_posterior(seed: int) -> None:
    """Draws are the Gaussian's, sorted and inside the prior; the verdict is never exact."""
    inner = Prior(amplitude=(0.8, 1.2), min_separation=0.03, sigma=(0.2, 1.0))  # no edge is near
    sim = simulate(inner, 1, *GRIDS, mode="physical", seed=seed, k=3)
    observation = sim.observation(0)
    post = classical_posterior(observation, Prior())
    assert post.k_map == 3 and post.verdict.status == "approximate"
    assert "Laplace" in post.verdict.reason and post.left_out < 1e-6
    theta = post.sample(2000, seed=seed)
    assert (np.diff(theta[..., 2], axis=1) > 0).all()
    assert np.isfinite(Prior().log_prob_theta(theta)).all()
    fit = np.sort(post.slots.result.fits[3].theta[0].numpy()[:, 2])
    variance = theta[..., 2].var(0)
    assert_within(theta[..., 2].mean(0), fit, np.sqrt(variance / 2000))
    sigma = post.sample_sigma(4000, seed=seed)
    assert_mean(sigma, post.noise_std)
    assert sigma.std() == pytest.approx(post.noise_std / math.sqrt(2 * 8120), rel=0.1)
    assert [len(x) for x in post.residual()] == [3000, 5120]
    assert np.isnan(post.log_prob(theta[0])) and 0 <= post.constrained_fraction() < 0.9
    with pytest.raises(NotImplementedError):
        post.slots.log_prob(theta)
    assert post.bic.argmin() == 3 and post.log_z.argmax() == 3
    plot_posterior(post)
    with pytest.raises(ValueError, match="no order has a fit inside the prior"):
        classical_posterior(observation, Prior(amplitude=(20.0, 30.0)))
