"""Reversible-jump MCMC: its parts on their own, and the sampler against the prior, a grid and the exact layer."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr
from evidence_helpers import assert_draws_as_on_grid, grid_around
from statistics_helpers import assert_mean, assert_within
from tone_helpers import to_theta, to_z
from typer.testing import CliRunner

from slotflow import Prior, SlotFlow
from slotflow.baselines.births import BirthsOfTheta, PeriodogramBirths
from slotflow.baselines.chains import (
    autocorrelation_time,
    effective_draws,
    r_hat,
    settled,
    warm_up,
)
from slotflow.baselines.ensemble import ChainOptions
from slotflow.baselines.moves import FisherSteps, StatePrior
from slotflow.baselines.rjmcmc import near, rjmcmc
from slotflow.baselines.tabulated import Tabulated
from slotflow.cli import app
from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.exact.target import Target
from slotflow.posterior.sampled import Draws, SampledPosterior, SamplerRun
from slotflow.show.plots import plot_posterior
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import Simulation, simulate
from slotflow.signal.simulation_file import write_simulation
from slotflow.signal.waveforms import Tone

needs_eryn = pytest.mark.skipif(
    find_spec("eryn") is None, reason="Eryn is not installed (extra baselines)"
)
GRIDS = Grid(3000, 0.1), Grid(5120, 1 / 512)
SMALL = ChainOptions(walkers=48, temperatures=2, hottest=2.0, effective=400, tune=40, max_steps=600)


def signal(seed: int, k: int, prior: Prior | None = None) -> tuple[Simulation, Statistics]:
    sim = simulate(prior or Prior(), 1, *GRIDS, mode="physical", seed=seed, k=k)
    return sim, Statistics.from_observation(sim.observation(0))


# --- parts ---------------------------------------------------------------------------------------


def test_tables_are_for_tones_only(seed: int) -> None:
    class Other(Tone):
        name = "other"

    _, statistics = signal(seed, 1)
    Tabulated(replace(statistics, waveform=Other()), Prior())  # a kind of tone
    decay = SimpleNamespace(name="decay", coordinates=4)
    with pytest.raises(ValueError, match=r"expected components that are tones, received .*decay"):
        Tabulated(replace(statistics, waveform=decay), Prior())


@pytest.mark.parametrize("k", [1, 3, 8])
def test_tabulated_likelihood(k: int, seed: int) -> None:
    """The tables give what the closed form gives, near the maximum and anywhere in the prior, in any order."""
    sim, statistics = signal(seed, k)
    prior, rng = Prior(), np.random.default_rng(seed)
    table, target = Tabulated(statistics, prior), Target(statistics, prior, k)
    generator = torch.Generator().manual_seed(seed)
    anywhere = prior.sample_theta(torch.full((40,), k), generator).numpy()[:, :k]
    z = np.concatenate([to_z(sim.components(0)[None], statistics.reference)] * 40)
    z += rng.standard_normal(z.shape) * [3e-5, 0.02, 0.02]
    for some in (z, to_z(anywhere, statistics.reference)):
        rss = target.rss(some)
        mixed = some[:, rng.permutation(k)]
        np.testing.assert_allclose(table.rss(mixed), rss, rtol=1e-8, atol=1e-8 * table.energy)
        expected = target.log_likelihood(rss) - target.constant + table.constant
        np.testing.assert_allclose(table.log_likelihood(rss), expected, atol=2e-3, rtol=0)
    group = np.repeat(np.arange(40), k)
    log_l = table.log_likelihood(target.rss(z))
    np.testing.assert_allclose(table(z.reshape(-1, 3), group), log_l, atol=5e-3)
    off = replace(statistics, energy=statistics.energy * 1.001)
    assert np.abs(Tabulated(off, prior).log_likelihood(rss) - expected).max() < 1e-2  # of RSS alone
    assert np.abs(Tabulated(off, prior).rss(z) - target.rss(z)).min() > 1


def test_states_of_different_size_in_one_call(seed: int) -> None:
    _, statistics = signal(seed, 2)
    table, rng = Tabulated(statistics, Prior()), np.random.default_rng(seed)
    z = np.stack([rng.uniform(2.5, 3, 6), rng.normal(size=6), rng.normal(size=6)], -1)
    together = table(z, np.array([0, 1, 1, 2, 2, 2]))
    alone = [table.log_likelihood(table.rss(z[None, i:j]))[0] for i, j in ((0, 1), (1, 3), (3, 6))]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    assert table(z[:0], np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_state_prior(law: str, seed: int) -> None:
    """It is p(K) p(Θ | K) Π 1/A, whichever places are taken; with K = 0 possible, that of no tone is 0."""
    prior = Prior(k_min=1, k_max=4, k_probs=(0.1, 0.2, 0.3, 0.4), amplitude_law=law)
    states = StatePrior(prior)
    z, places = states.sample(200, seed, 150.0)
    shuffled = np.random.default_rng(seed).permuted(np.broadcast_to(np.arange(4), (200, 4)), axis=1)
    found = states(
        np.take_along_axis(z, shuffled[..., None], 1), np.take_along_axis(places, shuffled, 1)
    )
    for i in range(200):
        k = int(places[i].sum())
        theta = to_theta(z[i, :k], 150.0)
        expected = float(prior.log_prob_k(k)) + float(prior.log_prob_theta(theta))
        assert found[i] == pytest.approx(expected - np.log(theta[:, 0]).sum())
    z[:, 1, 0] = z[:, 0, 0] + 0.5 * prior.min_separation
    both = places[:, 1]
    assert np.isinf(states(z, places)[both]).all() and np.isfinite(states(z, places)[~both]).all()
    none = StatePrior(Prior(k_min=0, k_max=2))
    assert none(np.zeros((1, 2, 3)), np.zeros((1, 2), dtype=bool)) == 0
    with pytest.raises(ValueError, match="without gaps"):
        StatePrior(Prior(k_min=1, k_max=3, k_probs=(0.5, 0.0, 0.5)))


def test_births_find_the_tones_and_are_normalized(seed: int) -> None:
    """1/q averaged over draws in a region is its volume; every tone is among those that are proposed."""
    sim, statistics = signal(seed, 3)
    prior, rng = Prior(), np.random.default_rng(seed)
    births = PeriodogramBirths(Tabulated(statistics, prior), prior, float(sim.sigma))
    truth = to_z(sim.components(0), statistics.reference)
    assert len(births.tones) == 3
    np.testing.assert_allclose(np.sort(births.tones[:, 0]), truth[:, 0], atol=1e-3)
    z = births.sample(60_000, rng)
    amplitude = np.hypot(z[:, 1], z[:, 2])
    inside = (amplitude > 0.5) & (amplitude < 1.5)
    volume = np.where(inside, np.exp(-births.log_prob(z)), 0.0)
    assert_mean(volume, 0.5 * math.pi * (1.5**2 - 0.5**2))
    with pytest.raises(AssertionError):
        assert_mean(volume * 1.4, 0.5 * math.pi * (1.5**2 - 0.5**2))
    for tone in truth:  # a share of at least a twentieth within a third of a bin
        assert (np.abs(z[:, 0] - tone[0]) < 1e-3).mean() > 0.05


def test_births_of_a_posterior(seed: int) -> None:
    class Box:
        def rvs(self, n: int) -> Array:
            rng = np.random.default_rng(seed)
            return rng.uniform([0.5, 0, 2.5], [1.5, 2 * math.pi, 3.0], (n, 3))

        def logpdf(self, theta: Array) -> Array:
            return np.full(len(theta), -math.log(math.pi))

    births = BirthsOfTheta(Box(), 150.0)
    z = births.sample(500, None)
    np.testing.assert_allclose(
        births.log_prob(z), -math.log(math.pi) - np.log(np.hypot(z[:, 1], z[:, 2]))
    )


def test_fisher_steps_leave_a_density_as_it_is(seed: int) -> None:
    """Steps with their Hastings ratio keep a law of (f, c) that is narrow in f; without it they do not."""
    _, statistics = signal(seed, 1)
    steps = FisherSteps(Tabulated(statistics, Prior()), Prior(), sigma=20.0, every=True)
    n, centre, width = 20_000, 2.75, 5e-4
    places = np.ones((1, n, 1), dtype=bool)
    amplitudes = {}
    for correct in (True, False):
        rng = np.random.default_rng(seed)
        c = np.sqrt(rng.uniform(0.5**2, 1.5**2, n)) * np.exp(2j * math.pi * rng.random(n))
        z = np.stack([rng.normal(centre, width, n), c.real, c.imag], -1)[None, :, None]
        for _ in range(15):
            new, hastings = steps(z, places, np.ones(1), rng)
            a = np.hypot(new[..., 1], new[..., 2])[0, :, 0]
            gain = hastings[0] if correct else np.zeros(n)
            gain += (
                0.5 * ((z[0, :, 0, 0] - centre) ** 2 - (new[0, :, 0, 0] - centre) ** 2) / width**2
            )
            taken = (a > 0.5) & (a < 1.5) & (np.log(rng.random(n)) < gain)
            z[0, taken] = new[0, taken]
        amplitudes[correct] = np.hypot(z[..., 1], z[..., 2])[0, :, 0]
    expected = (1.5**3 - 0.5**3) / (1.5**2 - 0.5**2) * 2 / 3
    assert_mean(amplitudes[True], expected)
    with pytest.raises(AssertionError):
        assert_mean(amplitudes[False], expected)


def test_chains(seed: int) -> None:
    """An AR(1) process has τ = (1 + ρ)/(1 − ρ); walkers that move together are worth one."""
    rng, rho, n, walkers = np.random.default_rng(seed), 0.8, 40_000, 16
    noise = rng.standard_normal((n, walkers)) * math.sqrt(1 - rho**2)
    x = np.zeros((n, walkers))
    for i in range(1, n):
        x[i] = rho * x[i - 1] + noise[i]
    every = np.ones((n, walkers), dtype=bool)
    tau = autocorrelation_time(x[:, 0])
    # τ is known to √(2(2·5τ + 1)/n) = 7 %, and five times that is allowed.
    assert tau == pytest.approx(9, rel=0.35)
    draws, _ = effective_draws(x, every)
    assert draws == pytest.approx(n * walkers / 9, rel=0.35)
    together = np.repeat(x[:, :1], walkers, 1)
    assert effective_draws(together, every)[0] == pytest.approx(n / 9, rel=0.35)
    half = rng.random((n, walkers)) < 0.5
    assert effective_draws(x, half)[0] < draws
    assert math.isnan(effective_draws(np.zeros((n, 2)), every[:, :2])[0])
    assert r_hat(x) < 1.02 < r_hat(x + np.arange(walkers)) and r_hat(np.ones((9, 2))) == 1
    climbing = x + np.minimum(np.arange(n) - 500, 0)[:, None] * 0.1
    assert 400 < warm_up(climbing) < 520 and warm_up(x) < 50
    assert settled(climbing) and settled(x) and not settled(climbing[:500])
    far = climbing[:500] - 1000.0 * (np.arange(walkers) == 0) * rng.random((500, 1))
    assert not settled(far)


def test_sampled_posterior(tmp_path: Path, seed: int) -> None:
    """Draws are handed out with their σ, none twice, and a K that was not visited is refused."""
    sim, _ = signal(seed, 1)
    rng = np.random.default_rng(seed)
    theta = sim.components(0) + rng.standard_normal((50, 1, 3)) * [0.01, 0.01, 1e-5]
    draws = Draws(10, {1: theta}, {1: np.arange(50.0)})
    sampling = SamplerRun(40.0, 30.0, 0.0, 9, 1.0, 2.0, 10, 50, 1.0)
    post = SampledPosterior(
        draws, np.eye(11)[1], sim.observation(0), Prior(), "a sampler", sampling
    )
    assert post.k_map == 1 and post.ess == 0.8 and post.noise_std == 24.5
    rows = post.sample_sigma(50, seed=3)
    np.testing.assert_array_equal(post.sample(50, seed=3), theta[rows.astype(int)])
    assert len(np.unique(rows)) == 50 and len(post.sample(80)) == 80
    assert len(post.summary()) == 1 and np.isnan(post.log_prob(theta[0]))
    with pytest.raises(ValueError, match="visited"):
        post.sample(5, k=2)
    with pytest.raises(NotImplementedError):
        draws.log_prob(theta)
    assert draws.constrained_fraction(1) == 0
    assert post.verdict.status == "exact" and "40 effective draws" in str(post.verdict)
    assert [len(x) for x in post.residual()] == [3000, 5120]
    stuck = SampledPosterior(
        draws, np.eye(11)[1], sim.observation(0), Prior(), "a sampler", replace(sampling, r_hat=1.5)
    )
    assert stuck.verdict.status == "approximate"
    torn = SampledPosterior(
        draws,
        np.eye(11)[1],
        sim.observation(0),
        Prior(),
        "a sampler",
        replace(sampling, k_error=0.2),
    )
    assert torn.verdict.status == "approximate" and "p(K | x) is uncertain" in str(torn.verdict)
    post.save(tmp_path / "posterior.nc")
    with xr.open_dataset(tmp_path / "posterior.nc", engine="h5netcdf") as saved:
        assert saved.attrs["method"] == "a sampler" and int(saved["k"].max()) == 1
    plot_posterior(post)


# --- the sampler ---------------------------------------------------------------------------------


@needs_eryn
@pytest.mark.parametrize("honest", [True, False])
def test_flat_likelihood_gives_back_the_prior(
    honest: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p(K) and the law of A are the prior's, K = 0 included; births whose density is told wrong shift p(K)."""
    probs = np.array([0.1, 0.3, 0.2, 0.4])
    prior = Prior(k_min=0, k_max=3, k_probs=tuple(probs), min_separation=0.1)
    sim, _ = signal(seed, 1)
    monkeypatch.setattr(Tabulated, "log_likelihood", lambda self, rss: np.zeros(len(rss)))
    if not honest:
        true_density = PeriodogramBirths.log_prob
        monkeypatch.setattr(
            PeriodogramBirths, "log_prob", lambda self, z: true_density(self, z) + 0.3
        )
    # Births know of the data, which a flat likelihood does not: a broad noise level makes them broad too.
    module = sys.modules["slotflow.baselines.rjmcmc"]
    monkeypatch.setattr(module, "rough_noise", lambda *_: 30.0)
    options = ChainOptions(96, 1, repeats=1, tune=40, effective=math.inf, max_steps=350)
    post = rjmcmc(sim.observation(0), prior, options, seed=seed)
    found, top = post.k_probs, post.k_probs.max()
    n = top * (1 - top) / post.sampling.k_error**2
    error = np.sqrt(probs * (1 - probs) / n)
    if not honest:
        with pytest.raises(AssertionError):
            assert_within(found, probs, error)
        return
    assert_within(found, probs, error)
    amplitude = post.slots.theta[2][..., 0].mean()
    assert_within(amplitude, 1.0, (1 / math.sqrt(12)) / math.sqrt(n * probs[2]))


