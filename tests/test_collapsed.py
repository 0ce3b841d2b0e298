"""Frequencies first, amplitudes given them: against the normal equations, the exact conditional and quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from evidence_helpers import log_integral
from scipy import stats
from statistics_helpers import assert_mean, assert_same_law, assert_within
from tone_helpers import LONG, SHORT, model, statistics_of, to_z

from slotflow import Grid, Prior
from slotflow.core.arrays import Array
from slotflow.exact.importance import importance_sample
from slotflow.exact.proposals.collapsed import Bent, _conditionals, bent
from slotflow.exact.proposals.gaussian import Gaussian, Warped
from slotflow.exact.target import Target
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import simulate

SMALL = Grid(300, 0.1)
STRESS = Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0))


def observe(
    theta: Array,
    sigma: float,
    seed: int,
    grids: tuple[Grid, ...] = (SMALL,),
    ratios: tuple[float, ...] | None = None,
) -> Statistics:
    generator = torch.Generator().manual_seed(seed)
    scale = (1.0,) * len(grids) if ratios is None else ratios
    series = [
        model(torch.as_tensor(theta), g)[None]
        + sigma * r * torch.randn(1, g.n, generator=generator, dtype=torch.float64)
        for g, r in zip(grids, scale, strict=True)
    ]
    return Statistics.from_arrays(series, grids, ratios)


def around(target: Target, theta: Array) -> tuple[Array, Array]:
    """The maximum near theta, (K, 3), and the covariance that the target's curvature gives there."""
    found = fit(target.statistics, torch.as_tensor(theta)[None])
    assert bool(found.converged)
    z = to_z(found.theta[0].numpy(), target.statistics.reference)
    gaussian = target.gaussian(z)
    assert gaussian is not None
    return z, gaussian[1]


def stress(seed: int) -> tuple[Target, Array, Array]:
    """A crowded, noisy signal at its maximum."""
    batch = simulate(STRESS, 1, LONG, SHORT, mode="physical", seed=seed, k=8)
    target = Target(statistics_of(batch), STRESS, 8)
    return target, *around(target, batch.components(0))


# ---------------------------------------------------------------------- the linear problem


def test_linear_systems_are_the_normal_equations_of_c(seed: int) -> None:
    theta = np.array([[1.0, 0.5, 2.3], [0.8, 2.0, 2.36], [0.5, 4.0, 2.7]])
    grids = (SMALL, Grid(128, 1 / 512, 3.0))
    statistics = observe(theta, 0.5, seed, grids, (1.0, 1.7))
    rng = np.random.default_rng(seed)
    f = theta[:, 2] + 0.01 * rng.standard_normal((5, 3))
    gram, data = statistics.amplitude_systems(f[..., None])
    order = np.array([1, 4, 7, 2, 5, 8])  # Re c, then Im c, of (f, Re c, Im c)
    for row in range(5):
        zero = torch.zeros(1, 3, 1, dtype=torch.complex128)
        _, slope, matrix = statistics.equations(torch.from_numpy(f[row : row + 1, :, None]), zero)
        assert np.abs(matrix[0].numpy()[np.ix_(order, order)] - gram[row]).max() < 1e-9
        assert np.abs(slope[0].numpy()[order] - data[row]).max() < 1e-9


def test_the_mean_follows_the_exact_conditional(seed: int) -> None:
    """In units of its own standard deviation; without its bend it does not."""
    target, z, covariance = stress(seed)
    proposal = Bent(target, z, covariance)
    drawn = proposal.sample(400, np.random.default_rng(seed))
    _, exact, _ = _conditionals(target, drawn[..., 0])

    def distance(bend: Array) -> float:
        proposal.bend = bend
        away = drawn[..., 0] - proposal.centre
        mean = proposal._mean(np.linalg.solve(proposal.root, away.T).T)
        straight = exact * np.exp(-1j * proposal.theta * away)
        rest = np.concatenate([straight.real, straight.imag], -1) - mean
        return float(((rest @ proposal.factor) ** 2).sum(-1).mean())

    quadratic = proposal.bend.copy()
    linear = quadratic.copy()
    linear[1 + target.k :] = 0
    assert distance(quadratic) < 0.02
    assert distance(linear) > 10 * distance(quadratic)


# ---------------------------------------------------------------------- density and draws


def test_density_and_draws_belong_together(seed: int) -> None:
    """Twice the distance from the top of ln q is χ² of 3K, and q is normalized."""
    target, z, covariance = stress(seed)
    proposal, rng = Bent(target, z, covariance), np.random.default_rng(seed)
    drawn = proposal.sample(4000, rng)
    square = -2 * (proposal.log_prob(drawn) + proposal.normalizer)
    assert_same_law(square, stats.chi2.rvs(3 * target.k, size=4000, random_state=rng))
    proposal.theta = proposal.theta * 0  # a density that is not that of the draws
    wrong = -2 * (proposal.log_prob(drawn) + proposal.normalizer)
    assert wrong.mean() > 3 * target.k + 10 * math.sqrt(6 * target.k / 4000)


