"""A look at the default model's quality: counts, coverage, widths and noise levels."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from statistics_helpers import assert_within
from tone_helpers import LONG, SHORT
from torch import Tensor
from zoom_helpers import spread

from slotflow import Prior, Simulation, simulate
from slotflow.network.zoom.analysis import Analysis
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.bounds import crb_std


@pytest.fixture(scope="module")
def model(zoom: ZoomSlotFlow) -> ZoomSlotFlow:
    """The default model, which all tests share."""
    return zoom


@dataclasses.dataclass(frozen=True)
class Answers:
    sim: Simulation
    analysis: Analysis
    draws: Tensor
    """At the true K, (B, n, K, 3)."""


SETS = {
    "nominal": Prior(sigma=(0.02, 1.5)),
    "stress": Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0)),
}
N = 150


@pytest.fixture(scope="module")
def answers(model: ZoomSlotFlow, base_seed: int) -> dict[str, Answers]:
    found = {}
    for i, (name, prior) in enumerate(SETS.items()):
        sim = simulate(prior, N, LONG, SHORT, mode="physical", seed=base_seed + 100 + i)
        analysis = model.analyse(sim, prior)
        found[name] = Answers(sim, analysis, analysis.slots(sim.k).sample(200))
    return found


@pytest.mark.parametrize("name", SETS)
def test_counts(name: str, answers: dict[str, Answers]) -> None:
    """Errors no more than an error rate of 1e-3 explains in one case of a million; shuffled truth fails."""
    sim, k = answers[name].sim, answers[name].analysis.k_map
    allowed = stats.binom.isf(1e-6, N, 1e-3)
    assert int((k != sim.k).sum()) <= allowed
    assert int((k != sim.k.roll(1)).sum()) > allowed


def ranks(one: Answers, truth: Tensor) -> NDArray[np.float64]:
    """Share of draws below the truth for each tone, both sorted by frequency, (tones, 3)."""
    mask = one.sim.mask
    key = torch.where(mask[:, None], one.draws[..., 2], math.inf)
    order = key.argsort(-1)[..., None].expand_as(one.draws)
    draws = one.draws.gather(2, order)
    error = draws - truth[:, None]
    error[..., 1] = torch.remainder(error[..., 1] + math.pi, 2 * math.pi) - math.pi
    share: NDArray[np.float64] = (error < 0).double().mean(1)[mask].numpy()
    return share


def covered(share: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    result: NDArray[np.float64] = (np.abs(share - 0.5) <= level / 2).mean(0)
    return result


@pytest.mark.parametrize("name", SETS)
def test_coverage(name: str, answers: dict[str, Answers]) -> None:
    """Central intervals at the true K hold the truth as often as they say; truths moved by an sd are noticed.

    Tones of a signal share its noise: the standard error counts signals, not tones, for what is common to them
    (twice that of independent tones).
    """
    one = answers[name]
    share, tones_ = ranks(one, one.sim.theta), int(one.sim.mask.sum())
    moved = ranks(one, one.sim.theta + spread(one.draws))
    for level in (0.5, 0.9):
        error = 2 * math.sqrt(level * (1 - level) / tones_)
        assert_within(covered(share, level), level, error + 0.005, sigmas=4)
        with pytest.raises(AssertionError):
            assert_within(covered(moved, level), level, error + 0.005, sigmas=4)


def test_widths_are_the_bound(answers: dict[str, Answers]) -> None:
    """Median sd over the joint Cramér–Rao bound within 3 %; over that of a σ 10 % larger it is not."""
    one = answers["nominal"]
    sd, mask = spread(one.draws)[one.sim.mask], one.sim.mask
    ratio = sd / crb_std(one.sim.theta, one.sim.sigma, one.sim.grids, mask)[mask]
    # 200 draws give an sd to 5 %, the median over some 800 tones to 0.2 %.
    assert (ratio.median(0).values - 1).abs().max() < 0.03, ratio.median(0).values
    wrong = sd / crb_std(one.sim.theta, 1.1 * one.sim.sigma, one.sim.grids, mask)[mask]
    assert (wrong.median(0).values - 1).abs().min() > 0.03


def test_noise_estimates(answers: dict[str, Answers]) -> None:
    """σ from the residual is unbiased, with the spread that 8,120 samples allow."""
    for one in answers.values():
        free = LONG.n + SHORT.n - 3 * one.sim.k
        pull = (one.analysis.noise / one.sim.sigma - 1) * (2 * free).sqrt()
        assert_within(pull.mean(), 0.0, 1 / math.sqrt(N))
        assert 0.7 < pull.std() < 1.3  # 5 standard errors of an sd from 150 numbers
