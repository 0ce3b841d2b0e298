"""Many signals on a Dask cluster: killed workers, a scheduler that is lost, signals that crash; a real catalogue."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from many_helpers import FILE, FakeWork, run_fake

import slotflow
from slotflow.data.observation import Observation
from slotflow.many import cluster
from slotflow.many.cluster import DaskCluster, connected
from slotflow.many.messages import Task
from slotflow.many.plan import Plan
from slotflow.network.config import Config
from slotflow.signal.simulation import simulate

distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")

TESTS = Path(__file__).parent
PLAN = Plan([FILE], [24], size=4)


@pytest.fixture(autouse=True)
def helpers_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the helpers of the tests."""
    paths = [str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))


def tables(folder: Path) -> dict[str, bytes]:
    """The tables of a folder, byte by byte."""
    return {name: (folder / name).read_bytes() for name in ("catalogue.csv", "signals.csv")}


class Watched(DaskCluster):
    """A cluster that calls back after each chunk."""

    def __init__(self, *args: Any, after: Any) -> None:
        super().__init__(*args)
        self.after, self.reconnected = after, 0

    def _reconnect(self) -> None:
        self.reconnected += 1
        super()._reconnect()

    def answers(self, tasks: Any) -> Iterator[Any]:
        for number, found in enumerate(super().answers(tasks)):
            yield found
            self.after(number)


def test_killed_workers_and_bad_signals(tmp_path: Path) -> None:
    """Workers that are killed -9 cost nothing but time, and signals that crash or hang are listed."""
    one = run_fake(
        FakeWork(tmp_path / "one.log", {5: "exit"}), tmp_path / "one", PLAN, supervised=True
    )
    work = FakeWork(tmp_path / "log", {5: "exit"}, seconds=0.02)
    killed: list[int] = []
    with connected("local:2") as client:

        def kill_one(number: int) -> None:
            if number in (0, 2):
                killed.append(sorted(client.run(os.getpid).values())[0])
                os.kill(killed[-1], signal.SIGKILL)

        cluster = Watched(client, work.pickled(), None, after=kill_one)
        run = run_fake(work, tmp_path / "out", PLAN, cluster=cluster)
        assert len(set(killed)) == 2 and run.computed == 23 and run.failures() == one.failures()
        assert tables(tmp_path / "out") == tables(tmp_path / "one")
        again = run_fake(work, tmp_path / "out", PLAN, cluster=DaskCluster(client, work.pickled()))
        assert again.computed == 0 and again.failures() == run.failures()
        assert tables(tmp_path / "out") == tables(tmp_path / "one")


@contextmanager
def scheduler(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler and one worker, each a process of its own."""
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", str(port)]
    place = f"tcp://127.0.0.1:{port}"
    hand = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        place,
        "--no-nanny",
        "--nthreads",
        "1",
    ]
    jobs = [
        subprocess.Popen([*words, "--no-dashboard"], stderr=subprocess.DEVNULL),
        subprocess.Popen([*hand, "--no-dashboard"], stderr=subprocess.DEVNULL),
    ]
    try:
        yield jobs[0]
    finally:
        for job in jobs:
            job.kill()
            job.wait()


@pytest.mark.filterwarnings("ignore")  # the client complains of the lost connection as it likes
def test_a_scheduler_that_is_lost_and_comes_back(tmp_path: Path) -> None:
    """What was under way is handed out again; what was done is not."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    work = FakeWork(tmp_path / "log", seconds=0.05)
    run_fake(FakeWork(tmp_path / "one.log"), tmp_path / "one", PLAN)
    first = scheduler(port)
    job = first.__enter__()
    second = None

    def restart(number: int) -> None:
        nonlocal second
        if number == 1:
            job.kill()
            first.__exit__(None, None, None)
            second = scheduler(port)
            second.__enter__()

    with connected(f"tcp://127.0.0.1:{port}") as client:
        cluster = Watched(client, work.pickled(), None, after=restart)
        run = run_fake(work, tmp_path / "out", PLAN, cluster=cluster)
    assert second is not None and cluster.reconnected >= 1
    second.__exit__(None, None, None)
    assert run.computed == 24 and not run.failures()
    assert tables(tmp_path / "out") == tables(tmp_path / "one")


def test_no_process_stays_beside_a_worker(tmp_path: Path) -> None:
    """After a second run of the same work and after another one too."""
    works = [FakeWork(tmp_path / name).pickled() for name in ("a", "a", "b")]
    try:
        for work in works:
            assert len(cluster.answer_task(work, None, Task(PLAN.chunk(0)))) == 4
            (process,) = cluster._processes  # one that another took the place of is not kept
            assert process.pid is not None
            if work is not works[1]:
                cluster.end_processes()
                assert process.pid is None
    finally:
        cluster._own.process.close()
        del cluster._own.process


def test_addresses_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotflow.many.cluster.CONNECT_SECONDS", 0.5)
    for address in ("tcp://127.0.0.1:9", "local:0", "local:many"):
        with pytest.raises(ValueError, match="--dask: expected"), connected(address):
            pass


def test_a_catalogue_in_python(tmp_path: Path) -> None:
    """Observations in memory and a file, here and by a process of its own: the same rows."""
    config = Config.from_preset("debug").model
    sim = simulate(config.prior, 6, config.long, config.short, mode="physical", seed=3)
    assert sim.short is not None
    long, short = sim.long.numpy().astype(float), sim.short.numpy().astype(float)
    steps = {"dt_long": config.long.dt, "dt_short": config.short.dt}
    np.savez(tmp_path / "x.npz", long=long, short=short, **steps)
    asked: dict[str, Any] = {"model": "debug", "method": "network", "samples": 20, "chunk": 4}
    here = slotflow.catalogue(tmp_path / "x.npz", tmp_path / "out", **asked)
    assert here.computed == 6 and len(here.signals) == 6 and here.failed.empty
    assert len(here.components) == here.signals["k_map"].sum()
    assert {"verdict", "frequency_median"} <= set(here.components)
    assert slotflow.catalogue(tmp_path / "x.npz", tmp_path / "out", **asked).computed == 0
    several = [
        Observation.from_arrays(x, config.long.dt, y, config.short.dt)
        for x, y in zip(long, short, strict=True)
    ]
    apart = slotflow.catalogue(several, **asked, supervised=True)
    assert apart.components.drop(columns="file").equals(here.components.drop(columns="file"))
    with pytest.raises(ValueError, match="received none"):
        slotflow.catalogue([])
