"""The prior: support, exact K, uniformity over the allowed set, and densities that integrate to one."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from statistics_helpers import assert_mean, assert_same_law, assert_within

from slotflow import Prior
from slotflow.signal.prior import batch_of
from slotflow.signal.prior_batch import PriorBatch
from slotflow.signal.waveforms import TONE

Array = NDArray[np.float64]


def draw(prior: Prior, k: int, n: int, seed: int) -> torch.Tensor:
    """n draws of Θ with k components each, (n, k_max, 3)."""
    generator = torch.Generator().manual_seed(seed)
    return prior.sample_theta(torch.full((n,), k), generator)


# ---------------------------------------------------------------------- draws


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
@pytest.mark.parametrize("separation", [0.0, 0.01, 0.05])
def test_draws_lie_in_the_support(law: str, separation: float, seed: int):
    prior = Prior(min_separation=separation, amplitude_law=law)
    generator = torch.Generator().manual_seed(seed)
    k = prior.sample_k(2000, generator)
    theta = prior.sample_theta(k, generator)
    assert theta.shape == (2000, 10, 3) and theta.dtype == torch.float64
    present = torch.arange(10) < k[:, None]
    assert torch.all(theta[~present] == 0)
    amplitude, phase, frequency = theta[present].unbind(-1)
    assert amplitude.min() >= 0.5 and amplitude.max() <= 1.5
    assert phase.min() >= 0 and phase.max() < 2 * math.pi
    assert frequency.min() >= 2.5 and frequency.max() <= 3.0
    for i in range(200):
        own = theta[i, : k[i]]
        gaps = own[:, 2].diff()
        assert torch.all(gaps >= separation) and torch.all(gaps > 0)
        assert torch.isfinite(prior.log_prob_theta(own))


@pytest.mark.parametrize("room", [1e-1, 1e-3, 1e-6])
def test_exact_k_at_the_packing_limit(room: float, seed: int):
    prior = Prior(k_max=10, min_separation=(0.5 - room) / 9)
    theta = draw(prior, 10, 5000, seed)
    frequency = theta[..., 2]
    assert torch.all(theta[..., 0] >= 0.5), "a component is missing"
    assert torch.all(frequency.diff(dim=1) >= prior.min_separation - 1e-14)
    assert frequency.min() >= 2.5 and frequency.max() <= 3.0 + 1e-14
    # The first frequency fills the room that is left, as the smallest of ten uniforms does.
    assert_mean((frequency[:, 0] - 2.5) / room, 1 / 11)


@pytest.mark.parametrize("k", range(11))
def test_every_k_is_exact(k: int, seed: int):
    theta = draw(Prior(), k, 100, seed)
    assert torch.all((theta[..., 0] > 0).sum(dim=1) == k)


def by_rejection(prior: Prior, k: int, n: int, rng: np.random.Generator) -> Array:
    """Sorted frequencies, (n, k), by the definition: uniform on the band, kept if far enough apart."""
    kept: list[Array] = []
    while sum(map(len, kept)) < n:
        f = np.sort(rng.uniform(*prior.frequency, size=(n, k)), axis=1)
        kept.append(f[np.all(np.diff(f, axis=1) >= prior.min_separation, axis=1)])
    return np.concatenate(kept)[:n]


def by_pushing_apart(prior: Prior, k: int, n: int, rng: np.random.Generator) -> Array:
    """A wrong sampler: neighbours that are too close are moved to the smallest distance."""
    f = np.sort(rng.uniform(*prior.frequency, size=(n, k)), axis=1)
    for i in range(1, k):
        f[:, i] = np.maximum(f[:, i], f[:, i - 1] + prior.min_separation)
    return f


def by_full_band(prior: Prior, k: int, n: int, rng: np.random.Generator) -> Array:
    """A wrong sampler: the gaps are added to uniforms on the whole band, then squeezed back into it."""
    lo, hi = prior.frequency
    gaps = prior.min_separation * np.arange(k)
    f = np.sort(rng.uniform(lo, hi, size=(n, k)), axis=1) + gaps
    return lo + (f - lo) * (hi - lo) / (hi - lo + gaps[-1])


def by_prior(prior: Prior, k: int, n: int, rng: np.random.Generator) -> Array:
    """The sampler under test."""
    return draw(prior, k, n, int(rng.integers(2**31)))[:, :k, 2].numpy()


def check_uniform(sampler: Callable[..., Array], k: int, seed: int) -> None:
    """Compares a sampler with rejection: each order statistic, each gap, and second moments."""
    prior = Prior(k_max=k, min_separation=0.1)
    rng = np.random.default_rng(seed)
    a, b = sampler(prior, k, 20_000, rng), by_rejection(prior, k, 20_000, rng)
    for i in range(k):
        assert_same_law(a[:, i], b[:, i])
    for i in range(k - 1):
        assert_same_law(a[:, i + 1] - a[:, i], b[:, i + 1] - b[:, i])
    for i, j in itertools.combinations_with_replacement(range(k), 2):
        x, y = a[:, i] * a[:, j], b[:, i] * b[:, j]
        assert_within(x.mean(), y.mean(), math.hypot(x.std(), y.std()) / math.sqrt(len(x)))


@pytest.mark.parametrize("k", [2, 3])
def test_frequencies_are_uniform_over_the_allowed_set(k: int, seed: int):
    check_uniform(by_prior, k, seed)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("wrong", [by_pushing_apart, by_full_band])
def test_the_uniformity_check_rejects_wrong_samplers(
    wrong: Callable[..., Array], k: int, seed: int
):
    with pytest.raises(AssertionError):
        check_uniform(wrong, k, seed)


def test_amplitude_and_phase_laws(seed: int):
    rng = np.random.default_rng(seed)
    uniform = rng.uniform(size=40_000)
    theta = draw(Prior(), 4, 10_000, seed)[:, :4]
    assert_same_law(theta[..., 0].flatten() - 0.5, uniform)
    assert_same_law(theta[..., 1].flatten() / (2 * math.pi), uniform)
    prior = Prior(amplitude=(0.01, 10.0), amplitude_law="loguniform")
    log_a = draw(prior, 4, 10_000, seed)[:, :4, 0].flatten().log10()
    assert_same_law((log_a + 2) / 3, uniform)
    with pytest.raises(AssertionError):  # the check tells the two laws apart
        assert_same_law((theta[..., 0].flatten().log() - math.log(0.5)) / math.log(3), uniform)


def test_draws_are_seeded():
    prior = Prior()
    assert torch.equal(draw(prior, 5, 10, 1), draw(prior, 5, 10, 1))
    assert not torch.equal(draw(prior, 5, 10, 1), draw(prior, 5, 10, 2))


# ---------------------------------------------------------------------- density of Θ


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_density_of_one_component_integrates_to_one_on_a_grid(law: str):
    prior = Prior(amplitude=(0.2, 1.7), amplitude_law=law)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    amplitude, w_a = 0.95 + 0.75 * nodes, 0.75 * weights
    phase, w_p = np.arange(8) * 2 * math.pi / 8, np.full(8, 2 * math.pi / 8)
    frequency, w_f = 2.75 + 0.25 * nodes, 0.25 * weights
    grid = np.stack(np.meshgrid(amplitude, phase, frequency, indexing="ij"), axis=-1)
    density = prior.log_prob_theta(grid[..., None, :]).exp().numpy()
    assert np.einsum("apf,a,p,f", density, w_a, w_p, w_f) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
@pytest.mark.parametrize(("k", "separation"), [(1, 0.0), (2, 0.0), (2, 0.1), (3, 0.1)])
def test_density_integrates_to_one(law: str, k: int, separation: float, seed: int):
    prior = Prior(k_max=3, min_separation=separation, amplitude_law=law)
    rng = np.random.default_rng(seed)
    lower, upper = np.array([0.4, 0.0, 2.45]), np.array([1.6, 2 * math.pi, 3.05])
    box = rng.uniform(lower, upper, size=(200_000, k, 3))  # larger than the support
    density = prior.log_prob_theta(box).exp().numpy()
    assert 0 < np.mean(density == 0) < 1
    assert_mean(density * np.prod(upper - lower) ** k, 1.0)


def test_the_integral_notices_a_forgotten_separation(seed: int):
    rng = np.random.default_rng(seed)
    theta = rng.uniform([0.5, 0.0, 2.5], [1.5, 2 * math.pi, 3.0], size=(200_000, 2, 3))
    far = np.abs(np.diff(theta[..., 2], axis=1))[:, 0] >= 0.1
    density = np.where(far, Prior(min_separation=0.0).log_prob_theta(theta).exp(), 0.0)
    with pytest.raises(AssertionError):
        assert_mean(density * (2 * math.pi * 0.5) ** 2, 1.0)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_density_in_closed_form(k: int, seed: int):
    theta = draw(Prior(), k, 50, seed)[:, :k]
    room = 0.5 - (k - 1) * 0.01
    expected = np.full(50, -k * (math.log(2 * math.pi) + math.log(room)))
    np.testing.assert_allclose(Prior().log_prob_theta(theta), expected, rtol=1e-13)
    log_uniform = Prior(amplitude_law="loguniform").log_prob_theta(theta)
    expected -= k * math.log(math.log(3)) + theta[..., 0].log().sum(-1).numpy()
    np.testing.assert_allclose(log_uniform, expected, rtol=1e-13)


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_density_is_symmetric_and_periodic_in_phase(law: str, seed: int):
    prior = Prior(amplitude_law=law)
    theta = draw(prior, 4, 20, seed)[:, :4]
    expected = prior.log_prob_theta(theta)
    assert expected.dtype == torch.float64
    for order in itertools.permutations(range(4)):
        shuffled = prior.log_prob_theta(theta[:, list(order)])
        np.testing.assert_allclose(shuffled, expected, rtol=1e-14)
    turned = theta + torch.tensor([0.0, -6 * math.pi, 0.0])
    np.testing.assert_allclose(prior.log_prob_theta(turned), expected, rtol=1e-14)


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
@pytest.mark.parametrize(
    "theta",
    [
        [[0.49, 0.0, 2.6]],
        [[1.51, 0.0, 2.6]],
        [[0.0, 0.0, 2.6]],
        [[-1.0, 0.0, 2.6]],
        [[1.0, 0.0, 2.499]],
        [[1.0, 0.0, 3.001]],
        [[1.0, 0.0, 2.6], [1.0, 0.0, 2.609]],  # closer than the separation
        [[1.0, 0.0, 2.609], [1.0, 0.0, 2.8], [1.0, 0.0, 2.6]],  # also when they are not neighbours
        [[1.0, 0.0, 2.6], [1.0, 0.0, 2.6]],
        [[math.nan, 0.0, 2.6]],
        [[1.0, 0.0, math.nan]],
        [[1.0, 0.0, math.inf]],
    ],
)
def test_density_is_zero_outside(law: str, theta: list[list[float]]):
    assert Prior(amplitude_law=law).log_prob_theta(theta) == -math.inf


def test_density_is_zero_where_no_room_is_left():
    prior = Prior(k_max=3, min_separation=0.2)
    theta = torch.ones(5, 4, 3) * torch.tensor([1.0, 1.0, 2.7])
    assert torch.all(prior.log_prob_theta(theta) == -math.inf)


def test_density_shapes():
    prior = Prior()
    theta = draw(prior, 3, 12, 0)[:, :3]
    assert prior.log_prob_theta(theta[0]).shape == ()
    assert prior.log_prob_theta(theta.reshape(3, 4, 3, 3)).shape == (3, 4)
    assert prior.log_prob_theta(theta[0].numpy()) == prior.log_prob_theta(theta)[0]
    assert prior.log_prob_theta(np.zeros((0, 3))) == 0  # no component: certain
    assert prior.log_prob_theta(np.zeros((6, 0, 3))).shape == (6,)
    for shape in [(3,), (2, 4), (0,)]:
        with pytest.raises(ValueError, match=r"shape \(\.\.\., K, 3\), received"):
            prior.log_prob_theta(np.ones(shape))


# ---------------------------------------------------------------------- p(K) and p(σ)


@pytest.mark.parametrize("k_probs", [None, (1.0, 2.0, 0.0, 5.0)])
def test_k_follows_its_law(k_probs: tuple[float, ...] | None, seed: int):
    prior = Prior(k_min=2, k_max=5, k_probs=k_probs)
    full = prior.k_probs_full
    assert full.shape == (6,) and full.sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_array_equal(full[:2], 0)
    expected = np.full(4, 0.25) if k_probs is None else np.array(k_probs) / 8
    np.testing.assert_allclose(full[2:], expected, rtol=1e-15)
    n = 20_000
    k = prior.sample_k(n, torch.Generator().manual_seed(seed)).numpy()
    share = np.bincount(k, minlength=6) / n
    assert_within(share, full, np.sqrt(full * (1 - full) / n))


def test_k_may_be_zero(seed: int):
    prior = Prior(k_min=0, k_max=2)
    k = prior.sample_k(300, torch.Generator().manual_seed(seed))
    assert set(k.tolist()) == {0, 1, 2}
    assert prior.log_prob_k(0).item() == pytest.approx(-math.log(3))


def test_log_prob_k():
    prior = Prior(k_min=1, k_max=3, k_probs=(1, 0, 3))
    expected = [-math.inf, -math.inf, math.log(0.25), -math.inf, math.log(0.75), -math.inf]
    np.testing.assert_allclose(prior.log_prob_k([-1, 0, 1, 2, 3, 4]), expected, rtol=1e-15)
    assert prior.log_prob_k(torch.tensor([[1, 3]])).shape == (1, 2)


def test_sigma_law(seed: int):
    prior = Prior(sigma=(0.5, 2.5))
    sigma = prior.sample_sigma(20_000, torch.Generator().manual_seed(seed)).numpy()
    assert sigma.dtype == np.float64 and sigma.min() >= 0.5 and sigma.max() <= 2.5
    assert_same_law((sigma - 0.5) / 2, np.random.default_rng(seed).uniform(size=20_000))
    log_prob = prior.log_prob_sigma([0.4, 0.5, 1.0, 2.5, 2.6, math.nan])
    expected = [-math.inf, -math.log(2), -math.log(2), -math.log(2), -math.inf, -math.inf]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-15)  # in float64, not float32
    assert log_prob.dtype == torch.float64


# ---------------------------------------------------------------------- one prior for each signal


def stacked(priors: list[Prior]) -> PriorBatch:
    """Priors with the same p(K) and amplitude law as one batch."""

    def rows(name: str) -> torch.Tensor:
        return torch.tensor([getattr(prior, name) for prior in priors], dtype=torch.float64)

    first = priors[0]
    return PriorBatch(
        first.k_min,
        first.k_max,
        first.k_probs,
        rows("amplitude"),
        rows("frequency"),
        rows("min_separation"),
        rows("sigma"),
        first.amplitude_law,
    )


def three_priors(law: str = "uniform") -> list[Prior]:
    """Bands, amplitudes and noise levels that do not overlap; separations from none to almost full."""
    return [
        Prior(0, 4, None, (0.5, 1.5), (2.5, 3.0), 0.0, (0.0, 0.4), law),
        Prior(0, 4, None, (2.0, 2.1), (7.0, 7.2), 0.06, (0.5, 1.0), law),
        Prior(0, 4, None, (10.0, 90.0), (0.1, 0.2), 0.01, (3.0, 3.5), law),
    ]


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_each_signal_is_drawn_under_its_own_prior(law: str, seed: int):
    priors = three_priors(law)
    which = torch.arange(900) % 3
    batch = stacked(priors).take(which)
    generator = torch.Generator().manual_seed(seed)
    k = batch.sample_k(900, generator)
    theta, sigma = batch.sample_theta(k, generator), batch.sample_sigma(900, generator)
    assert set(k.tolist()) == {0, 1, 2, 3, 4}
    assert theta.shape == (900, 4, 3) and theta.dtype == sigma.dtype == torch.float64
    assert torch.all(theta[torch.arange(4) >= k[:, None]] == 0)
    for i in range(900):
        own = theta[i, : k[i]]
        assert torch.isfinite(priors[i % 3].log_prob_theta(own)) and torch.all(own[:, 2].diff() > 0)
        assert torch.isfinite(priors[i % 3].log_prob_sigma(sigma[i]))
        if k[i] > 0:  # and under no other
            assert priors[(i + 1) % 3].log_prob_theta(own) == -math.inf


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
@pytest.mark.parametrize("k_probs", [None, (1.0, 2.0, 0.0, 5.0)])
def test_a_batch_of_one_prior_draws_what_the_prior_draws(
    law: str, k_probs: tuple[float, ...] | None, seed: int
):
    # Bounds that are not round in binary, so that any other order of the operations would show.
    prior = Prior(0, 3, k_probs, (0.3, 1.7), (2.51, 2.97), 0.013, (0.1, 1.3), law)
    n, batch = 1000, prior.batch(1000)
    assert len(batch) == n and batch.device.type == "cpu"

    def draws(source: Prior | PriorBatch) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        k = source.sample_k(n, generator)
        return [k, source.sample_theta(k, generator), source.sample_sigma(n, generator)]

    for ours, expected in zip(draws(batch), draws(prior), strict=True):
        if law == "uniform" or ours.ndim < 3:
            assert torch.equal(ours, expected)
        else:  # a logarithm from torch instead of the standard library may differ in its last bit
            assert torch.equal(ours[..., 1:], expected[..., 1:])
            np.testing.assert_allclose(ours[..., 0], expected[..., 0], rtol=1e-15)
    wider = Prior(0, 3, k_probs, (0.3, 1.7), (2.51, 2.98), 0.013, (0.1, 1.3), law)
    assert not torch.equal(draws(wider.batch(n))[1], draws(prior)[1])


def by_batch(prior: Prior, k: int, n: int, rng: np.random.Generator) -> Array:
    """Every other signal of a batch whose others live in a narrower band with a larger separation."""
    other = Prior(k_max=k, frequency=(1.0, 1.3), min_separation=0.12)
    batch = stacked([prior, other]).take(torch.arange(2 * n) % 2)
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    return batch.sample_theta(torch.full((2 * n,), k), generator)[::2, :k, 2].numpy()


def by_wrong_separation(prior: Prior, k: int, n: int, rng: np.random.Generator) -> Array:
    """A wrong batch: the separation of the neighbour is a little smaller than the prior's."""
    batch = stacked([prior]).take(torch.zeros(n, dtype=torch.int64))
    wrong = dataclasses.replace(batch, min_separation=0.9 * batch.min_separation)
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    return wrong.sample_theta(torch.full((n,), k), generator)[:, :k, 2].numpy()


