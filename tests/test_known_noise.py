"""A known noise level: evidences, the limit of narrow bounds, every method, and what the verdict says."""

from __future__ import annotations

import dataclasses
import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from statistics_helpers import assert_mean, assert_within
from tone_helpers import model

from slotflow import Grid, Observation, Posterior, Prior, SlotFlow
from slotflow.bands.core_draws import without
from slotflow.baselines.ensemble import ChainOptions
from slotflow.baselines.laplace_posterior import classical_posterior
from slotflow.baselines.particles import ParticleOptions
from slotflow.baselines.rjmcmc import rjmcmc
from slotflow.baselines.smc import smc
from slotflow.baselines.tabulated import Tabulated
from slotflow.data.channel import Stream
from slotflow.exact.classical import classical
from slotflow.exact.orders import Orders
from slotflow.exact.refined import RefinedPosterior
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.posterior.sampled import SampledPosterior
from slotflow.posterior.verdict import DrawQuality, check_residual, judge
from slotflow.show.advice import KINDS, kind_of, remedies
from slotflow.show.report.sections import settings
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics
from slotflow.signal.noise import WhiteNoise

Array = NDArray[np.float64]

LONG, SHORT = Grid(400, 0.1), Grid(300, 0.02)
SIGMA, SIGMA_SHORT = 0.9, 0.4
PRIOR = Prior(
    k_min=0,
    k_max=2,
    frequency=(2.0, 3.5),
    amplitude=(0.05, 1.2),
    min_separation=0.05,
    sigma=(SIGMA, SIGMA),
)
TONE = np.array([[0.45, 1.0, 2.7]])


def observed(
    seed: int, theta: Array = TONE, *, sigma: float = SIGMA, short: float | None = SIGMA_SHORT
) -> Observation:
    """Tones in noise of the levels sigma and short (None: no short stream), stated as SIGMA and SIGMA_SHORT."""
    rng, tones = np.random.default_rng(seed), torch.from_numpy(theta)

    def series(grid: Grid, level: float) -> Array:
        noise: Array = model(tones, grid).numpy() + level * rng.standard_normal(grid.n)
        return noise

    if short is None:
        return Observation.from_arrays(series(LONG, sigma), LONG.dt, sigma_long=SIGMA)
    return Observation.from_arrays(
        series(LONG, sigma),
        LONG.dt,
        series(SHORT, short),
        SHORT.dt,
        sigma_long=SIGMA,
        sigma_short=SIGMA_SHORT,
    )


def exact(observation: Observation, prior: Prior, seed: int, draws: int = 2000) -> Orders:
    return across_orders(
        Statistics.from_observation(observation),
        prior,
        starts=[TONE],
        draws=draws,
        rng=np.random.default_rng(seed),
        max_seconds=1000.0,
    )


# --- the prior -----------------------------------------------------------------------------------


def test_a_point_mass() -> None:
    assert PRIOR.known_sigma == SIGMA and Prior().known_sigma is None
    generator = torch.Generator().manual_seed(0)
    assert PRIOR.sample_sigma(5, generator).tolist() == [SIGMA] * 5
    assert PRIOR.batch(3).sample_sigma(3, generator).tolist() == [SIGMA] * 3
    log_prob = PRIOR.log_prob_sigma([SIGMA, SIGMA * (1 + 1e-12), 0.0])
    assert log_prob.tolist() == [0.0, -math.inf, -math.inf]


@pytest.mark.parametrize(
    "sigma", [(0, 0), (1, 0.5), (-1, -1), (math.nan, math.nan), (math.inf,) * 2]
)
def test_what_is_no_level(sigma: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="where it is known"):
        Prior(sigma=sigma)
    if all(map(math.isfinite, sigma)):
        batch = Prior().batch(2)
        with pytest.raises(ValueError, match="where it is known; signal 1"):
            dataclasses.replace(batch, sigma=torch.tensor([[1.0, 1.0], sigma]).double())


@pytest.mark.parametrize("field", ["amplitude", "frequency"])
def test_only_the_noise_level_may_be_known(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} as two finite bounds with .*lower < upper, rec"):
        Prior(**{field: (1.0, 1.0)})  # type: ignore[arg-type]


# --- evidence ------------------------------------------------------------------------------------


