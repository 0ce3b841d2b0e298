"""The exact step of many signals from the shell and by `catalogue`: the answers of Python, whatever happens."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from many_helpers import MortalWork
from typer.testing import CliRunner

from slotflow import Prior, SlotFlow, catalogue, simulate
from slotflow.cli import app
from slotflow.data.observation import Observation
from slotflow.data.read.options import ReadOptions
from slotflow.data.sampling import Grid
from slotflow.infer.statement import Statement
from slotflow.many.answers import Reader, answers
from slotflow.many.found import Found
from slotflow.many.job import Job
from slotflow.many.ledger import FILE, Ledger
from slotflow.many.plan import Plan
from slotflow.many.results import Wanted, Writer, found_in
from slotflow.many.run import Run
from slotflow.many.supervise import MOST_TRIES
from slotflow.posterior.batched import Batched
from slotflow.posterior.many import Posteriors
from slotflow.posterior.posterior import Posterior

GRIDS = Grid(600, 0.1), Grid(512, 1 / 512)
PRIOR = Prior(k_min=0, k_max=4, min_separation=0.05, sigma=(0.0, 0.4))
STATED = {
    "frequency": PRIOR.frequency,
    "amplitude": PRIOR.amplitude,
    "min_separation": PRIOR.min_separation,
    "sigma": PRIOR.sigma,
    "k_min": PRIOR.k_min,
    "k_max": PRIOR.k_max,
}
N, CHUNK = 20, 8
"""Two chunks and a half."""
ALONE = 11
"""A signal with an offset, which no batch decides."""
SAMPLES = 200
TABLES = ("catalogue.csv", "signals.csv")


@pytest.fixture(autouse=True)
def helpers_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the helpers of the tests."""
    paths = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


@pytest.fixture(scope="module")
def signals() -> list[Observation]:
    sim = simulate(PRIOR, N, *GRIDS, mode="physical", seed=5)
    found = [sim.observation(i) for i in range(N)]
    long = replace(found[ALONE].long, values=found[ALONE].long.values + 3.0)
    found[ALONE] = Observation(long, *found[ALONE].channels[1:])
    return found


@pytest.fixture(scope="module")
def posts(zoom: SlotFlow, signals: list[Observation]) -> Posteriors:
    """What Python answers, one signal after the other where batches leave it."""
    found = zoom.infer(signals, prior=STATED)
    assert isinstance(found, Posteriors)
    return found


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tables(folder: Path) -> list[bytes]:
    """The tables of a folder, byte by byte."""
    return [(folder / name).read_bytes() for name in TABLES]


def numbers(folder: Path) -> list[list[float]]:
    """Places and amplitudes of all components in a catalogue."""
    names = ("signal", "frequency_median", "frequency_sd", "amplitude_median")
    return [[float(row[name]) for name in names] for row in rows(folder / "catalogue.csv")]


# --- the same answers ----------------------------------------------------------------------------


def test_shell_and_catalogue_answer_as_python_does(
    zoom: SlotFlow, signals: list[Observation], posts: Posteriors, tmp_path: Path
) -> None:
    """In chunks or not: verdicts to the letter, numbers up to rounding. One by one they differ by their errors."""
    data, out = tmp_path / "many.npz", tmp_path / "out"
    long, short = (np.stack([one.channels[i].values for one in signals]) for i in (0, 1))
    np.savez(data, long=long, short=short, dt_long=GRIDS[0].dt, dt_short=GRIDS[1].dt)
    spans = {name: "{}:{}".format(*STATED[name]) for name in ("frequency", "amplitude", "sigma")}  # type: ignore[misc]
    flags = ["--band", spans["frequency"], "--amplitude", spans["amplitude"]]
    flags += ["--sigma", spans["sigma"], "--min-separation", str(PRIOR.min_separation)]
    flags += ["--k-min", str(PRIOR.k_min), "--k-max", str(PRIOR.k_max)]
    flags += ["--samples", str(SAMPLES), "--quiet"]
    words = ["infer", str(data), "--out", str(out), "--save", "none", "--chunk", str(CHUNK), *flags]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = catalogue(signals, prior=STATED, samples=SAMPLES, chunk=CHUNK)
    told = rows(out / "signals.csv")
    assert [row["verdict"] for row in told] == [v.status for v in posts.verdicts]
    assert [row["reason"] for row in told] == [v.reason for v in posts.verdicts]
    assert [int(row["k_map"]) for row in told] == posts.k_map.tolist()
    assert found.signals["reason"].tolist() == [v.reason for v in posts.verdicts]
    levels = [float(row["noise_std"]) for row in told]
    np.testing.assert_allclose(levels, posts.noise_std, rtol=1e-6)
    np.testing.assert_allclose(found.signals["noise_std"], posts.noise_std, rtol=1e-6)
    table, one_by_one = posts.summary(SAMPLES), Posteriors(zoom.infer_each(signals, prior=STATED))
    for name in ("frequency_median", "amplitude_sd", "phase_median", "existence"):
        from_shell = [float(row[name]) for row in rows(out / "catalogue.csv")]
        np.testing.assert_allclose(from_shell, table[name], rtol=1e-6)
        np.testing.assert_allclose(found.components[name], table[name], rtol=1e-6)
    spread = one_by_one.summary(SAMPLES)["amplitude_sd"] / table["amplitude_sd"]
    assert np.abs(spread - 1).max() > 1e-3  # draws of their own


