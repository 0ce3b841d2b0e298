"""The posterior: densities that integrate to one, draws that follow them, summaries and files."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from flow_helpers import gaussian_flow, perturb
from numpy.typing import NDArray
from scipy import stats
from statistics_helpers import assert_mean, assert_within

import slotflow.network.paper.densities as module
from slotflow import Observation, Posterior, Prior, SlotFlow, simulate
from slotflow.network.paper.densities import MASS_DRAWS, PaperSlotDensities
from slotflow.network.paper.target import CircleTarget
from slotflow.posterior.summaries import correlation
from slotflow.posterior.tuples import log_permanent

Array = NDArray[np.float64]

PRIOR = Prior(k_max=3)
TARGET = CircleTarget(phase_weight=2.0, frequency_weight=3.0, centre=2.75)
OBSERVATION = Observation.from_arrays(np.zeros(16), 0.1)
WIDTH = 5
MEAN, SD = (1.0, 1.2, 1.6, 0.15), (0.35, 0.3, 0.4, 0.3)  # of A, 2 cos φ, 2 sin φ, 3 (f − 2.75)


def flow_slots(seed: int, mean: tuple[float, ...] = MEAN, std: float = 0.05) -> PaperSlotDensities:
    """Slots of a hand-made Gaussian flow, bent by random weights unless std is 0."""
    flow = gaussian_flow(mean, SD, WIDTH + PRIOR.k_max)
    if std:
        perturb(flow, seed, std)
    context = torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed)).double()
    return PaperSlotDensities(flow, TARGET, context, PRIOR)


def posterior(slots: module.Slots, k_probs: list[float] | None = None) -> Posterior:
    return Posterior(k_probs or [0.0, 0.5, 0.3, 0.2], slots, OBSERVATION, 0.1, None, method="test")


class FakeSlots:
    """Independent slots with laws that we know: normal A and f, wrapped normal φ."""

    k_max = 3
    centre = np.array([[1.0, 0.02, 2.9], [2.0, 3.0, 2.6], [0.7, 6.2, 2.75]])
    spread = np.array([[0.1, 0.2, 0.01], [0.2, 0.1, 0.02], [0.05, 0.3, 0.005]])

    def sample(self, n: int, k: int, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        theta = self.centre[:k] + self.spread[:k] * rng.normal(size=(n, k, 3))
        theta[..., 1] %= 2 * np.pi
        return theta

    def log_prob(self, theta: Array) -> Array:
        k = theta.shape[1]
        turn = 2 * np.pi * np.arange(-3, 4)
        x = theta[:, None]  # (n, 1, j, 3)
        at, sd = self.centre[:k, None], self.spread[:k, None]  # (i, 1, 3)
        density = stats.norm.pdf(x[..., 0], at[..., 0], sd[..., 0])
        density = density * stats.norm.pdf(x[..., 2], at[..., 2], sd[..., 2])
        phases = x[..., 1, None] + turn
        density = density * stats.norm.pdf(phases, at[..., 1, None], sd[..., 1, None]).sum(-1)
        with np.errstate(divide="ignore"):
            return np.log(density)

    def constrained_fraction(self, k: int) -> float:
        return 0.0


# ---------------------------------------------------------------- the permanent


def brute_permanent(log_matrix: Array) -> Array:
    k = log_matrix.shape[1]
    terms = [log_matrix[:, list(p), range(k)].sum(axis=1) for p in itertools.permutations(range(k))]
    return np.logaddexp.reduce(np.array(terms), axis=0)


@pytest.mark.parametrize("k", range(1, 7))
def test_log_permanent_equals_brute_force(k: int, seed: int) -> None:
    log_matrix = 3 * np.random.default_rng(seed).normal(size=(8, k, k))
    np.testing.assert_allclose(log_permanent(log_matrix), brute_permanent(log_matrix), rtol=1e-12)


@pytest.mark.parametrize("shift", [-1e5, 1e5])
def test_log_permanent_is_stable_far_from_zero(shift: float, seed: int) -> None:
    log_matrix = np.random.default_rng(seed).normal(size=(4, 5, 5))
    expected = brute_permanent(log_matrix) + 5 * shift
    np.testing.assert_allclose(log_permanent(log_matrix + shift), expected, rtol=1e-12)


def test_log_permanent_with_impossible_pairs(seed: int) -> None:
    log_matrix = np.random.default_rng(seed).normal(size=(1, 4, 4))
    log_matrix[0, ~np.eye(4, dtype=bool)] = -np.inf
    assert log_permanent(log_matrix)[0] == pytest.approx(np.trace(log_matrix[0]))
    log_matrix[0, 2, 2] = -np.inf
    assert log_permanent(log_matrix)[0] == -np.inf
    assert log_permanent(np.full((2, 3, 3), -np.inf)).tolist() == [-np.inf, -np.inf]


def test_log_permanent_of_nothing_and_of_ones() -> None:
    assert log_permanent(np.zeros((3, 0, 0))).tolist() == [0.0, 0.0, 0.0]
    assert log_permanent(np.zeros((1, 10, 10)))[0] == pytest.approx(math.lgamma(11))


# ---------------------------------------------------------------- log_prob: identities


@pytest.mark.parametrize("k", [1, 2, 3])
def test_theorem_4_1_log_prob_ignores_the_order(k: int, seed: int) -> None:
    slots = flow_slots(seed)
    post = posterior(slots)
    theta = post.sample(40, k, seed)
    base = post.log_prob(theta)
    assert np.isfinite(base).all()
    for permutation in itertools.permutations(range(k)):
        moved = post.log_prob(theta[:, list(permutation)])
        np.testing.assert_allclose(moved, base, rtol=0, atol=1e-9)
    if k > 1:  # the control: one slot per component, without symmetrization, does notice
        alone = np.trace(slots.log_prob(theta), axis1=1, axis2=2)
        swapped = np.trace(slots.log_prob(theta[:, ::-1]), axis1=1, axis2=2)
        assert np.abs(alone - swapped).max() > 0.01


def test_log_prob_of_a_trained_network_ignores_the_order(debug_model: SlotFlow, seed: int) -> None:
    config = debug_model.config
    sim = simulate(config.prior, 1, config.long, config.short, seed=seed)
    post = debug_model.infer(sim.observation(0), refine=False)
    theta = post.sample(10, 3, seed)
    base = post.log_prob(theta)
    for permutation in itertools.permutations(range(3)):
        moved = post.log_prob(theta[:, list(permutation)])
        np.testing.assert_allclose(moved, base, rtol=0, atol=1e-4)  # float32


def test_log_prob_equals_its_formula(seed: int) -> None:
    post, slots = posterior(FakeSlots()), FakeSlots()
    theta = slots.sample(20, 3, seed)
    q = np.exp(slots.log_prob(theta))  # (n, slot, component)
    total = sum(
        q[:, p[0], 0] * q[:, p[1], 1] * q[:, p[2], 2] for p in itertools.permutations(range(3))
    )
    np.testing.assert_allclose(post.log_prob(theta), np.log(0.2 * total / 6), atol=1e-10)


def test_log_prob_of_the_exact_gaussian_flow(seed: int) -> None:
    """A and f are truncated normals, φ a projected normal whose density is known in closed form."""
    slots = flow_slots(seed, mean=(1.0, 0.0, 0.0, 0.15), std=0.0)
    slots.flow = gaussian_flow((1.0, 0.0, 0.0, 0.15), (0.35, 0.5, 0.5, 0.3), WIDTH + 3)
    post = posterior(slots)
    theta = post.sample(50, 1, seed)
    mass_a = stats.norm.sf(0, 1.0, 0.35)
    band = stats.norm(2.75 + 0.15 / 3, 0.3 / 3)
    mass_f = band.cdf(3.0) - band.cdf(2.5)
    expected = (
        math.log(0.5)
        + stats.norm.logpdf(theta[:, 0, 0], 1.0, 0.35)
        - math.log(2 * math.pi)  # centred and isotropic: φ is uniform
        + band.logpdf(theta[:, 0, 2])
        - math.log(mass_a * mass_f)
    )
    p = mass_a * mass_f
    mass_error = math.sqrt((1 - p) / (p * MASS_DRAWS))
    assert_within(post.log_prob(theta), expected, mass_error + 2e-4)


def test_log_prob_shapes_and_modulo(seed: int) -> None:
    post = posterior(flow_slots(seed))
    theta = post.sample(4, 2, seed)
    many = post.log_prob(theta)
    assert isinstance(many, np.ndarray) and many.shape == (4,)
    one = post.log_prob(theta[0])
    assert isinstance(one, float) and one == pytest.approx(many[0], abs=1e-10)
    turned = theta + np.array([0.0, 2 * np.pi, 0.0])
    np.testing.assert_allclose(post.log_prob(turned), many, atol=1e-9)
    assert post.log_prob(np.zeros((0, 2, 3))).shape == (0,)
    assert post.log_prob(theta.tolist()).tolist() == many.tolist()
    backwards = theta[::-1]
    backwards.flags.writeable = False
    np.testing.assert_allclose(post.log_prob(backwards)[::-1], many, atol=1e-10)


def test_log_prob_outside_the_constraints_is_minus_infinity(seed: int) -> None:
    post = posterior(flow_slots(seed))
    inside = post.sample(1, 2, seed)[0]
    for change in ([-1.0, None, None], [0.0, None, None], [None, None, 2.4], [None, None, 3.1]):
        theta = inside.copy()
        theta[1] = [old if new is None else new for old, new in zip(theta[1], change, strict=True)]
        assert post.log_prob(theta) == -math.inf


def test_log_prob_includes_q_of_k(seed: int) -> None:
    slots = flow_slots(seed)
    theta = slots.sample(5, 2, seed)
    one, two = posterior(slots, [0, 0.5, 0.3, 0.2]), posterior(slots, [0, 0.1, 0.9, 0.0])
    np.testing.assert_allclose(two.log_prob(theta) - one.log_prob(theta), math.log(3), atol=1e-10)
    assert (two.log_prob(slots.sample(5, 3, seed)) == -np.inf).all()
    assert one.log_prob(np.zeros((0, 3))) == -math.inf
    assert posterior(slots, [0.25, 0.75, 0, 0]).log_prob(np.zeros((0, 3))) == math.log(0.25)


def test_log_prob_in_pieces_equals_whole(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    post = posterior(flow_slots(seed))
    theta = post.sample(23, 2, seed)
    whole = post.log_prob(theta)
    monkeypatch.setattr(module, "MAX_ROWS", 2000)
    np.testing.assert_allclose(post.log_prob(theta), whole, atol=1e-10)
    monkeypatch.setattr(module, "MAX_ROWS", 7)
    assert post.sample(23, 2, seed).shape == (23, 2, 3)


# ---------------------------------------------------------------- log_prob: integrals


class Histogram:
    """A proposal for one component: product of the marginal histograms of draws, mixed with a flat density."""

    def __init__(self, draws: Array, prior: Prior) -> None:
        top = 1.3 * draws[:, 0].max()
        ranges = [(0.0, top), (0.0, 2 * np.pi), prior.frequency]
        self.edges = [np.linspace(*r, 41) for r in ranges]
        self.probs = []
        for i, edges in enumerate(self.edges):
            counts = np.histogram(draws[:, i], edges)[0]
            self.probs.append(0.85 * counts / counts.sum() + 0.15 / counts.size)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        columns = []
        for edges, probs in zip(self.edges, self.probs, strict=True):
            cell = rng.choice(probs.size, n, p=probs)
            columns.append(edges[cell] + rng.random(n) * (edges[1] - edges[0]))
        return np.stack(columns, axis=-1)

    def density(self, theta: Array) -> Array:
        total = np.ones(theta.shape[:-1])
        for i, (edges, probs) in enumerate(zip(self.edges, self.probs, strict=True)):
            width = edges[1] - edges[0]
            cell = np.floor((theta[..., i] - edges[0]) / width).astype(int)
            known = (cell >= 0) & (cell < probs.size)
            total *= np.where(known, probs[np.clip(cell, 0, probs.size - 1)] / width, 0.0)
        return total


def importance(post: Posterior, k: int, n: int, seed: int, prior: Prior) -> tuple[Array, Array]:
    """Proposals of labelled tuples, (n, k, 3), and weights q(K, Θ) / proposal, (n,); k is 1 or 2."""
    rng = np.random.default_rng(seed)
    draws = post.sample(4000, k, seed + 1)
    proposals = [Histogram(draws[:, i], prior) for i in range(k)]
    theta = np.stack([h.sample(n, rng) for h in proposals], axis=1)
    density = np.prod([h.density(theta[:, i]) for i, h in enumerate(proposals)], axis=0)
    if k == 2:  # either labelling with probability one half
        crossed = proposals[0].density(theta[:, 1]) * proposals[1].density(theta[:, 0])
        density = (density + crossed) / 2
        swap = rng.random(n) < 0.5
        theta[swap] = theta[swap, ::-1]
    return theta, np.exp(post.log_prob(theta)) / density


def mass_error(post: Posterior, k: int) -> float:
    """Relative error of the density through its estimated mass inside the constraints."""
    p = 1 - post.constrained_fraction(k)
    return math.sqrt(k * (1 - p) / (p * MASS_DRAWS))


def assert_integral(weights: Array, expected: float, relative_error: float) -> None:
    error = math.hypot(weights.std() / math.sqrt(weights.size), expected * relative_error)
    assert error < 0.05 * expected, "the proposal is too poor to decide anything"
    assert_within(weights.mean(), expected, error)


SIZES = {1: 6000, 2: 3000}


@pytest.mark.parametrize("k", [1, 2])
def test_density_integrates_to_q_of_k_and_draws_follow_it(k: int, seed: int) -> None:
    post = posterior(flow_slots(seed))
    theta, weights = importance(post, k, SIZES[k], seed, PRIOR)
    assert_integral(weights, post.k_probs[k], mass_error(post, k))
    # The control: a factor 2, such as a forgotten 1/2!, is seen.
    with pytest.raises(AssertionError, match="outside 5 standard errors"):
        assert_integral(weights, 2 * post.k_probs[k], mass_error(post, k))

    draws = post.sample(20_000, k, seed + 2)
    for statistic in (
        lambda t: t[..., 0].sum(-1),
        lambda t: np.cos(t[..., 1]).sum(-1),
        lambda t: np.sin(t[..., 1]).sum(-1),
        lambda t: (t[..., 2] - 2.75).sum(-1),
        lambda t: ((t[..., 2] - 2.75) ** 2).sum(-1),
        lambda t: (t[..., 0] * np.cos(t[..., 1])).sum(-1),
        lambda t: np.abs(t[:, 0] - t[:, -1]).sum(-1),
    ):
        values, drawn = statistic(theta), statistic(draws)
        mean = (weights * values).sum() / weights.sum()  # free of the mass's error
        error = (weights * (values - mean)).std() / weights.mean() / math.sqrt(weights.size)
        assert_within(mean, drawn.mean(), math.hypot(error, drawn.std() / math.sqrt(drawn.size)))


def test_integral_notices_a_missing_radial_jacobian(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rule = CircleTarget.radial_rule

    def bare(self: CircleTarget, draws: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        radii, weights = rule(self, draws)
        return radii, torch.where(radii > 0, weights / radii, 0.0)

    monkeypatch.setattr(CircleTarget, "radial_rule", bare)
    post = posterior(flow_slots(seed))
    _, weights = importance(post, 1, 4000, seed, PRIOR)
    with pytest.raises(AssertionError, match="outside 5 standard errors"):
        assert_integral(weights, post.k_probs[1], mass_error(post, 1))


def test_trained_network_integrates_to_q_of_k(debug_model: SlotFlow, seed: int) -> None:
    config = debug_model.config
    sim = simulate(config.prior, 1, config.long, config.short, seed=seed, k=1)
    post = debug_model.infer(sim.observation(0), k_prior={1: 1, 2: 1}, refine=False)
    _, weights = importance(post, 1, 4000, seed, config.prior)
    assert_integral(weights, post.k_probs[1], mass_error(post, 1) + 2e-3)


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_sample_shapes_and_constraints(k: int, seed: int) -> None:
    draws = posterior(flow_slots(seed)).sample(3000, k, seed)
    assert draws.shape == (3000, k, 3) and draws.dtype == np.float64
    assert (draws[..., 0] > 0).all()
    assert ((draws[..., 1] >= 0) & (draws[..., 1] < 2 * np.pi)).all()
    assert ((draws[..., 2] >= 2.5) & (draws[..., 2] <= 3.0)).all()


def test_sample_seeds_and_default_k(seed: int) -> None:
    post = posterior(flow_slots(seed), [0, 0.2, 0.7, 0.1])
    assert post.k_map == 2
    assert np.array_equal(post.sample(10), post.sample(10, k=2, seed=0))
    assert np.array_equal(post.sample(10, seed=5), post.sample(10, seed=5))
    assert not np.array_equal(post.sample(10, seed=5), post.sample(10, seed=6))
    assert post.sample(0).shape == (0, 2, 3)


def test_sample_follows_known_truncated_laws(seed: int) -> None:
    draws = posterior(flow_slots(seed, std=0.0)).sample(5000, 2, seed)
    low, high = (2.5 - 2.8) / 0.1, (3.0 - 2.8) / 0.1
    for i in range(2):
        a = stats.truncnorm(-1.0 / 0.35, np.inf, 1.0, 0.35)
        f = stats.truncnorm(low, high, 2.8, 0.1)
        assert stats.kstest(draws[:, i, 0], a.cdf).pvalue > 1e-6
        assert stats.kstest(draws[:, i, 2], f.cdf).pvalue > 1e-6
    assert_mean(draws[:, 0, 2] * draws[:, 1, 2], f.mean() ** 2)  # slots are independent


@pytest.mark.parametrize("k", [0, 1, 3])
def test_constrained_fraction_of_a_known_flow(k: int, seed: int) -> None:
    post = posterior(flow_slots(seed, std=0.0))
    inside = stats.norm.sf(0, 1.0, 0.35) * np.diff(stats.norm(2.8, 0.1).cdf([2.5, 3.0]))[0]
    fraction = post.constrained_fraction(k)
    if k == 0:
        assert fraction == 0.0
        return
    error = math.sqrt(inside * (1 - inside) / (k * MASS_DRAWS))
    assert_within(fraction, 1 - inside, error)
    assert fraction == post.constrained_fraction(k)


def test_constrained_fraction_is_a_share(seed: int) -> None:
    post = posterior(flow_slots(seed))
    assert post.constrained_fraction() == post.constrained_fraction(post.k_map)
    for k in range(4):
        assert 0 <= post.constrained_fraction(k) <= 1


def test_unreachable_constraints_are_an_error(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(module, "MAX_REDRAWS", 5)
    post = posterior(flow_slots(seed, mean=(-50.0, 1.2, 1.6, 0.15), std=0.0))
    assert post.constrained_fraction(1) == 1.0
    with pytest.raises(ValueError, match=r"slot 0 .*next to no mass"):
        post.sample(3, 1)
    with pytest.raises(ValueError, match=r"slot 0 .*next to no mass"):
        post.log_prob([[1.0, 1.0, 2.75]])


def test_posterior_outlives_a_change_of_the_models_type(seed: int) -> None:
    slots = flow_slots(seed)
    post = posterior(slots)
    before = post.log_prob(post.sample(5, 2, seed))
    slots.flow.float()
    draws = post.sample(5, 2, seed)
    assert np.isfinite(draws).all() and np.isfinite(post.log_prob(draws)).all()
    slots.flow.double()
    np.testing.assert_allclose(post.log_prob(post.sample(5, 2, seed)), before, atol=1e-3)


# ---------------------------------------------------------------- draws over K


def test_sample_joint(seed: int) -> None:
    k_probs = np.array([0.1, 0.4, 0.0, 0.5])
    post, n = posterior(FakeSlots(), k_probs.tolist()), 20_000
    theta, k = post.sample_joint(n, seed)
    assert theta.shape == (n, 3, 3) and k.shape == (n,) and k.dtype == np.int64
    present = np.arange(3) < k[:, None]
    assert np.array_equal(np.isnan(theta), np.repeat(~present[..., None], 3, axis=2))
    shares = np.bincount(k, minlength=4) / n
    assert_within(shares, k_probs, np.sqrt(k_probs * (1 - k_probs) / n))
    for slot in range(3):
        drawn = theta[k > slot, slot]
        assert_mean(drawn[:, [0, 2]], FakeSlots.centre[slot, [0, 2]])


def test_sample_joint_seeds_and_empty() -> None:
    post = posterior(FakeSlots())
    for a, b in zip(post.sample_joint(50, 3), post.sample_joint(50, 3), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(post.sample_joint(50, 3)[1], post.sample_joint(50, 4)[1])
    theta, k = post.sample_joint(0)
    assert theta.shape == (0, 3, 3) and k.shape == (0,)


def test_sample_joint_of_different_k_is_independent() -> None:
    """Groups of equal K must not repeat one another's random numbers."""
    theta, k = posterior(FakeSlots(), [0, 0.5, 0.5, 0]).sample_joint(1000, 0)
    one, two = theta[k == 1, 0, 0], theta[k == 2, 0, 0]
    assert len(np.intersect1d(one, two)) == 0


