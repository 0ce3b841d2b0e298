"""Upper limits: the integral that defines them, coverage, and when a result has them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from posterior_helpers import gaussian_posterior
from scipy import integrate, special
from statistics_helpers import assert_within

from slotflow import Channel, Observation, Posterior, Prior, Stream
from slotflow.posterior.limits import LIKELY, amplitude_limit, matched_filter, upper_limit
from slotflow.signal.likelihood.observed import likelihood_of

Array = NDArray[np.float64]

F = 2.7183
SIGMA = 0.8


@pytest.mark.parametrize(
    ("r", "top"), [(0.0, math.inf), (0.5, 2.0), (3.0, math.inf), (3.0, 4.0), (50.0, math.inf)]
)
@pytest.mark.parametrize("credibility", [0.5, 0.95])
def test_limit_holds_its_share_of_the_posterior(r: float, top: float, credibility: float) -> None:
    def density(a: float) -> float:
        return float(np.exp(-0.5 * (a - r) ** 2) * special.i0e(a * r))

    limit = float(amplitude_limit(2.0 * r, 2.0, 2.0 * top, credibility)) / 2.0
    ends = max(r - 12, 0.0), min(r + 12, top)
    whole = integrate.quad(density, *ends)[0]
    assert integrate.quad(density, ends[0], limit)[0] / whole == pytest.approx(
        credibility, abs=2e-4
    )


def test_table_equals_single_values(seed: int) -> None:
    r = np.random.default_rng(seed).rayleigh(size=3000) * 2
    many = amplitude_limit(r, 1.0, 8.0)
    np.testing.assert_allclose(many[:50], amplitude_limit(r[:50], 1.0, 8.0), atol=2e-4)
    assert (np.diff(many[np.argsort(r)]) >= 0).all() and many.max() < 8.0
    assert amplitude_limit(np.array([1e4]), 1.0, 10.0)[0] <= 10.0  # a peak far beyond the bound


def series(amplitude: float, rng: np.random.Generator, short: bool) -> Observation:
    """A tone in noise; the short stream is twice as noisy."""
    phase = rng.uniform(0, 2 * np.pi)
    streams = []
    for n, dt, t0, ratio in ((600, 0.1, 3.0, 1.0), (400, 1 / 64, 20.0, 2.0))[: 2 if short else 1]:
        t = t0 + dt * np.arange(n)
        x = amplitude * np.cos(2 * np.pi * F * t + phase)
        streams.append(Stream(x + ratio * SIGMA * rng.standard_normal(n), dt, t0, ratio * SIGMA))
    return Observation(*streams)


@pytest.mark.parametrize("short", [False, True])
def test_matched_filter_is_the_tone_plus_noise_of_the_stated_size(short: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [matched_filter(series(0.0, rng, short), np.array([F]), SIGMA) for _ in range(600)]
    power = np.array([r[0] ** 2 / (2 * s**2) for r, s in found])  # exponential of mean 1
    assert_within(power.mean(), 1.0, 1 / math.sqrt(power.size))
    height, scale = matched_filter(series(50.0, rng, short), np.array([F]), SIGMA)
    assert_within(height[0], 50.0, scale + 50 / (2 * np.pi * F * 6))


def coverage(short: bool, seed: int, factor: float = 1.0) -> tuple[float, float]:
    """Share of tones of the prior below the limit of their data, and its standard error."""
    rng, n, highest = np.random.default_rng(seed), 800, 0.3
    below = 0
    for _ in range(n):
        amplitude = rng.uniform(0, highest)
        data = series(amplitude, rng, short)
        height, scale = matched_filter(data, np.array([F]), factor * SIGMA)
        below += int(amplitude <= amplitude_limit(height, scale, highest)[0])
    return below / n, math.sqrt(0.95 * 0.05 / n)


@pytest.mark.parametrize("short", [False, True])
def test_limits_cover_tones_of_the_prior(short: bool, seed: int) -> None:
    """Of amplitudes that are uniform up to A_max, 95 % are below the limit; a wrong σ is noticed."""
    share, error = coverage(short, seed)
    assert_within(share, 0.95, error)
    wrong, error = coverage(short, seed, factor=0.4)
    with pytest.raises(AssertionError, match="outside 5 standard errors"):
        assert_within(wrong, 0.95, error)


def noise_only(k0: float, prior: Prior | None) -> Posterior:
    return gaussian_posterior([k0, 1 - k0, 0.0, 0.0], present=0, prior=prior)


def test_a_result_has_limits_where_k_0_is_likely() -> None:
    prior = Prior(k_min=0, k_max=3, amplitude=(0.5, 1.5))
    assert noise_only(LIKELY / 2, prior).upper_limit() is None
    found = noise_only(0.9, prior).upper_limit()
    assert found is not None
    assert found.frequency[0] == 2.5 and found.frequency[-1] == 3.0
    assert np.diff(found.frequency).max() < 1 / (3.9 * 51.2)
    scale = 0.3 * math.sqrt(2 / 640)
    assert (found.amplitude > 1.95 * scale).all() and (found.amplitude < 8 * scale).all()
    record = found.record()
    assert record["best"] <= record["median"] <= record["worst"] == found.amplitude.max()
    assert (record["credibility"], record["k0_prob"]) == (0.95, 0.9)


def test_chosen_frequencies_credibility_and_no_prior() -> None:
    post = noise_only(0.9, None)
    whole = post.upper_limit()
    assert whole is not None and whole.frequency[-1] == 5.0
    low, high = (post.upper_limit([2.6, 2.8], c) for c in (0.5, 0.99))
    assert low is not None and high is not None
    assert low.frequency.tolist() == [2.6, 2.8] and (low.amplitude < high.amplitude).all()
    post.noise_std = math.nan  # that of the data
    alone = post.upper_limit([2.6, 2.8], 0.5)
    assert alone is not None
    np.testing.assert_allclose(alone.amplitude, low.amplitude, rtol=0.1)
    for bad in ([0.0], [9.0], [], [[1.0]], [math.nan]):
        with pytest.raises(ValueError, match="expected frequencies in Hz"):
            post.upper_limit(bad)
    with pytest.raises(ValueError, match="between 0 and 1, received 1"):
        post.upper_limit(None, 1.0)


def test_summary_has_the_limits() -> None:
    frame = noise_only(0.9, Prior(k_min=0, k_max=3)).summary()
    assert len(frame) == 0 and 0 < frame.attrs["upper_limit"]["median"] < 0.2


def test_commands_tell_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    from slotflow.cli.printing import print_posterior
    from slotflow.many.records import posterior_record

    quiet = noise_only(0.9, Prior(k_min=0, k_max=3))
    record = posterior_record(quiet, quiet.summary())
    assert record["upper_limit"]["best"] < record["upper_limit"]["worst"]
    print_posterior(record)
    assert "A lone tone's amplitude would be below" in capsys.readouterr().out
    doubtful = gaussian_posterior([0.0, 0.3, 0.7, 0.0])
    record = posterior_record(doubtful, doubtful.summary())
    assert record["upper_limit"] is None and record["components"][1]["existence"] < 0.71
    print_posterior(record)
    shown = capsys.readouterr().out
    assert "exists" in shown and "0.70" in shown and "lone tone" not in shown


def test_an_offset_that_is_marginalized_leaves_limits_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(98)
    f = np.linspace(0.05, 0.45, 200)
    level, high = (Observation.from_arrays(values=x + offset, dt=1.0) for offset in (0.0, 580.0))
    filters = [
        matched_filter(one, f, 1.0, likelihood_of(one, None, (0.02, 0.5))) for one in (level, high)
    ]
    np.testing.assert_allclose(filters[1][0], filters[0][0], atol=1e-7)
    raw = matched_filter(high, f, 1.0)[0]
    assert (
        raw.max() > 10 * filters[0][0].max()
    )  # the control: without the nuisance the offset leaks


def test_limits_of_complex_samples_have_either_sign(seed: int) -> None:
    """The limit at a frequency is that of its mirror image in the conjugate series."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(300) + 1j * rng.standard_normal(300)
    found = []
    for values, band in ((x, (-3.0, -2.0)), (x.conj(), (2.0, 3.0))):
        observation, prior = Observation.from_arrays(values=values, dt=0.1), Prior(frequency=band)
        likelihood = likelihood_of(observation, None, band)
        found.append(upper_limit(observation, prior, 1.0, 0.9, likelihood=likelihood))
    below, above = found
    assert below is not None and above is not None
    np.testing.assert_allclose(below.frequency, -above.frequency[::-1])
    np.testing.assert_allclose(below.amplitude, above.amplitude[::-1], rtol=1e-4)
    with pytest.raises(ValueError, match=r"from -5\.26667 up to"):
        upper_limit(observation, None, 1.0, 0.9, frequency=[-5.5])
    everywhere = upper_limit(observation, None, 1.0, 0.9)
    assert everywhere is not None and everywhere.frequency[[0, -1]].tolist() == [-5.0, 5.0]


def test_stated_frequencies_are_among_those_that_the_likelihood_covers(seed: int) -> None:
    """Beyond the median step's Nyquist frequency where the band lies there; not where nothing was computed."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, 200, 200))
    data = Observation(Channel(rng.standard_normal(200), times=times))
    band = (data.long.nyquist + 0.1, data.long.nyquist + 0.3)
    found = upper_limit(data, Prior(frequency=band), 1.0, 0.9, [sum(band) / 2])
    assert found is not None and 0 < found.amplitude[0] < 1
    with pytest.raises(ValueError, match="which this analysis looked at"):
        upper_limit(data, Prior(frequency=band), 1.0, 0.9, [band[0] - 0.1])
