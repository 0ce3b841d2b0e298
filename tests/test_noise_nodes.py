"""Nodes of the noise in the likelihood: what they sum to is the integral over the dense likelihood, term by term."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import linalg, signal, special

from slotflow import Observation, Prior
from slotflow.core.arrays import Array
from slotflow.data.channel import Channel
from slotflow.data.sampling import Grid
from slotflow.exact.target import Target
from slotflow.noise import ar, choose_noise, power_law
from slotflow.posterior.residual import likeliest
from slotflow.signal.likelihood.dense import Dense
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.signal.noise.background import background_of
from slotflow.signal.noise.filters import taps_of_partial
from slotflow.signal.noise.local import local_noise
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode
from slotflow.signal.noise.red_whitening import FILTER_LOSS, mode_frequencies, mode_variances
from slotflow.signal.noise.series import series_of

BAND = (0.15, 0.35)
SIGMA = 1.3
PRIOR = Prior(k_max=1, frequency=BAND, amplitude=(0.1, 5.0), sigma=(SIGMA, SIGMA))
TONE = np.array([[2.0, 0.7, 0.23]])


def observed(n: int, taps: Array, seed: int) -> Observation:
    """A tone in autoregressive noise, without nuisances."""
    rng = np.random.default_rng(seed)
    noise = signal.lfilter([1.0], taps, SIGMA * rng.standard_normal(n + 500))[500:]
    t = np.arange(n)
    values = TONE[0, 0] * np.cos(2 * np.pi * TONE[0, 2] * t + TONE[0, 1]) + noise
    return Observation(Channel(values, 1.0, trend=-1))


def covariance(partial: Array, n: int) -> Array:
    """Autocovariances of stationary noise over σ² as a matrix, (n, n)."""
    taps = taps_of_partial(partial)
    response = signal.lfilter([1.0], taps, np.eye(1, 1200)[0])
    lags = np.array([response[: 1200 - k] @ response[k:] for k in range(n)])
    return np.asarray(linalg.toeplitz(lags))


def dense(x: Array, matrix: Array, theta: Array) -> float:
    """Logarithm of the likelihood of samples x from t = 0 on, written out."""
    likelihood = Dense(
        [torch.from_numpy(x)[None]], [Grid(len(x), 1.0)], [torch.from_numpy(matrix)], reference=0.0
    )
    found = likelihood.log_likelihood(torch.from_numpy(theta)[None], torch.tensor([SIGMA]))
    return float(found)


def conditional(x: Array, partial: Array, theta: Array) -> float:
    """The same of all samples after the first p, given those."""
    matrix, p = covariance(partial, len(x)), len(partial)
    return dense(x, matrix, theta) - dense(x[:p], matrix[:p, :p], theta)


def summed(observation: Observation, noise: object, theta: Array) -> float:
    """Logarithm of the sum over nodes, as the exact step has it, at a known σ."""
    model = choose_noise(observation, noise, BAND, tones=theta)
    likelihood = likelihood_of(observation, model, BAND)
    target = Target(likelihood, PRIOR, len(theta))
    z = likelihood.to_z(theta)[None]
    return float(special.logsumexp(target.node_log_likelihoods(z)))


@pytest.mark.parametrize("n", [40, 90])
def test_one_coefficient_is_integrated_over_the_dense_likelihood(n: int) -> None:
    observation = observed(n, np.array([1.0, -0.6]), n)
    r = np.linspace(-1, 1, 101)[1:-1]
    brute = [conditional(observation.long.values, np.array([one]), TONE) for one in r]
    expected = special.logsumexp(brute) + math.log((r[1] - r[0]) / 2)
    assert summed(observation, ar(1), TONE) == pytest.approx(expected, abs=0.03)
    white = conditional(observation.long.values, np.array([0.0]), TONE)
    assert white < expected - 1


def test_two_coefficients_are_integrated_over_the_dense_likelihood() -> None:
    observation = observed(40, taps_of_partial(np.array([0.5, -0.5])), 5)
    r = np.linspace(-1, 1, 25)[1:-1]
    rest = observation.long.values - TONE[0, 0] * np.cos(
        2 * np.pi * TONE[0, 2] * observation.long.times + TONE[0, 1]
    )
    points = np.array([(a, b) for a in r for b in r])
    rss = [(np.convolve(rest, taps_of_partial(one), "valid") ** 2).sum() for one in points]
    plausible = points[
        (np.array(rss) - min(rss)) / (2 * SIGMA**2) < 9
    ]  # the others are 1e-4 of the mass
    brute = [conditional(observation.long.values, one, TONE) for one in plausible]
    expected = special.logsumexp(brute) + 2 * math.log((r[1] - r[0]) / 2)
    assert summed(observation, ar(2), TONE) == pytest.approx(expected, abs=0.05)


def test_known_coefficients_are_the_dense_likelihood() -> None:
    observation = observed(60, np.array([1.0, -0.6]), 7)
    found = summed(observation, ar(coefficients=[0.6]), TONE)
    expected = conditional(observation.long.values, np.array([0.6]), TONE)
    assert found == pytest.approx(expected, abs=1e-4)


def red_covariance(times: Array, frequencies: Array, variances: Array) -> Array:
    """Covariance over σ² of white noise and modes, (n, n)."""
    angle = 2 * np.pi * np.multiply.outer(times, frequencies)
    waves = np.concatenate([np.cos(angle), np.sin(angle)], 1)
    matrix: Array = np.eye(len(times)) + (waves * np.tile(variances, 2)) @ waves.T
    return matrix


def test_a_power_law_is_the_dense_likelihood() -> None:
    plain = observed(60, np.array([1.0, -0.6]), 8)
    observation = Observation(Channel(plain.long.values, 1.0, trend=-1, errors=np.ones(60)))
    model = choose_noise(observation, power_law(0.05, 2.0), BAND)
    modes = model.nodes[0].channels[0].modes
    assert modes is not None
    variances = mode_variances(modes.frequencies, (0.05, 2.0), 1.0)
    assert np.allclose(variances, modes.variances)
    matrix = red_covariance(observation.long.times, modes.frequencies, variances)
    found = summed(observation, power_law(0.05, 2.0), TONE)
    assert found == pytest.approx(dense(observation.long.values, matrix, TONE), abs=1e-5)


def test_an_even_series_with_many_red_bins_is_filtered() -> None:
    """The filter is that of the samples after its first ones given these, to within what it may lose."""
    n, shape = 144, (0.2, 2.0)
    frequencies = mode_frequencies(n, 143)
    matrix = red_covariance(np.arange(n), frequencies, mode_variances(frequencies, shape, 1.0))
    noise = SIGMA * np.linalg.cholesky(matrix) @ np.random.default_rng(4).standard_normal(n)
    values = noise + TONE[0, 0] * np.cos(2 * np.pi * TONE[0, 2] * np.arange(n) + TONE[0, 1])
    observation = Observation(Channel(values, 1.0, trend=-1))
    noise_model = choose_noise(observation, power_law(*shape), BAND)
    channel = noise_model.nodes[0].channels[0]
    p = len(channel.taps) - 1
    assert channel.modes is None and 0 < p <= n // 12
    found = summed(observation, power_law(*shape), TONE)
    expected = dense(values, matrix, TONE) - dense(values[:p], matrix[:p, :p], TONE)
    assert found == pytest.approx(expected, abs=FILTER_LOSS)
    wrong = dense(values, np.eye(n), TONE) - dense(values[:p], np.eye(p), TONE)
    assert abs(found - wrong) > 10


def test_residuals_beside_red_modes_are_white() -> None:
    """R C Rᵀ is the identity but for the offset, for the residual R x of noise of the covariance C."""
    n, shape = 40, (0.05, 2.0)
    rng = np.random.default_rng(3)
    times = np.sort(rng.uniform(0, n, n))

    def residual(values: Array) -> Array:
        channel = Channel(values, times=times)
        model = choose_noise(Observation(channel), power_law(*shape), BAND)
        likelihood = likelihood_of(Observation(channel), model, BAND)
        found: Array = likelihood.residuals(np.zeros((0, likelihood.waveform.coordinates)))[0]
        return found

    base = rng.standard_normal(n)  # a series of one sample alone is not taken for data
    operator = np.stack([residual(base + one) - residual(base) for one in np.eye(n)], 1)
    channel = Channel(base, times=times)
    modes = choose_noise(Observation(channel), power_law(*shape), BAND).nodes[0].channels[0].modes
    assert modes is not None
    matrix = red_covariance(times - times.mean(), modes.frequencies, modes.variances)
    values = np.linalg.eigvalsh(operator @ matrix @ operator.T)
    assert values[0] == pytest.approx(0.0, abs=1e-9)  # the offset
    assert values[1:] == pytest.approx(np.ones(n - 1), abs=1e-6)


def test_no_component_is_summed_over_all_nodes() -> None:
    observation = observed(80, np.array([1.0, -0.6]), 9)
    model = choose_noise(observation, ar(1), BAND)
    likelihood = likelihood_of(observation, model, BAND)
    target = Target(likelihood, PRIOR, 0)
    z = np.zeros((1, 0, likelihood.waveform.coordinates))
    whole = float(target.log_prob(z)[0][0])
    assert whole == pytest.approx(
        float(special.logsumexp(target.node_log_likelihoods(z))), abs=1e-9
    )


@pytest.mark.parametrize("ratio", [1.0, 0.2, 5.0])
def test_local_noise_of_another_level_is_the_density_in_the_band(ratio: float) -> None:
    """Only the degrees of freedom of the band count, in the exponent and in the determinant alike."""
    observation = observed(300, np.array([1.0]), 11)
    node = NoiseNode((ChannelNoise(ratio=ratio),))
    model = NoiseModel("local", (node,), local=True)
    likelihood = likelihood_of(observation, model, BAND)
    z = np.zeros((1, 0, likelihood.waveform.coordinates))
    found = float(Target(likelihood, PRIOR, 0).log_prob(z)[0][0])
    unit = likelihood_of(
        observation, NoiseModel("local", (NoiseNode((ChannelNoise(),)),), local=True), BAND
    )
    n, energy, level = unit.n, float(unit.energy[0]), ratio * SIGMA
    assert likelihood.n == n < 300
    expected = -0.5 * n * math.log(2 * math.pi * level**2) - 0.5 * energy / level**2
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_tone_near_the_edge_of_a_band_is_no_slope_of_the_noise() -> None:
    """White noise: the nodes of the tilt reach none at all, and the most plausible one beside the tone is near it."""
    n, rng = 1000, np.random.default_rng(12)
    tone = np.array([[0.26, 1.0, 0.153]])
    x = rng.standard_normal(n) + tone[0, 0] * np.cos(2 * np.pi * tone[0, 2] * np.arange(n) + 1.0)
    observation, band = Observation(Channel(x, 1.0)), (0.15, 0.19)
    background = replace(background_of(series_of(observation.long), 0), lines=())
    whole = replace(background, rest=series_of(observation.long))
    model = local_noise([whole], band, [1.0])
    assert model.parameters == ("tilt",)
    likelihood = likelihood_of(observation, model, band)
    best = likeliest(likelihood, tone)
    assert abs(best.node.values[0]) < 0.9  # two standard deviations
    assert max(abs(node.values[0]) for node in model.nodes) > 0.9
