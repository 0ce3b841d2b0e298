"""The joint step: Gauss–Newton where tones are resolved, finite everywhere else."""

from __future__ import annotations

import math

import pytest
import torch
from tone_helpers import LONG, SHORT, from_complex, gauss_newton_step, statistics_of, to_complex
from torch import Tensor

from slotflow import Prior, simulate
from slotflow.signal.bounds import crb_covariance
from slotflow.signal.joint import REACH, JointStep, joint_step, start_amplitudes
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import Simulation
from slotflow.signal.waveforms import TONE

CLEAR = Prior(sigma=(0.1, 0.4), min_separation=0.015)
"""Resolved tones at an SNR at which Λ is below 1e-3 of the data's precision."""


def step_from(
    statistics: Statistics,
    theta: Tensor,
    mask: Tensor,
    sigma: Tensor,
    largest: float = 1.5,
) -> JointStep:
    frequency, c = to_complex(theta, statistics.reference, mask)
    largest_ = torch.full_like(sigma, largest)
    return joint_step(statistics, frequency[..., None], c[..., None], mask, sigma, largest_)


def perturbed(simulation: Simulation, seed: int, bins: float = 0.1) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(simulation.theta.shape, generator=g, dtype=torch.float64)
    scale = torch.tensor([0.05, 0.1, bins / LONG.duration], dtype=torch.float64)
    return simulation.theta + noise * scale


def theta_blocks(step: JointStep, c: Tensor, sigma: Tensor, reference: float) -> Tensor:
    """Covariance of each tone's (A, φ, f) from that of (f, Re c, Im c), (B, K, 3, 3)."""
    size = c.abs()
    a, b, zero = c.real / size, c.imag / size, torch.zeros_like(size)
    rows = [
        torch.stack([zero, a, b], -1),
        torch.stack([torch.full_like(size, -2 * math.pi * reference), -b / size, a / size], -1),
        torch.stack([torch.ones_like(size), zero, zero], -1),
    ]
    change = torch.stack(rows, -2) * sigma[:, None, None, None]
    return change @ step.covariance @ change.mT


def bound_blocks(simulation: Simulation, short: bool) -> Tensor:
    """Diagonal blocks of the joint Cramér–Rao bound, (B, K, 3, 3)."""
    grids = simulation.grids if short else simulation.grids[:1]
    full = crb_covariance(simulation.theta, simulation.sigma, grids, simulation.mask)
    k = simulation.theta.shape[1]
    return torch.stack([full[:, 3 * i : 3 * i + 3, 3 * i : 3 * i + 3] for i in range(k)], 1)


