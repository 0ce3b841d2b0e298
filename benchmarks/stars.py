"""Pulsating stars: are the published frequencies found, how many false ones join them, and do the errors hold?

``python benchmarks/stars.py FOLDER --out stars.json`` analyses the light curves of ``star_curves.py`` (FOLDER is
``star_shadow/data`` of https://github.com/LucIJspeert/star_shadow, or the small copy that
``python benchmarks/star_curves.py FOLDER SMALL`` makes of it; the files are not part of this repository) with
``model.infer(observation)`` as it is, under a time budget. ``--rival`` analyses the same series by iterative
pre-whitening instead (``prewhitening.py``, which needs astropy). Finished stars are kept in the file and not repeated,
and one that fails is tried again; ``--limit`` ends a run after so many seconds, whatever is left. ``--report`` prints
the scores of a file, and ``--beside FILE`` those of another method for the same stars (the rows of pre-whitening are in
``docs/data/stars-prewhitening.json``).

Frequencies are matched one to one with the published ones within 1/T, by the assignment with the smallest sum of
distances. Recall is the share of published frequencies with a partner, false frequencies are found ones without.
Pulls are (found − true) / error of f, A and φ at mid-series. Tones closer than 1.5/T, which no spectrum resolves, count
in recall and false frequencies; the pulls are stated with and without them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from prewhitening import prewhiten
from series_proof import differences, infer_series, paired, rows_of, run_all, write_record
from star_curves import Star, load, names, samples

from slotflow import __version__

A_YEAR = 10_000
"""Light curves with more samples are those of a year."""
RESOLVED = 1.5
"""Distance to the next tone in 1/T from which on a tone counts as resolved."""
NEAR = 1.0
"""Largest distance of a pair, in 1/T."""
Array = np.ndarray


def scored(star: Star, tones: Array, errors: Array) -> dict[str, Any]:
    """Counts and pulls of one star."""
    duration = float(star.times[-1] - star.times[0])
    i, j = paired(tones[:, 2], star.truth[:, 2], duration, NEAR)
    difference = differences(tones[i], star.truth[j])
    f = star.truth[:, 2]
    gaps = np.abs(f[:, None] - f[None, :]) + np.where(np.eye(len(f), dtype=bool), np.inf, 0.0)
    return {
        "star": star.name,
        "n": len(star.times),
        "true": len(f),
        "found": len(tones),
        "matched": len(i),
        "pulls": (difference / errors[i]).round(4).tolist(),
        "resolved": (gaps.min(1)[j] * duration >= RESOLVED).tolist(),
    }


def analysed(folder: Path, name: str, rival: bool, seconds: float) -> dict[str, Any] | None:
    """One star, analysed and scored; None where the file holds no light curve."""
    star = load(folder, name)
    if star is None:
        return None
    if not rival:
        answer = infer_series(star.times, star.flux, seconds)
        return scored(star, answer.tones, answer.errors) | answer.facts
    start = time.process_time()
    tones, errors = prewhiten(star.times, star.flux)
    return scored(star, tones, errors) | {"cpu_seconds": round(time.process_time() - start, 1)}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores of many stars: totals, recall, false frequencies and the spread of the pulls."""
    pulls = np.concatenate([np.zeros((0, 3)), *(np.reshape(r["pulls"], (-1, 3)) for r in rows)])
    resolved = np.concatenate([np.zeros(0, bool), *(np.array(r["resolved"], bool) for r in rows)])
    true, matched = sum(r["true"] for r in rows), sum(r["matched"] for r in rows)
    statuses = [r["status"] for r in rows if "status" in r]
    return {
        "stars": len(rows),
        "true": true,
        "found": sum(r["found"] for r in rows),
        "recall": round(matched / max(true, 1), 4),
        "false": sum(r["found"] for r in rows) - matched,
        "right_count": sum(r["found"] == r["true"] for r in rows),
        "pulls": spread(pulls),
        "pulls_of_resolved": spread(pulls[resolved]),
        "verdicts": {s: statuses.count(s) for s in sorted(set(statuses))},
        "cpu_seconds_each": round(sum(r["cpu_seconds"] for r in rows) / max(len(rows), 1), 1),
    }


def spread(pulls: Array) -> dict[str, Any]:
    """Root mean square of the pulls (n, 3), and the half width that holds 68.3 % of them."""
    if not len(pulls):
        return {"n": 0}
    rms, half = np.sqrt((pulls**2).mean(0)), np.quantile(np.abs(pulls), 0.683, axis=0)
    names_of = ("A", "phi", "f")
    return {
        "n": len(pulls),
        "rms": dict(zip(names_of, rms.round(3).tolist(), strict=True)),
        "half_width": dict(zip(names_of, half.round(3).tolist(), strict=True)),
        "standard_error": round(1 / np.sqrt(2 * len(pulls)), 3),
    }


def report(file: Path, beside: Path | None = None) -> dict[str, Any]:
    """Scores of a file, for the light curves of a year and of a month.

    Args:
        file: Rows of the stars.
        beside: Those of another method; the scores are then those of the stars that both files hold.
    """
    rows = {name: row for name, row in rows_of(file).items() if row is not None}
    if beside is None:
        return scores(list(rows.values()))
    others = rows_of(beside)
    common = [name for name in rows if others.get(name) is not None]
    return {
        file.stem: scores([rows[name] for name in common]),
        beside.stem: scores([others[name] for name in common]),
    }


def scores(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores of some rows, for the light curves of a year and of a month."""
    return {
        "year": summary([row for row in rows if row["n"] > A_YEAR]),
        "month": summary([row for row in rows if row["n"] <= A_YEAR]),
    }


def main() -> None:
    """Analyses what the file does not hold yet, then prints the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="star_shadow/data, or its small copy")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the stars")
    parser.add_argument("--rival", action="store_true", help="pre-whitening instead of ours")
    parser.add_argument("--size", type=int, default=100, help="how many stars, the first ones")
    parser.add_argument("--seconds", type=float, default=60.0, help="time budget of one star")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=float, help="seconds of the whole run")
    parser.add_argument("--beside", type=Path, help="JSON file of another method, scored as well")
    parser.add_argument("--report", action="store_true", help="scores only, nothing is analysed")
    parser.add_argument("--scores", type=Path, help="JSON file for the scores, which docs/ shows")
    args = parser.parse_args()
    if not args.report:
        chosen = names(args.folder)[: args.size]
        chosen.sort(key=lambda name: -samples(args.folder, name))  # the longest ones first
        tasks = {name: (args.folder, name, args.rival, args.seconds) for name in chosen}
        run_all(analysed, tasks, args.out, args.jobs, args.limit)
    found = report(args.out, args.beside)
    print(json.dumps(found, indent=1))
    if args.scores:
        command = " ".join(["python benchmarks/stars.py", *sys.argv[1:]])
        write_record(args.scores, {"command": command, "version": __version__, "results": found})


if __name__ == "__main__":
    main()
