"""Reproduction: what slots do when noise or components change, and what their latent vectors know."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from oracle_helpers import Oracle, OracleAnalysis, OracleSlots
from reproduce_helpers import bench, row, simulated
from statistics_helpers import assert_within
from torch import Tensor

from slotflow import Prior, Simulation
from slotflow.signal.simulation import tones
from slotflow.studies.measures.matching import assign, consistency, explained, match_matrix
from slotflow.studies.measures.regression import explained_by, linear, neighbours, standardised
from slotflow.studies.paper.latent.contexts import _isomap
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.slots.changes import changes, variants
from slotflow.studies.suites.sets import GRIDS, NOMINAL, SignalSet

# --- slots ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ShuffledSlots:
    """An oracle's slots under other numbers."""

    inner: OracleSlots
    order: Tensor

    @property
    def mask(self) -> Tensor:
        return self.inner.mask.gather(1, self.order)

    def sample(self, n: int, seed: int) -> Tensor:
        draws = self.inner.sample(n, seed)
        return draws.gather(2, self.order[:, None, :, None].expand_as(draws))


@dataclass(frozen=True, eq=False)
class ShuffledAnalysis:
    inner: OracleAnalysis
    order: Tensor

    @property
    def k_probs(self) -> Tensor:
        return self.inner.k_probs

    def slots(self, k: Tensor | None = None) -> ShuffledSlots:
        return ShuffledSlots(self.inner.slots(k), self.order)


class Shuffled:
    """An oracle that numbers the slots of every signal at random."""

    def analyse(self, simulation: Simulation, prior: Prior) -> ShuffledAnalysis:
        generator = torch.Generator().manual_seed(simulation.seed % 2**31)
        order = torch.rand(simulation.theta.shape[:2], generator=generator).argsort(1)
        return ShuffledAnalysis(Oracle().analyse(simulation, prior), order)


def test_consistency_is_that_of_all_pairs_of_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = np.stack([rng.permutation(5) for _ in range(12)])
    pairs = [np.mean(a == b) for a, b in itertools.combinations(chosen, 2)]
    assert consistency(match_matrix(chosen)) == pytest.approx(np.mean(pairs))
    assert consistency(match_matrix(chosen[:1].repeat(4, axis=0))) == 1.0


def test_slots_in_order_and_slots_at_random(seed: int) -> None:
    ordered = RESULTS["slots"].run(bench(Oracle(), seed, 500, draws=20))
    shuffled = RESULTS["slots"].run(bench(Shuffled(), seed, 500, draws=20))
    assert ordered["explained_frequency"] == ordered["explained_if_sorted"] > 0.8
    # By chance the means of ten columns of 50 vary by 1/50 of the variance, give or take √(2/9) of that.
    assert_within(shuffled["explained_frequency"], 1 / 50, (2 / 9) ** 0.5 / 50)
    for data, expected in ((ordered, 1.0), (shuffled, 0.1)):
        assert row("slots", data, "consistency, repeated inference").value == 1.0
        fresh = row("slots", data, "consistency, fresh noise").value
        assert fresh == pytest.approx(expected, abs=0.05)
        assert data["repeated"]["largest_offset"] < 0.001
    assert explained(np.tile(np.arange(4.0), (3, 1))) == pytest.approx(1.0)


def test_slots_matched_by_frequency_are_those_matched_by_density(zoom: Any, seed: int) -> None:
    (sim,) = simulated(SignalSet(90, NOMINAL, k=10), 2, seed)
    slots = zoom.analyse(sim, NOMINAL).slots(sim.k)
    truth = sim.theta.numpy()
    by_frequency = assign(slots.sample(50)[..., 2].median(1).values.numpy(), truth[..., 2])
    cost = -slots.log_prob(sim.theta[None])[0]  # (B, slot, component)
    assert np.array_equal(by_frequency, cost.argmin(-1).numpy())


# --- slots when a component comes, goes or moves -------------------------------------------------


