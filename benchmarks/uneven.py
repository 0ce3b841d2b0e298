"""Few samples at odd times, nothing stated: are the counts right, what does the verdict say, are the pulls normal?

``python benchmarks/uneven.py --n 20 --out docs/data/uneven.json`` simulates series of each kind and prints a row for
each: right counts, verdicts, wrong counts that call themselves exact, pulls of A and f, and seconds. *Random*: N
samples uniform over 100 s in noise of σ = 1, tones with A of 9 to 40 times σ√(2/N), at least 3/T apart, below 0.45 N/T.
*Nights*: one sample in each of N nights of three seasons, with errors of their own, tones below 0.45 cycles per night.
*Red*: noise alone, an exponential correlation of 1 s beside white noise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slotflow import Observation, SlotFlow, __version__

Drawn = tuple[Observation, np.ndarray]
"""An observation, and the A and f of its tones, (K, 2)."""
APART, ANGLES = 3.0, 2 * np.pi


def tones(rng: np.random.Generator, k: int, level: float, span: float, high: float) -> np.ndarray:
    """A, f and φ of tones at least `APART` bins apart, (K, 3), between four cycles in the span and a frequency."""
    while True:
        f = np.sort(rng.uniform(4 / span, high, k))
        if k < 2 or np.diff(f).min() > APART / span:
            break
    amplitude = level * np.exp(rng.uniform(np.log(9), np.log(40), k))
    return np.stack([amplitude, f, rng.uniform(0, ANGLES, k)], -1)


def values(t: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The sum of tones at times t."""
    a, f, phase = theta.T
    total: np.ndarray = (a[:, None] * np.cos(ANGLES * np.outer(f, t) + phase[:, None])).sum(0)
    return total


def random_times(n: int, most: int) -> Callable[[np.random.Generator], Drawn]:
    """Series of n samples at random times, with 0 to `most` tones."""

    def draw(rng: np.random.Generator) -> Drawn:
        t = np.sort(rng.uniform(0, 100, n))
        theta = tones(rng, int(rng.integers(0, most + 1)), np.sqrt(2 / n), 100, 0.45 * n / 100)
        x = values(t, theta) + rng.standard_normal(n)
        return Observation.from_arrays(values=x, times=t), theta[:, :2]

    return draw


def nights(n: int) -> Callable[[np.random.Generator], Drawn]:
    """Series of n nights out of three seasons of 230, with 1 or 2 tones."""

    def draw(rng: np.random.Generator) -> Drawn:
        season = np.array([day for day in range(3 * 365) if day % 365 < 230])
        t = np.sort(rng.choice(season, n, replace=False)) + rng.uniform(-0.15, 0.15, n)
        errors = 1.5 * np.exp(0.3 * rng.standard_normal(n))
        theta = tones(rng, int(rng.integers(1, 3)), 1.5 * np.sqrt(2 / n), float(np.ptp(t)), 0.45)
        x = values(t, theta) + errors * rng.standard_normal(n)
        return Observation.from_arrays(values=x, times=t, errors=errors), theta[:, :2]

    return draw


def red(n: int) -> Callable[[np.random.Generator], Drawn]:
    """Series of n samples of red noise at random times, without tones."""

    def draw(rng: np.random.Generator) -> Drawn:
        t = np.sort(rng.uniform(0, 100, n))
        covariance = 4 * np.exp(-np.abs(t[:, None] - t)) + np.eye(n)
        x = np.linalg.cholesky(covariance) @ rng.standard_normal(n)
        return Observation.from_arrays(values=x, times=t), np.zeros((0, 2))

    return draw


KINDS = {
    "random, N = 30": random_times(30, 1),
    "random, N = 60": random_times(60, 2),
    "random, N = 80": random_times(80, 3),
    "random, N = 150": random_times(150, 5),
    "random, N = 300": random_times(300, 5),
    "nights, N = 60": nights(60),
    "nights, N = 150": nights(150),
    "red, N = 150": red(150),
}


def measured(
    model: SlotFlow, draw: Callable[[np.random.Generator], Drawn], n: int, seed: int
) -> dict[str, Any]:
    """One row."""
    verdicts, right, wrong, pulls, seconds = Counter[str](), 0, 0, list[np.ndarray](), []
    for i in range(n):
        observation, truth = draw(np.random.default_rng([seed, i]))
        start = time.process_time()
        post = model.infer(observation)
        seconds.append(time.process_time() - start)
        status = post.verdict.status
        verdicts[status] += 1
        same = post.k_map == len(truth)
        right += same
        wrong += status == "exact" and not same
        if same and len(truth):
            draws = post.sample(1000)
            order = draws[..., 2].argsort(1)[..., None]
            found = np.take_along_axis(draws, order, 1)[..., [0, 2]]
            pulls.append((found.mean(0) - truth) / found.std(0))
    pull = np.concatenate([np.zeros((0, 2)), *pulls])
    return {
        "series": n,
        "right_k": int(right),
        "wrong_k_called_exact": int(wrong),
        "verdicts": dict(verdicts),
        "tones": len(pull),
        "rms_pull": [round(float(one), 2) for one in np.sqrt((pull**2).mean(0))] if len(pull) else None,
        "largest_pull": round(float(np.abs(pull).max()), 1) if len(pull) else None,
        "cpu_seconds": [round(float(np.median(seconds)), 2), round(max(seconds), 1)],
    }  # fmt: skip


def main() -> None:
    """Runs all kinds and prints the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=20, help="series of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--out", type=Path, help="file for the record")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = SlotFlow.from_pretrained()
    rows = {}
    for name in asked.kinds:
        rows[name] = measured(model, KINDS[name], asked.n, asked.seed)
        print(f"{name}: {rows[name]}", flush=True)
    command = f"python benchmarks/uneven.py --n {asked.n} --seed {asked.seed}"
    record = {"command": command, "version": __version__, "rows": rows}
    if asked.out is not None:
        asked.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
