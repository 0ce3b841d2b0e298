"""What the scripts of the simulated proofs have in common: flags, many signals over processes, one JSON record.

A script says what its parts are and how one signal of a part becomes a record of plain values. Records are kept in a
database beside the JSON file and are found again by a later run with the same code, weights and settings, so that a run
that was stopped, or one with more signals, goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slotflow.core.store import Store, identity
from slotflow.core.version import __version__
from slotflow.studies.tasks import Record, Worker, run_recorded

__all__ = ["LARGEST_DEVIATION", "Options", "parse", "pulls", "records_of", "write_json"]

LARGEST_DEVIATION = 3.0
"""Standard errors up to which two numbers count as the same."""
PROGRESS_SECONDS = 10.0
"""Time between two lines of progress."""


@dataclass(frozen=True)
class Options:
    """The flags that every script has."""

    size: int
    """Signals of each part."""
    jobs: int
    """Processes, with one thread each; 0: this process."""
    seed: int
    """Every signal's own seed follows from it, its part and its number."""
    out: Path | None
    """JSON file to write; its records are kept beside it."""
    parts: tuple[str, ...]
    """Parts to run."""
    flags: argparse.Namespace
    """Everything, the script's own flags included."""

    @property
    def command(self) -> str:
        """The command line, from the script's name on, without what does not change the result."""
        script = Path(sys.argv[0])
        words = [f"python {script.parent.name}/{script.name}", f"--size {self.size}"]
        return " ".join([*words, f"--seed {self.seed}", f"--parts {shlex.join(self.parts)}"])


def parse(
    doc: str | None,
    parts: Sequence[str],
    size: int,
    add: Callable[[argparse.ArgumentParser], object] | None = None,
    arguments: Sequence[str] | None = None,
) -> Options:
    """Reads the command line.

    Args:
        doc: The script's docstring; its first line is the description.
        parts: Names of all parts.
        size: Signals of a part of the full size.
        add: Adds flags of the script's own.
        arguments: The command line, the process's own if None.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=size, help="signals of each part")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: this one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file to write; a later run goes on from it")
    parser.add_argument("--parts", nargs="+", choices=list(parts), default=list(parts))
    if add is not None:
        add(parser)
    flags = parser.parse_args(arguments)
    return Options(
        flags.size, flags.jobs, flags.seed, flags.out, tuple(dict.fromkeys(flags.parts)), flags
    )


def records_of(
    options: Options,
    make: Callable[[], Worker],
    settings: Mapping[str, Any],
    sizes: Mapping[str, int] | None = None,
) -> dict[str, list[Record]]:
    """Records of all signals of all parts, in the order of their numbers.

    Args:
        options: The command line.
        make: Makes a process's worker; picklable.
        settings: Everything but seed, part and number that shapes a record.
        sizes: Signals of each part, if not of `options.size` for all.
    """
    torch.set_num_threads(1)
    counts = {part: (sizes or {}).get(part, options.size) for part in options.parts}
    # Parts in turn, so that a run that is stopped early has some of each.
    most = max(counts.values(), default=0)
    tasks = [(part, i) for i in range(most) for part in options.parts if i < counts[part]]
    key = identity(settings={**settings, "seed": options.seed})
    path = None if options.out is None else options.out.with_suffix(".records.sqlite")
    began, told, done = time.monotonic(), time.monotonic(), 0

    def tell(part: str, worked: bool) -> None:
        nonlocal told, done
        done += 1
        if time.monotonic() - told > PROGRESS_SECONDS or done == len(tasks):
            told = time.monotonic()
            print(f"{done} of {len(tasks)} signals, {told - began:.0f} s", file=sys.stderr)

    with Store(path) as store:
        found = run_recorded(
            tasks, make, store, lambda task: (f"{task[0]}#{task[1]}", key), tell, options.jobs
        )
    return {part: [found[part, i] for i in range(n)] for part, n in counts.items()}


def pulls(records: Sequence[Record]) -> dict[str, Any]:
    """How far "ours" is from "reference" in each record, in units of the standard errors of both."""
    error = np.array([np.hypot(r["ours_error"], r["reference_error"]) for r in records])
    difference = np.array([r["ours"] - r["reference"] for r in records])
    away = difference / error
    return {
        "signals": len(records),
        "within": int((np.abs(away) < LARGEST_DEVIATION).sum()),
        "pulls": away.round(2).tolist(),
        "differences": difference.round(3).tolist(),
        "errors": error.round(3).tolist(),
    }


def write_json(options: Options, settings: Mapping[str, Any], results: Mapping[str, Any]) -> None:
    """Prints the results, and writes them with how they were made to the file that was asked for."""
    processes = max(options.jobs, 1)
    facts = {
        "command": options.command,
        "version": __version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{processes} {'process' if processes == 1 else 'processes'} of one thread",
        "settings": dict(settings),
        "results": dict(results),
    }
    text = json.dumps(facts, indent=1, ensure_ascii=False, default=str)
    if options.out is None:
        print(text)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text + "\n", "utf-8")
    print(json.dumps(dict(results), indent=1, ensure_ascii=False))
