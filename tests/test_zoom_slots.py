"""Slots of the default network: where they start, and the density in units of the bound."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from flow_helpers import perturb
from statistics_helpers import assert_mean, assert_within
from torch import Tensor
from zuko.transforms import MonotonicRQSTransform

from slotflow import Prior, SlotFlow, simulate
from slotflow.network.config import FlowConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.zoom.batch import MASS_DRAWS, SlotBatch
from slotflow.network.zoom.bound import BoundFlow, from_coordinates, log_volume, to_coordinates
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.network.zoom.proposals import heat_targets, propose, starts
from slotflow.network.zoom.slots import SlotEstimates
from slotflow.signal.simulation import Simulation, tones

BINS = 190
BAND = torch.tensor([[20.0, 170.0]], dtype=torch.float64)
CERTAIN = 12.0
"""A logit: p = 1 − 6e-6."""


def heat_map(present: Tensor, offset: Tensor, logit: float = CERTAIN) -> Tensor:
    """A heat map that is certain of its targets, (B, bins, 2, 2)."""
    return torch.stack([(2 * present - 1) * logit, offset], -1)


def one_heat(*tones: tuple[float, float]) -> Tensor:
    """A heat map, (1, bins, 2, 2), from (place, p) of first tones; everything else at p = 1e-5."""
    heat = torch.full((1, BINS, 2, 2), 0.0)
    heat[..., 0] = math.log(1e-5)
    for place, p in tones:
        at = round(place)
        heat[0, at, 0] = torch.tensor([math.log(p / (1 - p)), place - at])
    return heat


# ---------------------------------------------------------------- proposals


def tones_in_bins(n: int, k: int, seed: int) -> Tensor:
    """Sorted frequencies in the band, at most two in a bin, (n, k), float64."""
    rng = np.random.default_rng(seed)
    rows = []
    while len(rows) < n:
        f = np.sort(rng.uniform(21, 169, k))
        if k > 1 and rng.random() < 0.7:  # a pair in one bin
            f[1] = np.rint(f[0]) + rng.uniform(-0.5, 0.5)
            f = np.sort(f)
        if np.unique(np.rint(f), return_counts=True)[1].max() <= 2:
            rows.append(f)
    return torch.from_numpy(np.stack(rows))


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_targets_and_proposals_are_inverse(k: int, seed: int) -> None:
    """What a perfect heat map shows is found again, pairs in one bin included."""
    f = tones_in_bins(50, k, seed)
    mask = torch.ones_like(f, dtype=torch.bool)
    present, offset = heat_targets(f, mask, BINS)
    assert (present.sum((1, 2)) == k).all() and (offset.abs() <= 0.5).all()
    places = propose(heat_map(present, offset), BAND.expand(50, 2), k)
    assert places.dtype == torch.float64
    assert torch.allclose(places.sort(1).values, f, atol=1e-5)  # offsets are float32
    if k > 1:
        shared = f.round()
        assert (shared[:, 1:] == shared[:, :-1]).any()


def test_two_tones_in_one_bin() -> None:
    heat = torch.full((1, BINS, 2, 2), -CERTAIN)
    heat[0, 60] = torch.tensor([[3.0, -0.3], [2.0, 0.4]])
    heat[0, 90, 0] = torch.tensor([1.0, 0.0])
    places = propose(heat, BAND, 3)[0].tolist()
    assert places == pytest.approx([59.7, 60.4, 90.0])
    heat[0, 60, 0, 0] = -5.0  # a second tone needs a first
    assert propose(heat, BAND, 1)[0].tolist() == pytest.approx([90.0])


def test_a_tone_on_the_border_counts_once() -> None:
    """Half of it in each bin: one place. As far apart as two tones may be, both halves would be taken first."""
    border = one_heat((50.499, 0.55), (50.501, 0.5), (80.0, 0.45))
    places = propose(border, BAND, 2)[0].tolist()
    assert places == pytest.approx([50.499, 80.0], abs=1e-4)
    apart = one_heat((50.0, 0.55), (51.0, 0.5), (80.0, 0.45))
    assert propose(apart, BAND, 2)[0].tolist() == pytest.approx([50.0, 51.0], abs=1e-4)


def test_true_neighbours_keep_their_claim() -> None:
    near = one_heat((50.3, 0.9999), (50.7, 0.9998), (80.0, 0.9))
    assert propose(near, BAND, 2)[0].tolist() == pytest.approx([50.3, 50.7], abs=1e-4)


def test_nested_in_k(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    heat = torch.stack(
        [3 * torch.randn(20, BINS, 2, generator=g), torch.rand(20, BINS, 2, generator=g) - 0.5], -1
    )
    band = BAND.expand(20, 2)
    ten = propose(heat, band, 10)
    for k in range(1, 10):
        assert torch.equal(propose(heat, band, k), ten[:, :k])
    for row in range(20):  # one by one as together
        assert torch.equal(propose(heat[row : row + 1], BAND, 10)[0], ten[row])


def test_never_outside_the_band(seed: int) -> None:
    """A hot spot outside is not looked at; at most half a bin outside is moved to the edge."""
    g = torch.Generator().manual_seed(seed)
    heat = torch.stack(
        [3 * torch.randn(30, BINS, 2, generator=g), torch.rand(30, BINS, 2, generator=g) - 0.5], -1
    )
    low = 20 + 100 * torch.rand(30, generator=g, dtype=torch.float64)
    band = torch.stack([low, low + 12.5], -1)
    places = propose(heat, band, 10)
    assert (places >= band[:, :1]).all() and (places <= band[:, 1:]).all()
    edges = one_heat((19.0, 0.99), (19.7, 0.9), (171.0, 0.99), (60.0, 0.5))
    assert propose(edges, BAND, 2)[0].tolist() == pytest.approx([20.0, 60.0])


def test_starts() -> None:
    places = torch.tensor([[70.0, 30.0, 50.0, 40.0], [60.0, 90.0, 20.0, 25.0]]).double()
    mask = torch.tensor([[True, True, True, False], [False] * 4])
    assert starts(places, mask).tolist() == [[30.0, 50.0, 70.0, 0.0], [0.0] * 4]


def test_heat_targets_of_crowds_and_absences() -> None:
    """A third tone of a bin has no place; tones outside the mask have none either."""
    f = torch.tensor([[40.1, 40.2, 40.3, 77.0], [40.1, 40.2, 99.0, 0.0]]).double()
    mask = torch.tensor([[True, True, True, True], [True, False, True, False]])
    present, offset = heat_targets(f, mask, BINS)
    assert torch.nonzero(present[0]).tolist() == [[40, 0], [40, 1], [77, 0]]
    assert torch.nonzero(present[1]).tolist() == [[40, 0], [99, 0]]
    assert offset[0, 40].tolist() == pytest.approx([0.1, 0.2], abs=1e-5)
    empty = heat_targets(torch.zeros(2, 3).double(), torch.zeros(2, 3, dtype=torch.bool), BINS)
    assert all((part == 0).all() for part in empty)


# ---------------------------------------------------------------- coordinates in units of the bound


def random_slots(b: int, k: int, seed: int, width: int = 8) -> SlotEstimates:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    factor = (0.3 * normal(b, k, 3, 3)).tril(-1) + torch.diag_embed(
        torch.tensor([0.02, 0.1, 0.1]) * (0.5 + torch.rand(b, k, 3, generator=g).double())
    )
    return SlotEstimates(
        mask=torch.ones(b, k, dtype=torch.bool),
        frequency=60 + 10 * normal(b, k),
        c=torch.complex(normal(b, k), normal(b, k)),
        factor=factor,
        y=normal(b, k, width),
        misfit=torch.zeros(b, dtype=torch.float64),
        sigma=torch.ones(b, dtype=torch.float64),
        moves=[],
    )


def test_coordinates_are_inverse(seed: int) -> None:
    slots = random_slots(4, 3, seed)
    z = torch.randn(7, 4, 3, 3, generator=torch.Generator().manual_seed(seed)).double()
    frequency, c = from_coordinates(slots, z)
    assert torch.allclose(to_coordinates(slots, frequency, c), z, atol=1e-9)
    again = from_coordinates(slots, to_coordinates(slots, frequency, c))
    assert torch.allclose(again[0], frequency, atol=1e-12)
    assert torch.allclose(again[1], c, atol=1e-12)
    centre = from_coordinates(slots, torch.zeros(4, 3, 3))
    assert torch.allclose(centre[0], slots.frequency) and torch.allclose(centre[1], slots.c)


def test_coordinates_are_the_formula(seed: int) -> None:
    """z = L⁻¹ (f − f̂, Re c e^{−i arg ĉ} − |ĉ|, Im c e^{−i arg ĉ}), written out for one tone."""
    slots = random_slots(1, 1, seed)
    f, c = slots.frequency + 0.01, slots.c * 1.1 + 0.05j
    turned = c * (slots.c.conj() / slots.c.abs())
    d = torch.stack([f - slots.frequency, turned.real - slots.c.abs(), turned.imag], -1)[0, 0]
    expected = torch.linalg.solve(slots.factor[0, 0], d)
    assert torch.allclose(to_coordinates(slots, f, c)[0, 0], expected, atol=1e-9)
    assert log_volume(slots)[0, 0] == pytest.approx(
        math.log(abs(float(torch.linalg.det(slots.factor[0, 0]))))
    )


# ---------------------------------------------------------------- the flow

FLOW = FlowConfig(
    layers=4,
    kinds=("marginal", "affine", "spline", "affine"),
    hidden=16,
    hidden_layers=1,
    bins=6,
    bound=5.0,
)


def rough_bound_flow(seed: int) -> BoundFlow:
    """A float64 flow whose affine layer and couplings are far from the identity."""
    flow = BoundFlow(8, FLOW).double()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        flow.affine.weight.copy_(0.15 * torch.randn(9, 8, generator=g))
    perturb(flow.couplings, seed, 0.06)
    return flow


def test_starts_near_the_standard_normal(seed: int) -> None:
    """An untrained flow is N(0, 1) in z, the bound itself, to a few tenths of a nat; without couplings exactly."""
    torch.manual_seed(seed)
    flow = BoundFlow(8, FLOW).double()
    y, z = torch.randn(5, 8).double(), torch.randn(200, 5, 3).double()
    normal = -0.5 * z.square().sum(-1) - 1.5 * math.log(2 * math.pi)
    with torch.no_grad():
        context = flow.project(y)
        assert (context.shift == 0).all() and (context.log_scale == 0).all()
        assert (flow.log_prob(context, z) - normal).abs().mean() < 0.3
        for layer in flow.couplings.layers:
            layer.out.weight.zero_()
        assert torch.allclose(flow.log_prob(context, z), normal, atol=1e-9)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_affine_layer_of_any_size(size: int, seed: int) -> None:
    """Without couplings, u = M (z − m) for a lower triangle M written out, and draws invert it."""
    torch.manual_seed(seed)
    flow = BoundFlow(8, FLOW, size).double()
    torch.nn.init.normal_(flow.affine.weight, std=0.3)
    for layer in flow.couplings.layers:
        torch.nn.init.zeros_(layer.out.weight)
    y, z = torch.randn(1, 8).double(), torch.randn(50, 1, size).double()
    with torch.no_grad():
        context = flow.project(y)
        inverse = torch.eye(size).double()  # M⁻¹ times the scales: the draws' own triangle
        inverse[*torch.tril_indices(size, size, -1)] = context.lower[0]
        scaled = (z[:, 0] - context.shift) * torch.exp(-context.log_scale)
        u = torch.linalg.solve_triangular(inverse, scaled.T, upper=False).T
        normal = -0.5 * u.square().sum(-1) - 0.5 * size * math.log(2 * math.pi)
        expected = normal - context.log_scale.sum(-1)
        assert torch.allclose(flow.log_prob(context, z)[:, 0], expected, atol=1e-9)
        draws = flow.draw(context, 40, torch.Generator().manual_seed(seed))[:, 0]
    generator = torch.Generator().manual_seed(seed)
    white = torch.randn(40, 1, size, generator=generator, dtype=torch.float64)[:, 0]
    scaled = (draws - context.shift) * torch.exp(-context.log_scale)
    again = torch.linalg.solve_triangular(inverse, scaled.T, upper=False).T
    # The couplings, switched off, leave their permutations behind.
    assert torch.allclose(again.sort(-1).values, white.sort(-1).values, atol=1e-9)


def test_bound_flow_integrates_to_one(seed: int) -> None:
    """By importance sampling from a wide Gaussian; without the scale's Jacobian it does not."""
    flow = rough_bound_flow(seed)
    n, wide = 40_000, 2.5
    with torch.no_grad():
        context = flow.project(
            torch.randn(3, 8, generator=torch.Generator().manual_seed(seed)).double()
        )
        assert context.log_scale.abs().min() > 0 and context.lower.abs().max() > 0.05
        g = torch.Generator().manual_seed(seed + 1)
        u = wide * torch.randn(n, 3, 3, generator=g, dtype=torch.float64)
        centre = flow.draw(context, 4000, g).mean(0)
        log_p = -0.5 * (u / wide).square().sum(-1) - 1.5 * math.log(2 * math.pi * wide**2)
        weight = (flow.log_prob(context, u + centre) - log_p).exp()
        assert_mean(weight, 1.0)
        off = context.log_scale.sum(-1).exp()
        assert ((off - 1).abs() > 0.1).any()
        with pytest.raises(AssertionError):
            assert_mean(weight * off, 1.0)


