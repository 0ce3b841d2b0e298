"""Time of data that are not plain beside the plain case: uneven times, local noise and complex samples.

    python benchmarks/general_time.py --size 20 --jobs 0 --out docs/data/general-time.json

Every signal has 3,000 samples and 1 to 5 tones of the paper's prior. The same tones are seen four times: real, even and
white; at uneven times; real and even with ``noise="local"``; and as complex samples. The four are answered one after
the other in one process, so that they see the same machine; times are CPU times of one thread.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.core.seeds import spread_seed
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.tasks import Record, Worker

SAMPLES, STEP = 3000, 0.1
PRIOR = Prior(k_min=0, k_max=10, sigma=(0.0, 1.5))
MOST_TONES = 5
TARGETS = {"uneven": 3.0, "local": 1.5, "complex": 1.0}
KINDS = ("plain", *TARGETS)
SETTINGS = {"samples": SAMPLES, "most_tones": MOST_TONES, "targets": TARGETS}


def observations(seed: int, index: int) -> dict[str, Observation]:
    """One set of tones as each kind of data, in noise of one level."""
    rng = np.random.default_rng([seed, index])
    generator = torch.Generator().manual_seed(spread_seed(int(rng.integers(2**62))))
    k = int(rng.integers(1, MOST_TONES + 1))
    theta = PRIOR.sample_theta(torch.tensor([k]), generator)[0, :k].numpy()
    even = STEP * np.arange(SAMPLES)
    uneven = even + STEP * rng.uniform(-0.4, 0.4, SAMPLES)
    sigma = rng.uniform(0.3, 1.0)

    def samples(t: np.ndarray) -> np.ndarray:
        amplitude, phase, frequency = theta[:, :, None].swapaxes(0, 1)
        clean = (amplitude * np.exp(1j * (2 * np.pi * frequency * t + phase))).sum(0)
        noise = rng.standard_normal((2, SAMPLES))
        return np.asarray(clean + sigma * (noise[0] + 1j * noise[1]))

    real = samples(even)
    return {
        "plain": Observation.from_arrays(values=real.real, dt=STEP),
        "uneven": Observation([Channel(samples(uneven).real, times=uneven)]),
        "local": Observation.from_arrays(values=real.real, dt=STEP),
        "complex": Observation.from_arrays(values=real, dt=STEP),
    }


@dataclass(frozen=True)
class Times:
    """A process's worker, made in it."""

    seed: int

    def __call__(self) -> Worker:
        model, seed = SlotFlow.from_pretrained(), self.seed

        def answer(part: str, index: int) -> Record:
            found: Record = {"i": index}
            for kind, observation in observations(seed, index).items():
                start = time.process_time()
                post = model.infer(
                    observation,
                    prior=PRIOR,
                    noise="local" if kind == "local" else "white",
                    max_seconds=60.0,
                    seed=index,
                )
                post.sample(1000)
                found[kind] = {
                    "seconds": time.process_time() - start,
                    "k": post.k_map,
                    "status": post.verdict.status,
                }
            return found

        for kind, observation in observations(seed, 10**6).items():  # what is loaded only once
            model.infer(observation, prior=PRIOR, noise="local" if kind == "local" else "white")
        return answer


def summary(records: list[Record]) -> dict[str, Any]:
    """Times of each kind, and their ratios to the plain case."""
    seconds = {kind: np.array([r[kind]["seconds"] for r in records]) for kind in KINDS}
    found: dict[str, Any] = {}
    for kind in KINDS:
        each = seconds[kind] / seconds["plain"]
        found[kind] = {
            "mean_seconds": round(float(seconds[kind].mean()), 4),
            "median_seconds": round(float(np.median(seconds[kind])), 4),
            "ratio_of_means": round(float(seconds[kind].mean() / seconds["plain"].mean()), 2),
            "median_ratio": round(float(np.median(each)), 2),
            "target": TARGETS.get(kind, 1.0),
            "verdicts": dict(Counter(r[kind]["status"] for r in records)),
            "same_count_as_plain": sum(r[kind]["k"] == r["plain"]["k"] for r in records),
        }
    return found


def main() -> None:
    """Times every signal as each kind of data."""
    options = parse(__doc__, ("times",), 20)
    records = records_of(options, Times(options.seed), SETTINGS)
    write_json(options, SETTINGS, summary(records["times"]))


if __name__ == "__main__":
    main()