@pytest.mark.parametrize("k", [2, 3])
def test_batched_frequencies_are_uniform_over_each_signals_allowed_set(k: int, seed: int):
    check_uniform(by_batch, k, seed)


@pytest.mark.parametrize("k", [2, 3])
def test_the_uniformity_check_rejects_another_separation(k: int, seed: int):
    with pytest.raises(AssertionError):
        check_uniform(by_wrong_separation, k, seed)


def test_batches_are_taken_apart_and_moved(seed: int):
    batch = stacked(three_priors())
    picked = batch.take(torch.tensor([2, 0, 2]))
    assert len(picked) == 3 and (picked.k_min, picked.k_max) == (0, 4)
    assert picked.frequency.tolist() == [[0.1, 0.2], [2.5, 3.0], [0.1, 0.2]]
    assert picked.min_separation.tolist() == [0.01, 0.0, 0.01]
    assert picked.amplitude[:, 1].tolist() == [90.0, 1.5, 90.0]
    assert picked.sigma[:, 0].tolist() == [3.0, 0.0, 3.0]
    assert batch.take(slice(1, 2)).frequency.tolist() == [[7.0, 7.2]]
    assert len(batch.take(slice(0, 0))) == 0
    moved = batch.to("meta")
    assert moved.device.type == "meta" and len(moved) == 3 and moved.amplitude_law == "uniform"
    assert batch.device.type == "cpu"


