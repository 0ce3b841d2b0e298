"""One tone more than draws of K − 1: against draws of the prior, where the data are too weak to say much."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from evidence_helpers import assert_weighted_means, prior_weighted
from scipy.special import i0e, logsumexp
from statistics_helpers import assert_within
from test_importance import observe
from tone_helpers import to_z

from slotflow import Grid, Prior
from slotflow.core.arrays import Array
from slotflow.exact.importance import Importance, importance_sample
from slotflow.exact.ledger import Ledger
from slotflow.exact.problem import Problem
from slotflow.exact.proposals.births import Amplitudes, Births, BirthTable
from slotflow.exact.proposals.growth import FewerTones, Growth
from slotflow.exact.proposals.surface import Surface, room_for_cells
from slotflow.exact.sampling import Sampler
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Statistics

GRIDS = (Grid(1000, 0.1), Grid(1000, 0.01))
"""The second stream cannot tell the tones of the band apart."""
PRIOR = Prior(
    k_min=0,
    k_max=4,
    amplitude=(0.05, 0.3),
    frequency=(2.4, 2.6),
    min_separation=0.02,
    sigma=(1.0, 4.0),
    amplitude_law="loguniform",
)
WEAK = np.array([[0.2, 1.0, 2.45], [0.15, 2.0, 2.52]])
BRUTE, MOST_BRUTE = 100_000, 2_000_000
"""Draws of the prior at a time, and at most."""


def grown(
    statistics: Statistics, k: int, rng: np.random.Generator, draws: int = 2000
) -> list[Importance]:
    """Results of the orders 0..k, each from the one below."""
    none = Target(statistics, PRIOR, 0)
    rss = np.full(2000, float(statistics.energy))
    log_z = float(none.log_likelihood(rss[:1])[0])
    results = [
        Importance(
            np.zeros((2000, 0, 3)), none.noise.sample(rss, rng), np.full(2000, -math.log(2000)), log_z,
            0.0, 1.0, 0.0, 1.0, 0.0, "analytic",
        )
    ]  # fmt: skip
    surface = Surface(none, none.noise.precision(float(statistics.energy)))
    for j in range(1, k + 1):
        proposal = Growth(surface, Target(statistics, PRIOR, j - 1), results[-1])
        result = importance_sample(Target(statistics, PRIOR, j), proposal, rng, draws=draws)
        results.append(proposal.carried(result))
    return results


def brute(statistics: Statistics, k: int, seed: int) -> tuple[Array, Array, float, float]:
    """Draws of the prior, their weights, ln Z and its error: as many as a signal whose noise has made tones needs."""
    target, parts, error = Target(statistics, PRIOR, k), [], math.inf
    while not error < 0.25 and len(parts) * BRUTE < MOST_BRUTE:
        parts.append(prior_weighted(target, BRUTE, seed + len(parts))[:3])
        log_w = np.concatenate([np.log(weights) + log_z for _, weights, log_z in parts])
        total = float(logsumexp(log_w))
        weights = np.exp(log_w - total)
        error = math.sqrt(float((weights**2).sum()))
    theta = np.concatenate([part[0] for part in parts])
    return theta, weights, total - math.log(len(parts)), error


def test_evidence_and_draws_are_those_of_the_prior_weighted(seed: int) -> None:
    statistics = observe(WEAK, 2.0, seed, GRIDS)
    results = grown(statistics, 3, np.random.default_rng(seed))
    for k in (1, 2, 3):
        result = results[k]
        theta, weights, log_z, error = brute(statistics, k, seed)
        assert error < 0.3
        assert result.ess > 0.3
        assert_within(result.log_evidence, log_z, math.hypot(error, result.log_evidence_error))
        # The mean of the largest amplitude and of the lowest frequency, in the errors of both.
        statistic = (lambda t: t[..., 0].max(-1), lambda t: t[..., 2].min(-1))
        assert_weighted_means(result, theta, weights, statistic)


def test_a_wrong_evidence_below_is_carried_up(seed: int) -> None:
    """Control: the density is normalized by the evidence of K − 1, and takes over its error."""
    statistics, rng = observe(WEAK, 2.0, seed, GRIDS), np.random.default_rng(seed)
    results = grown(statistics, 2, rng)
    wrong = replace(results[1], log_evidence=results[1].log_evidence + 1, log_evidence_error=0.2)
    target = Target(statistics, PRIOR, 1)
    proposal = Growth(Surface(target, 0.25), target, wrong)
    result = importance_sample(Target(statistics, PRIOR, 2), proposal, rng, draws=2000)
    assert result.log_evidence - results[2].log_evidence == pytest.approx(1, abs=0.3)
    assert proposal.carried(result).log_evidence_error > 0.2 > result.log_evidence_error


def test_stated_errors_are_the_scatter_of_repeats(seed: int) -> None:
    """Draws of K share those of all orders below; control: their weights alone make the error too small."""
    statistics, orders, repeats = observe(WEAK, 2.0, 3, GRIDS), (3, 4), 64
    found = [
        grown(statistics, 4, np.random.default_rng(seed + i), draws=300) for i in range(repeats)
    ]
    log_z = np.array([[r[k].log_evidence for k in orders] for r in found])
    stated = np.array([[r[k].log_evidence_error for k in orders] for r in found])
    alone = np.array(
        [[math.sqrt((1 / r[k].ess - 1) / len(r[k].log_weights)) for k in orders] for r in found]
    )
    scatter = math.sqrt(log_z.var(0, ddof=1).mean())
    # Errors of different K are nearly the same numbers: each repeat counts once.
    share = 1 / math.sqrt(2 * (repeats - 1))
    assert_within(math.log(math.sqrt((stated**2).mean()) / scatter), 0.0, share, 4.0)
    with pytest.raises(AssertionError):
        assert_within(math.log(math.sqrt((alone**2).mean()) / scatter), 0.0, share, 4.0)


def test_draws_know_their_parents(seed: int) -> None:
    statistics, rng = observe(WEAK, 2.0, seed, GRIDS), np.random.default_rng(seed)
    target, lower = Target(statistics, PRIOR, 2), grown(statistics, 2, rng)[2]
    proposal = Growth(Surface(target, 0.25), target, lower)
    theta = statistics.to_theta(proposal.sample(500, rng))
    parents = proposal.parents(theta)
    assert (parents >= 0).all()
    for mine, theirs in zip(theta[..., 2], lower.theta[parents][..., 2], strict=True):
        assert len(np.setdiff1d(mine, theirs)) == 1
    theta[:, 1, 2] += 1e-12  # the control: tones of somewhere else
    other = proposal.parents(theta)
    assert ((other == parents) | (other < 0)).all()
    assert 0.3 < (other < 0).mean() < 1


def test_free_tones_know_of_each_other(seed: int) -> None:
    """Free tones that are drawn independently do not share what the short stream sees, and lose draws to it."""
    statistics, rng = observe(np.zeros((0, 3)), 1.0, seed, GRIDS), np.random.default_rng(seed)
    result = grown(statistics, 3, rng)[3]
    nothing = np.zeros(0), np.zeros((0, 0))
    table = BirthTable(Target(statistics, PRIOR, 0), np.zeros((0, 3)), nothing[1])
    target = Target(statistics, PRIOR, 3)
    independent = importance_sample(target, Births(table, nothing, 3), rng, draws=8000)
    assert result.ess > 0.4
    assert result.ess > 1.5 * independent.ess


def test_the_density_with_one_tone_away(seed: int) -> None:
    """One quadratic form of K tones has the RSS of all K sets without one of them, whatever the amplitudes."""
    statistics, rng = observe(WEAK, 2.0, seed, GRIDS), np.random.default_rng(seed)
    theta = np.stack(
        [rng.uniform(0.05, 0.3, (50, 3)), rng.uniform(0, 6, (50, 3)), np.sort(rng.uniform(2.4, 2.6, (50, 3)))],
        -1,
    )  # fmt: skip
    z, target = statistics.to_z(theta), Target(statistics, PRIOR, 2)
    c = z[..., 1] + 1j * z[..., 2]
    scaled = c[:, None] * rng.uniform(0.5, 1.0, (50, 3, 1)) * ~np.eye(3, dtype=bool)  # (n, K, K)
    found = FewerTones(target, z[..., 0]).log_prob(scaled)
    for j in range(3):
        rest = np.delete(np.arange(3), j)
        base = z[:, rest].copy()
        base[..., 1], base[..., 2] = scaled[:, j, rest].real, scaled[:, j, rest].imag
        expected = target.log_prob(base)[0]
        assert np.isfinite(expected).any()
        np.testing.assert_allclose(found[:, j], expected, atol=1e-8)


@pytest.mark.parametrize(("amplitude", "sigma"), [((0.5, 1.5), 0.7), ((0.05, 1.5), 2.0)])
def test_cells_that_are_left_out_add_nothing(
    amplitude: tuple[float, float], sigma: float, seed: int
) -> None:
    prior = Prior(frequency=(2.3, 2.7), amplitude=amplitude, min_separation=0.01, sigma=(0.1, 3.0))
    theta = np.array([[1.0, 0.3, 2.45], [0.9, 1.0, 2.5]])
    statistics = observe(theta, sigma, seed, (Grid(1000, 0.1), Grid(640, 1 / 64)))
    target = Target(statistics, prior, 2)
    z = to_z(theta, statistics.reference)
    gaussian = target.gaussian(z)
    assert gaussian is not None
    table = BirthTable(target, z, gaussian[1])
    gain = table.amplitudes.log_gain(np.abs(table.filtered), table.left)
    f = table.low + table.width * (np.arange(table.cells) + 0.5)
    room = prior.min_separation - 4 * np.sqrt(np.diag(gaussian[1])[::3]) - table.width
    gain[(np.abs(f[:, None] - z[:, 0]) < room).any(-1)] = -np.inf
    assert table.log_gain == pytest.approx(logsumexp(gain) - math.log(gain.size), abs=1e-10)
    mass = np.exp(gain - gain.max())
    mass = 0.9 * mass / mass.sum() + 0.1 / table.cells
    np.testing.assert_allclose(table.log_mass, np.log(mass / table.width), atol=1e-10)
    kept, _ = table._gains(np.arange(table.cells), np.abs(table.filtered), table.left)
    if amplitude[0] == 0.5:
        assert len(kept) < table.cells / 2


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
@pytest.mark.parametrize(
    "bounds", [(0.05, 1.5), (0.5, 1.5), (20.0, 30.0), (1e-3, 1e3), (1e-2, 1e6)]
)
def test_an_amplitude_is_found_in_a_prior_of_any_width(
    bounds: tuple[float, float], law: str, seed: int
) -> None:
    """What a tone adds to the evidence, by quadrature; 48 cells of the prior are too wide for it."""
    low, high = bounds
    precision, rng = 4.0, np.random.default_rng(seed)
    amplitudes = Amplitudes(Prior(amplitude=bounds, amplitude_law=law), precision)
    left = np.exp(rng.uniform(3, 7, 40))
    slope = left * np.append(rng.uniform(0, 3, 20), rng.uniform(0, 0.1, 20))
    found, bound = amplitudes.log_gain(slope, left), amplitudes.log_bound(slope, left)
    missed = 0
    for m, nu, gain, most in zip(slope, left, found, bound, strict=True):

        def log_likelihood(a: np.ndarray, m: float = m, nu: float = nu) -> np.ndarray:
            x = precision * m * a
            return np.log(i0e(x)) + x - 0.5 * precision * nu * a**2

        scale = 1 / (
            math.sqrt(precision * nu) + precision * abs(nu * np.clip(m / nu, low, high) - m)
        )
        around = np.clip(m / nu, low, high) + scale * np.linspace(-40, 40, 20_001)
        fine = np.unique(np.clip(np.append(around, np.geomspace(low, high, 4001)), low, high))
        middle, density = 0.5 * (fine[1:] + fine[:-1]), 1 / (high - low)
        if law == "loguniform":
            density = 1 / (middle * math.log(high / low))
        expected = logsumexp(log_likelihood(middle) + np.log(np.diff(fine) * density))
        assert gain == pytest.approx(expected, abs=0.02)
        assert gain < most + 1e-9
        spaced = np.geomspace if law == "loguniform" else np.linspace
        edge = spaced(low, high, 49)
        coarse = logsumexp(log_likelihood(0.5 * (edge[1:] + edge[:-1]))) - math.log(48)
        missed += abs(coarse - expected) > 1
    assert missed >= 3  # the control


def test_many_undetected_tones(seed: int) -> None:
    """Every order of a weak signal is grown, and two runs agree within the errors that they state."""
    statistics = observe(WEAK, 2.0, seed, GRIDS)
    runs = [
        across_orders(statistics, PRIOR, draws=1000, rng=np.random.default_rng(seed + i))
        for i in range(2)
    ]
    for k in range(1, 5):
        errors = [r.log_evidence_error[k] for r in runs]
        assert all(r.methods[k] == "importance" for r in runs)
        assert max(errors) < 0.15
        assert_within(runs[0].log_evidence[k], runs[1].log_evidence[k], math.hypot(*errors))
    assert all(r.k_error < 0.05 for r in runs)


def test_an_unlikely_order_begins_with_fewer_draws(seed: int) -> None:
    """Of noise alone the orders above are ever less probable; a share of 5 % or more has all draws."""
    statistics = observe(np.zeros((0, 3)), 2.0, seed, GRIDS)
    found = across_orders(statistics, PRIOR, draws=2000, rng=np.random.default_rng(seed))
    drawn = {k: len(result.log_weights) for k, result in found.results.items()}
    assert all(drawn[k] >= 2000 for k in drawn if found.k_probs[k] > 0.05)
    assert min(drawn.values()) >= 500
    assert found.k_error < 0.05


def test_an_error_that_was_taken_over_may_be_larger() -> None:
    statistics = observe(WEAK, 2.0, 0, GRIDS)
    problem = Problem(statistics, PRIOR)
    sampler, result = Sampler(problem, Ledger(PRIOR)), grown(statistics, 1, problem.rng)[1]
    for error, own, inherited in ((0.05, True, True), (0.12, False, True), (0.2, False, False)):
        one = replace(result, log_evidence_error=error)
        assert sampler._enough(one, one.log_evidence) is own
        assert sampler._enough(one, one.log_evidence, grown=True) is inherited


def test_the_band_must_be_short() -> None:
    statistics = observe(WEAK, 2.0, 0, (Grid(3000, 0.1),))
    wide = Prior(frequency=(0.5, 4.5), k_max=2)
    assert room_for_cells(Target(statistics, PRIOR, 1))
    assert not room_for_cells(Target(statistics, wide, 1))
