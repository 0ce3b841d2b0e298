"""Joint Gauss–Newton: reaches the bound, is the same for one signal and many, and says when it failed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from statistics_helpers import assert_within
from tone_helpers import (
    LONG,
    SHORT,
    from_complex,
    gauss_newton_step,
    model,
    phase_error,
    statistics_of,
    to_complex,
)
from torch import Tensor

from slotflow import Grid, Prior, simulate
from slotflow.signal import fit as laplace
from slotflow.signal.bounds import crb_covariance, crb_std
from slotflow.signal.fit import Laplace, fit, linear_amplitudes
from slotflow.signal.gauss_newton import shortened
from slotflow.signal.likelihood import Statistics
from slotflow.signal.simulation import Simulation
from slotflow.signal.systems import factorize, free_unknowns
from slotflow.signal.waveforms import TONE

NOISY = Prior(sigma=(0.1, 1.5))
MEDIAN_OF_HALF_NORMAL = 0.6744897501960817
ROBUST_SD_ERROR = 1.166
"""Standard error of the robust sd of n Gaussian numbers, times √n (asymptotic variance of the median of |z|)."""


def perturbed(simulation: Simulation, seed: int, size: float = 1.0) -> Tensor:
    """Starting values around the truth: 10 % in A, 0.3 rad, 0.1 bins, times `size`."""
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(simulation.theta.shape, generator=g, dtype=torch.float64)
    return simulation.theta + size * noise * torch.tensor([0.1, 0.3, 1 / 3000])


def reliable(result: Laplace) -> Tensor:
    """Whether a fit converged and its Gaussian describes the likelihood around it, (B,), bool."""
    return result.converged & (result.mismatch < 0.5)


def scores(result: Laplace, simulation: Simulation, streams: int = 2) -> NDArray[np.float64]:
    """(estimate − truth)/bound of every tone, (tones, 3)."""
    truth, mask = simulation.theta, simulation.mask
    bound = crb_std(truth, simulation.sigma, simulation.grids[:streams], mask)
    error = (result.theta - truth).numpy()
    error[..., 1] = phase_error(error[..., 1])
    z: NDArray[np.float64] = (error / bound.clamp_min(1e-300).numpy())[mask.numpy()]
    return z


def assert_at_bound(z: NDArray[np.float64]) -> None:
    """Robust sd of scores (n, 3) is 1 and their mean 0, within Monte-Carlo error."""
    n = len(z)
    robust = np.median(np.abs(z), axis=0) / MEDIAN_OF_HALF_NORMAL
    # 1 % of slack (5 × 0.002): the bound holds to first order in 1/SNR.
    assert_within(robust, 1.0, ROBUST_SD_ERROR / math.sqrt(n) + 0.002)
    assert_within(z.mean(0), 0.0, z.std(0, ddof=1) / math.sqrt(n) + 0.002)


# ---------------------------------------------------------------------- the bound


@pytest.mark.parametrize("k", [1, 3, 10, None])
@pytest.mark.parametrize("short", [True, False])
def test_reaches_the_bound(k: int | None, short: bool, seed: int) -> None:
    """Any number of tones, one count or mixed, with and without the short stream."""
    n = {1: 1000, 3: 400, 10: 150, None: 250}[k]
    simulation = simulate(NOISY, n, LONG, SHORT, seed=seed, k=k)
    statistics = statistics_of(simulation, short=short)
    result = fit(statistics, perturbed(simulation, seed), simulation.mask)
    assert result.converged.all() and reliable(result).all()
    assert int(result.iterations.median()) <= 6
    z = scores(result, simulation, streams=2 if short else 1)
    assert_at_bound(z)
    with pytest.raises(AssertionError):  # negative controls: 30 % off, and biased
        assert_at_bound(1.3 * z)
    with pytest.raises(AssertionError):
        assert_at_bound(z + 0.5)


def test_is_a_maximum_with_its_curvature(seed: int) -> None:
    """No draw of the Gaussian is likelier than its centre, and the mean drop in log L is half the dimension."""
    simulation = simulate(NOISY, 4, LONG, SHORT, seed=seed, k=5)
    statistics = statistics_of(simulation)
    result = fit(statistics, perturbed(simulation, seed), simulation.mask, simulation.sigma)
    n, dim = 500, 15
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(4, n, dim, generator=g, dtype=torch.float64)
    factor = torch.linalg.cholesky(result.covariance[:, :dim, :dim])
    draws = result.theta[:, None, :5] + (noise @ factor.mT).unflatten(-1, (5, 3))
    drop = result.log_likelihood[:, None] - statistics.log_likelihood(draws, simulation.sigma)
    assert (drop > 0).all()
    # Gaussian to a per cent or so: half a χ² with 15 degrees of freedom.
    assert_within(drop.mean(1).numpy(), dim / 2, math.sqrt(dim / 2 / n) + 0.02 * dim / 2 / 5)


def test_covariance_is_the_bound_at_the_maximum(seed: int) -> None:
    simulation = simulate(NOISY, 20, LONG, SHORT, seed=seed)
    statistics = statistics_of(simulation)
    result = fit(statistics, simulation.theta, simulation.mask, simulation.sigma)
    bound = crb_covariance(result.theta, simulation.sigma, simulation.grids, simulation.mask)
    sd = bound.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).sqrt()
    assert ((result.covariance - bound) / sd[:, :, None] / sd[:, None, :]).abs().max() < 1e-8
    outside = ~simulation.mask.repeat_interleave(3, 1)
    assert (result.covariance[outside[:, :, None] | outside[:, None, :]] == 0).all()
    assert (result.theta[~simulation.mask] == 0).all()


def test_sigma(seed: int) -> None:
    """Profiled σ² = RSS/n; log L there is at least that at the true σ; Θ does not depend on it."""
    simulation = simulate(NOISY, 50, LONG, SHORT, seed=seed, k=3)
    statistics = statistics_of(simulation)
    free = fit(statistics, simulation.theta, simulation.mask)
    known = fit(statistics, simulation.theta, simulation.mask, simulation.sigma)
    assert torch.allclose(free.sigma, (free.rss / statistics.n).sqrt())
    assert torch.equal(known.sigma, simulation.sigma)
    assert (free.log_likelihood >= known.log_likelihood).all()
    assert torch.allclose(free.theta, known.theta, rtol=1e-5)
    expected = statistics.log_likelihood(free.theta, free.sigma, simulation.mask)
    assert torch.allclose(free.log_likelihood, expected, rtol=1e-9)
    # 9 parameters are fitted, so RSS/σ² has n − 9 degrees of freedom.
    ratio = (free.rss / simulation.sigma**2).numpy()
    freedom = statistics.n - 9
    assert_within(ratio.mean(), freedom, math.sqrt(2 * freedom / 50))


# ---------------------------------------------------------------------- batches and shapes


def test_batched_equals_single(seed: int) -> None:
    simulation = simulate(NOISY, 6, LONG, SHORT, seed=seed)
    start = perturbed(simulation, seed)
    together = fit(statistics_of(simulation), start, simulation.mask)
    for i in range(6):
        k = int(simulation.k[i])
        statistics = Statistics.from_observation(simulation.observation(i))
        alone = fit(statistics, start[i : i + 1, :k])
        assert torch.allclose(alone.theta[0], together.theta[i, :k], rtol=1e-9)
        assert torch.allclose(
            alone.covariance[0], together.covariance[i, : 3 * k, : 3 * k], rtol=1e-5, atol=1e-14
        )
        assert torch.allclose(alone.log_likelihood[0], together.log_likelihood[i], rtol=1e-10)
        assert alone.iterations[0] == together.iterations[i]
        assert torch.allclose(alone.mismatch[0], together.mismatch[i], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("known", [True, False])
def test_few_signals_equal_a_batch(known: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other in NumPy, or all at once in torch; one start is hopeless."""
    simulation = simulate(NOISY, 4, LONG, SHORT, seed=seed, k=4)
    start = perturbed(simulation, seed)[:, :4]
    start[3, 1, 2] = start[3, 0, 2]
    statistics = statistics_of(simulation)
    sigma = simulation.sigma if known else None
    libraries = []
    original = laplace._fitted

    def noted(statistics: Statistics, theta: Any, *rest: Any) -> Laplace:
        libraries.append(type(theta).__module__)
        return original(statistics, theta, *rest)

    monkeypatch.setattr(laplace, "_fitted", noted)
    few = fit(statistics, start, sigma=sigma)
    line = linear_amplitudes(statistics, start[..., 2])
    assert libraries == ["numpy"] * 4
    monkeypatch.setattr(laplace, "FEW_SIGNALS", 0)
    many = fit(statistics, start, sigma=sigma)
    assert libraries[4:] == ["torch"]
    assert few.converged.tolist() == many.converged.tolist() == [True, True, True, False]
    for name in ("theta", "sigma", "covariance", "rss", "log_likelihood", "mismatch"):
        a, b = getattr(few, name)[:3], getattr(many, name)[:3]
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-7), name
    assert few.iterations.tolist()[:3] == many.iterations.tolist()[:3]
    other = linear_amplitudes(statistics, start[..., 2])
    assert torch.allclose(line[:3], other[:3], rtol=1e-8)


