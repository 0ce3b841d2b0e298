"""The likelihood's closed forms against sums written out in time, and its derivatives against autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tone_helpers import (
    LONG,
    SHORT,
    from_complex,
    model,
    reference_rss,
    statistics_of,
    to_complex,
)
from torch import Tensor

from slotflow import Grid, Observation, Prior, Stream, simulate
from slotflow.signal.likelihood import Statistics
from slotflow.signal.likelihood.folded import fold, moment_data, moments
from slotflow.signal.likelihood.kernels import dirichlet, energy_of_tones, window
from slotflow.signal.likelihood.placed import Placed
from slotflow.signal.likelihood.table import Interpolant
from slotflow.signal.simulation import coincident

NOISY = Prior(sigma=(0.5, 1.5))
GRIDS = [Grid(1, 0.1), Grid(2, 0.5), Grid(7, 0.3), LONG, SHORT, Grid(5121, 0.1, 40.0)]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_theta(seed: int, *shape: int) -> Tensor:
    """Tones (A, φ, f) from the band, shape (*shape, 3)."""
    u = torch.rand(*shape, 3, generator=generator(seed), dtype=torch.float64)
    return torch.stack([0.5 + u[..., 0], 2 * math.pi * u[..., 1], 2.5 + 0.5 * u[..., 2]], -1)


# ---------------------------------------------------------------------- kernels


def alone(grid: Grid) -> Placed:
    """One channel about its own mid-time."""
    return Placed((grid,), (0.0,), (1.0,))


def centred(grid: Grid) -> Tensor:
    return grid.dt * (torch.arange(grid.n, dtype=torch.float64) - 0.5 * (grid.n - 1))


@pytest.mark.parametrize("grid", GRIDS)
def test_dirichlet_sums(grid: Grid) -> None:
    """At zero, around the change of formula, between, and at multiples of the sampling rate."""
    rate = 1 / grid.dt
    small = torch.logspace(-12, 0, 60, dtype=torch.float64) * rate
    change = (
        (1 + torch.tensor([-1e-9, 1e-9], dtype=torch.float64)) * 0.5 / (math.pi * grid.duration)
    )
    f = torch.cat([torch.zeros(1, dtype=torch.float64), small, change])
    f = torch.cat([f, -f, rate + f, 2 * rate - f, 0.5 * rate + f])
    u = centred(grid)
    # Turns are reduced before the sine, so that the reference does not lose digits.
    angle = 2 * math.pi * torch.remainder(f[:, None] * u, 1.0)
    sums = angle.cos().sum(-1), (u * angle.sin()).sum(-1), (u**2 * angle.cos()).sum(-1)
    for powers in (1, 2, 3):
        closed = dirichlet(f, alone(grid), powers)[:, 0]
        in_numpy = dirichlet(f.numpy(), alone(grid), powers)[:, 0]
        assert len(closed) == len(in_numpy) == powers
        for p in range(powers):
            scale = grid.n * (0.5 * grid.duration) ** p
            assert (closed[p] - sums[p]).abs().max() < 1e-11 * scale
            assert np.abs(in_numpy[p] - sums[p].numpy()).max() < 1e-11 * scale


def test_quotients_alone_are_not_enough() -> None:
    """Negative control: without the series the second derivative loses its digits near zero."""
    n, y = LONG.n, math.pi * 1e-9
    d0 = math.sin(n * y) / math.sin(y)
    d1 = (n * math.cos(n * y) - d0 * math.cos(y)) / math.sin(y)
    naive = -0.25 * LONG.dt**2 * ((1 - n * n) * d0 - 2 * d1 / math.tan(y))
    exact = dirichlet(torch.tensor(1e-9 / LONG.dt, dtype=torch.float64), alone(LONG))[2].item()
    assert abs(naive / exact - 1) > 1e-6


def test_moments_of_the_sampling(seed: int) -> None:
    """W_p of two channels about a common instant, at close, zero and aliased frequencies, against the sums."""
    grids, ratios, reference = (LONG, Grid(511, 1 / 512, 7.0)), (1.0, 1.6), 140.0
    channels = Placed(grids, [grid.mid_time - reference for grid in grids], ratios)
    gap = 0.1 / LONG.duration
    f = torch.tensor([0.0, gap, -gap, 0.2, 5.3, 9.9999, -3.0], dtype=torch.float64)
    for powers in (1, 2, 3):
        closed = window(f, channels, powers)
        in_numpy = window(f.numpy(), channels, powers)
        assert np.abs(closed.numpy() - in_numpy).max() < 1e-12 * np.abs(in_numpy).max()
        for s, (grid, ratio) in enumerate(zip(grids, ratios, strict=True)):
            w = torch.as_tensor(grid.times) - reference
            angle = 2 * math.pi * torch.remainder(f[:, None] * w, 1.0)
            for p in range(powers):
                terms = w**p * torch.polar(torch.ones_like(angle), angle) / ratio**2
                scale = float((w.abs() ** p).sum()) / ratio**2
                assert (closed[p, s] - terms.sum(-1)).abs().max() < 1e-11 * scale


@pytest.mark.parametrize("grid", GRIDS)
def test_moments(grid: Grid, seed: int) -> None:
    x = torch.randn(3, grid.n, generator=generator(seed), dtype=torch.float64)
    f = random_theta(seed + 1, 3, 5)[..., 2]
    u = centred(grid)
    turns = torch.remainder(f[..., None] * u, 1.0)
    waves = torch.polar(torch.ones_like(turns), -2 * math.pi * turns)
    interpolated, data = Interpolant(x, grid)(f), moment_data(fold(x), grid, 3)
    values = moments([data], f, alone(grid))[0]
    in_numpy = moments([data.numpy()], f.numpy(), alone(grid))[0]
    for p in range(3):
        value = values[:, 2 - p]
        assert np.abs(value.numpy() - in_numpy[:, 2 - p]).max() <= 1e-12 * float(value.abs().max())
        reference = (x[:, None] * u**p * waves).sum(-1)
        scale = max(1.0, (0.5 * grid.duration) ** p) * x.norm()
        assert (value - reference).abs().max() < 1e-11 * scale
        if p == 0:
            assert (interpolated - reference).abs().max() < 1e-11 * scale
            again = Interpolant(x.numpy(), grid)(f.numpy())
            assert np.abs(again - reference.numpy()).max() < 1e-11 * scale


def test_energy(seed: int) -> None:
    theta = random_theta(seed, 4, 6)
    grid = Grid(3000, 0.1, -0.5 * 2999 * 0.1)
    frequency, c = (x.T for x in to_complex(theta, 0.0))
    reference = (model(theta, grid) ** 2).sum(-1)
    assert torch.allclose(energy_of_tones(frequency, c, alone(grid)), reference, rtol=1e-11)


# ---------------------------------------------------------------------- likelihood


def test_agrees_with_time_domain(seed: int) -> None:
    """Differences of log L over draws, few (matrix products) and many (interpolation), both streams, σ down to 0.02."""
    simulation = simulate(Prior(sigma=(0.02, 1.0)), 4, LONG, SHORT, seed=seed, k=10)
    assert simulation.short is not None
    statistics = statistics_of(simulation)
    for draws in (3, 20):
        jitter = torch.randn(4, draws, 10, 3, generator=generator(seed), dtype=torch.float64)
        theta = simulation.theta[:, None] + jitter * torch.tensor([1e-2, 1e-2, 1e-5])
        value = statistics.log_likelihood(theta, simulation.sigma)
        rss = reference_rss([simulation.long, simulation.short], [LONG, SHORT], theta)
        sigma = simulation.sigma[:, None]
        reference = -0.5 * rss / sigma**2 - 8120 * (sigma * math.sqrt(2 * math.pi)).log()
        assert (value - reference).abs().max() < 1e-6
        assert (rss - rss[:, :1]).abs().max() > 1e-3  # the draws do differ


def test_close_pair_in_a_long_series(seed: int) -> None:
    """Two tones 0.1/T apart in 200,000 samples, 20,000 s: differences of log L still to 1e-6."""
    grid = Grid(200_000, 0.1)
    theta = torch.tensor([[[1.0, 0.3, 2.7], [0.8, 1.1, 2.7 + 0.1 / grid.duration]]]).double()
    noise = torch.randn(1, grid.n, generator=generator(seed), dtype=torch.float64)
    x = model(theta, grid) + noise
    statistics = Statistics.from_arrays([x], [grid])
    draws = theta[:, None].repeat(1, 4, 1, 1)
    draws[0, 1:, 0, 2] += 1e-8 * torch.arange(1, 4)
    draws[0, 1:, 1, 1] += 0.01
    value = statistics.log_likelihood(draws, torch.ones(1, dtype=torch.float64))
    reference = -0.5 * reference_rss([x], [grid], draws)
    difference = (value - value[:, :1]) - (reference - reference[:, :1])
    assert difference.abs().max() < 1e-6
    many = statistics.log_likelihood(draws.repeat(1, 50, 1, 1), torch.ones(1, dtype=torch.float64))
    assert (many[:, :4] - value).abs().max() < 1e-6


def test_single_precision_would_not_do(seed: int) -> None:
    """Negative control: the same sums in float32 miss 1e-6 by far."""
    simulation = simulate(NOISY, 2, LONG, seed=seed, k=5)
    statistics = statistics_of(simulation)
    theta = simulation.theta[:, None]
    t = torch.as_tensor(LONG.times).float()
    amplitude, phase, frequency = theta.float()[..., None].unbind(-2)
    rough = (amplitude * (2 * math.pi * frequency * t + phase).cos()).sum(-2)
    rss = ((simulation.long[:, None] - rough) ** 2).sum(-1)
    assert (statistics.rss(theta) - rss).abs().max() > 1e-4


def test_streams_add_up(seed: int) -> None:
    simulation = simulate(NOISY, 3, LONG, Grid(5120, 1 / 512, 7.0), seed=seed, k=4)
    assert simulation.short is not None
    short = simulation.grids[1]
    assert short is not None
    theta, sigma = random_theta(seed, 3, 2, 4), simulation.sigma
    both = statistics_of(simulation).log_likelihood(theta, sigma)
    alone = statistics_of(simulation, short=False).log_likelihood(theta, sigma)
    other = Statistics.from_arrays([simulation.short], [short]).log_likelihood(theta, sigma)
    assert torch.allclose(both, alone + other, rtol=1e-12)


def test_noise_ratio(seed: int) -> None:
    """A short stream with its own noise level counts with its own weight."""
    g = generator(seed)
    long, short = torch.randn(50, generator=g).double(), torch.randn(40, generator=g).double()
    observation = Observation(
        Stream(long.numpy(), 0.1, sigma=0.7), Stream(short.numpy(), 0.01, 1.0, sigma=2.1)
    )
    statistics = Statistics.from_observation(observation)
    theta = random_theta(seed, 1, 2)
    value = statistics.log_likelihood(theta, torch.tensor([0.7]).double())
    residuals = long - model(theta, Grid(50, 0.1)), short - model(theta, Grid(40, 0.01, 1.0))
    reference = sum(
        torch.distributions.Normal(0.0, s).log_prob(r).sum()
        for s, r in zip((0.7, 2.1), residuals, strict=True)
    )
    assert torch.allclose(value, torch.as_tensor(reference), rtol=1e-7)


def test_mask_batch_and_layouts(seed: int) -> None:
    """Masked = shorter; batched = single; observations = simulation; one draw = no draw axis; K = 0 = energy."""
    simulation = simulate(NOISY, 5, LONG, SHORT, seed=seed)
    statistics = statistics_of(simulation)
    garbage = torch.where(simulation.mask[..., None], simulation.theta, math.nan)
    value = statistics.log_likelihood(garbage, simulation.sigma, simulation.mask)
    drawn = statistics.log_likelihood(garbage[:, None], simulation.sigma, simulation.mask)
    assert torch.allclose(drawn[:, 0], value, rtol=1e-13)
    observations = [simulation.observation(i) for i in range(5)]
    assert torch.equal(Statistics.from_observation(observations).energy, statistics.energy)
    for i, observation in enumerate(observations):
        theta = torch.as_tensor(simulation.components(i))[None]
        single = Statistics.from_observation(observation)
        assert torch.allclose(
            single.log_likelihood(theta, simulation.sigma[i : i + 1]), value[i], rtol=1e-12
        )
    empty = statistics.rss(torch.zeros(5, 0, 3, dtype=torch.float64))
    assert torch.equal(empty, statistics.energy)


# ---------------------------------------------------------------------- derivatives


def test_normal_equations_against_autograd(seed: int) -> None:
    """Gradient and Gauss–Newton matrix in (f, Re c, Im c) against autograd through the time domain."""
    grids = [Grid(300, 0.1, 3.0), Grid(512, 1 / 512, 7.0)]
    x = [torch.randn(2, grid.n, generator=generator(seed), dtype=torch.float64) for grid in grids]
    ratios = (1.0, 1.6)
    statistics = Statistics.from_arrays(x, grids, ratios)
    frequency, c = to_complex(random_theta(seed, 2, 3), statistics.reference)
    frequency[:, 1] = frequency[:, 0] + 0.1 / grids[0].duration
    z = torch.stack([frequency, c.real, c.imag], -1)

    def residual(z: Tensor, i: int) -> Tensor:
        c = torch.complex(z[..., 1], z[..., 2])
        theta = from_complex(z[..., 0], c, statistics.reference)
        parts = [(x[s][i] - model(theta, grids[s])) / ratios[s] for s in range(2)]
        return torch.cat(parts, -1)

    gain, slope, matrix = statistics.equations(frequency[..., None], c[..., None])
    rss = statistics.energy + gain
    for i in range(2):
        r = residual(z[i], i)
        jacobian = -torch.autograd.functional.jacobian(lambda v, i=i: residual(v, i), z[i])
        jacobian = jacobian.flatten(1)  # (N, 3K)
        scale = jacobian.norm(dim=0)
        assert torch.allclose(rss[i], (r * r).sum(), rtol=1e-11)
        assert ((slope[i] - jacobian.T @ r) / scale).abs().max() < 1e-9 * r.norm()
        assert ((matrix[i] - jacobian.T @ jacobian) / scale / scale[:, None]).abs().max() < 1e-11


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_one_signal_equals_a_batch(k: int, seed: int) -> None:
    """NumPy's equations of one signal against torch's of two, to rounding: close, equal, absent and aliased tones."""
    grids = [Grid(300, 0.1, 3.0), Grid(511, 1 / 512, 7.0)]
    x = [torch.randn(2, grid.n, generator=generator(seed), dtype=torch.float64) for grid in grids]
    both = Statistics.from_arrays(x, grids, (1.0, 1.6))
    one = both.take(torch.tensor([1]))
    frequency, c = to_complex(random_theta(seed, 2, k), both.reference)
    frequency[:, -1] = frequency[:, 0] + 0.1 / grids[0].duration
    if k == 5:
        frequency[:, 1], c[:, 1] = 0.0, 0.0
        frequency[:, 2] = frequency[:, 3]
    if k == 10:
        frequency[:, 4] += 10.0
    assert one.is_single(frequency[1:], c[1:]) and not both.is_single(frequency, c)
    expected = both.equations(frequency[..., None], c[..., None])
    scale = expected[2][1].diagonal().clamp_min(1.0).sqrt()  # that of Im c at f = 0 is zero
    norm = both.energy[1].sqrt()

    def assert_same(value: tuple[Tensor, ...], reference: tuple[Tensor, ...]) -> None:
        assert abs(float(value[0][0] - reference[0][1])) < 1e-12 * float(both.energy[1] + k * 900)
        assert ((value[1][0] - reference[1][1]) / scale).abs().max() < 1e-12 * (norm + k * 30)
        assert ((value[2][0] - reference[2][1]) / scale / scale[:, None]).abs().max() < 1e-12

    assert_same(one.equations(frequency[1:, :, None], c[1:, :, None]), expected)
    with pytest.raises(AssertionError):  # negative control: a frequency off by 1e-9 Hz shows
        assert_same(one.equations(frequency[1:, :, None] + 1e-9, c[1:, :, None]), expected)
    for s in range(2):
        xi, amplitudes = frequency[..., None], c[..., None]
        part = one.channel(s).equations(xi[1:], amplitudes[1:])
        assert_same(part, both.channel(s).equations(xi, amplitudes))
        rest = one.products_of(xi[1:], amplitudes[1:]).rest(amplitudes[1:])[s, 0]
        expected_rest = both.products(xi).rest(amplitudes)[s, 1]
        assert (rest - expected_rest).abs().max() < 1e-12 * 30 * (norm + k * 30)


@pytest.mark.parametrize("k", [1, 2, 10])
def test_many_draws_of_one_signal(k: int, seed: int) -> None:
    """NumPy's RSS of draws is that of the batch: unequal noise, an odd length, tones that coincide or add to 1/dt."""
    grids = (Grid(801, 0.1, 3.0), Grid(512, 1 / 64, -1.0))
    series = [
        torch.randn(1, grid.n, generator=generator(seed), dtype=torch.float64) for grid in grids
    ]
    statistics = Statistics.from_arrays(series, grids, [1.0, 1.7])
    theta = random_theta(seed + 1, 1, 60, k)
    theta[0, :20, :, 2] = theta[0, :20, :1, 2]
    theta[0, 20:30, :, 2] = 5.0  # twice that is the sampling rate
    theta[0, 30:40, :, 2] += torch.arange(k) * 1e-9
    f, c = (x[..., None] for x in to_complex(theta, statistics.reference))
    rss = statistics.energy.numpy() + statistics.gains(f.numpy(), c.numpy())[0]
    scale = float(statistics.energy) + k**2 * statistics.n
    in_torch = statistics.rss(theta.clone().requires_grad_()).detach()[0].numpy()
    np.testing.assert_allclose(rss, in_torch, atol=1e-11 * scale)
    wrong = statistics.energy.numpy() + statistics.gains(f.numpy(), 1.001 * c.numpy())[0]
    assert np.abs(wrong - rss).max() > 1e-6 * scale


