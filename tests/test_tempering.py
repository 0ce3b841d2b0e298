"""Tempered sampling against closed forms and against importance sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from statistics_helpers import assert_mean, assert_within
from test_importance import Flat, observe
from tone_helpers import to_z

from slotflow import Grid, Prior
from slotflow.exact.importance import Gaussian, Mixture, Warped, importance_sample
from slotflow.exact.proposals.births import Births, BirthTable
from slotflow.exact.proposals.splits import PairTable, Split, divided, merged
from slotflow.exact.target import Target
from slotflow.exact.tempering import Tempering, _independent, tempered
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics

MEDIUM = Grid(1000, 0.1)
PRIOR = Prior(
    k_min=0,
    k_max=3,
    amplitude=(0.5, 1.5),
    frequency=(2.4, 2.6),
    min_separation=0.0,
    sigma=(0.3, 2.0),
)
NOTHING = (np.zeros(0), np.zeros((0, 0)))


def births(statistics: Statistics, k: int, prior: Prior = PRIOR) -> tuple[BirthTable, Births]:
    """Free tones only."""
    table = BirthTable(Target(statistics, prior, 0), np.zeros((0, 3)), np.zeros((0, 0)))
    return table, Births(table, NOTHING, k)


def single(statistics: Statistics, theta: np.ndarray, prior: Prior = PRIOR) -> np.ndarray:
    found = fit(statistics, torch.as_tensor(theta)[None], max_shift=2.0)
    assert bool(found.converged)
    return to_z(found.theta[0].numpy(), statistics.reference)


def pair(target: Target, around: tuple[np.ndarray, np.ndarray]) -> Split:
    """The only tone of a fit split in two."""
    return Split(around, {0: PairTable(target, around, 0)})


@pytest.mark.parametrize("k", [1, 2])
def test_a_flat_likelihood_returns_the_prior(k: int, seed: int) -> None:
    target = Flat(observe(np.zeros((0, 3)), 1.0, seed, (MEDIUM,)), PRIOR, k)
    mean = np.stack([np.linspace(2.47, 2.53, k), np.full(k, 0.5), np.zeros(k)], -1).ravel()
    start = Gaussian(mean, np.diag(np.tile([0.05, 0.6, 0.6], k) ** 2))
    result = tempered(target, start, np.random.default_rng(seed), Tempering(2048, 8, 4))
    assert result.log_evidence_error < 0.2
    assert_within(result.log_evidence, 0.0, max(result.log_evidence_error, 0.02))
    theta, _ = result.resample(2000, np.random.default_rng(seed))
    assert_mean(theta[..., 0].mean(-1)[::8], 1.0)  # thinned: the particles of one parent are alike
    assert_mean(theta[..., 2].mean(-1)[::8], 2.5)
    # Without the moves the draws would still be those of the start.
    still = tempered(target, start, np.random.default_rng(seed), Tempering(2048, 8, 0))
    assert len(np.unique(still.theta[:, 0, 0])) < 0.8 * 2048
    assert len(np.unique(result.theta[:, 0, 0])) > 0.95 * 2048


def test_one_tone_from_anywhere(seed: int) -> None:
    theta = np.array([[0.9, 1.0, 2.5]])
    statistics = observe(theta, 1.0, seed, (MEDIUM,))
    target = Target(statistics, PRIOR, 1)
    gaussian = target.gaussian(single(statistics, theta), 1.0)
    assert gaussian is not None
    rng = np.random.default_rng(seed)
    reference = importance_sample(target, Warped(*gaussian), rng, draws=4000)
    table, start = births(statistics, 1)
    result = tempered(target, start, rng, table=table)
    error = math.hypot(result.log_evidence_error, reference.log_evidence_error)
    assert_within(result.log_evidence, reference.log_evidence, max(error, 0.02), 4.0)
    assert result.method == "tempering"
    assert result.pareto_k == 0.0
    theta_draws, sigma = result.resample(1000, rng)
    expected, _ = reference.resample(1000, rng)
    for i in range(3):
        spread = expected[:, 0, i].std()
        assert abs(theta_draws[:, 0, i].mean() - expected[:, 0, i].mean()) < 0.3 * spread
        assert theta_draws[:, 0, i].std() == pytest.approx(spread, rel=0.2)
    assert sigma.mean() == pytest.approx(1.0, abs=0.1)


def test_an_unresolved_pair(seed: int) -> None:
    """Importance sampling with a wide mixture and many draws, and tempering from two starts, agree on ln Z."""
    gap = 0.7 / MEDIUM.duration
    theta = np.array([[1.0, 1.0, 2.5], [0.8, 2.6, 2.5 + gap]])
    statistics = observe(theta, 0.4, seed, (MEDIUM,))
    target, lower = Target(statistics, PRIOR, 2), Target(statistics, PRIOR, 1)
    rng = np.random.default_rng(seed)
    gaussian = target.gaussian(single(statistics, theta), 1.0)
    assert gaussian is not None
    one = single(statistics, np.array([[1.0, 1.5, 2.5 + 0.5 * gap]]))
    around = lower.gaussian(one)
    assert around is not None
    wide = Mixture([Warped(*gaussian), Warped(*gaussian, 2.0), pair(target, around)])
    reference = importance_sample(target, wide, rng, draws=60_000)
    results = [
        tempered(target, wide, rng, Tempering(1024, 8, 4)),
        tempered(target, Warped(*gaussian, 2.5), rng, Tempering(1024, 8, 4)),
    ]
    for result in results:
        error = math.hypot(result.log_evidence_error, reference.log_evidence_error)
        assert error < 0.4
        assert_within(result.log_evidence, reference.log_evidence, max(error, 0.05), 4.0)
    # The evidence of a single tone, which the data exclude, is far away.
    alone = importance_sample(lower, Warped(*around), rng)
    assert alone.log_evidence < reference.log_evidence - 5


def test_the_table_of_a_pair_knows_the_likelihood(seed: int) -> None:
    """Draws of a pair that one tone explains nearly all count; without the data in the table few do."""
    theta = np.array([[0.9, 1.0, 2.5]])
    statistics = observe(theta, 0.3, seed, (MEDIUM,))
    target, lower = Target(statistics, PRIOR, 2), Target(statistics, PRIOR, 1)
    around = lower.gaussian(single(statistics, theta))
    assert around is not None
    rng = np.random.default_rng(seed)
    known = pair(lower, around)
    result = importance_sample(target, known, rng, draws=4000)
    blind = pair(lower, around)
    table = blind.tables[0]
    volume = np.einsum("i,j,k->ijk", *(np.diff(e) for e in table._edges())).ravel()
    mass = volume * np.isfinite(table.log_density)
    table.cumulative = mass.cumsum()
    with np.errstate(divide="ignore"):
        table.log_density = np.log(mass / volume / mass.sum())
    other = importance_sample(target, blind, rng, draws=4000)
    assert result.ess > 0.15
    assert result.ess > 5 * other.ess
    error = math.hypot(result.log_evidence_error, other.log_evidence_error)
    assert_within(result.log_evidence, other.log_evidence, error)


def test_split_and_births_are_normalized(seed: int) -> None:
    """Importance sampling of the prior itself with each proposal mixed with a prior-wide one finds the evidence one."""
    theta = np.array([[0.9, 1.0, 2.5]])
    statistics = observe(theta, 1.0, seed, (MEDIUM,))
    rng = np.random.default_rng(seed)
    z = single(statistics, theta)
    lower = Target(statistics, PRIOR, 1)
    around = lower.gaussian(z)
    assert around is not None
    table = BirthTable(lower, z, around[1])
    _, free = births(statistics, 2)
    flat = Flat(statistics, PRIOR, 2)
    mean = np.array([2.46, 0.0, 0.0, 2.54, 0.0, 0.0])
    prior_wide = Gaussian(mean, np.diag([0.06, 0.7, 0.7, 0.06, 0.7, 0.7]) ** 2)
    for part in (pair(flat, around), Births(table, around, 1), free):
        result = importance_sample(flat, Mixture([part, prior_wide]), rng, draws=40_000)
        assert_within(result.log_evidence, 0.0, result.log_evidence_error)
        assert result.log_evidence_error < 0.05


def of_cell(births: BirthTable, cell: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """M and ν of a cell, n times."""
    return np.full(n, births.filtered[cell]), np.full(n, births.left[cell])


def test_densities_of_a_table_have_mass_one(seed: int) -> None:
    """By quadrature, cell by cell: a factor of two, which flat data above would not show, shows here."""
    statistics = observe(np.array([[0.9, 1.0, 2.5]]), 0.5, seed, (MEDIUM,))
    lower = Target(statistics, PRIOR, 1)
    z = to_z(
        fit(statistics, torch.tensor([[[0.9, 1.0, 2.5]]]).double()).theta[0].numpy(),
        statistics.reference,
    )
    around = lower.gaussian(z)
    assert around is not None
    births = BirthTable(lower, z, around[1])
    pairs = PairTable(lower, around, 0)
    edges = pairs.distance, pairs.amplitude, pairs.angle
    volume = np.einsum("i,j,k->ijk", *(np.diff(edge) for edge in edges)).ravel()
    masses = {
        "cells of f": np.exp(births.log_mass).sum() * births.width,
        "cells of a pair": (np.exp(pairs.log_density) * volume).sum(),
    }
    phase = 2 * np.pi * np.arange(400) / 400
    for cell in (0, births.cells // 3, int(np.argmax(births.log_mass))):
        fine = np.unique(
            np.append(births.amplitudes.edges(*of_cell(births, cell, 1)), PRIOR.amplitude)
        )
        assert (np.diff(fine) > 0).all() and [*fine[[0, -1]]] == [*PRIOR.amplitude]
        edge, weight = np.polynomial.legendre.leggauss(
            40
        )  # the density is a constant of A in each cell
        size = (0.5 * (fine[1:] + fine[:-1])[:, None] + 0.5 * np.diff(fine)[:, None] * edge).ravel()
        shares = (0.5 * np.diff(fine)[:, None] * weight).ravel()
        c = (size[:, None] * np.exp(1j * phase)).ravel()
        slope, left = of_cell(births, cell, c.size)
        density = np.exp(births.amplitudes.log_prob(c, slope, left)).reshape(len(size), -1)
        masses[f"c in cell {cell}"] = (density.mean(1) * 2 * np.pi * size * shares).sum()
    for name, mass in masses.items():
        assert mass == pytest.approx(1.0, rel=1e-6), name
    assert 2 * masses["cells of f"] != pytest.approx(1.0, rel=1e-6)  # the control


def test_the_jacobian_of_a_division(seed: int) -> None:
    """(f̄, C, δ, |c_1|, ψ) → (f_1, c_1, f_2, c_2) stretches volumes by |c_1|: by difference quotients."""
    rng = np.random.default_rng(seed)
    point = np.array([2.5, 0.6, -0.5, 0.004, 0.7, 0.0]) + 0.1 * rng.standard_normal(6) * [
        0.1,
        1,
        1,
        0.01,
        1,
        9,
    ]

    def pair_of(x: np.ndarray) -> np.ndarray:
        return divided(x[None, :3], x[None, 3], x[None, 4], x[None, 5])[0].ravel()

    step = 1e-6
    rows = [(pair_of(point + step * e) - pair_of(point - step * e)) / (2 * step) for e in np.eye(6)]
    stretch = abs(np.linalg.det(np.array(rows)))
    assert stretch == pytest.approx(abs(point[4]), rel=1e-5)
    tone, *inner = merged(pair_of(point).reshape(1, 2, 3))
    np.testing.assert_allclose(tone[0], point[:3], rtol=1e-9)
    np.testing.assert_allclose([x[0] for x in inner[:2]], point[3:5], rtol=1e-7)


def test_budget_and_empty_start(seed: int) -> None:
    theta = np.array([[0.9, 1.0, 2.5]])
    statistics = observe(theta, 0.3, seed, (MEDIUM,))
    target = Target(statistics, PRIOR, 1)
    _, start = births(statistics, 1)
    rng = np.random.default_rng(seed)
    hasty = tempered(target, start, rng, Tempering(256, 4, 1, max_seconds=0.0))
    assert hasty.pareto_k == math.inf
    assert not hasty.sound
    far = Gaussian(np.array([9.0, 1.0, 0.0]), np.eye(3) * 1e-6)
    nothing = tempered(target, far, rng)
    assert nothing.log_evidence == -math.inf
    assert len(nothing.theta) == 0


def test_the_effective_share_of_islands(seed: int) -> None:
    """Islands whose means scatter by τ, of draws with the width one: v/var m of n draws is what they are worth."""
    rng, (islands, n, tau), even = np.random.default_rng(seed), (16, 50, 0.5), np.full(16, 1 / 16)
    noise = rng.standard_normal((200, islands, n, 6))
    offsets = tau * rng.standard_normal((200, islands, 1, 6))
    found = np.array([1 / _independent(x, even) for x in noise + offsets])
    assert_mean(found, (tau**2 + 1 / n) / (1 + tau**2) * n, 6.0)
    alone = np.array([1 / _independent(x, even) for x in noise])
    assert alone.min() == 1.0  # never more than all
    assert alone.mean() < 1.3
    # Weights that are not equal count: Σ S² of these is 4.3 times as large.
    uneven = np.append(0.5, np.full(15, 0.5 / 15))
    shared = np.array([1 / _independent(x, uneven) for x in noise + offsets])
    assert shared.mean() > 3 * found.mean()
    assert _independent(noise[0][:1], np.ones(1)) == 1.0


def test_means_scatter_as_the_effective_share_says(seed: int) -> None:
    """Over repeats; control: the weights of the islands alone promise far more."""
    target = Flat(observe(np.zeros((0, 3)), 1.0, seed, (MEDIUM,)), PRIOR, 1)
    start = Gaussian(np.array([2.47, 0.7, 0.0]), np.diag([0.05, 0.5, 0.5]) ** 2)
    options, repeats = Tempering(480, 16, 1), 40
    runs = [
        tempered(target, start, np.random.default_rng(seed + i), options) for i in range(repeats)
    ]
    draws = np.array([target.statistics.to_z(run.theta)[:, 0] for run in runs])  # (R, n, 3)
    weights = np.exp([run.log_weights for run in runs])
    means = np.einsum("rn,rnz->rz", weights, draws)
    spread = np.einsum("rn,rnz->rz", weights, (draws - means[:, None]) ** 2).mean(0)
    real = float(np.mean(means.var(0, ddof=1) / spread))  # one over the effective number
    stated = float(np.mean([1 / run.effective for run in runs]))
    plain = float(np.mean([(weight**2).sum() for weight in weights]))
    error = math.sqrt(2 / (repeats - 1) / 2)  # of ln real; three coordinates count for two
    assert_within(math.log(stated / real), 0.0, error, 4.0)
    with pytest.raises(AssertionError):
        assert_within(math.log(plain / real), 0.0, error, 4.0)