def test_bound_flow_draws_follow_its_density(seed: int) -> None:
    """E_q[p(z)/q(z)] = 1 for a narrow Gaussian p at the draws' centre; without the scale's Jacobian it is not."""
    flow = rough_bound_flow(seed)
    with torch.no_grad():
        context = flow.project(
            torch.randn(3, 8, generator=torch.Generator().manual_seed(seed)).double()
        )
        z = flow.draw(context, 20_000, torch.Generator().manual_seed(seed))
        assert z.shape == (20_000, 3, 3)
        centre = z.median(0).values
        factor = 0.5 * torch.linalg.cholesky(torch.stack([z[:, i].T.cov() for i in range(3)]))
        u = torch.linalg.solve(factor, (z - centre)[..., None]).squeeze(-1)
        log_p = -0.5 * u.square().sum(-1) - 1.5 * math.log(2 * math.pi)
        log_p = log_p - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        weight = (log_p - flow.log_prob(context, z)).exp()
        assert_mean(weight, 1.0)
        off = context.log_scale.sum(-1).exp()
        assert ((off - 1).abs() > 0.1).any()
        with pytest.raises(AssertionError):
            assert_mean(weight / off, 1.0)


def test_flow_takes_rows_of_contexts(seed: int) -> None:
    flow = rough_bound_flow(seed)
    with torch.no_grad():
        context = flow.project(torch.randn(4, 8).double())
        z = torch.randn(5, 4, 3).double()
        rows = torch.tensor([2, 0])
        part = flow.log_prob(context.take(rows), z[:, rows])
        assert torch.allclose(part, flow.log_prob(context, z)[:, rows], atol=1e-12)


