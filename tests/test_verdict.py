"""Tests of the residual: their false alarms on noise, their power on built misfits, and the words of the verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from tone_helpers import LONG, SHORT, model, statistics_of

from slotflow import Prior
from slotflow.exact.search import across_orders
from slotflow.exact.tempering import Tempering
from slotflow.posterior.verdict import Check, DrawQuality, check_residual, judge, peak_probability
from slotflow.posterior.whiteness import laws, samples
from slotflow.posterior.whiteness.left import Left
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import simulate

BAND = (2.5, 3.0)
TRUTH = torch.tensor([[1.0, 0.4, 2.6], [0.8, 2.0, 2.85]], dtype=torch.float64)


def built(seed: int, sigma: float = 0.5) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [model(TRUTH, g).numpy() + sigma * rng.standard_normal(g.n) for g in (LONG, SHORT)]


def checks(series: list[np.ndarray]) -> tuple[Check, ...]:
    statistics = Statistics.from_arrays([torch.as_tensor(x)[None] for x in series], [LONG, SHORT])
    found = fit(statistics, TRUTH[None], max_shift=3.0)
    return check_residual(statistics, found.theta[0].numpy(), BAND)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nominal", "stress"])
def test_false_alarms(name: str, seed: int) -> None:
    prior = Prior() if name == "nominal" else Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0))
    batch = simulate(prior, 600, LONG, SHORT, mode="physical", seed=seed)
    statistics = statistics_of(batch)
    found = fit(statistics, batch.theta, batch.mask)
    values: dict[str, list[float]] = {}
    smallest = []
    for i in range(600):
        if bool(found.converged[i]):
            done = check_residual(
                statistics.take(torch.tensor([i])), found.theta[i, : int(batch.k[i])].numpy(), BAND
            )
            for one in done:
                values.setdefault(one.name, []).append(one.p_value)
            smallest.append(len(done) * done[0].p_value)
    for test, p in values.items():
        if not test.startswith("repeats"):  # which never alarm
            assert stats.binomtest(int((np.array(p) < 0.05).sum()), len(p), 0.05).pvalue > 1e-5, (
                test
            )
    alarms = int((np.array(smallest) < 0.05).sum())
    assert stats.binom.sf(alarms - 1, len(smallest), 0.05) > 1e-4  # bounded by 5 %
    assert stats.binom.cdf(alarms, len(smallest), 0.05) > 1e-5  # and not far below


def test_peaks_follow_their_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, bins, top = 512, 100, []
    for _ in range(400):
        power = np.abs(np.fft.rfft(rng.standard_normal(n), 8 * n)) ** 2 / n
        top.append(power[8 * 50 : 8 * (50 + bins)].max())
    p = np.array([peak_probability(z, bins) for z in top])
    assert stats.kstest(p[p < 0.5] / 0.5, "uniform").pvalue > 1e-5
    wrong = -np.expm1(bins * np.log1p(-np.exp(-np.array(top))))  # as if the bins were all there is
    assert stats.kstest(wrong[wrong < 0.5] / 0.5, "uniform").pvalue < 1e-5


@pytest.mark.parametrize("n", [200, 3001])
def test_laws_are_those_of_scipy(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for x in (rng.standard_normal(n), rng.exponential(size=n), rng.uniform(size=n)):
        left = Left("", x, LONG.times[:n], LONG.dt)
        kurtosis, skewness = (check.p_value for check in samples.shape(left))
        assert kurtosis == pytest.approx(stats.kurtosistest(x).pvalue, rel=1e-9, abs=1e-300)
        assert skewness == pytest.approx(stats.skewtest(x).pvalue, rel=1e-9, abs=1e-300)
        for check, pieces in zip(samples.steadiness(left), samples.PIECES, strict=False):
            parts = np.array_split(x**2, pieces)
            share, half = [p.sum() / (x**2).sum() for p in parts], [len(p) / 2 for p in parts]
            law = stats.beta(np.array(half), n / 2 - np.array(half))
            p = 2 * np.minimum(law.cdf(share), law.sf(share)).min()
            assert check.p_value == pytest.approx(1 - (1 - p) ** pieces, rel=1e-6, abs=1e-12)
    for ratio in (0.5, 1.1, 2.0):
        law = stats.f(30, 4000)
        p = 2 * min(law.cdf(ratio), law.sf(ratio))
        assert laws.f_test(ratio, 30, 4000) == pytest.approx(p, rel=1e-9)
    power = np.abs(np.fft.rfft(x)) ** 2 / n
    fine = np.abs(np.fft.rfft(x, 4 * n)) ** 2 / n
    np.testing.assert_allclose(fine[::4][: n // 2 + 1], power, atol=1e-9)


def test_what_the_model_explains_is_no_misfit(seed: int) -> None:
    done = checks(built(seed))
    verdict = judge(done, DrawQuality(0.97, 0.2))
    assert verdict.status == "exact"
    assert "0.97" in str(verdict)
    assert len({c.name for c in done}) == len(done) > 10
    assert [c.p_value for c in done] == sorted(c.p_value for c in done)


def add_chirp(series: list[np.ndarray], amplitude: float) -> None:
    for x, g in zip(series, (LONG, SHORT), strict=True):
        t = g.times
        x += amplitude * np.cos(2 * np.pi * (2.72 * t + 0.5 * 5 / 300 / 300 * t**2) + 1.0)


def add_outside(series: list[np.ndarray], amplitude: float) -> None:
    for x, g in zip(series, (LONG, SHORT), strict=True):
        x += amplitude * np.cos(2 * np.pi * 3.2 * g.times)


def add_tone_inside(series: list[np.ndarray], amplitude: float) -> None:
    for x, g in zip(series, (LONG, SHORT), strict=True):
        x += amplitude * np.cos(2 * np.pi * 2.72 * g.times)


def add_red(series: list[np.ndarray], amplitude: float) -> None:
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.standard_normal(LONG.n))
    walk -= walk.mean()
    series[0] += amplitude / math.sqrt(2) * walk / walk.std()


def zero_gap(series: list[np.ndarray], amplitude: float) -> None:
    series[0][1000:1150] = 0.0


def clip(series: list[np.ndarray], amplitude: float) -> None:
    for x in series:
        limit = 1.5 * x.std()
        np.clip(x, -limit, limit, out=x)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (add_chirp, "in the band"),
        (add_tone_inside, "in the band"),
        (add_outside, "outside the band"),
        (add_red, ""),
        (zero_gap, "gap"),
        (clip, "clipped"),
    ],
)
def test_misfits_are_caught(spoil, word: str, seed: int) -> None:
    for i in range(8):
        series = built(seed + i)
        spoil(series, 20 * 0.5 * math.sqrt(2 / LONG.n))  # a matched filter would see an SNR of 20
        verdict = judge(checks(series), DrawQuality(0.99, 0.1), false_alarm=1e-3)
        assert verdict.status == "misfit"
        assert word in verdict.reason


def test_a_chirp_that_the_prior_cannot_follow(seed: int) -> None:
    """Tones closer than the prior allows would explain it; what is judged is what the prior allows."""
    series = built(seed)
    add_chirp(series, 20 * 0.5 * math.sqrt(2 / LONG.n))
    statistics = Statistics.from_arrays([torch.as_tensor(x)[None] for x in series], [LONG, SHORT])
    orders = across_orders(
        statistics,
        Prior(),
        rng=np.random.default_rng(seed),
        tempering=Tempering(256, 4, 1, 2.0),
        max_seconds=4.0,
    )
    tones = orders.fits[orders.largest]
    assert np.diff(np.sort(tones[:, 2])).min() > 0.009
    assert judge(check_residual(statistics, tones, BAND), DrawQuality(1.0)).status == "misfit"


def test_a_gap_is_caught_without_equal_samples(seed: int) -> None:
    series = built(seed, 0.3)
    series[0][1000:1150] = 1e-3 * np.random.default_rng(seed).standard_normal(150)
    verdict = judge(checks(series), DrawQuality(0.99, 0.1))
    assert verdict.status == "misfit"
    assert "power in part" in verdict.reason


def test_streams_of_different_noise(seed: int) -> None:
    series = built(seed)
    series[1] += 0.2 * np.random.default_rng(seed + 1).standard_normal(SHORT.n)
    verdict = judge(checks(series), DrawQuality(0.99, 0.1))
    assert verdict.status == "misfit"
    assert "short stream's noise" in verdict.reason


def test_words_of_the_verdict() -> None:
    fine = [Check("level", 0.4, "x")]
    peak = [Check("peak in the band", 1e-9, "a peak in the band at 2.7 Hz"), *fine]
    assert judge(fine, DrawQuality(0.9, 0.3)).status == "exact"
    assert "amortized" in judge(fine).reason
    heavy = judge(fine, DrawQuality(0.9, 0.9))
    assert (heavy.status, "0.90" in heavy.reason) == ("approximate", True)
    few = judge(fine, DrawQuality(0.02, 0.3))
    assert (few.status, "0.020" in few.reason) == ("approximate", True)
    open_k = judge(fine, DrawQuality(0.9, 0.3, 0.2))
    assert (open_k.status, "uncertain" in open_k.reason) == ("approximate", True)
    tiny, none = (judge(fine, DrawQuality(ess, 0.3)).reason for ess in (4e-4, 0.0))
    assert "0.0004" in tiny and "no draw has any weight" in none
    full = judge(peak, DrawQuality(0.9, 0.3), at_k_max=0.99)
    assert full.status == "misfit"
    assert "K_max" in full.reason


def test_data_without_noise_or_signal() -> None:
    zeros = Statistics.from_arrays([torch.zeros(1, 3000)], [LONG])
    done = check_residual(zeros, np.zeros((0, 3)), BAND)
    assert all(0 <= c.p_value <= 1 for c in done)
