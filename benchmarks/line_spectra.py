"""Complex line spectra under the protocol of DeepFreq: chamfer distances, counts and the calibration of p(K).

    python benchmarks/line_spectra.py --size 1000 --jobs 15 --out docs/data/line-spectra.json
    python benchmarks/line_spectra.py --test-set DeepFreq/test_dataset --jobs 15

Fifty complex samples, 1 to 10 tones at least 1/50 apart, at 0, 10, 20, 30 and 50 dB; the protocol stands in
`studies/proof/line_spectra.py`. The prior and the budget below were chosen on signals of seed 100 and are the same at
every SNR. The draws are carried over to the law that the signals are drawn from (`studies/proof/protocol_law.py`),
which a network that is trained on such signals knows too; the answer under the broad prior itself stands beside.
``--test-set`` takes the authors' own signals from a folder of their repository instead of drawing new ones. ESPRIT
and MUSIC with an order by minimum description length answer the same signals; the numbers of DeepFreq and CBLasso are
the published ones.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow import Channel, Observation, Posterior, Prior, SlotFlow
from slotflow.core.arrays import Array
from slotflow.exact.refined import RefinedPosterior
from slotflow.studies.measures.cardinality import ece, ece_of_perfect, top_label
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.proof.line_spectra import (
    chamfer,
    draw_line_spectrum,
    in_noise,
    set_of_least_distance,
)
from slotflow.studies.proof.protocol_law import under_the_law
from slotflow.studies.proof.subspace import description_length_order, esprit, music
from slotflow.studies.tasks import Record, Worker

DECIBELS = {"0dB": 0.0, "10dB": 10.0, "20dB": 20.0, "30dB": 30.0, "50dB": 50.0}
PUBLISHED = {
    "DeepFreq": dict(zip(DECIBELS, (0.20, 0.055, 0.018, 0.011, 0.010), strict=True)),
    "CBLasso": dict(zip(DECIBELS, (0.99, 0.153, 0.069, 0.048, 0.041), strict=True)),
}
"""Chamfer distances; DeepFreq's are read off the authors' figure."""
MOST_TONES, TILT = 10, 1.5
PRIOR = Prior(
    k_min=1,
    k_max=MOST_TONES,
    k_probs=tuple(math.exp(TILT * k) for k in range(MOST_TONES)),
    amplitude=(0.02, 2.0),
    frequency=(-0.5, 0.5),
    min_separation=1 / 50,
    sigma=(0.0, 1.5),
)
"""The protocol's separation; frequencies uniform, amplitudes of scaled signals within broad bounds.

p(K) is tilted so that orders are looked at which the protocol's law favours; counts are judged under a uniform p(K).
"""
UNIFORM = replace(PRIOR, k_probs=None)
MAX_SECONDS = 10.0
"""Time budget of one signal, on a core of its own."""
DRAWS = 2000
"""Weighted draws of each order."""
SETS = 400
"""Equally weighted draws behind the estimated set."""


@dataclass(frozen=True)
class Signals:
    """A process's worker, made in it."""

    seed: int
    test_set: Path | None = None
    max_seconds: float = MAX_SECONDS

    def __call__(self) -> Worker:
        model, data = SlotFlow.from_pretrained(), self

        def answer(part: str, index: int) -> Record:
            x, truth = data.draw(part, index)
            start = time.process_time()
            observation = Observation([Channel(x, 1.0, trend=-1)])  # the protocol knows no offset
            post = model.infer(
                observation,
                prior=PRIOR,
                noise="white",
                draws=DRAWS,
                max_seconds=data.max_seconds,
                seed=index,
            )
            seconds = time.process_time() - start
            return {"i": index, **record_of(post, x, truth, index), "seconds": seconds}

        return answer

    def draw(self, part: str, index: int) -> tuple[NDArray[np.complex128], Array]:
        """Samples and true frequencies of a signal; the tones are the same at every SNR."""
        decibel = DECIBELS[part]
        if self.test_set is not None:
            real, imaginary = np.load(self.test_set / f"{decibel:.1f}dB.npy")[index].astype(float)
            f = np.load(self.test_set / "f.npy")[index].astype(float)
            return real + 1j * imaginary, np.sort(f[f >= -0.5])
        clean = draw_line_spectrum(np.random.default_rng([self.seed, index]))
        noise = np.random.default_rng([self.seed, index, 1 + list(DECIBELS).index(part)])
        return in_noise(clean.values, decibel, noise), clean.frequencies


