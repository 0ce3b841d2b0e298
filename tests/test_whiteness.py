"""Tests of the residual of any likelihood: their rates under the model, and what they see that is not in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.signal import lfilter

from slotflow import Channel, Grid, Observation
from slotflow.core.arrays import Array
from slotflow.posterior.standing import standing
from slotflow.posterior.verdict import FALSE_ALARM, Check, DrawQuality, check_residual, judge
from slotflow.posterior.whiteness.lags import lag_checks
from slotflow.posterior.whiteness.laws import beta_test, f_test, share_test
from slotflow.posterior.whiteness.left import Left, Taken, cut_to_band
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Likelihood, Statistics, likelihood_of
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode

SHORT_BAND, BAND = (0.03, 0.47), (1.0, 2.0)
COUNT = 80
"""Short series of each kind."""
RARE = 1e-5
"""P-value of a test's own tests."""


def tones(theta: Array, t: Array, complex_valued: bool = False) -> Array:
    turned = theta[:, :1] * np.exp(1j * (2 * np.pi * theta[:, 2:] * t + theta[:, 1:2]))
    return turned.sum(0) if complex_valued else turned.real.sum(0)


def red(rng: np.random.Generator, n: int, coefficient: float) -> Array:
    return lfilter([1.0], [1.0, -coefficient], rng.standard_normal(n + 200))[200:]


def status(checks: tuple[Check, ...]) -> str:
    return judge(checks, DrawQuality(1.0)).status


# ---------------------------------------------------------------------- short series


def fitted(x: Array, f: Array) -> tuple[Statistics, Array]:
    """Tones of some frequencies fitted to a series of unit step."""
    statistics = Statistics.from_arrays([torch.as_tensor(x)[None]], [Grid(len(x), 1.0)])
    at = np.exp(-2j * np.pi * np.outer(f, np.arange(len(x)))) @ x * 2 / len(x)
    start = np.stack([np.abs(at), np.angle(at), f], 1)
    return statistics, fit(statistics, torch.as_tensor(start)[None], max_shift=1.0).theta[0].numpy()


def strongest(x: Array, count: int) -> Array:
    """Frequencies of the highest bins, two bins apart or more."""
    power, found = np.abs(np.fft.rfft(x)), []
    power[: int(SHORT_BAND[0] * len(x))] = 0
    for _ in range(count):
        found.append(int(power.argmax()))
        power[max(found[-1] - 2, 0) : found[-1] + 3] = 0
    return np.sort(np.array(found)) / len(x)


def test_colour_of_short_series_is_seen_and_white_ones_pass(seed: int) -> None:
    """AR(1) noise of 98 samples with its highest peaks taken for tones is no white noise; white noise still is."""
    rng, called, alarms = np.random.default_rng(seed), [], 0
    for i in range(COUNT):
        x = red(rng, 98, 0.75)
        statistics, theta = fitted(x, strongest(x, i % 5))
        called.append(status(check_residual(statistics, theta, SHORT_BAND)))
        x = rng.standard_normal(98)
        statistics, theta = fitted(x, strongest(x, i % 5))
        alarms += status(check_residual(statistics, theta, SHORT_BAND)) == "misfit"
    assert stats.binom.sf(called.count("exact") - 1, COUNT, 0.01) > 1e-3  # 1 % or less
    assert stats.binom.sf(alarms - 1, COUNT, FALSE_ALARM) > RARE


@pytest.mark.parametrize("k", [0, 3, 6])
def test_correlations_follow_their_law(k: int, seed: int) -> None:
    """P-values are uniform for white noise from which tones were projected out, and not without that knowledge."""
    rng, n = np.random.default_rng(seed), 98
    f, t = np.linspace(0.04, 0.2, k), np.arange(n) - 0.5 * (n - 1)
    columns = [g for x in f for g in (np.cos(x * t * 2 * np.pi), np.sin(x * t * 2 * np.pi))]
    columns += [t * np.sin(2 * np.pi * x * t + 0.3) for x in f]
    basis = np.linalg.qr(np.stack(columns, 1))[0] if k else np.zeros((n, 0))
    p: dict[str, list[float]] = {}
    for _ in range(800):
        e = rng.standard_normal(n)
        e -= basis @ (basis.T @ e)
        for name, taken in (("", Taken(f, np.full(k, 3.0))), ("blind ", Taken())):
            for check in lag_checks(Left("", e, t, 1.0, taken)):
                p.setdefault(name + check.name, []).append(check.p_value)
    for name in ("neighbours (long)", "lags (long)"):
        for rate in (0.1, 0.01):
            count = int((np.array(p[name]) < rate).sum())
            assert stats.binomtest(count, 800, rate).pvalue > RARE, (name, rate)
    if k == 6:  # the control: tones at low frequencies leave negative correlations
        blind = int((np.array(p["blind neighbours (long)"]) < 0.01).sum())
        assert stats.binomtest(blind, 800, 0.01).pvalue < RARE


