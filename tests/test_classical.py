"""The classical estimator: counts, errors at the bound, evidences, draws, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from statistics_helpers import assert_within

from slotflow import Grid, Observation, Prior, Simulation, simulate
from slotflow.baselines import Classical, classical
from slotflow.network.config import Config
from slotflow.signal import evidence
from slotflow.signal.bounds import crb_std
from slotflow.signal.evidence import _log_mass
from slotflow.signal.likelihood import Statistics

NOMINAL = Prior()
STRESS = Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0))
SMALL = Grid(256, 0.15625)  # 40 s at 6.4 Hz


def paper_signals(prior: Prior, n: int, seed: int) -> Simulation:
    model = Config.from_preset("paper").model
    return simulate(prior, n, model.long, model.short, mode="physical", seed=seed)


def observations(signals: Simulation) -> list[Observation]:
    return [signals.observation(i) for i in range(len(signals.k))]


@pytest.fixture(scope="module")
def nominal(base_seed: int) -> tuple[Simulation, Classical]:
    signals = paper_signals(NOMINAL, 64, base_seed + 3)
    return signals, classical(observations(signals), NOMINAL)


@pytest.mark.parametrize("rule", ["k_bic", "k_map"])
def test_every_nominal_count_is_right(nominal: tuple[Simulation, Classical], rule: str) -> None:
    """One error in a thousand would pass here 94 times of 100, one in ten never."""
    signals, found = nominal
    wrong = int((getattr(found, rule) != signals.k.numpy()).sum())
    assert wrong <= 1


def test_stress_counts(base_seed: int) -> None:
    signals = paper_signals(STRESS, 32, base_seed + 4)
    found = classical(observations(signals), STRESS)
    assert int((found.k_map != signals.k.numpy()).sum()) <= 1
    assert found.k_probs.shape == (32, 11)
    np.testing.assert_allclose(found.k_probs.sum(1), 1.0, atol=1e-12)
    assert (found.k_probs[:, :5] == 0).all()  # the prior excludes them


def test_errors_are_at_the_joint_bound(nominal: tuple[Simulation, Classical]) -> None:
    """Errors over the Cramér–Rao bound have a unit spread: no estimator without bias does better."""
    signals, found = nominal
    bound = crb_std(signals.theta, signals.sigma, signals.grids, signals.mask)
    scores = []
    for i, k in enumerate(signals.k.tolist()):
        if not bool(found.fits[k].converged[i]) or signals.sigma[i] < 0.02:
            continue
        theta = found.fits[k].theta[i]
        theta = theta[theta[:, 2].argsort()]
        delta = theta - signals.theta[i, :k]
        delta[:, 1] = torch.remainder(delta[:, 1] + math.pi, 2 * math.pi) - math.pi
        scores.append(delta / bound[i, :k])
    z = torch.cat(scores)  # (components, 3)
    assert len(z) > 200
    spread = 1.4826 * z.abs().median(dim=0).values
    for value in spread.tolist():  # the median of |z| has the relative standard error 1.17/√n
        assert_within(value, 1.0, 1.17 / math.sqrt(len(z)))


def test_batched_equals_single(nominal: tuple[Simulation, Classical]) -> None:
    signals, found = nominal
    for i in (0, 1):
        alone = classical(signals.observation(i), NOMINAL)
        np.testing.assert_allclose(alone.k_probs[0], found.k_probs[i], atol=1e-6)
        k = int(signals.k[i])
        np.testing.assert_allclose(
            alone.fits[k].theta[0].numpy(), found.fits[k].theta[i].numpy(), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("k", [0, 1, 2])
def test_evidence_equals_importance_sampling(k: int, seed: int) -> None:
    """ln Z_K against importance sampling over (θ, σ); without K! (the control) two tones disagree.

    The truth lies well inside the prior: at its edges the share inside has a Monte-Carlo error of its own.
    """
    inner = Prior(
        k_max=2, min_separation=0.15, amplitude=(0.8, 1.2), frequency=(2.6, 2.9), sigma=(0.2, 0.5)
    )
    prior = Prior(k_min=0, k_max=3, min_separation=0.075, sigma=(0.05, 1.5))
    obs = simulate(inner, 1, SMALL, None, seed=seed, k=k).observation(0)
    found = classical(obs, prior)
    best, n = found.fits[k], 40_000
    assert bool(best.converged[0])
    generator = torch.Generator().manual_seed(seed)
    theta0, covariance = best.theta[0], 1.3 * best.covariance[0]
    factor = torch.linalg.cholesky(covariance) if k else covariance
    z = torch.randn(n, 3 * k, generator=generator, dtype=torch.float64)
    theta = theta0 + (z @ factor.mT).reshape(n, k, 3)
    log_q = -0.5 * (z**2).sum(-1) - 1.5 * k * math.log(2 * math.pi)
    log_q -= factor.diagonal().log().sum() if k else 0.0
    width = 1.3 * float(best.sigma[0]) / math.sqrt(2 * SMALL.n)
    e = torch.randn(n, generator=generator, dtype=torch.float64)
    sigma = best.sigma[0] + width * e
    log_q += -0.5 * e**2 - 0.5 * math.log(2 * math.pi) - math.log(width)
    series = torch.as_tensor(obs.long.values)
    t = torch.as_tensor(obs.long.times)
    model = torch.zeros(n, SMALL.n, dtype=torch.float64)
    for j in range(k):
        phase = 2 * math.pi * theta[:, j, 2, None] * t + theta[:, j, 1, None]
        model += theta[:, j, 0, None] * torch.cos(phase)
    rss = ((series - model) ** 2).sum(-1)
    log_l = -0.5 * rss / sigma**2 - SMALL.n * (sigma.log() + 0.5 * math.log(2 * math.pi))
    wrapped = theta.clone()
    wrapped[..., 1] = torch.remainder(wrapped[..., 1], 2 * math.pi)
    log_p = prior.log_prob_theta(wrapped) + prior.log_prob_sigma(sigma) + math.lgamma(k + 1)
    weight = torch.where(sigma > 0, log_l + log_p - log_q, -math.inf)
    expected = float(torch.logsumexp(weight, 0)) - math.log(n)
    relative = (weight - weight.max()).exp()
    error = float(relative.std() / relative.mean()) / math.sqrt(n)
    laplace = 0.1  # the likelihood is a Gaussian up to terms of order 1/SNR²
    value = float(found.log_evidence[0, k])
    assert abs(value - expected) < laplace + 5 * error
    if k == 2:
        assert abs(value - math.lgamma(3) - expected) > laplace + 5 * error


def test_draws_are_left_out_where_they_do_not_matter(
    nominal: tuple[Simulation, Classical], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far from every edge, and far outside, the evidence equals that from draws."""
    _, found = nominal
    for k in (1, 3, 8):
        inner, outer = evidence._sides(found.fits[k], NOMINAL)
        inner, outer = inner & found.fits[k].converged, outer & found.fits[k].converged
        skipped = inner | outer
        assert (inner.any() or k == 8) and not skipped.all()
        quick = evidence.log_evidence(found.fits[k], NOMINAL, 8120)
        with monkeypatch.context() as patch:
            patch.setattr(evidence, "CLEARANCE", math.inf)
            assert not torch.cat(evidence._sides(found.fits[k], NOMINAL))[skipped.repeat(2)].any()
            drawn = evidence.log_evidence(found.fits[k], NOMINAL, 8120)
        assert torch.allclose(quick, drawn, rtol=1e-12)


