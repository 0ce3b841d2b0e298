"""First contact: what does `slotflow infer FILE`, with no flag at all, say of the series that people have?

``python benchmarks/first_contact.py FOLDER --out first.json`` runs the command on every file of a folder, each in a
process of its own and under a time limit, and prints a table: the verdict, how many tones, how many of the known ones
are among them, the strongest, and the seconds of the whole command by the clock and by the processor. What is known of
each series stands in ``first_contact.yaml`` beside this script, with the public source of the file; the files
themselves are not part of the repository. A known frequency counts as found if a reported one lies within half a bin
of 1/T (or the tolerance that the list states). The record says with which command, version and machine it was made,
and how busy the machine was: a time budget by the clock holds less on one that does other work.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from slotflow import __version__

TRUTHS = Path(__file__).with_suffix(".yaml")
HALF_A_BIN = 0.5
STRONGEST = 4
"""How many of the strongest tones the table shows."""


def processor() -> float:
    """Processor seconds of all finished children, which a busy machine does not lengthen as it does the clock's."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def answer(file: Path, limit: float, flags: list[str]) -> dict[str, Any]:
    """Runs the command on one file.

    Args:
        file: The series.
        limit: Seconds after which the command is stopped.
        flags: Further flags; a first contact has none.

    Returns:
        The seconds by the clock and by the processor, and the command's own document or how it ended without one.
    """
    command = [sys.executable, "-m", "slotflow", "infer", str(file), "--json", *flags]
    start, busy = time.perf_counter(), processor()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        spent = {"seconds": limit, "cpu_seconds": round(processor() - busy, 1)}
        return spent | {"ended": "timeout", "words": f"no answer in {limit:.0f} s"}
    seconds = round(time.perf_counter() - start, 1)
    spent = {"seconds": seconds, "cpu_seconds": round(processor() - busy, 1)}
    try:
        record = json.loads(done.stdout)["signals"][0]
    except (json.JSONDecodeError, KeyError, IndexError):
        last = (done.stderr.strip() or "no words").splitlines()[-1]
        return spent | {"ended": "refused", "words": last}
    return spent | {"ended": "answered", "record": record}


def found(record: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """Names of the known tones that the answer holds.

    A file that does not tell its unit of time is read in seconds; frequencies per day are then the numbers in Hz.

    Args:
        record: One signal of the command's document.
        truth: Entry of the list, with ``tones`` in cycles per ``clock`` seconds.

    Returns:
        The names, in the order of the list.
    """
    reported = [c["frequency_median"] for c in record["components"]]
    duration = record["assumed"]["streams"][0]["duration"]
    tolerance = truth.get("tolerance_bins", HALF_A_BIN) / duration
    best: list[str] = []
    for clock in (1.0, float(truth.get("clock", 1.0))):
        near = [
            name
            for name, f in truth.get("tones", {}).items()
            if any(abs(g - f / clock) <= tolerance for g in reported)
        ]
        best = max(best, near, key=len)
    return best


def row(file: Path, truth: dict[str, Any], limit: float, flags: list[str]) -> dict[str, Any]:
    """One line of the table, from one run of the command."""
    outcome = answer(file, limit, flags)
    line: dict[str, Any] = {
        "file": file.name,
        "what": truth.get("what", ""),
        "seconds": outcome["seconds"],
        "cpu_seconds": outcome["cpu_seconds"],
        "known": len(truth.get("tones", {})),
    }
    if outcome["ended"] != "answered":
        return line | {"status": outcome["ended"], "reason": outcome["words"]}
    record = outcome["record"]
    components = sorted(record["components"], key=lambda c: -c["amplitude_median"])
    names = found(record, truth)
    return line | {
        "status": record["verdict"]["status"],
        "reason": record["verdict"]["reason"],
        "k": record["k_map"],
        "p_k": record["k_probs"][record["k_map"]] if record["k_probs"] else None,
        "found": len(names),
        "missed": [name for name in truth.get("tones", {}) if name not in names],
        "strongest": [
            [c["frequency_median"], c["frequency_sd"], c["amplitude_median"], c["amplitude_sd"]]
            for c in components[:STRONGEST]
        ],
        "signed": signed(record, names, truth),
    }


def signed(record: dict[str, Any], names: list[str], truth: dict[str, Any]) -> bool:
    """Whether a specialist would sign: all known tones are there, and a misfit only where the list calls it deserved.

    A series of which the list knows neither a tone nor that there is none cannot be signed.
    """
    known = truth.get("tones", {})
    complete = len(names) == len(known) if known else truth.get("empty", False)
    quiet = bool(known) or record["k_map"] == 0
    fits = record["verdict"]["status"] != "misfit" or truth.get("misfit_deserved", False)
    return bool(complete and quiet and fits)


def circumstances(limit: float, flags: list[str]) -> dict[str, Any]:
    """How a record was made."""
    return {
        "command": f"slotflow infer FILE --json {' '.join(flags)}".strip(),
        "version": __version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, one file at a time",
        "load_average": round(os.getloadavg()[0], 1),
        "limit_seconds": limit,
    }


def printed(line: dict[str, Any]) -> str:
    """The line as text."""
    tones = " ".join(f"{f:.6g}" for f, *_ in line.get("strongest", []))
    count = f"{line['found']}/{line['known']}" if "found" in line else f"-/{line['known']}"
    k = str(line.get("k", "-"))
    probability = line.get("p_k")
    chance = f"{probability:.2f}" if probability is not None and math.isfinite(probability) else "-"
    mark = "yes" if line.get("signed") else "no"
    return (
        f"{line['file'][:34]:34} {line['status']:12} {k:>3} {chance:>5} {count:>6} {line['seconds']:6.1f} "
        f"{line['cpu_seconds']:5.1f} "
        f"{mark:4} {tones:44} {line['reason'][:110]}"
    )


def main() -> None:
    """Runs the folder and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of series, one file each")
    parser.add_argument("--only", default="*", help="pattern of the files to take")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each file")
    parser.add_argument("--truths", type=Path, default=TRUTHS, help="what is known of the files")
    parser.add_argument("--out", type=Path, help="where to keep the table as JSON")
    parser.add_argument("flags", nargs="*", help="flags of the command, after --")
    args = parser.parse_args()
    truths = yaml.safe_load(args.truths.read_text("utf-8"))
    files = sorted(f for f in args.folder.glob(args.only) if f.is_file())
    if not files:
        parser.error(f"expected files in {args.folder} that match {args.only}, received none")
    lines = []
    print(
        f"{'file':34} {'status':12} {'K':>3} {'p(K)':>5} {'found':>6} {'sec':>6} {'cpu':>5} sign strongest (Hz)"
    )
    for file in files:
        line = row(file, truths.get(file.name, {}), args.limit, args.flags)
        print(printed(line), flush=True)
        lines.append(line)
        if args.out:
            record = circumstances(args.limit, args.flags) | {"files": lines}
            args.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    answered = [line for line in lines if "k" in line]
    print(
        f"{len(answered)} of {len(lines)} answered, "
        f"{sum(line['status'] == 'misfit' for line in answered)} misfit, "
        f"{sum(line.get('signed', False) for line in lines)} that a specialist would sign"
    )


if __name__ == "__main__":
    main()