# ---------------------------------------------------------------- summary

COLUMNS = (
    ["slot", "existence"]
    + [
        f"{name}_{what}"
        for name in ("amplitude", "phase", "frequency")
        for what in ("median", "sd", "q05", "q95")
    ]
    + ["verdict"]
)


def test_correlations_of_known_laws(seed: int) -> None:
    """Independent slots have none; rows follow the frequencies, and a phase across 0 does no harm."""
    n = 10_000
    matrix = posterior(FakeSlots()).correlation(k=3, n=n, seed=seed)
    assert matrix.shape == (9, 9)
    assert np.abs(matrix - np.eye(9)).max() < 5 / np.sqrt(n)
    assert posterior(FakeSlots()).correlation(k=0).shape == (0, 0)
    with pytest.raises(ValueError, match="n >= 2"):
        posterior(FakeSlots()).correlation(k=1, n=1)
    draws = np.random.default_rng(seed).normal(scale=0.1, size=(n, 2, 3))
    draws[:, 0, 1] = draws[:, 1, 0]  # the phase of one is the amplitude of the other
    draws[..., 1] %= 2 * np.pi
    draws[..., 2] += [3.0, 2.0]
    assert correlation(draws)[4, 0] == pytest.approx(1)
    assert abs(correlation(draws)[3, 1]) < 5 / np.sqrt(n)


