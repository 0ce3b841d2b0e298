"""The paper's formulas with its own worked numbers: what follows from them, and where the printed number is another."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from statistics_helpers import assert_mean, assert_within

from slotflow import Prior
from slotflow.data.sampling import Grid
from slotflow.network.config import Config
from slotflow.signal.model import noise_free
from slotflow.studies.suites.sets import GRIDS, NOMINAL
from slotflow.studies.theory import depth, flow_error, minimum_samples, phase_weight
from slotflow.studies.theory.distinguishability import (
    PAPER_GAMMA,
    closest,
    distance,
    expected_square,
    least_error,
)
from slotflow.studies.theory.formulas import FORMULAS
from slotflow.studies.theory.regimes import critical, crossover
from slotflow.studies.theory.sample_complexity import Network, prefactor, samples_needed, terms

L, D_H = 8, 512
"""The architecture of the paper's section 4."""


# ---------------------------------------------------------------------- theorem 4.2


def test_k_crit_is_the_printed_one_only_to_base_two() -> None:
    """Section 4.3 and B.3 print 1.5e8, A.7 prints 64 · 262144 · 6 ≈ 1e8."""
    natural = critical(L, D_H)
    assert natural == pytest.approx(1.047e8, rel=1e-3)
    assert natural / 1.5e8 < 0.71  # not the printed number
    assert critical(L, D_H, 2) == pytest.approx(1.5e8, rel=0.01)
    assert pytest.approx(natural, rel=0.05) == 64 * 262144 * 6
    assert math.log(D_H) == pytest.approx(6.24, abs=0.01)


@pytest.mark.parametrize("network", [Network(), Network(2, 16), Network(8, 768)])
def test_the_terms_are_equal_at_the_crossover(network: Network) -> None:
    at = crossover(network.layers, network.width)
    assert at * math.log(at) == pytest.approx(critical(network.layers, network.width), rel=1e-9)
    below, above = terms(int(at / 1.01), network), terms(math.ceil(1.01 * at), network)
    assert below.combinatorial < below.architectural
    assert above.combinatorial > above.architectural


def test_the_crossover_is_far_from_where_the_paper_expects_it() -> None:
    """B.3: "around K ≈ 100–500"; K_crit is sixteen times the crossover."""
    at = crossover(L, D_H)
    assert at == pytest.approx(6.66e6, rel=1e-3) and at > 1e4 * 500
    assert critical(L, D_H) / at == pytest.approx(math.log(at), rel=1e-9)
    assert math.log(at) == pytest.approx(15.7, abs=0.05)


def test_the_bound_for_ten_components() -> None:
    """A.7 prints N ≳ 1e10 for ε = 0.01; the formula has 1e14, and 1.7e11 even without K² and the logarithm."""
    needed = samples_needed(0.01, 10, Network())
    assert needed == pytest.approx(1.047e14, rel=2e-3)
    assert pytest.approx(1.68e11, rel=1e-2) == (L * D_H / 0.01) ** 2
    assert 1e10 / needed == pytest.approx(1e-4, rel=0.05)  # the C_ρ that would give it


def test_the_bound_grows_as_the_square_of_k_in_regime_one() -> None:
    """The paper calls it independent of K."""
    one, ten = (samples_needed(0.01, k, Network()) for k in (1, 10))
    assert ten / one == pytest.approx(100, rel=1e-6)
    tiny = [terms(k, Network(1, 2)).total for k in (10**6, 10**7)]  # regime II
    assert tiny[1] / tiny[0] == pytest.approx(10**3 * 7 / 6, rel=1e-3)


def test_the_factor_in_front() -> None:
    assert prefactor(0.1) == pytest.approx(100)
    assert prefactor(0.1, snr=1.0) == pytest.approx(400)
    assert prefactor(0.1, snr=1.0, c_rho=2.5) == pytest.approx(1000)


# ---------------------------------------------------------------------- appendix B.3


def test_what_is_said_of_the_least_training_sets() -> None:
    """ρ = 0.83, p = 0.04, slope 964 and 250,000 follow from the paper's numbers; α ≈ 0.35 does not."""
    found = minimum_samples.trend(minimum_samples.PAPER_COUNTS, minimum_samples.PAPER_SAMPLES)
    assert found.rank_correlation == pytest.approx(0.83, abs=0.005)
    assert found.p_value == pytest.approx(0.04, abs=0.005)
    assert found.slope == pytest.approx(964, abs=0.5)
    assert minimum_samples.power_curve(10, 2, 2000) == pytest.approx(250_000)
    assert found.exponent == pytest.approx(0.852, abs=0.001)  # not 0.35
    assert found.exponent_of_ends == pytest.approx(0.699, abs=0.001)