def test_variants_keep_separation_and_noise(seed: int) -> None:
    (seven,) = simulated(SignalSet(91, NOMINAL, k=7), 20, seed)
    found, distance = variants(seven, np.random.default_rng(seed))
    assert seven.short is not None
    noise = [
        x - tones(seven.theta, g) for x, g in zip((seven.long, seven.short), GRIDS, strict=True)
    ]
    for name, k in (("before", 6), ("insertion", 7), ("removal", 5), ("shift", 6)):
        sim, label = found[name].simulation, found[name].label
        assert sim.k.tolist() == [k] * 20 and label.shape == (20, k)
        f = sim.theta[:, :k, 2]
        assert bool((f.diff(dim=1) >= NOMINAL.min_separation - 1e-9).all())
        assert not bool(sim.theta[:, k:].any()) and sim.short is not None
        for x, grid, rest in zip((sim.long, sim.short), GRIDS, noise, strict=True):
            assert torch.allclose(x - tones(sim.theta, grid), rest, atol=1e-4)
        amplitude = seven.theta[:, :7, 0].gather(1, torch.as_tensor(label))
        assert torch.equal(sim.theta[:, :k, 0], amplitude)  # labels name the components
    # One component is at the place of an insertion, one was at that of a removal, and a shift has two.
    assert [(d == 0).sum(1).tolist() for d in distance] == [[1] * 20, [1] * 20, [2] * 20]


def test_changes_of_an_oracle_are_those_of_fresh_noise(seed: int) -> None:
    """Estimates that share no noise before and after are √2 standard deviations apart."""

    class Fresh(Oracle):
        calls = 0

        def analyse(self, simulation: Simulation, *rest: Any) -> OracleAnalysis:
            Fresh.calls += 100
            return super().analyse(replace(simulation, seed=simulation.seed + Fresh.calls), *rest)

    data = changes(bench(Fresh(), seed, 1000, draws=200))
    for kind, found in data.items():
        assert found["found_after"] == found["found_before"] == 1.0
        assert found["untouched"] == 100 * {"insertion": 6, "removal": 5, "shift": 5}[kind]
        # 500 moves of three parameters each, which are correlated; chance makes the mean square 2 ± 2 √(2/500).
        assert_within(np.mean(np.square(found["rms"])), 2.0, 2 * (2 / found["untouched"]) ** 0.5)
    # A seventh component renumbers those above it: half of the six on average, uniformly from none to all.
    assert_within(data["insertion"]["same_number"], 0.5, 0.33 / 100**0.5)
    lost = changes(bench(Oracle(error=200.0), seed, 200, draws=50))
    assert lost["shift"]["found_after"] < 0.9


# --- latent space --------------------------------------------------------------------------------


def test_regressions_find_what_is_there_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = np.stack(
        [rng.uniform(0.5, 1.5, 600), rng.uniform(0, 6.28, 600), rng.uniform(2.5, 3, 600)], -1
    )
    signal = np.repeat(np.arange(60), 10)
    x = standardised(
        np.stack([theta[:, 0], np.cos(theta[:, 1]), np.sin(theta[:, 1]), np.ones(600)], -1)
    )
    assert x.shape == (600, 3)
    for method in (neighbours, linear):
        a, phi, f = explained_by(x, theta, signal, method)
        assert a > 0.9 and phi > 0.9 and f < 0.05
    # What only the other slots of the same signal know does not count: here a vector names its signal.
    shared = theta.reshape(60, 10, 3)[:, :1].repeat(10, axis=1).reshape(600, 3)
    names = rng.normal(size=(60, 4)).repeat(10, axis=0)
    assert max(explained_by(names, shared, signal, neighbours)) < 0.2
    everyone = neighbours(names, shared, names)
    assert (
        np.abs(everyone - shared).max() < 1e-9
    )  # the control: the signal's own slots give it away


def test_latent_space_needs_contexts_and_its_extra(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="preset zoom or paper"):
        RESULTS["latent"].run(bench(Oracle(), seed, 20, draws=20))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ValueError, match=r"slotflow\[reproduce\]"):
        _isomap(np.zeros((20, 2)))
