"""Decompositions take turns on a GPU: nothing that threads work on side by side goes around the lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from slotflow import Prior, simulate
from slotflow.core import linear
from slotflow.data.sampling import Grid
from slotflow.exact.batch.changes import score_tests
from slotflow.exact.batch.draws import Numbers
from slotflow.exact.batch.fits import fitted
from slotflow.exact.batch.group import DECIDED, decide
from slotflow.signal.likelihood import Statistics
from slotflow.signal.waveforms import TONE

PRIOR = Prior(k_min=0, k_max=4, min_separation=0.05, sigma=(0.0, 0.4))
HARMLESS = ("linalg_vector_norm", "linalg_norm", "linalg_diagonal")


class Watch(TorchFunctionMode):
    """Takes note of the decompositions that are called, and of those that nobody's turn covers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.out_of_turn: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        words = ("linalg_", "cholesky", "slogdet", "logdet", "inverse", "triangular", "lu_")
        if name.startswith(words) and name not in HARMLESS:
            self.seen.add(name)
            if not linear._TURN.locked():
                self.out_of_turn.add(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """As beside a GPU: every call waits for its turn."""
    monkeypatch.setattr(linear, "_waits", lambda first: True)
    with Watch() as watch:
        yield watch


def test_what_threads_work_on_takes_turns(monkeypatch: pytest.MonkeyPatch, base_seed: int) -> None:
    grids = Grid(600, 0.1), Grid(512, 1 / 512)
    sim = simulate(PRIOR, 4, *grids, mode="physical", seed=base_seed, k=2)
    statistics = Statistics.from_observation([sim.observation(i) for i in range(4)])
    places = TONE.place_of(sim.theta[:, :2].double()).sort(dim=-1).values
    with watched(monkeypatch) as watch:
        group = decide(statistics, places, PRIOR, Numbers(0, 2, 500, torch.device("cpu")))
        score_tests(statistics, fitted(statistics, places, PRIOR).z)
    assert DECIDED in group.reasons  # so that everything was called
    assert {"linalg_slogdet", "linalg_cholesky_ex", "linalg_solve"} <= watch.seen
    assert not watch.out_of_turn


def test_the_watch_sees_who_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    eye = torch.eye(2)[None]
    with watched(monkeypatch) as watch:
        linear.inv(eye)
        torch.linalg.slogdet(eye)
        torch.cholesky_solve(eye, eye)
    assert watch.out_of_turn == {"linalg_slogdet", "cholesky_solve"}


def test_nobody_waits_on_a_cpu() -> None:
    """With the lock taken a call still ends: it would wait for ever if it asked for its turn."""
    with linear._TURN:
        torch.testing.assert_close(linear.inv(2 * torch.eye(2)), 0.5 * torch.eye(2))