def test_a_trend_finds_a_power_law() -> None:
    k = (1, 2, 3, 5, 9)
    found = minimum_samples.trend(k, [7.0 * x**2.5 for x in k])
    assert found.exponent == pytest.approx(2.5) and found.exponent_of_ends == pytest.approx(2.5)
    assert found.rank_correlation == pytest.approx(1.0)


# ---------------------------------------------------------------------- lemma 4.2, proposition 4.3


def test_the_approximation_error() -> None:
    deep = flow_error.layers_for(0.01, 0.2, 100.0)
    assert flow_error.approximation_error(deep, math.inf, 0.2, 100.0) == pytest.approx(0.01)
    assert flow_error.approximation_error(1e9, 10, 0.2, 1.0, 5.0) == pytest.approx(0.05)


def test_the_depths_of_the_paper() -> None:
    """A.6 prints min{23, 6}: 23 needs ε = 1; the root is 1.93, the proof's formula 1.55, the proposition's 72.5."""
    budget = depth.Budget()
    approximation, remark = depth.depth_of_the_paper(budget, 0.2, 100.0, 1.0, power=1 / 2)
    assert approximation == pytest.approx(23, abs=0.05)
    assert remark == pytest.approx(1.93, abs=0.005)  # not 6
    _, proof = depth.depth_of_the_paper(budget, 0.2, 100.0, 1.0)
    assert proof == pytest.approx(1.55, abs=0.005)
    _, proposition = depth.depth_of_the_paper(budget, 0.2, 100.0, 1.0, in_proof=False)
    assert proposition == pytest.approx(72.5, abs=0.05)
    for epsilon in (0.1, 0.01):  # an approximation would need more layers than 23
        assert depth.depth_of_the_paper(budget, 0.2, 100.0, epsilon)[0] > 34


def test_the_budget_buys_few_signals() -> None:
    """4.2: 10¹² operations, 10⁶ signals; A.6's cost model gives 238."""
    assert depth.samples_bought(depth.Budget(), 8) == pytest.approx(238, abs=0.5)


def test_the_best_depth_is_a_minimum() -> None:
    budget = depth.Budget(operations=1e15)
    best = depth.best_depth(budget, 0.2, 100.0)
    least = depth.total_error(best, budget, 0.2, 100.0)
    for other in np.linspace(1, 60, 200):
        assert depth.total_error(other, budget, 0.2, 100.0) >= least - 1e-9
    assert depth.best_depth(depth.Budget(), 0.2, 100.0) < best  # less money, fewer layers


def test_the_estimation_error_grows_nearly_linearly_with_depth() -> None:
    """E(L) has L √ln L, not the L^(3/2) whose derivative A.6 sets to zero."""
    shallow, deep = (depth.total_error(x, depth.Budget(), 0.2, 0.0) for x in (100.0, 200.0))
    assert deep / shallow == pytest.approx(2, rel=0.05)


# ---------------------------------------------------------------------- proposition 4.2


