"""How often the verdict errs: coloured noise that is called exact, and sound data that are called a misfit.

    python benchmarks/verdict.py                     # both, 300 series of red noise, 2,000 white ones of each length
    python benchmarks/verdict.py --red 50 --white 200
    python benchmarks/verdict.py --noise auto        # the same red noise with the noise chosen from the data

**Red noise**: 98 samples of an AR(1) process with the coefficient 0.75 and no tone at all, analysed with the embedded
weights as if the noise were white. A tone with the verdict `exact` is an error of the verdict.
**White noise**: series of 98 and of 3,000 samples with up to five and up to ten tones, fitted from the truth. The share
of misfits is to be 0.001 at most, whatever was fitted.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
import torch
from scipy.signal import lfilter
from scipy.stats import binomtest

from slotflow import Grid, Observation, SlotFlow
from slotflow.core.arrays import Array
from slotflow.posterior.verdict import FALSE_ALARM, DrawQuality, check_residual, judge
from slotflow.signal.fit import fit
from slotflow.signal.likelihood import Statistics

SAMPLES, COEFFICIENT, WARM_UP = 98, 0.75, 200
WHITE = ((98, 1.0, (0.03, 0.47), 5), (3000, 0.1, (2.5, 3.0), 10))
"""Samples, step in seconds, band in Hz and largest number of tones of the white series."""


def red_series(rng: np.random.Generator) -> Array:
    """An AR(1) series after its warm-up, (SAMPLES,)."""
    drawn = lfilter([1.0], [1.0, -COEFFICIENT], rng.standard_normal(WARM_UP + SAMPLES))
    series: Array = drawn[WARM_UP:]
    return series


def red(count: int, seed: int, noise: str, max_seconds: float) -> dict[str, object]:
    """Verdicts on red noise."""
    model, rng = SlotFlow.from_pretrained(), np.random.default_rng(seed)
    found: dict[str, int] = {}
    exact_with_tone = passed_with_tone = 0
    start = time.perf_counter()
    for i in range(count):
        observation = Observation.from_arrays(red_series(rng), dt=1.0)
        post = model.infer(observation, noise=noise, max_seconds=max_seconds)
        status = post.verdict.status
        found[status] = found.get(status, 0) + 1
        passed_with_tone += status != "misfit" and post.k_map > 0
        if status == "exact" and post.k_map > 0:
            exact_with_tone += 1
            print(f"  series {i}: K = {post.k_map}, {post.verdict}", flush=True)
    low, high = binomtest(exact_with_tone, count).proportion_ci()
    return {
        "series": count,
        "noise": noise,
        "verdicts": found,
        "exact with a tone": exact_with_tone,
        "no misfit, with a tone": passed_with_tone,
        "share": [exact_with_tone / count, float(low), float(high)],
        "seconds": round(time.perf_counter() - start, 1),
    }


def drawn_tones(
    rng: np.random.Generator, grid: Grid, band: tuple[float, float], most: int
) -> Array:
    """Tones of SNR 6 to 40, 1.5 bins apart or more, (K, 3)."""
    k = int(rng.integers(0, most + 1))
    while True:
        f = np.sort(rng.uniform(band[0] + 1 / grid.duration, band[1] - 1 / grid.duration, k))
        if k < 2 or np.diff(f).min() > 1.5 / grid.duration:
            break
    amplitude = rng.uniform(6, 40, k) * np.sqrt(2 / grid.n)
    return np.stack([amplitude, rng.uniform(0, 2 * np.pi, k), f], 1)


def white(count: int, seed: int) -> list[dict[str, object]]:
    """Misfits among white series with fitted tones."""
    rows = []
    for n, dt, band, most in WHITE:
        rng, grid, misfits = np.random.default_rng(seed), Grid(n, dt), 0
        for _ in range(count):
            theta = drawn_tones(rng, grid, band, most)
            angle = 2 * np.pi * theta[:, 2:] * grid.times + theta[:, 1:2]
            x = rng.standard_normal(n) + (theta[:, :1] * np.cos(angle)).sum(0)
            statistics = Statistics.from_arrays([torch.as_tensor(x)[None]], [grid])
            if len(theta):
                theta = fit(statistics, torch.as_tensor(theta)[None]).theta[0].numpy()
            verdict = judge(check_residual(statistics, theta, band), DrawQuality(1.0))
            misfits += verdict.status == "misfit"
        rows.append(
            {
                "samples": n,
                "series": count,
                "misfits": misfits,
                "expected at most": FALSE_ALARM * count,
                "p-value of more": float(
                    binomtest(misfits, count, FALSE_ALARM, alternative="greater").pvalue
                ),
            }
        )
    return rows


def main() -> None:
    """Parses the command line and prints a JSON document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--red", type=int, default=300, help="series of red noise; 0 for none")
    parser.add_argument("--white", type=int, default=2000, help="white series; 0 for none")
    parser.add_argument("--noise", default="white", help="noise that red series are analysed with")
    parser.add_argument("--max-seconds", type=float, default=10.0, help="of each red series")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, object] = {}
    if args.white:
        found["white"] = white(args.white, args.seed)
    if args.red:
        found["red"] = red(args.red, args.seed, args.noise, args.max_seconds)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
