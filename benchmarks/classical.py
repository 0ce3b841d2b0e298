"""The classical estimator on the paper's, the stress and the frontier distribution: counts and time.

    python benchmarks/classical.py --n 1000

Each set is drawn in physical mode and analysed under its own prior, in batches of 100, one CPU thread. The last
column is the median over signals that are analysed one at a time.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from slotflow import Prior, simulate
from slotflow.baselines import classical
from slotflow.network.config import Config

SETS = {
    "nominal": Prior(),
    "stress": Prior(k_min=5, min_separation=0.004, sigma=(1.0, 2.0)),
    "frontier": Prior(k_min=5, min_separation=0.0, sigma=(1.0, 2.0)),
}


def main() -> None:
    """Prints one line per set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="signals per set")
    parser.add_argument(
        "--alone", type=int, default=20, help="signals per set that are timed alone"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = Config.from_preset("paper").model
    print("set        exact K: BIC  evidence   mean p(true K)   ms per signal   ms alone")
    for name, prior in SETS.items():
        right = {"bic": 0, "evidence": 0}
        mass, seconds, seen = 0.0, 0.0, 0
        alone: list[float] = []
        while seen < args.n:
            size = min(100, args.n - seen)
            batch = simulate(
                prior, size, model.long, model.short, mode="physical", seed=args.seed + seen
            )
            observations = [batch.observation(i) for i in range(size)]
            start = time.perf_counter()
            found = classical(observations, prior)
            seconds += time.perf_counter() - start
            for one in observations[: args.alone - len(alone)]:
                start = time.perf_counter()
                classical(one, prior)
                alone.append(time.perf_counter() - start)
            k = batch.k.numpy()
            right["bic"] += int((found.k_bic == k).sum())
            right["evidence"] += int((found.k_map == k).sum())
            mass += float(found.k_probs[np.arange(size), k].sum())
            seen += size
        print(
            f"{name:9s} {right['bic'] / seen:12.4f} {right['evidence'] / seen:9.4f} {mass / seen:16.4f} "
            f"{1e3 * seconds / seen:15.1f} {1e3 * float(np.median(alone or [np.nan])):10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
