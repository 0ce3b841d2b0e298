"""The flow's target: coordinates and back, the weights' chain rule, the radial integral."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from flow_helpers import rough_flow
from scipy import integrate
from torch import Tensor

from slotflow import Prior
from slotflow.network.config import FlowConfig
from slotflow.network.paper.plane import PlaneTarget, tone_target
from slotflow.network.paper.target import CircleTarget

PAPER = CircleTarget(phase_weight=2.0, frequency_weight=3.0, centre=2.75)
TARGETS = [PAPER, CircleTarget(1.0, 1.0, 0.0), CircleTarget(0.3, 11.0, -4.0)]


def components(n: int, seed: int) -> Tensor:
    u = torch.rand(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.stack([0.5 + u[:, 0], 2 * math.pi * u[:, 1], 2.5 + u[:, 2] / 2], dim=-1)


# ---------------------------------------------------------------- there and back


def test_formula() -> None:
    theta = torch.tensor([0.7, 1.1, 2.9], dtype=torch.float64)
    expected = [0.7, 2 * math.cos(1.1), 2 * math.sin(1.1), 3 * (2.9 - 2.75)]
    np.testing.assert_allclose(PAPER.encode(theta).numpy(), expected, atol=1e-15)


def test_from_config_takes_the_middle_of_the_band() -> None:
    target = CircleTarget.from_config(
        FlowConfig(phase_weight=5.0, frequency_weight=7.0), Prior(frequency=(2.5, 3.0))
    )
    assert (target.phase_weight, target.frequency_weight, target.centre) == (5.0, 7.0, 2.75)
    assert target.dim == 4


@pytest.mark.parametrize("target", TARGETS)
def test_round_trip(target: CircleTarget, seed: int) -> None:
    theta = components(1000, seed)
    y = target.encode(theta)
    assert y.shape == (1000, 4) and y.dtype == torch.float64
    torch.testing.assert_close(target.decode(y), theta, rtol=0, atol=1e-13)


def test_weights_leave_no_trace(seed: int) -> None:
    """All targets decode to the same parameters, although their coordinates differ."""
    theta = components(100, seed)
    coordinates = [t.encode(theta) for t in TARGETS]
    assert (coordinates[0] - coordinates[1]).abs().max() > 0.5
    for target, y in zip(TARGETS, coordinates, strict=True):
        torch.testing.assert_close(target.decode(y), theta, rtol=0, atol=1e-13)


@pytest.mark.parametrize("radius", [1e-6, 0.5, 2.0, 40.0])
def test_decode_ignores_the_radius(radius: float, seed: int) -> None:
    theta = components(100, seed)
    y = PAPER.at_radius(theta, torch.full((100,), radius, dtype=torch.float64))
    torch.testing.assert_close(y[:, 1:3].norm(dim=-1), torch.full((100,), radius).double())
    torch.testing.assert_close(PAPER.decode(y), theta, rtol=0, atol=1e-9)


def test_at_own_radius_equals_encode(seed: int) -> None:
    theta = components(10, seed)
    y = PAPER.at_radius(theta, torch.full((10,), 2.0, dtype=torch.float64))
    torch.testing.assert_close(y, PAPER.encode(theta))


def test_at_radius_broadcasts(seed: int) -> None:
    theta, radii = components(5, seed), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    y = PAPER.at_radius(theta[None], radii[:, None])
    assert y.shape == (3, 5, 4)
    for i in range(3):
        torch.testing.assert_close(y[i], PAPER.at_radius(theta, radii[i].expand(5)))


@pytest.mark.parametrize("phase", [0.0, -0.0, -1e-300, -1e-18, 1e-18, math.pi, -math.pi, 6.2831853])
def test_phase_lies_in_its_half_open_interval(phase: float) -> None:
    y = torch.tensor([1.0, 2 * math.cos(phase), 2 * math.sin(phase), 0.0], dtype=torch.float64)
    decoded = PAPER.decode(y)[1].item()
    assert 0 <= decoded < 2 * math.pi
    assert math.cos(decoded - phase) == pytest.approx(1.0, abs=1e-12)


def test_single_precision_decodes_to_double() -> None:
    assert PAPER.decode(torch.zeros(2, 4)).dtype == torch.float64


# ---------------------------------------------------------------- lemma 4.1


@pytest.mark.parametrize("target", TARGETS)
def test_lemma_gradient_is_the_weight_times_the_targets(target: CircleTarget, seed: int) -> None:
    """∂L/∂(cos φ, sin φ) = w_φ ∂L/∂(its coordinates), and the like for f; L is a flow's NLL."""
    flow = rough_flow(4, 3, seed)
    q = flow(torch.zeros(50, 3, dtype=torch.float64))
    theta = components(50, seed)
    amplitude, phase, frequency = (v.clone().requires_grad_() for v in theta.unbind(-1))
    c, s = phase.cos(), phase.sin()
    c.retain_grad()
    s.retain_grad()
    scaled = [target.phase_weight * c, target.phase_weight * s]
    y = torch.stack(
        [amplitude, *scaled, target.frequency_weight * (frequency - target.centre)], dim=-1
    )
    y.retain_grad()
    torch.testing.assert_close(y, target.encode(theta))
    (-q.log_prob(y)).sum().backward()
    assert y.grad is not None and c.grad is not None and s.grad is not None
    torch.testing.assert_close(c.grad, target.phase_weight * y.grad[:, 1])
    torch.testing.assert_close(s.grad, target.phase_weight * y.grad[:, 2])
    torch.testing.assert_close(amplitude.grad, y.grad[:, 0])
    torch.testing.assert_close(frequency.grad, target.frequency_weight * y.grad[:, 3])
    ratio = torch.stack([c.grad, s.grad]).norm() / y.grad[:, 1:3].norm()
    assert ratio.item() == pytest.approx(target.phase_weight, rel=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_lemma_holds_through_encode(target: CircleTarget, seed: int) -> None:
    """The same by autograd through `encode`, down to ∂L/∂φ."""
    flow = rough_flow(4, 3, seed)
    context = torch.zeros(50, 3, dtype=torch.float64)
    theta = components(50, seed).requires_grad_()
    (-flow(context).log_prob(target.encode(theta))).sum().backward()
    y = target.encode(theta.detach()).requires_grad_()
    (-flow(context).log_prob(y)).sum().backward()
    assert theta.grad is not None and y.grad is not None
    phase, g = theta.detach()[:, 1], y.grad
    expected = target.phase_weight * (-phase.sin() * g[:, 1] + phase.cos() * g[:, 2])
    torch.testing.assert_close(theta.grad[:, 1], expected)
    torch.testing.assert_close(theta.grad[:, 2], target.frequency_weight * g[:, 3])
    assert expected.abs().max() > 0.1


# ---------------------------------------------------------------- radial integral


def ring_draws(centre: tuple[float, float], sd: float, n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    xy = torch.tensor(centre) + sd * torch.randn(n, 1, 2, generator=generator, dtype=torch.float64)
    return torch.cat([torch.ones(n, 1, 1), xy, torch.zeros(n, 1, 1)], dim=-1)


@pytest.mark.parametrize(
    ("centre", "sd"),
    [((0.0, 0.0), 1.0), ((2.0, 0.0), 0.05), ((1.4, -1.4), 0.3), ((0.3, 0.2), 0.4)],
)
def test_radial_rule_integrates_gaussians(
    centre: tuple[float, float], sd: float, seed: int
) -> None:
    """∫ N(r cos φ, r sin φ) r dr against adaptive quadrature, wherever the angle's density is not tiny."""
    r, weights = (v[:, 0].numpy() for v in PAPER.radial_rule(ring_draws(centre, sd, 4096, seed)))
    at = math.atan2(centre[1], centre[0])
    spread = min(math.pi, 3 * sd / max(math.hypot(*centre), 1e-9))

    def density(radius: np.ndarray, phi: float) -> np.ndarray:
        dx = radius * math.cos(phi) - centre[0]
        dy = radius * math.sin(phi) - centre[1]
        return np.exp(-(dx**2 + dy**2) / (2 * sd**2)) / (2 * math.pi * sd**2)

    for phi in at + spread * np.array([-1.0, -0.3, 0.0, 0.7]):
        peak = max(0.0, centre[0] * math.cos(phi) + centre[1] * math.sin(phi))
        pieces = [0.0, *(max(0.0, peak + m * sd) for m in (-9, -3, 0, 3, 9))]
        expected = sum(
            integrate.quad(lambda x, phi=phi: x * density(x, phi), a, b)[0]
            for a, b in itertools.pairwise(pieces)
            if b > a
        )
        assert weights @ density(r, phi) == pytest.approx(expected, rel=2e-3)


def test_radial_rule_carries_the_factor_r(seed: int) -> None:
    """Σ weights · N(0, I) = 1/2π; without the factor r the sum would be 1/√(2π) · ½."""
    r, weights = (v[:, 0] for v in PAPER.radial_rule(ring_draws((0.0, 0.0), 1.0, 4096, seed)))
    density = torch.exp(-(r**2) / 2) / (2 * math.pi)
    assert (weights * density).sum().item() == pytest.approx(1 / (2 * math.pi), rel=1e-3)
    positive = r > 0
    bare = (weights[positive] / r[positive] * density[positive]).sum().item()
    assert bare == pytest.approx(0.5 / math.sqrt(2 * math.pi), rel=1e-3)


def test_radial_rule_is_per_slot(seed: int) -> None:
    narrow, wide = ring_draws((2.0, 0.0), 0.01, 500, seed), ring_draws((1.0, 0.0), 0.5, 500, seed)
    r, weights = PAPER.radial_rule(torch.cat([narrow, wide], dim=1))
    for i, draws in enumerate((narrow, wide)):
        alone_r, alone_weights = PAPER.radial_rule(draws)
        torch.testing.assert_close(r[:, i], alone_r[:, 0])
        torch.testing.assert_close(weights[:, i], alone_weights[:, 0])
    assert (r >= 0).all() and (weights >= 0).all()


def test_radial_rule_survives_draws_of_one_radius() -> None:
    draws = torch.tensor([1.0, 2.0, 0.0, 0.0], dtype=torch.float64).expand(100, 1, 4)
    r, weights = PAPER.radial_rule(draws)
    assert torch.isfinite(r).all() and torch.isfinite(weights).all()
    assert weights.sum() > 0


# ---------------------------------------------------------------- the plane


PLANE = PlaneTarget(phase_weight=1.7, frequency_weight=3.0, centre=2.75)


def test_plane_formula_and_round_trip(seed: int) -> None:
    theta = torch.tensor([0.7, 1.1, 2.9], dtype=torch.float64)
    expected = [1.7 * 0.7 * math.cos(1.1), 1.7 * 0.7 * math.sin(1.1), 3 * (2.9 - 2.75)]
    np.testing.assert_allclose(PLANE.encode(theta).numpy(), expected, atol=1e-15)
    many = components(1000, seed)
    torch.testing.assert_close(PLANE.decode(PLANE.encode(many)), many, rtol=0, atol=1e-13)
    assert PLANE.dim == 3 and torch.equal(PLANE.encode_for_training(many, seed), PLANE.encode(many))


def test_plane_has_the_jacobian_of_its_map(seed: int) -> None:
    theta = components(20, seed)
    for one, slope in zip(theta, PLANE.log_slopes(theta), strict=True):
        jacobian = torch.autograd.functional.jacobian(PLANE.encode, one)
        assert float(jacobian.det().abs().log()) == pytest.approx(float(slope), abs=1e-12)


def test_plane_has_one_radius_which_changes_nothing(seed: int) -> None:
    theta = components(5, seed)
    radii, weights = PLANE.radial_rule(torch.zeros(7, 5, 3))
    assert radii.shape == weights.shape == (1, 5) and bool((weights == 1).all())
    assert torch.equal(PLANE.at_radius(theta, radii), PLANE.encode(theta)[None])


def test_the_config_chooses_the_target() -> None:
    prior = Prior(frequency=(2.5, 3.0))
    assert isinstance(tone_target(FlowConfig(), prior), CircleTarget)
    plane = tone_target(FlowConfig(target="plane", phase_weight=5.0), prior)
    assert isinstance(plane, PlaneTarget) and plane.phase_weight == 5.0
    assert float(plane.encode(torch.tensor([1.0, 0.0, 2.75]))[2]) == 0.0