def test_what_was_not_tested_is_not_claimed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reasons = []
    for n in (98, 2000):
        statistics = Statistics.from_arrays(
            [torch.as_tensor(rng.standard_normal(n))[None]], [Grid(n, 1.0)]
        )
        verdict = judge(
            check_residual(statistics, np.zeros((0, 3)), SHORT_BAND),
            DrawQuality(1.0),
            false_alarm=0,
        )
        reasons.append(verdict.reason)
    assert "not tested: its steadiness and shape" in reasons[0]
    assert reasons[1].endswith("the residual is white noise")


def test_many_tones_in_few_samples_raise_doubt() -> None:
    suspect = (Check("neighbours (long)", 4e-3, "the noise is not white", doubt=0.01),)
    verdict = judge(suspect, DrawQuality(1.0))
    assert (verdict.status, "perhaps the noise is not white" in verdict.reason) == (
        "approximate",
        True,
    )
    assert judge((Check("neighbours (long)", 0.02, "", doubt=0.01),), DrawQuality(1.0)).status == (
        "exact"
    )


# ---------------------------------------------------------------------- any likelihood

THETA = np.array([[0.5, 0.4, 1.3], [0.4, 2.0, 1.7]])
N = 800


def noise_of(
    taps: tuple[float, ...] = (1.0,), local: bool = False, lines: tuple[float, ...] = ()
) -> NoiseModel:
    return NoiseModel("test", (NoiseNode((ChannelNoise(np.array(taps), lines=lines),)),), local)


def even(values: Array) -> Observation:
    return Observation([Channel(values, dt=0.1)])


Build = Callable[[np.random.Generator], tuple[Likelihood, Likelihood]]
"""A likelihood that describes its data, and one that does not."""


def complex_samples(rng: np.random.Generator) -> tuple[Likelihood, Likelihood]:
    t, band = 0.1 * np.arange(N), (1.0, 4.0)
    x = tones(THETA, t, True) + rng.standard_normal(N) + 1j * rng.standard_normal(N) + 3.0
    outside = 0.4 * np.exp(-2j * np.pi * 2.2 * t)
    return (
        likelihood_of(even(x), None, band),
        likelihood_of(even(x + outside), None, band),
    )


def uneven_times(rng: np.random.Generator) -> tuple[Likelihood, Likelihood]:
    t, errors = np.sort(rng.uniform(0, 80, N)), rng.uniform(0.7, 1.5, N)
    x = tones(THETA, t) + errors * rng.standard_normal(N) + 3.0
    other = x + 0.6 * np.cos(2 * np.pi * 1.5 * t)
    return tuple(  # type: ignore[return-value]
        likelihood_of(Observation([Channel(values, times=t, errors=errors)]), None, BAND)
        for values in (x, other)
    )


def whitened(rng: np.random.Generator) -> tuple[Likelihood, Likelihood]:
    x = even(tones(THETA, 0.1 * np.arange(N)) + red(rng, N, 0.8))
    return likelihood_of(x, noise_of((1.0, -0.8)), BAND), likelihood_of(x, noise_of(), BAND)


def local_with_a_line(rng: np.random.Generator) -> tuple[Likelihood, Likelihood]:
    """A line outside the band and red noise do not matter where noise is local."""
    t = 0.1 * np.arange(N)
    x = even(tones(THETA, t) + rng.standard_normal(N) + 9 * np.cos(2 * np.pi * 3.77 * t))
    return (
        likelihood_of(x, noise_of(local=True, lines=(3.77,)), BAND),
        likelihood_of(x, noise_of(), BAND),
    )


