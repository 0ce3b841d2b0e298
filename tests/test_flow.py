"""The conditional flow: inverse, log-determinant, context projection, densities and draws."""

from __future__ import annotations

import gc
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from flow_helpers import FLOW, gaussian_flow, rough_flow
from scipy import stats
from statistics_helpers import assert_mean, assert_within
from torch import Tensor, nn
from zuko.transforms import MonotonicAffineTransform, MonotonicRQSTransform

from slotflow.network.config import Config, FlowConfig
from slotflow.network.flow import CONTEXT_GAIN, ConditionalFlow, balanced_permutations

CONTEXT = 5


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------- identities in float64


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
@pytest.mark.parametrize("layers", [1, 4, 8])
def test_inverse_undoes_forward(dim: int, layers: int, seed: int) -> None:
    flow = rough_flow(dim, CONTEXT, seed, FlowConfig(layers=layers, hidden=16, bins=6))
    transform = flow(normal(3, CONTEXT, seed=seed + 1)).transform
    points = 2.5 * normal(200, 3, dim, seed=seed + 2)  # on both sides of the splines' bound
    there = transform(points)
    assert (there - points).abs().max() > 0.1
    torch.testing.assert_close(transform.inv(there), points, rtol=0, atol=1e-9)
    torch.testing.assert_close(transform(transform.inv(points)), points, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_log_determinant_equals_autograd(dim: int, seed: int) -> None:
    flow = rough_flow(dim, CONTEXT, seed)
    q = flow(normal(1, CONTEXT, seed=seed + 1))
    for y in 1.5 * normal(20, dim, seed=seed + 2):
        z, ladj = q.transform.call_and_ladj(y[None])
        jacobian = torch.autograd.functional.jacobian(lambda v: q.transform(v[None])[0], y)
        expected = torch.linalg.slogdet(jacobian).logabsdet
        torch.testing.assert_close(ladj[0], expected, rtol=0, atol=1e-9)
        base = -0.5 * (z[0] ** 2).sum() - 0.5 * dim * math.log(2 * math.pi)
        torch.testing.assert_close(q.log_prob(y[None])[0], base + expected, rtol=0, atol=1e-9)


def test_log_determinant_check_can_fail(seed: int) -> None:
    """The negative control of the test above: the log-determinant of a rough flow is far from zero."""
    q = rough_flow(4, CONTEXT, seed)(normal(1, CONTEXT, seed=seed + 1))
    ladj = q.transform.call_and_ladj(normal(20, 1, 4, seed=seed + 2))[1]
    assert ladj.abs().max() > 0.1


@pytest.mark.parametrize("gain", [CONTEXT_GAIN, 1.0])
def test_a_fresh_flow_hears_its_context(gain: float, seed: int) -> None:
    """The initial scale makes the context matter; with torch's own (the control) it hardly does."""
    torch.manual_seed(seed)
    flow = ConditionalFlow(4, 64, FlowConfig(layers=4, hidden=64, bins=12), gain).double()
    contexts = 0.3 * normal(200, 64, seed=seed)
    z = flow(contexts).transform(normal(1, 4, seed=seed + 1).expand(200, 4))
    heard = z.std(dim=0).mean() > 0.15
    assert bool(heard) == (gain == CONTEXT_GAIN)


@pytest.mark.parametrize("layers", [2, 4, 8])
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_permutations_leave_no_coordinate_out(dim: int, layers: int) -> None:
    """Each coordinate gets its share of splines and of affine layers, to within one."""
    at, moved = np.arange(dim), []
    for order in balanced_permutations(dim, dim // 2, layers):
        assert sorted(order) == list(range(dim))
        at = at[order]
        moved.append(np.isin(np.arange(dim), at[dim // 2 :]))
    counts = np.array(moved)
    assert counts.any(axis=0).all()
    if layers >= 4:
        for some in (counts, counts[::2], counts[1::2]):
            assert np.ptp(some.sum(axis=0)) <= 1


def test_spline_layer_is_the_identity_outside_its_bound(seed: int) -> None:
    flow = rough_flow(4, CONTEXT, seed, FlowConfig(layers=1, hidden=16, bins=6, bound=2.0))
    y = torch.tensor([[[2.5, -3.0, 7.0, -2.01]], [[0.5, 1.0, -1.5, 0.1]]], dtype=torch.float64)
    z = flow(normal(1, CONTEXT, seed=seed)).transform(y)
    expected = y[..., flow.layers[0].order]
    torch.testing.assert_close(z[0], expected[0], rtol=0, atol=1e-12)
    assert (z[1, 0, 2:] - expected[1, 0, 2:]).abs().min() > 1e-4
    torch.testing.assert_close(z[1, 0, :2], expected[1, 0, :2], rtol=0, atol=0)


@pytest.mark.parametrize("preset", ["debug", "paper"])
def test_every_coordinate_reaches_every_other(preset: str, seed: int) -> None:
    config = Config.from_preset(preset).model.flow
    small = FlowConfig(layers=config.layers, hidden=16, bins=6)
    flow = rough_flow(4, CONTEXT, seed, small)
    assert [layer.kind == "spline" for layer in flow.layers] == [
        i % 2 == 0 for i in range(config.layers)
    ]
    for layer in flow.layers:
        assert sorted(layer.order.tolist()) == [0, 1, 2, 3]
    transform = flow(normal(1, CONTEXT, seed=seed)).transform
    total = torch.zeros(4, 4, dtype=torch.float64)
    for y in 0.7 * normal(5, 4, seed=seed):
        total += torch.autograd.functional.jacobian(lambda v: transform(v[None])[0], y).abs()
    assert (total > 0).all()


def test_permutations_do_not_follow_the_global_seed() -> None:
    torch.manual_seed(1)
    one = ConditionalFlow(4, CONTEXT, FLOW)
    torch.manual_seed(2)
    two = ConditionalFlow(4, CONTEXT, FLOW)
    for a, b in zip(one.layers, two.layers, strict=True):
        assert a.order.tolist() == b.order.tolist()
    assert "layers.0.order" in one.state_dict()


def test_paper_sizes() -> None:
    config = Config.from_preset("paper").model.flow
    layer = ConditionalFlow(4, 266, FlowConfig(layers=2)).layers
    assert (config.layers, config.hidden, config.bins, config.bound) == (8, 768, 48, 2.0)
    assert layer[0].out.out_features == 2 * (3 * 48 - 1)  # widths, heights, inner slopes
    assert layer[1].out.out_features == 2 * 2  # shift, scale
    assert layer[0].from_context.out_features == 768


# ---------------------------------------------------------------- context


def reference_log_prob(flow: ConditionalFlow, context: Tensor, y: Tensor) -> Tensor:
    """Log q(y | c) for one row, each network applied to the concatenation [kept half, c]."""
    log_det = torch.zeros((), dtype=torch.float64)
    for layer in flow.layers:
        y = y[layer.order]
        kept, moved = y[: layer.kept], y[layer.kept :]
        weight = torch.cat([layer.from_kept.weight, layer.from_context.weight], dim=1)
        h = weight @ torch.cat([kept, context]) + layer.from_context.bias
        for module in [*layer.hidden, layer.out]:
            h = module.weight @ h + module.bias if isinstance(module, nn.Linear) else h.relu()
        h = h.view(layer.moved, -1)
        bins = layer.bins
        if layer.kind == "spline":
            parts = h[:, :bins], h[:, bins : 2 * bins], h[:, 2 * bins :]
            one = MonotonicRQSTransform(*parts, bound=layer.bound)
        else:
            one = MonotonicAffineTransform(h[:, 0], h[:, 1])
        out = one(moved)
        log_det = log_det + one.log_abs_det_jacobian(moved, out).sum()
        y = torch.cat([kept, out])
    return log_det - 0.5 * (y**2).sum() - 0.5 * y.numel() * math.log(2 * math.pi)


def test_projected_context_equals_the_direct_one(seed: int) -> None:
    flow = rough_flow(4, CONTEXT, seed)
    contexts, y = normal(6, CONTEXT, seed=seed + 1), normal(6, 4, seed=seed + 2)
    projected = flow.project(contexts)
    assert projected.shape == (6, 4, 16)
    expected = torch.stack([reference_log_prob(flow, contexts[i], y[i]) for i in range(6)])
    for log_prob in (
        flow(contexts).log_prob(y),
        flow.distribution(projected).log_prob(y),
        flow.log_prob(projected, y),
    ):
        torch.testing.assert_close(log_prob, expected, rtol=0, atol=1e-10)
    assert expected.std() > 0.1


def test_rows_of_the_projection_serve_any_pairing(seed: int) -> None:
    flow = rough_flow(4, CONTEXT, seed)
    contexts, y = normal(3, CONTEXT, seed=seed + 1), normal(4, 4, seed=seed + 2)
    i, j = torch.tensor([0, 0, 2, 1, 2]), torch.tensor([3, 1, 0, 0, 2])
    rows = flow.log_prob(flow.project(contexts)[i], y[j])
    grid = flow.log_prob(flow.project(contexts), y[:, None].expand(4, 3, 4))  # (4, 3)
    torch.testing.assert_close(rows, grid[j, i])


def test_gradient_reaches_every_weight(seed: int) -> None:
    flow = rough_flow(4, CONTEXT, seed)
    flow(normal(50, CONTEXT, seed=seed)).log_prob(normal(50, 4, seed=seed + 1)).sum().backward()
    for name, p in flow.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name


# ---------------------------------------------------------------- density and draws


def test_hand_made_gaussian_is_exact(seed: int) -> None:
    mean, sd = [1.0, -0.5, 2.0, 0.2], [0.2, 0.5, 1.5, 0.05]
    flow = gaussian_flow(mean, sd, CONTEXT)
    projected = flow.project(normal(2, CONTEXT, seed=seed))
    y = torch.tensor(mean) + torch.tensor(sd) * normal(100, 2, 4, seed=seed)
    expected = stats.norm(mean, sd).logpdf(y.numpy()).sum(-1)
    np.testing.assert_allclose(flow.log_prob(projected, y).detach(), expected, atol=1e-10)
    with torch.no_grad():
        draws = flow.draw(projected, 5000, torch.Generator().manual_seed(seed))
    for s in range(2):
        for i in range(4):
            p = stats.kstest(draws[:, s, i].numpy(), stats.norm(mean[i], sd[i]).cdf).pvalue
            assert p > 1e-6


def grid_density(
    flow: ConditionalFlow, context: Tensor, half: float, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cell centres (n,) and density (n, n) of a 2-D flow on a square grid."""
    step = 2 * half / n
    axis = -half + step * (torch.arange(n, dtype=torch.float64) + 0.5)
    y = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1)
    with torch.no_grad():
        log_prob = flow(context[None]).log_prob(y.view(-1, 1, 2)).view(n, n)
    return axis.numpy(), log_prob.exp().numpy()


def grid_share(
    flow: ConditionalFlow, context: Tensor, half: float, seed: int
) -> tuple[np.ndarray, float]:
    """Draws of a 2-D flow that fall on the grid's square, and their share of 20,000 draws."""
    with torch.no_grad():
        draws = flow.draw(flow.project(context[None]), 20_000, torch.Generator().manual_seed(seed))
    inside = draws[(draws.abs() < half).all(-1)]
    return inside.numpy(), len(inside) / len(draws)


@pytest.mark.parametrize("case", range(3))
def test_two_dimensional_flow_integrates_to_one(case: int, seed: int) -> None:
    flow = rough_flow(2, CONTEXT, seed + case)
    context = normal(CONTEXT, seed=seed + case)
    axis, density = grid_density(flow, context, 8.0, 400)
    area = (axis[1] - axis[0]) ** 2
    outside = 1 - grid_share(flow, context, 8.0, seed)[1]
    assert outside < 0.02
    assert density.sum() * area + outside == pytest.approx(1.0, abs=5e-3)


def test_integral_needs_the_log_determinant() -> None:
    """The control of the test above: a flow of known scale integrates to that scale without it."""
    flow, context = gaussian_flow([0.0, -0.4], [1.0, 0.7], CONTEXT), torch.zeros(CONTEXT).double()
    axis, density = grid_density(flow, context, 8.0, 200)
    area = (axis[1] - axis[0]) ** 2
    assert density.sum() * area == pytest.approx(1.0, abs=1e-6)
    y = torch.as_tensor(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)).view(-1, 1, 2)
    with torch.no_grad():
        z = flow(context[None]).transform(y)
    bare = torch.exp(-0.5 * (z**2).sum(-1)).sum().item() / (2 * math.pi) * area
    assert bare == pytest.approx(0.7, abs=1e-6)


def test_draws_follow_the_density(seed: int) -> None:
    """Moments and cell counts of draws against the density summed on a grid."""
    flow, context = rough_flow(2, CONTEXT, seed), normal(CONTEXT, seed=seed + 1)
    axis, density = grid_density(flow, context, 8.0, 480)
    probability = density / density.sum()
    draws, share = grid_share(flow, context, 8.0, seed)
    n = len(draws)
    assert share > 0.98

    first, second = np.meshgrid(axis, axis, indexing="ij")
    for power in ((1, 0), (0, 1), (1, 1), (2, 0), (0, 2)):
        expected = (probability * first ** power[0] * second ** power[1]).sum()
        assert_mean(draws[:, 0] ** power[0] * draws[:, 1] ** power[1], expected)

    edges = np.linspace(-8, 8, 41)  # 12 fine cells per coarse one and side
    counts = np.histogram2d(draws[:, 0], draws[:, 1], bins=(edges, edges))[0]
    cells = probability.reshape(40, 12, 40, 12).sum(axis=(1, 3))
    large = cells * n > 10
    assert large.sum() > 20
    chi2 = ((counts - n * cells)[large] ** 2 / (n * cells * (1 - cells))[large]).sum()
    assert_within(chi2, large.sum(), math.sqrt(2 * large.sum()), sigmas=6)


def test_draws_are_seeded(seed: int) -> None:
    flow = rough_flow(4, CONTEXT, seed)
    projected = flow.project(normal(3, CONTEXT, seed=seed))

    def draw(s: int) -> Tensor:
        return flow.draw(projected, 7, torch.Generator().manual_seed(s))

    assert draw(1).shape == (7, 3, 4)
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_float32_stays_float32_and_close(seed: int) -> None:
    flow = rough_flow(4, CONTEXT, seed)
    contexts, y = normal(6, CONTEXT, seed=seed + 1), normal(6, 4, seed=seed + 2)
    exact = flow(contexts).log_prob(y)
    single = flow.float()(contexts.float()).log_prob(y.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kinds", [("spline", "affine"), ("marginal",)])
def test_draws_leave_nothing_in_memory(kinds: tuple[str, ...], seed: int) -> None:
    """All tensors of a draw go when it ends, without Python's collector; an inverse of torch's is the control."""
    config = replace(FLOW, kinds=kinds)
    flow = ConditionalFlow(4, 8, config).eval()
    generator = torch.Generator().manual_seed(seed)
    gc.collect()
    gc.disable()
    try:
        with torch.inference_mode():
            projected = flow.project(torch.randn(5, 8, generator=generator))
            draws = flow.draw(projected, 3, generator)
            assert gc.collect() == 0
            density = flow.distribution(projected)
            torch.testing.assert_close(
                density.transform(draws),
                density.transform(density.transform.inv(density.transform(draws))),
            )
            del density
            assert gc.collect() > 0
    finally:
        gc.enable()