def test_many_starts_of_one_signal(seed: int) -> None:
    """The tables of one signal that serve all of its starts give the equations of as many copies of it."""
    grids = [Grid(300, 0.1, 3.0), Grid(511, 1 / 512, 7.0)]
    x = [torch.randn(1, grid.n, generator=generator(seed), dtype=torch.float64) for grid in grids]
    one = Statistics.from_arrays(x, grids, (1.0, 1.6))
    copies = Statistics.from_arrays([series.repeat(6, 1) for series in x], grids, (1.0, 1.6))
    repeated = one.take(torch.zeros(6, dtype=torch.int64))
    assert repeated.repeats and repeated.single is one and not copies.repeats
    assert repeated.take(torch.tensor([3])) is one
    assert repeated.take(torch.arange(6) < 4).repeats and not repeated.channel(0).repeats
    f, c = (part[..., None] for part in to_complex(random_theta(seed, 6, 4), one.reference))
    scale = copies.equations(f, c).matrix.diagonal(dim1=-2, dim2=-1).sqrt()
    size = float(one.energy) + 16 * one.n
    for found in (
        repeated.equations(f, c),
        repeated.in_numpy.equations(f.numpy(), c.numpy()),
        repeated.products(f).equations(c),
    ):
        gain, slope, matrix = (torch.as_tensor(part) for part in found)
        expected = copies.equations(f, c)
        assert (gain - expected.gain).abs().max() < 1e-11 * size
        assert ((slope - expected.slope) / scale).abs().max() < 1e-11 * math.sqrt(size)
        assert torch.equal(matrix, expected.matrix) or torch.allclose(matrix, expected.matrix)
    wrong = repeated.equations(f + 1e-7, c).gain
    assert (wrong - copies.equations(f, c).gain).abs().max() > 1e-9 * size