@needs_eryn
def test_one_tone_equals_the_grid(seed: int, tmp_path: Path) -> None:
    """Mean and sd of f and A as a sum over a fine grid of (f, Re c, Im c) gives them; a run goes on from its file."""
    prior = Prior(k_min=1, k_max=2)
    sim, statistics = signal(seed, 1)
    observation, target = sim.observation(0), Target(statistics, prior, 1)
    file = tmp_path / "chain.h5"
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = rjmcmc(observation, prior, replace(SMALL, max_steps=60), file=file, seed=seed)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    post = rjmcmc(observation, prior, SMALL, file=file, seed=seed + 1)
    assert first.sampling.steps + first.sampling.warm_up < post.sampling.steps
    with pytest.raises(ValueError, match="another"):
        rjmcmc(observation, Prior(k_min=1, k_max=3), SMALL, file=file)

    theta, weights, _ = grid_around(target, sim.components(0))
    draws, n = post.slots.theta[1][:, 0], post.sampling.least_effective
    assert_draws_as_on_grid(draws, n, theta, weights)


@needs_eryn
def test_three_tones_equal_the_exact_layer(zoom: SlotFlow, seed: int) -> None:
    """Means, sds and p(K) of a cold start, and of a start near the truth with the network's births."""
    prior = Prior()
    sim, _ = signal(seed, 3)
    observation: Observation = sim.observation(0)
    amortized = zoom.infer(observation, prior=prior, refine=False)
    exact = amortized.refine(draws=4000, max_seconds=60.0)
    theta, _, log_weights = exact.weighted(3)
    weights = np.exp(log_weights)
    cold = rjmcmc(observation, prior, replace(SMALL, temperatures=3, hottest=4.0), seed=seed)
    births = amortized.as_eryn_proposal()
    warm = rjmcmc(observation, prior, SMALL, start=sim.components(0), births=births, seed=seed)
    for post in (cold, warm):
        assert post.k_map == 3 and post.sampling.r_hat < 1.1 and post.verdict.status == "exact"
        assert abs(post.k_probs[3] - exact.k_probs[3]) < 5 * max(post.sampling.k_error, 0.01)
        assert set(post.sampling.acceptance) == {"one", "all", "anew", "jump"}
        assert 0.1 < post.sampling.acceptance["one"] < 0.6
        n = min(post.sampling.least_effective, 4000 * exact.ess)
        draws = post.slots.theta[3]
        for j in range(3):
            for i in (0, 2):
                centre = weights @ theta[:, j, i]
                width = math.sqrt(weights @ (theta[:, j, i] - centre) ** 2)
                assert_within(draws[:, j, i].mean(), centre, width * math.sqrt(2 / n))
                assert_within(draws[:, j, i].std(), width, 1.5 * width / math.sqrt(n))


