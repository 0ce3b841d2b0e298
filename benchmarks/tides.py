"""Tides: are the constituents found without being named, and do the intervals hold in the sea's red noise?

``python benchmarks/tides.py FOLDER --out tides.json`` takes a year of hourly sea level at Honolulu (``HNL2010.asc`` and
``HNL2010.mat`` of https://github.com/wesleybowman/UTide, ``tests/data``; not part of this repository). There are two
parts, each result is kept in the file as soon as it is there, and ``--limit`` ends a run after so many seconds:

- **Honolulu**: ``model.infer(observation)`` as it is, under a time budget, beside the amplitudes and 95 % intervals
  that UTide stored for the same series. UTide is told 59 frequencies; here none is named. UTide's amplitudes are those
  of the 18.6-year mean, ours are those of 2010, so its numbers are multiplied by its own nodal factors.
- **Simulated** (``--size``): the constituents that UTide finds significant, with its amplitudes and random phases, in
  Gaussian noise with the smoothed spectrum of Honolulu's residual. Scores: pulls and coverage of A, φ and f of the
  eight main constituents, and frequencies further than 1/T from every constituent, which are false. ``--noise white``
  shows what the choice of noise changes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from scipy.ndimage import median_filter
from series_proof import differences, infer_series, paired, rows_of, run_all, write_record

from slotflow import __version__

NODAL = {
    "M2": 0.9929,
    "K1": 1.0380,
    "O1": 1.0554,
    "S2": 1.0018,
    "P1": 0.9973,
    "N2": 0.9917,
    "K2": 1.0781,
    "Q1": 1.0513,
}
"""The eight main constituents, and amplitudes of UTide 0.4 in 2010 (``nodal=False``) over those of the mean."""
LOWEST = 0.5 / 24
"""In cycles per hour; slower constituents (SSA, MM, MF) are weather as much as tide."""
SMOOTHED = 65
"""Bins of the residual's spectrum that make one value of the noise's."""
MEDIAN_OF_POWER = np.log(2)
"""Median over mean of the power of noise."""
NORMAL_95 = 1.959964
NEAR = 0.5
"""Largest distance of a frequency from the constituent that it is taken for, in 1/T."""
Array = np.ndarray


def stored(folder: Path) -> tuple[Array, dict[str, Array]]:
    """Sea level (n,) in mm, and UTide's table: names, frequencies in cycles per hour, amplitudes, half widths."""
    level = np.loadtxt(folder / "HNL2010.asc")[:, 1]
    coef = loadmat(folder / "HNL2010.mat", squeeze_me=True, struct_as_record=False)["coef"]
    table = {
        "name": np.array([str(name).strip() for name in coef.name]),
        "f": np.asarray(coef.aux.frq, float),
        "A": np.asarray(coef.A, float),
        "half_width": np.asarray(coef.A_ci, float),
    }
    return level, table


def hours(n: int) -> Array:
    """Times of an hourly series, counted from its middle, (n,)."""
    return np.arange(n) - (n - 1) / 2


def honolulu(folder: Path, seconds: float, noise: str) -> dict[str, Any]:
    """The year at Honolulu beside UTide's table."""
    level, table = stored(folder)
    tones, errors, facts = infer_series(hours(len(level)), level, seconds, noise)
    i, j = paired(tones[:, 2], table["f"], len(level), NEAR)
    lines = {}
    for name, factor in NODAL.items():
        k = int(np.flatnonzero(table["name"] == name)[0])
        mine = i[j == k]
        utide, half = factor * table["A"][k], factor * table["half_width"][k]
        lines[name] = {"utide": round(utide, 2), "utide_sd": round(half / NORMAL_95, 2)}
        if len(mine):
            (f, df), (a, da) = ((tones[mine[0], c], errors[mine[0], c]) for c in (2, 0))
            joint = np.hypot(da, half / NORMAL_95)
            lines[name] |= {
                "A": round(a, 2),
                "sd": round(da, 2),
                "difference_in_joint_sds": round((a - utide) / joint, 2),
                "f_pull": round((f - table["f"][k]) / df, 2),
            }
    named = sorted(table["name"][j].tolist())
    away = np.abs(tones[:, 2][:, None] - table["f"][None, :]).min(1) * len(level) > 1
    return facts | {
        "found": len(tones),
        "named_by_utide": named,
        "unnamed": [
            {"f_per_day": round(24 * f, 5), "A": round(a, 2), "sd": round(s, 2)}
            for (a, _, f), (s, _, _) in zip(tones[away], errors[away], strict=True)
        ],
        "main": lines,
    }