def test_a_batch_draws_once_for_each_signal():
    batch, generator = Prior().batch(3), torch.Generator()
    for draw_wrong in (
        lambda: batch.sample_k(4, generator),
        lambda: batch.sample_theta(torch.ones(4, dtype=torch.int64), generator),
        lambda: batch.sample_sigma(4, generator),
    ):
        with pytest.raises(ValueError, match=r"each of its 3 signals, received 4.*take"):
            draw_wrong()


def with_row(name: str, value: object) -> dict[str, object]:
    """A change of the second of three signals."""
    tensor = getattr(Prior().batch(3), name)
    tensor[1] = torch.tensor(value, dtype=torch.float64)
    return {name: tensor}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k_min": -1}, "k_min=-1"),
        ({"k_probs": (0.5, 0.5)}, "k_probs: expected 10 numbers"),
        ({"k_probs": (0.5,) * 10}, "sum to one"),
        ({"amplitude_law": "normal"}, "amplitude_law .*received 'normal'"),
        ({"amplitude": torch.ones(2, 2).double()}, r"amplitude .*\('n', 2\).*received .*\(2, 2\)"),
        ({"sigma": torch.ones(3).double()}, r"sigma .*\('n', 2\).*received .*\(3,\)"),
        ({"min_separation": torch.zeros(3)}, r"min_separation as float64.*received torch.float32"),
        ({"frequency": torch.zeros(3, 2, device="meta").double()}, "frequency on meta.*move"),
        (with_row("amplitude", [1.5, 0.5]), r"amplitude .*signal 1 has \[1.5, 0.5\]"),
        (with_row("amplitude", [-0.5, 0.5]), "amplitude .*signal 1 has"),
        (
            {"amplitude_law": "loguniform"} | with_row("amplitude", [0.0, 1.0]),
            "amplitude .*log-uniform.*signal 1 has",
        ),
        (with_row("frequency", [2.5, math.inf]), r"frequency .*signal 1 has \[2.5, inf\]"),
        (with_row("sigma", [math.nan, 1.0]), "sigma .*signal 1 has"),
        (with_row("min_separation", -0.01), "min_separation .*signal 1 has -0.01"),
        (with_row("min_separation", math.nan), "min_separation .*signal 1 has nan"),
        (with_row("min_separation", 0.5 / 9 + 1e-9), "10 components to fit .*lower it; signal 1"),
    ],
)
def test_bad_batches_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Prior().batch(3), **changes)