def test_one_system_equals_a_batch_of_systems(seed: int) -> None:
    """NumPy's factors against torch's: free and held unknowns, damping, a singular and a broken matrix."""
    g = torch.Generator().manual_seed(seed)
    root = torch.randn(2, 6, 9, generator=g, dtype=torch.float64)
    matrix = root @ root.mT
    singular, broken = matrix.clone(), matrix.clone()
    singular[:, 3:] = singular[:, :3]
    singular[:, :, 3:] = singular[:, :, :3]
    broken[:, 2, 2] = math.nan
    slope = torch.randn(2, 6, generator=g, dtype=torch.float64)
    for system, absent, linear in (
        (matrix, False, False),
        (matrix, True, False),
        (matrix, False, True),
        (singular, False, False),
        (broken, False, False),
    ):
        mask = torch.tensor([[True, not absent]] * 2)
        damping = torch.tensor([0.0, 0.3], dtype=torch.float64)
        free = free_unknowns(TONE, mask, linear)
        both = factorize(system, free, damping)
        for i in range(2):
            row = slice(i, i + 1)
            one = factorize(system[row].numpy(), free[row].numpy(), damping[row].numpy())
            np.testing.assert_allclose(one.scale[0], both.scale[i].numpy(), rtol=1e-12)
            np.testing.assert_allclose(one.factor[0], both.factor[i].numpy(), atol=1e-12)
            assert bool(one.regular[0]) == bool(both.regular[i])
            for answer in ("solve", "whiten", "colour"):
                value = getattr(one, answer)(slope[row].numpy())[0]
                expected = getattr(both, answer)(slope)[i].numpy()
                np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(one.inverse()[0], both.inverse()[i].numpy(), atol=1e-9)
    assert not bool(both.regular[0])  # the broken one: the test can tell