def test_summary_of_known_laws(seed: int) -> None:
    n = 20_000
    frame = posterior(FakeSlots()).summary(k=3, n=n, seed=seed)
    assert list(frame.columns) == COLUMNS
    assert frame.index.tolist() == [1, 2, 3] and frame.index.name == "component"
    assert frame["slot"].tolist() == [1, 2, 0]  # by frequency
    # K = 1 holds the third of them, K = 2 the first and the third, K = 3 all.
    np.testing.assert_allclose(frame["existence"], [0.5, 0.2, 1.0])
    centre, spread = FakeSlots.centre[[1, 2, 0]], FakeSlots.spread[[1, 2, 0]]
    wrapped = lambda x: (x + np.pi) % (2 * np.pi) - np.pi  # noqa: E731
    tail = stats.norm.ppf(0.95)
    for i, name in enumerate(("amplitude", "phase", "frequency")):
        error = spread[:, i] / math.sqrt(n)
        for what, offset, factor in (("median", 0, 1.26), ("q05", -tail, 2.2), ("q95", tail, 2.2)):
            values = frame[f"{name}_{what}"].to_numpy()
            difference = values - centre[:, i] - offset * spread[:, i]
            if name == "phase":
                difference = wrapped(difference)
                assert ((values >= 0) & (values < 2 * np.pi)).all()
            assert_within(difference, 0.0, factor * error)
        assert_within(frame[f"{name}_sd"].to_numpy(), spread[:, i], error)


