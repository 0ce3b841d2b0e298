"""All records of docs/data/ that need a GPU, one after the other: ``python benchmarks/on_gpu.py --out records``.

    python benchmarks/on_gpu.py --list
    python benchmarks/on_gpu.py --only rate batch-tones-gpu
    python benchmarks/on_gpu.py --minutes 9          # begin nothing that may take longer than what is left

Commands are those of docs/performance.md (`docs/performance_tables.py`), the shortest first. Each runs in a process
group of its own with a limit: one that hangs or fails is ended and listed, and the others run all the same. Records
appear in the folder as they are made, `on-gpu.json` says how each command ended, and its log stays beside it. The
packages of the command line are not needed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from performance_tables import COMMANDS  # noqa: E402

LIMITS = {"rate": 90, "batch-exact-gpu": 120, "batch-tones-gpu": 120, "cost-gpu": 240}
"""Seconds after which a command is ended, several times what it took on an H200."""
SUMMARY = "on-gpu.json"


class Outcome(NamedTuple):
    """How a command ended."""

    ended: str
    """"done", "failed (CODE)", "too long" or "not begun"."""
    seconds: float


def jobs(names: list[str] | None = None) -> dict[str, list[str]]:
    """Commands by the names of their records; all that ask for a GPU unless some are named."""
    asked = [name for name in LIMITS if names is None or name in names]
    return {name: [sys.executable, *shlex.split(COMMANDS[name])[1:]] for name in asked}


def run(command: list[str], log: Path, limit: float) -> Outcome:
    """Runs a command in the repository's root, and ends it with all its children after its time."""
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
            ended = "done" if code == 0 else f"failed ({code})"
        except subprocess.TimeoutExpired:
            ended = "too long"
        finally:
            _end_group(process)
    return Outcome(ended, round(time.monotonic() - began, 1))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and what it has left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_all(
    commands: Mapping[str, list[str]],
    out: Path,
    limits: Mapping[str, float],
    seconds: float = float("inf"),
) -> dict[str, Outcome]:
    """Runs commands one after the other.

    Args:
        commands: By the names of their records; what follows ``--out`` is replaced.
        out: Folder of records, logs and summary.
        limits: Seconds for each.
        seconds: For all; a command whose limit is longer than what is left is not begun.
    """
    out.mkdir(parents=True, exist_ok=True)
    deadline, outcomes = time.monotonic() + seconds, dict[str, Outcome]()
    for name, command in commands.items():
        if time.monotonic() + limits[name] > deadline:
            outcomes[name] = Outcome("not begun", 0.0)
        else:
            place = command.index("--out") + 1
            made = [*command[:place], str((out / f"{name}.json").resolve()), *command[place + 1 :]]
            outcomes[name] = run(made, out / f"{name}.log", limits[name])
        print(f"{name}: {outcomes[name].ended}, {outcomes[name].seconds:.0f} s", flush=True)
        summary = {name: outcome._asdict() for name, outcome in outcomes.items()}
        (out / SUMMARY).write_text(json.dumps(summary, indent=1), "utf-8")
    return outcomes


def main() -> int:
    """Runs what is asked for; exit code 1 if anything did not end well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(LIMITS), metavar="RECORD")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="time for all of them")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "data", help="folder")
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    options = parser.parse_args()
    commands = jobs(options.only)
    if options.list:
        for name, command in commands.items():
            print(f"{name} ({LIMITS[name]} s at most): {shlex.join(command)}")
        return 0
    outcomes = run_all(commands, options.out, LIMITS, 60 * options.minutes)
    return int(any(outcome.ended != "done" for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