def test_rough_fits(seed: int) -> None:
    """A larger tolerance ends earlier and still close to the maximum; without the curvature there is no mismatch."""
    simulation = simulate(NOISY, 20, LONG, SHORT, seed=seed, k=3)
    statistics, start = statistics_of(simulation), perturbed(simulation, seed)[:, :3]
    best = fit(statistics, start)
    rough = fit(statistics, start, tolerance=1e-2, curvature=False)
    assert rough.converged.all() and rough.mismatch.isnan().all() and not reliable(rough).any()
    assert rough.iterations.sum() < best.iterations.sum()
    lost = best.log_likelihood - rough.log_likelihood
    assert (lost > -1e-6).all() and (lost < 0.01).all()


def test_signals_without_tones(seed: int) -> None:
    """K = 0, by the mask or by the shape: nothing to fit, the residual is the data."""
    simulation = simulate(NOISY, 4, LONG, seed=seed, k=2)
    statistics = statistics_of(simulation)
    mask = simulation.mask.clone()
    mask[::2] = False
    given = mask.clone()
    result = fit(statistics, simulation.theta, mask)
    assert torch.equal(mask, given)
    assert result.converged.all()
    assert torch.equal(result.rss[::2], statistics.energy[::2])
    assert (result.theta[::2] == 0).all() and (result.covariance[::2] == 0).all()
    empty = fit(statistics, torch.zeros(4, 0, 3))
    assert empty.converged.all() and empty.covariance.shape == (4, 0, 0)
    assert torch.equal(empty.rss, statistics.energy)
    half = statistics.take(torch.tensor([3, 1]))
    assert torch.allclose(half.rss(simulation.theta[[3, 1]]), result.rss[[3, 1]], rtol=0.05)


