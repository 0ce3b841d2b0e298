"""p(K | x) of built and simulated signals, and the ways in which it can fail."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within
from test_importance import observe
from tone_helpers import LONG, SHORT, statistics_of

from slotflow import Grid, Prior
from slotflow.exact.mode import OUTSIDE
from slotflow.exact.modes import Modes
from slotflow.exact.peaks import peaks
from slotflow.exact.proposals.assembly import laplace_evidence, without_weakest
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.exact.tempering import Tempering
from slotflow.signal.simulation import simulate

MEDIUM = Grid(1000, 0.1)
PRIOR = Prior(k_min=0, k_max=4, frequency=(2.4, 2.6), min_separation=0.02, sigma=(0.3, 2.0))
QUICK = Tempering(512, 4, 2, 10.0)


def test_noise_alone(seed: int) -> None:
    statistics = observe(np.zeros((0, 3)), 1.0, seed, (MEDIUM,))
    orders = across_orders(statistics, PRIOR, rng=np.random.default_rng(seed))
    assert orders.k_map == 0
    assert orders.k_probs.sum() == pytest.approx(1.0)
    assert orders.methods[0] == "analytic"
    target = Target(statistics, PRIOR, 0)
    expected = target.log_likelihood(np.array([float(statistics.energy)]))[0]
    assert orders.log_evidence[0] == expected
    theta, sigma = orders.sample(500, np.random.default_rng(seed))
    assert theta.shape == (500, 0, 3)
    assert sigma.mean() == pytest.approx(1.0, abs=0.15)


def test_nominal_signals(seed: int) -> None:
    prior = Prior()
    batch = simulate(prior, 6, LONG, SHORT, mode="physical", seed=seed)
    statistics = statistics_of(batch)
    for i in range(6):
        one, k = statistics.take(torch.tensor([i])), int(batch.k[i])
        truth = batch.components(i)
        started = across_orders(
            one, prior, starts=[truth], draws=1000, rng=np.random.default_rng(seed)
        )
        alone = across_orders(one, prior, draws=1000, rng=np.random.default_rng(seed + 1))
        for orders in (started, alone):
            assert orders.k_map == k
            assert orders.k_probs[k] > 0.999
            assert set(orders.methods) >= {j for j in (k - 1, k, k + 1) if 1 <= j <= 10}
            theta, _ = orders.sample(400, np.random.default_rng(seed))
            error = (theta[..., 2].mean(0) - truth[:, 2]) / theta[..., 2].std(0)
            assert np.abs(error).max() < 5
        both = math.hypot(started.log_evidence_error[k], alone.log_evidence_error[k])
        assert_within(started.log_evidence[k], alone.log_evidence[k], both)


def test_a_wrong_start_is_left(seed: int) -> None:
    theta = np.array([[1.0, 0.3, 2.45], [0.9, 1.0, 2.5], [1.1, 2.0, 2.56]])
    statistics = observe(theta, 0.8, seed, (MEDIUM,))
    for start in (theta[:1], np.concatenate([theta, [[0.6, 0.0, 2.42]]])):
        orders = across_orders(statistics, PRIOR, starts=[start], rng=np.random.default_rng(seed))
        assert orders.k_map == 3
        assert orders.fits[3][:, 2] == pytest.approx(theta[:, 2], abs=1e-3)


@pytest.mark.parametrize(("separation", "sigma"), [(0.01, 1.5), (0.004, 2.0)])
def test_what_the_weakest_tone_is_worth(separation: float, sigma: float, seed: int) -> None:
    """The estimate of one tone less, made without a fit, lies above Laplace's around the best fit."""
    prior = Prior(k_min=2, min_separation=separation, sigma=(0.5, sigma))
    batch = simulate(prior, 12, LONG, SHORT, mode="physical", seed=seed)
    statistics = statistics_of(batch)
    for i in range(12):
        one, k = statistics.take(torch.tensor([i])), int(batch.k[i])
        modes = Modes(one, prior)
        modes.add([batch.components(i)[:, 2]])
        modes.down(k - 1)
        best, lower = modes.best(k), modes.best(k - 1)
        assert best is not None and lower is not None
        upper, below = Target(one, prior, k), Target(one, prior, k - 1)
        estimate = without_weakest(upper, best, laplace_evidence(upper, best))
        fitted = laplace_evidence(below, lower)
        assert estimate > fitted
        # It is generous, not blind: what it leaves out is at most what it halves.
        whole = upper.log_likelihood(np.array([best.rss]))[0] - math.log(k)
        loss = whole - below.log_likelihood(np.array([lower.rss]))[0]
        assert estimate < fitted + 0.7 * loss + 20


