"""Crowded and weak signals one by one: processor time, calibration, coverage, and equal answers of two versions.

    python benchmarks/crowded.py --size 60 --answers before.json                       # with the code of one version
    python benchmarks/crowded.py --size 60 --before before.json --out docs/data/crowded.json     # and of another

Signals are those of the parts `frontier` and `weak` of the exact suite (`studies/suites/exact/parts.py`), each answered
by ``model.infer(observation, prior=prior)``. Times are processor times of one thread, the network included. With
--before, answers of the same signals by another version of the code are summarised beside these and compared signal by
signal: p(K), ln Z of every K that both sampled, and means of A and f at the most probable K, the last two in units of
their Monte-Carlo errors, whose root mean square is 1 if both versions are right and state their errors well.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slotflow import SlotFlow
from slotflow.exact.refined import RefinedPosterior
from slotflow.studies.answers import exact_answer
from slotflow.studies.measures.calibration import deviation_of_perfect
from slotflow.studies.measures.cardinality import ece, ece_of_perfect, top_label
from slotflow.studies.measures.parameters import SYMBOLS, TABLE_ORDER
from slotflow.studies.proof.command import parse, records_of, write_json
from slotflow.studies.suites.exact.coverage_rows import curves
from slotflow.studies.suites.exact.parts import PARTS, draw_signal, measure
from slotflow.studies.suites.sets import suite_seed
from slotflow.studies.tasks import Record, Worker

SETS = ("frontier", "weak")
MAX_SECONDS, DRAWS = 60.0, 2000
SETTINGS = {"max_seconds": MAX_SECONDS, "draws": DRAWS}
"""Draws are those of `model.infer`; its time budget is wide, so that answers do not depend on who else is at work."""


@dataclass(frozen=True)
class Crowded:
    """A process's worker, made in it."""

    seed: int

    def __call__(self) -> Worker:
        model, seed = SlotFlow.from_pretrained(), self.seed
        first = draw_signal(PARTS["nominal"], 0, seed).observation(0)
        exact_answer(model, first, PARTS["nominal"].prior)  # what is loaded once does not count

        def answer(name: str, index: int) -> Record:
            part, options = PARTS[name], {"draws": DRAWS, "max_seconds": MAX_SECONDS, "seed": index}
            sim = draw_signal(part, index, seed)
            observation, began = sim.observation(0), time.process_time()
            post = exact_answer(model, observation, part.prior, **options)
            seconds = time.process_time() - began
            ranks = suite_seed(part.number, index, 0)
            kept = measure(post, sim.components(0), float(sim.sigma), ranks)
            return {"i": index} | kept | orders_of(post) | {"seconds": seconds}

        return answer


def orders_of(post: RefinedPosterior) -> Record:
    """Every K's evidence and how it was found, and the moments of A and f at the most probable K."""
    sampled = {k: post.log_evidence[k].tolist() for k in sorted(post.orders.results)}
    found: Record = {
        "evidence": {str(k): value for k, value in sampled.items()},
        "methods": {str(k): method for k, method in sorted(post.orders.methods.items())},
        "moments": None,
    }
    if post.k_map and post.k_map in post.orders.results:
        draws = post.weighted()
        x, weights = draws.theta[..., [0, -1]], draws.weights  # (n, K, 2)
        mean = np.einsum("n,nkp->kp", weights, x)
        width = np.sqrt(np.einsum("n,nkp->kp", weights, (x - mean) ** 2))
        effective = post.ess * len(weights)
        found["moments"] = {
            "mean": mean.tolist(),
            "width": width.tolist(),
            "effective": effective,
        }
    return found


