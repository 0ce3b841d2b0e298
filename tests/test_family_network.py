"""The network of several classes: shapes, invariances, gradients, a falling loss, files."""

from __future__ import annotations

from pathlib import Path

import torch
from family_helpers import mixtures, small_config, small_model

from slotflow import SlotFlow
from slotflow.network.config import Config
from slotflow.network.family.bounds import Bounds
from slotflow.network.family.loss import FamilyLoss
from slotflow.network.family.model import FamilySlotFlow
from slotflow.network.family.places import Places
from slotflow.network.family.slots import Seen
from slotflow.train.batches import draw_batch
from slotflow.train.objectives import build_objective


def rows(bounds: Bounds, index: torch.Tensor) -> Bounds:
    return Bounds(*(part[index] for part in bounds))


@torch.no_grad()
def test_a_pass_has_the_shapes_that_it_says_and_any_order_of_signals() -> None:
    model, batch = small_model(), mixtures(6, 0)
    answer = model.parts.run(batch.long, batch.bounds)
    assert answer.logits.shape == (6, 7)
    assert answer.first.heat.shape == (6, 160, 3, 4)
    assert answer.begun.logits.shape == (6, 6, 3)
    assert answer.slots.factor.shape == (6, 6, 4, 4)
    assert answer.logits.isfinite().all() and answer.slots.y.isfinite().all()
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    again = model.parts.run(batch.long[order], rows(batch.bounds, order))
    assert torch.allclose(again.logits, answer.logits[order], atol=1e-4)
    alone = model.parts.run(batch.long[2:3], rows(batch.bounds, torch.tensor([2])))
    assert torch.allclose(alone.logits[0], answer.logits[2], atol=1e-4)


@torch.no_grad()
def test_slots_have_no_order() -> None:
    model, batch = small_model(), mixtures(8, 2)
    parts = model.parts
    features, told = parts.features(batch.long, batch.bounds)
    tokens = parts.encoder(features, told).tokens
    seen = Seen(batch.long, tokens, told, batch.bounds, parts.outer)
    order = torch.tensor([4, 2, 0, 1, 5, 3])
    found = []
    for way in (torch.arange(6), order):
        places = Places(batch.raw[:, way], batch.kind[:, way], torch.ones(8, 6))
        begun = parts.slots.begin(parts.units, seen, places, batch.mask[:, way])
        found.append(begun.logits)
    there = batch.mask[:, order]
    assert torch.allclose(found[0][:, order][there], found[1][there], atol=1e-2)


def test_gradients_reach_every_part() -> None:
    model = small_model().train()
    objective = FamilyLoss(model, small_config().loss)
    terms = objective(mixtures(24, 7, varied=True), 0.5)
    terms["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_a_few_steps_lower_the_loss() -> None:
    config = small_config()
    torch.manual_seed(1)
    model = SlotFlow(config.model)
    objective = build_objective(model, config.loss, low_precision=False)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    batch = draw_batch(config, 16, 0, torch.device("cpu"))
    losses = []
    for _ in range(7):
        loss = objective(batch, 0.0)["loss"]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_filters_outside_the_prior_show_nothing() -> None:
    parts, batch = small_model().parts, mixtures(4, 3)
    narrow = batch.bounds._replace(
        allowed=torch.tensor([True, True, False]).expand(4, -1),
        low=batch.bounds.low.clone().index_fill_(1, torch.tensor(1), -10.0),
        high=batch.bounds.high.clone().index_fill_(1, torch.tensor(1), 10.0),
    )
    allowed = parts.filters.allowed(parts.units, narrow)
    drifts = parts.filters.shape[parts.filters.row == 1]
    inside = drifts[:, parts.units.names.index("drift")].abs() <= 13.1
    assert torch.equal(allowed[0, parts.filters.row == 1], inside)
    assert not allowed[:, parts.filters.row == 2].any()
    assert allowed[:, parts.filters.row == 0].all()


def test_weights_come_back_from_a_file(tmp_path: Path) -> None:
    model, batch = small_model(), mixtures(3, 4)
    model.save(tmp_path / "family.safetensors")
    again = SlotFlow.from_pretrained(tmp_path / "family.safetensors")
    assert isinstance(again, FamilySlotFlow)
    with torch.no_grad():
        before, after = (m.parts.run(batch.long, batch.bounds).logits for m in (model, again))
    assert torch.equal(before, after)


def test_the_preset_fits_its_file() -> None:
    model = SlotFlow(Config.from_preset("family").model)
    assert 2 * model.n_parameters < 16 * 2**20  # in half precision
