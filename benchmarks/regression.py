"""Do two states of the code give the same answers, and how long does each take?

    OMP_NUM_THREADS=1 PYTHONPATH=old/src python benchmarks/regression.py record --out before.json
    OMP_NUM_THREADS=1 PYTHONPATH=new/src python benchmarks/regression.py record --out after.json
    python benchmarks/regression.py compare before.json after.json [--markdown]
    PYTHONPATH=new/src python benchmarks/regression.py time --against old/src  # in turn: A B A B ...

`record` analyses 300 fixed signals (regression.yaml), drawn here with NumPy, by the network alone and by the exact step
with three seeds each, always under a stated prior. Its time budget is more than any needs: load changes no answer.

`compare` sets every answer beside that of the same signal and seed. Differences count in Monte-Carlo errors: those that
the answers state (of ln Z, by effective draws), enlarged in each set until 95 % of the differences between seeds of the
first record are within three. The exit code is 1 if, in some set, more than two plus twice the number between seeds are
beyond four errors or verdicts are new to their signals as often, if one difference (not of the ESS) is beyond twice any
between seeds, or if a mean is shifted by five of its standard errors. `record --seed 3` shows what chance alone does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import timeit
import zlib
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import yaml

import slotflow
from slotflow import Observation, Prior, SlotFlow

Record = dict[str, Any]
SETS: dict[str, Record] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
SEEDS, DRAWS, BUDGET, WALL = 3, 2000, 60.0, timeit.default_timer
LONG, SHORT = (3000, 0.1), (5120, 1 / 512)  # the paper's samples and steps in seconds
RUN = partial(subprocess.run, check=True, stdout=subprocess.PIPE, text=True)
SLOTFLOW = (sys.executable, "-m", "slotflow")


def draw(name: str, i: int, case: Record) -> tuple[Observation, int, int]:
    """Signal i of a set, its number of tones and the checksum of its samples."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), i])
    prior = Prior(**case["drawn" if "drawn" in case else "prior"])
    k = case["k"] if "k" in case else int(rng.integers(prior.k_min, prior.k_max + 1))
    (low, high), (weak, strong), gap = prior.frequency, prior.amplitude, prior.min_separation
    f = low + np.sort(rng.uniform(0, high - low - max(k - 1, 0) * gap, k)) + gap * np.arange(k)
    u, phase, sigma = rng.random(k), rng.uniform(0, 2 * np.pi, k), rng.uniform(*prior.sigma)
    uniform = prior.amplitude_law == "uniform"
    a = weak + (strong - weak) * u if uniform else weak * (strong / weak) ** u
    steps = (case.get("long", LONG), SHORT)[: case.get("streams", 2) or 1 + i % 2]
    series = []
    for n, dt in steps:
        t = dt * np.arange(n)
        x = (a * np.cos(2 * np.pi * np.outer(t, f) + phase)).sum(1) + sigma * rng.normal(size=n)
        series.append(spoilt(x, t, sigma)[i % 5] if case.get("misfit") else x)
    short = (series[1], SHORT[1]) if len(series) > 1 else (None, None)
    data = Observation.from_arrays(series[0], steps[0][1], *short)
    return data, k, zlib.crc32(np.concatenate(series).round(6).tobytes())


def spoilt(x: np.ndarray, t: np.ndarray, sigma: float) -> list[np.ndarray]:
    """A series with a chirp, a tone outside of the band, a slow drift, a gap, and with clipped peaks."""
    phases = (2 * np.pi * (2.7 * t + 0.5 * (5 / 300**2) * t**2), 2 * np.pi * 1.234 * t)
    added = [sigma * np.cos(phase) for phase in phases] + [2 * sigma * np.sin(2 * np.pi * t / 400)]
    gap = np.where((t > 100) & (t < 130), 0.0, x)
    return [*(x + more for more in added), gap, np.clip(x, -1.2 * x.std(), 1.2 * x.std())]


def infer(model: SlotFlow, case: Record, data: Any, **options: Any) -> Any:
    """The posterior; the network alone, which knows no log-uniform law, takes the uniform one."""
    prior = Prior(**case["prior"])
    if not options.get("refine", True):
        prior = replace(prior, amplitude_law="uniform")
    if "wide" in case:
        return model.infer_band(data, prior, **options)
    return model.infer(data, prior=prior, **options)