def summary(records: list[Record]) -> dict[str, Any]:
    """Times, counts, calibration and coverage of one part."""
    probs = torch.tensor([r["k_probs"] for r in records], dtype=torch.float64)
    truth = torch.tensor([r["k"] for r in records])
    k_map, confidence = top_label(probs)
    mean, limit = ece_of_perfect(probs, repeats=1000)
    seconds = np.array([r["seconds"] for r in records])
    slowest = np.argsort(-seconds)[:3]
    found: dict[str, Any] = {
        "signals": len(records),
        "cpu_seconds": {
            "mean": round(float(seconds.mean()), 3),
            "median": round(float(np.median(seconds)), 3),
            "p90": round(float(np.quantile(seconds, 0.9)), 3),
            "worst": round(float(seconds.max()), 3),
            "slowest_signals": [int(records[i]["i"]) for i in slowest],
        },
        "k_right": round(float((k_map == truth).double().mean()), 4),
        "mean_p_of_true_k": round(float(probs[torch.arange(len(truth)), truth].mean()), 4),
        "ece": round(float(ece(confidence, k_map == truth)), 4),
        "ece_of_perfect": {"mean": round(mean, 4), "below_in_95_percent": round(limit, 4)},
        "verdicts": dict(Counter(r["status"] for r in records)),
        "methods_at_true_k": dict(Counter(r["method"] for r in records)),
        "median_ess": round(float(np.median([r["ess"] for r in records])), 3),
    }
    covered = curves(records)
    for symbol in (SYMBOLS[i] for i in TABLE_ORDER):
        if symbol in covered:
            curve, column = covered[symbol]
            alpha, value = curve.worst(column)
            limit = deviation_of_perfect(curve.n_tones)
            found[f"coverage_{symbol}"] = {
                "largest_deviation": round(value, 4),
                "at": round(float(alpha), 2),
                "perfect_within": round(limit, 4),
            }
    return found


def differences(ours: list[Record], others: list[Record]) -> dict[str, Any]:
    """How far two versions differ on the same signals."""
    evidence, means, widths = list[float](), list[float](), list[float]()
    probs = [
        float(np.abs(np.subtract(a["k_probs"], b["k_probs"])).max())
        for a, b in zip(ours, others, strict=True)
    ]
    for a, b in zip(ours, others, strict=True):
        for k in a["evidence"].keys() & b["evidence"].keys():
            (x, e_x), (y, e_y) = a["evidence"][k], b["evidence"][k]
            if a["k_probs"][int(k)] > 1e-3 and 0 < math.hypot(e_x, e_y) < math.inf:
                evidence.append((x - y) / math.hypot(e_x, e_y))
        m, n = a["moments"], b["moments"]
        if m is None or n is None or len(m["mean"]) != len(n["mean"]):
            continue
        share = math.sqrt(1 / m["effective"] + 1 / n["effective"])
        means += list(((np.array(m["mean"]) - n["mean"]) / n["width"]).ravel() / share)
        widths += list((np.array(m["width"]) / n["width"] - 1).ravel())
    return {
        "largest_difference_of_p_of_k": round(max(probs), 4),
        "rms_difference_of_p_of_k": round(rms(probs), 4),
        "same_count": sum(
            int(np.argmax(a["k_probs"]) == np.argmax(b["k_probs"]))
            for a, b in zip(ours, others, strict=True)
        ),
        "ln_z_compared": len(evidence),
        "rms_pull_of_ln_z": round(rms(evidence), 3),
        "mean_pull_of_ln_z": round(float(np.mean(evidence)), 3) if evidence else None,
        "largest_pull_of_ln_z": round(float(np.abs(evidence).max()), 2) if evidence else None,
        "rms_pull_of_means": round(rms(means), 3),
        "median_ratio_of_widths": round(1 + float(np.median(widths)), 4) if widths else None,
    }


def rms(values: list[float]) -> float:
    """Root mean square; NaN of nothing."""
    return float(np.sqrt(np.mean(np.square(values)))) if values else math.nan


def add(parser: argparse.ArgumentParser) -> None:
    """The script's own flags."""
    parser.add_argument("--answers", type=Path, help="file to keep each signal's answer in")
    parser.add_argument("--before", type=Path, help="answers of another version to compare with")


def main() -> None:
    """Answers the signals and prints what they took."""
    options = parse(__doc__, SETS, 60, add)
    records = records_of(options, Crowded(options.seed), SETTINGS)
    results: dict[str, Any] = {name: {"now": summary(found)} for name, found in records.items()}
    if options.flags.before is not None:
        before = json.loads(options.flags.before.read_text("utf-8"))
        for name, found in records.items():
            other = before[name][: len(found)]
            results[name]["before"] = summary(other)
            results[name]["compared"] = differences(found, other)
    if options.flags.answers is not None:
        options.flags.answers.write_text(json.dumps(records), "utf-8")
    write_json(options, SETTINGS, results)


if __name__ == "__main__":
    main()
