"""Many signals on machines that fail: ``python benchmarks/cluster.py --size 100000 --out docs/data/cluster.json``.

The same signals are analysed three times, each time by `slotflow infer`, and the tables are compared byte by byte:

1. by one process, without interruption;
2. on a Dask cluster with two workers. One of them is killed (-9) at intervals; between the first two kills the
   scheduler is killed and started again, and between the next two the command itself, which goes on from its ledger;
3. in shards, two at a time. Some of them are killed (-9) when they have their first results, and run again; then they
   are merged.

The signals are tiny and the network is the small one (`debug`, method `network`): what is measured is that nothing is
lost and nothing comes twice, not how fast the analysis is. The memory of the processes that analyse is recorded as it
goes.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from slotflow.core.version import __version__
from slotflow.many.ledger import FILE as LEDGER
from slotflow.many.plan import Shard
from slotflow.network.config import Config
from slotflow.signal.simulation import simulate

FLAGS = ["--model", "debug", "--method", "network", "--samples", "20", "--threads", "1", "--quiet"]
SLOTFLOW = [sys.executable, "-m", "slotflow"]
ANALYST = "slotflow.many.worker"
"""What the command line of a process that analyses names."""
TABLES = ("catalogue.csv", "signals.csv")
SIMULATED_AT_ONCE = 5000
FIRST_RESULTS = 50_000
"""Bytes of a ledger that holds the results of a chunk."""
LOOK_SECONDS = 0.5
"""How often a run is looked at."""
START_SECONDS = 40.0
"""Age at which a process has loaded everything that it needs."""
FEWEST_LOOKS = 5
"""Looks at the memory of a process that a median rests on."""


def write_signals(path: Path, size: int) -> None:
    """Writes signals of the small network's prior."""
    config = Config.from_preset("debug").model
    long, short = [], []
    for first in range(0, size, SIMULATED_AT_ONCE):
        n = min(SIMULATED_AT_ONCE, size - first)
        sim = simulate(config.prior, n, config.long, config.short, mode="physical", seed=1 + first)
        assert sim.short is not None
        long.append(sim.long.numpy())
        short.append(sim.short.numpy())
    steps = {"dt_long": config.long.dt, "dt_short": config.short.dt}
    np.savez(path, long=np.concatenate(long), short=np.concatenate(short), **steps)


def infer(data: Path, out: Path, chunk: int, *flags: str) -> list[str]:
    """The command that analyses them."""
    words = [*SLOTFLOW, "infer", str(data), "--out", str(out), "--save", "none", *FLAGS]
    return [*words, "--chunk", str(chunk), *flags]


def counted(folder: Path, size: int) -> dict[str, Any]:
    """How many signals the table of a folder holds, how many are missing and how many stand there twice."""
    with (folder / "signals.csv").open(newline="", encoding="utf-8") as file:
        numbers = [int(row["signal"]) for row in csv.DictReader(file)]
    return {
        "signals": len(numbers),
        "missing": size - len(set(numbers)),
        "twice": len(numbers) - len(set(numbers)),
    }


def same(one: Path, other: Path) -> bool:
    """Whether the tables of two folders are the same, byte by byte."""
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in TABLES)


class Memory:
    """Resident memory of the processes that analyse, by their age."""

    def __init__(self) -> None:
        self.seen: dict[int, list[tuple[float, float]]] = {}

    def look(self, parent: int, itself: bool = False) -> None:
        """Takes down the memory of all analysts below a process, or of the process itself."""
        for process in [psutil.Process(parent)] if itself else descendants(parent):
            try:
                if itself or ANALYST in " ".join(process.cmdline()):
                    age, size = time.time() - process.create_time(), process.memory_info().rss
                    self.seen.setdefault(process.pid, []).append((age, size / 2**20))
            except psutil.Error:
                continue

    def record(self) -> dict[str, Any]:
        """Peak, and the medians of the first and of the last third of a process's life once it has started, in MB."""
        settled, peaks = [], []
        for life in self.seen.values():
            peaks.append(max(size for _, size in life))
            later = [size for age, size in life if age > START_SECONDS]
            third = len(later) // 3
            if third >= FEWEST_LOOKS:
                parts = (later[:third], later[-third:])
                settled.append([round(statistics.median(part), 1) for part in parts])
        return {
            "processes": len(peaks),
            "peak_mb": round(max(peaks), 1) if peaks else None,
            "first_and_last_third_mb": settled,
        }


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below one."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


