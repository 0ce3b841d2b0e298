"""Evaluation: each measure against hand and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from statistics_helpers import assert_within

from slotflow.studies.measures.calibration import LEVELS, coverage, deviation_of_perfect
from slotflow.studies.measures.cardinality import confusion, ece, ece_of_perfect, top_label
from slotflow.studies.measures.catalogue import compare_catalogues
from slotflow.studies.measures.parameters import (
    CIRCULAR,
    PLACE,
    SIZE,
    TABLE_ORDER,
    differences,
    unrolled,
    wrap,
)
from slotflow.studies.measures.precision import mean_relative, precision, robust_sd
from slotflow.studies.measures.tones import midpoint, sort_by_place, summarise

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
    found = sort_by_place(draws, torch.tensor([[True, False, True]]))
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
    assert differences(median[:, 0], truth[:, 0])[:, 1].abs().max() < 1
    assert precision(median, bound, truth, bound, torch.zeros_like(keep)) is None
    relative = mean_relative(bound, truth, keep)
    assert relative[0] == pytest.approx(float((bound / truth)[:, 0, 0].mean()))
    assert relative[2] == pytest.approx(float(bound[:, 0, 2].mean()))


# --- parameters ----------------------------------------------------------------------------------


def test_angles_are_treated_as_angles_in_both_libraries(seed: int) -> None:
    """Differences across the turn are small, and unrolled draws lie within π of their mean."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 2 * np.pi, (2, 50, 4, SIZE))
    found = differences(x.copy(), y)
    torch.testing.assert_close(
        differences(torch.from_numpy(x.copy()), torch.from_numpy(y)), torch.from_numpy(found)
    )
    plain = [i for i in range(SIZE) if i not in CIRCULAR]
    np.testing.assert_array_equal(found[..., plain], (x - y)[..., plain])
    for i in CIRCULAR:
        assert np.abs(found[..., i]).max() <= np.pi
        np.testing.assert_allclose(np.exp(1j * found[..., i]), np.exp(1j * (x - y)[..., i]))
    narrow = np.zeros((200, 2, SIZE))
    narrow[..., CIRCULAR[0]] = np.remainder(0.1 * rng.standard_normal((200, 2)), 2 * np.pi)
    open_ = unrolled(narrow)
    assert narrow[..., CIRCULAR[0]].std() > 2 > 0.2 > open_[..., CIRCULAR[0]].std()
    torch.testing.assert_close(unrolled(torch.from_numpy(narrow)), torch.from_numpy(open_))
    assert TABLE_ORDER[0] == PLACE and sorted(TABLE_ORDER) == list(range(SIZE))