def test_one_signal_keeps_its_graph(seed: int) -> None:
    """Where a gradient is asked for, NumPy stands back."""
    statistics = Statistics.from_arrays(
        [torch.randn(1, 300, generator=generator(seed))], [Grid(300, 0.1)]
    )
    frequency, c = to_complex(random_theta(seed, 1, 3), statistics.reference)
    frequency, c = frequency[..., None], c[..., None]
    plain = statistics.equations(frequency, c)
    with_graph = statistics.equations(frequency.requires_grad_(), c)
    assert with_graph[0].requires_grad and not plain[0].requires_grad
    assert torch.allclose(with_graph[0], plain[0], rtol=1e-12)
    with torch.no_grad():
        assert torch.equal(statistics.equations(frequency, c)[1], plain[1])


@pytest.mark.parametrize("draws", [1, 50])
def test_gradient_of_log_likelihood(draws: int, seed: int) -> None:
    """Autograd through the closed forms (both branches) equals autograd through the time domain."""
    grid = Grid(400, 0.1)
    x = torch.randn(1, grid.n, generator=generator(seed), dtype=torch.float64)
    statistics = Statistics.from_arrays([x], [grid])
    theta = random_theta(seed, 1, draws, 3).requires_grad_()
    sigma = torch.ones(1, dtype=torch.float64)
    (closed,) = torch.autograd.grad(statistics.log_likelihood(theta, sigma).sum(), theta)
    (reference,) = torch.autograd.grad(-0.5 * reference_rss([x], [grid], theta).sum(), theta)
    assert torch.allclose(closed, reference, rtol=1e-9, atol=1e-9 * float(reference.abs().max()))


