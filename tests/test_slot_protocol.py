"""The paper's protocol: each component compared with the draws of its own slot, beside draws sorted by frequency."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from oracle_helpers import Oracle, OracleAnalysis, OracleSlots
from reproduce_helpers import bench, row, simulated, small_paper_network
from statistics_helpers import assert_within
from torch import Tensor

from slotflow import Prior, Simulation
from slotflow.studies.measures.tones import summarise, summarise_slots
from slotflow.studies.paper import pooled
from slotflow.studies.paper.pooled import PooledAnalyser
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.slots import matched_pairs
from slotflow.studies.suites.results import matched_components
from slotflow.studies.suites.sets import NOMINAL, SignalSet

MIXTURES = SignalSet(94, NOMINAL)


@dataclass(frozen=True, eq=False)
class PairedSlots:
    """An oracle's slots under other numbers, with a density by which they can be matched.

    With `shared` every slot takes each draw from its own component or from its neighbour's, with equal probability.
    """

    inner: OracleSlots
    order: Tensor
    shared: bool

    @property
    def mask(self) -> Tensor:
        return self.inner.mask.gather(1, self.order)

    def sample(self, n: int, seed: int) -> Tensor:
        draws = self.inner.sample(n, seed)
        if self.shared:
            other = draws.clone()
            for i, k in enumerate(self.inner.k.tolist()):
                pairs = torch.arange(k - k % 2).reshape(-1, 2)
                other[i, :, pairs.flatten()] = draws[i, :, pairs.flip(1).flatten()]
            generator = torch.Generator().manual_seed(seed % 2**31)
            own = torch.rand(draws.shape[:3], generator=generator) < 0.5
            draws = torch.where(own[..., None], draws, other)
        return draws.gather(2, self.order[:, None, :, None].expand_as(draws))

    def pair_log_prob(self, theta: Tensor) -> Tensor:
        """That of a Gaussian of f; the width is the same for all, which is all that a matching of close slots needs."""
        distance = (
            self.inner.estimate[..., 2].gather(1, self.order)[:, :, None] - theta[:, None, :, 2]
        )
        return -(distance**2)


@dataclass(frozen=True, eq=False)
class PairedAnalysis:
    inner: OracleAnalysis
    order: Tensor
    shared: bool

    @property
    def k_probs(self) -> Tensor:
        return self.inner.k_probs

    def slots(self, k: Tensor | None = None) -> PairedSlots:
        return PairedSlots(self.inner.slots(k), self.order, self.shared)


@dataclass(frozen=True)
class Paired:
    """An oracle whose slots have numbers at random among those that exist."""

    shared: bool = False

    def analyse(self, simulation: Simulation, prior: Prior) -> PairedAnalysis:
        generator = torch.Generator().manual_seed(simulation.seed % 2**31)
        chance = torch.rand(simulation.theta.shape[:2], generator=generator)
        order = torch.where(simulation.mask, chance, 2.0).argsort(1)
        return PairedAnalysis(Oracle().analyse(simulation, prior), order, self.shared)


# --- the measure ---------------------------------------------------------------------------------


def two_slots(n: int, seed: int, shared: bool) -> tuple[Tensor, Tensor]:
    """Draws of two slots, (1, n, 2, 3), and two components 1 apart, (1, 2, 3)."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.tensor([[[1.0, 0.5, 2.0], [1.0, 0.5, 3.0]]], dtype=torch.float64)
    draws = truth[:, None].expand(1, n, 2, 3).clone()
    if shared:
        draws[..., 2] = 2.0 + torch.randint(0, 2, (1, n, 2), generator=generator)
    noise = torch.randn(1, n, 2, 3, generator=generator, dtype=torch.float64)
    return draws + 1e-3 * noise, truth


def test_slots_that_know_their_component_are_alike_in_both_ways(seed: int) -> None:
    draws, truth = two_slots(500, seed, shared=False)
    mask, swapped = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[1, 0]])
    ordered = summarise(draws, truth, mask, seed)
    for slots, component in ((draws, torch.tensor([[0, 1]])), (draws.flip(2), swapped)):
        by_slot = summarise_slots(slots, truth, component, mask, seed)
        for name in ("median", "sd", "level"):
            assert torch.equal(getattr(by_slot, name), getattr(ordered, name)), name
    wrong = summarise_slots(
        draws, truth, swapped, mask, seed
    )  # the control: the other slot's draws
    assert torch.allclose(
        (wrong.median - truth)[..., 2].abs(), torch.ones(1, 2).double(), atol=0.01
    )