# ---------------------------------------------------------------- marginal layers


def test_marginal_layer_is_a_spline_of_each_coordinate(seed: int) -> None:
    """One coordinate at a time, with knots from the context alone, equals the layer; nothing mixes."""
    config = FlowConfig(
        layers=1, kinds=("marginal",), hidden=16, hidden_layers=1, bins=6, bound=5.0
    )
    flow = perturb(ConditionalFlow(3, 8, config).double(), seed, 0.5)
    context = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)).double()
    y = 3 * torch.randn(50, 4, 3, generator=torch.Generator().manual_seed(seed)).double()
    (layer,) = flow.layers
    transform = flow(context).transform
    moved, log_det = transform.call_and_ladj(y)
    knots = layer.out(layer.hidden(layer.from_context(context))).reshape(4, 3, 17)
    expected, total = torch.zeros_like(y), torch.zeros(50, 4).double()
    for i in range(3):
        spline = MonotonicRQSTransform(*torch.tensor_split(knots[:, i], (6, 12), dim=-1), bound=5.0)
        value, slope = spline.call_and_ladj(y[..., layer.order[i]])
        expected[..., i], total = value, total + slope
    assert torch.allclose(moved, expected, atol=1e-12)
    assert torch.allclose(log_det, total, atol=1e-12)
    assert (moved - y[..., layer.order]).abs().max() > 0.1  # it does something
    jacobian = torch.autograd.functional.jacobian(
        lambda v: transform(v)[0], y[:1]
    )  # (4, 3, 1, 4, 3)
    assert ((jacobian != 0).sum((-3, -2, -1)) == 1).all()
    assert torch.allclose(transform.inv(moved), y, atol=1e-9)
    assert not any("from_kept" in name for name, _ in flow.named_parameters())