def test_noise_alone_is_a_gaussian(seed: int) -> None:
    observation = observed(seed)
    expected = sum(
        stats.norm(scale=level).logpdf(stream.values).sum()
        for stream, level in zip(observation.channels, (SIGMA, SIGMA_SHORT), strict=True)
    )
    statistics = Statistics.from_observation(observation)
    target = Target(statistics, PRIOR, 0)
    assert float(target.log_likelihood(np.array([float(statistics.energy)]))[0]) == pytest.approx(
        expected, rel=1e-12
    )
    table = Tabulated(statistics, PRIOR)
    assert table.log_likelihood_of_none == pytest.approx(expected, rel=1e-12)
    laplace = float(classical(observation, PRIOR).log_evidence[0, 0])
    assert laplace == pytest.approx(expected, abs=2e-3)  # of the share inside the prior, 512 draws
    assert exact(observation, PRIOR, seed).log_evidence[0] == pytest.approx(expected, rel=1e-12)


def test_one_tone_against_quadrature(seed: int) -> None:
    """ln Z_1 of a short series, its likelihood written out in time and integrated over A, φ and f on a grid."""
    grid, sigma = Grid(60, 0.1), 0.8
    prior = dataclasses.replace(
        PRIOR, k_max=1, frequency=(2.4, 3.2), amplitude=(0.2, 1.5), sigma=(sigma, sigma)
    )
    tone = torch.tensor([[0.8, 1.0, 2.7]], dtype=torch.float64)
    x = model(tone, grid).numpy() + sigma * np.random.default_rng(seed).standard_normal(grid.n)
    nodes, weights = np.polynomial.legendre.leggauss(64)

    def legendre(low: float, high: float) -> tuple[Array, Array]:
        return low + (high - low) * (nodes + 1) / 2, weights / 2  # of a uniform density

    (f, w_f), (a, w_a) = legendre(*prior.frequency), legendre(*prior.amplitude)
    phi = 2 * np.pi * np.arange(64) / 64
    log_l = np.empty((64, 64, 64))
    for i, frequency in enumerate(f):
        wave = np.cos(2 * np.pi * frequency * grid.times + phi[:, None])  # (φ, t)
        rest = x - a[:, None, None] * wave
        log_l[i] = stats.norm(scale=sigma).logpdf(rest).sum(-1)
    top = log_l.max()
    mean = np.einsum("f,a,fap->", w_f, w_a, np.exp(log_l - top)) / 64
    expected = top + math.log(mean)

    observation = Observation.from_arrays(x, grid.dt)
    orders = exact(observation, prior, seed, draws=8000)
    assert orders.log_evidence_error[1] < 0.03
    assert_within(orders.log_evidence[1], expected, orders.log_evidence_error[1])
    wrong = exact(observation, dataclasses.replace(prior, sigma=(0.9, 0.9)), seed, draws=8000)
    assert abs(wrong.log_evidence[1] - expected) > 5 * wrong.log_evidence_error[1]


def test_the_limit_of_narrow_bounds(seed: int) -> None:
    observation = observed(seed)
    near = dataclasses.replace(PRIOR, sigma=(SIGMA * (1 - 1e-3), SIGMA * (1 + 1e-3)))
    known, narrow = exact(observation, PRIOR, seed), exact(observation, near, seed + 1)
    error = math.hypot(known.k_error, narrow.k_error)
    assert_within(
        known.k_probs, narrow.k_probs, error + 1e-3
    )  # bounds of 1e-3 move RSS/σ² by as much
    k = known.k_map
    assert k == narrow.k_map == 1
    errors = np.hypot(known.log_evidence_error[k], narrow.log_evidence_error[k])
    assert_within(known.log_evidence[k], narrow.log_evidence[k], errors + 2e-3)
    rng = np.random.default_rng(seed)
    (theta, sigma), (other, others) = (o.sample(1500, rng, k) for o in (known, narrow))
    assert (sigma == SIGMA).all() and others.std() > 0
    spread = np.sqrt(theta.var(0) / 1500 + other.var(0) / 1500)
    assert_within(
        theta.mean(0), other.mean(0), 1.5 * spread
    )  # weighted draws are worth a little less
    assert_within(theta.std(0) / other.std(0), 1.0, 1.5 / math.sqrt(1500))


def test_known_noise_tells_more(seed: int) -> None:
    """The widths are those of the stated level, not of the residual: noiseless data show it."""
    quiet = observed(seed, sigma=1e-9, short=1e-9)
    orders = exact(quiet, PRIOR, seed)
    assert orders.k_map == 1 and orders.results[1].ess > 0.5
    theta, _ = orders.sample(2000, np.random.default_rng(seed), 1)
    samples = LONG.n / SIGMA**2 + SHORT.n / SIGMA_SHORT**2
    assert theta[:, 0, 0].std() == pytest.approx(math.sqrt(2 / samples), rel=0.1)


