"""Reproduction: counts, widths and calibration on posteriors of known quality, with the exact step beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle_helpers import Oracle, OracleAnalysis, OracleSlots
from reproduce_helpers import bench, row
from scipy.integrate import trapezoid
from statistics_helpers import assert_within

from slotflow import Simulation
from slotflow.studies.measures.power_law import fit_exponent, follows_power_law
from slotflow.studies.paper import exact_step
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.calibration import rank_histogram
from slotflow.studies.paper.cardinality import reliability
from slotflow.studies.paper.dataset.gaps import gap_density, gap_share
from slotflow.studies.paper.exact_step import ExactSet, ExactStep
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.settings import Settings
from slotflow.studies.suites.sets import NOMINAL, SignalSet

# --- data set ------------------------------------------------------------------------------------


def test_the_law_of_gaps() -> None:
    for c in (1.5, 3.0):
        x = np.linspace(1, c, 2001)
        assert trapezoid(gap_density(x, NOMINAL), x) == pytest.approx(
            gap_share(c, NOMINAL), rel=1e-6
        )
    assert gap_share(60.0, NOMINAL) == pytest.approx(1.0)
    # Two components: the gap less its minimum is the distance of two uniforms on the room that is left.
    assert gap_share(1.5, NOMINAL, 2) == pytest.approx(1 - (1 - 0.005 / 0.49) ** 2)


def test_dataset_follows_the_prior_and_not_the_paper(seed: int) -> None:
    data = RESULTS["dataset"].run(bench(None, seed, 20_000))
    for i, c in enumerate((1.5, 3.0)):
        found = row("dataset", data, f"neighbours within {c:g} Δf_min")
        assert found.error is not None
        assert_within(found.value, gap_share(c, NOMINAL), 1.5 * found.error)  # gaps share a band
        assert abs(found.value - (0.31, 0.73)[i]) > 20 * found.error
    assert data["phase"]["p_uniform"] > 1e-6 > data["phase"]["p_triangular"]
    # |ΔA| of two uniforms on an interval of length 1: P(< 0.2) = 1 − 0.8², mean of the logarithm −3/2.
    size = data["pairs"]
    assert_within(data["amplitude"]["under_a_fifth"], 0.36, 1.5 * (0.36 * 0.64 / size) ** 0.5)
    mean = np.log(data["amplitude"]["geometric_mean"])
    assert_within(mean, -1.5, 1.5 * (1.25 / size) ** 0.5)
    assert sum(data["snr"]["counts"]) > 0.99 * data["signals"]


# --- cardinality ---------------------------------------------------------------------------------


def test_reliability_tells_calibrated_from_overconfident(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q = (2 * torch.randn(4000, 11, generator=generator, dtype=torch.float64)).softmax(-1)
    k = torch.multinomial(q, 1, generator=generator).squeeze(1)
    points = reliability(q, k)
    assert sum(p["count"] for p in points) == q.numel()
    for p in points:
        assert_within(p["true"], p["stated"], p["standard_error"])
    sharp = reliability((3 * q.log()).softmax(-1), k)
    assert max(abs(p["true"] - p["stated"]) / p["standard_error"] for p in sharp) > 10


def test_cardinality_counts_errors_and_their_direction(seed: int) -> None:
    sure = RESULTS["cardinality"].run(bench(Oracle(), seed, 100, draws=20))
    accuracy = row("cardinality", sure, "accuracy of K")
    assert (
        accuracy.value == 1.0 and accuracy.met is None
    )  # 100 signals cannot tell 2 errors in 10,000
    assert np.trace(sure["methods"]["network"]["nominal"]["confusion"]) == 100
    doubting = RESULTS["cardinality"].run(bench(Oracle(doubt=0.5), seed, 200, draws=20))
    found = doubting["methods"]["network"]["nominal"]
    matrix = np.asarray(found["confusion"])
    wrong = 200 - int(np.trace(matrix))
    # The oracle is wrong in a quarter of the cases, and takes one too many except at K = 10.
    assert_within(wrong / 200, 0.25, (0.25 * 0.75 / 200) ** 0.5)
    assert row("cardinality", doubting, "accuracy of K").met is False
    assert found["too_few"] == int(np.tril(matrix, -1).sum()) == matrix[10, 9]
    assert found["too_many"] == wrong - matrix[10, 9]
    assert row("cardinality", doubting, "too few, per 10,000").value == 50 * matrix[10, 9]


def test_the_noise_pathway_is_measured_where_there_is_one(seed: int) -> None:
    """An estimate that is off by a known law, one that is biased, and a network without one."""

    @dataclass(frozen=True, eq=False)
    class Analysis:
        inner: OracleAnalysis
        sigma_estimate: torch.Tensor

        @property
        def k_probs(self) -> torch.Tensor:
            return self.inner.k_probs

        def slots(self, k: torch.Tensor | None = None) -> OracleSlots:
            return self.inner.slots(k)

    @dataclass(frozen=True)
    class Estimating(Oracle):
        bias: float = 0.0

        def analyse(self, simulation: Simulation, *rest: Any) -> Any:
            generator = torch.Generator().manual_seed(simulation.seed % 2**31)
            noise = torch.randn(len(simulation.k), generator=generator, dtype=torch.float64)
            estimate = simulation.sigma + self.bias + 0.1 * noise
            return Analysis(super().analyse(simulation, *rest), estimate)

    n = 400
    for bias in (0.0, 0.3):
        data = RESULTS["cardinality"].run(bench(Estimating(bias=bias), seed, n, draws=20))
        rms = row("cardinality", data, "noise pathway: root mean square error of σ")
        mean = row("cardinality", data, "noise pathway: mean error of σ")
        assert_within(mean.value, bias, 0.1 / n**0.5)
        # The variance of the mean square of N(bias, s) is (2 s⁴ + 4 s² bias²) / n, and the root halves it over itself.
        size = (0.01 + bias**2) ** 0.5
        assert_within(rms.value, size, ((2e-4 + 0.04 * bias**2) / n) ** 0.5 / (2 * size))
    allowed = data["noise"]["allowed"]
    # σ is uniform on 0 to 1.5: its root mean square is 1.5/√3, of which 3,000 samples allow 1/√6000.
    assert allowed == pytest.approx(1.5 / 3**0.5 / 6000**0.5, rel=0.15)
    without = RESULTS["cardinality"].run(bench(Oracle(), seed, 40, draws=20))
    assert "noise" not in without


# --- scaling -------------------------------------------------------------------------------------


def test_exponent_of_a_power_law_and_its_error(seed: int) -> None:
    k = list(range(1, 11))
    law = [0.3 * x**0.7 for x in k]
    error = [0.02 * x for x in law]
    slope, stated = fit_exponent(k, law, error)
    assert slope == pytest.approx(0.7)
    noise = np.random.default_rng(seed).normal(size=(500, 10)) * 0.02
    slopes = [fit_exponent(k, (law * (1 + z)).tolist(), error)[0] for z in noise]
    assert_within(np.std(slopes), stated, stated / 1000**0.5)


def test_an_exponent_is_reported_only_where_there_is_a_power_law(seed: int) -> None:
    """Noise of the stated size does not hide a law; a curve that saturates has none, however exactly it is known."""
    k = list(range(1, 11))
    law = np.array([0.3 * x**0.7 for x in k])
    for relative in (0.001, 0.05):
        noisy = law * (1 + relative * np.random.default_rng(seed).normal(size=10))
        assert follows_power_law(k, noisy.tolist(), (relative * law).tolist())
    saturating = [1.8 * (1 - np.exp(-0.6 * (x - 0.9))) for x in k]
    assert not follows_power_law(k, saturating, [0.005 * x for x in saturating])
    slow = [1.2 - 0.2 * np.exp(-1.5 * (x - 1)) for x in k]  # grows by a fifth and stops
    assert not follows_power_law(k, slow, [0.001 * x for x in slow])
    assert follows_power_law(k, slow, [0.05 * x for x in slow])  # cannot be told from a law
    assert follows_power_law(k, [2.0] * 10, [0.0] * 10)
    ones = [1.0, 1.0, 1.0]
    by_k = [
        {"k": x, "sd": [law[x - 1], saturating[x - 1], law[x - 1]], "sd_se": [1e-3] * 3}
        | {
            "bound": ones,
            "bound_se": ones,
            "ratio": ones,
            "ratio_se": ones,
            "bias": ones,
            "bias_se": ones,
        }
        for x in k
    ]
    data = {"methods": {"network": {"signals_per_k": 10, "by_k": by_k}}}
    found = row("scaling", data, "largest factor between φ and a power law")
    assert found.value > 1.1 and "saturate" in found.note
    assert row("scaling", data, "exponent of A").value == pytest.approx(
        0.7
    )  # the others have theirs


@pytest.mark.parametrize("width", [1.0, 2.0])
def test_widths_of_an_oracle_are_its_factor_times_the_bound(width: float, seed: int) -> None:
    data = RESULTS["scaling"].run(bench(Oracle(width), seed, 200, draws=200))
    for entry in data["methods"]["network"]["by_k"]:
        ratio = np.asarray(entry["ratio"])
        assert ratio == pytest.approx(np.asarray(entry["sd"]) / np.asarray(entry["bound"]))
        # One width from 200 draws is good to 5 %; the loudest noise dominates the mean of 20 signals.
        assert_within(ratio, width, width * 0.05 / 2)
    assert row("scaling", data, "sd of f at K = 10 [mHz]").met == (width == 1.0)
    exponent = row("scaling", data, "exponent of φ")
    floor = float(exponent.note.split(";")[0].removeprefix("bound "))
    assert exponent.value == pytest.approx(floor, abs=0.03)


# --- calibration ---------------------------------------------------------------------------------


def test_ranks_count_signals_not_tones(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    u = torch.rand(2000, 1, 3, generator=generator, dtype=torch.float64)
    mask = torch.ones(2000, 4, dtype=torch.bool)
    share, error = rank_histogram(u.expand(-1, 4, -1), mask)  # four copies are worth one
    assert share.shape == (20, 3) and torch.allclose(share.sum(0), torch.ones(3).double())
    assert_within(share, 0.05, error)
    assert_within(error, (0.05 * 0.95 / 2000) ** 0.5, 0.05 * error)


def test_calibration_tells_a_perfect_posterior_from_an_overconfident_one(seed: int) -> None:
    perfect = RESULTS["calibration"].run(bench(Oracle(), seed, 300))
    narrow = RESULTS["calibration"].run(bench(Oracle(width=0.5), seed, 300))
    for found in perfect["methods"]["network"].values():
        deviation = np.asarray(found["coverage"]) - np.asarray(found["levels"])[:, None]
        assert_within(deviation, 0.0, found["standard_error"])
        # A bin that holds few tones has a poor estimate of its own error: all bins share one.
        assert_within(found["ranks"], 0.05, np.mean(found["ranks_se"]))
        assert max(found["chi2"]) < 1 + 6 * (2 / 19) ** 0.5
    largest = "largest |coverage − α|, all sets and parameters"
    bad = row("calibration", narrow, largest)
    assert bad.met is False
    # Half the width: the central interval of α = 0.7 is one sd of half the size, P(|z| < 0.52) = 0.40.
    assert bad.value > 0.2 > row("calibration", perfect, largest).value
    assert min(min(found["chi2"]) for found in narrow["methods"]["network"].values()) > 3
    assert row("calibration", narrow, "mean of coverage − α, K = 1..10").value < -0.1


# --- the exact step ------------------------------------------------------------------------------


def test_sets_behind_the_exact_step(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = ExactStep(jobs=0, max_seconds=1000.0, weights="a", records=tmp_path / "records.sqlite")
    settings = Settings(40, 200, 2, seed % 2**20, "exact")
    b, done = Bench(Oracle(), settings, exact=step), list[int]()
    b.advance = done.append
    sets = {"k2": SignalSet(92, NOMINAL, k=2), "mixture": SignalSet(93, NOMINAL)}
    found = b.analyse_exact(sets, 6)
    assert done == [0] + [1] * 12
    result = found["k2"].result
    assert result.k.tolist() == [2] * 6 and result.exact.all()
    assert result.tones is not None and result.bound is not None
    ratio = result.tones.sd[:, :2] / result.bound[:, :2]
    # Exact widths are those of the bound; 200 draws show them to 5 %, and the prior of A may narrow its own.
    assert_within(ratio[..., 2], 1.0, 0.06)
    level = result.tones.level[:, :2]
    assert bool(((level > 0) & (level < 1)).all()) and not bool(result.tones.level[:, 2:].any())
    assert found["k2"].verdicts == {"exact": 6} and found["k2"].unsampled == 0
    assert found["mixture"].result.k_probs.shape == (6, 11)
    again = b.analyse_exact({"k2": sets["k2"]}, 6)
    assert again["k2"] is found["k2"] and done[13:] == [6]
    with pytest.raises(ValueError, match="knows its weights"):
        Bench(Oracle(), settings).analyse_exact(sets, 6)

    # A later run goes on from the records, unless the weights or the settings are others.
    def refuse(*_: object) -> None:
        raise AssertionError("analysed again")

    monkeypatch.setattr(exact_step, "_solve", refuse)
    later = Bench(Oracle(), settings, exact=step).analyse_exact(sets, 5)["k2"]
    assert later.result.tones is not None
    assert torch.equal(later.result.tones.level, result.tones.level[:5])
    others = (replace(step, weights="b"), replace(step, draws=100))
    for bench_ in (
        *(Bench(Oracle(), settings, exact=other) for other in others),
        Bench(Oracle(), replace(settings, draws=100), exact=step),
    ):
        with pytest.raises(AssertionError, match="analysed again"):
            bench_.analyse_exact(sets, 5)


@pytest.mark.parametrize("name", ["cardinality", "calibration", "scaling"])
def test_methods_stand_beside_each_other(name: str, seed: int) -> None:
    result = RESULTS[name]
    b = bench(Oracle(), seed, 40, draws=50)
    b.analyse_exact = _as_exact(b)  # type: ignore[method-assign]
    alone = result.run(b)
    b.settings = replace(b.settings, method="both")
    both = result.run(b)
    assert list(alone["methods"]) == ["network"] and list(both["methods"]) == ["network", "exact"]
    assert both["methods"]["network"] == alone["methods"]["network"]
    first, rows = result.compare(alone), result.compare(both)
    assert rows[: len(first)] == first and len(rows) == 2 * len(first)
    suffix = ", exact step"
    for one, other in zip(first, rows[len(first) :], strict=True):
        # A name may hold the parameter that is worst, which is another one on other signals.
        assert other.measure.endswith(suffix)
        assert other.measure.split("worst")[0] == f"{one.measure}{suffix}".split("worst")[0]
    assert len(result.plot(both).axes) >= len(result.plot(alone).axes)
    done: list[int] = []
    b.advance = done.append
    result.run(b)
    assert sum(done) == result.work(replace(b.settings, method="network"))


def _as_exact(b: Bench) -> Callable[..., dict[str, ExactSet]]:
    """The same bench's own answers on fewer signals, in place of the exact step."""

    def analyse(sets: dict[str, SignalSet], n: int) -> dict[str, ExactSet]:
        other = Bench(b.model, b.settings)
        return {name: ExactSet(other.analyse(s, n), {"exact": n}, 0) for name, s in sets.items()}

    return analyse