def invoke(command: str, words: list[str], code: int = 0) -> str:
    """What a command prints on standard output, or on both streams where it is to fail."""
    result = CliRunner().invoke(app, [command, *words])
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout if code == 0 else result.output


@needs_eryn
def test_command_line(seed: int, tmp_path: Path) -> None:
    """`slotflow rjmcmc` and `slotflow infer --method rjmcmc` are one command; signals are chosen by their number."""
    sim = simulate(Prior(), 2, *GRIDS, mode="physical", seed=seed, k=1)
    write_simulation(tmp_path / "data.npz", sim)
    flags = ["--k-max=2", "--effective=100", "--walkers=32", "--temperatures=2", "--hottest=2"]
    words = [str(tmp_path / "data.npz"), *flags, f"--out={tmp_path / 'out'}"]
    (record,) = json.loads(invoke("rjmcmc", [*words, "--signal=1", "--json"]))["signals"]
    assert record["k_map"] == 1 and record["signal"] == 1
    assert record["sampling"]["effective"] >= 100
    truth = sim.components(1)[0]
    found = record["components"][0]
    assert abs(found["frequency_median"] - truth[2]) < 6 * found["frequency_sd"]
    assert (tmp_path / "out" / "summary.csv").exists()
    with xr.open_dataset(tmp_path / "out" / "posterior.nc", engine="h5netcdf") as saved:
        assert saved.attrs["method"] == "rjmcmc"
    by_method = invoke("infer", [*words, "--method=rjmcmc", "--signal=1", "--json"])
    (same,) = json.loads(by_method)["signals"]
    assert same["components"] == record["components"] and same["k_probs"] == record["k_probs"]
    refused = invoke("rjmcmc", [*words, "--signal=2"], code=2)
    assert "holds 2 signal" in " ".join(refused.split())


