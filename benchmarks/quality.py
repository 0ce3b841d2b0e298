"""How far a model is from the prior: count, errors and widths on fresh physical signals, K by K.

    python benchmarks/quality.py --model debug --n 300

Slots are matched to the true components by the medians of their frequencies. A prior-wide posterior has the standard
deviations of the line "prior"; for the phase that is the spread of a uniform angle around its mean, π/√3.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from slotflow import Posterior, SlotFlow, simulate


def wrap(angle: np.ndarray) -> np.ndarray:
    """Angles in [−π, π)."""
    return np.mod(angle + math.pi, 2 * math.pi) - math.pi


def errors(post: Posterior, truth: np.ndarray) -> np.ndarray:
    """Error of the median and sd of each matched component, (K, 2, 3)."""
    frame = post.summary(k=len(truth), n=500)
    medians = frame[[f"{p}_median" for p in ("amplitude", "phase", "frequency")]].to_numpy()
    sds = frame[[f"{p}_sd" for p in ("amplitude", "phase", "frequency")]].to_numpy()
    rows, columns = linear_sum_assignment(np.abs(medians[:, None, 2] - truth[None, :, 2]))
    delta = medians[rows] - truth[columns]
    delta[:, 1] = wrap(delta[:, 1])
    return np.stack([np.abs(delta), sds[rows]], axis=1)


def main() -> None:
    """Prints one line per K."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="debug")
    parser.add_argument("--n", type=int, default=300, help="signals for each K")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = SlotFlow.from_pretrained(args.model)
    config = model.config
    print("median over components of |median − truth| and of the posterior's sd")
    print("  K  exact K   A err    A sd   φ err    φ sd [rad]   f err    f sd [mHz]")
    for k in range(config.prior.k_min, config.prior.k_max + 1):
        batch = simulate(
            config.prior,
            args.n,
            config.long,
            config.short,
            mode="physical",
            seed=args.seed + k,
            k=k,
        )
        posts = model.infer(
            [batch.observation(i) for i in range(args.n)], prior=model.config.prior, refine=False
        )
        exact = np.mean([post.k_map == k for post in posts])
        found = np.concatenate([errors(p, batch.components(i)) for i, p in enumerate(posts)])
        (a, phi, f), (sd_a, sd_phi, sd_f) = np.median(found, axis=0)
        print(
            f"{k:3d}  {exact:7.3f} {a:7.3f} {sd_a:7.3f} {phi:7.3f} {sd_phi:7.3f}       "
            f"{1e3 * f:7.2f} {1e3 * sd_f:7.2f}",
            flush=True,
        )
    (a_lo, a_hi), (f_lo, f_hi) = config.prior.amplitude, config.prior.frequency
    print(
        f"prior               {(a_hi - a_lo) / 12**0.5:7.3f}         {math.pi / 3**0.5:7.3f}"
        f"               {1e3 * (f_hi - f_lo) / 12**0.5:7.2f}"
    )


if __name__ == "__main__":
    main()