def answer(model: SlotFlow, case: Record, data: Observation, seed: int, **options: Any) -> Record:
    """What is kept of a posterior."""
    start = WALL()
    post = infer(model, case, data, seed=seed, max_seconds=BUDGET, **options)
    found: Record = {"seconds": round(WALL() - start, 4), "k_map": post.k_map}
    found |= {"verdict": str(post.verdict).split(":")[0], "sigma": float(post.noise_std)}
    ess, log_z = getattr(post, "ess", None), getattr(post, "log_evidence", None)
    pairs = [] if log_z is None else np.asarray(log_z, dtype=float).tolist()
    found |= {"p": post.k_probs.tolist(), "ess": 1.0 if ess is None else float(ess)}
    found["log_z"] = [[v if math.isfinite(v) else None for v in pair] for pair in pairs]
    table = post.summary(n=DRAWS, seed=seed)
    found["existence"] = table["existence"].tolist()
    for name in ("median", "sd"):
        columns = [f"{parameter}_{name}" for parameter in ("amplitude", "phase", "frequency")]
        found[name] = table[columns].to_numpy().tolist()
    return found


def record(args: argparse.Namespace) -> None:
    """Analyses all signals and writes the record."""
    model, signals = SlotFlow.from_pretrained(), list[Record]()
    for name, case in SETS.items():
        runs, right, alone = list[Record](), 0, 0
        for i in range(n := min(case["n"], args.n or case["n"])):
            data, k, checksum = draw(name, i, case)
            network = answer(model, case, data, args.seed, refine=False)
            own = [answer(model, case, data, args.seed + j) for j in range(SEEDS)]
            signals.append({"set": name, "k": k, "data": checksum, "network": network, "runs": own})
            runs, right = runs + own, right + sum(run["k_map"] == k for run in own)
            alone += network["k_map"] == k
        verdicts, took = Counter(run["verdict"] for run in runs), [run["seconds"] for run in runs]
        share = f"right K {right / len(runs):.3f} (network {alone / n:.3f})"
        speed = f"{statistics.mean(took):.3f} s each, at most {max(took):.2f}"
        print(f"{name}: {n} signals, {share}, {dict(verdicts)}, {speed}", flush=True)
    whole = {"signals": signals, "timings": timings() if args.timings else {}}
    args.out.write_text(json.dumps(whole) + "\n")


def differences(a: Record, b: Record) -> dict[str, tuple[float, float, float]]:
    """`largest` of each kind of difference; of tones, where both have the same K."""
    size = max(len(a["p"]), len(b["p"]))
    (p, e), (q, f) = probabilities(a, size), probabilities(b, size)
    found = {"p(K)": largest(p - q, np.hypot(e, f) + 2.5e-5)}
    if a["k_map"] == b["k_map"] > 0:
        variance = sum(1 / (DRAWS * max(r["ess"], 1e-3)) + 1 / DRAWS for r in (a, b))
        shift, s, t = np.subtract(a["median"], b["median"]), np.array(a["sd"]), np.array(b["sd"])
        shift[:, 1] = np.mod(shift[:, 1] + np.pi, 2 * np.pi) - np.pi
        found["median"] = largest(shift / np.hypot(s, t) * 2**0.5, 1.2533 * math.sqrt(variance))
        found["sd"] = largest(np.log(t / s), math.sqrt(variance / 2))
    pairs = zip(a["log_z"], b["log_z"], np.minimum(p, q), strict=False)
    sure = [(*one, *two) for one, two, least in pairs if None not in (*one, *two) and least > 1e-3]
    v, e, w, f = np.array(sure, dtype=float).reshape(-1, 4).T
    found["ln Z"] = largest(v - w, np.hypot(e, f) + 1e-6)
    found["ESS"] = largest(np.array([a["ess"] - b["ess"]]), 0.01)
    return found


def largest(difference: np.ndarray, error: Any) -> tuple[float, float, float]:
    """The largest difference; the largest and the mean in units of the errors; NaN counts as infinite."""
    shift = np.nan_to_num(difference, nan=math.inf) if difference.size else np.zeros(1)
    z = shift / (error if difference.size else 1.0)
    return float(abs(shift).max()), float(abs(z).max()), float(z.mean())


def probabilities(run: Record, size: int) -> tuple[np.ndarray, np.ndarray]:
    """p(K | x) and the standard errors that those of ln Z cause, (size,) each."""
    p, error = np.pad(run["p"], (0, size - len(run["p"]))), np.zeros(size)
    error[: len(run["log_z"])] = [e or 0.0 for _, e in run["log_z"]]
    return p, np.sqrt((((np.eye(size) - p) * p[:, None] * error) ** 2).sum(1))


