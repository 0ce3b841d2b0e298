"""Work in processes beside this one: order, shared objects, failures, and equal answers."""

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

from slotflow.core import beside as module
from slotflow.core.beside import beside, processes_for
from slotflow.data.observations import Observations
from slotflow.exact.batch.posteriors import ExactPosteriors
from slotflow.infer.together import _alone
from slotflow.network.model import SlotFlow
from slotflow.signal.simulation import simulate
from slotflow.studies.suites.sets import GRIDS, SETS

PARENT = os.getpid()


def test_results_come_in_order_from_other_processes() -> None:
    found = beside(lambda i: (i * i, os.getpid()), 20, processes=2)
    assert [square for square, _ in found] == [i * i for i in range(20)]
    assert os.getpid() not in {process for _, process in found}


def test_without_processes_this_one_works() -> None:
    assert beside(lambda i: os.getpid(), 2, processes=0) == [PARENT, PARENT]


def test_shared_objects_are_not_copied() -> None:
    weights, other = np.ones(10), np.ones(10)
    [(first, second)] = beside(lambda i: (weights, other), 1, processes=1, shared=[weights])
    assert first is weights
    assert second is not other and np.array_equal(second, other)


def test_a_process_that_dies_loses_nothing() -> None:
    def work(i: int) -> int:
        if i == 5 and os.getpid() != PARENT:
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    assert beside(work, 12, processes=2) == list(range(12))


def test_what_the_work_raises_is_raised_here() -> None:
    def work(i: int) -> int:
        raise ArithmeticError(f"item {i}")

    with pytest.raises(ArithmeticError, match="item 0"):
        beside(work, 4, processes=2)
    assert module._work is None


def test_processes_for_few_items_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    assert processes_for(3) == 0
    assert processes_for(9) == 2
    assert processes_for(1000) == 16
    monkeypatch.setattr(module, "get_all_start_methods", lambda: ["spawn"])
    assert processes_for(1000) == 0


@pytest.fixture(scope="module")
def stress() -> Observations:
    sim = simulate(SETS["stress"].prior, 12, *GRIDS, mode="physical", seed=5)
    return Observations.from_arrays(
        sim.long.double().numpy(), GRIDS[0].dt, sim.short.double().numpy(), GRIDS[1].dt
    )


def test_verdicts_beside_are_those_of_single_posteriors(
    zoom: SlotFlow, stress: Observations
) -> None:
    posts = zoom.infer(stress, prior=SETS["stress"].prior, draws=500)
    judged = 0
    for part, rows, _ in posts.batches():
        if not isinstance(part, ExactPosteriors):
            continue
        part.on_gpu = True
        for row, verdict in zip(rows.tolist(), part.verdicts(rows), strict=True):
            if not part._steady(row):
                one, judged = part.one(row).verdict, judged + 1
                assert (verdict.status, verdict.reason) == (one.status, one.reason)
    assert judged >= 2


def test_signals_answered_in_processes_are_those_answered_here(
    zoom: SlotFlow, stress: Observations
) -> None:
    options: dict[str, object] = {"prior": SETS["stress"].prior, "draws": 500, "method": "exact"}
    here: Callable[[int], list] = lambda n: list(_alone(zoom, stress, [1, 3, 4], options, n))  # noqa: E731
    for one, other in zip(here(0), here(2), strict=True):
        assert np.allclose(one.k_probs, other.k_probs, atol=1e-5)
        assert np.allclose(one.log_evidence, other.log_evidence, atol=1e-3, equal_nan=True)
        assert np.allclose(
            one.sample_joint(5)[0], other.sample_joint(5)[0], atol=1e-5, equal_nan=True
        )
        assert one.verdict.status == other.verdict.status
