"""Evaluation: each measure against hand and brute force, and the suite on posteriors known to be right or wrong.

The oracle knows the truth. Its estimate is the truth plus a draw of the joint Cramér–Rao Gaussian, and its draws are
the same Gaussian around the estimate, so that truth and draws follow one law: a calibrated, efficient posterior.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from statistics_helpers import assert_within
from torch import Tensor
from training_helpers import python
from typer.testing import CliRunner

from slotflow import Prior, Simulation, SlotFlow
from slotflow.baselines import classical
from slotflow.batches import TRAINING_SEED
from slotflow.cli import app
from slotflow.evaluate import Report, Row, Target, crb_covariance, quick_report, run_suite
from slotflow.evaluate.calibration import LEVELS, coverage, deviation_of_perfect
from slotflow.evaluate.cardinality import confusion, ece, ece_of_perfect, top_label
from slotflow.evaluate.catalogue import compare_catalogues
from slotflow.evaluate.precision import errors, mean_relative, precision, robust_sd
from slotflow.evaluate.rivals import classical_exact
from slotflow.evaluate.rows import TARGETS
from slotflow.evaluate.sets import (
    SETS,
    SignalSet,
    batches,
    default_batch,
    run_set,
    suite_seed,
)
from slotflow.evaluate.suite import PARTS, check_analyser
from slotflow.evaluate.timing import throughput
from slotflow.evaluate.tones import midpoint, sort_by_frequency, summarise, wrap
from slotflow.simulate import spread_seed

CPU = torch.device("cpu")


# --- posteriors known to be right or wrong -------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OracleSlots:
    """Independent Gaussians per slot, as many as asked for; slots beyond the true ones sit anywhere in the band."""

    k: Tensor
    estimate: Tensor
    factor: Tensor

    @property
    def mask(self) -> Tensor:
        device = self.estimate.device
        return torch.arange(self.estimate.shape[1], device=device) < self.k.to(device)[:, None]

    def sample(self, n: int, seed: int) -> Tensor:
        size, slots, _ = self.estimate.shape
        z = _normal(self.estimate.device, seed, size, n, slots, 3, 1)
        draws = self.estimate[:, None] + (self.factor[:, None] @ z).squeeze(-1)
        draws[..., 1] = torch.remainder(draws[..., 1], 2 * math.pi)
        return torch.where(self.mask[:, None, :, None], draws, 0.0)


@dataclass(frozen=True, eq=False)
class OracleAnalysis:
    k_probs: Tensor
    estimate: Tensor
    factor: Tensor

    def slots(self, k: Tensor | None = None) -> OracleSlots:
        return OracleSlots(
            self.k_probs.argmax(-1).cpu() if k is None else k, self.estimate, self.factor
        )


@dataclass(frozen=True)
class Oracle:
    """A posterior of known quality."""

    width: float = 1.0
    """Factor on the standard deviation of the draws; 1 is calibrated."""
    error: float = 1.0
    """Factor on the error of the estimate."""
    doubt: float = 0.0
    """Largest probability of the wrong one of two counts, drawn uniformly; 0: the count is certain."""
    boast: float = 1.0
    """Factor by which the stated doubt is too small."""

    @torch.inference_mode()
    def analyse(
        self, simulation: Simulation, prior: Prior, k_prior: object = None
    ) -> OracleAnalysis:
        truth, mask = simulation.theta, simulation.mask
        size, slots, _ = truth.shape
        generator = torch.Generator().manual_seed(spread_seed(simulation.seed + 1))
        device = truth.device
        covariance = crb_covariance(truth, simulation.sigma, simulation.grids, mask)
        covariance = torch.where(covariance.isfinite(), covariance, 0.0)
        covariance = covariance + 1e-24 * torch.eye(3 * slots, dtype=torch.float64, device=device)
        z = _normal(device, spread_seed(simulation.seed + 2), size, 3 * slots, 1)
        shift = (_cholesky(covariance) @ z).reshape(size, slots, 3)
        band = torch.rand(size, slots, generator=generator, dtype=torch.float64).to(device)
        spare = torch.stack([torch.ones_like(band), band, 2.5 + 0.5 * band], -1)
        estimate = torch.where(mask[..., None], truth + self.error * shift, spare)
        blocks = covariance.reshape(size, slots, 3, slots, 3).diagonal(dim1=1, dim2=3)
        factor = self.width * _cholesky(blocks.permute(0, 3, 1, 2))
        count = self._count(simulation.k, prior, generator).to(device)
        return OracleAnalysis(count, estimate, factor)

    def _count(self, k: Tensor, prior: Prior, generator: torch.Generator) -> Tensor:
        doubt = self.doubt * torch.rand(len(k), generator=generator, dtype=torch.float64)
        wrong = torch.rand(len(k), generator=generator, dtype=torch.float64) < doubt
        other = torch.where(k < prior.k_max, k + 1, k - 1)
        first, second = torch.where(wrong, other, k), torch.where(wrong, k, other)
        stated = (doubt / self.boast)[:, None]
        probs = torch.zeros(len(k), prior.k_max + 1, dtype=torch.float64)
        return probs.scatter(1, first[:, None], 1 - stated).scatter(1, second[:, None], stated)


def _normal(device: torch.device, seed: int, *shape: int) -> Tensor:
    """Normal numbers on a device."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device=device)