def test_facts_of_a_batch_are_those_of_the_posterior(posts: Posteriors) -> None:
    """What records say without making the posterior is what it says itself, and so is the table."""
    writer = Writer(Wanted(), SAMPLES, 0)
    for found, post in zip(found_in(posts, writer), posts, strict=True):
        facts = found.facts
        for name in ("method", "proposed_by", "unit", "k_map", "assumed", "prior", "waveform"):
            assert getattr(facts, name) == getattr(post, name), name
        assert str(facts.verdict) == str(post.verdict) and found.post is post
        np.testing.assert_allclose(facts.k_probs, post.k_probs, atol=1e-12)
        assert post.log_evidence is not None and facts.log_evidence is not None
        np.testing.assert_allclose(facts.log_evidence, post.log_evidence)
        assert facts.ess == pytest.approx(post.ess) and facts.noise is not None
        assert facts.noise.record().keys() == post.noise.record().keys()  # type: ignore[union-attr]
        assert facts.noise.in_band == pytest.approx(post.noise.in_band)  # type: ignore[union-attr]
        np.testing.assert_allclose(facts.slots.sample(5, 2, 1), post.slots.sample(5, 2, 1))
        if found.table is not None:
            own = post.summary(n=SAMPLES, seed=0)
            assert found.table.words.keys() == own.attrs.keys()
            np.testing.assert_allclose(
                found.table.frame().drop(columns="verdict").to_numpy(dtype=float),
                own.drop(columns="verdict").to_numpy(dtype=float),
                rtol=1e-6,
            )


# --- runs that break off -------------------------------------------------------------------------


def work(folder: Path, plan: Plan, **trouble: Any) -> MortalWork:
    """The question, to be asked in a process that may die."""
    counts = dict(zip(plan.files, plan.counts, strict=True))
    writer = Writer(Wanted(folder), SAMPLES, 0, {plan.files[0]: "signals"}, counts, kept=False)
    options = {"seed": 0, "threads": 1}
    return MortalWork(writer, Statement.of(STATED, None), options=options, **trouble)


def run(
    mortal: MortalWork, plan: Plan, folder: Path, network: SlotFlow, stop: int = N, own: bool = True
) -> Run:
    """A run, tables written, in a process of its own or not; it is broken off after some answers."""
    with Ledger(folder / FILE) as ledger:
        made = Run(mortal, plan, mortal.desk(network), ledger, folder, supervised=own)
        with closing(made.answers()) as found:
            for seen, _ in enumerate(found, 1):
                if seen == stop:
                    break
        made.tables()
    return made


@pytest.fixture(scope="module")
def plan(signals: list[Observation]) -> Plan:
    return Plan([Path("signals")], [N], size=CHUNK, observations=signals)