def test_a_batch_of_given_priors():
    """Each signal has its own bounds; the same prior for all is the prior's own batch."""
    one, other = Prior(), Prior(amplitude=(0.1, 2.0), frequency=(2.6, 2.9), min_separation=0.0)
    both = batch_of([one, other, one])
    assert both.amplitude.tolist() == [[0.5, 1.5], [0.1, 2.0], [0.5, 1.5]]
    assert both.frequency.tolist() == [[2.5, 3.0], [2.6, 2.9], [2.5, 3.0]]
    assert both.min_separation.tolist() == [0.01, 0.0, 0.01] and both.k_max == 10
    same, expected = batch_of([other, other]), other.batch(2)
    assert same.amplitude.equal(expected.amplitude) and same.sigma.equal(expected.sigma)


def test_bounds_of_theta_hold_every_draw(seed: int):
    """Bounds by column: what is drawn lies inside; phases have none; a narrower prior's bounds do not hold."""
    prior = Prior(k_min=3, k_max=3)
    theta = draw(prior, 3, 200, seed)
    low, high = (end[:, None] for end in prior.batch(200).theta_bounds())
    assert low.shape == (200, 1, TONE.size)
    assert ((theta >= low) & (theta <= high)).all()
    phase = TONE.column("phase")
    assert (low[..., phase] == -math.inf).all() and (high[..., phase] == math.inf).all()
    narrow = Prior(k_min=3, k_max=3, frequency=(2.6, 2.9)).batch(200).theta_bounds()
    inside = (theta >= narrow[0][:, None]) & (theta <= narrow[1][:, None])
    assert not inside[..., TONE.column("frequency")].all()
    assert inside[..., TONE.column("amplitude")].all()


