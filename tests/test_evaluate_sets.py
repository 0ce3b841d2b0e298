"""Evaluation: the sets of signals, their seeds and batches, and what is kept of an analysis."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from oracle_helpers import Oracle

from slotflow import Prior
from slotflow.core.seeds import TRAINING_SEED
from slotflow.studies.suites.results import run_set
from slotflow.studies.suites.sets import SETS, SignalSet, batches, default_batch, suite_seed
from slotflow.studies.suites.sizes import Sizes

CPU = torch.device("cpu")


def test_sets_are_those_of_the_issue() -> None:
    for name in ("nominal", "k1", "k2", "k5", "k10"):
        assert SETS[name].prior == Prior()
    assert [SETS[f"k{k}"].k for k in (1, 2, 5, 10)] == [1, 2, 5, 10]
    for name, gap in (("stress", 0.004), ("frontier", 0.0)):
        prior = SETS[name].prior
        assert (prior.k_min, prior.k_max, prior.sigma, prior.min_separation) == (
            5,
            10,
            (1.0, 2.0),
            gap,
        )
    assert SETS["noise"].k == 0 and SETS["noise"].prior == Prior(k_min=0)
    assert len({signals.number for signals in SETS.values()}) == len(SETS)


def test_no_seed_is_a_training_seed_or_used_twice() -> None:
    seeds = [
        suite_seed(signals.number, batch, user)
        for signals in SETS.values()
        for batch in (0, 1, 2**24 - 1)
        for user in (0, 1, 2**28 - 1)
    ]
    assert len(set(seeds)) == len(seeds)
    assert max(seeds) < TRAINING_SEED
    assert min(seeds) >= 2**60
    with pytest.raises(ValueError, match="expected a seed"):
        suite_seed(0, 0, 2**28)


def test_batches_are_physical_and_repeat_themselves(seed: int) -> None:
    args = (SETS["stress"], 7, 3, seed % 2**20, CPU)
    first, second = list(batches(*args)), list(batches(*args))
    assert [len(sim.k) for sim in first] == [3, 3, 1]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.long, b.long)
    assert not torch.equal(first[0].long, first[1].long)
    assert first[0].short is not None and first[0].short.shape[1] == 5120
    (quiet,) = batches(SETS["noise"], 4, 4, seed % 2**20, CPU)
    assert quiet.short is not None and quiet.k.tolist() == [0] * 4
    assert torch.equal(quiet.long[:, 0], quiet.short[:, 0])  # both streams share the noise at t = 0


def test_default_batch_bounds_the_memory() -> None:
    cuda = torch.device("cuda")
    assert default_batch(CPU, 100, 10) == 500 and default_batch(cuda, 100, 10) == 2000
    for device, limit in ((CPU, 2**27), (cuda, 2**29)):
        assert default_batch(device, 5000, 10) * 5000 * 10 * 3 * 8 <= limit
    assert default_batch(CPU, 10**9, 10) == 1


def test_run_set_keeps_what_is_asked_for(seed: int) -> None:
    seen: list[int] = []
    signals = SignalSet(200, Prior(k_min=0, k_max=3), catalogue=True)
    options: dict[str, Any] = {"sizes": Sizes(20, 50, batch=8), "seed": seed % 2**20}
    result = run_set(Oracle(doubt=0.4), signals, advance=seen.append, **options)
    assert seen == [8, 8, 4] and result.n == 20
    assert result.tones is not None and result.bound is not None and result.catalogue is not None
    assert result.tones.level.shape == result.bound.shape == (20, 3, 3)
    assert result.catalogue.shape == (20, 3) and result.k_probs.shape == (20, 4)
    assert ((result.bound > 0).all(-1) == result.mask).all()
    assert ((result.tones.sd > 0).all(-1) == result.mask).all()
    again = run_set(Oracle(doubt=0.4), signals, **options)
    assert again.tones is not None and torch.equal(again.tones.level, result.tones.level)
    other = run_set(
        Oracle(), SignalSet(200, Prior(), tones=False), Sizes(5, batch=5), seed=seed % 2**20
    )
    assert other.tones is None and other.bound is None and other.exact.all()


def test_run_set_refuses_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        run_set(Oracle(width=math.nan), SETS["k1"], Sizes(3, 5))
    with pytest.raises(ValueError, match="n >= 1"):
        run_set(Oracle(), SETS["k1"], Sizes(0))