def test_an_order_without_evidence_is_not_ignored() -> None:
    """Where the order of the smallest BIC has no evidence, p(K | x) comes from BIC; where it has, from evidence."""
    prior = Prior(k_min=0, k_max=2)
    bic = torch.tensor([[300.0, 200.0, 100.0], [300.0, 200.0, 201.0]], dtype=torch.float64)
    ln_z = torch.tensor([[-150.0, -100.0, -math.inf], [-150.0, -100.0, -math.inf]]).double()
    assert Classical([], bic, ln_z, prior).k_map.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("mean", "low", "high"), [(0.0, -1.0, 2.0), (9.0, -1.0, 2.0), (-40.0, 1.0, 2.0)]
)
def test_mass_between_bounds(mean: float, low: float, high: float) -> None:
    one = torch.ones(1, dtype=torch.float64)
    value = float(_log_mass(mean * one, one, (low, high)))
    sign = 1 if mean < high else -1
    a, b = sorted((sign * (low - mean), sign * (high - mean)))
    expected = stats.norm.logsf(a) + math.log1p(
        -math.exp(stats.norm.logsf(b) - stats.norm.logsf(a))
    )
    assert value == pytest.approx(expected, rel=1e-9)


def test_noise_alone(seed: int) -> None:
    prior = Prior(k_min=0, k_max=4, min_separation=0.075)
    rng = np.random.default_rng(seed)
    found = classical(
        [Observation.from_arrays(rng.normal(size=SMALL.n), SMALL.dt) for _ in range(20)], prior
    )
    assert (found.k_map == 0).all() and (found.k_bic <= 1).all()