def test_complex_and_back(seed: int) -> None:
    theta = random_theta(seed, 4, 5)
    assert torch.allclose(from_complex(*to_complex(theta, 149.95), 149.95), theta, rtol=1e-10)
    assert LONG.mid_time == pytest.approx(149.95)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_agrees(seed: int) -> None:
    simulation = simulate(NOISY, 4, LONG, SHORT, seed=seed, k=5)
    assert simulation.short is not None
    theta = random_theta(seed, 4, 60, 5)
    on_cpu = statistics_of(simulation).log_likelihood(theta, simulation.sigma)
    series = [simulation.long.cuda(), simulation.short.cuda()]
    on_gpu = Statistics.from_arrays(series, [LONG, SHORT])
    value = on_gpu.log_likelihood(theta.cuda(), simulation.sigma.cuda())
    assert torch.allclose(value.cpu(), on_cpu, rtol=1e-11)


# ---------------------------------------------------------------------- errors


def test_errors() -> None:
    x = torch.zeros(2, 10)
    with pytest.raises(ValueError, match="as many series as grids"):
        Statistics.from_arrays([x], [Grid(10, 0.1), Grid(10, 0.1)])
    with pytest.raises(ValueError, match=r"shape \(2, 12\)"):
        Statistics.from_arrays([x], [Grid(12, 0.1)])
    with pytest.raises(ValueError, match="noise ratios"):
        Statistics.from_arrays([x], [Grid(10, 0.1)], [0.0])
    with pytest.raises(ValueError, match="at least one observation"):
        Statistics.from_observation([])
    a, b = (Observation.from_arrays(torch.ones(n).numpy(), 0.1) for n in (8, 9))
    with pytest.raises(ValueError, match="same grids"):
        Statistics.from_observation([a, b])


