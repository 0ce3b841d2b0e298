"""The catalogue of many signals in Python: what it refuses, and what it says of its shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slotflow
from slotflow.data.observation import Observation


@pytest.fixture
def signals(seed: int) -> list[Observation]:
    """Three series of noise."""
    x = np.random.default_rng(seed).normal(size=(3, 64))
    return [Observation.from_arrays(row, 0.1) for row in x]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"drws": 200}, "received 'drws'; correct or drop it"),
        ({"method": "networ"}, "expected method to be one of .*, received 'networ'"),
        ({"method": "exact", "refine": False}, "refine=False asks for the network's answer alone"),
    ],
)
def test_what_no_signal_can_be_asked_is_refused_at_once(
    signals: list[Observation], tmp_path: Path, options: dict[str, Any], complaint: str
) -> None:
    """Instead of a list of failures, one for each signal."""
    with pytest.raises(ValueError, match=complaint):
        slotflow.catalogue(signals, tmp_path / "out", model="debug", **options)
    assert not (tmp_path / "out").exists()


def test_an_empty_shard_says_so(signals: list[Observation], tmp_path: Path) -> None:
    """And is no failure."""
    with pytest.warns(UserWarning, match=r"shard 1 of 3 is empty: .* a chunk of 1 \(--chunk 1\)"):
        found = slotflow.catalogue(signals, tmp_path, model="debug", shard="1/3")
    assert found.computed == 0 and found.signals.empty and found.failed.empty