def _cholesky(covariance: Tensor) -> Tensor:
    """Factor of (..., d, d), through a unit diagonal."""
    scale = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    unit = covariance / (scale[..., :, None] * scale[..., None, :])
    jitter = 1e-12 * torch.eye(covariance.shape[-1], dtype=torch.float64, device=scale.device)
    return scale[..., None] * torch.linalg.cholesky_ex(unit + jitter)[0]


def missed(report: Report) -> set[str]:
    return {row.measure for row in report.missed}


# --- the count -----------------------------------------------------------------------------------


def test_ece_by_hand() -> None:
    confidence = torch.tensor([0.95, 0.95, 0.55, 0.55, 1.0], dtype=torch.float64)
    correct = torch.tensor([True, True, True, False, True])
    # Last bin: 3 right of 3 at a mean confidence of 2.9 / 3; sixth bin: 1 of 2 at 0.55.
    assert float(ece(confidence, correct)) == pytest.approx(3 / 5 * (0.1 / 3) + 2 / 5 * 0.05)
    both = torch.stack([correct, ~correct])
    assert ece(confidence, both).shape == (2,)
    assert float(ece(confidence, both)[0]) == float(ece(confidence, correct))


def test_ece_of_perfect_is_that_of_labels_from_the_posterior(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    k_probs = (4 * torch.randn(600, 11, generator=generator, dtype=torch.float64)).softmax(-1)
    k_map, confidence = top_label(k_probs)
    labels = torch.multinomial(k_probs, 400, replacement=True, generator=generator).T  # (400, 600)
    direct = ece(confidence, labels == k_map)
    mean, high = ece_of_perfect(k_probs, repeats=400, seed=seed)
    assert_within(mean, float(direct.mean()), float(direct.std()) * math.sqrt(2 / 400))
    assert float((direct < high).double().mean()) == pytest.approx(0.95, abs=5 * 0.0154)
    # A posterior that is too sure of itself shows more.
    sharp = (4 * k_probs.log()).softmax(-1)
    assert float(ece(top_label(sharp)[1], labels[0] == k_map)) > ece_of_perfect(sharp)[1]


def test_confusion() -> None:
    k, k_map = torch.tensor([1, 2, 2, 3, 0]), torch.tensor([1, 2, 3, 3, 1])
    table = confusion(k_map, k, 3)
    assert table.tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]


# --- tones ---------------------------------------------------------------------------------------


def test_draws_are_sorted_one_by_one() -> None:
    draws = torch.tensor([[[[1.0, 0.1, 3.0], [0, 0, 0], [2.0, 0.2, 2.6]]] * 2])
    draws[0, 1, 0, 2] = 2.5
    found = sort_by_frequency(draws, torch.tensor([[True, False, True]]))
    assert found[0, :, :, 0].tolist() == [[2.0, 1.0, 0.0], [1.0, 2.0, 0.0]]