# --- every method --------------------------------------------------------------------------------


def _agrees(post: SampledPosterior, orders: Orders, error: float) -> None:
    """The same p(K | x) and amplitude as the exact step, within the errors of both."""
    assert_within(post.k_probs[:3], orders.k_probs[:3], math.hypot(error, orders.k_error))
    draws = post.sample(1000, 1)[:, 0, [0, 2]]
    mine = orders.sample(2000, np.random.default_rng(1), 1)[0][:, 0, [0, 2]]
    effective = min(post.sampling.least_effective, 1000.0)
    spread = mine.std(0) * math.sqrt(1 / effective + 1.5 / 2000)
    assert_within(draws.mean(0), mine.mean(0), spread)
    assert (post.sample_sigma(50, 1) == SIGMA).all()
    assert post.noise_std == SIGMA and post.noise_std_error == 0.0


def test_samplers_hold_the_level(seed: int) -> None:
    observation = observed(7)  # one clear tone; K = 2 has a share of its own
    orders = exact(observation, PRIOR, seed)
    particles = smc(observation, PRIOR, ParticleOptions(particles=400, islands=8), seed=seed)
    _agrees(particles, orders, particles.sampling.k_error)
    exact_z, error = orders.log_evidence[1], orders.log_evidence_error[1]
    assert_within(
        particles.log_evidence[1, 0], exact_z, math.hypot(particles.log_evidence[1, 1], error)
    )
    assert particles.verdict.status == "exact"
    laplace = classical_posterior(observation, PRIOR)
    assert laplace.log_z[1] == pytest.approx(exact_z, abs=0.1)  # a Gaussian's picture of it
    assert laplace.noise_std == SIGMA and laplace.noise_std_error == 0.0
    assert (laplace.sample_sigma(50) == SIGMA).all()
    rss = float(fit(Statistics.from_observation(observation), torch.zeros(1, 0, 3)).rss)
    assert laplace.bic[0] == pytest.approx(rss / SIGMA**2)


@pytest.mark.skipif(find_spec("eryn") is None, reason="Eryn is not installed (extra baselines)")
def test_reversible_jump_holds_the_level(seed: int) -> None:
    observation = observed(7)
    options = ChainOptions(walkers=48, temperatures=2, hottest=2.0, effective=400, max_steps=600)
    chain = rjmcmc(observation, PRIOR, options, seed=seed)
    _agrees(chain, exact(observation, PRIOR, seed), chain.sampling.k_error)


# --- what the verdict says -----------------------------------------------------------------------


def checked(observation: Observation, sigma: float = SIGMA) -> tuple[list[float], float]:
    """p-values of the stated level (long, short), and the smallest p of all tests times their number."""
    statistics = Statistics.from_observation(observation)
    found = fit(statistics, torch.from_numpy(TONE)[None], sigma=torch.tensor([sigma]))
    checks = check_residual(statistics, found.theta[0].numpy(), PRIOR.frequency, sigma)
    found_p = {c.name: c.p_value for c in checks}
    stated = [found_p[f"stated level ({stream})"] for stream in ("long", "short")]
    return stated, len(checks) * checks[0].p_value


def test_false_alarms(seed: int) -> None:
    """The stated level's p-values are uniform, and all tests together alarm no more often than they may."""
    number = 300
    found = [checked(observed(seed + i)) for i in range(number)]
    values = np.array([stated for stated, _ in found])
    assert values.shape == (number, 2)
    for p in values.T:
        assert stats.kstest(p, "uniform").pvalue > 1e-5
    alarms = sum(smallest < 0.05 for _, smallest in found)
    assert stats.binom.sf(alarms - 1, number, 0.05) > 1e-4
    off = [checked(observed(seed + i), 1.1 * SIGMA)[0] for i in range(40)]
    assert stats.kstest(np.array(off).ravel(), "uniform").pvalue < 1e-5  # a wrong level is seen