def test_one_tone_less_is_fitted_where_it_may_matter(seed: int) -> None:
    """A strong tone excludes its absence without a fit; a faint one does not."""
    prior = Prior(
        k_min=0, k_max=3, frequency=(2.4, 2.6), amplitude=(0.05, 1.5), min_separation=0.02
    )
    for faint, fitted in ((1.0, False), (0.22, True)):
        theta = np.array([[1.0, 0.3, 2.45], [faint, 1.0, 2.52]])
        statistics = observe(theta, 1.0, seed, (MEDIUM,))
        orders = across_orders(statistics, prior, starts=[theta], rng=np.random.default_rng(seed))
        assert (1 in orders.fits) == fitted
        assert 1 in orders.methods
        if not fitted:
            assert orders.methods[1] == "bound" and orders.k_probs[1] < 1e-6


def test_extra_frequencies_start_tones(seed: int) -> None:
    theta = np.array([[1.0, 0.3, 2.45], [0.9, 1.0, 2.5]])
    modes = Modes(observe(theta, 0.8, seed, (MEDIUM,)), PRIOR, extra=lambda: [2.5])
    modes.add([theta[:1, 2]])
    modes.up(2)
    best = modes.best(2)
    assert best is not None
    assert best.z[:, 0] == pytest.approx(theta[:, 2], abs=1e-3)
    assert best.strength.min() > 100


def test_an_unresolved_pair_leaves_k_open(seed: int) -> None:
    """With the pair's gap the answer passes from one tone to two; a third one is never excluded."""
    probs = []
    prior = Prior(k_min=1, k_max=3, frequency=(2.4, 2.6), min_separation=0.0, sigma=(0.3, 2.0))
    for gap in (0.03, 1.0):
        theta = np.array([[0.9, 1.0, 2.5], [0.8, 2.2, 2.5 + gap / MEDIUM.duration]])
        statistics = observe(theta, 1.0, seed, (MEDIUM,))
        orders = across_orders(statistics, prior, rng=np.random.default_rng(seed), tempering=QUICK)
        probs.append(orders.k_probs)
        assert orders.k_error < 0.1
    assert probs[0][1] > 0.5
    assert probs[1][1] < 1e-3
    assert probs[1][2] > 0.9
    assert all(p[2:].sum() > 1e-4 and p[3] < p[2] for p in probs)


def test_a_weak_tone_is_uncertain(seed: int) -> None:
    prior = Prior(
        k_min=0, k_max=2, amplitude=(0.05, 1.5), frequency=(2.4, 2.6), min_separation=0.02,
        sigma=(0.5, 2.0), amplitude_law="loguniform",
    )  # fmt: skip
    found = []
    for amplitude in (0.0, 0.15, 0.5):
        theta = np.array([[amplitude, 1.0, 2.5]])
        statistics = observe(theta, 1.0, seed, (MEDIUM,))
        orders = across_orders(statistics, prior, rng=np.random.default_rng(seed), tempering=QUICK)
        found.append(orders.k_probs)
    assert found[0][0] > 0.3
    assert found[2][0] < 1e-3
    assert all(p.max() < 0.99 for p in found[:2])


@pytest.mark.slow
def test_probabilities_are_calibrated(seed: int) -> None:
    """Signals drawn from the prior: p(true K) has the mean Σ p² over K, which sharpened probabilities miss."""
    prior = Prior(
        k_min=0, k_max=3, amplitude=(0.1, 1.0), frequency=(2.4, 2.6), min_separation=0.02,
        sigma=(0.5, 2.0), amplitude_law="loguniform",
    )  # fmt: skip
    batch = simulate(prior, 60, MEDIUM, seed=seed)
    statistics = statistics_of(batch)
    probs = np.stack(
        [
            across_orders(
                statistics.take(torch.tensor([i])), prior, draws=1000,
                rng=np.random.default_rng(i), tempering=QUICK,
            ).k_probs
            for i in range(60)
        ]
    )  # fmt: skip
    truth = np.arange(60), batch.k.numpy()

    def deviation(p: np.ndarray) -> float:
        variance = ((p**3).sum(-1) - (p**2).sum(-1) ** 2).sum()
        return float((p[truth].sum() - (p**2).sum()) / math.sqrt(variance))

    assert abs(deviation(probs)) < 4
    sharp = probs**4 / (probs**4).sum(-1, keepdims=True)
    assert deviation(sharp) < -4


