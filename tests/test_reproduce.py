"""Reproduction: each result on posteriors of known quality, and the command with its files."""

from __future__ import annotations

import html
import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from slotflow.config import Config
from slotflow.evaluate.sets import GRIDS, NOMINAL, SETS, SignalSet
from slotflow.reproduce import RESULTS, Bench, Comparison, ExactStep, Settings, choose
from slotflow.reproduce.bench import QUICK
from slotflow.reproduce.calibration import rank_histogram
from slotflow.reproduce.cardinality import reliability
from slotflow.reproduce.exact_step import ExactSet
from slotflow.reproduce.gaps import gap_density, gap_share
from slotflow.reproduce.latent import _isomap, contexts
from slotflow.reproduce.page import command
from slotflow.reproduce.pooled import PooledAnalyser
from slotflow.reproduce.registry import NUMBERS, missing
from slotflow.reproduce.regression import explained_by, linear, neighbours, standardised
from slotflow.reproduce.runner import made_by
from slotflow.reproduce.scaling import fit_exponent
from slotflow.reproduce.slot_changes import changes, variants
from slotflow.reproduce.slot_matching import assign, consistency, explained, match_matrix
from slotflow.simulate import tones

SMALL = ["--n", "20", "--draws", "20", "--repeats", "3", "--quiet", "--method", "network"]
QUICK_ONES = ("dataset", "slots", "cardinality", "calibration", "scaling", "latent")
"""Results that take a second or two at this size."""


def bench(model: Any, seed: int, n: int, draws: int = 100, repeats: int = 20) -> Bench:
    return Bench(model, Settings(n, draws, repeats, seed % 2**20, "network"))


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
    accuracy = row("cardinality", sure, "accuracy of K")
    assert (
        accuracy.ours == 1.0 and accuracy.met is None
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
    for entry in data["methods"]["network"]["by_k"]:
        ratio = np.asarray(entry["ratio"])
        assert ratio == pytest.approx(np.asarray(entry["sd"]) / np.asarray(entry["bound"]))
        # One width from 200 draws is good to 5 %; the loudest noise dominates the mean of 20 signals.
        assert_within(ratio, width, width * 0.05 / 2)
    assert row("scaling", data, "sd of f at K = 10 [mHz]").met == (width == 1.0)
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
    assert bad.ours > 0.2 > row("calibration", perfect, largest).ours
    assert min(min(found["chi2"]) for found in narrow["methods"]["network"].values()) > 3
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
    assert [r.name for r in choose(["3", "1", "dataset"])] == ["dataset", "cardinality"]
    assert [r.name for r in choose(None)] == list(RESULTS)
    assert list(NUMBERS.values()) == sorted(NUMBERS.values())
    for unknown in (["datasets"], ["0"], []):
        with pytest.raises(ValueError, match="expected names or numbers of 1 dataset, 2 slots"):
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
    only = ("--only", ",".join(QUICK_ONES))
    first = call("--out", tmp_path, *SMALL, *only)
    assert first.exit_code == 0, first.output
    page = html.unescape((tmp_path / "index.html").read_text("utf-8"))
    for name in QUICK_ONES:
        result = RESULTS[name]
        record = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
        assert record["rows"] == [r.to_dict() for r in result.compare(record["data"])]
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f'<section id="{name}">' in page and f"{NUMBERS[name]}. {result.title}</h2>" in page
        assert all(r["text"] in page and r["target"] in page for r in record["rows"])
        assert command(result, record["made"]) in page
        assert result.title in first.output
    assert page.count("A quick look") == len(QUICK_ONES)

    # Nothing is computed again, though pictures and page are made anew.
    def fail(*_: object) -> None:
        raise AssertionError("computed again")

    drawn: list[str] = []
    monkeypatch.setattr(
        "slotflow.reproduce.runner.save_figure", lambda _, path, **__: drawn.append(path.stem)
    )
    with monkeypatch.context() as patch:
        patch.setattr("slotflow.reproduce.runner._run", fail)
        again = call("--out", tmp_path, *SMALL, *only, "--json")
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert [r["reused"] for r in found["results"]] == [True] * len(QUICK_ONES)
    assert found["settings"]["n"] == 20 and drawn == list(QUICK_ONES)

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
    assert "--seed 1" in (tmp_path / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "dataset,nothing"), "--only: expected names or numbers of 1 dataset"),
        (("--only", ","), "--only: expected names or numbers of 1 dataset"),
        (("--method", "guess", "--only", "dataset"), "expected a method of network, exact, both"),
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


def test_a_target_and_its_verdict_are_kept() -> None:
    plain = Comparison("a", 1.0).to_dict()
    assert plain["target"] == "" and plain["met"] is None
    asked = Comparison("a", 1.0, target="< 3%", met=True).to_dict()
    assert asked["target"] == "< 3 %" and asked["met"] is True


