"""Bands of 500 bins: is every tone found once, and are the pulls those of a standard normal?

``python benchmarks/wide.py --n 40`` simulates bands of 500 bins of 1/T with 5 to 19 tones at least 3 bins apart (the
paper's sampling, A in 0.5–1.5, σ in 0.3–1.5), analyses each in windows, and prints one JSON document. ``--short`` adds
the short stream, ``--tones 40:60`` crowds the band, ``--gap 1`` allows closer tones. The pulls stand beside those of a
joint fit of all tones that begins at the truth, which scatter with the same noise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter

import numpy as np
import torch

from slotflow import SlotFlow
from slotflow.bands.windows import infer_band
from slotflow.data.observation import Observation
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior

BINS, LONG, SHORT = 500, (3000, 0.1), (5120, 1 / 512)
LOW = 1.2
"""Lower edge of the band in Hz."""


def signal(
    seed: int, short: bool, prior: Prior, tones: tuple[int, int] = (5, 19)
) -> tuple[Observation, np.ndarray]:
    """Draws one observation and its tones (A, φ, f), (K, 3); K is uniform between two numbers."""
    rng = np.random.default_rng(seed)
    k, gap = int(rng.integers(tones[0], tones[1] + 1)), prior.min_separation
    low, high = prior.frequency
    f = low + np.sort(rng.uniform(0, high - low - (k - 1) * gap, k)) + gap * np.arange(k)
    theta = np.stack([rng.uniform(0.5, 1.5, k), rng.uniform(0, 2 * np.pi, k), f], -1)
    sigma = rng.uniform(0.3, 1.5)
    streams = []
    for n, dt in (LONG, SHORT):
        t = dt * np.arange(n)
        clean = (theta[:, 0] * np.cos(2 * np.pi * np.outer(t, f) + theta[:, 1])).sum(1)
        streams.append(clean + sigma * rng.standard_normal(n))
    if short:
        return Observation.from_arrays(streams[0], LONG[1], streams[1], SHORT[1]), theta
    return Observation.from_arrays(streams[0], LONG[1]), theta


def wrapped(error: np.ndarray) -> np.ndarray:
    """Errors of (A, φ, f), (..., 3), those of phases in (−π, π]."""
    error[..., 1] = np.mod(error[..., 1] + np.pi, 2 * np.pi) - np.pi
    return error


def rms(pulls: np.ndarray) -> dict[str, float]:
    """Root mean square of pulls (n, 3), by parameter."""
    values = np.sqrt((pulls**2).sum(0) / max(len(pulls), 1)).round(3).tolist()
    return dict(zip(("A", "phi", "f"), values, strict=True))


def main() -> None:
    """Runs the bands and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=40, help="number of bands")
    parser.add_argument("--seed", type=int, default=0, help="of the first band")
    parser.add_argument("--short", action="store_true", help="with the short stream")
    parser.add_argument("--tones", default="5:19", help="fewest and most tones of a band")
    parser.add_argument("--gap", type=float, default=3.0, help="smallest separation in bins")
    args = parser.parse_args()
    fewest, most = map(int, args.tones.split(":"))
    torch.set_num_threads(1)
    model = SlotFlow.from_pretrained()
    assert isinstance(model, ZoomSlotFlow)
    band = (LOW, LOW + BINS / (LONG[0] * LONG[1]))
    gap = args.gap / (LONG[0] * LONG[1])
    prior = Prior(k_min=0, frequency=band, sigma=(0.0, 2.0), min_separation=gap)
    pulls, control, verdicts, right, confident = [], [], Counter[str](), 0, 0.0
    start = time.perf_counter()
    for i in range(args.n):
        observation, theta = signal(args.seed + i, args.short, prior, (fewest, most))
        post = infer_band(model, observation, prior, max_seconds=60)
        verdicts[post.verdict.status] += 1
        confident += float(post.k_probs[post.k_map])
        if post.k_map != len(theta):
            continue
        right += 1
        error = wrapped(post.sample(1000) - theta)
        pulls.append(error.mean(0) / error.std(0))
        best = fit(Statistics.from_observation(observation), torch.from_numpy(theta[None]))
        if bool(best.converged):
            bound = best.covariance[0].diagonal().sqrt().reshape(-1, 3).numpy()
            control.append(wrapped(best.theta[0].numpy() - theta) / bound)
    found = np.concatenate([np.zeros((0, 3)), *pulls])
    print(
        json.dumps(
            {
                "bands": args.n,
                "short": args.short,
                "gap_bins": args.gap,
                "tones_of_a_band": [fewest, most],
                "right_k": right,
                "right_k_expected": round(confident, 2),
                "verdicts": dict(verdicts),
                "tones": len(found),
                "rms_pull": rms(found),
                "rms_pull_of_a_fit_from_the_truth": rms(
                    np.concatenate([np.zeros((0, 3)), *control])
                ),
                "standard_error": round(1 / np.sqrt(2 * max(len(found), 1)), 3),
                "seconds_each": round((time.perf_counter() - start) / args.n, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
