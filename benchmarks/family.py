"""Tones, chirps and damped tones mixed: how many of each kind the exact step finds, and how long it takes.

    python benchmarks/family.py --size 100 --jobs 2 --out docs/data/family.json

Signals of 512 complex samples: K uniform in 0..6, classes equally likely, places uniform in a band of 120 bins, |ḟ|T²
at most 60, γT log-uniform in 1.5–30, and each component as loud as a gain ρ, log-uniform in 5–40, asks for. The
analysis knows the band, the classes and the bounds of their shapes; amplitudes are log-uniform between bounds that hold
for all classes, which allows components that no data could show, and the noise level is unknown. Part `damped` has
damped tones alone, 0 to 12 of them. Times are CPU seconds
of `model.infer`, and of one fit of five chirps.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from slotflow import Channel, Grid, Observation, Prior, SlotFlow
from slotflow.exact.family.fit import climb, linear_amplitudes
from slotflow.exact.family.search import Search
from slotflow.signal.likelihood import likelihood_of
from slotflow.signal.likelihood.compressed import compressed
from slotflow.signal.simulation_classes import simulate_classes, unit_classes
from slotflow.signal.waveforms import Classes, Waveform
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.tasks import Record, Worker

SAMPLES, HALF_BAND = 512, 60.0
CLEAR = 10.0
"""Gain from which on the class of a component is asked for."""
NEAR = 0.5
"""Bins within which a component is that of the truth."""
MAX_SECONDS, DRAWS = 60.0, 2000
PARTS, MOST_DECAYS = ("mixed", "damped"), 12
SETTINGS = {"max_seconds": MAX_SECONDS, "draws": DRAWS}


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


@dataclass(frozen=True)
class Signals:
    """A process's worker, made in it."""

    seed: int

    def __call__(self) -> Worker:
        model = SlotFlow.from_pretrained()

        def answer(part: str, index: int) -> Record:
            words = [self.seed, PARTS.index(part), index]
            seed = int(np.random.SeedSequence(words).generate_state(1)[0])
            changes = _changes(part)
            stated, drawn = prior(**changes), prior(sigma=(1.0, 1.0), **changes)
            made = simulate_classes(drawn, 1, Grid(SAMPLES, 1.0), seed=seed, is_complex=True)
            values = made.long[0].numpy().astype(np.complex128)
            observation = Observation([Channel(values, dt=1.0, trend=-1)])
            began = time.process_time()
            post: Any = model.infer(
                observation, prior=stated, seed=index, draws=DRAWS, max_seconds=MAX_SECONDS
            )
            seconds = time.process_time() - began
            true, gains = made.theta[0, : int(made.k[0])].numpy(), made.gains[0].numpy()
            kinds = _kinds(post.waveform, true)
            found: Record = {
                "i": index,
                "k": len(true),
                "k_map": int(post.k_map),
                "k_probs": post.k_probs.tolist(),
                "counts": kinds,
                "counts_map": list(next(iter(post.counts_probs()))),
                "gains": gains[: len(true)].tolist(),
                "classes": _classes(post, true, gains) if post.k_map == len(true) else [],
                "status": post.verdict.status,
                "reason": post.verdict.reason,
                "ess": float(post.ess),
                "seconds": seconds,
            }
            return found

        return answer


def _changes(part: str) -> dict[str, Any]:
    """How the prior of a part differs from that of mixtures."""
    if part == "mixed":
        return {}
    waveform = unit_classes(float(SAMPLES))[part]
    return {"classes": None, "waveform": waveform, "k_max": MOST_DECAYS}


def _kinds(waveform: Waveform, theta: Any) -> list[int]:
    """Numbers of components of each class."""
    if not isinstance(waveform, Classes):
        return [len(theta)]
    kinds = waveform.class_of(theta).astype(int)
    return [int(n) for n in np.bincount(kinds, minlength=len(waveform.members))]


def _classes(post: Any, true: Any, gains: Any) -> list[bool]:
    """Whether each clear component has its class, among those that are found at their places."""
    if not isinstance(post.waveform, Classes):
        return []
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


def share(right: list[bool]) -> dict[str, Any]:
    """How many are right, with the standard error."""
    n, mean = len(right), float(np.mean(right)) if right else 0.0
    error = float(np.sqrt(mean * (1 - mean) / max(n, 1)))
    return {"share": round(mean, 4), "error": round(error, 4), "of": n}


def summary(records: list[Record]) -> dict[str, Any]:
    """What is right, how well it was sampled, and how long it took."""
    seconds = np.array([r["seconds"] for r in records])
    ess = np.array([r["ess"] for r in records])
    exact = [r["status"] == "exact" for r in records]
    return {
        "k_right": share([r["k_map"] == r["k"] for r in records]),
        "k_right_expected": round(float(np.mean([max(r["k_probs"]) for r in records])), 4),
        "counts_of_each_class_right": share([r["counts_map"] == r["counts"] for r in records]),
        f"class_right_above_{CLEAR:g}_k_right": share([c for r in records for c in r["classes"]]),
        "exact": share(exact),
        "exact_with_k_wrong": sum(
            e and r["k_map"] != r["k"] for e, r in zip(exact, records, strict=True)
        ),
        "verdicts": dict(Counter(r["status"] for r in records)),
        "ess": {"median": round(float(np.median(ess)), 3), "least": round(float(ess.min()), 3)},
        "cpu_seconds": {
            "median": round(float(np.median(seconds)), 2),
            "mean": round(float(seconds.mean()), 2),
            "most": round(float(seconds.max()), 2),
        },
    }


def main() -> None:
    """Answers all signals and prints what came of them."""
    options = parse(__doc__, PARTS, 100)
    records = records_of(options, Signals(options.seed), SETTINGS)
    results = {part: summary(found) for part, found in records.items()}
    results["fit_of_five_chirps"] = {"cpu_ms": round(1e3 * fit_seconds(options.seed), 1)}
    write_json(options, SETTINGS, results)


if __name__ == "__main__":
    main()
