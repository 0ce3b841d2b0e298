"""Nothing stated: counts and verdicts of `model.infer` on crowded, noisy signals, beside those under the paper's prior.

python benchmarks/weak.py --n 40 --json docs/data/weak.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slotflow import Posterior, Prior, SlotFlow, simulate
from slotflow.core.version import __version__

STRESS = Prior(k_min=5, k_max=10, min_separation=0.004, sigma=(1.0, 2.0))
"""Five to ten tones at least 4 mHz apart (1.2 bins), σ from 1 to 2: beyond the paper's prior."""


def measured(posts: list[tuple[Posterior, float]], truth: list[int]) -> dict[str, Any]:
    """Counts and verdicts of some answers."""
    verdicts = Counter(post.verdict.status for post, _ in posts)
    return {
        "signals": len(posts),
        "right_counts": sum(p.k_map == k for (p, _), k in zip(posts, truth, strict=True)),
        "verdicts": dict(verdicts),
    }


def main() -> None:
    """Answers the signals under both priors and prints the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=40, help="signals")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--max-seconds", type=float, default=60.0, help="of the exact step")
    parser.add_argument("--json", type=Path, help="file to write")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = SlotFlow.from_pretrained()
    config = model.config
    sim = simulate(STRESS, args.n, config.long, config.short, mode="physical", seed=args.seed)
    truth = [int(k) for k in sim.k]
    found: dict[str, Any] = {}
    for name, prior in {"nothing stated": None, "the paper's prior": Prior.paper()}.items():
        posts = []
        for i in range(args.n):
            start = time.perf_counter()
            post = model.infer(sim.observation(i), prior=prior, max_seconds=args.max_seconds)
            posts.append((post, time.perf_counter() - start))
        found[name] = measured(posts, truth)
        seconds = [s for _, s in posts]
        took = f"{np.mean(seconds):.2f} s on average, {max(seconds):.1f} s at most"
        print(f"{name}: {json.dumps(found[name])}, {took}", flush=True)
    if args.json is not None:
        facts = {
            "command": f"python benchmarks/weak.py --n {args.n} --seed {args.seed}",
            "version": __version__,
            "machine": f"{platform.system()} {platform.machine()}, one thread",
        }
        args.json.write_text(json.dumps(facts | {"results": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