def test_draws_follow_the_fit(nominal: tuple[Simulation, Classical]) -> None:
    signals, found = nominal
    i = int(np.argmax(signals.k.numpy() == 4)) if (signals.k == 4).any() else 0
    k = int(signals.k[i])
    draws = found.sample(i, 4000, k)
    assert draws.shape == (4000, k, 3)
    assert (NOMINAL.log_prob_theta(draws) > -math.inf).all()
    sd = found.fits[k].covariance[i].diagonal().sqrt().reshape(k, 3).numpy()
    frequency = draws[..., 2]
    for j in range(k):
        assert_within(frequency[:, j].std() / sd[j, 2], 1.0, 1 / math.sqrt(2 * 4000))
    np.testing.assert_array_equal(found.sample(i, 10, k, seed=1), found.sample(i, 10, k, seed=1))


def test_refusals(nominal: tuple[Simulation, Classical]) -> None:
    signals, found = nominal
    with pytest.raises(ValueError, match="expected an order with a fit, received k = 11"):
        found.sample(0, 10, k=11)
    with pytest.raises(
        ValueError, match=r"below the Nyquist frequency of 5 Hz, received \(2\.5, 6\.0\)"
    ):
        classical(signals.observation(0), Prior(frequency=(2.5, 6.0)))


def test_statistics_see_both_streams(nominal: tuple[Simulation, Classical]) -> None:
    """The short stream narrows the fit: half of the information on phases is its."""
    signals, found = nominal
    one = int(np.flatnonzero(signals.k.numpy() == 1)[0]) if (signals.k == 1).any() else 0
    k = int(signals.k[one])
    long_only = classical(Observation(signals.observation(one).long), NOMINAL).fits[k]
    both = found.fits[k]
    assert Statistics.from_observation(signals.observation(one)).n == 8120
    assert (both.covariance[one].diagonal() < long_only.covariance[0].diagonal()).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "at least one observation, received none"),
        (3, "received int; build one with"),
        ([np.zeros(5)], "received ndarray at position 0"),
        ("x", "received str at position 0"),
    ],
)
def test_what_is_no_observation(wrong: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classical(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("amplitude", "k"), [(0.0, 0), (1.0, 1)])
def test_data_without_noise(amplitude: float, k: int) -> None:
    t = SMALL.times
    x = amplitude * np.cos(2 * np.pi * 2.7 * t + 1)
    found = classical(
        Observation.from_arrays(x, SMALL.dt), Prior(k_min=0, k_max=3, min_separation=0.1)
    )
    assert found.k_map[0] == k
    assert np.isfinite(found.k_probs).all()