def test_order_of_tones_does_not_matter(seed: int) -> None:
    simulation = simulate(NOISY, 5, LONG, SHORT, seed=seed, k=4)
    statistics = statistics_of(simulation, short=False)
    start = perturbed(simulation, seed)[:, :4]
    order = torch.tensor([2, 0, 3, 1])
    plain, shuffled = fit(statistics, start), fit(statistics, start[:, order])
    assert torch.allclose(plain.theta[:, order], shuffled.theta, rtol=1e-8)


def test_time_origin_moves_the_phase_only(seed: int) -> None:
    """The same samples 1,000 s later: A and f stay, φ turns by −2πf·1000 s and correlates with f."""
    simulation = simulate(NOISY, 3, LONG, seed=seed, k=2)
    late = Grid(LONG.n, LONG.dt, 1000.0)
    here = fit(statistics_of(simulation), simulation.theta, simulation.mask)
    start = simulation.theta.clone()
    start[..., 1] -= 2 * math.pi * 1000.0 * start[..., 2]
    there = fit(Statistics.from_arrays([simulation.long], [late]), start, simulation.mask)
    assert torch.allclose(here.theta[..., [0, 2]], there.theta[..., [0, 2]], rtol=1e-9)
    turned = there.theta[..., 1] + 2 * math.pi * 1000.0 * there.theta[..., 2]
    assert np.abs(phase_error((here.theta[..., 1] - turned).numpy())).max() < 1e-5
    assert (there.covariance[:, 1, 1] > 4 * here.covariance[:, 1, 1]).all()


# ---------------------------------------------------------------------- one step


def test_one_step_reaches_the_maximum(seed: int) -> None:
    """From 2 bounds away one joint step lands within a small share of a bound of the maximum."""
    simulation = simulate(NOISY, 100, LONG, SHORT, seed=seed)
    statistics = statistics_of(simulation)
    mask, sigma = simulation.mask, simulation.sigma
    best = fit(statistics, simulation.theta, mask, sigma)
    bound = crb_std(best.theta, sigma, simulation.grids, mask)
    g = torch.Generator().manual_seed(seed)
    sign = 2.0 * torch.randint(0, 2, bound.shape, generator=g) - 1
    start = best.theta + 2 * sign * bound
    theta, covariance = gauss_newton_step(statistics, start, mask, sigma)
    error = (theta - best.theta).numpy()
    error[..., 1] = phase_error(error[..., 1])
    away = np.abs(error / bound.clamp_min(1e-300).numpy())[mask.numpy()]
    assert np.median(away) < 0.1
    sd = covariance.diagonal(dim1=-2, dim2=-1).sqrt().unflatten(-1, (-1, 3))
    assert torch.allclose((sd / bound)[mask].median(), torch.ones(()).double(), rtol=0.05)
    assert (theta[~mask] == 0).all()


def test_no_gradient(seed: int) -> None:
    simulation = simulate(NOISY, 3, LONG, SHORT, seed=seed, k=3)
    start = simulation.theta[:, :3].clone().requires_grad_()
    for rows in (3, 1):  # torch and NumPy
        statistics = statistics_of(simulation).take(torch.arange(rows))
        found = fit(statistics, start[:rows])
        assert not found.theta.requires_grad and not found.covariance.requires_grad
        assert not linear_amplitudes(statistics, start[:rows, :, 2]).requires_grad