def test_slots_that_share_two_components_are_wider_than_their_sorted_draws(seed: int) -> None:
    """By d/2 against √3 d/4: the smaller of two fair choices is the lower one in three of four draws."""
    n = 20_000
    draws, truth = two_slots(n, seed, shared=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    by_slot = summarise_slots(draws, truth, torch.tensor([[0, 1]]), mask, seed).sd[0, :, 2]
    ordered = summarise(draws, truth, mask, seed).sd[0, :, 2]
    # The variance of a choice is p (1 − p); that of its estimate (1 − 2p)² p (1 − p) / n, and less than 1/n at p = 1/2.
    assert_within(by_slot.numpy(), 0.5, 1 / n + 1e-6)
    assert_within(
        ordered.numpy(), math.sqrt(3) / 4, math.sqrt(0.25 * 3 / 16 / n) / (math.sqrt(3) / 2)
    )


# --- the networks --------------------------------------------------------------------------------


@torch.inference_mode()
def test_densities_of_the_papers_network_pair_by_pair(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network: Any = small_paper_network()
    (sim,) = simulated(MIXTURES, 5, seed)
    slots = PooledAnalyser(network).analyse(sim, NOMINAL).slots(sim.k)
    found = slots.pair_log_prob(sim.theta)
    assert found.shape == (5, 10, 10)
    assert torch.equal(found.isfinite(), sim.mask[:, :, None] & sim.mask[:, None, :])
    contexts = network.flow.project(slots.contexts())
    first = sim.k.cumsum(0) - sim.k
    for b, k in enumerate(sim.k.tolist()):
        own = network.flow.distribution(contexts[first[b] : first[b] + k])
        y = network.target.encode(sim.theta[b, :k]).float()
        assert torch.allclose(
            found[b, :k, :k].T, own.log_prob(y[:, None].expand(-1, k, -1)), atol=1e-4
        )
    monkeypatch.setattr(
        pooled, "FLOW_BYTES", {"cpu": 7 * 2 * 16 * 4, "cuda": 0}
    )  # seven pairs at once
    assert torch.allclose(slots.pair_log_prob(sim.theta), found, atol=1e-5)
    component = matched_components(slots, sim)
    rows = matched_pairs(network, sim) - first[torch.repeat_interleave(sim.k)]
    assert torch.equal(component[sim.mask], rows)


def test_the_noise_pathway_of_a_batch_is_that_of_single_signals(seed: int) -> None:
    network: Any = small_paper_network(noise=True)
    (sim,) = simulated(MIXTURES, 18, seed)  # more than are encoded at once
    found = PooledAnalyser(network).analyse(sim, NOMINAL).sigma_estimate
    assert found is not None and found.shape == (18,)
    for i in (0, 17):
        assert network.infer(sim.observation(i), refine=False).noise_std == pytest.approx(
            float(found[i]), rel=1e-4
        )
    assert PooledAnalyser(small_paper_network()).analyse(sim, NOMINAL).sigma_estimate is None  # type: ignore[arg-type]


def test_densities_of_the_default_network_pair_by_pair(zoom: Any, seed: int) -> None:
    """They differ from the restricted densities by a constant for each slot, and slots stand in the order of f."""
    (sim,) = simulated(MIXTURES, 3, seed)
    slots = zoom.analyse(sim, NOMINAL).slots(sim.k)
    found, restricted = slots.pair_log_prob(sim.theta), slots.log_prob(sim.theta[None])[0]
    for b, k in enumerate(sim.k.tolist()):
        gap = (restricted - found)[b, :k, :k]
        finite = gap.isfinite().all(-1)
        assert torch.allclose(gap[finite], gap[finite][:, :1].expand(-1, k), atol=1e-9)
    component = matched_components(slots, sim)
    assert component[sim.mask].tolist() == [i for k in sim.k.tolist() for i in range(k)]


def test_a_set_has_both_summaries_whatever_the_slots_are_called(seed: int) -> None:
    scaling = RESULTS["scaling"].run(bench(Paired(), seed, 60, draws=50))
    assert list(scaling["methods"]) == ["network", "slots"]
    for ordered, by_slot in zip(
        *(scaling["methods"][name]["by_k"] for name in ("network", "slots")), strict=True
    ):
        np.testing.assert_allclose(ordered["sd"], by_slot["sd"])  # no two tones of it overlap
        np.testing.assert_allclose(ordered["bias"], by_slot["bias"], atol=1e-12)
    calibration = RESULTS["calibration"].run(bench(Paired(), seed, 60, draws=50))
    for name, found in calibration["methods"]["network"].items():
        np.testing.assert_allclose(
            calibration["methods"]["slots"][name]["coverage"], found["coverage"]
        )
    assert row(
        "scaling", scaling, "sd of f, slot by slot over sorted, K = 10"
    ).value == pytest.approx(1)
    asked = [r.measure for r in RESULTS["scaling"].compare(scaling) if r.target is not None]
    assert asked and not [measure for measure in asked if "slot by slot" in measure]
    found = RESULTS["slots"].run(bench(Paired(), seed, 100, draws=20))
    assert (
        row("slots", found, "slots that take the same component by density and by frequency").value
        == 1
    )


def test_slots_that_share_components_show_in_the_results(seed: int) -> None:
    """Both f and A of a pair are parted by sorting; what a slot says of itself is wider, and holds the truth."""
    scaling = RESULTS["scaling"].run(bench(Paired(shared=True), seed, 60, draws=100))
    for symbol in "Af":
        wider = row("scaling", scaling, f"sd of {symbol}, slot by slot over sorted, K = 10").value
        # 2/√3 for every pair of the same width; draws of a pair give it to 10 %, and wide pairs weigh more.
        assert wider == pytest.approx(2 / math.sqrt(3), abs=0.1), symbol
    one = scaling["methods"]["slots"]["by_k"][0]
    assert (
        one["sd"] == scaling["methods"]["network"]["by_k"][0]["sd"]
    )  # a single tone has no neighbour
