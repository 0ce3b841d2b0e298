"""What many signals cost by the way they are asked: ``python benchmarks/many.py --out docs/data/many.json``.

The same signals of the paper's size are analysed, exact step included, by

1. ``model.infer`` of a list, with all verdicts and the table of all components;
2. ``slotflow infer FILE --out DIR --save none``, which writes tables and keeps a ledger;
3. the same with ``--save all``: a folder with its posterior for each signal;
4. ``slotflow.catalogue`` of the list.

Each runs in a process of its own on one thread. Its cost is processor time over that of the same call on a few signals,
so that loading the package and the network does not count. ``--against`` names the source folder of another version,
which is measured beside this one, way by way. Then the command is run on the same signals once and several times over:
peak memory that does not grow with their number shows that signals are read and forgotten in chunks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from slotflow.core.version import __version__

PRIOR = {
    "frequency": (2.5, 3.0),
    "amplitude": (0.5, 1.5),
    "min_separation": 0.01,
    "sigma": (0, 1.5),
}
"""What the signals are drawn from; without it, each signal would be answered under a weak prior of its own."""
FLAGS = ["--band", "2.5:3", "--amplitude", "0.5:1.5", "--min-separation", "0.01"]
FLAGS += ["--sigma", "0:1.5", "--threads", "1"]
"""The same for the command."""
FEW = 8
"""Signals of the call whose cost is that of starting."""
SERIES = ("long", "short", "dt_long", "dt_short")
"""What a file of signals must hold."""
TABLED = 1000
"""Draws of each signal behind a table, as the command has them."""
IN_PYTHON = """
import json, sys, time
from pathlib import Path
import slotflow
from slotflow.data.read.options import ReadOptions
from slotflow.data.read.signals import open_signals

file, way, prior, few, tabled = json.loads(sys.argv[1])
with open_signals(Path(file), ReadOptions()) as source:
    signals = source.read(0, source.count)
model = slotflow.SlotFlow.from_pretrained()

def ask(some):
    start = time.process_time()
    if way == "list":
        found = model.infer(some, prior=prior, threads=1)
        found.verdicts, found.summary(tabled)
    else:
        slotflow.catalogue(some, prior=prior, threads=1, samples=tabled)
    return time.process_time() - start

ask(signals[:few])
print(1e3 * (ask(signals) - ask(signals[:few])) / (len(signals) - few))
"""


def simulated(folder: Path, n: int) -> Path:
    """A file of n signals."""
    data = folder / f"{n}.npz"
    words = ["simulate", "--n", str(n), "--seed", "1", "--out", str(data), "--quiet"]
    subprocess.run([sys.executable, "-m", "slotflow", *words], check=True)
    return data


def of(source: Path | None) -> dict[str, str]:
    """The environment in which a version of the package is found, with one thread."""
    path = {} if source is None else {"PYTHONPATH": str(source)}
    return os.environ | {"OMP_NUM_THREADS": "1"} | path


def commanded(data: Path, out: Path, source: Path | None, *flags: str) -> tuple[float, float]:
    """Processor time of one run of the command in seconds, and its peak memory in MB."""
    words = ["infer", str(data), "--out", str(out), "--quiet", *FLAGS, *flags]
    job = subprocess.Popen([sys.executable, "-m", "slotflow", *words], env=of(source))
    _, status, usage = os.wait4(job.pid, 0)
    if status:
        raise SystemExit(f"the command failed with status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def by_shell(folder: Path, n: int, source: Path | None, *flags: str) -> float:
    """Milliseconds a signal of the command."""
    with tempfile.TemporaryDirectory(dir=folder) as out:
        start, _ = commanded(folder / f"{FEW}.npz", Path(out, "few"), source, *flags)
        busy, _ = commanded(folder / f"{n}.npz", Path(out, "all"), source, *flags)
    return 1e3 * (busy - start) / (n - FEW)


def in_python(folder: Path, n: int, source: Path | None, way: str) -> float:
    """Milliseconds a signal of a call in Python."""
    asked = json.dumps([str(folder / f"{n}.npz"), way, PRIOR, FEW, TABLED])
    words = [sys.executable, "-c", IN_PYTHON, asked]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=of(source))
    return float(done.stdout)


def ways(folder: Path, n: int, source: Path | None) -> dict[str, float]:
    """Milliseconds a signal by the way it is asked."""
    return {
        "model.infer(list)": in_python(folder, n, source, "list"),
        "slotflow infer --save none": by_shell(folder, n, source, "--save", "none"),
        "slotflow.catalogue(list)": in_python(folder, n, source, "catalogue"),
        "slotflow infer --save all": by_shell(folder, n, source, "--save", "all"),
    }


def memory(folder: Path, n: int, times: int, method: str) -> dict[str, Any]:
    """Processor time and peak memory of the command on n signals some times over, its start included."""
    with np.load(folder / f"{n}.npz") as file:
        arrays = {name: file[name] for name in file}
    more = {x: np.concatenate([a] * times) if len(a.shape) > 1 else a for x, a in arrays.items()}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        data = Path(name, "many.npz")
        np.savez(data, **{x: more[x] for x in SERIES if x in more})
        flags = ("--save", "none", "--method", method)
        busy, peak = commanded(data, Path(name, "out"), None, *flags)
    n *= times
    return {
        "signals": n,
        "method": method,
        "per_cpu_second": round(n / busy, 1),
        "peak_mb": round(peak),
    }


def main() -> None:
    """Measures all of it and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="signals")
    parser.add_argument("--against", type=Path, help="source folder of another version")
    parser.add_argument(
        "--times", type=int, nargs="*", default=[1, 4], help="how often over, for memory"
    )
    parser.add_argument("--out", type=Path, help="JSON file of the record")
    args = parser.parse_args()
    record: dict[str, Any] = {
        "version": __version__,
        "machine": f"one core, {platform.machine()}",
        "signals": args.size,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in (FEW, args.size):
            simulated(folder, n)
        if args.against is not None:
            record["ms_before"] = ways(folder, args.size, args.against)
            print("before", json.dumps(record["ms_before"]), flush=True)
        record["ms"] = ways(folder, args.size, None)
        print("now", json.dumps(record["ms"]), flush=True)
        record["memory"] = [
            memory(folder, args.size, times, method)
            for method in ("network", "exact")
            for times in args.times
        ]
    print(json.dumps(record["memory"]), flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