def local_with_a_tone(rng: np.random.Generator) -> tuple[Likelihood, Likelihood]:
    """What is left in the band does."""
    t = 0.1 * np.arange(N)
    x = tones(THETA, t) + rng.standard_normal(N)
    local = noise_of(local=True)
    more = x + 0.5 * np.cos(2 * np.pi * 1.5 * t)
    return likelihood_of(even(x), local, BAND), likelihood_of(even(more), local, BAND)


def local_with_a_burst(rng: np.random.Generator) -> tuple[Likelihood, Likelihood]:
    t, local = 0.1 * np.arange(N), noise_of(local=True)
    x = tones(THETA, t) + rng.standard_normal(N)
    loud = x + np.where((t > 20) & (t < 28), 4.0, 0.0) * rng.standard_normal(N)
    return likelihood_of(even(x), local, BAND), likelihood_of(even(loud), local, BAND)


def local_with_gaps(rng: np.random.Generator) -> tuple[Likelihood, Likelihood]:
    """The colour of noise in its band is seen at uneven times too."""
    t = 0.1 * np.arange(1000)
    kept = (t < 30) | (t > 50)
    found = []
    for noise in (rng.standard_normal(1000), red(rng, 1000, 0.9)):
        channel = Channel((tones(THETA, t) + noise)[kept], times=t[kept])
        found.append(likelihood_of(Observation([channel]), noise_of(local=True), (0.5, 2.0)))
    return found[0], found[1]


CASES = [
    (complex_samples, "peak outside the band"),
    (uneven_times, "peak in the band"),
    (whitened, "neighbours"),
    (local_with_a_line, "peak outside the band"),
    (local_with_a_tone, "peak in the band"),
    (local_with_a_burst, "steadiness"),
    (local_with_gaps, "colour"),
]


@pytest.mark.parametrize(("build", "name"), CASES)
def test_any_likelihood_is_tested(build: Build, name: str, seed: int) -> None:
    """P-values are those of the model where it holds; where it does not, the right test says so."""
    p: dict[str, list[float]] = {}
    for i in range(20):
        right, wrong = build(np.random.default_rng(seed + i))
        for check in check_residual(right, THETA, right.band):  # type: ignore[attr-defined]
            if not check.name.startswith("repeats"):
                p.setdefault(check.name, []).append(check.p_value)
        if i < 4:
            found = check_residual(wrong, THETA, right.band)  # type: ignore[attr-defined]
            assert status(found) == "misfit"
            limit = FALSE_ALARM / len(found)
            assert any(c.name.startswith(name) and c.p_value < limit for c in found), found[0]
    for test, values in p.items():
        low = int(
            (np.array(values) < 0.1).sum()
        )  # the truth was not fitted: no test is conservative
        assert stats.binom.sf(low - 1, len(values), 0.1) > RARE, test
        assert min(values) > 1e-5, test


def test_a_band_cut_out_is_white(seed: int) -> None:
    """The Fourier coefficients of a band, transformed back, are independent samples of the same variance."""
    rng = np.random.default_rng(seed)
    for n, values in ((4000, rng.standard_normal(4000)), (3999, rng.standard_normal(3999))):
        left = Left("", values, 0.1 * np.arange(n), 0.1)
        cut = cut_to_band(left, BAND)
        assert cut.is_complex and cut.n == pytest.approx((BAND[1] - BAND[0]) * 0.1 * n, abs=1)
        error = 5 * np.sqrt(2 / cut.dof)
        assert cut.variance == pytest.approx(1.0, abs=error)
        f, power = cut.spectrum()
        whole_f, whole = left.spectrum()
        inside = (whole_f >= f[0] - 1e-9) & (whole_f <= f[-1] + 1e-9)
        np.testing.assert_allclose(power, whole[inside], rtol=1e-9)


# ---------------------------------------------------------------------- what stands


