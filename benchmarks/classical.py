"""The classical estimator on the paper's, the stress and the frontier distribution: counts and time.

    python benchmarks/classical.py --n 1000
    python benchmarks/classical.py --n 2000 --out docs/data/classical.json    # the record behind the README's table

Each set is one of `slotflow evaluate` (`studies/suites/sets.py`), drawn in physical mode and analysed under its own
prior, in batches of 100, one CPU thread. Times are CPU times of that thread, so that other work on the machine counts
little; the last column is the median over signals that are analysed one at a time.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slotflow import __version__, simulate
from slotflow.baselines import classical
from slotflow.studies.suites.sets import GRIDS, SETS

NAMES = ("nominal", "stress", "frontier")
BATCH = 100
"""Signals that are analysed together."""


def measure(name: str, n: int, alone: int, seed: int) -> dict[str, Any]:
    """Counts and times of one set.

    Args:
        name: Key of `SETS`.
        n: Number of signals.
        alone: Signals that are timed one at a time as well.
        seed: Of the first batch.
    """
    prior = SETS[name].prior
    wrong = {"bic": 0, "evidence": 0}
    mass, seconds = 0.0, 0.0
    single: list[float] = []
    for first in range(0, n, BATCH):
        size = min(BATCH, n - first)
        batch = simulate(prior, size, *GRIDS, mode="physical", seed=seed + first)
        observations = [batch.observation(i) for i in range(size)]
        start = time.process_time()
        found = classical(observations, prior)
        seconds += time.process_time() - start
        for one in observations[: alone - len(single)]:
            start = time.process_time()
            classical(one, prior)
            single.append(time.process_time() - start)
        k = batch.k.numpy()
        wrong["bic"] += int((found.k_bic != k).sum())
        wrong["evidence"] += int((found.k_map != k).sum())
        mass += float(found.k_probs[np.arange(size), k].sum())
    return {
        "signals": n,
        "wrong_by_bic": wrong["bic"],
        "wrong_by_evidence": wrong["evidence"],
        "mean_probability_of_the_true_k": mass / n,
        "ms_per_signal": 1e3 * seconds / n,
        "ms_alone": 1e3 * float(np.median(single)) if single else None,
    }


def main() -> None:
    """Prints one line per set, and writes all of them to a file if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="signals per set")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="sets to draw")
    parser.add_argument(
        "--alone", type=int, default=20, help="signals per set that are timed alone"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file to write as well")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("set        exact K: BIC  evidence   mean p(true K)   ms per signal   ms alone")
    found = {}
    for name in args.only:
        found[name] = one = measure(name, args.n, args.alone, args.seed)
        n = one["signals"]
        print(
            f"{name:9s} {1 - one['wrong_by_bic'] / n:12.4f} {1 - one['wrong_by_evidence'] / n:9.4f} "
            f"{one['mean_probability_of_the_true_k']:16.4f} {one['ms_per_signal']:15.1f} "
            f"{one['ms_alone'] or np.nan:10.1f}",
            flush=True,
        )
    if args.out is not None:
        names = "" if tuple(args.only) == NAMES else f" --only {' '.join(args.only)}"
        record = {
            "source": f"python benchmarks/classical.py --n {args.n} --seed {args.seed}{names}, slotflow {__version__}, "
            "one CPU thread",
            "sets": found,
        }
        args.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