@pytest.mark.parametrize("snr", [0.25, 1.0, 10.0])
def test_the_best_weight_is_the_minimum(snr: float) -> None:
    """Of E(w), but for its constant term."""
    constants = {"c_phase": 0.7, "c_amplitude": 1.9, "coupling": 0.3}
    found = minimize_scalar(
        lambda w: 1.9 * 0.3 * w**2 + 0.7 * 8.2 / (snr * w**2),
        bounds=(0.01, 50),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found.x == pytest.approx(phase_weight.best_weight(8.2, snr, **constants), rel=1e-5)


def test_the_best_weight_for_the_papers_data() -> None:
    """Printed: w* in [1, 2] for SNR in [1, 10]; with constants 1 it is 1.69 to 0.95, and 2 lies above."""
    square = phase_weight.mean_square(*NOMINAL.amplitude) * phase_weight.mean_square(
        *NOMINAL.frequency
    )
    assert square == pytest.approx(8.215, abs=0.001)
    high, low = (phase_weight.best_weight(square, snr) for snr in (1.0, 10.0))
    assert (high, low) == pytest.approx((1.693, 0.952), abs=0.001)
    assert high / low == pytest.approx(10**0.25)
    unit = [phase_weight.best_weight(1.0, snr) for snr in (1.0, 10.0)]
    assert unit == pytest.approx([1.0, 0.562], abs=0.001)  # "unit-scale priors"
    assert Config.from_preset("paper").model.flow.phase_weight == 2.0 > high


def test_mean_square(seed: int) -> None:
    u = np.random.default_rng(seed).uniform(2.5, 3.0, 100_000)
    assert_mean(u**2, phase_weight.mean_square(2.5, 3.0))
    assert phase_weight.mean_square(3.0, 3.0) == 9.0


@pytest.mark.parametrize("frequency", [2.5, 3.0])
def test_a_phase_error_costs_the_same_at_any_frequency(frequency: float) -> None:
    """A.4 has A² (2πf)² Δφ²; it is A²/2 Δφ², 500 times less at these frequencies."""
    grid, small = Grid(30_000, 0.01), 1e-4
    theta = torch.tensor([[[0.8, 0.3, frequency]], [[0.8, 0.3 + small, frequency]]]).double()
    theta[1, 0, 1] = 0.3 + small
    first, second = noise_free(theta, grid)
    cost = float(((first - second) ** 2).mean()) / small**2
    assert cost == pytest.approx(0.8**2 / 2, rel=1e-2)
    assert cost < 0.01 * 0.8**2 * (2 * math.pi * frequency) ** 2


# ---------------------------------------------------------------------- definition 4.1


def tone(amplitude: float, phase: float, frequency: float) -> torch.Tensor:
    return torch.tensor([[amplitude, phase, frequency]], dtype=torch.float64)


def test_the_expected_square_is_distance_and_noise(seed: int) -> None:
    grid, sigma = Grid(400, 0.1), 0.7
    first, second = tone(1.0, 0.2, 2.6), tone(0.9, 0.4, 2.605)
    separation = distance(first, second, sigma, [grid])
    mean, other = (noise_free(one[None], grid)[0].numpy() for one in (first, second))
    x = mean + sigma * np.random.default_rng(seed).normal(size=(5000, grid.n))
    squares = ((x - other) ** 2).sum(1) / sigma**2
    assert_mean(squares, expected_square(separation, grid.n))
    error = squares.std() / math.sqrt(len(squares))
    with pytest.raises(AssertionError):  # the control: the noise is not to be left out
        assert_within(squares.mean(), separation, error)


def test_the_definition_is_empty_as_it_is_written() -> None:
    """Three samples of noise make a signal distinguishable from itself."""
    same = distance(tone(1, 0, 2.7), tone(1, 0, 2.7), 1.0, GRIDS)
    assert same == 0 and expected_square(same, 3) > PAPER_GAMMA >= expected_square(same, 2)
    assert least_error(same) == 0.5


def test_the_closest_tones() -> None:
    """The formula for small distances, against the signals themselves; both tones agree at mid-time."""
    grid, sigma = GRIDS[0], 0.75
    bins = closest(1.0, sigma, grid.n)
    step = bins / grid.duration
    mid = grid.mid_time
    first = tone(1.0, -2 * math.pi * 2.7 * mid, 2.7)
    second = tone(1.0, -2 * math.pi * (2.7 + step) * mid, 2.7 + step)
    assert distance(first, second, sigma, [grid]) == pytest.approx(2.0, rel=0.01)
    assert bins < 0.05  # of the Rayleigh distance
    apart = tone(1.0, 0.0, 2.9)
    resolved = distance(tone(1.0, 0.0, 2.7), apart, sigma, [grid])
    assert resolved == pytest.approx(grid.n / sigma**2, rel=0.01)


def test_the_best_test_errs_as_often_as_it_says(seed: int) -> None:
    grid, sigma, n = Grid(64, 0.1), 1.0, 20_000
    first, second = tone(0.3, 0.0, 2.6), tone(0.3, 1.0, 2.6)
    separation = distance(first, second, sigma, [grid])
    means = [noise_free(one[None], grid)[0].numpy() for one in (first, second)]
    x = means[0] + sigma * np.random.default_rng(seed).normal(size=(n, grid.n))
    closer = ((x - means[1]) ** 2).sum(1) < ((x - means[0]) ** 2).sum(1)
    rate = least_error(separation)
    assert 0.05 < rate < 0.45
    assert_within(closer.mean(), rate, math.sqrt(rate * (1 - rate) / n))


# ---------------------------------------------------------------------- the study


def test_the_study_says_which_numbers_follow() -> None:
    data = FORMULAS.gather([FORMULAS.measure(None, 0)])  # type: ignore[arg-type]
    rows = {row.measure: row for row in FORMULAS.compare(data)}
    held = {name for name, row in rows.items() if row.met}
    missed = {name for name, row in rows.items() if row.met is False}
    assert {"K_crit, as in A.7", "L*: ln(C_0/ε)/α", "Spearman's ρ of N and K"} <= held
    assert {"K_crit = L² d_h² ln d_h", "exponent of N in K"} <= missed
    assert "L*: √(𝓑/(d_h³ K T)), the remark's" in missed
    assert len(held) == 6 and len(missed) == 8
    assert Prior().k_max == 10  # K of the bound
