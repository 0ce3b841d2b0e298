"""What the leaderboard measures, on methods of known quality, and its verdicts on numbers that are known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from slotflow.network.config import Config
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.bounds import crb_covariance
from slotflow.signal.simulation import Simulation, simulate
from slotflow.studies.answers import exact_answer
from slotflow.studies.comparators import leaderboard
from slotflow.studies.comparators.exact_step import ExactStep
from slotflow.studies.comparators.leaderboard import LEADERBOARD
from slotflow.studies.comparators.properties import (
    close_pairs,
    dependence,
    label_change,
    work,
)
from slotflow.studies.comparators.released import Released
from slotflow.studies.comparators.scores import draw_at, log_joint, scores_of
from slotflow.studies.comparators.table import TITLES
from slotflow.studies.comparators.task import task_config
from slotflow.studies.comparators.training import build
from slotflow.studies.frame.settings import Settings
from slotflow.studies.measures.correlation import between_components, correlation
from slotflow.studies.trainings import draw_batch

CPU = torch.device("cpu")


@pytest.fixture
def tiny() -> Config:
    return task_config(4, 16, quick=True)


class Known:
    """A method that knows the prior and nothing of the data, or draws from it with another width."""

    labelled = True
    device = CPU
    n_parameters = 0

    def __init__(self, config: Config, width: float = 1.0) -> None:
        self.prior, self.width = config.model.prior, width
        self.k_max = self.prior.k_max

    def encode(self, batch: Simulation) -> Any:
        return KnownEncoded(self, len(batch.k))

    def draw(self, encoded: Any, k: int, n: int, generator: torch.Generator) -> Tensor:
        counts = torch.full((encoded.size * n,), k)
        theta = self.prior.sample_theta(counts, generator)[:, :k]
        middle = torch.tensor([1.0, math.pi, 2.75], dtype=torch.float64)
        theta = middle + self.width * (theta - middle)
        return theta.reshape(encoded.size, n, k, -1)

    def log_prob(self, encoded: Any, theta: Tensor) -> Tensor:
        return self.prior.log_prob_theta(theta)

    def log_prob_set(self, encoded: Any, theta: Tensor) -> Tensor:
        return self.log_prob(encoded, theta) + math.lgamma(theta.shape[1] + 1)


class KnownEncoded:
    def __init__(self, method: Known, size: int) -> None:
        self.method, self.size = method, size
        self.log_counts = torch.as_tensor(method.prior.k_probs_full).log().expand(size, -1)

    def take(self, rows: Tensor) -> KnownEncoded:
        return KnownEncoded(self.method, len(rows))


# ---------------------------------------------------------------------- scores


def test_scores_of_the_prior_and_of_one_that_is_too_narrow(tiny: Config, seed: int) -> None:
    """The prior is calibrated, and says of the truth what it says."""
    batches = [draw_batch(tiny, 400, seed + i, CPU) for i in range(2)]
    prior = tiny.model.prior
    found = scores_of(Known(tiny), batches, prior, 1000, seed)
    assert found["log_q"] == pytest.approx(found["log_prior"], abs=1e-9)
    assert found["log_count"] == pytest.approx(0, abs=1e-9)
    assert found["exact_k"] == pytest.approx(1 / 3, abs=5 * math.sqrt(2 / 9 / 800))
    assert found["ece"] < 5 * math.sqrt(2 / 9 / 800)
    # Draws of a uniform phase are denser near their circular mean, around which they are ranked: by about √(1/1000).
    assert found["coverage"] < 2 * found["coverage_perfect"]
    narrow = scores_of(Known(tiny, 0.5), batches, prior, 100, seed)
    assert narrow["coverage"] > 4 * narrow["coverage_perfect"] and narrow["coverage_sign"] < 0
    assert 0.02 < found["f_error"] < 0.2  # of a uniform law over half a hertz
    assert found["draws_per_second"] > 0 and found["parameters"] == 0


def test_a_density_of_zero_does_not_end_the_mean(tiny: Config, seed: int) -> None:
    batch = draw_batch(tiny, 20, seed, CPU)
    known = Known(tiny)
    known.prior = replace(tiny.model.prior, amplitude=(0.5, 0.8))
    found = scores_of(known, [batch], tiny.model.prior, 8, seed)
    assert math.isfinite(found["log_q"]) and found["log_q"] < -1e4


def test_draws_stand_in_the_first_places(tiny: Config, seed: int) -> None:
    batch = draw_batch(tiny, 30, seed, CPU)
    known = Known(tiny)
    draws = draw_at(known, known.encode(batch), batch.k, 5, torch.Generator().manual_seed(seed))
    assert draws.shape == (30, 5, 3, 3)
    assert torch.equal((draws != 0).all(-1).all(1), batch.mask)


# ---------------------------------------------------------------------- properties


class Correlated(Known):
    """Draws from the Gaussian of the joint bound around the truth, or from its marginals alone."""

    def __init__(self, config: Config, pairs: Simulation, together: bool) -> None:
        super().__init__(config)
        covariance = crb_covariance(pairs.theta, pairs.sigma, pairs.grids)
        self.truth = pairs.theta.flatten(1)
        if not together:
            covariance = torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1))
        scale = covariance.diagonal(dim1=-2, dim2=-1).rsqrt()
        unit = covariance * scale[:, :, None] * scale[:, None]
        self.factor = torch.linalg.cholesky(unit) / scale[:, :, None] * 1e-3

    def draw(self, encoded: Any, k: int, n: int, generator: torch.Generator) -> Tensor:
        normal = torch.randn(len(self.truth), n, 6, generator=generator, dtype=torch.float64)
        theta = self.truth[:, None] + normal @ self.factor.mT
        return theta.reshape(len(self.truth), n, 2, 3)


def test_correlations_of_draws_that_have_them_and_of_some_that_do_not(
    tiny: Config, seed: int
) -> None:
    n = 2000
    pairs = close_pairs(tiny.model, 6, seed, CPU)
    gap = pairs.theta[:, 1, 2] - pairs.theta[:, 0, 2]
    separation = tiny.model.prior.min_separation
    assert (gap >= 1.1 * separation).all() and (gap <= 1.1501 * separation).all()
    generator = torch.Generator().manual_seed(seed)
    found = dependence(Correlated(tiny, pairs, True), pairs, n, generator)
    np.testing.assert_allclose(found["found"], found["exact"], atol=5 / n**0.5)
    assert min(found["exact"]) > 0.1
    found = dependence(Correlated(tiny, pairs, False), pairs, n, generator)
    assert max(found["largest"]) < 5 / n**0.5 and max(np.abs(found["found"])) < 5 / n**0.5


def test_the_bound_has_the_correlations_of_the_exact_posterior(seed: int) -> None:
    """At a separation of three bins, by the exact step; differences are those of 4,000 draws and of its curvature."""
    config = task_config(4, 16).model
    pairs = close_pairs(config, 1, seed, CPU)
    covariance = crb_covariance(pairs.theta, pairs.sigma, pairs.grids)[0].numpy()
    scale = 1 / np.sqrt(np.diag(covariance))
    expected = between_components(covariance * scale[:, None] * scale)
    model = SlotFlow.from_pretrained("zoom")
    exact = exact_answer(model, pairs.observation(0), config.prior, draws=4000, seed=seed)
    theta, _, log_weights = exact.weighted(2)
    found = between_components(correlation(theta, np.exp(log_weights)))
    assert np.abs(expected).max() > 0.3
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_changes_of_labels(tiny: Config, seed: int) -> None:
    config = tiny.model
    batch = simulate(config.prior, 3, config.long, config.short, seed=seed, k=3)
    assert label_change(build("equivariant", tiny, seed, CPU), batch) < 1e-12
    assert label_change(build("saturated", tiny, seed, CPU), batch) > 1e-3
    assert label_change(Known(tiny), batch) == 0


def test_work_grows_as_it_is_written(tiny: Config, seed: int) -> None:
    """Exponents of K: of a network for each slot 1, of one for all slots 0, of all pairs between 1 and 2."""
    expected = {
        "paper": ((0.99, 1.01), (1.3, 2.0)),
        "saturated": ((0.8, 1.0), (0.0, 0.0)),
        "equivariant": ((0.8, 1.2), (0.8, 1.2)),
        "sequential": ((0.5, 1.0), (0.0, 0.0)),
        "presences": ((0.0, 0.0), (0.0, 0.0)),
    }
    for name, ranges in expected.items():
        found = work(build(name, tiny, seed, CPU), tiny.model, seed)
        for value, (low, high) in zip(found, ranges, strict=True):
            assert low - 1e-9 <= value <= high + 1e-9, (name, found)


# ---------------------------------------------------------------------- the exact step


def test_the_exact_step_answers_as_the_others_do(seed: int) -> None:
    """Its counts are a law, its density has no labels and exceeds that of the network, and its draws are joint."""
    config = task_config(4, 16).model
    network = SlotFlow.from_pretrained("zoom")
    assert isinstance(network, ZoomSlotFlow)
    exact, released = ExactStep(network, config.prior), Released(network, config.prior)
    batch = simulate(config.prior, 24, config.long, config.short, seed=seed)
    encoded = exact.encode(batch)
    torch.testing.assert_close(encoded.log_counts.exp().sum(-1), torch.ones(24).double())
    gap = log_joint(exact, encoded, batch) - log_joint(released, released.encode(batch), batch)
    assert float(gap.mean()) > -4 * float(gap.std()) / 24**0.5
    pairs = close_pairs(config, 8, seed, CPU)
    assert label_change(exact, pairs) < 1e-9
    found = dependence(exact, pairs, 2000, torch.Generator().manual_seed(seed))
    np.testing.assert_allclose(np.mean(found["found"]), np.mean(found["exact"]), atol=0.1)


# ---------------------------------------------------------------------- the study


def a_round(name: str, seed: int, **values: Any) -> dict[str, Any]:
    """What a round of a method might measure."""
    return {
        "method": name,
        "seed": seed,
        "training": {"seconds": 10.0, "skipped": 0, "loss": 1.0},
        "exact_k": 0.8 + 0.1 * seed, "log_count": 1.0, "ece": 0.02, "ece_perfect": [0.01, 0.03],
        "f1": 0.9, "f_error": 0.001, "tolerance": 0.005,
        "coverage": 0.02, "coverage_sign": -0.02, "coverage_at": [0.5, "f"], "coverage_perfect": 0.01,
        "log_q": 5.0, "log_prior": -2.0, "draws_per_second": 1e4, "parameters": 8_000_000,
        "label_change": 1e-12 if name == "equivariant" else 50.0,
        "dependence": {"largest": [0.4, 0.6], "found": [0.3, 0.5], "exact": [0.5, 0.5]},
        "work_draw": 1.0, "work_loss": 0.0,
    } | values  # fmt: skip


def verdicts(rounds: list[dict[str, Any]]) -> dict[str, bool | None]:
    rows = LEADERBOARD.compare(LEADERBOARD.gather(rounds))
    return {row.measure: row.met for row in rows if row.target is not None}


def test_the_marks_that_hold_and_those_that_do_not() -> None:
    found = verdicts([a_round(name, seed) for seed in (0, 1) for name in TITLES])
    held = {
        measure.partition(":")[0]: met for measure, met in found.items() if "Scal" not in measure
    }
    assert held == {
        "Trans-dimensional, SlotFlow (paper)": True,
        "Trans-dimensional, CoSMIC-like": True,
        "Equivariant, SlotFlow (paper)": False,
        "Equivariant, CoSMIC-like": False,
        "Equivariant, Set-Flow-like": True,
        "Equivariant, MONet-like": True,
        "Dependence, SlotFlow (paper)": False,
        "Dependence, CoSMIC-like": True,
        "Dependence, Set-Flow-like": True,
    }  # fmt: skip
    assert found["Scalability, SlotFlow (paper): exponent of K in the operations of a draw"]
    assert not found["Scalability, SlotFlow (paper): exponent of K in the operations of the loss"]
    assert found["Scalability, CoSMIC-like: exponent of K in the operations of the loss"]
    apart = {"dependence": {"largest": [0.05], "found": [0.0], "exact": [0.5]}, "log_count": -0.1}
    other = verdicts([a_round("paper", 0, label_change=0.0, **apart)])
    assert [other[m] for m in other if "Scal" not in m] == [False, True, True]


def test_means_over_seeds_and_methods_that_are_missing() -> None:
    rounds = [a_round("paper", 0), a_round("saturated", 0), a_round("paper", 1)]
    data = LEADERBOARD.gather(rounds)
    assert list(data) == ["paper", "saturated"]
    assert data["paper"]["exact_k"] == pytest.approx([0.85, 0.05])
    assert data["saturated"]["exact_k"] == [0.8, None] and data["saturated"]["seeds"] == 1
    assert len(LEADERBOARD.compare(data)) > 10
    figure = LEADERBOARD.plot(data)
    assert len(figure.axes) == 8


def test_rounds_of_a_seed_differ_in_the_method_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Every method of a seed is trained and measured with the same seeds, those of another seed with others."""
    seen: list[tuple[Any, ...]] = []

    def note_training(name: str, config: Config, steps: int, seed: int, device: Any) -> Any:
        seen.append((name, steps, seed))
        return None, {"seconds": 0.0, "skipped": 0, "loss": None}

    def note_scores(method: Any, batches: Any, prior: Any, draws: int, seed: int) -> Any:
        seen[-1] += (tuple((len(batch.k), batch.seed) for batch in batches), draws, seed)
        return {}

    monkeypatch.setattr(leaderboard, "train", note_training)
    monkeypatch.setattr(leaderboard, "scores_of", note_scores)
    monkeypatch.setattr(leaderboard, "properties_of", lambda *arguments: {})
    monkeypatch.setattr(leaderboard, "QUICK", replace(leaderboard.QUICK, seeds=2))
    settings = Settings(quick=True)
    setup = leaderboard.Setup(settings, tmp_path)
    for number in range(LEADERBOARD.rounds(settings)):
        LEADERBOARD.measure(setup, number)
    assert len(seen) == 10 and len({one[0] for one in seen}) == 5
    first, second = {one[1:] for one in seen[:5]}, {one[1:] for one in seen[5:]}
    assert len(first) == len(second) == 1 and first != second