# --- slots when a component comes, goes or moves -------------------------------------------------


def test_variants_keep_separation_and_noise(seed: int) -> None:
    (seven,) = _signals(SignalSet(91, NOMINAL, k=7), 20, seed)
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


def test_results_whose_extra_is_missing(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert missing(RESULTS["dataset"]) == missing(RESULTS["latent"]) == ""
    absent = replace(RESULTS["latent"], needs=("no_such_module", "reproduce"))
    message = "latent needs no_such_module: pip install 'slotflow[reproduce]'"
    assert missing(absent) == message
    monkeypatch.setattr(reproduce, "choose", lambda only: [RESULTS["dataset"], absent])
    named = call("--out", tmp_path, *SMALL, "--only", "dataset,latent")
    assert named.exit_code == 2 and message in " ".join(named.output.split())
    every = call("--out", tmp_path, *SMALL)
    assert every.exit_code == 0 and f"left out: {message}" in every.output
    assert (tmp_path / "dataset.json").exists() and not (tmp_path / "latent.json").exists()


# --- the exact step and the paper's network ------------------------------------------------------


def test_sets_behind_the_exact_step(seed: int) -> None:
    step = ExactStep(jobs=0, max_seconds=1000.0)
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


@pytest.fixture(scope="module")
def paper_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The paper's preset in small, untrained."""
    config = Config.from_preset("paper").model
    small = replace(
        config,
        encoder=replace(config.encoder, channels=(4, 4, 8), heads=2, context=8),
        flow=replace(config.flow, layers=2, hidden=16, bins=4),
    )
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("paper") / "model.safetensors"
    SlotFlow(small).save(path)
    return path


def test_batches_through_the_papers_network_are_its_answers(paper_model: Path, seed: int) -> None:
    network: Any = SlotFlow.from_pretrained(paper_model)
    analyser = PooledAnalyser(network)
    assert analyser.knows(NOMINAL) and not analyser.knows(SETS["frontier"].prior)
    (sim,) = _signals(SignalSet(94, NOMINAL), 3, seed)
    analysis = analyser.analyse(sim, NOMINAL)
    slots = analysis.slots(sim.k)
    assert torch.equal(slots.mask, sim.mask)
    draws = slots.sample(2000, seed)
    assert draws.shape == (3, 2000, 10, 3) and not bool(
        draws[~sim.mask[:, None].expand(-1, 2000, -1)].any()
    )
    for i in range(3):
        k = int(sim.k[i])
        post = network.infer(sim.observation(i), refine=False)
        assert np.allclose(post.k_probs, analysis.k_probs[i].numpy(), atol=1e-6)
        theirs, ours = post.sample(2000, k, seed), draws[i, :, :k].numpy()
        for j in (0, 2):
            error = theirs[..., j].std(0) * (2 / 2000) ** 0.5
            assert_within(ours[..., j].mean(0), theirs[..., j].mean(0), error)
    low, high = NOMINAL.frequency
    inside = draws[sim.mask[:, None].expand(-1, 2000, -1)]
    assert bool(((inside[:, 0] > 0) & (inside[:, 2] >= low) & (inside[:, 2] <= high)).all())
    assert contexts(analysis.slots(torch.full((3,), 10)), 10).shape == (3, 10, 18)


def test_every_result_of_the_papers_network(
    call: Callable[..., Result], paper_model: Path, tmp_path: Path
) -> None:
    here = ("--out", tmp_path, *SMALL)
    assert call(*here, "--only", "cardinality").exit_code == 0
    ran = call(*here, "--only", ",".join(QUICK_ONES), "--model", paper_model)
    assert ran.exit_code == 0, ran.output
    own = tmp_path / "paper"
    assert sorted(p.stem for p in own.glob("*.json")) == sorted(set(QUICK_ONES) - {"dataset"})
    record = json.loads((own / "cardinality.json").read_text("utf-8"))
    assert record["made"]["model"]["name"] == "paper" and record["facts"]["source"] == str(
        paper_model
    )
    assert list(record["data"]["methods"]["network"]) == ["nominal"]  # it knows one prior only
    page = html.unescape((tmp_path / "index.html").read_text("utf-8"))
    assert "<h3>Network zoom</h3>" in page and "<h3>Network paper</h3>" in page
    assert f"--model {paper_model}" in page
    only_zoom = [
        name for name, result in RESULTS.items() if not result.pooled and name != "dataset"
    ]
    for name in only_zoom:
        refused = call(*here, "--only", name, "--model", paper_model)
        assert refused.exit_code == 2, refused.output