def test_k_max_is_a_wall(seed: int) -> None:
    theta = np.array([[1.0, 0.3, 2.43], [0.9, 1.0, 2.5], [1.1, 2.0, 2.56]])
    prior = Prior(k_min=1, k_max=2, frequency=(2.4, 2.6), min_separation=0.02, sigma=(0.3, 2.0))
    orders = across_orders(
        observe(theta, 0.5, seed, (MEDIUM,)), prior, rng=np.random.default_rng(seed)
    )
    assert orders.k_map == 2
    assert len(orders.k_probs) == 3
    with pytest.raises(ValueError, match="was sampled"):
        orders.sample(10, np.random.default_rng(0), k=0)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_data_without_noise(level: float, seed: int) -> None:
    theta = np.array([[level, 0.3, 2.45]])[: int(level)]
    statistics = observe(theta, 0.0, seed, (MEDIUM,))
    prior = Prior(k_min=0, k_max=2, frequency=(2.4, 2.6), sigma=(0.0, 1.5))
    orders = across_orders(statistics, prior, rng=np.random.default_rng(seed), tempering=QUICK)
    assert orders.k_map == int(level)
    assert np.isfinite(orders.log_evidence[int(level)])
    theta_draws, sigma = orders.sample(100, np.random.default_rng(seed))
    assert sigma.min() > 0
    if level:
        assert np.abs(theta_draws[:, 0, 2] - 2.45).max() < 1e-4


def test_a_prior_that_excludes_the_answer(seed: int) -> None:
    """A tone stronger than the prior's bound: K is not believed to be anything else without a residual."""
    theta = np.array([[2.5, 0.3, 2.45]])
    statistics = observe(theta, 0.3, seed, (MEDIUM,))
    orders = across_orders(statistics, PRIOR, rng=np.random.default_rng(seed), tempering=QUICK)
    best = orders.fits[orders.k_map]
    # A maximum may lie beyond the bound by 5 standard deviations of its amplitude.
    highest = PRIOR.amplitude[1] + OUTSIDE * 0.3 * math.sqrt(2 / MEDIUM.n)
    assert best[:, 0].max(initial=0.0) < highest
    assert orders.k_probs.sum() == pytest.approx(1.0)
    free = replace(PRIOR, amplitude=(0.5, 4.0))  # the control: a prior that allows the tone
    allowed = across_orders(statistics, free, rng=np.random.default_rng(seed), tempering=QUICK)
    assert allowed.fits[1][:, 0] == pytest.approx(2.5, abs=0.1)


def test_peaks_of_the_residual(seed: int) -> None:
    theta = np.array([[1.0, 0.3, 2.45], [0.5, 1.0, 2.55]])
    statistics = observe(theta, 0.3, seed, (MEDIUM,))
    found = peaks(statistics, np.zeros((0, 3)), PRIOR, 5)
    assert found[0] == pytest.approx(2.45, abs=2e-3)
    assert min(abs(f - 2.55) for f in found) < 2e-3
    modes = Modes(statistics, PRIOR)
    assert modes.pursue(4) == 2
    best = modes.best(2)
    assert best is not None
    assert np.var(statistics.residuals(best.z)[0]) == pytest.approx(0.09, rel=0.3)


def test_a_pursuit_goes_on_where_no_peak_stands_out(seed: int) -> None:
    """Ten equal tones in fifty bins: none of them is a peak beside the sum of the others, and all are found."""
    rng = np.random.default_rng(seed)
    f = 0.02 + 0.045 * np.arange(10) + 0.01 * rng.random(10)
    theta = np.stack([np.ones(10), rng.uniform(0, 2 * np.pi, 10), f], -1)
    prior = Prior(k_min=0, k_max=10, frequency=(0.0, 0.5), min_separation=0.01, sigma=(0.0, 1.0))
    for loud, count in ((theta, 10), (theta[:0], 0)):
        statistics = observe(loud, 0.01, seed, (Grid(100, 1.0),))
        assert Modes(statistics, prior).pursue(10) == count


def test_many_tones_that_the_data_do_not_show(seed: int) -> None:
    """Weak tones that may be anywhere: every order grows from the one below, however many there are."""
    prior = Prior(
        k_min=0,
        k_max=9,
        amplitude=(0.01, 0.6),
        frequency=(0.0, 0.5),
        min_separation=0.01,
        sigma=(0.3, 3.0),
    )
    statistics = observe(np.zeros((0, 3)), 1.0, seed, (Grid(100, 1.0),))
    orders = across_orders(statistics, prior, draws=400, rng=np.random.default_rng(seed))
    assert set(orders.methods) == set(range(10))
    assert np.isfinite(orders.log_evidence_error).all()
    # No tone changes the evidence by much, so that neither do nine of them at a time.
    assert np.abs(np.diff(orders.log_evidence)).max() < 3