def test_tones_taken_out_before_count(seed: int) -> None:
    """Of n samples of noise, M tones that were fitted and removed leave n − 3M degrees of freedom."""
    rng, basis = np.random.default_rng(seed), LONG.n // 4
    values: dict[int, list[float]] = {0: [], basis: []}
    for _ in range(200):
        spectrum = np.fft.rfft(SIGMA * rng.standard_normal(LONG.n))
        spectrum[1 : 1 + 3 * basis // 2] = 0  # two numbers each: as many parameters as the tones
        rest = np.fft.irfft(spectrum, LONG.n)
        statistics = Statistics.from_arrays([torch.from_numpy(rest)[None]], [LONG])
        for removed, found in values.items():
            checks = check_residual(
                dataclasses.replace(statistics, removed=removed),
                np.zeros((0, 3)),
                PRIOR.frequency,
                SIGMA,
            )
            found += [c.p_value for c in checks if c.name == "stated level (long)"]
    assert stats.kstest(values[basis], "uniform").pvalue > 1e-5
    assert stats.kstest(values[0], "uniform").pvalue < 1e-5
    assert without(without(observed(seed), TONE), TONE).removed == 2  # as the windows of a band do


@pytest.mark.parametrize(
    ("sigma", "short", "broken"),
    [
        (1.3 * SIGMA, 1.3 * SIGMA_SHORT, {"long", "short"}),
        (0.7 * SIGMA, 0.7 * SIGMA_SHORT, {"long", "short"}),
        (1.4 * SIGMA, SIGMA_SHORT, {"long"}),
        (SIGMA, 0.6 * SIGMA_SHORT, {"short"}),
    ],
)
def test_a_wrong_level_is_a_misfit(
    zoom: SlotFlow, sigma: float, short: float, broken: set[str], seed: int
) -> None:
    post = zoom.infer(observed(seed, sigma=sigma, short=short), prior=PRIOR, max_seconds=1000)
    assert isinstance(post, RefinedPosterior) and post.verdict.status == "misfit"
    for stream in ("long", "short"):
        factor = {"long": sigma / SIGMA, "short": short / SIGMA_SHORT}[stream]
        words = f"the scatter of the {stream} stream's residual is "
        assert (words in post.verdict.reason) == (stream in broken)
        if stream in broken:
            said = float(post.verdict.reason.split(words)[1].split()[0])
            assert said == pytest.approx(factor, rel=5 / math.sqrt(2 * SHORT.n))
    assert any("--sigma" in remedy for remedy in remedies(post))


@pytest.mark.parametrize("factor", [0.01, 0.5, 3.0])
def test_tones_are_not_spent_on_noise(zoom: SlotFlow, factor: float, seed: int) -> None:
    """Data far louder than stated are not sampled; quieter ones are, with the widths of the stated level."""
    data = observed(seed, sigma=factor * SIGMA, short=factor * SIGMA_SHORT)
    post = zoom.infer(data, prior=PRIOR, max_seconds=1000)
    assert isinstance(post, RefinedPosterior) and post.verdict.status == "misfit"
    assert ("is above the stated 0.9" in post.verdict.reason) == (factor > 1)
    assert post.slots.sampled(post.k_map) == (factor < 1)


def test_a_right_level_is_exact(zoom: SlotFlow, seed: int, tmp_path: Path) -> None:
    """Also in the words of checks, report and limits, and from a file."""
    post = zoom.infer(observed(11), prior=PRIOR, max_seconds=1000)
    assert isinstance(post, RefinedPosterior) and post.verdict.status == "exact"
    names = [check.name for check in post.verdict.checks]
    assert {"stated level (long)", "stated level (short)"} <= set(names)
    assert "streams" not in names  # the two say more
    assert all(kind_of(check) in KINDS.values() for check in post.verdict.checks)
    assert settings(post, {}, 0)["noise level"] == "0.9, known"
    assert (post.noise_std, post.noise_std_error) == (SIGMA, 0.0)
    post.save(tmp_path / "post.nc", n=200, seed=seed)
    back = Posterior.load(tmp_path / "post.nc")
    assert back.prior == PRIOR and back.prior.known_sigma == SIGMA
    assert (back.noise_std, back.noise_std_error) == (SIGMA, 0.0)
    assert (back.sample_sigma(50) == SIGMA).all()
    assert [s.sigma for s in back.observation.channels] == [SIGMA, SIGMA_SHORT]
    assert back.verdict.status == "exact" and len(back.verdict.checks) == len(names)


def test_limits_are_those_of_the_stated_level(zoom: SlotFlow, seed: int) -> None:
    nothing = observed(seed, np.zeros((0, 3)))
    alone = zoom.infer(
        nothing, prior=PRIOR, refine=False
    )  # the network takes the noise from the data
    alone.k_probs = np.eye(alone.k_max + 1)[0]
    assert alone.noise_std != SIGMA
    refined = alone.refine(max_seconds=1000)
    refined.k_probs = alone.k_probs
    mine, other = alone.upper_limit(), refined.upper_limit()
    assert mine is not None and other is not None
    np.testing.assert_allclose(mine.amplitude, other.amplitude, rtol=1e-12)


def test_nothing_but_rounding_left(seed: int) -> None:
    statistics = Statistics.from_observation(observed(seed, sigma=1e-12, short=1e-12))
    checks = check_residual(statistics, TONE, PRIOR.frequency, SIGMA)
    assert [c.name for c in checks] == ["stated level (long)", "stated level (short)"]
    assert judge(checks, DrawQuality(1.0, 0.0)).status == "misfit"
    (rounding,) = check_residual(statistics, TONE, PRIOR.frequency)
    assert rounding.name == "rounding"


def test_a_level_below_rounding_is_refused(seed: int) -> None:
    statistics = Statistics.from_observation(observed(seed))
    with pytest.raises(ValueError, match="at least 1e-05 times the data's rms"):
        Target(statistics, dataclasses.replace(PRIOR, sigma=(1e-8, 1e-8)), 1)


# --- stated in Python ----------------------------------------------------------------------------


def test_levels_of_arrays() -> None:
    x, y = np.ones(8), np.ones(4)
    both = Observation.from_arrays(x, 0.1, y, 0.1, sigma_long=0.7)
    assert [s.sigma for s in both.channels] == [0.7, 0.7]
    alone = Observation.from_arrays(x, 0.1, sigma_long=0.7)
    assert alone.long.sigma == 0.7 and Observation.from_arrays(x, 0.1).long.sigma is None
    with pytest.raises(ValueError, match="state both"):
        Observation.from_arrays(x, 0.1, y, 0.1, sigma_short=0.2)
    with pytest.raises(ValueError, match="expected a short stream"):
        Observation.from_arrays(x, 0.1, sigma_long=0.7, sigma_short=0.2)
    with pytest.raises(ValueError, match="positive number"):
        Observation.from_arrays(x, 0.1, sigma_long=0.0)


def test_levels_of_files(tmp_path: Path) -> None:
    path = tmp_path / "both.npz"
    np.savez(path, long=np.ones((2, 8)), short=np.ones((2, 4)), dt_long=0.1, dt_short=0.01)
    from slotflow.data.read.files import read_observations

    for one in read_observations(path, sigma=0.7, sigma_short=0.2):
        assert [s.sigma for s in one.channels] == [0.7, 0.2]
    np.save(tmp_path / "one.npy", np.ones(8))
    observation = Observation.read(tmp_path / "one.npy", 0.1, sigma=0.7)
    assert observation.long.sigma == 0.7
    with pytest.raises(ValueError, match=r"one\.npy.*expected a short stream"):
        Observation.read(tmp_path / "one.npy", 0.1, sigma=0.7, sigma_short=0.2)


def test_bounds_keep_the_ratio_alone(seed: int) -> None:
    """Where the prior has bounds, stated levels weight the streams and nothing else."""
    prior = dataclasses.replace(PRIOR, sigma=(0.1, 3.0))
    data = observed(seed)
    assert data.short is not None
    scaled = Observation(
        *(Stream(s.values, s.dt, s.t0, 5 * (s.sigma or 1.0)) for s in data.channels)
    )
    targets = [Target(Statistics.from_observation(obs), prior, 0) for obs in (data, scaled)]
    values = [float(t.log_likelihood(t.rss(np.zeros((1, 0, 3))))[0]) for t in targets]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert not targets[0].noise.known
    draws = targets[0].noise.sample(np.full(4000, 700 * SIGMA**2), np.random.default_rng(seed))
    assert_mean(draws**-2, (700 - 1) / (700 * SIGMA**2))  # v is a gamma variable


@pytest.mark.parametrize("rss", [9000.0, 10.0])
def test_levels_that_a_bound_cuts(rss: float, seed: int) -> None:
    """Draws of σ are the same law for one RSS alone, many times over, and among others."""
    noise, rng, n = WhiteNoise(100, 0.5, 3.0), np.random.default_rng(seed), 4000
    grid = np.linspace(noise.low, noise.high, 20001)
    log_density = -0.5 * rss / grid**2 - noise.n * np.log(grid)
    density = np.exp(log_density - log_density.max())
    mean = float((grid * density).sum() / density.sum())
    spread = math.sqrt(float(((grid - mean) ** 2 * density).sum() / density.sum()))
    for several in (np.full(n, rss), rss * (1 + 1e-9 * rng.random(n))):
        drawn = noise.sample(several, rng)
        # The grid of the draws has steps of less than half of their spread.
        assert abs(drawn.mean() - mean) < 5 * spread / math.sqrt(n) + 0.25 * spread
        assert drawn.std() == pytest.approx(spread, rel=0.15)
