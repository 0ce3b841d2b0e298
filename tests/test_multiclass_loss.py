"""The objective of several classes: against a naive reference, under permutations, gradients, counts of each class."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
from multiclass_helpers import CLASSES, WIDTH, make_batch, make_model, small_config
from torch import Tensor

from slotflow.network.config import LossConfig
from slotflow.network.multiclass.counts import ClassHead, count_tables, slot_rows
from slotflow.network.multiclass.loss import MulticlassLoss
from slotflow.network.multiclass.model import MulticlassSlotFlow
from slotflow.signal.simulation_classes import ClassSimulation
from slotflow.signal.waveforms import Classes


def contexts(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, WIDTH, generator=generator, dtype=torch.float64)


def flow_term(model: MulticlassSlotFlow, g: Tensor, batch: ClassSimulation) -> Tensor:
    objective = MulticlassLoss(model, LossConfig())
    counts, theta = batch.by_class()
    return objective.flow_loss(g, objective.coordinates(theta, batch.seed), counts, counts)


def naive_flow_term(model: MulticlassSlotFlow, g: Tensor, batch: ClassSimulation) -> Tensor:
    """The matched NLL by plain loops over all K! assignments of a matrix that is infinite where classes differ."""
    waveform = batch.waveform
    assert isinstance(waveform, Classes)
    total = torch.zeros((), dtype=torch.float64)
    for b in range(len(batch.k)):
        components = batch.theta[b, : int(batch.k[b])]
        kinds = [int(c) for c in waveform.class_of(components)]
        slots = [(c, i) for c in range(len(model.classes)) for i in range(kinds.count(c))]
        cost = [[torch.tensor(math.inf, dtype=torch.float64)] * len(kinds) for _ in slots]
        for row, (c, i) in enumerate(slots):
            identity = torch.eye(model.k_max, dtype=torch.float64)[i]
            q = model.flow_of(model.classes[c])(torch.cat([g[b], identity])[None])
            for column, kind in enumerate(kinds):
                if kind == c:
                    own = waveform.members_theta(c, components[column])
                    cost[row][column] = -q.log_prob(model.targets[c].encode(own)[None])[0]
        if slots:
            orders = itertools.permutations(range(len(slots)))
            best = min(orders, key=lambda o: sum(cost[i][j].item() for i, j in enumerate(o)))
            total = total + torch.stack([cost[i][j] for i, j in enumerate(best)]).mean()
    return total / len(batch.k)


# ---------------------------------------------------------------- value and gradient


def test_flow_term_equals_naive_reference(seed: int) -> None:
    model = make_model(seed)
    batch, g = make_batch(model, 12, seed), contexts(12, seed)
    fast, slow = flow_term(model, g, batch), naive_flow_term(model, g, batch)
    assert torch.isfinite(slow) and fast.item() == pytest.approx(slow.item(), abs=1e-9)


def test_only_matched_pairs_carry_gradient(seed: int) -> None:
    """Gradients equal those of a reference that never differentiates an unmatched pair, and reach every flow."""
    model = make_model(seed)
    batch, g = make_batch(model, 8, seed), contexts(8, seed).requires_grad_()
    wanted = [g, *model.flows.parameters()]
    fast = torch.autograd.grad(flow_term(model, g, batch), wanted)
    slow = torch.autograd.grad(naive_flow_term(model, g, batch), wanted)
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


def test_pairs_evaluated_once_or_twice_are_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pairs with gradient, or the matched ones again: the same value, the same gradients."""
    model = make_model(seed)
    batch, g = make_batch(model, 24, seed), contexts(24, seed).requires_grad_()
    counts, _ = batch.by_class()
    assert (counts > 1).any()  # there is something to match
    found = []
    for limit in (0.0, math.inf):
        monkeypatch.setattr("slotflow.network.matched.PAIRS_PER_SLOT", limit)
        value = flow_term(model, g, batch)
        found.append([value, *torch.autograd.grad(value, [g, *model.flows.parameters()])])
    for twice, once in zip(*found, strict=True):
        torch.testing.assert_close(once, twice, rtol=1e-9, atol=1e-12)


def test_gradients_reach_every_part(seed: int) -> None:
    model = make_model(seed)
    MulticlassLoss(model, LossConfig())(make_batch(model, 32, seed))["loss"].backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name