def test_errors_inflated_by_what_is_left_are_right(seed: int) -> None:
    """Tones in red noise that were fitted as if it were white: pulls are too wide, and right once inflated."""
    rng, n, count = np.random.default_rng(seed), 1000, 100
    grid = Grid(n, 1.0)
    truth = np.stack(
        [np.full(count, 3.0), rng.uniform(0, 6, count), rng.uniform(0.02, 0.03, count)], 1
    )
    series = np.stack([tones(one[None], grid.times) + red(rng, n, 0.9) for one in truth])
    statistics = Statistics.from_arrays([torch.as_tensor(series)], [grid])
    theta = fit(statistics, torch.as_tensor(truth)[:, None]).theta.numpy()
    pulls, inflated = [], []
    for i in range(count):
        one = statistics.take(torch.tensor([i]))
        sigma = float(np.std(one.residuals(one.to_z(theta[i]))[0]))
        found = standing(one, theta[i], sigma)
        sd = np.sqrt(6 / n) * sigma / (np.pi * theta[i, 0, 0] * n)
        pulls.append((theta[i, 0, 2] - truth[i, 2]) / sd)
        inflated.append(pulls[-1] / found.inflation[0])
        assert found.heights[0] > 5 and found.stands == (True,)
    error = 5 / np.sqrt(2 * count)
    assert np.sqrt(np.mean(np.square(inflated))) == pytest.approx(1.05, abs=error)
    assert np.sqrt(np.mean(np.square(pulls))) > 1 + 2 * error


def test_words_of_what_stands(seed: int) -> None:
    rng, t = np.random.default_rng(seed), 0.1 * np.arange(N)
    theta = np.array([[1.0, 0.0, 1.2], [0.02, 0.0, 1.4], [1.0, 1.0, 1.8]])
    x = tones(theta, t) + rng.standard_normal(N) + 3 * np.cos(2 * np.pi * 1.86 * t)
    likelihood = likelihood_of(even(x), None, (0.9, 2.1))
    found = standing(likelihood, theta, 1.0)
    assert (
        found.stands == (True, False, False) and found.inflation[2] > 5 > 1.6 > found.inflation[0]
    )
    assert found.words.startswith("1 of 3 tones stands with errors ")
    assert found.words.endswith("; the count does not")
    alone = standing(likelihood, theta[:1], 1.0).words
    assert alone.startswith("the tone stands") and standing(likelihood, theta[:0], 1.0).words == ""
    assert "no tone stands" in standing(likelihood, theta[1:2], 1.0).words


def test_two_sided_p_values_are_twice_the_smaller_tail() -> None:
    """On both sides of the mean, far out and near the median, where the tail on the other side may be smaller."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(2, 500, 2000), rng.uniform(2, 500, 2000)
    share = np.clip(a / (a + b) * rng.uniform(0.6, 1.4, 2000), 0.0, 1.0)
    both = stats.beta.cdf(share, a, b), stats.beta.sf(share, a, b)
    dof = np.array([40.0, 60.0])
    near = rng.uniform(0.2, 0.6, 2000)
    own = [stats.beta.cdf(near, 20, 30), stats.beta.sf(near, 20, 30)]
    pairs = [
        (beta_test(2 * share - 1, (a - b) / (a + b), 4 * stats.beta.var(a, b)), both),
        (share_test(np.stack([near, 1 - near], -1), dof)[:, 0], own),
        (f_test(near, 20, 300), [stats.f.cdf(near, 20, 300), stats.f.sf(near, 20, 300)]),
        (
            f_test(1 / near, 20, 300),
            [stats.f.cdf(1 / near, 20, 300), stats.f.sf(1 / near, 20, 300)],
        ),
    ]
    for p, (low, high) in pairs:
        np.testing.assert_allclose(p, 2 * np.minimum(low, high), rtol=1e-8, atol=1e-250)
        assert (p <= 1).all()


def test_channels_are_called_by_number_unless_the_second_is_the_short_stream() -> None:
    rng = np.random.default_rng(0)
    none = np.zeros((0, 3))

    def words(channels: list[Channel]) -> list[str]:
        checks = check_residual(likelihood_of(Observation(channels), None, BAND), none, BAND)
        return [check.words for check in checks if check.name.startswith("streams")]

    def channel(n: int, name: str = "") -> Channel:
        return Channel(rng.standard_normal(n) + 0j, dt=0.1, name=name)

    assert words([channel(300), channel(300)])[0].startswith("channel 2's noise power is ")
    assert words([channel(300), channel(100)])[0].startswith("the short stream's noise power is ")
    three = words([channel(300), channel(300), channel(100, "B")])
    assert sorted(one.partition("'s")[0] for one in three) == ["channel 2", "channel B"]
    assert all(one.endswith(" times channel 1's") for one in three)