def shared_noise_inflation(long: Grid, short: Grid, theta: np.ndarray) -> np.ndarray:
    """True sd over claimed sd of a fit that counts the coincident samples of both streams as independent, (3K,)."""
    rows = []
    for grid in (long, short):
        t = grid.times[:, None]
        a, phi, f = theta.T
        angle = 2 * np.pi * f * t + phi
        parts = np.cos(angle), -a * np.sin(angle), -2 * np.pi * a * t * np.sin(angle)
        rows.append(np.concatenate(parts, axis=1))
    i, j = coincident(long, short)
    jacobian = np.concatenate(rows)  # (N, 3K)
    scale = np.sqrt((jacobian**2).sum(0))
    jacobian /= scale
    claimed = np.linalg.inv(jacobian.T @ jacobian)
    cross = rows[0][i].T @ rows[1][j] / np.outer(scale, scale)
    true = claimed + claimed @ (cross + cross.T) @ claimed
    ratio: np.ndarray = np.sqrt(np.diag(true) / np.diag(claimed))
    return ratio


def test_coincident_samples_are_negligible(seed: int) -> None:
    """Streams that share 20 instants and their noise are treated as independent: widths are right to 1 %."""
    long, short = Grid(3000, 0.1), Grid(5120, 1 / 512)
    assert len(coincident(long, short)[0]) == 20
    for k in (1, 3, 10):
        theta = simulate(Prior(), 1, long, short, seed=seed, k=k).components(0)
        ratio = shared_noise_inflation(long, short, theta)
        assert np.abs(ratio - 1).max() < 0.01
        other = shared_noise_inflation(long, Grid(1500, 0.1), theta)  # the control: all shared
        assert np.abs(other - 1).max() > 0.1