def test_density_integrates_to_one(seed: int) -> None:
    """The mean of q/g over draws of a wider g is one."""
    theta = np.array([[1.0, 0.5, 2.3], [0.8, 2.0, 2.36]])
    target = Target(observe(theta, 0.5, seed), Prior(k_max=2, frequency=(2.0, 3.0)), 2)
    z, covariance = around(target, theta)
    proposal, rng = Bent(target, z, covariance, 0.9), np.random.default_rng(seed)
    wide = Gaussian(z.ravel(), covariance, 1.4)
    drawn = wide.sample(40_000, rng)
    ratio = np.exp(proposal.log_prob(drawn) - wide.log_prob(drawn))
    assert_mean(ratio, 1.0)
    proposal.factor = proposal.factor * 1.1  # narrower than its normalizer says
    off = np.exp(proposal.log_prob(drawn) - wide.log_prob(drawn))
    assert abs(off.mean() - 1) > 5 * off.std() / math.sqrt(len(off))


def test_tones_in_one_place_have_no_proposal(seed: int) -> None:
    theta = np.array([[1.0, 0.5, 2.3], [0.8, 2.0, 2.36]])
    target = Target(observe(theta, 0.5, seed), Prior(k_max=2, frequency=(2.0, 3.0)), 2)
    z, covariance = around(target, theta)
    assert bent(target, z, covariance) is not None
    assert bent(target, z, -covariance) is None
    assert bent(target, z, np.full_like(covariance, np.nan)) is None
    z[1, 0] = z[0, 0]
    assert bent(target, z, np.zeros_like(covariance)) is None


# ---------------------------------------------------------------------- evidence and effective draws


def test_evidence_of_one_tone_is_that_of_quadrature(seed: int) -> None:
    """All three dimensions on a grid, with a bound of A that cuts the posterior."""
    theta = np.array([[0.68, 1.0, 2.5]])
    statistics = observe(theta, 0.8, seed)
    found = fit(statistics, torch.as_tensor(theta)[None])
    sd = np.sqrt(np.diag(found.covariance[0].numpy()))
    centre = found.theta[0, 0].numpy()
    low = centre[0] - 0.7 * sd[0]
    prior = Prior(k_max=1, amplitude=(low, low + 0.6), frequency=(2.4, 2.6), sigma=(0.3, 1.2))
    target = Target(statistics, prior, 1)
    proposal = Bent(target, *around(target, theta))
    result = importance_sample(target, proposal, np.random.default_rng(seed), draws=4000)
    axes = [
        np.linspace(low, min(low + 0.6, centre[0] + 9 * sd[0]), 81),
        np.linspace(centre[1] - 8 * sd[1], centre[1] + 8 * sd[1], 81),
        np.linspace(centre[2] - 8 * sd[2], centre[2] + 8 * sd[2], 81),
    ]
    expected = log_integral(target, axes)
    assert result.ess > 0.9
    assert 0.5 < result.share < 0.95
    assert_within(result.log_evidence, expected, math.hypot(result.log_evidence_error, 1e-3))


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_evidence_of_two_tones_is_that_of_another_proposal(law: str, seed: int) -> None:
    theta = np.array([[1.0, 0.5, 2.3], [0.8, 2.0, 2.35]])
    prior = Prior(
        k_max=2,
        amplitude=(0.1, 3.0),
        frequency=(2.0, 3.0),
        min_separation=0.0,
        sigma=(0.2, 2.0),
        amplitude_law=law,
    )
    target = Target(observe(theta, 0.8, seed), prior, 2)
    z, covariance = around(target, theta)
    rng = np.random.default_rng(seed)
    ours = importance_sample(target, Bent(target, z, covariance), rng, draws=4000)
    wide = Gaussian(z.ravel(), covariance, 1.3)
    other = importance_sample(target, wide, rng, draws=20_000)
    assert ours.ess > 0.9
    assert ours.pareto_k < 0.7
    error = math.hypot(ours.log_evidence_error, other.log_evidence_error)
    assert error < 0.03
    assert_within(ours.log_evidence, other.log_evidence, error)


def test_effective_share_of_crowded_signals(seed: int) -> None:
    """Above what the Gaussian in straightened coordinates reaches; half the width shows."""
    batch = simulate(STRESS, 12, LONG, SHORT, mode="physical", seed=seed)
    statistics, rng = statistics_of(batch), np.random.default_rng(seed)
    shares, before, narrow = [], [], []
    for i in range(12):
        one = statistics.take(torch.tensor([i]))
        target = Target(one, STRESS, int(batch.k[i]))
        z, covariance = around(target, batch.components(i))
        result = importance_sample(target, Bent(target, z, covariance), rng, draws=1000)
        assert result.sound
        shares.append(result.ess)
        gaussian = target.gaussian(z, 1.0)
        assert gaussian is not None
        before.append(importance_sample(target, Warped(*gaussian), rng, draws=1000).ess)
        half = Bent(target, z, covariance, 0.5)
        narrow.append(importance_sample(target, half, rng, draws=1000).ess)
    assert np.mean(shares) > 0.94
    assert np.min(shares) > 0.8
    assert np.mean(shares) > np.mean(before)
    assert np.max(narrow) < 0.5