def line(name: str, signals: list[tuple[Record, Record]]) -> tuple[list[str], list[str]]:
    """A set's line of the table, and what is beyond Monte-Carlo error."""
    runs = [pair for s, t in signals for pair in zip(s["runs"], t["runs"], strict=True)]
    seeds = [(s["runs"][j - 1], run) for s, _ in signals for j, run in enumerate(s["runs"])]
    words = [[[r["verdict"] for r in s["runs"]] for s in pair] for pair in signals]
    new = sum(word not in before for before, after in words for word in after)
    lone = sum(before.count(word) == 1 for before, _ in words for word in before)
    failures = [f"{name}: {new} verdicts are new to their signals"] if new > 2 * lone + 2 else []
    changed = sum(a["verdict"] != b["verdict"] for a, b in runs)
    equal = sum(a | {"seconds": 0} == b | {"seconds": 0} for a, b in runs)
    cells = [name, f"{len(signals)}", f"{equal} of {len(runs)}", f"{changed}, {new} new"]
    ours, null = ([differences(a, b) for a, b in pairs] for pairs in (runs, seeds))
    alone = [differences(s["network"], t["network"]) for s, t in signals]
    ours += [{f"network {kind}": value for kind, value in found.items()} for found in alone]
    beyond = chance = 0
    for kind in ("p(K)", "median", "sd", "ln Z", "ESS", "network p(K)", "network median"):
        found = np.array([d[kind] for d in ours if kind in d] or [(0, 0, 0)])
        base = np.array([d[kind] for d in null if kind in d] or [(0, 0, 0)])
        scale = max(1.0, float(np.quantile(base[:, 1], 0.95)) / 3)
        size, z, z0 = found[:, 0].max(), found[:, 1].max() / scale, base[:, 1].max() / scale
        mean, few = abs(found[:, 2].mean()), 1 + 10 / len(found)  # of few, the scatter is uncertain
        noise = few * found[:, 2].std() / math.sqrt(len(found))
        count, usual = (int((table[:, 1] > 4 * scale).sum()) for table in (found, base))
        beyond, chance = beyond + count, chance + usual
        at, errors, _ = found[found[:, 0].argmax()]
        text = f"{size:.2g} ± {scale * at / errors:.1g}" if errors else "0"
        cells.append({"sd": f"{math.exp(size):.3f}", "ln Z": f"{z * scale:.2g}"}.get(kind, text))
        gross = z > 2 * max(4.0, z0) and kind != "ESS"  # which a single heavy weight may halve
        if gross or count > 2 * usual + 2:
            text = f"{z:.1f} errors (between seeds {z0:.1f}), {count} beyond 4 ({usual})"
            failures.append(f"{name}: {kind} differs by up to {size:.3g}; {text}")
        if mean > max(0.1, 5 * noise):
            failures.append(f"{name}: {kind} is shifted by {mean:.2f} ± {noise:.2f} errors")
    return [*cells, f"{beyond} ({chance})"], failures


def compare(args: argparse.Namespace) -> bool:
    """Prints the table, and says whether something is beyond Monte-Carlo error."""
    before, after = (json.loads(path.read_text())["signals"] for path in args.files)
    pairs, failures = list(zip(before, after, strict=True)), list[str]()
    if any(s["data"] != t["data"] for s, t in pairs):
        raise SystemExit("the records are of different signals.")
    head = "set,signals,same answers,verdicts changed,largest Δp(K),Δmedian / sd,ratio of sds,"
    head += "Δln Z / error,ΔESS,network Δp(K),network Δmedian / sd,beyond 4 errors (between seeds)"
    lines = [head.split(",")]
    for name in dict.fromkeys(s["set"] for s in before):
        cells, failed = line(name, [pair for pair in pairs if pair[0]["set"] == name])
        lines.append(cells)
        failures += failed
    show(lines)
    if not args.markdown:
        print("", *(failures or ["Nothing is beyond Monte-Carlo error."]), sep="\n")
    return bool(failures)