def red_spectrum(level: Array, table: dict[str, Array]) -> Array:
    """Noise power in the bins of a series twice as long, (n + 1,), from the residual of UTide's constituents."""
    n = len(level)
    t = hours(n)
    waves = np.exp(2j * np.pi * np.outer(t, table["f"]))
    design = np.concatenate([waves.real, waves.imag, np.stack([np.ones(n), t], 1)], 1)
    residual = level - design @ np.linalg.lstsq(design, level, rcond=None)[0]
    power = np.abs(np.fft.rfft(residual)) ** 2 / n
    smooth = median_filter(power[1:], SMOOTHED, mode="reflect") / MEDIAN_OF_POWER
    return np.interp(np.arange(n + 1) / 2, np.arange(1, len(power)), smooth)


def simulated(folder: Path, seed: int, seconds: float, noise: str) -> dict[str, Any]:
    """One simulated year, analysed and scored."""
    level, table = stored(folder)
    rng = np.random.default_rng(seed)
    n = len(level)
    power = red_spectrum(level, table)
    shape = rng.standard_normal((2, n + 1)) / np.sqrt(2)
    values = np.fft.irfft(np.sqrt(2 * n * power) * (shape[0] + 1j * shape[1]), 2 * n)[:n]
    keep = (table["A"] > table["half_width"]) & (table["f"] > LOWEST)
    f, a = table["f"][keep], table["A"][keep]
    phi = rng.uniform(0, 2 * np.pi, len(f))
    t = hours(n)
    values = values + (a * np.cos(2 * np.pi * np.outer(t, f) + phi)).sum(1)
    tones, errors, facts = infer_series(t, values, seconds, noise)
    i, j = paired(tones[:, 2], f, n, NEAR)
    main = np.isin(table["name"][keep][j], list(NODAL))
    difference = differences(tones[i], np.stack([a, phi, f], 1)[j])
    away = np.abs(tones[:, 2][:, None] - f[None, :]).min(1) * n > 1
    return facts | {
        "found": len(tones),
        "constituents": len(f),
        "matched": len(i),
        "main": int(main.sum()),
        "false": int(away.sum()),
        "pulls": (difference / errors[i])[main].round(4).tolist(),
        "false_per_day": (24 * tones[away, 2]).round(4).tolist(),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Scores of the simulated years."""
    pulls = np.concatenate([np.zeros((0, 3)), *(np.reshape(r["pulls"], (-1, 3)) for r in rows)])
    inside = {
        q: (np.abs(pulls) < z).mean(0).round(3).tolist() for q, z in ((68.3, 1.0), (95, NORMAL_95))
    }
    return {
        "years": len(rows),
        "main_found": round(len(pulls) / (len(NODAL) * max(len(rows), 1)), 4),
        "matched_of_all": round(
            sum(r["matched"] for r in rows) / max(sum(r["constituents"] for r in rows), 1), 3
        ),
        "false_per_year": round(sum(r["false"] for r in rows) / max(len(rows), 1), 3),
        "rms_pull_A_phi_f": np.sqrt((pulls**2).mean(0)).round(3).tolist(),
        "standard_error": round(1 / np.sqrt(2 * max(len(pulls), 1)), 3),
        "inside_68_A_phi_f": inside[68.3],
        "inside_95_A_phi_f": inside[95],
        "verdicts": dict(Counter(r["status"] for r in rows)),
        "cpu_seconds_each": round(sum(r["cpu_seconds"] for r in rows) / max(len(rows), 1), 1),
    }


def work(part: str | int, folder: Path, seconds: float, noise: str) -> dict[str, Any]:
    """The row of Honolulu ("honolulu") or of a simulated year (its seed)."""
    if isinstance(part, str):
        return honolulu(folder, seconds, noise)
    return simulated(folder, part, seconds, noise)


def report(file: Path) -> dict[str, Any]:
    """Both parts of a record."""
    rows = rows_of(file)
    years = [row for name, row in rows.items() if name != "honolulu" and row is not None]
    return {"honolulu": rows.get("honolulu"), "simulated": summary(years)}


def main() -> None:
    """Runs what the file does not hold yet, then prints both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="tests/data of UTide")
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--size", type=int, default=20, help="simulated years")
    parser.add_argument("--seed", type=int, default=0, help="of the first year")
    parser.add_argument("--seconds", type=float, default=60.0, help="time budget of one year")
    parser.add_argument("--noise", default="auto", help="what infer is told of the noise")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=float, help="seconds of the whole run")
    parser.add_argument("--report", action="store_true", help="scores only, nothing is analysed")
    parser.add_argument("--scores", type=Path, help="JSON file for the scores, which docs/ shows")
    args = parser.parse_args()
    if not args.report:
        parts = ["honolulu", *range(args.seed, args.seed + args.size)]
        tasks = {str(part): (part, args.folder, args.seconds, args.noise) for part in parts}
        run_all(work, tasks, args.out, args.jobs, args.limit)
    found = report(args.out)
    print(json.dumps(found, indent=1))
    if args.scores:
        command = " ".join(["python benchmarks/tides.py", *sys.argv[1:]])
        write_record(args.scores, {"command": command, "version": __version__, "results": found})


if __name__ == "__main__":
    main()
