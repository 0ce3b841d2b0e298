"""The objective of preset `zoom`, its matching, and training with it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from statistics_helpers import assert_within
from torch import Tensor
from training_helpers import metrics, same_training

import slotflow.train.loop as training
from slotflow import Grid, Prior, Simulation, SlotFlow, simulate
from slotflow.network.config import (
    Config,
    FlowConfig,
    LossConfig,
    ModelConfig,
    TrainConfig,
    ZoomConfig,
)
from slotflow.network.matching import IMPOSSIBLE_COST, match_square
from slotflow.network.zoom.loss import SOFT_LIMIT, TEACHER_PERIOD, ZoomLoss, _softened
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.network.zoom.slots import SlotEstimates
from slotflow.signal.mixture import MixturePart, PriorMixture
from slotflow.train.batches import batch_seed, draw_batch
from slotflow.train.loop import train
from slotflow.train.objectives import build_objective

LONG, SHORT = Grid(256, 0.25), Grid(64, 0.02)
PRIOR = Prior(k_min=0, k_max=3, frequency=(0.8, 1.2), min_separation=0.04, sigma=(0.1, 0.5))
"""Tones at least two and a half bins apart."""
MODEL = ModelConfig(
    name="tiny-zoom",
    long=LONG,
    short=SHORT,
    prior=PRIOR,
    zoom=ZoomConfig(
        bins=30, margin=5, stem=16, width=16, layers=1, heads=2, slot_width=16, slot_layers=1,
        slot_heads=2, window=4, rounds=1,
    ),
    flow=FlowConfig(
        layers=2, kinds=("marginal", "affine"), hidden=16, hidden_layers=1, bins=4, bound=5.0
    ),
)  # fmt: skip
LOSS = LossConfig(flow=0.25, curriculum=(0.2, 0.8))
MIXTURE = PriorMixture(
    (
        MixturePart(1.0, (0.04, 0.04), (0.5, 0.5), (1, 1), (0.1, 0.5)),
        MixturePart(1.0, (0.0, 0.05), (0.1, 1.0), (0.6, 1), (0.0, 1.0)),
    )
)
TRAIN = TrainConfig(
    batch_size=24,
    steps_per_epoch=5,
    max_epochs=2,
    validation_signals=24,
    optimizer="adamw",
    learning_rate=2e-3,
    schedule="cosine",
    early_stopping=0,
    ema=0.9,
    clip_norm=1.0,
    log_steps=1,
    short_dropped=0.3,
    short_varied=0.3,
    checkpoint_minutes=0.0,
)
CONFIG = Config(MODEL, LOSS, MIXTURE, TRAIN)


def objective(seed: int, rough: float = 0.05) -> ZoomLoss:
    """A tiny network with weights away from their zeros."""
    torch.manual_seed(seed)
    model = SlotFlow(MODEL)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(rough * torch.randn_like(p))
    return cast(ZoomLoss, build_objective(model, LOSS, False))


def signals(n: int, seed: int, k: int | None = None, short: Grid | None = SHORT) -> Simulation:
    return simulate(PRIOR, n, LONG, short, seed=seed, k=k)


# ---------------------------------------------------------------- terms


@pytest.mark.parametrize("k", [None, 0, 1, 3])
@pytest.mark.parametrize("short", [SHORT, None])
def test_terms_are_finite(k: int | None, short: Grid | None, seed: int) -> None:
    """Any mixture of counts, none at all included, with and without the short stream; so is the gradient."""
    loss = objective(seed)
    terms = loss(signals(12, seed, k, short))
    assert set(terms) == {
        "loss", "count", "first_count", "heat", "offset", "rounds", "flow", "k_accuracy", "matched",
    }  # fmt: skip
    assert all(t.shape == () and bool(t.isfinite()) for t in terms.values())
    weights = {
        "first_count": 0.5,
        "heat": 0.1,
        "offset": 5.0,
        "rounds": 0.1,
        "flow": 0.25,
        "count": 1,
    }
    total = sum(w * terms[name] for name, w in weights.items())
    assert torch.allclose(terms["loss"], total)
    terms["loss"].backward()
    taught = set()
    for name, p in loss.model.named_parameters():
        assert p.grad is not None and bool(p.grad.isfinite().all()), name
        taught |= {name.partition(".")[0]} if p.grad.any() else set()
    if k:
        assert taught == {
            name for name, part in loss.model.named_children() if [*part.parameters()]
        }
    if k == 0:
        assert terms["flow"] == terms["rounds"] == terms["offset"] == 0
    assert 0 <= terms["k_accuracy"] <= 1 and terms["matched"] >= 1 / TEACHER_PERIOD - 0.01


@pytest.mark.parametrize("n", [1, 2])
def test_smallest_batches(n: int, seed: int) -> None:
    """A batch of teachers alone has no second count to learn from; it is not a NaN."""
    terms = objective(seed)(signals(n, seed, 2))
    assert all(bool(t.isfinite()) for t in terms.values())
    if n == 1:
        assert terms["count"] == 0


def test_gradient_reaches_every_parameter(seed: int) -> None:
    loss = objective(seed)
    loss(signals(48, seed))["loss"].backward()
    for name, p in loss.model.named_parameters():
        assert p.grad is not None and bool((p.grad != 0).any()), name


def test_no_gradient_through_the_joint_steps(seed: int) -> None:
    """The slots' centres and covariances are constants to the loss; contexts and the rounds' moves are not."""
    loss = objective(seed)
    kept: list[SlotEstimates] = []
    loss.model.slots.register_forward_hook(lambda module, args, out: kept.append(out))
    loss(signals(12, seed))
    (slots,) = kept
    for name in ("frequency", "c", "factor", "sigma", "misfit"):
        assert not getattr(slots, name).requires_grad, name
    assert slots.y.requires_grad and len(slots.moves) == 1
    assert slots.moves[0].frequency.requires_grad and slots.moves[0].c.requires_grad


def test_teachers_do_not_teach_the_second_count(seed: int) -> None:
    """Their true number of slots would give K away: other labels for them leave the term as it is."""
    loss, batch = objective(seed).eval(), signals(30, seed)
    teacher = torch.arange(30) % TEACHER_PERIOD == 0
    own = loss(batch)
    lied = dataclasses.replace(batch, k=torch.where(teacher, (batch.k - 1).clamp_min(0), batch.k))
    assert (lied.k != batch.k).any()
    other = loss(lied)
    assert torch.equal(own["count"], other["count"])
    assert torch.equal(own["k_accuracy"], other["k_accuracy"])
    assert not torch.equal(own["first_count"], other["first_count"])
    pupils = dataclasses.replace(batch, k=torch.where(teacher, batch.k, (batch.k - 1).clamp_min(0)))
    assert not torch.equal(own["count"], loss(pupils)["count"])  # the control


def test_order_of_the_truth_does_not_matter(seed: int) -> None:
    loss, batch = objective(seed).eval(), signals(30, seed, k=3)
    own = loss(batch)
    for order in itertools.permutations(range(3)):
        other = loss(dataclasses.replace(batch, theta=batch.theta[:, list(order)]))
        for name, term in own.items():
            assert torch.allclose(other[name], term, rtol=1e-5, atol=1e-6), name
    wrong = loss(dataclasses.replace(batch, theta=batch.theta.roll(1, 0)))  # the control
    assert (wrong["flow"] - own["flow"]).abs() > 0.01


def test_signals_do_not_see_each_other(seed: int) -> None:
    """Shuffled by threes, so that teachers stay teachers: the same terms."""
    loss, batch = objective(seed).eval(), signals(12, seed)
    order = torch.arange(12).view(4, 3).flip(0).flatten()
    assert batch.prior is not None and batch.short is not None
    shuffled = dataclasses.replace(
        batch,
        k=batch.k[order],
        theta=batch.theta[order],
        sigma=batch.sigma[order],
        long=batch.long[order],
        short=batch.short[order],
        prior=batch.prior.take(order),
    )
    own, other = loss(batch), loss(shuffled)
    for name, term in own.items():
        assert torch.allclose(other[name], term, rtol=1e-4, atol=1e-6), name


def test_curriculum_starts_near_the_truth(seed: int) -> None:
    """With a share of 0 the teachers' slots begin beside the tones; in evaluation the share plays no part."""
    loss, batch = objective(seed), signals(60, seed, k=2)
    starts: list[Tensor] = []
    loss.model.slots.register_forward_pre_hook(lambda module, args: starts.append(args[3]))
    loss(batch, 0.0)
    loss(batch, 1.0)
    first = loss.model.first_bin(LONG, PRIOR.frequency[0])
    truth = batch.theta[:, :2, 2] * LONG.duration - first
    teacher = torch.arange(60) % TEACHER_PERIOD == 0
    near, far = ((s[:, :2] - truth)[teacher].abs().median() for s in starts)
    assert near < 0.5 < far
    assert torch.equal(starts[0][~teacher], starts[1][~teacher])
    loss.eval()
    loss(batch, 0.0)
    assert torch.equal(starts[2], starts[1])


