"""Fixed training sets, networks that are trained together, the least training set, and tables of known outcome."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from slotflow import SlotFlow
from slotflow.network.config import Config
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.simulation import Simulation
from slotflow.studies.complexity.curves import Curve, curves_of
from slotflow.studies.complexity.fixed_sets import (
    batches_of,
    nested_sets,
    orders,
    taken,
    training_signals,
    validation_batches,
)
from slotflow.studies.complexity.learners import LEARNERS, NORMAL_ENTROPY, learner_config
from slotflow.studies.complexity.least import Least, growth, least_size
from slotflow.studies.complexity.members import member, stacked
from slotflow.studies.complexity.rounds import FULL, asked, gather, rounds
from slotflow.studies.complexity.study import SAMPLE_COMPLEXITY
from slotflow.studies.complexity.trainings import clip_members, train_on_sets, validation_terms
from slotflow.studies.frame.settings import Settings
from slotflow.studies.row import Row
from slotflow.studies.theory.minimum_samples import PAPER_COUNTS, PAPER_SAMPLES
from slotflow.train.objectives import build_objective

CPU = torch.device("cpu")


def small(name: str, batch: int = 6) -> Config:
    return learner_config(LEARNERS[name], 4, batch)


# ---------------------------------------------------------------------- fixed sets


def test_every_pass_is_a_new_order_of_the_whole_set(seed: int) -> None:
    found = orders(10, 8, 5, seed)
    assert found.shape == (8, 5)
    passes = found.view(4, 10)
    assert all(sorted(one.tolist()) == list(range(10)) for one in passes)
    assert len({tuple(one.tolist()) for one in passes}) > 1  # 10!⁻³ by chance
    # passes follow each other without a gap, also where a set is smaller than a batch
    assert torch.bincount(orders(3, 5, 4, seed).flatten(), minlength=3).tolist() in (
        [7, 7, 6], [7, 6, 7], [6, 7, 7],
    )  # fmt: skip


def test_trainings_see_the_signals_of_their_sets_alone_and_again(seed: int) -> None:
    config = small("paper")
    signals = training_signals(config.model, 16, 2, 0, seed, CPU)
    sets = nested_sets((3, 8), 2)
    assert sets == [range(3), range(8), range(8, 11), range(8, 16)]
    seen: list[list[int]] = [[] for _ in sets]
    for batch in batches_of(signals, sets, 4, 6, seed):
        assert batch.k.tolist() == [2] * 24
        for own, rows in zip(seen, batch.long.view(4, 6, -1), strict=True):
            same = (rows[:, None] == signals.long).all(-1)  # (6, 16)
            assert same.sum(1).tolist() == [1] * 6
            own += same.int().argmax(1).tolist()
    for own, of in zip(seen, sets, strict=True):
        assert set(own) == set(of)
        assert np.bincount(own, minlength=16)[list(of)].min() >= 24 // len(of)


def test_signals_are_taken_with_all_that_belongs_to_them(seed: int) -> None:
    config = small("zoom")
    signals = training_signals(config.model, 5, 3, 0, seed, CPU)
    some = taken(signals, torch.tensor([4, 1, 4]))
    for name in ("k", "theta", "sigma", "long", "short"):
        whole, part = getattr(signals, name), getattr(some, name)
        assert torch.equal(part, whole[[4, 1, 4]]), name
    assert some.prior is not None and len(some.prior) == 3


def test_validation_signals_are_others(seed: int) -> None:
    model = small("paper").model
    for number in (0, 1):
        trained = training_signals(model, 20, 1, number, seed, CPU)
        fresh = validation_batches(model, (10, 10), 1, number, seed, CPU)
        rows = torch.cat([trained.theta[:, 0], *(batch.theta[:, 0] for batch in fresh)])
        assert len(torch.unique(rows, dim=0)) == 40
    again = validation_batches(model, (10,), 1, 1, seed, CPU)[0]
    assert torch.equal(again.long, fresh[0].long)


# ---------------------------------------------------------------------- members


def networks_of(config: Config, seed: int, count: int = 3) -> list[SlotFlow]:
    found = []
    for i in range(count):
        torch.manual_seed(seed + i)
        network = SlotFlow(config.model)
        if isinstance(network, ZoomSlotFlow):  # all of them count 2, so that all signals have a say
            last = network.encoder.count[-1]
            assert isinstance(last, torch.nn.Linear)
            last.bias.data[2] += 50
        found.append(network)
    return found


@pytest.mark.parametrize("name", list(LEARNERS))
def test_members_have_the_losses_and_gradients_of_networks_alone(name: str, seed: int) -> None:
    config = small(name)
    networks = networks_of(config, seed)
    signals = training_signals(config.model, 18, 2, 0, seed, CPU)
    alone = []
    for i, network in enumerate(networks):
        batch = taken(signals, torch.arange(6 * i, 6 * i + 6))
        terms = build_objective(network, config.loss, False)(batch)
        terms["loss"].backward()
        alone.append(terms["loss"].item())
    together = stacked(networks)
    loss = build_objective(together, config.loss, False)(signals)["loss"]
    (3 * loss).backward()
    # float32, amplified where the slots of an untrained `zoom` lie between tones
    assert loss.item() == pytest.approx(np.mean(alone), rel=1e-3)
    weights = {n: p.grad for n, p in together.named_parameters() if p.grad is not None}
    for i, network in enumerate(networks):
        own = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
        assert set(own) == set(weights)
        whole = torch.cat([gradient.flatten() for gradient in own.values()])
        found = [torch.cat([weights[n][j].flatten() for n in own]) for j in range(3)]
        distances = [float((one - whole).norm() / whole.norm()) for one in found]
        assert distances.pop(i) < 0.01 and min(distances) > 0.1  # of itself, of the others


def test_a_member_is_a_network_of_its_own(seed: int) -> None:
    config = small("paper")
    networks = networks_of(config, seed)
    expected = {n: t.clone() for n, t in networks[1].state_dict().items()}
    together = stacked(networks)
    found = member(together, together.state_dict(), 1, networks[0])
    assert all(torch.equal(t, expected[n]) for n, t in found.state_dict().items())


def test_networks_without_a_list_of_parts_are_refused(seed: int) -> None:
    with pytest.raises(TypeError, match="expected a network like `paper` or `zoom`"):
        stacked([SlotFlow(Config.from_preset("multiclass").model)])


def test_company_does_not_change_a_training(seed: int) -> None:
    config = small("paper")
    signals = training_signals(config.model, 12, 2, 0, seed, CPU)
    sets, found = nested_sets((4, 12), 1), []
    for some in (sets, sets[:1]):
        for _, networks in train_on_sets(config, signals, some, (3,), [seed] * len(some)):
            flat = [
                torch.cat([p.detach().flatten().clone() for p in network.parameters()])
                for network in networks
            ]
        found.append(flat)
    (small_set, large_set), (alone,) = found
    moved = float((small_set - large_set).norm())
    assert float((small_set - alone).norm()) < 0.01 * moved


def test_one_gradient_without_a_number_leaves_the_others(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.nn.Parameter(torch.zeros(3, *shape)) for shape in ((4,), (2, 5))]
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator)
    assert weights[0].grad is not None
    weights[0].grad[1, 0] = math.nan
    weights[0].grad[2] *= 1e-3
    weights[1].grad[2] *= 1e-3  # type: ignore[index]
    before = [weight.grad.clone() for weight in weights if weight.grad is not None]
    clip_members(weights, 0.5)
    after = [weight.grad for weight in weights if weight.grad is not None]
    norms = torch.cat([g.flatten(1) for g in after], 1).norm(dim=1)
    assert float(norms[0]) == pytest.approx(0.5, rel=1e-4) and float(norms[1]) == 0
    assert all(torch.equal(a[2], b[2]) for a, b in zip(after, before, strict=True))


def test_validation_is_the_mean_over_signals(seed: int) -> None:
    config = small("paper")
    network = networks_of(config, seed, 1)[0]
    objective = build_objective(network.eval(), config.loss, False)
    fresh = validation_batches(config.model, (9, 3), 2, 0, seed, CPU)
    found = validation_terms(objective, fresh)
    both = [objective(batch)["flow"].item() for batch in fresh]
    assert found["flow"] == pytest.approx((9 * both[0] + 3 * both[1]) / 12, rel=1e-6)
    assert pytest.approx(4.2568, abs=1e-4) == NORMAL_ENTROPY


def test_trained_networks_know_their_set_better_than_fresh_signals(seed: int) -> None:
    """Six signals are learned by heart: the same loss on others is worse."""
    config = replace(small("paper"), train=replace(small("paper").train, ema=0.0, warmup_steps=0))
    signals = training_signals(config.model, 6, 1, 0, seed, CPU)
    fresh = validation_batches(config.model, (60,), 1, 0, seed, CPU)
    *_, (_, networks) = train_on_sets(config, signals, nested_sets((6,), 1), (60,), [seed])
    objective = build_objective(next(networks), config.loss, False)
    known, others = (validation_terms(objective, batches)["flow"] for batches in ([signals], fresh))
    assert known < others - 1


# ---------------------------------------------------------------------- the least training set


def test_the_least_set_is_interpolated_in_ln_n() -> None:
    sizes = (100, 1000, 10_000)
    assert least_size(sizes, (2.0, 0.0, -2.0), 0.0) == Least(pytest.approx(1000), False, 1000)
    assert least_size(sizes, (2.0, 1.0, -1.0), 0.0) == Least(pytest.approx(10**3.5), False, 10_000)
    assert least_size(sizes, (-0.1, 1.0, -1.0), 0.0) == Least(100, True, 100)
    assert least_size(sizes, (2.0, 1.0, 0.1), 0.0) == Least(None)
    # the first crossing counts, whatever happens afterwards
    assert least_size(sizes, (1.0, -1.0, 5.0), 0.0).size == pytest.approx(10**2.5)


def test_growth_of_the_papers_numbers() -> None:
    found = growth({k: Least(n) for k, n in zip(PAPER_COUNTS, PAPER_SAMPLES, strict=True)})
    assert found is not None and found.rank_correlation == pytest.approx(0.83, abs=0.005)
    cubic = growth({k: Least(7.0 * k**3) for k in (10, 1, 4)} | {6: Least(None)})
    assert cubic is not None and cubic.exponent == pytest.approx(3)
    assert growth({1: Least(5.0), 2: Least(6.0), 4: Least(None)}) is None
    assert growth({k: Least(100.0, True) for k in PAPER_COUNTS}) is None


def test_rises_beyond_the_errors_are_counted() -> None:
    sure = Curve([1, 2, 3], [1.0, 1.2, 0.5], [0.01, 0.01, 0.01], [])
    unsure = replace(sure, errors=[0.1, 0.1, 0.1])
    single = replace(sure, errors=[None, None, None])
    assert [curve.rises() for curve in (sure, unsure, single)] == [1, 0, 1]


# ---------------------------------------------------------------------- rounds and the table


def a_round(name: str, k: int, least: float, slope: float = 3.0) -> dict[str, Any]:
    """Two seeds whose best loss is target − slope·log10(N / least), reached at the first of two checkpoints."""
    sizes, target = FULL.sizes, LEARNERS[name].target
    loss = [target - slope * math.log10(n / least) for n in sizes]
    scored = LEARNERS[name].scored
    curves = [
        {
            "step": [10, 20],
            "loss": [value + shift, value + 5.0],
            "flow": [value, value],
            "score": [value + 1.0, value] if scored else [None, None],
        }
        for shift in (-0.01, 0.01)
        for value in loss
    ]
    facts = {"steps": 20, "batch": 4, "layers": 4, "width": 64, "parameters": 10}
    return {"network": name, "k": k, "sizes": list(sizes), **facts} | {
        "curves": [curves[: len(sizes)], curves[len(sizes) :]]
    }


def verdicts(rows: list[Row]) -> dict[str, bool | None]:
    return {row.measure: row.met for row in rows if row.target is not None}


def test_the_least_loss_counts_and_the_score_beside_it() -> None:
    data = gather([a_round("paper", 4, 1000.0)])
    found = data["paper"]["counts"]["4"]
    place = found["sizes"].index(1000)
    assert found["loss"][place] == [pytest.approx(0.0, abs=1e-12), pytest.approx(0.01)]
    assert found["score"][place][0] == pytest.approx(1.0)
    assert found["step"][place] == 10 and found["last"][place] == pytest.approx(5.0)
    curve = curves_of(data)[0].by_count[4]
    assert curve.least(0.0).size == pytest.approx(1000)
    error = curve.least_error(0.0)
    assert error is not None and 0 < error < 20


def test_weak_growth_holds_and_cubic_growth_does_not() -> None:
    # the last is a little larger, so that no two K are tied, and losses of large K fall faster
    weak = {1: 1500, 2: 2000, 4: 5000, 6: 5100, 8: 5200, 10: 5300}
    data = gather([a_round("paper", k, n, 3.0 + 0.3 * k) for k, n in weak.items()])
    found = verdicts(SAMPLE_COMPLEXITY.compare(data))
    gap = "paper: loss at K = 10 less that at K = 1, N = 10,000"
    assert all(met for name, met in found.items() if name != gap) and gap in found
    cubic = {k: 9.0 * k**3 for k in PAPER_COUNTS}
    data = gather([a_round("zoom", k, n) for k, n in cubic.items()])
    rows = SAMPLE_COMPLEXITY.compare(data)
    found, notes = verdicts(rows), {row.measure: row.note for row in rows}
    for name in (
        "exponent of N in K",
        "least N at K = 10 over K = 1",
        "least N at K = 10 over K = 4",
    ):
        assert found[f"zoom: {name}"] is False, name
    assert found["zoom: Spearman's ρ of N and K"] and found["zoom: its p"]
    assert "2 upper bounds" in notes["zoom: exponent of N in K"]


def test_a_significant_fall_does_not_support_a_growth() -> None:
    falling = {1: 5000, 2: 4000, 4: 3000, 6: 2000, 8: 1000, 10: 500}
    rows = SAMPLE_COMPLEXITY.compare(gather([a_round("zoom", k, n) for k, n in falling.items()]))
    found = {row.measure: row for row in rows}
    assert found["zoom: Spearman's ρ of N and K"].met is False
    assert found["zoom: its p"].value < 0.05 and found["zoom: its p"].met is False
    assert found["zoom: its p"].note == "of a fall"


def test_what_bounds_alone_support_stays_open() -> None:
    """K = 1 needs at most 100 signals, and K = 10 more than there are: weak growth is not shown by the others."""
    few = {1: 20.0, 2: 150.0, 4: 300.0, 6: 400.0, 8: 500.0}
    data = gather([a_round("paper", k, n) for k, n in few.items()])
    found = verdicts(SAMPLE_COMPLEXITY.compare(data))
    for name in ("exponent of N in K", "least N at K = 8 over K = 1"):
        assert found[f"paper: {name}"] is None, name
    rest = {k: n for k, n in few.items() if k > 1} | {10: 1e6}
    data = gather([a_round("paper", k, n) for k, n in rest.items()])
    found = verdicts(SAMPLE_COMPLEXITY.compare(data))
    assert found["paper: exponent of N in K"] is None
    assert "paper: least N at K = 10 over K = 2" not in found


def test_rounds_may_be_missing() -> None:
    """Any of them: table and picture show what is there."""
    whole = [a_round(name, k, 300.0 * k) for k in FULL.counts for name in LEARNERS]
    for kept in (whole, whole[:-3], whole[:1], whole[1:2], whole[3::2]):
        data = gather(kept)
        assert sum(len(one["counts"]) for one in data.values()) == len(kept)
        rows = SAMPLE_COMPLEXITY.compare(data)
        assert rows and all(math.isfinite(row.value) for row in rows)
        SAMPLE_COMPLEXITY.plot(data)
    assert list(gather(whole)["zoom"]["counts"]) == ["1", "2", "4", "6", "8", "10"]


def test_a_loss_that_is_not_reached_is_said() -> None:
    data = gather([a_round("paper", k, n) for k, n in {1: 2000, 2: 1e5, 4: 1e6}.items()])
    rows = {row.measure: row for row in SAMPLE_COMPLEXITY.compare(data)}
    reached = rows["paper: numbers of tones K that reach a loss ≤ 0"]
    assert reached.value == 1 and reached.met is False
    assert "paper: least N for a loss ≤ 0, K = 1" in rows
    assert "paper: least N for a loss ≤ 0, K = 2" not in rows
    assert "paper: exponent of N in K" not in rows


def test_rounds_of_full_size_cover_everything_once() -> None:
    settings = Settings()
    found = [asked(settings, number) for number in range(rounds(settings))]
    assert sorted(found) == sorted((k, name) for k in PAPER_COUNTS for name in LEARNERS)
    assert FULL.seeds >= 3 and (FULL.sizes[0], FULL.sizes[-1]) == (100, 10_000)


@pytest.mark.parametrize("name", list(LEARNERS))
def test_networks_are_equal_for_all_k(name: str, seed: int) -> None:
    config = small(name)
    for k in (1, 10):
        batch: Simulation = training_signals(config.model, 3, k, 0, seed, CPU)
        assert batch.k.tolist() == [k] * 3 and batch.theta.shape[1] == 10
        assert (batch.long.shape[1], batch.sigma.max() <= 0.75) == (768, True)
