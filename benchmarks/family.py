"""Tones, chirps and damped tones mixed: how many of each kind the exact step finds, and how long it takes.

    python benchmarks/family.py --size 100 --seed 0

Signals of 512 complex samples: K uniform in 0..6, classes equally likely, places uniform in a band of 120 bins, |ḟ|T²
at most 60, γT log-uniform in 1.5–30, and each component as loud as a gain ρ, log-uniform in 5–40, asks for. The
analysis knows the band, the classes and the bounds of their shapes; amplitudes are log-uniform between bounds that hold
for all classes, which allows components that no data could show, and the noise level is unknown. Times are CPU seconds
of `model.infer`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from slotflow import Channel, Grid, Observation, Prior, SlotFlow
from slotflow.exact.family.fit import climb, linear_amplitudes
from slotflow.exact.family.search import Search
from slotflow.signal.likelihood import likelihood_of
from slotflow.signal.likelihood.compressed import compressed
from slotflow.signal.simulation_classes import simulate_classes, unit_classes

SAMPLES, HALF_BAND = 512, 60.0
CLEAR = 10.0
"""Gain from which on the class of a component is asked for."""
NEAR = 0.5
"""Bins within which a component is that of the truth."""


def prior(**changes: Any) -> Prior:
    """What the analysis knows."""
    band = HALF_BAND / SAMPLES
    stated: dict[str, Any] = {
        "k_min": 0,
        "k_max": 6,
        "classes": unit_classes(float(SAMPLES)),
        "frequency": (-band, band),
        "min_separation": 0.0,
        "amplitude": (0.2, 30.0),
        "amplitude_law": "loguniform",
        "sigma": (0.0, 5.0),
    }
    return Prior(**(stated | changes))


def measure(size: int, seed: int, max_seconds: float) -> dict[str, Any]:
    """Answers `size` signals and gathers what is right."""
    model, stated = SlotFlow.from_pretrained(), prior()
    made = simulate_classes(
        prior(sigma=(1.0, 1.0)), size, Grid(SAMPLES, 1.0), seed=seed, is_complex=True
    )
    rows: dict[str, list[float]] = {
        name: [] for name in ("k", "counts", "class", "exact", "ess", "seconds")
    }
    for i in range(size):
        values = made.long[i].numpy().astype(np.complex128)
        observation = Observation([Channel(values, dt=1.0, trend=-1)])
        began = time.process_time()
        post: Any = model.infer(observation, prior=stated, seed=seed, max_seconds=max_seconds)
        rows["seconds"].append(time.process_time() - began)
        true = made.theta[i, : int(made.k[i])].numpy()
        waveform = post.waveform
        kinds = np.bincount(waveform.class_of(true).astype(int), minlength=3)
        rows["k"].append(post.k_map == len(true))
        rows["counts"].append(next(iter(post.counts_probs())) == tuple(kinds))
        rows["exact"].append(post.verdict.status == "exact")
        rows["ess"].append(post.ess)
        if post.k_map == len(true):
            rows["class"] += _classes(post, true, made.gains[i].numpy())
    return {name: np.array(values, dtype=np.float64) for name, values in rows.items()}


def _classes(post: Any, true: Any, gains: Any) -> list[bool]:
    """Whether each clear component has its class, among those that are found at their places."""
    frame, waveform = post.summary(n=500), post.waveform
    found = []
    for component, gain in zip(true, gains, strict=False):
        if gain < CLEAR:
            continue
        away = np.abs(frame["frequency_median"] - waveform.place_of(component[None])[0])
        name = waveform.class_names[int(waveform.class_of(component[None])[0])]
        near = away.min() * SAMPLES < NEAR
        found.append(bool(near and frame["class"][away.idxmin()] == name))
    return found


def fit_seconds(seed: int) -> float:
    """CPU seconds of one fit of five chirps, from half a bin beside their places."""
    alone = prior(classes=None, waveform=unit_classes(float(SAMPLES))["chirp"], k_min=5, k_max=5)
    stated = prior(classes=None, waveform=alone.waveform)
    made = simulate_classes(
        prior(classes=None, waveform=alone.waveform, k_min=5, k_max=5, sigma=(1.0, 1.0)),
        1, Grid(SAMPLES, 1.0), seed=seed, is_complex=True,
    )  # fmt: skip
    observation = Observation(
        [Channel(made.long[0].numpy().astype(np.complex128), dt=1.0, trend=-1)]
    )
    waveform = stated.waveform.on(0.0, observation.long.mid_time)
    (hull,) = waveform.occupied(stated.frequency, float(SAMPLES))
    nodes = compressed(
        likelihood_of(observation, None, hull), observation, waveform, stated.frequency
    )
    search = Search(nodes, stated, waveform, observation.long.mid_time, float(SAMPLES))
    target = search.target((5,))
    z = waveform.to_z(made.theta[0, :5].numpy(), observation.long.mid_time)
    waveform.place_in_z(z)[:] += 0.3 / SAMPLES
    began, repeats = time.process_time(), 10
    for _ in range(repeats):
        climb(target, linear_amplitudes(target, z.ravel(), 1.0), 1.0, float(SAMPLES))
    return (time.process_time() - began) / repeats


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100, help="signals")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=60.0, help="time budget of a signal")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"one fit of five chirps: {1e3 * fit_seconds(options.seed):.0f} ms")
    rows = measure(options.size, options.seed, options.max_seconds)
    print(f"{options.size} signals, seed {options.seed}")
    for name, words in (
        ("k", "K right"),
        ("counts", "numbers of each class right"),
        ("class", f"class right, gain above {CLEAR:g}, K right"),
        ("exact", "verdict exact"),
    ):
        share, n = float(rows[name].mean()), len(rows[name])
        print(f"{words}: {share:.3f} ± {np.sqrt(share * (1 - share) / n):.3f} (of {n})")
    print(f"ESS per draw, median: {np.median(rows['ess']):.2f}")
    print(
        f"CPU seconds, median and largest: {np.median(rows['seconds']):.1f}, {rows['seconds'].max():.1f}"
    )


if __name__ == "__main__":
    main()
