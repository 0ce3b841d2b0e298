"""The flow's density as one straight function: the flow's own numbers and gradients, at knots and outside too."""

from __future__ import annotations

import pytest
import torch
from flow_helpers import rough_flow
from torch import Tensor

from slotflow.network.config import FlowConfig
from slotflow.network.flow import ConditionalFlow, Spline
from slotflow.network.replayed import ReplayedDensity, fill_up
from slotflow.network.straight import StraightDensity, rational_quadratic

CONTEXT, ROWS, BINS, BOUND = 5, 300, 7, 1.5


def case(dim: int, seed: int, kinds: tuple[str, ...]) -> tuple[ConditionalFlow, Tensor, Tensor]:
    """A rough flow, its context terms (ROWS, L, H), and coordinates on both sides of the bound, (ROWS, dim)."""
    config = FlowConfig(layers=4, hidden=16, bins=BINS, bound=BOUND, kinds=kinds)
    flow = rough_flow(dim, CONTEXT, seed, config)
    generator = torch.Generator().manual_seed(seed)
    contexts = torch.randn(ROWS, CONTEXT, generator=generator, dtype=torch.float64)
    y = 1.5 * torch.randn(ROWS, dim, generator=generator, dtype=torch.float64)
    return flow, flow.project(contexts), y


@pytest.mark.parametrize("dim", [2, 3, 4])
@pytest.mark.parametrize("kinds", [("spline", "affine"), ("marginal",)])
def test_densities_and_gradients_are_those_of_the_flow(
    dim: int, kinds: tuple[str, ...], seed: int
) -> None:
    flow, projected, y = case(dim, seed, kinds)
    inputs = [projected.detach().requires_grad_(), y.requires_grad_()]
    inputs += [p for name, p in flow.named_parameters() if "from_context" not in name]
    own, straight = flow.log_prob(*inputs[:2]), StraightDensity(flow)(*inputs[:2])
    torch.testing.assert_close(straight, own, rtol=0, atol=1e-10)
    for one, other in zip(
        torch.autograd.grad(straight.sum(), inputs),
        torch.autograd.grad(own.sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_the_comparison_can_fail(seed: int) -> None:
    """The negative control: with two slots exchanged the densities are others."""
    flow, projected, y = case(4, seed, ("spline", "affine"))
    difference = StraightDensity(flow)(projected.flip(0), y) - flow.log_prob(projected, y)
    assert difference.abs().max() > 0.1


def test_every_number_lies_in_one_bin(seed: int) -> None:
    """In float32, at the knots and next to them, where rounding shows that separates the ends of two bins."""
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(20_000, 3 * BINS - 1, generator=generator)
    widths, heights, slopes = torch.tensor_split(h, (BINS, 2 * BINS), dim=-1)
    own = Spline(widths, heights, slopes, BOUND)
    knots = own.horizontal[:, 1:-1]
    for there in (knots, torch.nextafter(knots, knots + 1), torch.nextafter(knots, knots - 1)):
        for x in there.unbind(-1):
            y, log_slope = rational_quadratic(x, h, BINS, BOUND)
            expected, slope = own.call_and_ladj(x)
            torch.testing.assert_close(y, expected, rtol=0, atol=2e-5)
            torch.testing.assert_close(log_slope, slope, rtol=0, atol=2e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("rows", [ROWS, 2 * ROWS])  # the second do not fit into what was recorded
def test_replayed_on_a_gpu(rows: int, seed: int) -> None:
    """Values and gradients of the straight function, also after the weights have changed."""
    flow, projected, y = (part.cuda() for part in case(4, seed, ("spline", "affine")))
    projected, density = projected.detach(), ReplayedDensity(flow)
    with torch.no_grad():
        density(projected[:ROWS], y[:ROWS])
    density(projected[:ROWS].requires_grad_(), y[:ROWS]).sum().backward()
    with torch.no_grad():
        for p in flow.parameters():
            p.mul_(1.1)
    copies = -(-rows // ROWS)
    terms, points = projected.repeat(copies, 1, 1), y.repeat(copies, 1)
    weight = flow.layers[0].hidden[1].weight  # type: ignore[index,union-attr]
    found = []
    for one in (density, flow.log_prob):
        leaf = terms.detach().requires_grad_()
        values = one(leaf, points)
        found.append([values, *torch.autograd.grad(values.sum(), [leaf, weight])])
        with torch.no_grad():
            found[-1].append(one(leaf.detach(), points).clone())
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-9)


def test_rows_are_filled_up() -> None:
    assert fill_up(torch.ones(2, 3), 4).tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2
