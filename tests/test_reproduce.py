"""Reproduction: each result on posteriors of known quality, and the command with its files."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from scipy.integrate import trapezoid
from statistics_helpers import assert_within
from test_evaluate import Oracle, OracleAnalysis, OracleSlots
from torch import Tensor
from typer.testing import CliRunner, Result

from slotflow import Prior, Simulation, SlotFlow
from slotflow.cli import Commands, reproduce
from slotflow.evaluate.sets import NOMINAL, SETS, SignalSet
from slotflow.reproduce import RESULTS, Bench, Comparison, Settings, choose
from slotflow.reproduce.bench import QUICK
from slotflow.reproduce.calibration import rank_histogram
from slotflow.reproduce.cardinality import reliability
from slotflow.reproduce.gaps import gap_density, gap_share
from slotflow.reproduce.page import command
from slotflow.reproduce.runner import made_by
from slotflow.reproduce.scaling import fit_exponent
from slotflow.reproduce.slot_matching import assign, consistency, explained, match_matrix

SMALL = ["--n", "20", "--draws", "20", "--repeats", "3", "--quiet"]


def bench(model: Any, seed: int, n: int, draws: int = 100, repeats: int = 20) -> Bench:
    return Bench(model, Settings(n, draws, repeats, seed % 2**20))


def row(name: str, data: dict[str, Any], measure: str) -> Comparison:
    (found,) = [r for r in RESULTS[name].compare(data) if r.measure == measure]
    return found


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
        assert_within(found.ours, gap_share(c, NOMINAL), 1.5 * found.error)  # gaps share a band
        assert abs(found.ours - (0.31, 0.73)[i]) > 20 * found.error
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
    assert row("cardinality", sure, "accuracy of K").ours == 1.0
    assert np.trace(sure["nominal"]["confusion"]) == 100
    doubting = RESULTS["cardinality"].run(bench(Oracle(doubt=0.5), seed, 200, draws=20))
    matrix = np.asarray(doubting["nominal"]["confusion"])
    wrong = 200 - int(np.trace(matrix))
    # The oracle is wrong in a quarter of the cases, and takes one too many except at K = 10.
    assert_within(wrong / 200, 0.25, (0.25 * 0.75 / 200) ** 0.5)
    assert doubting["nominal"]["too_few"] == int(np.tril(matrix, -1).sum()) == matrix[10, 9]
    assert doubting["nominal"]["too_many"] == wrong - matrix[10, 9]
    assert row("cardinality", doubting, "too few, per 10,000").ours == 50 * matrix[10, 9]


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


@pytest.mark.parametrize("width", [1.0, 2.0])
def test_widths_of_an_oracle_are_its_factor_times_the_bound(width: float, seed: int) -> None:
    data = RESULTS["scaling"].run(bench(Oracle(width), seed, 200, draws=200))
    for entry in data["by_k"]:
        ratio = np.asarray(entry["sd"]) / np.asarray(entry["bound"])
        # One width from 200 draws is good to 5 %; the loudest noise dominates the mean of 20 signals.
        assert_within(ratio, width, width * 0.05 / 2)
    exponent = row("scaling", data, "exponent of φ")
    floor = float(exponent.note.split(";")[0].removeprefix("bound "))
    assert exponent.ours == pytest.approx(floor, abs=0.03)


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
    for found in perfect["sets"].values():
        deviation = np.asarray(found["coverage"]) - np.asarray(found["levels"])[:, None]
        assert_within(deviation, 0.0, found["standard_error"])
        # A bin that holds few tones has a poor estimate of its own error: all bins share one.
        assert_within(found["ranks"], 0.05, np.mean(found["ranks_se"]))
        assert max(found["chi2"]) < 1 + 6 * (2 / 19) ** 0.5
    largest = "largest |coverage − α|, all sets and parameters"
    bad = row("calibration", narrow, largest)
    # Half the width: the central interval of α = 0.7 is one sd of half the size, P(|z| < 0.52) = 0.40.
    assert bad.ours > 0.2 > row("calibration", perfect, largest).ours
    assert min(min(found["chi2"]) for found in narrow["sets"].values()) > 3
    assert row("calibration", narrow, "mean of coverage − α, K = 1..10").ours < -0.1


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
        assert row("slots", data, "consistency, repeated inference").ours == 1.0
        fresh = row("slots", data, "consistency, fresh noise").ours
        assert fresh == pytest.approx(expected, abs=0.05)
        assert data["repeated"]["largest_offset"] < 0.001
    assert explained(np.tile(np.arange(4.0), (3, 1))) == pytest.approx(1.0)


def test_slots_matched_by_frequency_are_those_matched_by_density(seed: int) -> None:
    model: Any = SlotFlow.from_pretrained()
    (sim,) = _signals(SignalSet(90, NOMINAL, k=10), 2, seed)
    slots = model.analyse(sim, NOMINAL).slots(sim.k)
    truth = sim.theta.numpy()
    by_frequency = assign(slots.sample(50)[..., 2].median(1).values.numpy(), truth[..., 2])
    cost = -slots.log_prob(sim.theta[None])[0]  # (B, slot, component)
    assert np.array_equal(by_frequency, cost.argmin(-1).numpy())


def _signals(signals: SignalSet, n: int, seed: int) -> list[Simulation]:
    from slotflow.evaluate.sets import batches

    return list(batches(signals, n, n, seed % 2**20, torch.device("cpu")))


# --- bench, runner, command ----------------------------------------------------------------------


def test_a_set_is_analysed_once(seed: int) -> None:
    class Counting(Oracle):
        calls = 0

        def analyse(self, *args: Any) -> OracleAnalysis:
            Counting.calls += 1
            return super().analyse(*args)

    b = bench(Counting(), seed, 20, draws=20)
    done: list[int] = []
    b.advance = done.append
    first = b.analyse(SETS["nominal"])
    assert b.analyse(SETS["nominal"]) is first
    without = SignalSet(SETS["nominal"].number, NOMINAL, tones=False)
    assert b.analyse(without) is first and Counting.calls == 1
    assert done == [20, 20, 20]
    b.analyse(SETS["nominal"], 21)
    assert Counting.calls == 2


@pytest.mark.parametrize(
    "wrong", [{"n": 19}, {"draws": 1}, {"repeats": 1}, {"seed": -1}, {"seed": 2**28}]
)
def test_settings_refuse_what_says_nothing(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Settings(**wrong)


def test_names() -> None:
    assert [r.name for r in choose(["slots", "dataset"])] == ["dataset", "slots"]
    assert [r.name for r in choose(None)] == list(RESULTS)
    for unknown in (["datasets"], []):
        with pytest.raises(ValueError, match="expected some of dataset"):
            choose(unknown)


@pytest.fixture
def call() -> Callable[..., Result]:
    app = typer.Typer(cls=Commands)
    app.command("reproduce", help=reproduce.HELP)(reproduce.run)
    app.callback()(lambda: None)
    return lambda *args: CliRunner().invoke(app, ["reproduce", *map(str, args)])


def test_the_command_writes_everything_and_resumes(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call("--out", tmp_path, *SMALL)
    assert first.exit_code == 0, first.output
    page = (tmp_path / "index.md").read_text("utf-8")
    for name, result in RESULTS.items():
        record = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        assert record["rows"] == [r.to_dict() for r in result.compare(record["data"])]
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"## {result.title}\n" in page and f"({name}.png)" in page
        assert all(r["text"] in page for r in record["rows"])
        assert command(result, record["made"]) in page
        assert result.title in first.output
    assert page.count("A quick look") == len(RESULTS)
    assert not re.search(r"(?<!\\)\|[^|\n]*x\)", page)  # bars inside cells are escaped

    # Nothing is computed again, though pictures and page are made anew.
    def fail(*_: object) -> None:
        raise AssertionError("computed again")

    drawn: list[str] = []
    monkeypatch.setattr(
        "slotflow.reproduce.runner.save_figure", lambda _, path, **__: drawn.append(path.stem)
    )
    with monkeypatch.context() as patch:
        patch.setattr("slotflow.reproduce.runner._run", fail)
        again = call("--out", tmp_path, *SMALL, "--json")
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert [r["reused"] for r in found["results"]] == [True] * len(RESULTS)
    assert found["settings"]["n"] == 20 and drawn == list(RESULTS)

    # Other settings, a damaged file and --force are reasons to compute.
    def reused(*args: str) -> bool:
        result = call("--out", tmp_path, *SMALL, "--only", "dataset", "--json", *args)
        return bool(json.loads(result.stdout)["results"][0]["reused"])

    assert reused()
    assert reused("--draws", "30")  # the data set has no draws
    assert not reused("--seed", "1") and reused("--seed", "1")
    assert not reused("--force", "--seed", "1")
    (tmp_path / "dataset.json").write_text("{", "utf-8")
    assert not reused("--seed", "1")
    assert "--seed 1" in (tmp_path / "index.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "dataset,nothing"), "--only: expected some of dataset"),
        (("--only", ","), "--only: expected some of dataset"),
        (("--n", "5", "--only", "dataset"), "expected n >= 20"),
        (("--model", "debug", "--only", "dataset"), "preset zoom"),
    ],
)
def test_the_command_refuses(
    arguments: tuple[str, ...], message: str, call: Callable[..., Result], tmp_path: Path
) -> None:
    result = call("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2 and message in " ".join(result.output.split()), result.output
    assert not (tmp_path / "out").exists()


def test_what_a_file_depends_on() -> None:
    model = {"name": "zoom", "hash": "a"}
    for name, result in RESULTS.items():
        made = made_by(result, Bench(Oracle(), QUICK), model)
        other = made_by(result, Bench(Oracle(), QUICK), model | {"hash": "b"})
        assert (made == other) == (name == "dataset")
        assert f"--n {QUICK.n}" in command(result, made)
        paper = made_by(result, Bench(Oracle(), Settings()), model)
        assert command(result, paper) == f"slotflow reproduce --only {name}"