def test_gains_scale_the_first_weights(seed: int) -> None:
    """The standard deviations of context and output weights are the gains asked for, to their sampling error."""
    config = FlowConfig(layers=2, kinds=("marginal", "spline"), hidden=64, hidden_layers=1, bins=8)
    torch.manual_seed(seed)
    flow = ConditionalFlow(3, 128, config, context_gain=2.0, output_gain=0.01)
    for layer in flow.layers:
        for weight, expected in (
            (layer.from_context.weight, 2.0 / math.sqrt(3 * 128)),
            (layer.out.weight, 0.01),
        ):
            assert_within(weight.std().item(), expected, expected / math.sqrt(2 * weight.numel()))
        assert (layer.out.bias == 0).all()


# ---------------------------------------------------------------- slots of signals

GRIDS = tuple(getattr(SlotFlow.from_preset("zoom").config, name) for name in ("long", "short"))
EDGE = Prior(k_max=2, amplitude=(0.5, 1.5), sigma=(0.99, 1.0))


@pytest.fixture(scope="module")
def model(zoom: ZoomSlotFlow) -> ZoomSlotFlow:
    """The default model, which all tests share."""
    return zoom


def at_the_edge(base_seed: int) -> Simulation:
    """One tone each: amid the prior's box, at its largest amplitude, at its smallest, and at the band's edge."""
    theta = torch.zeros(4, 2, 3, dtype=torch.float64)
    theta[:, 0] = torch.tensor(
        [[1.0, 1.0, 2.7], [1.5, 1.0, 2.7], [0.5, 3.0, 2.8], [1.0, 5.0, 2.500005]]
    )
    sim = simulate(EDGE, 4, *GRIDS, seed=base_seed + 5, k=1)
    noise = [x - tones(sim.theta, g) for x, g in zip((sim.long, sim.short), GRIDS, strict=True)]
    long, short = (tones(theta, g) + x for x, g in zip(noise, GRIDS, strict=True))
    return dataclasses.replace(sim, theta=theta, long=long, short=short)


