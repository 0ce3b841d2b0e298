"""Importance sampling against closed forms, quadrature and itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from evidence_helpers import log_integral
from scipy import integrate, stats
from statistics_helpers import assert_mean, assert_same_law, assert_within
from tone_helpers import LONG, SHORT, model, statistics_of, to_theta, to_z

from slotflow import Grid, Prior
from slotflow.exact.importance import (
    Gaussian,
    Mixture,
    Warped,
    effective_share,
    importance_sample,
    pareto_k,
    resample,
)
from slotflow.exact.target import Target
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics
from slotflow.signal.noise import WhiteNoise
from slotflow.signal.simulation import simulate

SMALL = Grid(300, 0.1)


def observe(
    theta: np.ndarray, sigma: float, seed: int, grids: tuple[Grid, ...] = (SMALL,)
) -> Statistics:
    generator = torch.Generator().manual_seed(seed)
    series = [
        model(torch.as_tensor(theta), g)[None]
        + sigma * torch.randn(1, g.n, generator=generator, dtype=torch.float64)
        for g in grids
    ]
    return Statistics.from_arrays(series, grids)


def laplace(statistics: Statistics, theta: np.ndarray, prior: Prior) -> tuple[Target, Warped]:
    target = Target(statistics, prior, len(theta))
    found = fit(statistics, torch.as_tensor(theta)[None])
    assert bool(found.converged)
    gaussian = target.gaussian(to_z(found.theta[0].numpy(), statistics.reference), 1.0)
    assert gaussian is not None
    return target, Warped(*gaussian)


# ---------------------------------------------------------------------- σ


@pytest.mark.parametrize("bounds", [(0.5, 2.0), (1.05, 2.0), (0.2, 0.97), (1e-5, 1.5)])
def test_sigma_is_integrated_out(bounds: tuple[float, float]) -> None:
    n, rss = 400, np.array([380.0, 400.0, 440.0])
    noise = WhiteNoise(n, *bounds)
    for value, result in zip(rss, noise.log_marginal(rss), strict=True):
        top = min(max(math.sqrt(value / n), bounds[0]), bounds[1])

        def log_f(s: float, value: float = value) -> float:
            return -n * math.log(s) - 0.5 * value / s**2

        points = np.linspace(max(bounds[0], 0.6 * top), min(bounds[1], 1.7 * top), 20001)
        height = np.exp([log_f(s) - log_f(top) for s in points])
        expected = log_f(top) + math.log(integrate.simpson(height, x=points))
        assert result == pytest.approx(expected, abs=1e-5)


def test_a_sigma_far_outside_its_bounds_still_has_a_likelihood() -> None:
    noise = WhiteNoise(4000, 0.5, 1.0)
    far = noise.log_marginal(np.array([4000.0 * 9, 4000.0 * 9.5, 4000 * 1e-4]))
    assert np.isfinite(far).all()
    # Beyond the bound the data see σ = 1: ln L falls by half the rise of RSS, up to the slope of the edge.
    assert far[0] - far[1] == pytest.approx(0.5 * 4000 * 0.5, rel=1e-3)


@pytest.mark.parametrize("bounds", [(0.5, 2.0), (1.02, 2.0), (0.3, 0.9)])
def test_draws_of_sigma_follow_its_conditional(bounds: tuple[float, float], seed: int) -> None:
    n, rss, rng = 800, 800.0, np.random.default_rng(seed)
    drawn = WhiteNoise(n, *bounds).sample(np.full(4000, rss), rng)
    assert drawn.min() >= bounds[0]
    assert drawn.max() <= bounds[1]
    grid = np.linspace(max(bounds[0], 0.5), min(bounds[1], 1.6), 400_001)
    mass = np.exp(-n * np.log(grid) - 0.5 * rss / grid**2 + 0.5 * n)
    mass = np.cumsum(mass) / mass.sum()
    assert_same_law(drawn, grid[np.searchsorted(mass, rng.random(4000))])


# ---------------------------------------------------------------------- the target


def test_gaussian_has_the_curvature_of_the_target(seed: int) -> None:
    prior = Prior(
        k_max=3, amplitude=(0.1, 3.0), frequency=(2.0, 3.0), min_separation=0.0, sigma=(0.2, 2.0)
    )
    theta = np.array([[1.0, 0.5, 2.3], [0.8, 2.0, 2.36]])
    statistics = observe(theta, 0.5, seed)
    target = Target(statistics, prior, 2)
    found = fit(statistics, torch.as_tensor(theta)[None])
    gaussian = target.gaussian(to_z(found.theta[0].numpy(), statistics.reference))
    assert gaussian is not None
    mean, covariance = gaussian
    step = 0.05 * np.sqrt(np.diag(covariance))
    rows = []
    for i in range(6):
        for j in range(6):
            points = np.stack(
                [
                    mean + a * step * np.eye(6)[i] + b * step * np.eye(6)[j]
                    for a in (1, -1)
                    for b in (1, -1)
                ]
            )
            p, _ = target.log_prob(points.reshape(4, 2, 3))
            rows.append(-(p[0] - p[1] - p[2] + p[3]) / (4 * step[i] * step[j]))
    numeric = np.array(rows).reshape(6, 6)
    scale = np.sqrt(np.diag(covariance))
    assert np.abs((numeric - np.linalg.inv(covariance)) * scale[:, None] * scale).max() < 0.02


def test_unsorted_tones_have_no_density(seed: int) -> None:
    prior = Prior(k_max=2, frequency=(2.0, 3.0))
    target = Target(observe(np.array([[1.0, 0.0, 2.5]]), 1.0, seed), prior, 2)
    z = np.array([[[2.3, 1.0, 0.0], [2.6, 0.7, 0.7]]])
    assert target.log_prob(z)[0] > -np.inf
    assert target.log_prob(z[:, ::-1])[0] == -np.inf
    with pytest.raises(ValueError, match="one signal"):
        Target(Statistics.from_arrays([torch.zeros(2, 300)], [SMALL]), prior, 1)


def test_residuals_and_coordinates(seed: int) -> None:
    theta = np.array([[1.0, 0.5, 2.7], [0.8, 6.0, 2.36]])
    statistics = observe(theta, 1e-9, seed, (SMALL, Grid(128, 1 / 512)))
    z = to_z(theta, statistics.reference)
    assert np.all(np.diff(z[:, 0]) > 0)
    for rest in statistics.residuals(z):
        assert np.abs(rest).max() < 1e-7
    back = to_theta(z, statistics.reference)
    assert np.abs(back - theta[::-1]).max() < 1e-9


# ---------------------------------------------------------------------- evidence


def test_evidence_of_one_tone_is_that_of_quadrature(seed: int) -> None:
    """Given f, the evidence of c is a two-dimensional integral; all three are done on a grid."""
    theta = np.array([[0.68, 1.0, 2.5]])
    statistics = observe(theta, 0.8, seed)
    found = fit(statistics, torch.as_tensor(theta)[None])
    sd = np.sqrt(np.diag(found.covariance[0].numpy()))
    centre = found.theta[0, 0].numpy()
    low = centre[0] - 0.7 * sd[0]  # an edge that cuts the Gaussian
    prior = Prior(k_max=1, amplitude=(low, low + 0.6), frequency=(2.4, 2.6), sigma=(0.3, 1.2))
    target, proposal = laplace(statistics, theta, prior)
    result = importance_sample(target, proposal, np.random.default_rng(seed), draws=4000)
    axes = [
        np.linspace(prior.amplitude[0], min(prior.amplitude[1], centre[0] + 9 * sd[0]), 81),
        np.linspace(centre[1] - 8 * sd[1], centre[1] + 8 * sd[1], 81),
        np.linspace(centre[2] - 8 * sd[2], centre[2] + 8 * sd[2], 81),
    ]
    expected = log_integral(target, axes)
    assert result.log_evidence_error < 0.03
    assert 0.5 < result.share < 0.95
    assert_within(result.log_evidence, expected, math.hypot(result.log_evidence_error, 1e-3))
    # A negative control: without the share inside the support the evidence is wrong.
    off = result.log_evidence - math.log(result.share)
    assert abs(off - expected) > 5 * result.log_evidence_error


class Flat(Target):
    """A target without data: its evidence is one, whatever the prior."""

    def log_likelihood(self, rss: np.ndarray) -> np.ndarray:
        return np.full(rss.shape, math.lgamma(self.k + 1))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_a_flat_likelihood_has_the_evidence_one(k: int, law: str, seed: int) -> None:
    prior = Prior(
        k_max=3, amplitude=(0.5, 1.5), frequency=(2.0, 2.4), min_separation=0.05, amplitude_law=law
    )
    target = Flat(observe(np.zeros((0, 3)), 1.0, seed), prior, k)

    class FromPrior:
        def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
            generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
            theta = prior.sample_theta(torch.full((n,), k), generator)[:, :k].numpy()
            return to_z(theta, target.statistics.reference)

        def log_prob(self, z: np.ndarray) -> np.ndarray:
            return target.log_prior(z) + math.lgamma(k + 1)

    exact = importance_sample(target, FromPrior(), np.random.default_rng(seed), draws=500)
    assert exact.log_evidence == pytest.approx(0.0, abs=1e-9)
    assert exact.ess == pytest.approx(1.0)
    wide = np.tile([0.08, 0.6, 0.6], k) ** 2
    mean = np.stack([np.linspace(2.1, 2.3, k), np.zeros(k), np.zeros(k)], -1).ravel()
    result = importance_sample(
        target, Gaussian(mean, np.diag(wide)), np.random.default_rng(seed), draws=20_000
    )
    assert_within(result.log_evidence, 0.0, result.log_evidence_error)
    assert 0.001 < result.log_evidence_error < 0.5


def test_share_inside_is_the_truncated_mass(seed: int) -> None:
    """One tone whose frequency alone is cut by the band: the share is a difference of normal distributions."""
    prior = Prior(k_max=1, amplitude=(0.01, 50.0), frequency=(2.5, 2.52))
    target = Flat(observe(np.zeros((0, 3)), 1.0, seed), prior, 1)
    proposal = Gaussian(np.array([2.505, 5.0, 5.0]), np.diag([0.01, 0.1, 0.1]) ** 2)
    result = importance_sample(target, proposal, np.random.default_rng(seed), draws=4000)
    expected = stats.norm.cdf(1.5) - stats.norm.cdf(-0.5)
    assert_within(result.share, expected, math.sqrt(expected * (1 - expected) / 4000))


def test_two_rounds_and_the_budget(seed: int) -> None:
    prior = Prior(k_max=1, frequency=(2.4, 2.6))
    theta = np.array([[1.0, 1.0, 2.5]])
    target, proposal = laplace(observe(theta, 0.5, seed), theta, prior)
    rng = np.random.default_rng(seed)
    once = importance_sample(target, proposal, rng, draws=500)
    assert len(once.log_weights) == 500
    checked = importance_sample(target, proposal, rng, draws=500, effective=100)
    assert len(checked.log_weights) == 500  # in two rounds
    more = importance_sample(target, proposal, rng, draws=500, effective=600)
    assert 600 < len(more.log_weights) <= 1000
    most = importance_sample(target, proposal, rng, draws=500, effective=1e9, max_draws=2000)
    assert len(most.log_weights) == 2000
    late = importance_sample(target, proposal, rng, draws=500, effective=1e9, max_seconds=0.0)
    assert len(late.log_weights) == 250


def test_a_proposal_outside_the_prior_gives_nothing(seed: int) -> None:
    prior = Prior(k_max=1, frequency=(2.4, 2.6))
    target = Target(observe(np.array([[1.0, 1.0, 2.5]]), 0.5, seed), prior, 1)
    far = Gaussian(np.array([9.0, 1.0, 0.0]), np.eye(3) * 1e-6)
    result = importance_sample(target, far, np.random.default_rng(seed), draws=100)
    assert result.log_evidence == -math.inf
    assert not result.sound
    with pytest.raises(ValueError, match="no draws"):
        result.resample(10, np.random.default_rng(seed))


# ---------------------------------------------------------------------- proposals and diagnostics


def test_warped_and_mixed_densities_are_normalized(seed: int) -> None:
    """The mean of q/g over draws of g is one for any normalized q inside the reach of g."""
    rng = np.random.default_rng(seed)
    mean = np.array([2.5, 1.0, 0.4, 2.6, -0.7, 0.9])
    root = rng.standard_normal((6, 6)) * 0.3 + np.eye(6)
    scale = np.array([1e-3, 0.05, 0.05] * 2)
    covariance = root @ root.T * scale[:, None] * scale
    warped = Warped(mean, covariance)
    wide = Gaussian(mean, covariance, 1.6)
    z = wide.sample(40_000, rng)
    assert_mean(np.exp(warped.log_prob(z) - wide.log_prob(z)), 1.0)
    both = Mixture([warped, wide], [1.0, 3.0])
    assert_mean(np.exp(both.log_prob(z) - wide.log_prob(z)), 1.0)
    mine = both.sample(4000, rng)
    assert_mean(np.exp(wide.log_prob(mine) - both.log_prob(mine)), 1.0)
    # Sampling and density belong together: the density of draws has the entropy of the density.
    a, b = warped.log_prob(warped.sample(4000, rng)), warped.log_prob(warped.sample(4000, rng))
    assert_same_law(a, b)
    with pytest.raises(ValueError, match="at least one"):
        Mixture([])


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0])
def test_pareto_k_finds_the_shape(shape: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [
        pareto_k(np.log(stats.genpareto.rvs(shape, size=4000, random_state=rng))) for _ in range(40)
    ]
    tail = int(3 * math.sqrt(4000))
    # The estimate's standard deviation is (1 + k)/√tail; ten observations' worth of ½ pull it.
    expected = (tail * shape + 5) / (tail + 10)
    assert_within(np.mean(found), expected, (1 + shape) / math.sqrt(tail * 40) + 0.01)
    assert pareto_k(np.zeros(1000)) == 0.0
    assert pareto_k(np.zeros(10)) == math.inf


def test_resampling_is_systematic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(50))
    index = resample(weights, 1000, rng)
    counts = np.bincount(index, minlength=50)
    assert np.abs(counts - 1000 * weights).max() < 1
    assert effective_share(np.log(weights)) == pytest.approx(1 / (50 * (weights**2).sum()))
    assert effective_share(np.full(5, -np.inf)) == 0.0


@pytest.mark.parametrize("name", ["nominal", "stress"])
def test_ess_of_joint_fits(name: str, seed: int) -> None:
    prior = Prior() if name == "nominal" else Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0))
    batch = simulate(prior, 8, LONG, SHORT, mode="physical", seed=seed)
    statistics = statistics_of(batch)
    rng, shares, tails = np.random.default_rng(seed), [], []
    for i in range(8):
        one = statistics.take(torch.tensor([i]))
        target, proposal = laplace(one, batch.components(i), prior)
        result = importance_sample(target, proposal, rng, draws=1000)
        shares.append(result.ess)
        assert result.sound
        assert result.log_evidence_error < 0.05
        # A proposal half as wide as the posterior shows in the diagnostics.
        mean, covariance = target.gaussian(
            to_z(
                fit(one, torch.as_tensor(batch.components(i))[None]).theta[0].numpy(), one.reference
            ),
            1.0,
        )
        narrow = importance_sample(target, Warped(mean, covariance, 0.5), rng, draws=1000)
        assert narrow.ess < 0.5
        tails.append(narrow.pareto_k)
    assert np.mean(shares) > (0.95 if name == "nominal" else 0.85)
    assert np.mean(tails) > 0.7
