"""Tones that drift, decay or are modulated, analysed for steady tones: is it said? And how often is it said of tones?

    python benchmarks/directed.py --size 40 --jobs 15 --out docs/data/directed.json
    python benchmarks/directed.py --size 20 --parts "drift 1" decay

Two components of amplitudes 0.5–1.5, at least six bins apart, in white noise of the level 1: 3,000 samples at 0.1 s, a
band of 150 bins, nothing else stated. Both drift by a bin or by half a bin over the record, decay with γT = 1, or have
an amplitude that is modulated by 30 % with 0.5 to 3 periods. An answer is wrong if K is not 2, or if a parameter is
further from the component's (frequency and phase at mid-record, amplitude by its root mean square) than three of its
standard deviations; it is said if the verdict is not `exact`, and named if it has an alternative. The other parts are
steady tones, of which nothing should be said: `tones` as above, `nominal` and `stress` as the package's test sets have
them, `pairs` of tones 0.25 to 3 bins apart (log-uniform).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slotflow import Observation, SlotFlow
from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed
from slotflow.signal.prior import Prior
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.tasks import Record, Worker

CHANGING = ("drift 1", "drift 0.5", "decay", "modulation")
STEADY = ("tones", "pairs", "nominal", "stress")
SAMPLES, STEP = 3000, 0.1
DURATION = SAMPLES * STEP
BAND = (2.5, 3.0)
AMPLITUDE = (0.5, 1.5)
APART, EDGE = 6.0, 3.0
"""Smallest distance of two components, and of one from the edges of the band, in bins."""
DEPTH, CYCLES = 0.3, (0.5, 3.0)
"""Of a modulation, and its periods over the record."""
PAIR = (0.25, 3.0)
"""Distances of close tones in bins."""
BIASED = 3.0
"""Standard deviations from the truth above which a parameter is called biased."""
MAX_SECONDS = 30.0
SETTINGS = {"max_seconds": MAX_SECONDS, "biased": BIASED, "cycles": list(CYCLES)}


def places(part: str, rng: np.random.Generator) -> Array:
    """Frequencies of two components in Hz, (2,)."""
    low, high = BAND[0] + EDGE / DURATION, BAND[1] - EDGE / DURATION
    if part == "pairs":
        distance = math.exp(rng.uniform(*np.log(PAIR))) / DURATION
        first = rng.uniform(low, high - distance)
        return np.array([first, first + distance])
    while True:
        found = np.sort(rng.uniform(low, high, 2))
        if np.diff(found)[0] > APART / DURATION:
            return found


def changing(part: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """A series, (N,), and its components: root mean square amplitude, phase at mid-record and frequency, (2, 3)."""
    t = np.arange(SAMPLES) * STEP
    u = t - 0.5 * (SAMPLES - 1) * STEP
    x, truth = rng.standard_normal(SAMPLES), []
    for f in places(part, rng):
        amplitude, phase = rng.uniform(*AMPLITUDE), rng.uniform(0, 2 * math.pi)
        envelope, angle = np.ones(SAMPLES), 2 * math.pi * f * u + phase
        if part.startswith("drift"):
            bins = float(part.split()[1]) * rng.choice([-1.0, 1.0])
            angle += math.pi * bins * (u / DURATION) ** 2
        elif part == "decay":
            envelope = np.exp(-t / DURATION)
        elif part == "modulation":
            turns = rng.uniform(*CYCLES) * t / DURATION + rng.uniform()
            envelope = 1 + DEPTH * np.cos(2 * math.pi * turns)
        x += amplitude * envelope * np.cos(angle)
        truth.append([amplitude * math.sqrt(float(np.mean(envelope**2))), phase, f])
    return x, np.array(truth)


def from_prior(part: str, rng: np.random.Generator) -> tuple[Array, int]:
    """A series of steady tones as the package's test sets draw them, and how many there are."""
    from slotflow.data.sampling import Grid
    from slotflow.signal.model import noise_free

    prior = Prior.paper() if part == "nominal" else Prior(min_separation=1.5 / DURATION)
    generator = torch.Generator().manual_seed(spread_seed(int(rng.integers(2**62))))
    k = int(rng.integers(1, 11))
    theta = prior.sample_theta(torch.tensor([k]), generator)[0, :k].numpy()
    sigma = rng.uniform(0.1, 1.5)
    return noise_free(theta, Grid(SAMPLES, STEP)) + sigma * rng.standard_normal(SAMPLES), k


def worst_pull(draws: Array, truth: Array) -> float:
    """Largest distance of a parameter from the truth in standard deviations, of draws (n, K, 3), phases at t = 0."""
    middle = 0.5 * (SAMPLES - 1) * STEP
    phase = draws[..., 1] + 2 * math.pi * draws[..., 2] * middle - truth[:, 1]
    turned = (phase + math.pi) % (2 * math.pi) - math.pi
    away = np.stack([draws[..., 0] - truth[:, 0], turned, draws[..., 2] - truth[:, 2]], -1)
    return float((np.abs(away.mean(0)) / away.std(0)).max())


@dataclass(frozen=True)
class Signals:
    """A process's worker, made in it."""

    seed: int

    def __call__(self) -> Worker:
        model, seed = SlotFlow.from_pretrained(), self.seed

        def answer(part: str, index: int) -> Record:
            rng = np.random.default_rng([seed, (*CHANGING, *STEADY).index(part), index])
            truth, stated = None, {"frequency": BAND}
            if part in ("nominal", "stress"):
                x, k = from_prior(part, rng)
            else:
                x, truth = changing(part, rng)
                k = len(truth)
            start = time.process_time()
            observation = Observation.from_arrays(values=x, dt=STEP)
            post = model.infer(observation, prior=stated, max_seconds=MAX_SECONDS, seed=index)
            seconds = time.process_time() - start
            pull = None
            if truth is not None and post.k_map == len(truth):
                pull = worst_pull(post.sample(1000, seed=index), truth)
            named = post.verdict.alternatives
            return {
                "i": index,
                "k": k,
                "k_map": post.k_map,
                "pull": pull,
                "status": post.verdict.status,
                "kinds": [one.kind for one in named],
                "log_odds": named[0].log_odds if named else None,
                "reason": post.verdict.reason,
                "seconds": seconds,
            }

        return answer


def summary(records: list[Record]) -> dict[str, Any]:
    """What the verdicts of one part say."""
    wrong = [r for r in records if r["k_map"] != r["k"] or (r["pull"] or 0.0) > BIASED]
    named = [r for r in records if r["kinds"]]
    return {
        "signals": len(records),
        "verdicts": dict(Counter(r["status"] for r in records)),
        "K wrong": sum(r["k_map"] != r["k"] for r in records),
        "wrong": len(wrong),
        "wrong and said": sum(r["status"] != "exact" for r in wrong),
        "wrong and named": sum(bool(r["kinds"]) for r in wrong),
        "named": len(named),
        "kinds": dict(Counter(kind for r in named for kind in set(r["kinds"]))),
        "cpu_seconds": round(float(np.mean([r["seconds"] for r in records])), 2),
    }


def main() -> None:
    """Answers all signals and prints what came of them."""
    options = parse(__doc__, (*CHANGING, *STEADY), 40)
    records = records_of(options, Signals(options.seed), SETTINGS)
    write_json(options, SETTINGS, {part: summary(found) for part, found in records.items()})


if __name__ == "__main__":
    main()