def test_a_shape_moves_half_a_bin_at_most(seed: int) -> None:
    statistics = statistics_of(simulate(NOISY, 2, LONG, seed=seed, k=1))
    step = torch.tensor([[[1.5, 3.0, 0.6], [0.1, 1.0, 1.0]]]).double()
    step[..., 0] /= LONG.duration
    each, alike = (shortened(step, statistics, 0.5, all_alike=alike) for alike in (False, True))
    assert torch.allclose(each[0, 0], step[0, 0] / 3) and torch.equal(each[0, 1], step[0, 1])
    assert torch.allclose(alike, step / 3)
    np.testing.assert_allclose(shortened(step.numpy(), statistics, 0.5), each.numpy())


# ---------------------------------------------------------------------- starts


def test_amplitudes_from_frequencies(seed: int) -> None:
    """The linear fit is the maximum in A and φ: no draw around it at the same frequencies is likelier."""
    simulation = simulate(NOISY, 20, LONG, SHORT, seed=seed)
    statistics = statistics_of(simulation)
    frequency = perturbed(simulation, seed)[..., 2]
    theta = linear_amplitudes(statistics, frequency, simulation.mask)
    assert torch.equal(theta[..., 2], torch.where(simulation.mask, frequency, 0.0))
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(20, 30, *theta.shape[1:], generator=g, dtype=torch.float64)
    around = theta[:, None] + noise * torch.tensor([1e-3, 1e-3, 0.0])
    best = statistics.rss(theta, simulation.mask)
    assert (statistics.rss(around, simulation.mask) >= best[:, None]).all()
    assert fit(statistics, theta, simulation.mask).converged.all()
    for i, k in enumerate(simulation.k.tolist()):
        alone = linear_amplitudes(statistics.take(torch.tensor([i])), frequency[i : i + 1, :k])
        assert torch.allclose(alone[0], theta[i, :k], rtol=1e-9)


def test_hopeless_starts_do_not_converge(seed: int) -> None:
    """NaN, two tones in one place, A = 0, beyond Nyquist, a negative frequency: said, and never a NaN."""
    simulation = simulate(NOISY, 7, LONG, SHORT, seed=seed, k=3)
    statistics = statistics_of(simulation, short=False)
    start = simulation.theta[:, :3].clone()
    start[0, 1, 1] = math.nan
    start[1, 1, 2] = start[1, 0, 2]
    start[2, 0, 0] = 0.0
    start[3, 0, 2] = 10.0 - start[3, 0, 2]  # the alias fits as well, with the phase turned round
    start[3, 0, 1] *= -1
    start[4, 0, 1:] *= -1
    start[5, 2, 2] = math.inf
    result = fit(statistics, start)
    assert result.converged.tolist() == [False] * 6 + [True]
    assert torch.equal(reliable(result), result.converged)
    for value in (result.theta, result.sigma, result.covariance, result.log_likelihood, result.rss):
        assert value.isfinite().all()
    assert (result.covariance[:6] == 0).all()


def test_starts_far_away_never_pass_for_the_answer(seed: int) -> None:
    """Bins away from the tones a fit fails, or ends at a maximum that leaves far more than noise."""
    simulation = simulate(Prior(sigma=(0.1, 0.5)), 100, LONG, SHORT, seed=seed, k=3)
    statistics = statistics_of(simulation)
    for bins in (1.5, 5.0, 20.0):
        start = simulation.theta[:, :3].clone()
        start[..., 2] += bins / LONG.duration
        result = fit(statistics, start)
        excess = (result.rss / simulation.sigma**2 - statistics.n) / math.sqrt(2 * statistics.n)
        assert (~result.converged | (excess > 10)).all()
        assert result.theta.isfinite().all()
        assert reliable(result).double().mean() < 0.5  # most say so without knowing σ
    good = fit(statistics, simulation.theta[:, :3])  # negative control: the truth passes
    excess = (good.rss / simulation.sigma**2 - statistics.n) / math.sqrt(2 * statistics.n)
    assert (good.converged & (excess < 6)).all()