@pytest.mark.parametrize("n", [200, 201])
def test_summary_against_numpy(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    draws = rng.normal([1.0, 3.0, 2.7], [0.1, 0.2, 0.001], (4, n, 1, 3))
    truth = rng.normal([1.0, 3.0, 2.7], [0.1, 0.2, 0.001], (4, 1, 3))
    mask = torch.ones(4, 1, dtype=torch.bool)
    found = summarise(torch.tensor(draws), torch.tensor(truth), mask, seed)
    np.testing.assert_allclose(found.median[:, 0], np.median(draws[:, :, 0], axis=1), atol=1e-12)
    np.testing.assert_allclose(found.sd[:, 0], draws[:, :, 0].std(1, ddof=1), atol=1e-12)
    below = (draws[:, :, 0] < truth).sum(1)
    assert (below / (n + 1) <= found.level[:, 0].numpy()).all()
    assert (found.level[:, 0].numpy() < (below + 1) / (n + 1)).all()


def test_phases_do_not_mind_where_the_circle_is_cut(seed: int) -> None:
    """Turning truth and draws together turns the median and nothing else."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randn(50, 101, 2, 3, generator=generator, dtype=torch.float64) * 0.3
    draws[..., 2] += torch.tensor([2.6, 20.0])
    truth = draws[:, 0].clone()
    mask = torch.ones(50, 2, dtype=torch.bool)
    results = []
    for turn in (0.0, 3.0):
        moved, true = draws[:, 1:].clone(), truth.clone()
        moved[..., 1] = torch.remainder(moved[..., 1] + turn, 2 * math.pi)
        true[..., 1] = torch.remainder(true[..., 1] + turn, 2 * math.pi)
        results.append(summarise(moved, true, mask, seed))
    cut, whole = results
    assert (cut.sd[..., 1] < 0.5).all()
    assert torch.allclose(cut.sd, whole.sd)
    assert torch.allclose(cut.level, whole.level)
    turned = wrap(whole.median[..., 1] - cut.median[..., 1] - 3.0)
    assert turned.abs().max() < 1e-9


def test_absent_tones_count_nothing() -> None:
    draws, truth = torch.rand(3, 20, 4, 3).double(), torch.rand(3, 4, 3).double()
    mask = torch.tensor([[True, False, True, False]]).expand(3, 4)
    found = summarise(draws, truth, mask)
    for value in (found.median, found.sd, found.level):
        assert (value[:, 2:] == 0).all() and (value[:, :2] > 0).all()


@pytest.mark.parametrize("n", [2, 9, 100])
def test_level_is_uniform_for_any_number_of_draws(n: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4000, n + 1, 1, 3, generator=generator, dtype=torch.float64) * 0.5
    mask = torch.ones(4000, 1, dtype=torch.bool)
    level = summarise(x[:, 1:], x[:, 0], mask, seed).level
    for column in (0, 2):
        assert stats.kstest(level[:, 0, column], "uniform").pvalue > 1e-6
    wide = summarise(1.3 * x[:, 1:], x[:, 0], mask, seed).level
    if n > 2:
        assert stats.kstest(wide[:, 0, 0], "uniform").pvalue < 1e-6


def test_midpoint() -> None:
    x = torch.tensor([[4.0, 1.0, 2.0, 10.0]])[..., None]
    assert midpoint(x).item() == 3.0
    assert midpoint(x[:, :3]).item() == 2.0


# --- coverage ------------------------------------------------------------------------------------


def test_coverage_of_uniform_levels(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    u = torch.rand(3000, 4, 3, generator=generator, dtype=torch.float64)
    mask = torch.arange(4) < torch.randint(1, 5, (3000, 1), generator=generator)
    curve = coverage(u, mask)
    assert_within(curve.coverage, np.asarray(LEVELS)[:, None], curve.standard_error)
    binomial = np.sqrt(curve.levels * (1 - curve.levels) / curve.n_tones)
    np.testing.assert_allclose(curve.standard_error, binomial[:, None].repeat(3, 1), rtol=0.15)
    narrow = coverage(0.5 + 1.25 * (u - 0.5), mask)  # levels of a posterior that is too narrow
    assert (narrow.deviation[5:] < -0.04).all()
    alpha, worst = narrow.worst(0)
    assert worst == narrow.deviation[:, 0].min() and alpha in LEVELS
    with pytest.raises(ValueError, match="at least one tone"):
        coverage(u, torch.zeros_like(mask))


def test_standard_error_counts_signals(seed: int) -> None:
    """Four tones that share one level are one piece of evidence."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.rand(2000, 1, 3, generator=generator, dtype=torch.float64)
    one = coverage(u, torch.ones(2000, 1, dtype=torch.bool))
    four = coverage(u.expand(-1, 4, -1), torch.ones(2000, 4, dtype=torch.bool))
    np.testing.assert_allclose(four.standard_error, one.standard_error, rtol=1e-9)


def test_deviation_of_perfect(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    mask, found = torch.ones(500, 1, dtype=torch.bool), []
    for _ in range(200):
        u = torch.rand(500, 1, 3, generator=generator, dtype=torch.float64)
        found += np.abs(coverage(u, mask).deviation).max(0).tolist()
    inside = np.mean(np.array(found) <= deviation_of_perfect(500) + 1e-12)
    assert_within(inside, 0.95, math.sqrt(0.95 * 0.05 / 600) + 0.002)


# --- catalogue -----------------------------------------------------------------------------------


def brute_force(estimate: list[float], truth: list[float], tolerance: float) -> int:
    """Most pairs within the tolerance, over all assignments."""
    small, large = sorted([estimate, truth], key=len)
    return max(
        sum(abs(a - b) <= tolerance for a, b in zip(small, chosen, strict=True))
        for chosen in itertools.permutations(large, len(small))
    )


def test_catalogue_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    k_estimate, k = (torch.tensor(rng.integers(0, 5, n)) for _ in range(2))
    estimate, truth = (torch.tensor(rng.uniform(0, 10, (n, 5))) for _ in range(2))
    found = compare_catalogues(estimate, k_estimate, truth, k, 1.0)
    expected = sum(
        brute_force(e[:i].tolist(), t[:j].tolist(), 1.0)
        for e, i, t, j in zip(estimate, k_estimate, truth, k, strict=True)
    )
    assert found.matched == expected
    assert found.recall == expected / int(k.sum())
    assert found.false_positives == (int(k_estimate.sum()) - expected) / n
    assert found.precision == expected / int(k_estimate.sum())
    assert found.f1 == pytest.approx(2 / (1 / found.recall + 1 / found.precision))


def test_catalogue_by_hand() -> None:
    truth, k = torch.tensor([[2.6, 2.7, 0.0], [2.9, 0.0, 0.0]]).double(), torch.tensor([2, 1])
    estimate, k_estimate = (
        torch.tensor([[2.604, 2.7, 2.8], [2.5, 0.0, 0.0]]).double(),
        torch.tensor([3, 1]),
    )
    wide = compare_catalogues(estimate, k_estimate, truth, k, 0.005)
    close = compare_catalogues(estimate, k_estimate, truth, k, 0.001)
    assert (wide.matched, close.matched) == (2, 1)
    assert (wide.false_positives, close.false_positives) == (1.0, 1.5)
    nothing = compare_catalogues(estimate, 0 * k, truth, 0 * k, 0.005)
    assert (nothing.recall, nothing.precision, nothing.f1, nothing.false_positives) == (1, 1, 1, 0)
    with pytest.raises(ValueError, match="tolerance above 0"):
        compare_catalogues(estimate, k_estimate, truth, k, 0.0)


# --- precision -----------------------------------------------------------------------------------


def test_robust_sd_and_its_error(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = torch.tensor(rng.normal(0, 3.0, (400, 500)))
    found = [robust_sd(row) for row in x]
    values, stated = np.array(found).T
    assert_within(values.mean(), 3.0, values.std() / 20 + 3.0 / 500)
    assert_within(stated.mean(), values.std(), values.std() / math.sqrt(2 * 400))
    x[:, :10] = 1e6  # a few catastrophes do not count
    assert robust_sd(x[0])[0] < 3.6


def test_precision_over_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 4000
    bound = torch.tensor(rng.uniform(0.5, 2, (n, 2, 3)) * [0.02, 0.05, 1e-4])
    truth = torch.tensor(rng.uniform([0.5, 0, 2.5], [1.5, 2 * math.pi, 3.0], (n, 2, 3)))
    truth[: n // 2, :, 1] = 1e-3  # medians on both sides of the cut
    factor = torch.tensor([1.0, 1.2, 0.9])
    median = truth + factor * bound * torch.tensor(rng.normal(size=(n, 2, 3)))
    median[..., 1] = torch.remainder(median[..., 1], 2 * math.pi)
    keep = torch.ones(n, 2, dtype=torch.bool)
    keep[:, 1] = False
    median[:, 1] = math.nan  # must not be looked at
    found = precision(median, 1.5 * bound, truth, bound, keep)
    assert found is not None and found.tones == n
    assert_within(found.error, factor.numpy(), found.error_se)
    np.testing.assert_allclose(found.width, 1.5)
    assert errors(median[:, 0], truth[:, 0])[:, 1].abs().max() < 1
    assert precision(median, bound, truth, bound, torch.zeros_like(keep)) is None
    relative = mean_relative(bound, truth, keep)
    assert relative[0] == pytest.approx(float((bound / truth)[:, 0, 0].mean()))
    assert relative[2] == pytest.approx(float(bound[:, 0, 2].mean()))


# --- sets ----------------------------------------------------------------------------------------


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
    options: dict[str, Any] = {"draws": 50, "batch": 8, "seed": seed % 2**20}
    result = run_set(Oracle(doubt=0.4), signals, 20, advance=seen.append, **options)
    assert seen == [8, 8, 4] and result.n == 20
    assert result.tones is not None and result.bound is not None and result.catalogue is not None
    assert result.tones.level.shape == result.bound.shape == (20, 3, 3)
    assert result.catalogue.shape == (20, 3) and result.k_probs.shape == (20, 4)
    assert ((result.bound > 0).all(-1) == result.mask).all()
    assert ((result.tones.sd > 0).all(-1) == result.mask).all()
    again = run_set(Oracle(doubt=0.4), signals, 20, **options)
    assert again.tones is not None and torch.equal(again.tones.level, result.tones.level)
    other = run_set(Oracle(), SignalSet(200, Prior(), tones=False), 5, batch=5, seed=seed % 2**20)
    assert other.tones is None and other.bound is None and other.exact.all()


def test_run_set_refuses_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        run_set(Oracle(width=math.nan), SETS["k1"], 3, draws=5)
    with pytest.raises(ValueError, match="n >= 1"):
        run_set(Oracle(), SETS["k1"], 0)


# --- rows ----------------------------------------------------------------------------------------


def test_targets() -> None:
    high, low, both = Target(high=2), Target(low=0.93), Target(low=0.95, high=1.1)
    assert [str(t) for t in (high, low, both)] == ["<= 2", ">= 0.93", "0.95–1.10"]
    assert high.met(2) and not high.met(2.01) and high.met(2.01, slack=0.02)
    assert low.met(0.93) and not low.met(0.92)
    assert both.met(1.0) and not both.met(0.94) and not both.met(1.11)
    assert str(Target(-0.015, 0.015)) == "±0.015"
    ahead = Target(low=0.0, strict=True)
    assert str(ahead) == "> 0" and ahead.met(1e-9) and not ahead.met(0.0)
    assert not any(t.met(math.nan, slack=1.0) for t in (high, low, both, ahead))
    assert Row("x", 1.0).passed is None
    few = [Row("x", value, high, undecided=True).passed for value in (1.0, 3.0)]
    assert few == [True, None]  # a miss says nothing yet, a hit does
    report = Report([Row("x", math.nan, high), Row("y", 1.0, high, form=".1f")])
    assert [row.measure for row in report.missed] == ["x"]
    assert report["y"].text == "1.0"
    assert report.to_dict()["rows"][0]["value"] is None
    with pytest.raises(KeyError, match="'z'"):
        report["z"]


# --- the suite -----------------------------------------------------------------------------------

N = 4000


@pytest.fixture(scope="module")
def perfect(base_seed: int) -> Report:
    """A calibrated and efficient posterior that is right about K."""
    return run_suite(Oracle(), N, draws=100, only=["nominal", "stress"], seed=base_seed)


@pytest.fixture(scope="module")
def narrow(base_seed: int) -> Report:
    """The same with draws that are 20 % too narrow."""
    return run_suite(Oracle(width=0.8), N, draws=100, only=["nominal", "stress"], seed=base_seed)


def test_a_perfect_posterior_passes(perfect: Report) -> None:
    assert not perfect.missed
    for measure in ("nominal: exact-K errors in 10,000", "stress: exact-K errors in 10,000"):
        assert perfect[measure].value == 0
    assert perfect["stress: recall within 5 mHz"].value == 1
    for entry in perfect.by_k:
        for symbol in "Aφf":
            assert entry[f"sd / bound, {symbol}"] == pytest.approx(1.0, abs=0.03)
            se = entry[f"standard error, {symbol}"]
            assert_within(entry[f"error / bound, {symbol}"], 1.0, se)
    assert [entry["k"] for entry in perfect.by_k] == list(range(1, 11))


def test_its_coverage_is_the_level(perfect: Report) -> None:
    for name in ("nominal", "stress"):
        details = perfect.details[name]
        for symbol in "Aφf":
            assert_within(
                details["coverage"][symbol],
                details["coverage"]["alpha"],
                details["coverage_standard_error"][symbol],
            )


def test_every_measure_has_its_row() -> None:
    """Each target is used by some row, but for those whose part is left out here."""
    parts = [part for part in PARTS if part != "speed"]
    report = run_suite(Oracle(), 50, 0, draws=20, only=parts, weights_bytes=3_000_000)
    left_out = {"frontier: exact-K ahead of classical", "GPU signals per second"}
    used = {id(row.target) for row in report.rows if row.target is not None}
    assert {m for m, target in TARGETS.items() if id(target) not in used} == left_out
    assert report["weights, MB"].value == 3
    noise = report["noise: share with k_map > 0"]
    assert noise.value == 0 and noise.passed


def test_tones_in_noise_are_counted(base_seed: int) -> None:
    report = run_suite(Oracle(doubt=0.2), 500, draws=5, only=["noise"], seed=base_seed)
    row = report["noise: share with k_map > 0"]
    assert row.value == pytest.approx(0.1, abs=5 * 0.3 / math.sqrt(500)) and row.passed is False


def test_a_narrow_posterior_fails(narrow: Report) -> None:
    expected = {f"sd / bound, {s}" for s in "Aφf"}
    expected |= {f"coverage − α, {name}, {s}" for name in ("nominal", "stress") for s in "Aφf"}
    assert missed(narrow) == expected  # its medians and its counts are right
    row = narrow["coverage − α, nominal, f"]
    alpha = float(row.note.split()[3].rstrip(";"))
    exact = 2 * stats.norm.cdf(0.8 * stats.norm.ppf((1 + alpha) / 2)) - 1 - alpha
    assert row.value == pytest.approx(exact, abs=0.015)
    assert narrow["sd / bound, f"].value == pytest.approx(0.8, abs=0.02)


def test_few_signals_leave_a_miss_open(base_seed: int) -> None:
    """±1.5 % cannot be told from 30 signals, but a posterior that is far off can."""
    right, wrong = (
        run_suite(Oracle(width=w), 30, draws=50, only=["k1"], seed=base_seed) for w in (1.0, 0.1)
    )
    for symbol in "Aφf":
        row = right[f"coverage − α, K = 1, {symbol}"]
        assert row.passed is not False or abs(row.value) > float(row.note.split("±")[1])
        assert wrong[f"coverage − α, K = 1, {symbol}"].passed is False


def test_a_wrong_estimate_fails(base_seed: int) -> None:
    """Errors 30 % above the bound, and draws as wide as the errors: calibrated but not efficient."""
    report = run_suite(
        Oracle(width=1.3, error=1.3), 1500, draws=100, only=["nominal"], seed=base_seed
    )
    assert {f"{what} / bound, {s}" for what in ("sd", "error") for s in "Aφf"} <= missed(report)
    row = report["error / bound, f"]
    assert row.slack in [3 * entry["standard error, f"] for entry in report.by_k]
    assert row.value > 1.1 + row.slack


def test_ece_tells_honest_from_boastful_doubt(base_seed: int) -> None:
    kwargs: dict[str, Any] = {
        "n_classical": 0,
        "draws": 10,
        "only": ["frontier"],
        "seed": base_seed,
    }
    honest = run_suite(Oracle(doubt=0.4), N, **kwargs)
    boastful = run_suite(Oracle(doubt=0.4, boast=4.0), N, **kwargs)
    assert honest["frontier: exact-K"].value == pytest.approx(0.8, abs=5 * 0.4 / math.sqrt(N))
    assert honest["frontier: exact-K"].passed is False
    assert boastful["frontier: ECE"].passed is False
    assert boastful["frontier: ECE"].value == pytest.approx(0.15, abs=0.04)
    details = honest.details["frontier"]
    assert details["ece"] < 2 * details["ece_of_perfect"]["q95"]
    assert sum(map(sum, details["confusion"])) == N


def test_wrong_counts_cost_recall_and_false_positives(base_seed: int) -> None:
    report = run_suite(Oracle(doubt=0.1), 2000, draws=20, only=["stress"], seed=base_seed)
    row = report["stress: false positives per mixture within 5 mHz"]
    assert row.passed is False
    # A count that is one too high, which 5 % of K = 5..9 are, adds a tone somewhere in the band.
    assert row.value == pytest.approx(0.05 * 5 / 6, abs=0.03)
    assert report["stress: exact-K errors in 10,000"].value == pytest.approx(500, abs=250)
    assert report["stress: recall within 1 mHz"].passed is False


def test_widths_beside_the_papers(base_seed: int) -> None:
    report = run_suite(Oracle(), 1500, draws=100, only=["k1", "k10"], seed=base_seed)
    # Means of the joint bound over nominal signals, in %, rad and mHz (tests/test_bounds.py holds them to errors).
    for k, widths in {1: (1.3, 0.016, 0.023), 10: (1.8, 0.026, 0.029)}.items():
        for unit, value in zip(("relative A, %", "φ, rad", "f, mHz"), widths, strict=True):
            row = report[f"mean sd, K = {k}, {unit}"]
            assert row.passed is None and "the paper's" in row.note
            assert row.value == pytest.approx(value, rel=0.08)
    assert [entry["k"] for entry in report.by_k] == [1, 10]
    assert report.by_k[1]["tones"] > 10 * 1400


def test_rival_sees_the_same_signals() -> None:
    """Batches of the suite, first signals, same prior: as when the estimator is called by hand."""
    signals = SETS["frontier"]
    exact = classical_exact(signals, 9, 6, batch=4, seed=3, device=CPU)
    by_hand = []
    for sim in batches(signals, 9, 4, 3, CPU):
        found = classical([sim.observation(i) for i in range(len(sim.k))], signals.prior)
        by_hand += (found.k_map == sim.k.numpy()).tolist()
    assert exact.tolist() == by_hand[:6]
    report = run_suite(Oracle(), 9, n_classical=6, draws=5, only=["frontier"], batch=4, seed=3)
    row = report["frontier: exact-K ahead of classical"]
    assert row.value == pytest.approx(1 - np.mean(by_hand[:6]))
    assert row.passed == (row.value > 0)
    assert "6 signals" in row.note


def test_throughput_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    per_second, batch = throughput(Oracle(), CPU, batch=5, repeats=2)
    assert per_second > 0 and batch == 5
    report = run_suite(Oracle(), 3, draws=5, only=["speed", "k1"], progress=True)
    row = report["CPU signals per second"]
    assert row.passed is None and "100 draws" in row.note and row.value > 0
    assert capsys.readouterr().out == ""  # and no bar where there is no terminal


def test_quick_report(base_seed: int) -> None:
    values = quick_report(Oracle(doubt=0.2), n=400, draws=50, seed=base_seed)
    names = {f"{s}_{what}" for s in ("nominal", "stress", "frontier") for what in ("exact", "ece")}
    names |= {f"{what}_{p}" for what in ("sd", "error") for p in ("f", "A", "phi")}
    assert set(values) == names
    assert values["nominal_exact"] == pytest.approx(0.9, abs=5 * 0.3 / 20)
    for parameter in ("f", "A", "phi"):
        assert values[f"sd_{parameter}"] == pytest.approx(1.0, abs=0.03)
        assert values[f"error_{parameter}"] == pytest.approx(1.0, abs=5 * 0.962 / math.sqrt(2000))
    assert all(isinstance(value, float) for value in values.values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu(base_seed: int) -> None:
    parts = [*SETS, "speed"]
    report = run_suite(Oracle(), N, n_classical=0, only=parts, device="cuda", seed=base_seed)
    assert not {m for m in missed(report) if "nominal" in m or "stress" in m or "bound" in m}
    assert report["GPU signals per second"].value > 0


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="received nothing_such"):
        run_suite(Oracle(), 3, only=["nothing_such"])
    with pytest.raises(ValueError, match="received none"):
        run_suite(Oracle(), 3, only=[])
    with pytest.raises(ValueError, match="preset zoom"):
        check_analyser(object())
    assert set(PARTS) == {*SETS, "speed"}


def test_evaluation_needs_no_optional_package() -> None:
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'pandas', 'xarray', 'h5netcdf', 'h5py', 'rich', 'typer', 'nflows'):\n"
        "    sys.modules[name] = None\n"
        "from slotflow.evaluate import run_suite, quick_report\n"
        "print('light')"
    )
    result = python("-c", code)
    assert result.stdout == "light\n", result.stderr


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`from_pretrained` gives an oracle."""

    class Network(Oracle):
        config = SimpleNamespace(name="oracle")
        device = CPU

    monkeypatch.setattr(SlotFlow, "from_pretrained", lambda *_, **__: Network())


def run(*args: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, args)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.mark.usefixtures("embedded")
def test_command_prints_the_table(tmp_path: Path) -> None:
    flags = ("--suite=model", "--n=40", "--n-classical=2", "--draws=20", "--seed=5")
    text = run(*flags, "--out", tmp_path / "report.json")
    record = json.loads((tmp_path / "report.json").read_text("utf-8"))
    measures = [row["measure"] for row in record["rows"]]
    assert len(set(measures)) == len(measures) > 40
    for row in record["rows"]:
        assert all(row[part] in text for part in ("measure", "target", "note") if row[part])
    for word in ("targets met", "signals/s", "✓", "error over the bound", "oracle"):
        assert word in text
    assert record["model"] == "oracle" and record["facts"]["seed"] == 5
    assert set(record["details"]) == set(SETS)


@pytest.mark.usefixtures("embedded")
def test_command_gives_json_and_parts() -> None:
    record = json.loads(run("--only=noise, k1", "--n=10", "--draws=10", "--json"))
    assert set(record["details"]) == {"noise", "k1"}
    assert {"measure", "value", "target", "passed", "note"} <= set(record["rows"][0])
    again = json.loads(run("--only=noise, k1", "--n=10", "--draws=10", "--json"))
    assert again["rows"] == record["rows"]


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--suite=paper"], "--suite: expected one of"),
        (["--only=nominal,stres"], "received stres"),
        (["--seed=999999999", "--only=k1"], "expected a seed"),
    ],
)
def test_command_refuses(flags: list[str], message: str) -> None:
    line = run("--n=3", *flags, code=2).strip()
    assert line.startswith("error:") and message in line and "\n" not in line
