"""The study `zoom_scaling`: branches that leave their trunk alone, switches, and claims that follow the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from slotflow import SlotFlow
from slotflow.network.config import Config
from slotflow.studies.frame.settings import Settings
from slotflow.studies.suites.sets import SETS, batches
from slotflow.studies.suites.sizes import SEED_LIMIT
from slotflow.studies.zoom_scaling.annealing import AnnealedTraining
from slotflow.studies.zoom_scaling.rows import compare
from slotflow.studies.zoom_scaling.study import FULL, ZOOM_SCALING
from slotflow.studies.zoom_scaling.variants import (
    BASE,
    PARTS,
    VARIANTS,
    variant_config,
    with_switches,
)
from slotflow.studies.zoom_scaling.words import learned_part

CPU = torch.device("cpu")


@pytest.fixture
def tiny() -> Config:
    return variant_config(BASE, 4, True, CPU)


def flat(network: SlotFlow) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


# ---------------------------------------------------------------------- trunk and branches


def test_a_branch_leaves_the_trunk_where_it_was(tiny: Config, seed: int) -> None:
    """The point at 5 steps is the same whether or not others were asked for before, and is not the trunk itself."""
    with torch.random.fork_rng(devices=[]):
        one = AnnealedTraining(tiny, 5, seed, CPU)
        early, late = one.point(2), one.point(5)
        alone = AnnealedTraining(tiny, 5, seed, CPU).point(5)
    assert torch.equal(flat(late), flat(alone))
    assert not torch.equal(flat(early), flat(late))
    assert one.state.step == 4  # the last branch left the trunk one step before its point


def test_the_learning_rate_falls_in_the_branch_alone(
    tiny: Config, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    with torch.random.fork_rng(devices=[]):
        training = AnnealedTraining(tiny, 10, seed, CPU)
        optimizer = training.state.optimizer
        monkeypatch.setattr(
            optimizer, "step", lambda: rates.append(optimizer.param_groups[0]["lr"])
        )
        training.point(10)
        training.point(15)
    full = tiny.train.learning_rate
    trunk, half = [full] * 8, [full, full / 2]
    assert rates == pytest.approx([*trunk, *half, *[full] * 4, full, full * 2 / 3, full / 3])


def test_a_schedule_that_knows_its_end_is_refused(tiny: Config) -> None:
    falling = replace(tiny, train=replace(tiny.train, schedule="cosine"))
    with pytest.raises(ValueError, match="expected a constant schedule, received 'cosine'"):
        AnnealedTraining(falling, 1, 0, CPU)


# ---------------------------------------------------------------------- variants


def test_the_sizes_are_what_they_are_called() -> None:
    for name in VARIANTS:
        config = variant_config(name, FULL.batch, False, CPU)
        millions = float(name.partition(" M")[0])
        found = SlotFlow(config.model).n_parameters / 1e6
        assert found == pytest.approx(millions, rel=0.1), name
    assert ZOOM_SCALING.rounds(Settings()) == FULL.seeds * len(VARIANTS)


def test_switches_change_the_part_and_nothing_else(seed: int) -> None:
    """Without joint steps frequencies move; without the second count q(K) does, and frequencies stay."""
    released = SlotFlow.from_pretrained("zoom")
    (signals,) = batches(SETS["frontier"], 6, 6, seed % SEED_LIMIT, CPU)
    found = {
        words: with_switches(released, switches).analyse(signals, SETS["frontier"].prior)
        for words, switches in {"": {}, **PARTS}.items()
    }
    whole, joint, recount = found.values()
    plain = released.analyse(signals, SETS["frontier"].prior)
    assert torch.equal(whole.k_probs, plain.k_probs)
    assert torch.equal(
        whole.slots(signals.k).slots.frequency, plain.slots(signals.k).slots.frequency
    )
    frequency = whole.slots(signals.k).slots.frequency
    assert torch.equal(recount.slots(signals.k).slots.frequency, frequency)
    assert not torch.equal(recount.k_probs, whole.k_probs)
    assert not torch.equal(joint.slots(signals.k).slots.frequency, frequency)


# ---------------------------------------------------------------------- claims


def network(frontier: float, error: float, seeds: int = 3, parameters: float = 2e6) -> Any:
    """What is gathered of a network that gets better by 0.1 between its two points."""
    spread = 0.01 if seeds > 1 else None
    counts = [[frontier - 0.1, spread], [frontier, spread]]
    symbols = {symbol: [[2 * error, spread], [error, spread]] for symbol in ("A", "φ", "f")}
    return {"parameters": parameters, "seeds": seeds, "signals": [100, 200], "frontier": counts,
            "nominal": counts, "width": symbols, "error": symbols}  # fmt: skip


def verdicts(data: Any) -> dict[str, bool | None]:
    return {row.measure: row.met for row in compare(data) if row.target is not None}


def test_claims_follow_the_numbers() -> None:
    joint, recount = (f"{BASE}, {words}" for words in PARTS)
    data = {
        BASE: network(0.8, 1.0),
        joint: network(0.79, 1.5),
        recount: network(0.7, 1.0),
        "8 M": network(0.9, 1.0, parameters=8e6),
    }
    assert list(verdicts(data).values()) == [True, True, True, True, True]
    wrong = data | {
        joint: network(0.5, 1.01),
        recount: network(0.81, 1.0),
        "8 M": network(0.75, 1.0, parameters=8e6),
    }
    assert list(verdicts(wrong).values()) == [False, False, False, True, False]


def test_one_seed_decides_nothing_and_a_part_of_the_rounds_is_enough() -> None:
    alone = verdicts({BASE: network(0.8, 1.0, seeds=1)})
    assert list(alone.values()) == [None]
    assert not verdicts({"8 M": network(0.8, 1.0)})


def test_the_sentence_that_pages_quote() -> None:
    assert "not known yet" in learned_part(None)
    joint = f"{BASE}, without joint steps"
    data = {BASE: network(0.8, 1.0), "released": network(0.95, 1.01), joint: network(0.75, 1.5)}
    text = learned_part(data)
    assert "1.000 ± 0.01 times the bound and counts 0.800 ± 0.01" in text
    assert "trained without joint steps, 1.500 ± 0.01 and 0.750 ± 0.01" in text
    assert "the errors depend on" in text
    assert "after 100 they are 2.000 ± 0.01 with the steps and 3.000 ± 0.01 without" in text
    assert "second count" not in text and "released weights: 1.010 ± 0.01" in text
    alike = learned_part(data | {joint: network(0.8, 1.01)})
    assert "the errors hardly depend on" in alike


def test_errors_without_joint_steps_are_compared_at_every_number_of_signals() -> None:
    data = {BASE: network(0.8, 1.0), f"{BASE}, without joint steps": network(0.8, 1.2)}
    rows = [row for row in compare(data) if row.measure.startswith("error of f, without")]
    assert [row.value for row in rows] == pytest.approx([1.2, 1.2])
    assert [row.met for row in rows] == [None, True] and rows[0].target is None
    spread = 1.2 * ((0.01 / 1.2) ** 2 + 0.01**2) ** 0.5  # independent errors of 1.2 and 1.0
    assert rows[1].error == pytest.approx(spread)