def test_summary_of_a_phase_across_zero(seed: int) -> None:
    """Half of the draws lie just above 0 and half just below 2π: a plain median would say π."""
    frame = posterior(FakeSlots()).summary(k=1, n=4000, seed=seed)
    draws = FakeSlots().sample(4000, 1, seed)[:, 0, 1]
    assert draws.std() > 1.5
    row = frame.loc[1]
    assert row["phase_sd"] == pytest.approx(0.2, rel=0.1)
    assert min(row["phase_median"], 2 * np.pi - row["phase_median"]) < 0.1
    assert row["phase_q05"] == pytest.approx(2 * np.pi + 0.02 - 0.2 * 1.645, abs=0.05)
    assert row["phase_q95"] == pytest.approx(0.02 + 0.2 * 1.645, abs=0.05)
    assert row["phase_q05"] > row["phase_q95"]


def test_summary_defaults_and_empty() -> None:
    post = posterior(FakeSlots(), [0, 0.1, 0.8, 0.1])
    assert len(post.summary()) == 2
    assert post.summary().equals(post.summary(k=2, n=2000, seed=0))
    assert "upper_limit" not in post.summary().attrs
    empty = post.summary(k=0)
    assert len(empty) == 0 and list(empty.columns) == COLUMNS
    with pytest.raises(ValueError, match="n >= 1 draws, received 0"):
        post.summary(n=0)