def test_low_precision_is_close(seed: int) -> None:
    exact = objective(seed).eval()
    rough = ZoomLoss(exact.model, LOSS, low_precision=True).eval()
    batch = signals(24, seed)
    a, b = exact(batch), rough(batch)
    assert bool(b["loss"].isfinite()) and a["first_count"] != b["first_count"]
    assert torch.allclose(a["first_count"], b["first_count"], rtol=0.05)


def test_softened_losses() -> None:
    """The identity up to SOFT_LIMIT; beyond, smooth and slow."""
    x = torch.tensor([-3.0, 0.0, SOFT_LIMIT, SOFT_LIMIT + 1e-3, 1e6], requires_grad=True)
    y = _softened(x)
    assert (
        y[:3].tolist() == x[:3].tolist()
        and SOFT_LIMIT < y[3] < x[3] + 1e-6
        and y[4] < 20 * SOFT_LIMIT
    )
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert slope.tolist() == pytest.approx([1, 1, 1, 1, SOFT_LIMIT / 1e6], abs=1e-3)


# ---------------------------------------------------------------- matching


def brute_force(cost: np.ndarray) -> float:
    k = len(cost)
    return min(sum(cost[i, p[i]] for i in range(k)) for p in itertools.permutations(range(k)))


@pytest.mark.parametrize("kind", ["random", "ties", "nan", "easy"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_match_square_is_the_cheapest(kind: str, dtype: torch.dtype, seed: int) -> None:
    """Against all permutations; what lies beyond K may be anything."""
    rng = np.random.default_rng(seed)
    n, k_max = 60, 5
    cost = rng.normal(size=(n, k_max, k_max))
    if kind == "ties":
        cost = rng.integers(0, 3, cost.shape).astype(float)
    elif kind == "nan":
        cost[rng.random(cost.shape) < 0.2] = math.nan
        cost[rng.random(cost.shape) < 0.2] = math.inf
    elif kind == "easy":  # the diagonal of a permutation stands out
        cost[:, np.arange(k_max), rng.permutation(k_max)] -= 50
    k = rng.integers(0, k_max + 1, n)
    outside = np.arange(k_max) >= k[:, None]
    cost[outside[:, :, None] | outside[:, None, :]] = rng.choice([math.nan, math.inf, -1e3])
    given = torch.from_numpy(cost).to(dtype)
    counts = torch.from_numpy(k)
    order = match_square(given, counts, torch.ones(n, dtype=torch.bool)).numpy()
    assert order.dtype == np.int64
    values = np.nan_to_num(given.double().numpy(), nan=IMPOSSIBLE_COST, posinf=IMPOSSIBLE_COST)
    for b in range(n):
        assert sorted(order[b, : k[b]]) == list(range(k[b]))
        assert order[b, k[b] :].tolist() == list(range(k[b], k_max))
        found = sum(values[b, i, order[b, i]] for i in range(k[b]))
        best = brute_force(values[b, : k[b], : k[b]])
        assert found == pytest.approx(best, rel=1e-12, abs=1e-9)
    skipped = match_square(given, counts, torch.zeros(n, dtype=torch.bool))
    assert (skipped == torch.arange(k_max)).all()
    mixed = torch.arange(n) % 2 == 0
    some = match_square(given, counts, mixed).numpy()
    assert (some[::2] == order[::2]).all() and (some[1::2] == np.arange(k_max)).all()


def test_match_square_leaves_its_input_alone(seed: int) -> None:
    cost = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(seed))
    before = cost.clone()
    cost.requires_grad_()
    order = match_square(cost, torch.tensor([0, 1, 2, 3]), torch.ones(4, dtype=torch.bool))
    assert torch.equal(cost.detach(), before) and not order.requires_grad


# ---------------------------------------------------------------- batches


def same_batch(a: Simulation, b: Simulation) -> bool:
    pairs = [(a.k, b.k), (a.theta, b.theta), (a.long, b.long)]
    if a.short is not None and b.short is not None:
        pairs.append((a.short, b.short))
    return a.grids == b.grids and all(x.shape == y.shape and torch.equal(x, y) for x, y in pairs)


def test_batches_are_reproducible() -> None:
    """Priors, signals and short streams of a step come from its seed alone."""
    seeds = [batch_seed(0, step) for step in range(12)]
    first = [draw_batch(CONFIG, 3, s, torch.device("cpu")) for s in seeds]
    again = [draw_batch(CONFIG, 3, s, torch.device("cpu")) for s in reversed(seeds)][::-1]
    for a, b in zip(first, again, strict=True):
        assert same_batch(a, b)
        assert a.prior is not None and b.prior is not None
        for name in ("amplitude", "frequency", "min_separation", "sigma"):
            assert torch.equal(getattr(a.prior, name), getattr(b.prior, name))
    assert not any(same_batch(first[0], other) for other in first[1:])
    assert len({one.grids[1] for one in first}) > 3


def test_short_streams_of_training() -> None:
    """Dropped and varied as often as asked for, somewhere within the long stream; or always the model's own."""
    n = 400
    grids = [
        draw_batch(CONFIG, 1, batch_seed(3, i), torch.device("cpu")).grids[1] for i in range(n)
    ]
    error = math.sqrt(0.3 * 0.7 / n)
    assert_within(np.mean([g is None for g in grids]), 0.3, error)
    varied = [g for g in grids if g is not None and g != SHORT]
    assert_within(len(varied) / n, 0.3, error)
    share = np.array([g.duration / LONG.duration for g in varied])
    assert share.min() >= 0.0099 and share.max() <= 0.301 and np.std(np.log(share)) > 0.5
    assert all(g.n == SHORT.n for g in varied)
    assert all(
        LONG.t0 <= g.t0 and g.t0 + g.duration <= LONG.t0 + LONG.duration + 1e-9 for g in varied
    )
    plain = dataclasses.replace(TRAIN, short_dropped=0.0, short_varied=0.0)
    fixed = dataclasses.replace(CONFIG, train=plain)
    for i in range(20):
        assert draw_batch(fixed, 1, batch_seed(3, i), torch.device("cpu")).grids == (LONG, SHORT)


# ---------------------------------------------------------------- training


def test_a_few_steps_lower_the_loss(tmp_path: Path) -> None:
    """On the fixed validation set, from epoch to epoch; with a learning rate of nothing it stays."""
    cfg = dataclasses.replace(
        TRAIN, steps_per_epoch=20, max_epochs=3, validation_signals=96, batch_size=48, ema=0.0,
        checkpoint_minutes=10.0, learning_rate=4e-3,
    )  # fmt: skip
    train(dataclasses.replace(CONFIG, train=cfg), tmp_path / "a", quiet=True)
    losses = [line["loss"] for line in metrics(tmp_path / "a", "val")]
    assert losses[-1] < losses[0] - 0.3 and all(map(math.isfinite, losses))
    still = dataclasses.replace(cfg, learning_rate=1e-12, min_learning_rate=0.0, max_epochs=2)
    train(dataclasses.replace(CONFIG, train=still), tmp_path / "b", quiet=True)
    first, last = (line["loss"] for line in metrics(tmp_path / "b", "val"))
    assert last == pytest.approx(first, abs=1e-3)


@pytest.mark.parametrize("step", [2, 5, 7])
def test_resumed_run_equals_unbroken(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before any step and resumed: the same weights, averages, optimizer and metrics, bit for bit."""
    train(CONFIG, tmp_path / "whole", quiet=True)
    original, left = training.draw_batch, [True]

    def draw(config: Config, n: int, seed: int, device: torch.device) -> Simulation:
        if seed == batch_seed(config.train.seed, step) and left:
            left.pop()
            raise ConnectionError("the power went out")
        return original(config, n, seed, device)

    monkeypatch.setattr(training, "draw_batch", draw)
    with pytest.raises(ConnectionError):
        train(CONFIG, tmp_path / "broken", quiet=True)
    train(CONFIG, tmp_path / "broken", resume=True, quiet=True)
    assert same_training(tmp_path / "whole", tmp_path / "broken")


def test_a_trained_file_is_the_network(tmp_path: Path, seed: int) -> None:
    """The file of a training loads as a zoom network that answers."""
    once = dataclasses.replace(CONFIG, train=dataclasses.replace(TRAIN, max_epochs=1))
    path = train(once, tmp_path, quiet=True)
    model = SlotFlow.from_pretrained(path)
    assert isinstance(model, ZoomSlotFlow) and model.config == MODEL
    post = cast(
        Any, model.infer(signals(1, seed, 1).observation(0), prior=model.config.prior, refine=False)
    )
    assert post.k_probs.shape == (4,) and np.isfinite(post.sample(3, k=3)).all()
