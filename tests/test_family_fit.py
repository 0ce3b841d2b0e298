"""The family's functions of time, joint fits and class hypotheses against written-out sums and known truth."""

from __future__ import annotations

import math

import pytest
import torch
from family_helpers import mixtures, small_model

from slotflow.network.family.closer import closer_places
from slotflow.network.family.coordinates import from_coordinates, to_coordinates
from slotflow.network.family.hypotheses import hypotheses
from slotflow.network.family.joint import Fit, Slots, amplitudes, joint_fit, residual
from slotflow.network.family.loss import overlap
from slotflow.network.family.mixtures import FamilyBatch
from slotflow.network.family.rounds import zoomed
from slotflow.network.family.slots import Finished, _factor
from slotflow.network.family.units import Units

UNITS = small_model().parts.units


def at_truth(batch: FamilyBatch) -> Slots:
    return Slots(batch.raw, batch.kind, batch.c, batch.mask)


def finished(units: Units, fit: Fit) -> Finished:
    used = units.used(fit.slots.kind) & fit.slots.mask[..., None]
    empty = torch.zeros(0)
    return Finished(fit, _factor(fit, used), empty, empty, empty)


def test_functions_of_time_are_those_of_the_waveforms() -> None:
    raw = torch.tensor([[3.2, -20.0, math.log(5.0)]]).expand(3, -1)
    kind = torch.arange(3)
    got = UNITS.fine.basis(UNITS.xi(raw, kind), kind)
    n = UNITS.fine.n
    u = (torch.arange(n).double() - (n - 1) / 2) / n
    since = u - u[0]
    tone = torch.exp(2j * math.pi * 3.2 * u)
    chirp = torch.exp(2j * math.pi * (3.2 * u - 10.0 * u**2))
    damped = torch.exp((2j * math.pi * 3.2 - 5.0) * since)
    for ours, true in zip(got, (tone, chirp, damped), strict=True):
        assert (ours - true).abs().max() < 1e-4


def test_gains_are_what_the_bounds_say() -> None:
    batch = mixtures(200, 3, varied=True)
    b = UNITS.fine.basis(UNITS.xi(batch.raw, batch.kind), batch.kind)
    energy = (batch.c.abs() ** 2 * b.abs().square().sum(-1)).sqrt()
    scale = torch.where(batch.gain > 0, energy / batch.gain, 1.0)
    assert (scale - 1).abs().max() < 0.15  # the level's error, which a signal's components share
    low, high = batch.bounds.low[:, None], batch.bounds.high[:, None]
    assert ((batch.raw >= low - 1e-4) & (batch.raw <= high + 1e-4)).all()
    assert batch.bounds.allowed.gather(1, batch.kind)[batch.mask].all()
    assert (batch.gain[batch.mask] >= 5 - 1e-4).all()
    again = mixtures(200, 3, varied=True)
    assert torch.equal(again.long, batch.long)


def test_a_perfect_slot_sees_one_everywhere() -> None:
    batch = mixtures(20, 1)
    clean = batch.long - residual(batch.long, UNITS.fine, UNITS, at_truth(batch))
    seen, rest = zoomed(clean, UNITS, at_truth(batch), 32)
    loud = batch.mask[..., None] & (rest.real * 0 + 1 > 0)
    b = UNITS.fine.basis(UNITS.xi(batch.raw, batch.kind), batch.kind)
    energy = b.abs().square().view(*batch.mask.shape, 32, -1).sum(-1)
    there = loud & (energy > 0.05)
    assert (seen[there] - 1).abs().max() < 1e-3
    assert rest[there].abs().max() < 1e-2
    wrong = at_truth(batch)._replace(raw=batch.raw + torch.tensor([0.5, 0.0, 0.0]))
    assert (zoomed(clean, UNITS, wrong, 32)[0][there] - 1).abs().mean() > 0.1


