"""Proposals at the edge of the prior: the nearest point of the support, a normalized density, the same evidence."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from statistics_helpers import assert_mean, assert_same_law, assert_within
from tone_helpers import model, to_z

from slotflow import Grid, Prior
from slotflow.exact.importance import importance_sample
from slotflow.exact.modes import Modes
from slotflow.exact.proposals.assembly import Proposer
from slotflow.exact.proposals.collapsed import Bent
from slotflow.exact.proposals.edges import SLACK, Cut, _nearest, cut
from slotflow.exact.proposals.gaussian import Mixture
from slotflow.exact.target import Target
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics

GRID = Grid(1000, 0.1)
SIGMA = 0.5
ERROR = SIGMA * np.sqrt(2 / GRID.n)
"""Standard error of an amplitude."""
PRIOR = Prior(k_min=0, k_max=3, amplitude=(0.5, 1.5), frequency=(2.0, 3.0), min_separation=0.01)


def proposal(amplitudes: list[float], seed: int, prior: Prior = PRIOR) -> tuple[Target, Bent]:
    """The bent Gaussian around the maximum of data that hold tones of given amplitudes."""
    k = len(amplitudes)
    theta = torch.tensor([[a, 1.0 + i, 2.2 + 0.25 * i] for i, a in enumerate(amplitudes)])
    generator = torch.Generator().manual_seed(seed)
    noise = SIGMA * torch.randn(1, GRID.n, generator=generator, dtype=torch.float64)
    statistics = Statistics.from_arrays([model(theta.double(), GRID)[None] + noise], (GRID,))
    target = Target(statistics, prior, k)
    found = fit(statistics, theta.double()[None])
    z = to_z(found.theta[0].numpy(), statistics.reference)
    gaussian = target.gaussian(z)
    assert gaussian is not None
    return target, Bent(target, z, gaussian[1])


@pytest.mark.parametrize(
    ("slope", "bound", "expected"),
    [
        ([[1.0, 0.0]], [2.0], [2.0, 0.0]),
        ([[1.0, 0.0]], [-2.0], [0.0, 0.0]),  # the origin lies inside
        ([[1.0, 0.0], [0.6, 0.8]], [2.0, 3.0], [2.0, 2.25]),  # a corner
        ([[1.0, 0.0], [0.6, 0.8]], [1.0, 3.0], [1.8, 2.4]),  # one plane hides the other
        ([[1.0, 0.0], [-1.0, 0.0]], [1.0, 1.0], None),  # nothing lies inside
    ],
)
def test_the_nearest_point(
    slope: list[list[float]], bound: list[float], expected: list[float] | None
) -> None:
    found = _nearest(np.array(slope), np.array(bound))
    if expected is None:
        assert found is None
    else:
        assert found == pytest.approx(expected, abs=1e-9)


def test_normal_variables_and_back(seed: int) -> None:
    _, base = proposal([1.0, 0.8], seed)
    u = np.random.default_rng(seed).standard_normal((50, 6))
    np.testing.assert_allclose(base.to_normal(base.from_normal(u)), u, atol=1e-8)


def test_density_and_draws_belong_together(seed: int) -> None:
    """Draws fill the part of the proposal beyond the plane, and the density is that of the part."""
    _, base = proposal([1.0, 0.8], seed)
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(6)
    part = Cut(base, 2 * direction / np.linalg.norm(direction))
    z = base.sample(40_000, rng)
    ratio = np.exp(part.log_prob(z) - base.log_prob(z))
    assert_mean(ratio, 1.0)  # ∫ density = 1
    inside = base.to_normal(z)[ratio > 0]
    drawn = base.to_normal(part.sample(20_000, rng))
    assert (drawn @ part.normal >= part.bound - 1e-9).all()
    for i in range(6):
        assert_same_law(drawn[:, i], inside[:, i])
    with pytest.raises(AssertionError):  # the control: without the cut
        assert_same_law(drawn @ part.normal, base.to_normal(z) @ part.normal)


def test_where_nothing_is_needed(seed: int) -> None:
    target, base = proposal([1.0, 0.8], seed)
    assert cut(base, target) is None
    far = dataclasses.replace(PRIOR, amplitude=(1.3, 1.5))
    assert cut(base, Target(target.statistics, far, 2)) is None  # beyond ten standard errors


def test_the_plane_lies_before_the_bounds(seed: int) -> None:
    """One amplitude below its bound, one above, two frequencies too close."""
    target, base = proposal([0.5 - 4 * ERROR, 1.5 + 4 * ERROR], seed)
    f = base.centre
    prior = dataclasses.replace(PRIOR, min_separation=float(f[1] - f[0]) + 3e-4)
    edge = cut(base, Target(target.statistics, prior, 2))
    assert edge is not None
    nearest = (edge.bound + SLACK) * edge.normal
    z = base.from_normal(nearest[None])[0]
    assert np.hypot(z[:, 1], z[:, 2]) == pytest.approx([0.5, 1.5], abs=1e-3)
    assert z[1, 0] - z[0, 0] >= prior.min_separation - 1e-6


def test_evidence_and_cost_at_the_edge(seed: int) -> None:
    """The same evidence as without, for a small part of the candidates."""
    target, base = proposal([0.7, 1.2], seed)
    low, high = np.hypot(*base.from_normal(np.zeros((1, 6)))[0, :, 1:].T)
    prior = dataclasses.replace(PRIOR, amplitude=(low + 2.5 * ERROR, high - 1.5 * ERROR))
    target = Target(target.statistics, prior, 2)
    edge = cut(base, target)
    assert edge is not None
    rng = np.random.default_rng(seed)
    slow = importance_sample(target, base, rng, draws=2000)
    fast = importance_sample(target, Mixture([base, edge], [0.05, 0.95]), rng, draws=2000)
    error = np.hypot(slow.log_evidence_error, fast.log_evidence_error)
    assert_within(fast.log_evidence, slow.log_evidence, error)
    assert fast.sound and fast.ess * fast.share > 5 * slow.ess * slow.share
    for one, other in zip(fast.theta[..., 0].T, slow.theta[..., 0].T, strict=True):
        mean = np.average(one, weights=np.exp(fast.log_weights))
        expected = np.average(other, weights=np.exp(slow.log_weights))
        assert_within(
            mean, expected, other.std() * np.sqrt(1 / slow.effective + 1 / fast.effective)
        )
    with pytest.raises(AssertionError):  # the control: the weights of a proposal that was not cut
        wrong = importance_sample(target, _Mistaken(base, edge), rng, draws=2000)
        assert_within(wrong.log_evidence, slow.log_evidence, error)


class _Mistaken:
    """Draws beyond the plane with the density of those that are not."""

    def __init__(self, base: Bent, edge: Cut) -> None:
        self.base, self.edge = base, edge

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return self.edge.sample(n, rng)

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        return self.base.log_prob(z)


def test_the_proposer_adds_it_where_needed(seed: int) -> None:
    for amplitude, expected in ((1.0, False), (0.5 - 3 * ERROR, True)):
        target, _ = proposal([amplitude], seed)
        modes = Modes(target.statistics, PRIOR)
        modes.add([np.array([2.2])])
        proposer = Proposer(target.statistics, PRIOR, modes, np.random.default_rng(seed))
        parts = proposer.parts(target)
        assert any(isinstance(part, Cut) for part in parts) == expected
