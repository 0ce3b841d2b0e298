"""Mixtures of several classes: components against sums that are written out, gains, laws and noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from slotflow import Grid, Prior
from slotflow.signal.simulation_classes import ClassSimulation, simulate_classes, unit_classes
from slotflow.signal.waveforms import Classes

LONG, SHORT = Grid(96, 1 / 96, t0=0.25), Grid(40, 1 / 400, t0=0.25)  # T = 1 s
PRIOR = Prior(
    k_min=0,
    k_max=4,
    frequency=(16.0, 28.0),
    min_separation=0.5,
    sigma=(0.7, 1.3),
    classes=unit_classes(1.0, sweep=10.0, decay=(1.5, 15.0)),
)
NOISELESS = (1e7, 2e7)
"""Gains beside which noise is nothing."""


def mixtures(n: int, seed: int, is_complex: bool = False, **options: object) -> ClassSimulation:
    return simulate_classes(PRIOR, n, LONG, SHORT, seed=seed, is_complex=is_complex, **options)


def written_out(name: str, theta: np.ndarray, grid: Grid) -> np.ndarray:
    """A component as its definition reads, complex, (N,): frequency at mid-record, decay from the first sample."""
    t = grid.times
    if name == "tone":
        amplitude, phase, f = theta
        return amplitude * np.exp(1j * (2 * np.pi * f * t + phase))
    amplitude, phase, f, extra = theta
    if name == "damped":
        decay = np.exp(-extra * (t - LONG.t0))
        return amplitude * decay * np.exp(1j * (2 * np.pi * f * t + phase))
    tau = LONG.mid_time
    turns = f * t + 0.5 * extra * ((t - tau) ** 2 - tau**2)
    return amplitude * np.exp(1j * (2 * np.pi * turns + phase))


@pytest.mark.parametrize("is_complex", [False, True])
def test_streams_are_the_sum_of_their_components(is_complex: bool, seed: int) -> None:
    batch = mixtures(40, seed, is_complex, gain=NOISELESS)
    counts, theta = batch.by_class()
    assert torch.equal(counts.sum(1), batch.k) and set(batch.k.tolist()) > {0, 4}
    assert batch.short is not None
    for grid, stream in ((LONG, batch.long), (SHORT, batch.short)):
        expected = np.zeros((40, grid.n), dtype=complex)
        for index, name in enumerate(("tone", "chirp", "damped")):
            signal = torch.repeat_interleave(counts[:, index])
            for b, component in zip(signal.tolist(), theta[index].numpy(), strict=True):
                expected[b] += written_out(name, component, grid)
        wanted = expected if is_complex else expected.real
        assert np.abs(stream.numpy() - wanted).max() < 1e-5 * np.abs(wanted).max()
        assert stream.dtype == (torch.complex64 if is_complex else torch.float32)


@pytest.mark.parametrize("is_complex", [False, True])
def test_gain_is_what_a_component_adds_to_the_log_likelihood(is_complex: bool, seed: int) -> None:
    batch = mixtures(60, seed, is_complex)
    waveform = batch.waveform
    assert isinstance(waveform, Classes)
    for b in range(60):
        for k in range(int(batch.k[b])):
            theta = batch.theta[b, k]
            index = int(waveform.class_of(theta))
            own = waveform.members_theta(index, theta).numpy()
            name = waveform.class_names[index]
            parts = [written_out(name, own, grid) for grid in (LONG, SHORT)]
            power = sum(np.sum(np.abs(p if is_complex else p.real) ** 2) for p in parts)
            rho = math.sqrt(power / (2 * float(batch.sigma[b]) ** 2))
            assert rho == pytest.approx(float(batch.gains[b, k]), rel=1e-9)


def test_laws(seed: int) -> None:
    """K uniform, classes equally likely, ρ and γ log-uniform, ḟ uniform, places apart and in order."""
    n = 4000
    batch = mixtures(n, seed)
    counts, theta = batch.by_class()
    assert stats.chisquare(np.bincount(batch.k, minlength=5)).pvalue > 1e-5
    assert stats.chisquare(counts.sum(0)).pvalue > 1e-5
    present = batch.mask
    rho = batch.gains[present].log().numpy()
    assert stats.kstest(rho, stats.uniform(math.log(5), math.log(8)).cdf).pvalue > 1e-5
    waveform = batch.waveform
    assert isinstance(waveform, Classes)
    drift = waveform.members["chirp"].of(theta[1], "drift").numpy()
    rate = waveform.members["damped"].of(theta[2], "rate").log().numpy()
    assert stats.kstest(drift, stats.uniform(-10, 20).cdf).pvalue > 1e-5
    assert stats.kstest(rate, stats.uniform(math.log(1.5), math.log(10)).cdf).pvalue > 1e-5
    assert stats.kstest(np.exp(rate), stats.uniform(1.5, 13.5).cdf).pvalue < 1e-9  # the control
    places = torch.where(present, waveform.place_of(batch.theta), torch.nan)
    gaps = places.diff(dim=1)
    assert float(gaps[~gaps.isnan()].min()) >= 0.5 - 1e-9
    assert float(places[present].min()) >= 16 and float(places[present].max()) <= 28


@pytest.mark.parametrize("is_complex", [False, True])
def test_noise_has_its_level(is_complex: bool, seed: int) -> None:
    batch = mixtures(3000, seed, is_complex)
    empty = batch.k == 0
    scaled = batch.long[empty] / batch.sigma[empty, None]
    parts = torch.view_as_real(scaled).flatten() if is_complex else scaled.flatten()
    error = math.sqrt(2 / len(parts))  # of a variance of 1
    assert float(parts.double().var()) == pytest.approx(1.0, abs=5 * error)


def test_seed_decides(seed: int) -> None:
    one, same, other = mixtures(8, seed), mixtures(8, seed), mixtures(8, seed + 1)
    assert torch.equal(one.long, same.long) and torch.equal(one.theta, same.theta)
    assert not torch.equal(one.long, other.long)


def test_one_waveform_serves_as_well(seed: int) -> None:
    prior = Prior(frequency=(16.0, 28.0), sigma=(1.0, 1.0))
    batch = simulate_classes(prior, 5, LONG, seed=seed)
    assert batch.theta.shape[-1] == prior.waveform.size and batch.short is None
    with pytest.raises(ValueError, match="several classes, received a tone"):
        batch.by_class()


def test_an_observation_of_each_signal(seed: int) -> None:
    batch = mixtures(3, seed)
    obs = batch.observation(1)
    np.testing.assert_array_equal(obs.long.values, batch.long[1].numpy())
    assert obs.short is not None and obs.short.n == SHORT.n and obs.long.t0 == LONG.t0


def test_bad_requests_are_answered() -> None:
    with pytest.raises(ValueError, match="n >= 1"):
        simulate_classes(PRIOR, 0, LONG)
    with pytest.raises(ValueError, match="0 < low <= high"):
        simulate_classes(PRIOR, 1, LONG, gain=(0.0, 5.0))