# ---------------------------------------------------------------- the rest


def test_properties() -> None:
    post = posterior(FakeSlots(), [0, 0.2, 0.3, 0.5])
    assert (post.k_map, post.k_max) == (3, 3)
    assert post.k_probs.dtype == np.float64
    assert (post.noise_std, post.noise_std_error) == (0.1, None)
    assert post.observation is OBSERVATION
    assert "k_map=3" in repr(post) and "test" in repr(post)


@pytest.mark.parametrize("k", [-1, 4, 1.5, "2"])
def test_k_out_of_range_is_refused(k: object) -> None:
    post = posterior(FakeSlots())
    for call in (
        lambda: post.sample(3, k=k),
        lambda: post.summary(k=k),
        lambda: post.constrained_fraction(k),
    ):
        with pytest.raises(ValueError, match=r"expected .*0\.\.3, received"):
            call()


def test_bad_theta_and_bad_n_are_refused() -> None:
    post = posterior(FakeSlots())
    for shape in ((3,), (2, 2), (1, 1, 1, 3), (2, 4)):
        with pytest.raises(ValueError, match=r"expects theta as .* received"):
            post.log_prob(np.zeros(shape))
    with pytest.raises(ValueError, match=r"0\.\.3, received 4"):
        post.log_prob(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="n >= 0 of draws, received -1"):
        post.sample(-1)
    with pytest.raises(ValueError, match="n >= 0 of draws, received -1"):
        post.sample_joint(-1)
