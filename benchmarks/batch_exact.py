"""The exact step in batches beside that of single signals: time, share decided in the batch, and equal answers.

    python benchmarks/batch_exact.py --size 256                        # nominal signals, both ways, one core
    python benchmarks/batch_exact.py --sets nominal stress --size 64 --compare 32
    python benchmarks/batch_exact.py --device cuda --size 20000 --compare 200 --draws 1000

Times are those of `model.infer`, the network included: CPU times of one thread, on a GPU wall-clock times. Of the first
`--compare` signals that batches decide, p(K), ln Z, means, widths and verdicts are compared with those of the same
signal alone: differences in units of their Monte-Carlo errors, whose root mean square is 1 if both are right. With
--profile the functions are listed in which the time goes; on a GPU, set CUDA_LAUNCH_BLOCKING=1 for that.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import pstats
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch

from slotflow import SlotFlow
from slotflow.data.observations import Observations
from slotflow.exact.batch.posteriors import ExactPosteriors
from slotflow.exact.refined import RefinedPosterior
from slotflow.signal.simulation import simulate
from slotflow.studies.suites.exact.parts import WEAK_PRIOR
from slotflow.studies.suites.sets import GRIDS, SETS

PRIORS = {name: SETS[name].prior for name in ("nominal", "stress", "frontier")}
PRIORS["weak"] = WEAK_PRIOR
"""Where the signals of each set come from."""


def clock(device: str) -> Callable[[], float]:
    """CPU time of this process, or the wall clock once a GPU has finished."""
    if device == "cpu":
        return time.process_time

    def wall() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return wall


class Watch:
    """Seconds of each part of the work."""

    def __init__(self, device: str) -> None:
        self.now, self.seconds = clock(device), dict[str, float]()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts what a block takes."""
        began = self.now()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + self.now() - began


def run(model: SlotFlow, name: str, options: argparse.Namespace) -> dict[str, object]:
    """One set both ways."""
    prior, watch, size = PRIORS[name], Watch(options.device), options.size
    asked = {"prior": prior, "draws": options.draws, "batch_size": options.batch}
    sim = simulate(prior, size, *GRIDS, mode="physical", seed=options.seed)
    signals = Observations.from_arrays(
        sim.long.double().numpy(), GRIDS[0].dt, sim.short.double().numpy(), GRIDS[1].dt
    )
    if options.device == "cuda":  # kernels are loaded once
        model.infer(signals[: min(size, 256)], **asked)
    if prior.amplitude_law == "uniform":  # the network alone knows no other
        with watch.part("network alone"):
            model.infer(signals, prior=prior, refine=False, batch_size=options.batch)
    with watch.part("network and exact"):
        found = model.infer(signals, **asked)
    with watch.part("100 draws"):
        found.sample(100)
    with watch.part("verdicts"):
        verdicts = found.verdicts
    undecided: Counter[str] = Counter()
    decided: list[int] = []
    for part, _, places in found.batches():
        if isinstance(part, ExactPosteriors):
            undecided.update(part.undecided)
            decided += places.tolist()
    alone = []
    for i in decided[: options.compare]:
        with watch.part("alone"):
            alone.append(model.infer(signals[i], prior=prior, draws=options.draws, max_seconds=60))
    times = {key: 1e3 * value / size for key, value in watch.seconds.items()}
    times["alone"] = 1e3 * watch.seconds.get("alone", 0.0) / max(len(alone), 1)
    result: dict[str, object] = {
        "set": name,
        "signals": size,
        "decided in batches": len(decided) / size,
        "why not": dict(undecided.most_common()),
        "verdicts": dict(Counter(verdict.status for verdict in verdicts)),
        "ms a signal": times,
        "signals per second": 1e3 / times["network and exact"],
    }
    if alone:
        result |= differences([found[i] for i in decided[: options.compare]], alone)
    return result


def differences(ours: list[RefinedPosterior], alone: list[RefinedPosterior]) -> dict[str, object]:
    """How far two ways of answering the same signals differ."""
    pulls, medians, widths, probs, alike = [], [], [], [], 0
    for one, other in zip(ours, alone, strict=True):
        alike += one.verdict.status == other.verdict.status and one.k_map == other.k_map
        probs.append(float(np.abs(one.k_probs - other.k_probs).max()))
        if one.k_map != other.k_map:
            continue
        (a, e_a), (b, e_b) = (x.log_evidence[x.k_map] for x in (one, other))
        pulls.append((a - b) / math.hypot(e_a, e_b))
        if one.k_map == 0:
            continue
        draws = [x.weighted() for x in (one, other)]
        moments = [_moments(d.theta[..., [0, -1]], d.weights) for d in draws]
        n = min(len(d.weights) for d in draws)
        medians += list(
            ((moments[0][0] - moments[1][0]) / moments[1][1]).ravel() * math.sqrt(n / 2)
        )
        widths += list(((moments[0][1] / moments[1][1]) - 1).ravel() * math.sqrt(n))
    return {
        "compared": len(ours),
        "verdicts alike": alike / len(ours),
        "largest difference of p(K)": max(probs),
        "rms pull of ln Z": rms(pulls),
        "largest pull of ln Z": float(np.abs(pulls).max()),
        "rms pull of means": rms(medians),
        "rms pull of widths": rms(widths),
    }


def _moments(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means and standard deviations, (K, P) each, of draws (n, K, P)."""
    mean = np.einsum("n,nkp->kp", weights, x)
    return mean, np.sqrt(np.einsum("n,nkp->kp", weights, (x - mean) ** 2))


def rms(values: list[float]) -> float:
    """Root mean square; NaN of nothing."""
    return float(np.sqrt(np.mean(np.square(values)))) if values else math.nan


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["nominal"], choices=sorted(PRIORS))
    parser.add_argument("--size", type=int, default=256, help="signals of each set")
    parser.add_argument("--batch", type=int, default=256, help="signals at a time")
    parser.add_argument(
        "--compare", type=int, default=64, help="signals that are answered alone too"
    )
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    model = SlotFlow.from_pretrained(device=options.device)
    results = []
    for name in options.sets:
        profile = cProfile.Profile() if options.profile else nullcontext()
        with profile:
            found = run(model, name, options)
        results.append(found)
        print(json.dumps(found, indent=1), flush=True)
        if isinstance(profile, cProfile.Profile):
            pstats.Stats(profile).sort_stats("cumtime").print_stats(60)
    if options.out is not None:
        options.out.write_text(
            json.dumps(
                {"options": {k: str(v) for k, v in vars(options).items()}, "results": results},
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