@pytest.fixture(scope="module")
def whole(plan: Plan, zoom: SlotFlow, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    run(work(folder, plan), plan, folder, zoom, own=False)
    return folder


def test_killed_in_the_middle_of_a_batch_and_gone_on_with(
    plan: Plan, whole: Path, zoom: SlotFlow, tmp_path: Path
) -> None:
    """The process is killed while a batch is decided, and the run is broken off in the middle of another chunk."""
    mortal = work(tmp_path, plan, once=tmp_path / "died")
    first = run(mortal, plan, tmp_path, zoom, stop=CHUNK + 3)
    assert (tmp_path / "died").exists() and first.computed == CHUNK + 3
    second = run(mortal, plan, tmp_path, zoom)
    assert second.computed == N - CHUNK - 3 and not second.failures()
    assert tables(tmp_path) == tables(whole)


def test_a_signal_that_ends_its_process_in_a_batch_is_listed(
    plan: Plan, signals: list[Observation], whole: Path, zoom: SlotFlow, tmp_path: Path
) -> None:
    """Its chunk is tried as a whole, then one by one; all others have the answers that they had, up to rounding."""
    deadly = 3
    energy = float(np.mean(signals[deadly].long.values ** 2))
    made = run(work(tmp_path, plan, deadly=energy), plan, tmp_path, zoom)
    (failed,) = made.failures()
    assert failed["signal"] == deadly and f"with code 9, {MOST_TRIES} times" in failed["error"]
    assert made.computed == N - 1
    expected = np.array([row for row in numbers(whole) if row[0] != deadly])
    np.testing.assert_allclose(numbers(tmp_path), expected, rtol=1e-6)
    again = run(work(tmp_path, plan, deadly=energy), plan, tmp_path, zoom)
    assert again.computed == 0 and again.failures() == [failed]  # nobody tries it again


# --- bad signals among good ones -----------------------------------------------------------------


def job(network: SlotFlow, **more: Any) -> Job:
    return Job(network, Statement.of(STATED, None), "exact", {"threads": 1}, "", **more)


def test_a_failure_costs_nobody_else_the_batch(
    zoom: SlotFlow,
    signals: list[Observation],
    posts: Posteriors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a signal that batches leave fails, the decided ones stay; where the batch fails, each is asked alone."""
    from slotflow.exact.batch import answers as batch
    from slotflow.infer import in_turn

    found = list(job(zoom, company=N).infer(signals))
    assert not any(isinstance(one, Exception) for one in found)

    def fails(*args: Any, **options: Any) -> Iterator[Posterior]:
        raise ValueError("no such luck")

    with monkeypatch.context() as patch:
        patch.setattr(in_turn, "one_by_one", fails)
        failed = [isinstance(one, Exception) for one in job(zoom, company=N).infer(signals)]
    left = [int(at[0]) for part, _, at in posts.batches() if not isinstance(part, Batched)]
    assert np.flatnonzero(failed).tolist() == sorted(left) and ALONE in left and len(left) < N / 2

    decide, tried = batch.decide, []

    def breaks(statistics: Any, *args: Any) -> Any:
        tried.append(len(statistics.energy))
        if len(statistics.energy) > 1:
            raise ArithmeticError("together")
        return decide(statistics, *args)

    monkeypatch.setattr(batch, "decide", breaks)
    chunk = Plan([Path("signals")], [N], size=N, observations=signals).chunk(0)
    told = list(answers(job(zoom, company=N), Reader(ReadOptions()), chunk, {}))
    assert [one.place for one in told] == list(range(N)) and max(tried) > 1
    assert all(one.found is not None and not one.error for one in told)
    levels = [one.found.facts.noise_std for one in told if one.found is not None]
    whole = [one.facts.noise_std for one in found if not isinstance(one, Exception)]
    np.testing.assert_allclose(levels, whole, rtol=1e-6)


def test_known_answers_come_before_work_begins() -> None:
    """So that a signal that ends its process is not taken for one that was done before it."""
    begun: list[str] = []

    def infer(batch: list[Observation], skip: Any, begin: Any) -> Iterator[Any]:
        begun.append("inference")
        yield from (SimpleNamespace() for i in range(len(batch)) if i not in skip)

    known = SimpleNamespace(
        identity=lambda one: "key", answered=lambda signals=1: None, infer=infer, company=4
    )
    sim = simulate(PRIOR, 4, *GRIDS, mode="physical", seed=1)
    given = [sim.observation(i) for i in range(4)]
    chunk = Plan([Path("signals")], [4], observations=given).chunk(0)
    told = answers(known, Reader(ReadOptions()), chunk, {0: "key", 1: "key", 3: "key"})  # type: ignore[arg-type]
    assert [next(told).place, next(told).place] == [0, 1] and not begun
    assert [one.place for one in told] == [2, 3] and begun == ["inference"]


@pytest.mark.parametrize("asked", [1, None])
def test_tables_and_records_are_made_with_the_threads_that_are_asked_for(
    asked: int | None, debug_model: SlotFlow
) -> None:
    """Rounding depends on the number of threads; without a wish there are as many as the process has."""
    seen: set[int] = set()

    def found(posts: Posteriors) -> list[Found]:
        seen.add(torch.get_num_threads())
        return [Found.of(post) for post in posts]

    config = debug_model.config
    signals = simulate(config.prior, 2, config.long, config.short, mode="physical", seed=4)
    job = Job(debug_model, Statement(), "network", {"threads": asked}, "", found=found)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert len(list(job.infer([signals.observation(i) for i in range(2)]))) == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {2 if asked is None else asked}
