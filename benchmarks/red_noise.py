"""Red noise: false tones, calibration, coverage and verdicts beside the analysis that takes it for white.

    python benchmarks/red_noise.py --size 1000 --jobs 15 --out docs/data/red-noise.json

Parts `ar` and `power_law` are bands of 40 bins with 0 to 5 tones in AR(1) noise (0.9) and in 1/f² plus white noise;
each band is answered with ``noise="auto"`` and with ``noise="white"``. Part `short` has AR(1) noise (0.75) of 98
samples without a tone, answered by ``model.infer(observation)`` with nothing stated. The details stand in
`studies/proof/red_noise.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slotflow import Observation, SlotFlow
from slotflow.studies.measures.calibration import coverage, deviation_of_perfect
from slotflow.studies.measures.cardinality import ece, ece_of_perfect, top_label
from slotflow.studies.measures.parameters import SYMBOLS
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.proof.red_noise import draw_red_band, measured, red_series, stated
from slotflow.studies.tasks import Record, Worker

PARTS = ("ar", "power_law", "short")
KINDS = ("auto", "white")
SHORT, SHORT_CORRELATION = 98, 0.75
MAX_SECONDS, DRAWS = 10.0, 1000
SETTINGS = {"max_seconds": MAX_SECONDS, "draws": DRAWS, "short": [SHORT, SHORT_CORRELATION]}


@dataclass(frozen=True)
class Bands:
    """A process's worker, made in it."""

    seed: int

    def __call__(self) -> Worker:
        model, seed = SlotFlow.from_pretrained(), self.seed

        def answer(part: str, index: int) -> Record:
            rng = np.random.default_rng([seed, PARTS.index(part), index])
            if part == "short":
                values = red_series("ar", SHORT, rng, SHORT_CORRELATION)
                observation, truth, prior = (
                    Observation.from_arrays(values=values, dt=1.0),
                    None,
                    None,
                )
            else:
                band = draw_red_band(part, rng)
                observation = Observation.from_arrays(values=band.values, dt=1.0)
                truth, prior = band.truth, stated(band.prior)
            found: Record = {"i": index}
            for kind in ("auto",) if truth is None else KINDS:
                start = time.process_time()
                post = model.infer(
                    observation,
                    prior=prior,
                    noise=kind,
                    draws=DRAWS,
                    max_seconds=MAX_SECONDS,
                    seed=index,
                )
                seconds = time.process_time() - start
                nothing = np.zeros((0, post.waveform.size))
                kept = measured(post, nothing if truth is None else truth, index)
                found[kind] = kept | {"seconds": seconds}
            return found

        return answer


def padded(rows: list[list[float]]) -> torch.Tensor:
    """Rows of different lengths as one tensor, zeros at their ends."""
    longest = max(map(len, rows))
    return torch.tensor([row + [0.0] * (longest - len(row)) for row in rows], dtype=torch.float64)


def summary(records: list[Record]) -> dict[str, Any]:
    """False tones, calibration, coverage and verdicts of one analysis of one part."""
    k = torch.tensor([r["k"] for r in records])
    k_probs = padded([r["k_probs"] for r in records])
    k_map, confidence = top_label(k_probs)
    mean, limit = ece_of_perfect(k_probs)
    empty, verdicts = k == 0, Counter(r["status"] for r in records)
    seconds = np.array([r["seconds"] for r in records])
    exact = torch.tensor([r["status"] == "exact" for r in records])
    found: dict[str, Any] = {
        "bands": len(records),
        "empty_bands": int(empty.sum()),
        "empty_bands_with_a_tone": int((k_map[empty] > 0).sum()),
        "exact_with_a_tone_in_an_empty_band": int((exact & empty & (k_map > 0)).sum()),
        "wrong_counts": round(float((k_map != k).double().mean()), 4),
        "wrong_counts_expected": round(float((1 - confidence).mean()), 4),
        "ece": round(float(ece(confidence, k_map == k)), 4),
        "ece_by_chance": {"mean": round(mean, 4), "95 %": round(limit, 4)},
        "exact": round(verdicts["exact"] / len(records), 4),
        "verdicts": dict(verdicts),
        "noise": dict(Counter(r["noise"] for r in records)),
        "proposed_by": dict(Counter(r["proposed_by"] for r in records)),
        "cpu_seconds": {
            "mean": round(float(seconds.mean()), 3),
            "most": round(float(seconds.max()), 2),
        },
    }
    if int(k.max()):
        found["coverage"] = coverage_of(records, k)
    return found


def coverage_of(records: list[Record], k: torch.Tensor) -> dict[str, Any]:
    """How far the coverage of central intervals strays, for each parameter."""
    most = int(k.max())
    level = torch.zeros(len(records), most, len(SYMBOLS), dtype=torch.float64)
    for i, record in enumerate(records):
        if record["k"]:
            level[i, : record["k"]] = torch.tensor(record["levels"], dtype=torch.float64)
    curve = coverage(level, torch.arange(most) < k[:, None])
    return {
        "tones": curve.n_tones,
        "worst_deviation": {
            symbol: round(curve.worst(i)[1], 4) for i, symbol in enumerate(SYMBOLS)
        },
        "worst_by_chance_95 %": round(deviation_of_perfect(curve.n_tones), 4),
    }


def main() -> None:
    """Answers all bands and prints what came of them."""
    options = parse(__doc__, PARTS, 1000)
    records = records_of(options, Bands(options.seed), SETTINGS)
    results: dict[str, Any] = {}
    for part, found in records.items():
        for kind in [kind for kind in KINDS if kind in found[0]]:
            results[f"{part}, {kind}"] = summary([r[kind] for r in found])
    write_json(options, SETTINGS, results)


if __name__ == "__main__":
    main()
