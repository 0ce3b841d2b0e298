"""Reproduction: bench, runner and command with its files, with the default and with the paper's network."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from matplotlib.figure import Figure
from oracle_helpers import Oracle, OracleAnalysis
from reproduce_helpers import bench, simulated, small_paper_network
from statistics_helpers import assert_within
from typer.testing import CliRunner, Result

from slotflow import SlotFlow
from slotflow.cli import Commands, reproduce
from slotflow.studies.paper import pooled, runner
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.latent.contexts import contexts
from slotflow.studies.paper.pooled import PooledAnalyser
from slotflow.studies.paper.registry import RESULTS, choose, missing
from slotflow.studies.paper.runner import made_by
from slotflow.studies.paper.settings import NUMBERS, QUICK, Settings
from slotflow.studies.paper.words import command
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.sets import NOMINAL, SETS, SignalSet

SMALL = ["--n", "20", "--draws", "20", "--repeats", "3", "--quiet", "--method", "network"]
QUICK_ONES = ("dataset", "slots", "cardinality", "calibration", "scaling", "latent")
"""Results that take a second or two at this size."""


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
    assert list(NUMBERS) == list(RESULTS)
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
        assert all(r["text"] in page and (r["target"] or "") in page for r in record["rows"])
        assert command(result, record["made"]) in page
        assert result.title in first.output
    assert page.count("A quick look") == len(QUICK_ONES)

    # Nothing is computed again, though pictures and page are made anew.
    def fail(*_: object) -> None:
        raise AssertionError("computed again")

    drawn: list[str] = []
    monkeypatch.setattr(
        "slotflow.studies.paper.runner.save_figure", lambda _, path, **__: drawn.append(path.stem)
    )
    with monkeypatch.context() as patch:
        patch.setattr("slotflow.studies.paper.runner._run", fail)
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


def test_what_a_file_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings, weights and code; code of rows and pages alone does not count, since both are always made anew."""
    model = {"name": "zoom", "hash": "a"}
    package = Path(runner.__file__).parents[2]
    for room in (*runner.SHARED_CODE, *(f"studies/paper/{name}" for name in RESULTS)):
        assert (package / room).is_dir() or (package / f"{room}.py").is_file(), room
    before = {name: made_by(one, Bench(Oracle(), QUICK), model) for name, one in RESULTS.items()}
    with monkeypatch.context() as patch:
        patch.setattr(runner, "package_code", lambda rooms: "other code")
        for name, result in RESULTS.items():
            assert made_by(result, Bench(Oracle(), QUICK), model)["key"] != before[name]["key"]
    for name, result in RESULTS.items():
        made = made_by(result, Bench(Oracle(), QUICK), model)
        other = made_by(result, Bench(Oracle(), QUICK), model | {"hash": "b"})
        assert (made == other) == (name == "dataset")
        assert f"--n {QUICK.n}" in command(result, made)
        paper = made_by(result, Bench(Oracle(), Settings()), model)
        assert command(result, paper) == f"slotflow reproduce --only {name}"


def test_a_target_and_its_verdict_are_kept() -> None:
    plain = Row("a", 1.0).to_dict()
    assert plain["target"] is None and plain["met"] is None
    asked = Row("a", 1.0, target=Target(high=0.03, words="< 3%"), met=True).to_dict()
    assert asked["target"] == "< 3 %" and asked["met"] is True


def test_results_whose_extra_is_missing(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert missing(RESULTS["dataset"]) == missing(RESULTS["latent"]) == ""
    absent = replace(RESULTS["latent"], needs=("no_such_module", "reproduce"))
    message = "latent needs no_such_module: pip install 'slotflow[reproduce]'"
    assert missing(absent) == message
    monkeypatch.setattr(
        "slotflow.studies.paper.request.choose", lambda only: [RESULTS["dataset"], absent]
    )
    named = call("--out", tmp_path, *SMALL, "--only", "dataset,latent")
    assert named.exit_code == 2 and message in " ".join(named.output.split())
    every = call("--out", tmp_path, *SMALL)
    assert every.exit_code == 0 and f"left out: {message}" in every.output
    assert (tmp_path / "dataset.json").exists() and not (tmp_path / "latent.json").exists()


# --- the paper's network -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paper_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The paper's preset in small, untrained."""
    path = tmp_path_factory.mktemp("paper") / "model.safetensors"
    small_paper_network().save(path, {"signals": 77, "seconds": 6.0, "note": "not trained"})
    return path


def test_memory_of_the_papers_network_does_not_grow_with_signals_or_draws(
    paper_model: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoder and flow are given so much at once and no more; all of it together grows in proportion.

    Untrained, most draws are outside of the bounds, so that nearly all rounds of redrawing are needed.
    """
    network: Any = SlotFlow.from_pretrained(paper_model)
    budget = {
        "cpu": 64 * 2 * 16 * 4,
        "cuda": 0,
    }  # 64 rows of two layers of 16 numbers of four bytes
    monkeypatch.setattr(pooled, "FLOW_BYTES", budget)
    monkeypatch.setattr(pooled, "REDRAWS", 3)
    signals: list[int] = []
    rows: list[int] = []
    encode, draw = network.encode, network.flow.draw

    def encoding(long: torch.Tensor, short: torch.Tensor) -> Any:
        signals.append(len(long))
        return encode(long, short)

    def drawing(projected: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
        rows.append(n * len(projected))
        return draw(projected, n, generator)

    monkeypatch.setattr(network, "encode", encoding)
    monkeypatch.setattr(network.flow, "draw", drawing)
    totals = []
    for size in (5, 20):
        (sim,) = simulated(SignalSet(94, NOMINAL, k=2), size, seed)
        slots = PooledAnalyser(network).analyse(sim, NOMINAL).slots(sim.k)
        for draws in (50, 200):
            rows.clear()
            slots.sample(draws, seed)
            assert max(rows) <= 64
            totals.append(sum(rows) / (size * draws))
    assert sum(signals) == 25 and max(signals) == pooled.ENCODED_TOGETHER["cpu"]
    np.testing.assert_allclose(totals, totals[-1], rtol=0.2)  # two slots and up to three redraws


def test_batches_through_the_papers_network_are_its_answers(paper_model: Path, seed: int) -> None:
    network: Any = SlotFlow.from_pretrained(paper_model)
    analyser = PooledAnalyser(network)
    assert analyser.knows(NOMINAL) and not analyser.knows(SETS["frontier"].prior)
    (sim,) = simulated(SignalSet(94, NOMINAL), 3, seed)
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


def save_small(figure: Figure, path: Path, **options: Any) -> None:
    """Keeps an empty picture in place of a figure, which takes a second to draw."""
    assert figure.axes
    Figure(figsize=(1, 1)).savefig(path)


def test_every_result_of_the_papers_network(
    call: Callable[..., Result], paper_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "save_figure", save_small)  # drawn in full by the test above
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
    assert record["facts"]["training"] == {"signals": 77, "seconds": 6.0}