@pytest.fixture(scope="module")
def batch(model: ZoomSlotFlow, base_seed: int) -> SlotBatch:
    """Slots of four signals of one tone, at least one of which has much of its density outside the prior."""
    return model.analyse(at_the_edge(base_seed), EDGE).slots(torch.ones(4, dtype=torch.int64))


def test_slots_are_normalized_within_the_prior(batch: SlotBatch, seed: int) -> None:
    """The density per (A, rad, Hz) integrates to one inside the box; without the box's share it does not."""
    n = 20_000
    draws = batch.draw(4000, seed)[:, :, 0]  # (n, 4, 3)
    centre = draws.median(0).values
    around = draws.clone()
    around[..., 1] = torch.remainder(draws[..., 1] - centre[:, 1] + math.pi, 2 * math.pi) - math.pi
    around[..., [0, 2]] -= centre[:, [0, 2]]
    covariance = torch.stack([torch.cov(around[:, b].T) for b in range(4)])
    factor = 1.6 * torch.linalg.cholesky(covariance)
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, 4, 3, generator=g, dtype=torch.float64)
    theta = centre + (factor @ noise[..., None]).squeeze(-1)
    log_p = -0.5 * noise.square().sum(-1) - 1.5 * math.log(2 * math.pi)
    log_p = log_p - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    log_q = batch.log_prob(theta[:, :, None])[..., 0, 0]
    weight = (log_q - log_p).exp().numpy()
    mass = batch.mass()[:, 0].numpy()
    # The share inside is itself an estimate from MASS_DRAWS draws.
    error = np.sqrt((1 - mass) / mass / MASS_DRAWS) + weight.std(0) / math.sqrt(n)
    assert_within(weight.mean(0), 1.0, error)
    assert mass[0] > 0.99 and mass.min() < 0.85  # at the edges much is cut off
    with pytest.raises(AssertionError):
        assert_within(weight.mean(0) * mass, 1.0, error)


