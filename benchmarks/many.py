"""Memory and rate of `slotflow infer` on many signals of the paper's size: ``python benchmarks/many.py 1000 2000``.

Each number of signals is simulated into a file and analysed by one command in a process of its own. Peak memory that
does not grow with their number shows that signals are read and forgotten in chunks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

STATED = [
    "--band",
    "2.5:3",
    "--amplitude",
    "0.5:1.5",
    "--min-separation",
    "0.01",
    "--sigma",
    "0:1.5",
]
"""The prior that the signals are drawn from; without it, each signal would be answered under a weak one of its own."""


def measure(n: int, flags: list[str], folder: Path) -> dict[str, float]:
    """Runs the command on n signals.

    Args:
        n: How many.
        flags: Further flags of the command.
        folder: Where to write.

    Returns:
        The number of signals, their rate by the clock and by the processor's time, and the peak memory in MB.
    """
    data, out = folder / f"{n}.npz", folder / f"{n}"
    command = [sys.executable, "-m", "slotflow"]
    simulate = ["simulate", "--n", str(n), "--seed", "1", "--out", str(data), "--quiet"]
    subprocess.run([*command, *simulate], check=True)
    infer = [*command, "infer", str(data), "--out", str(out), "--save", "none", *flags]
    process = subprocess.Popen([*infer], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the command failed with status {status}")
    rate = float(lines.rsplit(", ", 1)[1].split()[0])
    busy = usage.ru_utime + usage.ru_stime
    return {
        "signals": n,
        "per_second": rate,
        "per_cpu_second": round(n / busy, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def main() -> None:
    """Measures each number of signals and prints one JSON document per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", type=int, nargs="+", help="numbers of signals")
    parser.add_argument("--refine", action="store_true", help="with the exact step")
    parser.add_argument("--threads", default="1", help="CPU threads")
    args = parser.parse_args()
    flags = [*STATED, "--threads", args.threads] + ([] if args.refine else ["--no-refine"])
    with tempfile.TemporaryDirectory() as folder:
        for n in args.n:
            print(json.dumps(measure(n, flags, Path(folder)) | {"refine": args.refine}), flush=True)


if __name__ == "__main__":
    main()
