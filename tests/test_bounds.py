"""The Cramér–Rao bound: against autograd, the textbook, simple scalings and the design's figures."""

from __future__ import annotations

import math

import pytest
import torch
from statistics_helpers import assert_within
from tone_helpers import LONG, SHORT, model
from torch import Tensor

from slotflow import Grid, Prior, simulate
from slotflow.signal.bounds import crb_covariance, crb_std, fisher_matrix

BOTH = (LONG, SHORT)


def tones(seed: int, n: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Parameters, noise levels and mask from the nominal prior, σ away from 0."""
    generator = torch.Generator().manual_seed(seed)
    prior = Prior(sigma=(0.1, 1.5))
    theta = prior.sample_theta(torch.full((n,), k), generator)
    return theta[:, :k], prior.sample_sigma(n, generator), theta[:, :k, 0] > 0


def test_against_second_derivatives(seed: int) -> None:
    """F = −∂²/∂θ² of the expected log L, by autograd through the time domain, close pair included."""
    grids, ratios = (Grid(300, 0.1, 2.0), Grid(256, 1 / 512, 5.0)), (1.0, 1.7)
    theta, sigma, _ = tones(seed, 2, 3)
    theta[:, 1, 2] = theta[:, 0, 2] + 0.3 / grids[0].duration
    fisher = fisher_matrix(theta, sigma, grids, ratios=ratios)
    for i in range(2):
        truth = theta[i]

        def expected(flat: Tensor, truth: Tensor = truth, level: float = float(sigma[i])) -> Tensor:
            losses = [
                ((model(flat.view(3, 3), g) - model(truth, g)) ** 2).sum() / (level * r) ** 2
                for g, r in zip(grids, ratios, strict=True)
            ]
            return 0.5 * sum(losses, torch.zeros((), dtype=torch.float64))

        hessian = torch.autograd.functional.hessian(expected, truth.flatten())
        scale = hessian.diagonal().sqrt()
        assert ((fisher[i] - hessian) / scale / scale[:, None]).abs().max() < 1e-10


@pytest.mark.parametrize("n", [300, 3000])
def test_textbook_single_tone(n: int, seed: int) -> None:
    """Rife and Boorstyn's formulas, which leave out terms of order 1/N."""
    grid = Grid(n, 0.1)
    theta, sigma, _ = tones(seed, 20, 1)
    amplitude = theta[:, 0, 0]
    eta = amplitude**2 / (2 * sigma**2)
    sd = crb_std(theta, sigma, (grid,))[:, 0]
    expected = [
        sigma * math.sqrt(2 / n),
        (2 * (2 * n - 1) / (eta * n * (n + 1))).sqrt(),
        (12 / (eta * n * (n**2 - 1))).sqrt() / (2 * math.pi * grid.dt),
    ]
    assert torch.allclose(sd, torch.stack(expected, -1), rtol=10 / n)


def test_scalings(seed: int) -> None:
    """Twice the noise doubles it, data in other units scale A alone, φ is arbitrary, more data never hurt."""
    theta, sigma, _ = tones(seed, 10, 4)
    sd = crb_std(theta, sigma, BOTH)
    assert torch.allclose(crb_std(theta, 2 * sigma, BOTH), 2 * sd)
    units = torch.tensor([7.0, 1.0, 1.0], dtype=torch.float64)
    assert torch.allclose(crb_std(theta * units, 7 * sigma, BOTH), sd * units)
    assert (crb_std(theta, sigma, (LONG, None)) >= sd).all()
    assert torch.allclose(
        crb_std(theta, sigma, BOTH, ratios=(1.0, 1e6)), crb_std(theta, sigma, (LONG,)), rtol=1e-6
    )
    # The phase at the time origin of one's choice, not its bound on A and f.
    moved = [Grid(g.n, g.dt, g.t0 - 100.0) for g in BOTH]
    turned = theta.clone()
    turned[..., 1] += 2 * math.pi * 100.0 * theta[..., 2]
    assert torch.allclose(crb_std(turned, sigma, moved)[..., [0, 2]], sd[..., [0, 2]], rtol=1e-7)


def test_more_tones_never_narrow_it(seed: int) -> None:
    """Masked = shorter, and the bound of a tone grows with each neighbour that must be fitted too."""
    theta, sigma, mask = tones(seed, 20, 5)
    mask[:, 3:] = False
    masked = crb_std(torch.where(mask[..., None], theta, math.nan), sigma, BOTH, mask)
    few, all_five = crb_std(theta[:, :3], sigma, BOTH), crb_std(theta, sigma, BOTH)
    assert torch.allclose(masked[:, :3], few, rtol=1e-10)
    assert (masked[:, 3:] == 0).all()
    assert (all_five[:, :3] >= few * (1 - 1e-12)).all()
    assert (all_five[:, :3] > few).any()


def test_close_pairs_cost_more_and_coincident_ones_everything() -> None:
    base = torch.tensor([[[1.0, 0.4, 2.7], [1.0, 1.9, 2.7]]], dtype=torch.float64)
    sigma = torch.ones(1, dtype=torch.float64)
    widths = []
    for gap in (3.0, 1.0, 0.5, 0.1):
        theta = base.clone()
        theta[0, 1, 2] += gap / LONG.duration
        widths.append(crb_std(theta, sigma, BOTH)[0, 0, 2].item())
    assert widths == sorted(widths)
    assert widths[-1] > 10 * widths[0]
    assert crb_covariance(base, sigma, BOTH).isinf().all()
    silent = base.clone()
    silent[0, 1] = torch.tensor([0.0, 0.0, 2.9])
    assert crb_std(silent, sigma, BOTH).isinf().all()


@pytest.mark.parametrize(
    ("k", "amplitude", "phase", "frequency"),
    [(1, 0.013, 0.016, 0.023e-3), (10, 0.018, 0.026, 0.029e-3)],
)
def test_figures_of_the_design(
    k: int, amplitude: float, phase: float, frequency: float, seed: int
) -> None:
    """Mean bound over nominal signals, both streams: the stated figures, to their last digit and Monte-Carlo error."""
    n = 1500
    simulation = simulate(
        Prior(), n, Grid(8, 0.1), seed=seed, k=k
    )  # parameters only: no data needed
    theta = simulation.theta[:, :k]
    sd = crb_std(theta, simulation.sigma, BOTH)
    sd[..., 0] /= theta[..., 0]
    each = sd.mean(1)  # (n, 3); tones of one signal share σ
    error = each.std(0) / math.sqrt(n)
    rounding = torch.tensor([0.0005, 0.0005, 0.0005e-3], dtype=torch.float64)
    stated = torch.tensor([amplitude, phase, frequency], dtype=torch.float64)
    assert_within(each.mean(0).numpy(), stated.numpy(), (error + rounding / 5).numpy())
    long_only = crb_std(theta, simulation.sigma, (LONG,)).mean((0, 1))
    assert (long_only[1] / each.mean(0)[1] > 1.5) and (long_only[2] / each.mean(0)[2] > 1.2)


def test_errors() -> None:
    theta, sigma = torch.ones(1, 1, 3), torch.ones(1)
    with pytest.raises(ValueError, match="at least one grid"):
        fisher_matrix(theta, sigma, (None,))
    with pytest.raises(ValueError, match=r"\(B, K, 3\)"):
        fisher_matrix(theta[0], sigma, (LONG,))


def test_no_tones() -> None:
    """No column at all: nothing to bound, and no error."""
    none = torch.zeros(2, 0, 3, dtype=torch.float64)
    assert crb_std(none, torch.ones(2, dtype=torch.float64), BOTH).shape == (2, 0, 3)
