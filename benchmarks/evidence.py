"""How far the independent reference of ln Z scatters: one signal of the exact suite, the reference with several seeds.

    python benchmarks/evidence.py --seed 12 --signal 3 --runs 12

The exact suite compares our ln Z with one run of tempered sampling for each of twenty signals. Where the two differ by
more than the reference's error says, this tells which of them moves.
"""

from __future__ import annotations

import argparse

import numpy as np

from slotflow import SlotFlow
from slotflow.studies.suites.exact.parts import PARTS, Settings, draw_signal, solve
from slotflow.studies.suites.exact.reference import long_evidence

FIRST_SEED = 100
"""Of the reference's further runs; the suite's own run has the number of the signal."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=12, help="seed of the suite")
    parser.add_argument("--signal", type=int, default=3, help="number of the signal, 0 to 19")
    parser.add_argument("--runs", type=int, default=12, help="runs of the reference")
    arguments = parser.parse_args()
    settings, part = Settings(seed=arguments.seed), PARTS["evidence"]
    sim = draw_signal(part, arguments.signal, arguments.seed)
    model, k = SlotFlow.from_pretrained(), int(sim.k)
    budget = settings.draws, arguments.signal, settings.max_seconds
    _, post = solve(model, sim.observation(0), part.prior, *budget)
    ours, error = post.log_evidence[k]
    print(f"ours at K = {k}: ln Z = {ours:.3f} ± {error:.3f}")
    found = []
    for seed in [arguments.signal, *range(FIRST_SEED, FIRST_SEED + arguments.runs - 1)]:
        other = long_evidence(sim, part.prior, seed, settings.long)
        found.append(other.log_evidence)
        print(
            f"reference, seed {seed}: {found[-1]:.3f} ± {other.log_evidence_error:.3f}", flush=True
        )
    mean, scatter = np.mean(found), np.std(found, ddof=1)
    print(
        f"{len(found)} runs: mean {mean:.3f} ± {scatter / len(found) ** 0.5:.3f}, scatter {scatter:.3f}"
    )


if __name__ == "__main__":
    main()
