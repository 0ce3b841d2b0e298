"""Work in processes beside this one: order, shared objects, failures, and equal answers."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slotflow.core import beside as module
from slotflow.core.beside import Beside, processes_for
from slotflow.data.observations import Observations
from slotflow.exact.batch.posteriors import ExactPosteriors
from slotflow.infer.rest import Rest
from slotflow.infer.run import asked
from slotflow.network.model import SlotFlow
from slotflow.signal.simulation import simulate
from slotflow.studies.suites.sets import GRIDS, SETS

PARENT = os.getpid()


def worked(work: Callable[[int], Any], count: int, processes: int, shared: Any = ()) -> list[Any]:
    with Beside(work, processes, shared) as pool:
        for i in range(count):
            pool.submit(i)
        return pool.results()


def test_results_come_in_order_from_other_processes() -> None:
    found = worked(lambda i: (i * i, os.getpid()), 20, processes=2)
    assert [square for square, _ in found] == [i * i for i in range(20)]
    assert PARENT not in {process for _, process in found}


def test_without_processes_this_one_works() -> None:
    assert worked(lambda i: os.getpid(), 2, processes=0) == [os.getpid()] * 2


def test_shared_objects_are_not_copied() -> None:
    weights, other = np.ones(10), np.ones(10)
    [(first, second)] = worked(lambda i: (weights, other), 1, processes=1, shared=[weights])
    assert first is weights
    assert second is not other and np.array_equal(second, other)


def test_a_process_that_dies_loses_nothing() -> None:
    def work(i: int) -> int:
        if i == 5 and os.getpid() != PARENT:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    assert worked(work, 12, processes=2) == list(range(12))


def test_a_process_that_falls_silent_is_not_waited_for() -> None:
    def work(i: int) -> int:
        if i == 3 and os.getpid() != PARENT:
            time.sleep(600)
        return i

    began = time.monotonic()
    with Beside(work, 2, patience=1.0) as pool:
        for i in range(6):
            pool.submit(i)
        assert pool.results() == list(range(6))
    assert time.monotonic() - began < 60


def test_a_foreman_that_dies_loses_nothing() -> None:
    """What it was given is done here, and its workers do not outlive it."""
    with Beside(lambda i: (i, os.getpid()), processes=2) as pool:
        pool.submit(0)
        [(_, worker)] = pool.results()
        os.kill(pool._foreman.pid, signal.SIGKILL)
        pool._foreman.join()
        for i in range(1, 4):
            pool.submit(i)
        found = pool.results()
    assert worker != PARENT and found == [(0, worker), *((i, PARENT) for i in range(1, 4))]
    ended = time.monotonic() + 60
    while _is_alive(worker) and time.monotonic() < ended:
        time.sleep(0.1)
    assert not _is_alive(worker)


def _is_alive(process: int) -> bool:
    """Whether a process of this number runs; one that has ended and waits to be noticed does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("items", [0, 3])
def test_nothing_is_left_running(items: int) -> None:
    with Beside(lambda i: i, processes=2) as pool:
        for i in range(items):
            pool.submit(i)
        assert pool.results() == list(range(items))
    pool._foreman.join(60)
    assert pool._foreman.exitcode == 0


def test_tensors_come_back_as_they_were() -> None:
    made = [torch.arange(3), torch.ones(2, 2), torch.tensor([1 + 2j]).conj(), torch.zeros(1).half()]
    [found] = worked(lambda i: made, 1, processes=1)
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(made, found, strict=True))


def test_what_the_work_raises_is_raised_here() -> None:
    def work(i: int) -> int:
        raise ArithmeticError(f"item {i}")

    with pytest.raises(ArithmeticError, match="item 0"):
        worked(work, 4, processes=2)
    assert module._work is None


def test_processes_for_few_items_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert processes_for(63) == 0
    assert processes_for(130) == 2
    assert processes_for(10_000) == 16
    monkeypatch.setattr(module, "get_all_start_methods", lambda: ["spawn"])
    assert processes_for(10_000) == 0


@pytest.fixture(scope="module")
def stress() -> Observations:
    sim = simulate(SETS["stress"].prior, 12, *GRIDS, mode="physical", seed=5)
    return Observations.from_arrays(
        sim.long.double().numpy(), GRIDS[0].dt, sim.short.double().numpy(), GRIDS[1].dt
    )


OPTIONS: dict[str, Any] = {"prior": SETS["stress"].prior, "draws": 500, "method": "exact"}


def test_verdicts_beside_are_those_of_single_posteriors(
    zoom: SlotFlow, stress: Observations
) -> None:
    posts = zoom.infer(stress, **OPTIONS)
    [part] = [part for part, *_ in posts.batches() if isinstance(part, ExactPosteriors)]
    rows = part.changing
    assert len(rows) >= 2
    with Rest(zoom, stress, asked(zoom, processes=2, **OPTIONS)) as rest:
        for row in rows:
            _, group, i = part.members[row]
            rest.judge(group, i, part.judging(row))
        assert rest.posteriors() == {}
    assert part.changing == []
    for row, verdict in zip(rows, part.verdicts(np.array(rows)), strict=True):
        one = part.one(row).verdict
        assert (verdict.status, verdict.reason) == (one.status, one.reason)


def test_signals_answered_beside_are_those_answered_here(
    zoom: SlotFlow, stress: Observations
) -> None:
    found = []
    for processes in (0, 2):
        with Rest(zoom, stress, asked(zoom, processes=processes, **OPTIONS)) as rest:
            rest.take([1, 4, 3])
            found.append(rest.posteriors())
    assert sorted(found[0]) == sorted(found[1]) == [1, 3, 4]
    for place, one in found[0].items():
        other = found[1][place]
        assert np.allclose(one.k_probs, other.k_probs, atol=1e-5)
        assert np.allclose(one.log_evidence, other.log_evidence, atol=1e-3, equal_nan=True)
        draws = [post.sample_joint(5)[0] for post in (one, other)]
        assert np.allclose(*draws, atol=1e-5, equal_nan=True)
        assert one.verdict.status == other.verdict.status


def test_many_signals_without_a_stated_prior_are_answered_in_processes(
    zoom: SlotFlow, stress: Observations
) -> None:
    some = [stress[i] for i in (0, 2)]
    asked: dict[str, Any] = {"prior": {"frequency": (2.5, 3.0)}, "draws": 500}
    here, beside = zoom.infer(some, **asked), zoom.infer(some, processes=2, **asked)
    assert np.allclose(here.k_probs, beside.k_probs, atol=1e-4)
    assert [v.status for v in here.verdicts] == [v.status for v in beside.verdicts]


def test_fewer_than_no_processes_are_refused(zoom: SlotFlow, stress: Observations) -> None:
    with pytest.raises(ValueError, match="expected processes >= 0, received -1"):
        zoom.infer(stress, processes=-1, **OPTIONS)