@needs_eryn
@pytest.mark.parametrize("weakest", [0.2, 0.02])
def test_noise_alone_ends_early_with_finite_numbers(weakest: float, seed: int) -> None:
    """Where K = 0 has no parameter to watch, K itself says when there are enough draws, if it changes at all or not."""
    prior = Prior(k_min=0, k_max=3, amplitude=(weakest, 1.0))
    sim, _ = signal(seed, 0, prior)
    post = rjmcmc(sim.observation(0), prior, replace(SMALL, max_steps=4000), seed=seed)
    s = post.sampling
    assert post.k_map == 0 and (post.k_probs[0] == 1 or weakest < 0.2)
    assert (
        s.warm_up + s.steps < 1000
    )  # tuning alone would take 2000 if states without a tone counted
    assert s.effective >= SMALL.effective and s.least_effective <= s.effective
    assert 0 < post.ess <= 1 and math.isfinite(s.autocorrelation) and s.k_error < 0.05
    assert post.verdict.status == "exact" and "nan" not in post.verdict.reason
    # Moves of states without a tone, which always succeed, are not counted; there may be no others.
    assert not any(s.acceptance[name] > 0.9 for name in ("one", "all"))


def test_start_near_tones(seed: int) -> None:
    sim, statistics = signal(seed, 2)
    states = StatePrior(Prior())
    z, places = near(sim.components(0), statistics, states, 300, seed)
    assert places.sum() == 600 and np.isfinite(states(z, places)).all()
    off = z[:, :2] - to_z(sim.components(0), statistics.reference)
    assert (off.std(0)[:, 0] < 2e-4).all() and (off.std(0) > 0).all()
    for wrong in (np.zeros((2, 2)), np.zeros((11, 3)), np.zeros((0, 3))):
        with pytest.raises(ValueError, match="expected start"):
            near(wrong, statistics, states, 10, seed)
    outside = sim.components(0)
    outside[0, 0] = 9.0
    with pytest.raises(ValueError, match="inside the prior"):
        near(outside, statistics, states, 10, seed)


@pytest.mark.parametrize("wrong", [{"walkers": 0}, {"hottest": 1.0}, {"repeats": 0}])
def test_options_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expects"):
        ChainOptions(**wrong)  # type: ignore[arg-type]