def record_of(post: Posterior, x: NDArray[np.complex128], truth: Array, seed: int) -> Record:
    """What is kept of an answer, and of the rivals' answers to the same signal."""
    broad = post.k_probs[: MOST_TONES + 1] / np.maximum(PRIOR.k_probs_full, 1e-12)
    broad /= broad.sum()
    sets = []
    for k in np.flatnonzero(broad > 0.5 / SETS):
        n = max(round(SETS * float(broad[k])), 1)
        sets.append(post.waveform.place_of(post.sample(n, int(k), seed)))
    k_map = int(broad.argmax())
    likeliest = np.median(post.waveform.place_of(post.sample(SETS, k_map, seed)), axis=0)
    under_law, of_law = broad, sets
    if isinstance(post, RefinedPosterior) and post.sampled(post.k_map):
        under_law, of_law = under_the_law(post, UNIFORM, SETS, seed)
    order = description_length_order(x, MOST_TONES)
    found = {
        "slotflow": set_of_least_distance(of_law),
        "slotflow, broad prior": set_of_least_distance(sets),
        "slotflow, broad prior, most probable K": likeliest,
        "ESPRIT, MDL": esprit(x, order),
        "MUSIC, MDL": music(x, order),
    }
    return {
        "k": len(truth),
        "k_probs": under_law.tolist(),
        "k_probs_broad": broad.tolist(),
        "k_mdl": order,
        "chamfer": {name: chamfer(np.asarray(f), truth) for name, f in found.items()},
        "status": post.verdict.status,
        "proposed_by": str(getattr(post, "proposed_by", "")),
    }


def calibration(k_probs: torch.Tensor, k: torch.Tensor) -> dict[str, Any]:
    """Counts and the calibration of p(K), (n, k_max + 1), beside what chance allows."""
    k_map, confidence = top_label(k_probs)
    mean, limit = ece_of_perfect(k_probs)
    score = k_probs[torch.arange(len(k)), k].clamp_min(1e-12).log().mean()
    return {
        "wrong_counts": round(float((k_map != k).double().mean()), 4),
        "wrong_counts_expected": round(float((1 - confidence).mean()), 4),
        "ece": round(float(ece(confidence, k_map == k)), 4),
        "ece_by_chance": {"mean": round(mean, 4), "95 %": round(limit, 4)},
        "log_score": round(float(score), 3),
    }


def summary(part: str, records: list[Record]) -> dict[str, Any]:
    """Distances, counts, calibration and times of one SNR."""
    k = torch.tensor([r["k"] for r in records])
    distances: dict[str, Any] = {}
    for name in records[0]["chamfer"]:
        values = np.array([r["chamfer"][name] for r in records])
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
        distances[name] = {"mean": round(float(values.mean()), 5), "error": round(float(error), 5)}
    distances |= {f"{name}, published": {"mean": v[part]} for name, v in PUBLISHED.items()}
    seconds = np.array([r["seconds"] for r in records])
    broad = torch.tensor([r["k_probs_broad"] for r in records], dtype=torch.float64)
    k_probs = torch.tensor([r["k_probs"] for r in records], dtype=torch.float64)
    return {
        "signals": len(records),
        "chamfer": distances,
        "count": calibration(k_probs, k),
        "count, broad prior": calibration(broad, k),
        "wrong_counts_mdl": round(float(np.mean([r["k_mdl"] != r["k"] for r in records])), 4),
        "verdicts": dict(Counter(r["status"] for r in records)),
        "proposed_by": dict(Counter(r["proposed_by"] for r in records)),
        "cpu_seconds": {
            "mean": round(float(seconds.mean()), 3),
            "median": round(float(np.median(seconds)), 3),
            "most": round(float(seconds.max()), 2),
        },
    }


def own_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that only this script has."""
    parser.add_argument("--max-seconds", type=float, default=MAX_SECONDS, help="of one signal")
    parser.add_argument("--test-set", type=Path, help="the authors' folder of signals")


def main() -> None:
    """Answers all signals and prints the distances."""
    options = parse(__doc__, list(DECIBELS), 1000, own_flags)
    test_set, seconds = options.flags.test_set, options.flags.max_seconds
    settings = {
        "prior": asdict(PRIOR),
        "max_seconds": seconds,
        "draws": DRAWS,
        "signals": "drawn" if test_set is None else "the authors' test set",
    }
    records = records_of(options, Signals(options.seed, test_set, seconds), settings)
    write_json(options, settings, {part: summary(part, found) for part, found in records.items()})


if __name__ == "__main__":
    main()