def relative(a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
    """Largest |a − b| in units of b's standard deviations."""
    sd = b.diagonal(dim1=-2, dim2=-1).sqrt()
    error = (a - b) / (sd[..., :, None] * sd[..., None, :])
    return error[mask].abs().max()


# ---------------------------------------------------------------- resolved tones


@pytest.mark.parametrize("short", [True, False])
def test_equals_gauss_newton_for_resolved_tones(short: bool, seed: int) -> None:
    """To 2 % of a posterior standard deviation: Λ pulls by its share of the precision times the way to go."""
    simulation = simulate(CLEAR, 40, LONG, SHORT, seed=seed)
    statistics = statistics_of(simulation, short=short)
    start, mask, sigma = perturbed(simulation, seed), simulation.mask, simulation.sigma
    step = step_from(statistics, start, mask, sigma)
    expected, covariance = gauss_newton_step(statistics, start, mask, sigma)
    frequency, c = to_complex(expected, statistics.reference, mask)
    sd = sigma[:, None, None] * step.covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    difference = TONE.pack(step.xi - frequency[..., None], step.c - c[..., None])
    assert (difference[mask] / sd[mask]).abs().max() < 0.02
    moved = (step.xi[..., 0] - simulation.theta[..., 2])[mask].abs() / sd[mask][:, 0]
    began = (start - simulation.theta)[..., 2][mask].abs() / sd[mask][:, 0]
    assert moved.median() < 0.3 * began.median()  # there was some way to go
    assert torch.equal(step.step[..., 0][~mask], torch.zeros_like(step.step[..., 0][~mask]))
    again = covariance.diagonal(dim1=-2, dim2=-1).reshape(*mask.shape, 3)[..., 2]
    assert torch.allclose(sd[mask][:, 0] ** 2, again[mask], rtol=0.01)


@pytest.mark.parametrize("short", [True, False])
def test_covariance_is_the_bound(short: bool, seed: int) -> None:
    """At the truth the marginal covariance is the joint Cramér–Rao bound to 1 %; of the other streams it is not."""
    simulation = simulate(CLEAR, 60, LONG, SHORT, seed=seed)
    statistics = statistics_of(simulation, short=short)
    mask, sigma = simulation.mask, simulation.sigma
    step = step_from(statistics, simulation.theta, mask, sigma)
    _, c = to_complex(simulation.theta, statistics.reference, mask)
    blocks = theta_blocks(step, torch.where(mask, c, 1.0), sigma, statistics.reference)
    assert relative(blocks, bound_blocks(simulation, short), mask) < 0.01
    assert relative(blocks, bound_blocks(simulation, not short), mask) > 0.1
    alone = step.conditional[mask]
    marginal = step.covariance.diagonal(dim1=-2, dim2=-1)[mask]
    assert (alone <= marginal * (1 + 1e-9)).all() and (alone > 0).all()


def test_residual_and_matched_filters(seed: int) -> None:
    """RSS is that of the start; where the model is the data, nothing is left."""
    simulation = simulate(CLEAR, 10, LONG, SHORT, seed=seed)
    statistics = statistics_of(simulation)
    mask = simulation.mask
    step = step_from(statistics, simulation.theta, mask, simulation.sigma)
    assert torch.allclose(step.rss, statistics.rss(simulation.theta, mask), rtol=1e-9)
    assert len(step.rest) == 2 and step.rest[0, ..., 0].shape == mask.shape
    clean = simulate(Prior(sigma=(0.0, 1e-9)), 5, LONG, SHORT, seed=seed)
    statistics = statistics_of(clean)
    step = step_from(statistics, clean.theta, clean.mask, torch.full((5,), 0.1).double())
    for rest in step.rest:  # float32 data: 3,000 to 5,000 samples rounded at 1e-7
        assert rest[clean.mask].abs().max() < 1e-3
    truth = torch.where(clean.mask, clean.theta[..., 2], 0.0)
    assert (step.xi[..., 0] - truth).abs().max() < 1e-8


def test_absent_tones_change_nothing(seed: int) -> None:
    """Two tones in six columns, at any place among them, move as two tones in two columns."""
    simulation = simulate(CLEAR, 8, LONG, SHORT, seed=seed, k=2)
    statistics = statistics_of(simulation)
    start = perturbed(simulation, seed)[:, :2]
    ones = torch.ones(8, 2, dtype=torch.bool)
    pair = step_from(statistics, start, ones, simulation.sigma)
    wide = torch.zeros(8, 6, 3, dtype=torch.float64)
    wide[:, [1, 4]] = start
    mask = torch.zeros(8, 6, dtype=torch.bool)
    mask[:, [1, 4]] = True
    among = step_from(statistics, wide, mask, simulation.sigma)
    for name in ("xi", "c", "step", "covariance", "conditional"):
        a, b = getattr(among, name), getattr(pair, name)
        assert torch.allclose(a[:, [1, 4]], b, rtol=1e-6, atol=1e-12), name
        assert (a[~mask] == 0).all(), name
    assert torch.allclose(among.rss, pair.rss, rtol=1e-12)


# ---------------------------------------------------------------- everything else


@pytest.mark.parametrize(
    "theta",
    [
        [[1.0, 0.5, 2.7], [1.0, 0.5, 2.7]],  # one place
        [[1.0, 0.5, 2.7], [1.0, 2.0, 2.7 + 1e-9]],
        [[1.0, 0.5, 2.7], [0.0, 0.0, 2.7]],
        [[0.0, 0.0, 2.6], [0.0, 0.0, 2.9]],  # no amplitude
        [[1.0, 0.5, 2.7], [0.8, 2.0, 2.7 + 0.1 / 300], [1.2, 2.0, 2.7 - 0.1 / 300]],
        [[1.0, 0.0, 1e-9], [1.0, 0.0, 5.0]],  # at the ends of the spectrum
        [[1e6, 0.0, 2.7], [1e-12, 0.0, 2.8]],
    ],
)
@pytest.mark.parametrize("short", [True, False])
def test_finite_where_the_data_say_nothing(
    theta: list[list[float]], short: bool, seed: int
) -> None:
    """Unresolved, absent or wild starts: finite, no wider than Λ, and no further than half a bin."""
    simulation = simulate(Prior(sigma=(0.5, 1.0)), 3, LONG, SHORT, seed=seed, k=2)
    statistics = statistics_of(simulation, short=short)
    start = torch.tensor(theta, dtype=torch.float64).expand(3, -1, -1)
    mask = torch.ones(start.shape[:2], dtype=torch.bool)
    step = step_from(statistics, start, mask, simulation.sigma)
    for name, value in step._asdict().items():
        parts = value if isinstance(value, tuple) else (value,)
        assert all(bool(p.isfinite().all()) for p in parts), name
    reach = REACH / LONG.duration
    assert ((step.xi[..., 0] - start[..., 2]).abs() <= reach * (1 + 1e-9)).all()
    sd = simulation.sigma[:, None, None] * step.covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    limit = torch.tensor([reach, 1.5, 1.5], dtype=torch.float64)
    assert (sd <= limit * (1 + 1e-6)).all() and (sd >= 0).all()


def test_signals_without_tones(seed: int) -> None:
    """K = 0 in a column, and no column at all."""
    simulation = simulate(Prior(k_min=0, sigma=(0.5, 1.0)), 4, LONG, SHORT, seed=seed, k=0)
    statistics = statistics_of(simulation)
    mask = torch.zeros(4, 1, dtype=torch.bool)
    step = step_from(statistics, torch.zeros(4, 1, 3).double(), mask, simulation.sigma)
    for value in (step.xi[..., 0], step.c, step.step, step.covariance, step.conditional):
        assert (value == 0).all()
    assert torch.allclose(step.rss, statistics.energy)


def test_no_gradient(seed: int) -> None:
    simulation = simulate(CLEAR, 2, LONG, SHORT, seed=seed, k=2)
    statistics = statistics_of(simulation)
    frequency, c = to_complex(simulation.theta, statistics.reference, simulation.mask)
    frequency.requires_grad_(), c.requires_grad_()
    largest = torch.full((2,), 1.5, dtype=torch.float64)
    xi, mask, sigma = frequency[..., None], simulation.mask, simulation.sigma
    step = joint_step(statistics, xi, c[..., None], mask, sigma, largest)
    assert not any(x.requires_grad for x in step[:-1])
    first = start_amplitudes(statistics, xi, mask, sigma, largest)
    assert not first.requires_grad


# ---------------------------------------------------------------- first amplitudes


def test_start_amplitudes(seed: int) -> None:
    """At the true frequencies of clean data: the amplitudes; of noisy data: from the long stream alone."""
    clean = simulate(Prior(sigma=(0.0, 1e-9)), 10, LONG, SHORT, seed=seed)
    mask, frequency = clean.mask, clean.theta[..., 2]
    sigma, largest = torch.full((10,), 1e-3).double(), torch.full((10,), 1.5).double()
    statistics = statistics_of(clean)
    c = start_amplitudes(statistics, frequency[..., None], mask, sigma, largest)[..., 0]
    found = from_complex(frequency, c, statistics.reference)
    assert (found - clean.theta)[mask][:, [0, 2]].abs().max() < 1e-5
    assert (torch.sin(found[..., 1] - clean.theta[..., 1])[mask]).abs().max() < 1e-5
    assert (c[~mask] == 0).all()
    noisy = simulate(CLEAR, 10, LONG, SHORT, seed=seed)
    both, one = (
        start_amplitudes(
            statistics_of(noisy, short=s),
            noisy.theta[..., 2:],
            noisy.mask,
            sigma,
            largest,
        )
        for s in (True, False)
    )
    assert torch.equal(both, one)


def test_start_amplitudes_of_one_place_are_finite(seed: int) -> None:
    simulation = simulate(Prior(sigma=(0.5, 1.0)), 2, LONG, seed=seed, k=1)
    statistics = statistics_of(simulation)
    frequency = simulation.theta[:, :1, 2].expand(-1, 3).clone()
    mask = torch.ones(2, 3, dtype=torch.bool)
    largest = torch.full((2,), 1.5).double()
    c = start_amplitudes(statistics, frequency[..., None], mask, simulation.sigma, largest)[..., 0]
    assert torch.view_as_real(c).isfinite().all()
    # The three share what is there: their sum is the one tone's amplitude, less what Λ holds back.
    assert torch.allclose(c.sum(1).abs(), simulation.theta[:, 0, 0], atol=0.15)