@pytest.mark.parametrize("absent", ["tone", "chirp", "damped"])
def test_an_absent_class_has_a_gradient_of_zero(absent: str, seed: int) -> None:
    """Its parameters take part, which training on several processes asks for, and do not move."""
    model = make_model(seed)
    batch = make_batch(model, 40, seed)
    counts, _ = batch.by_class()
    index = model.classes.index(absent)
    keep = torch.nonzero((counts[:, index] == 0) & (counts.sum(1) > 0))[:, 0]
    assert batch.short is not None
    part = dataclasses.replace(
        batch,
        k=batch.k[keep],
        theta=batch.theta[keep],
        sigma=batch.sigma[keep],
        long=batch.long[keep],
        short=batch.short[keep],
        gains=batch.gains[keep],
    )
    MulticlassLoss(model, LossConfig())(part)["loss"].backward()
    for name in model.classes:
        gradients = [p.grad for p in model.flow_of(name).parameters()]
        assert all(g is not None for g in gradients)
        size = max(float(g.abs().max()) for g in gradients if g is not None)
        assert (size == 0) == (name == absent)


def test_low_precision_of_the_encoder(seed: int) -> None:
    """With bfloat16 in encoder and coupling networks the terms agree to its three digits, and gradients are finite."""
    model = make_model(seed, dtype=torch.float32)
    batch = make_batch(model, 32, seed)
    full = MulticlassLoss(model, LossConfig())(batch)
    low = MulticlassLoss(model, LossConfig(), low_precision=True)(batch)
    for name in ("ce", "classes", "flow"):
        assert low[name].dtype == torch.float32
        assert low[name].item() == pytest.approx(full[name].item(), rel=0.05), name
    low["loss"].backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


def test_a_few_steps_lower_every_term(seed: int) -> None:
    model = make_model(seed, small_config(jitter=0.1), torch.float32)
    objective, batch = MulticlassLoss(model, LossConfig()), make_batch(model, 32, seed)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    first = objective(batch)
    for _ in range(25):
        optimizer.zero_grad()
        objective(batch)["loss"].backward()
        optimizer.step()
    last = objective(batch)
    for name in ("ce", "classes", "flow"):
        assert last[name].item() < first[name].item() - 0.02, name


# ---------------------------------------------------------------- permutations


def test_order_of_components_does_not_matter(seed: int) -> None:
    model = make_model(seed)
    objective, batch = MulticlassLoss(model, LossConfig()), make_batch(model, 16, seed)
    base = objective(batch)
    generator = torch.Generator().manual_seed(seed)
    theta = batch.theta.clone()
    for b, k in enumerate(batch.k.tolist()):
        theta[b, :k] = batch.theta[b, :k][torch.randperm(k, generator=generator)]
    assert not torch.equal(theta, batch.theta)
    other = objective(dataclasses.replace(batch, theta=theta))
    for name, term in base.items():
        assert other[name].item() == pytest.approx(term.item(), abs=1e-9), name


@pytest.mark.parametrize("order", list(itertools.permutations(CLASSES))[1:])
def test_order_of_classes_does_not_matter_to_the_flows(order: tuple[str, ...], seed: int) -> None:
    """The same classes, each with its own flow, named in another order: the same matched likelihood."""
    model = make_model(seed)
    other = make_model(seed, small_config({name: CLASSES[name] for name in order}))
    for name in order:
        other.flow_of(name).load_state_dict(model.flow_of(name).state_dict())
    batch, g = make_batch(model, 16, seed), contexts(16, seed)
    counts, theta = batch.by_class()
    index = [model.classes.index(name) for name in order]
    objective = MulticlassLoss(other, LossConfig())
    y = objective.coordinates([theta[i] for i in index], batch.seed)
    found = objective.flow_loss(g, y, counts[:, index], counts[:, index])
    assert found.item() == pytest.approx(flow_term(model, g, batch).item(), abs=1e-10)


def test_a_flow_of_another_class_would_matter(seed: int) -> None:
    """The control: chirps and damped tones have as many coordinates, and their flows exchanged change the loss."""
    model = make_model(seed)
    batch, g = make_batch(model, 16, seed), contexts(16, seed)
    before = flow_term(model, g, batch).item()
    chirp, damped = (model.flow_of(name).state_dict() for name in ("chirp", "damped"))
    chirp = {name: value.clone() for name, value in chirp.items()}
    model.flow_of("chirp").load_state_dict(damped)
    model.flow_of("damped").load_state_dict(chirp)
    assert abs(flow_term(model, g, batch).item() - before) > 1e-3