def test_slot_draws_follow_their_density(batch: SlotBatch, seed: int) -> None:
    """E[1 / q] over the draws inside a small box is the box's volume."""
    n = 8000
    theta = batch.draw(n, seed)[:, :, 0]  # (n, 4, 3)
    log_q = batch.log_prob(theta[:, :, None])[..., 0, 0]
    low, high = torch.quantile(theta, torch.tensor([0.2, 0.8]).double(), dim=0)  # (4, 3) each
    assert ((high - low)[:, 1] < 1).all()  # no phase wraps around
    inside = ((theta > low) & (theta < high)).all(-1)
    volume = (high - low).log().sum(-1)
    ratio = torch.where(inside, (-log_q - volume).exp(), 0.0).numpy()
    mass = batch.mass()[:, 0].numpy()
    error = np.sqrt((1 - mass) / mass / MASS_DRAWS) + ratio.std(0) / math.sqrt(n)
    assert_within(ratio.mean(0), 1.0, error)
    with pytest.raises(AssertionError):  # a density of half the width
        assert_within(ratio.mean(0) / 2, 1.0, error)


def test_draws_lie_in_the_prior_and_densities_end_there(batch: SlotBatch, seed: int) -> None:
    theta = batch.sample(3000, seed)
    assert theta.shape == (4, 3000, 2, 3) and theta.dtype == torch.float64
    real = theta[:, :, 0]
    assert (real[..., 0] >= 0.5).all() and (real[..., 0] <= 1.5).all()
    assert (real[..., 1] >= 0).all() and (real[..., 1] < 2 * math.pi).all()
    assert (real[..., 2] >= 2.5).all() and (real[..., 2] <= 3.0).all()
    assert (theta[:, :, 1] == 0).all()
    assert batch.mask.tolist() == [[True, False]] * 4
    assert torch.isfinite(batch.log_prob(real.transpose(0, 1)[:, :, None])).all()
    for outside in ([0.49, 1.0, 2.7], [1.51, 1.0, 2.7], [1.0, 1.0, 2.49], [1.0, 1.0, 3.01]):
        point = torch.tensor(outside).double().expand(1, 4, 1, 3)
        assert (batch.log_prob(point) == -math.inf).all()


def test_seeds(batch: SlotBatch) -> None:
    assert torch.equal(batch.sample(50, seed=3), batch.sample(50, seed=3))
    first, other = batch.sample(50, seed=3), batch.sample(50, seed=4)
    assert not torch.equal(first, other)
    assert not torch.equal(batch.sample(50, seed=2**32 + 3), first)  # high bits count


def test_hopeless_bounds_are_kept(model: ZoomSlotFlow, base_seed: int) -> None:
    """A prior that the data contradict: draws end on its edge, nothing loops or escapes."""
    sim = at_the_edge(base_seed)
    prior = Prior(k_max=2, amplitude=(2.9, 3.0), sigma=(0.99, 1.0))
    slots = model.analyse(sim, prior).slots(torch.ones(4, dtype=torch.int64))
    theta = slots.sample(20)[:, :, 0]
    assert theta.isfinite().all()
    assert (theta[..., 0] >= 2.9).all() and (theta[..., 0] <= 3.0).all()


def test_log_prob_of_pairs(model: ZoomSlotFlow, base_seed: int, seed: int) -> None:
    """Index (draw, signal, slot i, component j): swapping components swaps columns."""
    prior = Prior(k_max=3, sigma=(0.5, 1.0))
    sim = simulate(prior, 2, *GRIDS, seed=base_seed + 6, k=2)
    slots = model.analyse(sim, prior).slots(sim.k)
    theta = slots.draw(5, seed)
    log_q = slots.log_prob(theta)
    assert log_q.shape == (5, 2, 2, 2)
    assert torch.allclose(slots.log_prob(theta.flip(2)), log_q.flip(3))
    diagonal = log_q.diagonal(dim1=-2, dim2=-1)
    assert diagonal.isfinite().all()
    assert (diagonal > log_q.flip(3).diagonal(dim1=-2, dim2=-1) + 10).all()  # far from each other