def test_mismatch_is_the_curvature(seed: int) -> None:
    """Against the Hessian of the log-likelihood by autograd, on a pair that is barely resolved."""
    grid = Grid(400, 0.1)
    theta = torch.tensor([[[1.0, 0.3, 2.7], [0.9, 1.2, 2.7 + 0.8 / grid.duration]]]).double()
    g = torch.Generator().manual_seed(seed)
    x = model(theta, grid) + 0.3 * torch.randn(1, grid.n, generator=g, dtype=torch.float64)
    statistics = Statistics.from_arrays([x], [grid])
    sigma = torch.tensor([0.3]).double()
    result = fit(statistics, theta, None, sigma)
    assert result.converged.all()

    frequency, c = to_complex(result.theta, statistics.reference)
    z = torch.stack([frequency, c.real, c.imag], -1).flatten()

    def loss(z: Tensor) -> Tensor:
        f, re, im = z.view(1, 2, 3).unbind(-1)
        tones = from_complex(f, torch.complex(re, im), statistics.reference)
        return 0.5 * ((x - model(tones, grid)) ** 2).sum() / sigma[0] ** 2

    hessian = torch.autograd.functional.hessian(loss, z)
    fisher = statistics.equations(frequency[..., None], c[..., None]).matrix[0] / sigma**2
    scale = fisher.diagonal().rsqrt()
    factor = torch.linalg.cholesky(fisher * scale * scale[:, None])
    curvature = hessian * scale * scale[:, None]
    whitened = torch.linalg.solve(factor, torch.linalg.solve(factor, curvature).mT)
    expected = (1 - whitened.mT.sum(-1)).abs().max()
    # The displacement is finite, so third derivatives enter with a tenth of a standard deviation.
    assert result.mismatch[0].item() == pytest.approx(expected.item(), abs=0.1, rel=0.2)


def test_unresolved_pairs_are_not_reliable(seed: int) -> None:
    """A pair 0.1/T apart has a banana for a posterior: the Gaussian says so itself. One 2/T apart is fine."""
    g = torch.Generator().manual_seed(seed)
    share = {}
    for gap in (0.1, 2.0):
        theta = torch.tensor([[[1.0, 0.3, 2.7], [0.9, 1.2, 2.7 + gap / LONG.duration]]]).double()
        theta = theta.repeat(50, 1, 1)
        x = model(theta, LONG) + torch.randn(50, LONG.n, generator=g, dtype=torch.float64)
        result = fit(Statistics.from_arrays([x], [LONG]), theta)
        share[gap] = float(reliable(result).double().mean())
    assert share[0.1] < 0.5
    assert share[2.0] == 1.0


def test_iterations_run_out(seed: int) -> None:
    simulation = simulate(NOISY, 5, LONG, seed=seed, k=3)
    statistics = statistics_of(simulation)
    result = fit(statistics, perturbed(simulation, seed), simulation.mask, max_iterations=1)
    assert not result.converged.any()
    assert (result.iterations == 1).all()


def test_noiseless_and_empty_data(seed: int) -> None:
    """Noiseless: the truth to rounding and σ at its floor or above. All zeros: no tone, no convergence."""
    simulation = simulate(NOISY, 3, LONG, seed=seed, k=3)
    clean = model(simulation.theta, LONG)
    statistics = Statistics.from_arrays([clean], [LONG])
    result = fit(statistics, perturbed(simulation, seed, 0.5), simulation.mask)
    assert result.converged.all()
    assert torch.allclose(result.theta, simulation.theta, atol=1e-7)
    assert (result.sigma >= 0.99e-6 * clean.square().mean(-1).sqrt()).all()
    zeros = Statistics.from_arrays([torch.zeros(3, LONG.n)], [LONG])
    result = fit(zeros, simulation.theta, simulation.mask)
    assert not result.converged.any()
    assert result.theta.isfinite().all() and result.log_likelihood.isfinite().all()
