"""Tones that drift, decay or are modulated, analysed for steady tones: is it said? And how often is it said of tones?

    python benchmarks/directed.py --size 40 --steady 150 --jobs 15 --out docs/data/directed.json
    python benchmarks/directed.py --size 20 --parts "drift 1" "decay 1"

Two components of amplitudes 0.5–1.5, at least six bins apart, in white noise of the level 1: 3,000 samples at 0.1 s, a
band of 150 bins, nothing else stated. Both drift by some bins over the record, decay with some γT, have an amplitude
that is modulated by a share of it with 0.5 to 3 periods, or a phase that jumps by a radian in the middle three fifths.

An answer is wrong if K is not 2, or if a parameter is biased: without noise, a fit of two steady tones has a frequency
or phase at mid-record, or an amplitude (compared with its root mean square), more than `BIASED` posterior standard
deviations from the truth. It is said if the verdict is not `exact`, and named if it has an alternative. With d the
energy, in units of the noise's variance, that two steady tones cannot explain, a test that knew the form of the change
would see it with the probability Φ(√d − z) at 1 % of false alarms, z being the normal law's quantile of 0.99; `best
test` is the sum of these over the signals with a wrong answer.

The other parts are steady tones, of which nothing should be said: `tones` as above, `nominal` and `stress` as the
package's test sets have them, `pairs` of tones 0.25 to 3 bins apart (log-uniform).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special

from slotflow import Observation, SlotFlow
from slotflow.core.arrays import Array
from slotflow.core.seeds import spread_seed
from slotflow.signal.prior import Prior
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.tasks import Record, Worker

CHANGING = (
    *("drift 0.25", "drift 0.5", "drift 1", "drift 2"),
    *("decay 0.5", "decay 1", "decay 2"),
    *("modulation 0.1", "modulation 0.3", "jump 1"),
)
"""Kinds of change with their sizes: bins, γT, depth and radians."""
STEADY = ("tones", "pairs", "nominal", "stress")
SAMPLES, STEP = 3000, 0.1
DURATION = SAMPLES * STEP
MIDDLE = 0.5 * (SAMPLES - 1) * STEP
BAND = (2.5, 3.0)
AMPLITUDE = (0.5, 1.5)
APART, EDGE = 6.0, 3.0
"""Smallest distance of two components, and of one from the edges of the band, in bins."""
CYCLES = (0.5, 3.0)
"""Periods of a modulation over the record."""
JUMPS = (0.2, 0.8)
"""Part of the record in which a phase jumps."""
PAIR = (0.25, 3.0)
"""Distances of close tones in bins."""
BIASED = 1.0
"""Standard deviations from the truth above which a parameter is called biased."""
FALSE_ALARMS = 0.01
"""Rate of false alarms of the best test."""
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
    """A series without noise, (N,), and its components: rms amplitude, phase at mid-record and frequency, (2, 3)."""
    t = np.arange(SAMPLES) * STEP
    u = t - 0.5 * (SAMPLES - 1) * STEP
    kind, size = [*part.split(), "0"][:2]
    x, truth = np.zeros(SAMPLES), []
    for f in places(part, rng):
        amplitude, phase = rng.uniform(*AMPLITUDE), rng.uniform(0, 2 * math.pi)
        envelope, angle = np.ones(SAMPLES), 2 * math.pi * f * u + phase
        if kind == "drift":
            angle += math.pi * float(size) * rng.choice([-1.0, 1.0]) * (u / DURATION) ** 2
        elif kind == "decay":
            envelope = np.exp(-float(size) * t / DURATION)
        elif kind == "modulation":
            turns = rng.uniform(*CYCLES) * t / DURATION + rng.uniform()
            envelope = 1 + float(size) * np.cos(2 * math.pi * turns)
        elif kind == "jump":
            angle += float(size) * (t > rng.uniform(*JUMPS) * DURATION)
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


def steady_fit(clean: Array, truth: Array) -> tuple[Array, float]:
    """Two steady tones that fit a series without noise: parameters, phases at t = 0, (2, 3), and what they leave of it.

    Args:
        clean: The series, (N,).
        truth: Its components, phases at mid-record, (2, 3).
    """
    from slotflow.data.sampling import Grid
    from slotflow.signal.fit import fit
    from slotflow.signal.likelihood import Statistics

    start = truth.copy()
    start[:, 1] -= 2 * math.pi * start[:, 2] * MIDDLE
    statistics = Statistics.from_arrays([torch.as_tensor(clean)[None]], [Grid(SAMPLES, STEP)])
    theta = fit(statistics, torch.as_tensor(start)[None]).theta
    return theta[0].numpy(), float(statistics.rss(theta[:, None])[0, 0])


def worst_bias(draws: Array, fitted: Array, truth: Array) -> float:
    """Largest bias of a parameter in posterior standard deviations.

    Args:
        draws: Of two tones, phases at t = 0, (n, 2, 3).
        fitted: What two tones are without noise, phases at t = 0, (2, 3).
        truth: The components, phases at mid-record, (2, 3).
    """
    spread = at_middle(draws, truth).std(0)
    return float((np.abs(at_middle(fitted[None], truth)[0]) / spread).max())


def at_middle(theta: Array, truth: Array) -> Array:
    """How far tones, (n, 2, 3), phases at t = 0, are from components whose phases are at mid-record, (n, 2, 3)."""
    phase = theta[..., 1] + 2 * math.pi * theta[..., 2] * MIDDLE - truth[:, 1]
    turned = (phase + math.pi) % (2 * math.pi) - math.pi
    return np.stack([theta[..., 0] - truth[:, 0], turned, theta[..., 2] - truth[:, 2]], -1)


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
                clean, truth = changing(part, rng)
                x, k = clean + rng.standard_normal(SAMPLES), len(truth)
            start = time.process_time()
            observation = Observation.from_arrays(values=x, dt=STEP)
            post = model.infer(observation, prior=stated, max_seconds=MAX_SECONDS, seed=index)
            seconds = time.process_time() - start
            bias, unexplained = None, None
            if truth is not None and part in CHANGING:
                fitted, unexplained = steady_fit(clean, truth)
                if post.k_map == k:
                    bias = worst_bias(post.sample(1000, seed=index), fitted, truth)
            named = post.verdict.alternatives
            return {
                "i": index,
                "k": k,
                "k_map": post.k_map,
                "bias": bias,
                "unexplained": unexplained,
                "status": post.verdict.status,
                "kinds": [one.kind for one in named],
                "log_odds": named[0].log_odds if named else None,
                "reason": post.verdict.reason,
                "seconds": seconds,
            }

        return answer


def summary(records: list[Record]) -> dict[str, Any]:
    """What the verdicts of one part say."""
    wrong = [r for r in records if r["k_map"] != r["k"] or (r["bias"] or 0.0) > BIASED]
    named = [r for r in records if r["kinds"]]
    found: dict[str, Any] = {
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
    if all(r["unexplained"] is not None for r in records):
        found["best test"] = round(sum(map(best_test, wrong)), 1)
    return found


def best_test(record: Record) -> float:
    """Probability with which a test that knew the form of the change would see it."""
    return float(special.ndtr(math.sqrt(record["unexplained"]) + special.ndtri(FALSE_ALARMS)))


def main() -> None:
    """Answers all signals and prints what came of them."""
    options = parse(
        __doc__,
        (*CHANGING, *STEADY),
        40,
        lambda parser: parser.add_argument(
            "--steady", type=int, default=150, help="signals of each part of steady tones"
        ),
    )
    sizes = dict.fromkeys(STEADY, options.flags.steady)
    records = records_of(options, Signals(options.seed), SETTINGS, sizes)
    write_json(options, SETTINGS, {part: summary(found) for part, found in records.items()})


if __name__ == "__main__":
    main()