def test_the_bound_is_the_inverse_of_a_dense_hessian() -> None:
    batch = mixtures(12, 2)
    row = int((batch.k == 2).nonzero()[0])
    one = Slots(*(part[row : row + 1, :2] for part in at_truth(batch)))
    x = batch.long[row : row + 1]
    bounds = type(batch.bounds)(*(part[row : row + 1] for part in batch.bounds))
    fit = joint_fit(x, UNITS.fine, UNITS, one, bounds, 8)
    done = finished(UNITS, fit)
    used = UNITS.used(fit.slots.kind)[0].flatten()

    def model(delta: torch.Tensor) -> torch.Tensor:
        plain = done._replace(factor=torch.eye(4).double().expand(1, 2, 4, 4))
        raw, c = from_coordinates(UNITS, plain, delta.view(1, 2, 4))
        xi = UNITS.xi(raw.float(), fit.slots.kind)
        b = UNITS.fine.basis(xi, fit.slots.kind)
        return torch.view_as_real(torch.einsum("bk,bkn->bn", c.to(b.dtype), b)).flatten()

    step = 1e-2
    columns = []
    for i in range(8):
        delta = torch.zeros(8, dtype=torch.float64)
        delta[i] = step
        columns.append((model(delta) - model(-delta)) / (2 * step))
    jacobian = torch.stack(columns)[used].double()
    bound = torch.linalg.inv(2 * jacobian @ jacobian.T)
    want = torch.zeros(8, 8, dtype=torch.float64)
    want[used[:, None] & used] = bound.flatten()
    for k in range(2):
        own = used.view(2, 4)[k]
        block = want.view(2, 4, 2, 4)[k, :, k][own][:, own]
        got = fit.covariance[0, k][own][:, own]
        assert got.diagonal() == pytest.approx(block.diagonal(), rel=0.02)


def test_errors_are_standard_normal_in_units_of_the_bound() -> None:
    batch = mixtures(300, 4)
    jitter = torch.randn(batch.raw.shape, generator=torch.Generator().manual_seed(0))
    start = batch.raw + jitter * torch.tensor([0.1, 1.0, 0.1])
    start = start.maximum(batch.bounds.low[:, None]).minimum(batch.bounds.high[:, None])
    slots = amplitudes(batch.long, UNITS.fine, UNITS, at_truth(batch)._replace(raw=start))
    fit = joint_fit(batch.long, UNITS.fine, UNITS, slots, batch.bounds, 5)
    z = to_coordinates(UNITS, finished(UNITS, fit), batch.raw, batch.c)
    for kind, size in enumerate(UNITS.sizes):
        own = z[batch.mask & (batch.kind == kind)][:, :size]
        robust = own.abs().median(0).values / 0.6745
        error = 1.17 / math.sqrt(len(own))  # of a robust scale
        assert (robust - 1).abs().max() < 4.5 * error
        assert (2 * robust - 1).abs().min() > 4.5 * error  # negative control: a bound half as wide
    raw, c = from_coordinates(UNITS, finished(UNITS, fit), z)
    used = UNITS.present[batch.kind] & batch.mask[..., None]
    assert (raw - batch.raw)[used].abs().max() < 1e-6
    assert (c - batch.c)[batch.mask].abs().max() < 1e-6


def test_laplace_evidences_tell_the_classes() -> None:
    batch = mixtures(150, 5)
    start = at_truth(batch)
    fit = joint_fit(batch.long, UNITS.fine, UNITS, start, batch.bounds, 3)
    tried = hypotheses(batch.long, UNITS, fit.slots, batch.bounds)
    clear = batch.mask & (batch.gain > 10)
    right = (tried.log_odds.argmax(-1) == batch.kind)[clear].float()
    assert right.mean() > 0.97
    gain = tried.gain.gather(-1, batch.kind[..., None])[..., 0][clear] / batch.gain[clear] ** 2
    assert gain.median() == pytest.approx(1.0, abs=0.05)
    excluded = batch.bounds._replace(allowed=torch.tensor([True, False, True]).expand(150, -1))
    tried = hypotheses(batch.long, UNITS, fit.slots, excluded)
    assert (tried.log_odds.argmax(-1) != 1)[batch.mask].all()


def test_a_slot_beside_its_component_begins_again_on_one() -> None:
    model = small_model()
    batch = mixtures(120, 6)
    chosen = batch.mask & (batch.kind == 1) & (batch.gain > 10)
    wrong = batch.raw + 25.0 * (torch.arange(UNITS.shapes) == UNITS.names.index("drift"))
    wrong = wrong.minimum(batch.bounds.high[:, None])
    raw = torch.where(chosen[..., None], wrong, batch.raw)
    slots = amplitudes(batch.long, UNITS.fine, UNITS, at_truth(batch)._replace(raw=raw))
    again = closer_places(batch.long, UNITS, model.parts.filters, slots, batch.bounds)
    drift = UNITS.names.index("drift")
    moved = chosen & ((raw - batch.raw)[..., drift].abs() > 10)
    after = slots._replace(raw=again.raw, kind=again.kind)
    found = [(overlap(model, one, batch).amax(1) > 0.4)[moved] for one in (slots, after)]
    assert found[0].float().mean() < 0.2 and found[1].float().mean() > 0.8
    kept = batch.mask & ~chosen & (batch.gain > 10)
    same = (again.raw == raw).all(-1)[kept].float()
    assert same.mean() > 0.8  # negative control: slots on their components stay