def test_a_batch_has_no_negative_size():
    with pytest.raises(ValueError, match="n >= 0 signals, received -1"):
        Prior().batch(-1)


# ---------------------------------------------------------------------- errors


def test_defaults_are_the_papers():
    prior = Prior()
    assert (prior.k_min, prior.k_max, prior.k_probs) == (1, 10, None)
    assert prior.amplitude == (0.5, 1.5) and prior.frequency == (2.5, 3.0)
    assert prior.min_separation == 0.01 and prior.sigma == (0.0, 1.5)
    assert prior.amplitude_law == "uniform"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k_min": -1}, "k_min=-1"),
        ({"k_min": 4, "k_max": 3}, "k_min=4, k_max=3"),
        ({"k_min": 0, "k_max": 0}, "k_max >= 1"),
        ({"amplitude": (1.5, 0.5)}, "amplitude .*received"),
        ({"amplitude": (1.0, 1.0)}, "amplitude .*received"),
        ({"amplitude": (-1.0, 1.0)}, "amplitude .*received"),
        ({"amplitude": (0.5, math.inf)}, "amplitude .*received"),
        ({"amplitude": (0.5, 1.0, 1.5)}, "amplitude .*received"),
        ({"frequency": (3.0, 2.5)}, "frequency .*received"),
        ({"frequency": (math.nan, 3.0)}, "frequency .*received"),
        ({"sigma": (1.0, 0.5)}, "sigma .*received"),
        ({"sigma": (-0.1, 0.5)}, "sigma .*received"),
        ({"min_separation": -0.01}, "min_separation .*received -0.01"),
        ({"min_separation": math.nan}, "min_separation .*received nan"),
        ({"min_separation": 0.5 / 9}, "10 components .*do not fit.*lower"),
        ({"amplitude_law": "normal"}, "amplitude_law .*received 'normal'"),
        ({"amplitude_law": "loguniform", "amplitude": (0.0, 1.0)}, "log-uniform.*above 0"),
        ({"k_max": 3, "k_probs": (0.5, 0.5)}, "k_probs: expected 3 numbers"),
        ({"k_max": 2, "k_probs": ((0.5, 0.5),)}, "k_probs: expected 2 numbers"),
        ({"k_max": 2, "k_probs": (0.0, 0.0)}, "k_probs .*not all zero"),
        ({"k_max": 2, "k_probs": (1.5, -0.5)}, "k_probs .*not negative"),
        ({"k_max": 2, "k_probs": (math.nan, 1.0)}, "k_probs .*finite"),
        ({"k_max": 2, "k_probs": (math.inf, 1.0)}, "k_probs .*finite"),
    ],
)
def test_bad_priors_are_refused(arguments: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        Prior(**arguments)  # type: ignore[arg-type]