class Cluster:
    """A scheduler and two workers, which are started again when they are killed.

    Args:
        port: Of the scheduler.
    """

    def __init__(self, port: int) -> None:
        self.address = f"tcp://127.0.0.1:{port}"
        scheduler = ["distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard"]
        workers = [
            "distributed.cli.dask_worker",
            self.address,
            "--nworkers",
            "2",
            "--nthreads",
            "1",
        ]
        silent = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        self.jobs = [
            subprocess.Popen([sys.executable, "-m", *words], **silent)  # type: ignore[call-overload]
            for words in (scheduler, [*workers, "--no-dashboard"])
        ]

    def workers(self) -> list[psutil.Process]:
        """The workers, each with a process of its own that analyses."""
        found = []
        for process in descendants(self.jobs[1].pid):
            try:
                if any(ANALYST in " ".join(child.cmdline()) for child in process.children()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def kill(self) -> None:
        """Kills all of it (-9)."""
        below = descendants(self.jobs[1].pid)
        for job in self.jobs:
            job.kill()
            job.wait()
        for process in below:
            try:
                process.kill()
            except psutil.Error:
                continue


@contextmanager
def timed(record: dict[str, Any]) -> Iterator[None]:
    """Takes down how long a block took."""
    start = time.perf_counter()
    yield
    record["seconds"] = round(time.perf_counter() - start, 1)


def finish(command: list[str], watch: Callable[[subprocess.Popen[bytes]], None]) -> int:
    """Runs a command to its end; `watch` is called every `LOOK_SECONDS`."""
    job = subprocess.Popen(command)
    while job.poll() is None:
        time.sleep(LOOK_SECONDS)
        watch(job)
    return job.returncode


def alone(data: Path, out: Path, chunk: int, size: int) -> dict[str, Any]:
    """One process, without interruption."""
    record: dict[str, Any] = {}
    memory = Memory()
    with timed(record):
        code = finish(infer(data, out, chunk), lambda job: memory.look(job.pid, itself=True))
    if code != 0:
        raise SystemExit(f"the run of one process ended with code {code}")
    return record | {"memory": memory.record()} | counted(out, size)


def on_dask(data: Path, out: Path, args: argparse.Namespace) -> dict[str, Any]:
    """A cluster of two workers that are killed, a scheduler and a command that are killed once."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster, memory = Cluster(port), Memory()
    record: dict[str, Any] = {"workers_killed": 0, "scheduler_restarts": 0, "command_restarts": 0}
    last = time.monotonic()

    def watch(job: subprocess.Popen[bytes]) -> None:
        nonlocal cluster, last
        memory.look(cluster.jobs[1].pid)
        passed, killed = time.monotonic() - last, record["workers_killed"]
        workers = cluster.workers() if passed > args.kill_every / 2 else []
        if not workers:
            return
        if passed > args.kill_every:
            last = time.monotonic()
            workers[killed % len(workers)].kill()
            record["workers_killed"] += 1
        elif killed == 1 and not record["scheduler_restarts"]:
            cluster.kill()
            cluster = Cluster(port)
            record["scheduler_restarts"] += 1
        elif killed == 2 and not record["command_restarts"]:
            job.send_signal(signal.SIGKILL)
            record["command_restarts"] += 1

    with timed(record):
        command = infer(data, out, args.chunk, "--dask", cluster.address)
        codes = [finish(command, watch)]
        while codes[-1] != 0 and len(codes) < 5:  # the same command goes on
            codes.append(finish(command, watch))
    cluster.kill()
    return record | {"exit_codes": codes, "memory": memory.record()} | counted(out, args.size)


def by_shards(data: Path, out: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Shards, two at a time, some of which are killed and run again."""
    doomed = set(np.random.default_rng(0).permutation(args.shards)[: args.killed] + 1)
    record: dict[str, Any] = {"shards": args.shards, "killed": 0}
    memory = Memory()

    def shard(number: int) -> None:
        command = infer(data, out, args.chunk, "--shard", f"{number}/{args.shards}")
        ledger = out / Shard(number, args.shards).folder / LEDGER
        seen = False

        def watch(job: subprocess.Popen[bytes]) -> None:
            nonlocal seen
            memory.look(job.pid)
            begun = ledger.is_file() and ledger.stat().st_size > FIRST_RESULTS
            if number in doomed and not seen and begun:
                seen = True
                job.kill()

        code = finish(command, watch)
        if code == -signal.SIGKILL:
            record["killed"] += 1
            code = finish(command, watch)
        if code != 0:
            raise SystemExit(f"shard {number} ended with code {code}")

    with timed(record), ThreadPoolExecutor(2) as pool:
        list(pool.map(shard, range(1, args.shards + 1)))
    subprocess.run([*SLOTFLOW, "merge", str(out), "--quiet"], check=True)
    return record | {"memory": memory.record()} | counted(out, args.size)


def main() -> None:
    """Runs all three and compares them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=100_000, help="signals")
    parser.add_argument("--chunk", type=int, default=64, help="signals in a chunk")
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds between two kills")
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--killed", type=int, default=5, help="shards that are killed")
    parser.add_argument("--out", type=Path, help="JSON file of the record")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "many.npz"
        write_signals(data, args.size)
        record: dict[str, Any] = {
            "version": __version__,
            "machine": f"{os.cpu_count()} cores, {platform.system()}",
            "settings": {k: v for k, v in vars(args).items() if k != "out"},
            "alone": alone(data, folder / "alone", args.chunk, args.size),
        }
        print(json.dumps(record["alone"]), flush=True)
        for title, how in (("dask", on_dask), ("shards", by_shards)):
            found = how(data, folder / title, args)
            found["identical"] = same(folder / "alone", folder / title)
            record[title] = found
            print(title, json.dumps(found), flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if not all(record[title]["identical"] for title in ("dask", "shards")):
        raise SystemExit("the tables differ")


if __name__ == "__main__":
    main()
