"""The exact step in batches beside that of single signals: time, share decided in the batch, and equal answers.

    python benchmarks/batch_exact.py --size 256                        # nominal signals, both ways, one core
    python benchmarks/batch_exact.py --sets nominal stress --size 64 --compare 32
    python benchmarks/batch_exact.py --device cuda --size 20000 --compare 20 --draws 1000
    python benchmarks/batch_exact.py --device cuda --size 20000 --compare 20 --tones 3    # as against_eryn.py has them
    python benchmarks/batch_exact.py --sets nominal stress frontier weak --size 2000 --compare 2000 --equality --jobs 16

Times are those of `model.infer`, the network included: CPU times of one thread, on a GPU wall-clock times. Of the first
`--compare` signals (of each process) that batches decide, p(K), ln Z, quantiles of A and f, and verdicts are compared
with those of the same signal alone: differences in units of their Monte-Carlo errors, whose root mean square is 1 if
both are right. Of a quantile it is the probability below the common one that is compared, whose error is the same for
any distribution; the place itself may lie in a gap between two modes, and then jumps. With --equality nothing is asked
of the signals that fall through to the code for one, and with --left these are compared as well: they are answered by
the same code both ways, from the network's answer in a batch and alone. With --profile the call is made a few times
more, and stages, functions and kernels are listed by their time (`batch_profile.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from batch_profile import profiled

from slotflow import SlotFlow
from slotflow.core.threads import limit_threads
from slotflow.data.observations import Observations
from slotflow.exact.batch.posteriors import ExactPosteriors
from slotflow.exact.refined import RefinedPosterior
from slotflow.signal.simulation import simulate
from slotflow.studies.suites.exact.parts import WEAK_PRIOR
from slotflow.studies.suites.sets import GRIDS, SETS

VALUES = ("p(K)", "ln Z", "quantile 0.05", "quantile 0.5", "quantile 0.95")
"""What is compared."""
LEVELS = (0.05, 0.5, 0.95)
"""Of the quantiles."""
FAR = 5.0
"""Standard errors beyond which differences are counted."""
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
        seconds = self.now() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        if name != "alone":
            print(f"{name}: {seconds:.2f} s", file=sys.stderr, flush=True)


@dataclass
class Found:
    """What one part of a set gave; parts add up."""

    signals: int = 0
    seconds: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    decided: int = 0
    ess: list[float] = field(default_factory=list)
    """Effective share of the draws of each signal that was decided."""
    alone: int = 0
    """Signals that were answered alone too."""
    alike: int = 0
    """Of these, with the same K and verdict both ways."""
    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in VALUES})
    """How far the two ways differ, by the names of `VALUES`."""

    def __iadd__(self, other: Found) -> Found:
        for name in (
            "signals",
            "seconds",
            "undecided",
            "verdicts",
            "decided",
            "ess",
            "alone",
            "alike",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, values in other.values.items():
            self.values[name] += values
        return self

    def compare(self, one: RefinedPosterior, other: RefinedPosterior) -> None:
        """Adds one signal that was answered both ways."""
        self.alone += 1
        self.alike += one.verdict.status == other.verdict.status and one.k_map == other.k_map
        self.values["p(K)"].append(float(np.abs(one.k_probs - other.k_probs).max()))
        if one.k_map != other.k_map:
            return
        (a, e_a), (b, e_b) = (x.log_evidence[x.k_map] for x in (one, other))
        if e_a + e_b > 0:  # noise alone has no error
            self.values["ln Z"].append((a - b) / math.hypot(e_a, e_b))
        if one.k_map == 0:
            return
        draws = [x.weighted() for x in (one, other)]
        columns = [d.theta[..., [0, -1]].reshape(len(d.theta), -1) for d in draws]  # A and f
        weights = [d.weights / d.weights.sum() for d in draws]
        sizes = [1 / (w**2).sum() for w in weights]
        both = np.concatenate([size * w for size, w in zip(sizes, weights, strict=True)])
        for level in LEVELS:
            common = _quantile(np.concatenate(columns), both, level)
            below = [w @ (x <= common) for x, w in zip(columns, weights, strict=True)]
            error = math.sqrt(level * (1 - level) * (1 / sizes[0] + 1 / sizes[1]))
            self.values[f"quantile {level}"] += ((below[0] - below[1]) / error).tolist()

    def table(self, name: str) -> dict[str, object]:
        """The same as numbers to read."""
        times = {key: 1e3 * value / self.signals for key, value in self.seconds.items()}
        times["alone"] = 1e3 * self.seconds["alone"] / max(self.alone, 1)
        result: dict[str, object] = {
            "set": name,
            "signals": self.signals,
            "decided in batches": self.decided / self.signals,
            "why not": dict(self.undecided.most_common()),
            "mean ESS per draw": float(np.mean(self.ess)) if self.ess else math.nan,
            "verdicts": dict(self.verdicts),
            "ms a signal": times,
            "signals per second": 1e3 / times["network and exact"],
        }
        if self.alone:
            result |= {"compared": self.alone, "verdicts alike": self.alike / self.alone}
            result["largest difference of p(K)"] = max(self.values["p(K)"])
            for key in VALUES[1:]:
                result[f"rms pull of {key}"] = rms(self.values[key])
                result[f"largest pull of {key}"] = float(np.abs(self.values[key]).max(initial=0.0))
                result[f"pulls of {key}"] = len(self.values[key])
                far = int((np.abs(self.values[key]) > FAR).sum())
                result[f"pulls of {key} beyond {FAR:g}"] = far
        return result


def run(model: SlotFlow, name: str, seed: int, size: int, options: argparse.Namespace) -> Found:
    """Some signals of one set both ways."""
    prior, watch, found = PRIORS[name], Watch(options.device), Found(size)
    asked = {"prior": prior, "draws": options.draws, "batch_size": options.batch}
    sim = simulate(prior, size, *GRIDS, mode="physical", seed=seed, k=options.tones)
    signals = Observations.from_arrays(
        sim.long.double().numpy(), GRIDS[0].dt, sim.short.double().numpy(), GRIDS[1].dt
    )
    if options.device == "cuda":  # kernels are loaded once
        model.infer(signals[: min(size, options.batch or 4096)], **asked)
    if options.profile:
        profiled(lambda: model.infer(signals, **asked), options.device, watch.now)
    if prior.amplitude_law == "uniform":  # the network alone knows no other
        with watch.part("network alone"):
            model.infer(signals, prior=prior, refine=False, batch_size=options.batch)
    with watch.part("network and exact"):
        posts = model.infer(signals, **asked)
    decided: list[int] = []
    for part, rows, places in posts.batches():
        if isinstance(part, ExactPosteriors):
            found.undecided.update(part.undecided)
            decided += places.tolist()
            found.ess += part.ess[rows].tolist()
    found.decided = len(decided)
    if not options.equality:
        with watch.part("100 draws"):
            posts.sample(100)
        with watch.part("verdicts"):
            found.verdicts.update(verdict.status for verdict in posts.verdicts)
    for i in (list(range(size)) if options.left else decided)[: options.compare]:
        with watch.part("alone"):
            alone = model.infer(signals[i], prior=prior, draws=options.draws, max_seconds=60)
        found.compare(posts[i], alone)
    found.seconds.update(watch.seconds)
    return found


def _quantile(x: np.ndarray, weights: np.ndarray, level: float) -> np.ndarray:
    """Weighted quantile of each column of x, (n, C) to (C,)."""
    order = np.argsort(x, axis=0)
    passed = np.cumsum(weights[order], axis=0) >= level * weights.sum()
    return np.take_along_axis(np.take_along_axis(x, order, 0), passed.argmax(0)[None], 0)[0]


def rms(values: list[float]) -> float:
    """Root mean square; NaN of nothing."""
    return float(np.sqrt(np.mean(np.square(values)))) if values else math.nan


def _part(job: tuple[str, int, int, argparse.Namespace]) -> Found:
    """One part of a set in a process of its own."""
    limit_threads(1)
    name, seed, size, options = job
    return run(SlotFlow.from_pretrained(), name, seed, size, options)


def measured(name: str, options: argparse.Namespace) -> Found:
    """A whole set, in processes where several are asked for."""
    if options.jobs == 1:
        model = SlotFlow.from_pretrained(device=options.device)
        return run(model, name, options.seed, options.size, options)
    sizes = [len(part) for part in np.array_split(np.arange(options.size), options.jobs)]
    jobs = [(name, options.seed + i, size, options) for i, size in enumerate(sizes)]
    total = Found()
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for found in pool.map(_part, jobs):
            total += found
    return total


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=["nominal"], choices=sorted(PRIORS))
    parser.add_argument("--size", type=int, default=256, help="signals of each set")
    parser.add_argument("--batch", type=int, help="signals that the network takes at a time")
    parser.add_argument(
        "--compare", type=int, default=64, help="signals that are answered alone too"
    )
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument(
        "--tones", type=int, help="of every signal; drawn from the prior if left out"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes, each with a part of the set"
    )
    parser.add_argument("--equality", action="store_true", help="compare only what batches decide")
    parser.add_argument("--left", action="store_true", help="compare what batches leave as well")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args()
    if options.device == "cpu":
        limit_threads(1)
    results = []
    for name in options.sets:
        results.append(measured(name, options).table(name))
        print(json.dumps(results[-1], indent=1), flush=True)
        if options.out is not None:  # what is measured stays, also where a later set is not
            made = {k: str(v) for k, v in vars(options).items() if k != "out"}
            options.out.write_text(json.dumps({"options": made, "results": results}, indent=1))


if __name__ == "__main__":
    main()
