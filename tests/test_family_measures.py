"""Scores of the family network on slots of known quality: at the truth they are efficient, beside it they are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from family_helpers import small_config

from slotflow.core.seeds import EVALUATION_SEED
from slotflow.network.family.mixtures import Mixtures
from slotflow.network.family.model import FamilySlotFlow
from slotflow.network.family.network import Pass
from slotflow.network.family.places import Places
from slotflow.network.family.slots import Begun
from slotflow.studies.measures.family import FamilyScores, family_rows, family_scores


def scores(beside: float, size: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Scores of a network whose slots start some bins beside the truth, and whose flows are still the identity."""
    torch.manual_seed(0)
    model = FamilySlotFlow(small_config().model).eval()
    batch = Mixtures(model.config, torch.device("cpu")).draw(size, EVALUATION_SEED, varied=False)
    move = beside * (torch.arange(model.parts.units.shapes) == 0)

    def given(answer: Pass, k: torch.Tensor) -> Begun:
        places = Places(batch.raw + move, batch.kind, torch.ones(batch.mask.shape))
        return model.parts.slots.begin(model.parts.units, answer.seen, places, batch.mask)

    monkeypatch.setattr(model.parts, "given", given)
    return family_scores(model, size, batch_size=size).plain()


def test_slots_at_the_truth_are_efficient_and_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scores(0.1, 100, monkeypatch)
    assert found["classes"]["above 10"] > 0.95
    for name, errors in found["error over the bound"].items():
        assert errors.pop("wrong place") < 0.05
        assert all(0.7 < error < 1.4 for error in errors.values()), (name, errors)
        covered = found["coverage minus level"][name]
        allowed = 1.6 * covered.pop("by chance")
        assert max(abs(value) for value in covered.values()) < allowed, name


def test_slots_beside_it_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scores(5.0, 30, monkeypatch)
    assert found["classes"]["above 10"] < 0.9
    assert found["error over the bound"]["tone"]["frequency"] > 2
    assert found["coverage minus level"]["tone"]["frequency"] < -0.2


def test_rows_of_a_card_have_their_targets() -> None:
    scores = FamilyScores(
        {"signals": 100.0, "right": 0.95, "ece": 0.03},
        {"above 10": 0.98},
        {"tone": {"frequency": 1.06, "wrong place": 0.01}, "chirp": dict.fromkeys("abcde", 1.06)},
        {"tone": {"frequency": 1.05, "wrong place": 0.0}, "chirp": dict.fromkeys("abcde", 1.0)},
        {"tone": {"frequency": -0.03, "by chance": 0.01}},
    )
    met = {row.measure: row.met for row in family_rows(scores)}
    assert met["K right"] and not met["ECE of K"] and met["class right above 10, K given"]
    assert not met["robust error over the bound, tone, frequency"]
    assert met["robust error over the bound, chirp, a"]
    notes = {row.measure: row.note for row in family_rows(scores)}
    assert notes["robust error over the bound, tone, frequency"] == "a fit from the truth: 1.05"
    assert not met["largest coverage minus level, tone, frequency"]
    assert not any("chance" in measure or "wrong" in measure for measure in met)