def show(lines: list[list[str]]) -> None:
    """Prints a table, its head first."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in (lines[0], ["-" * width for width in widths], *lines[1:]):
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print("| " + " | ".join(padded) + " |")


def timings() -> dict[str, float]:
    """Medians in milliseconds: of processor time, which minds load less; wall time of commands and training."""
    model = SlotFlow.from_pretrained()
    cases: dict[str, Record] = {f"K = {k}": {"prior": {}, "k": k} for k in (3, 5, 9)}
    cases |= {name: SETS[name] for name in ("frontier", "weak", "wide band")}
    data = {name: [draw(name, i, case)[0] for i in range(5)] for name, case in cases.items()}
    network = partial(infer, model, cases["K = 5"], refine=False)
    found = {"network, K = 5, 1,000 draws": clock(lambda x: network(x).sample(1000), data["K = 5"])}
    batch = [draw("batch", i, SETS["nominal"])[0] for i in range(256)]
    found["network, batch of 256"] = clock(network, [batch])
    for name, case in cases.items():
        found[f"exact, {name}"] = clock(partial(infer, model, case), data[name])
    for words in (["--version"], ["infer", "--help"]):
        found["slotflow " + " ".join(words)] = clock(RUN, [[*SLOTFLOW, *words]] * 3, WALL)
    for preset, size in (("debug", 128), ("zoom", 16)):
        options = f"batch_size={size} validation_signals={size} steps_per_epoch=20 log_steps=10"
        options += " max_epochs=1 compile=false bfloat16=false"
        with tempfile.TemporaryDirectory() as out:
            words = ["train", "--preset", preset, "--out", out, "--device", "cpu", "--quiet"]
            RUN([*SLOTFLOW, *words, *(f"--set=train.{option}" for option in options.split())])
            rows = map(json.loads, (Path(out) / "metrics.jsonl").read_text().splitlines())
            rate = [row["signals_per_second"] for row in rows if row["split"] == "train"][-1]
        found[f"training step, {preset}, batch of {size}"] = 1e3 * size / rate
    return found


def clock(call: Any, inputs: list[Any], timer: Any = process_time) -> float:
    """The median time of calls in milliseconds, after a first one."""
    seconds = [timeit.timeit(partial(call, x), timer=timer, number=1) for x in (inputs[0], *inputs)]
    return 1e3 * statistics.median(seconds[1:])


def times(args: argparse.Namespace) -> None:
    """Times this tree, and another one in turn with it, each in processes of its own."""
    if args.worker:
        return print(json.dumps(timings()))
    trees = [Path(slotflow.__file__).parents[1], *([args.against] if args.against else [])]
    if not (trees[-1] / "slotflow").is_dir():
        raise SystemExit(f"{args.against} has no package slotflow.")

    def one(tree: Path) -> dict[str, float]:
        env = os.environ | {"PYTHONPATH": str(tree.resolve()), "OMP_NUM_THREADS": "1"}
        done = RUN([sys.executable, __file__, "time", "--worker"], env=env)
        return dict(json.loads(done.stdout.splitlines()[-1]))

    rounds = [[one(tree) for tree in trees] for _ in range(args.rounds)]
    lines = [["median of rounds, ms", "this tree", "the other", "ratio"][: 2 * len(trees)]]
    for name in rounds[0][0]:
        middle = [statistics.median(r[name] for r in of) for of in zip(*rounds, strict=True)]
        ratio = [f"{middle[0] / value:.3f}" for value in middle[1:]]
        lines.append([name, *(f"{value:.1f}" for value in middle), *ratio])
    show(lines)


def main() -> None:
    """Reads the command line."""
    modes: dict[str, Any] = {"record": record, "compare": compare, "time": times}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mode", choices=modes)
    parser.add_argument("files", nargs="*", type=Path, help="compare: two records")
    parser.add_argument("--markdown", action="store_true", help="compare: the table alone")
    parser.add_argument("--out", type=Path, help="record: file to write")
    parser.add_argument("--seed", type=int, default=0, help="record: first seed of each signal")
    parser.add_argument("--n", type=int, help="record: signals of each set at most")
    parser.add_argument("--timings", action="store_true", help="record: this tree's times too")
    parser.add_argument("--against", type=Path, help="time: folder src of another tree")
    parser.add_argument("--rounds", type=int, default=3, help="time: rounds of each tree")
    parser.add_argument("--worker", action="store_true", help="time: one round, as JSON")
    args = parser.parse_args()
    if not {"record": args.out, "compare": len(args.files) == 2, "time": True}[args.mode]:
        parser.error("record needs --out FILE, compare two files.")
    sys.exit(modes[args.mode](args))


if __name__ == "__main__":
    main()