# ---------------------------------------------------------------- how many of each class


@pytest.mark.parametrize(("k_min", "k_max", "classes"), [(0, 3, 3), (1, 4, 2), (2, 2, 4)])
def test_tables_hold_every_number_once(k_min: int, k_max: int, classes: int) -> None:
    tables = count_tables(k_min, k_max, classes)
    expected = sum(math.comb(k + classes - 1, classes - 1) for k in range(k_min, k_max + 1))
    assert len(tables) == len({tuple(row) for row in tables.tolist()}) == expected
    assert set(tables.sum(1).tolist()) == set(range(k_min, k_max + 1))


def test_slots_stand_in_the_order_of_their_classes() -> None:
    rows = slot_rows(torch.tensor([[2, 0, 1], [0, 0, 0], [0, 2, 0]]))
    assert rows.signal.tolist() == [0, 0, 0, 2, 2]
    assert rows.kind.tolist() == [0, 0, 2, 1, 1]
    assert rows.k.tolist() == [3, 3, 3, 2, 2]
    assert rows.past.tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_probabilities_of_all_tables_sum_to_one(seed: int) -> None:
    torch.manual_seed(seed)
    head, tables = ClassHead(6, 4, 3).double(), count_tables(0, 4, 3)
    log_k = torch.randn(5, 5, dtype=torch.float64).log_softmax(-1)
    found = head.table_log_probs(torch.randn(5, 6, dtype=torch.float64), log_k, tables)
    torch.testing.assert_close(found.logsumexp(-1), torch.zeros(5, dtype=torch.float64))
    k_probs = torch.zeros(5, 5, dtype=torch.float64).index_add(1, tables.sum(1), found.exp())
    torch.testing.assert_close(k_probs, log_k.exp())


def test_the_head_can_say_anything_about_the_counts(seed: int) -> None:
    """It learns an arbitrary distribution of n from its cross-entropy, correlations of classes among it."""
    torch.manual_seed(seed)
    tables = count_tables(0, 3, 3)
    wanted = torch.randn(len(tables), dtype=torch.float64).mul(1.5).softmax(0)
    p_k = torch.zeros(4, dtype=torch.float64).index_add(0, tables.sum(1), wanted)
    head, embedding = ClassHead(32, 3, 3).double(), torch.randn(1, 32, dtype=torch.float64)
    optimizer = torch.optim.Adam(head.parameters(), 0.03)
    for _ in range(300):
        found = head.table_log_probs(embedding, p_k.log()[None], tables)[0]
        divergence = (wanted * (wanted.log() - found)).sum()
        optimizer.zero_grad()
        divergence.backward()
        optimizer.step()
    assert divergence.item() < 1e-3


def test_class_term_is_the_log_probability_of_the_counts(seed: int) -> None:
    """`ce` + `classes` = −log q(n | x), averaged over the batch."""
    model = make_model(seed)
    batch = make_batch(model, 20, seed)
    terms = MulticlassLoss(model, LossConfig())(batch)
    counts, _ = batch.by_class()
    assert batch.short is not None
    _, embedding, logits = model.encode(batch.long, batch.short)
    log_k = logits.double().log_softmax(-1)
    log_probs = model.class_head.table_log_probs(embedding, log_k, model.tables)
    row = (model.tables[None] == counts[:, None]).all(-1).int().argmax(1)
    expected = -log_probs.gather(1, row[:, None]).mean()
    assert (terms["ce"] + terms["classes"]).item() == pytest.approx(expected.item(), abs=1e-6)


def test_predicted_numbers_of_slots(seed: int) -> None:
    """With a curriculum some components stay without a slot; the loss is finite and differs."""
    model = make_model(seed)
    objective, batch = MulticlassLoss(model, LossConfig()), make_batch(model, 24, seed)
    forced, predicted = objective(batch), objective(batch, predicted_share=1.0)
    assert torch.isfinite(predicted["loss"]) and predicted["flow"] != forced["flow"]
    assert predicted["counts_accuracy"] < 1 and "counts_accuracy" not in forced
