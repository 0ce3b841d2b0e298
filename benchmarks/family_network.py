"""The network for several classes: counts, classes, errors over the bound, coverage, its time, and the exact step.

    python benchmarks/family_network.py --size 10000 --parts law --device cuda --out docs/data/family-network.json
    python benchmarks/family_network.py --size 200 --parts same --jobs 15 --out docs/data/family-same.json
    python benchmarks/family_network.py --size 200 --parts exact --jobs 15 --out docs/data/family-exact.json

Part `law` answers mixtures of the network's own law in batches on `--device`: K uniform in 0..6, each class as likely,
a band of 120 bins, |ḟ|T² at most 60, γT log-uniform in 1.5–30, ρ log-uniform in 5–40, known noise level.

The other parts answer the first signals of `benchmarks/family.py`, whose noise level is unknown, one by one as a user
would. Part `same` takes the network alone, `model.infer(observation, prior=prior, method="network")`, and beside it the
search with evidence, `family_posterior` without the network's proposals. Part `exact` takes the exact step behind the
network, `model.infer(observation, prior=prior)`, and compares ln Z of its most probable K with that of a run without
the network, of twice as many draws. Times are CPU seconds of these calls.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from family import PARTS, SAMPLES, prior, share

from slotflow import Channel, Grid, Observation, Prior, SlotFlow
from slotflow.core.arrays import Array
from slotflow.exact.family.posterior import family_posterior
from slotflow.network.cards import content_hash
from slotflow.network.family.model import FamilySlotFlow
from slotflow.signal.simulation_classes import simulate_classes
from slotflow.signal.waveforms import Classes
from slotflow.studies.measures.cardinality import ece
from slotflow.studies.measures.family import family_rows, family_scores
from slotflow.studies.proof.command import (
    LARGEST_DEVIATION,
    Options,
    parse,
    records_of,
    write_json,
)
from slotflow.studies.tasks import Record, Worker

MOST_ALONE = 200
"""Signals that are answered one by one."""
SEARCH_SECONDS, SEARCH_DRAWS = 60.0, 500
"""Time budget and draws of the search with evidence."""
EXACT_SECONDS, EXACT_DRAWS = 240.0, 2000
"""Time budget and draws of the exact step behind the network; the clock's time, ample so that other work beside it
does not end it early."""
LONG_SECONDS, LONG_DRAWS = 240.0, 4000
"""Those of the long run without the network that its ln Z is compared with."""
SETTINGS = {
    "search": [SEARCH_SECONDS, SEARCH_DRAWS],
    "exact": [EXACT_SECONDS, EXACT_DRAWS],
    "long": [LONG_SECONDS, LONG_DRAWS],
}


@dataclass(frozen=True)
class Alone:
    """A process's worker for signals that are answered one by one."""

    name: str
    """Of the model."""
    seed: int

    def __call__(self) -> Worker:
        model, stated = loaded(self.name), prior()

        def answer(part: str, index: int) -> Record:
            true, observation = self.signal(index)
            if part == "same":
                found = _same(model, observation, stated, index)
            else:
                found = _exact(model, observation, stated, index)
            waveform = stated.waveform
            assert isinstance(waveform, Classes)
            kinds = np.bincount(
                waveform.class_of(true).astype(int), minlength=len(waveform.members)
            )
            return {"i": index, "k": len(true), "counts": kinds.tolist(), **found}

        return answer

    def signal(self, index: int) -> tuple[Array, Observation]:
        """The true components and the data of a signal of `benchmarks/family.py`."""
        words = [self.seed, PARTS.index("mixed"), index]
        own = int(np.random.SeedSequence(words).generate_state(1)[0])
        drawn = prior(sigma=(1.0, 1.0))
        made = simulate_classes(drawn, 1, Grid(SAMPLES, 1.0), seed=own, is_complex=True)
        values = made.long[0].numpy().astype(np.complex128)
        true: Array = made.theta[0, : int(made.k[0])].numpy()
        return true, Observation([Channel(values, dt=1.0, trend=-1)])


def _same(
    model: FamilySlotFlow, observation: Observation, stated: Prior, index: int
) -> dict[str, Any]:
    """The network's answer, and that of the search with evidence."""
    began = time.process_time()
    post: Any = model.infer(observation, prior=stated, method="network")
    found = {
        "k_probs": post.k_probs.tolist(),
        "counts_map": list(post.most_probable.values()),
        "seconds": time.process_time() - began,
    }
    began = time.process_time()
    search = family_posterior(
        observation, stated, draws=SEARCH_DRAWS, seed=index, max_seconds=SEARCH_SECONDS
    )
    return found | {
        "search_k_probs": search.k_probs.tolist(),
        "search_counts_map": list(next(iter(search.counts_probs()))),
        "search_seconds": time.process_time() - began,
    }


def _exact(
    model: FamilySlotFlow, observation: Observation, stated: Prior, index: int
) -> dict[str, Any]:
    """The exact step behind the network, and ln Z of its most probable K in a long run without the network."""
    began = time.process_time()
    post: Any = model.infer(
        observation, prior=stated, seed=index, draws=EXACT_DRAWS, max_seconds=EXACT_SECONDS
    )
    seconds = time.process_time() - began
    long: Any = family_posterior(
        observation, stated, draws=LONG_DRAWS, seed=index + 2**20, max_seconds=LONG_SECONDS
    )
    return {
        "k_probs": post.k_probs.tolist(),
        "counts_map": list(next(iter(post.counts_probs()))),
        "status": post.verdict.status,
        "proposed_by": post.proposed_by,
        "ess": float(post.ess),
        "seconds": seconds,
        "log_z": post.log_evidence[post.k_map].tolist(),
        "long_log_z": long.log_evidence[post.k_map].tolist(),
        "long_ess": float(long.ess),
        "long_k_map": int(long.k_map),
    }


def same_summary(records: list[Record]) -> dict[str, Any]:
    """Counts and time of the network and of the search on the same signals."""
    found = _counted(records, "")
    found["search"] = _counted(records, "search_")
    ours, theirs = (
        np.array([np.argmax(r[f"{who}k_probs"]) == r["k"] for r in records])
        for who in ("", "search_")
    )
    found["right_of_one_alone"] = {
        "network": int((ours & ~theirs).sum()),
        "search": int((theirs & ~ours).sum()),
    }
    return found


def _counted(records: list[Record], who: str) -> dict[str, Any]:
    """Counts and CPU seconds of one of the two."""
    probs = [np.array(r[f"{who}k_probs"]) for r in records]
    right = [int(p.argmax()) == r["k"] for p, r in zip(probs, records, strict=True)]
    top = torch.tensor([float(p.max()) for p in probs])
    seconds = [r[f"{who}seconds"] for r in records]
    return {
        "k_right": share(right),
        "k_right_expected": round(float(top.mean()), 4),
        "ece": round(float(ece(top, torch.tensor(right))), 4),
        "counts_of_each_class_right": share(
            [r[f"{who}counts_map"] == r["counts"] for r in records]
        ),
        "cpu_seconds": {
            "median": round(float(np.median(seconds)), 3),
            "mean": round(float(np.mean(seconds)), 3),
        },
    }


def exact_summary(records: list[Record]) -> dict[str, Any]:
    """How well the exact step samples behind the network, and its ln Z beside the long run's."""
    ours, long = (np.array([r[name] for r in records]) for name in ("log_z", "long_log_z"))
    error = np.hypot(ours[:, 1], long[:, 1])
    # Without components ln Z is a formula, and its error 0.
    known = np.isfinite(ours).all(1) & np.isfinite(long).all(1) & (error > 0)
    away = (ours[known, 0] - long[known, 0]) / error[known]
    outside = np.flatnonzero(known)[np.abs(away) >= LARGEST_DEVIATION]
    ess = np.array([r["ess"] for r in records])
    return _counted(records, "") | {
        "exact": share([r["status"] == "exact" for r in records]),
        "ess": {"median": round(float(np.median(ess)), 3), "least": round(float(ess.min()), 3)},
        "log_z": {
            "compared": int(known.sum()),
            "within": int((np.abs(away) < LARGEST_DEVIATION).sum()),
            "rms_pull": round(float(np.sqrt(np.mean(away**2))), 3),
            "outside": {str(i): (ours[i] - long[i])[0].round(2) for i in outside},
        },
        "proposed_by_the_network_too": sum("family" in r["proposed_by"] for r in records),
    }


def loaded(name: str) -> FamilySlotFlow:
    """The model of a name, a folder or a file."""
    model = SlotFlow.from_pretrained(name)
    if not isinstance(model, FamilySlotFlow):
        raise SystemExit(f"{name}: expected a network of the family.")
    return model


def own_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that only this script has."""
    parser.add_argument("--model", default="family", help="weights by name, a folder or a file")
    parser.add_argument("--rows", type=Path, help="JSON file for the rows of the model's card")
    parser.add_argument("--device", default="cpu", help="where part law is computed")


def law(model: FamilySlotFlow, options: Options) -> dict[str, Any]:
    """Scores on the network's own law."""
    model.to(options.flags.device)
    began = time.perf_counter()
    scores = family_scores(model, options.size, options.seed)
    if options.flags.rows is not None:
        rows = [row.to_dict() for row in family_rows(scores)]
        options.flags.rows.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    facts = {"seconds": round(time.perf_counter() - began, 1), "device": options.flags.device}
    return scores.plain() | facts


SUMMARIES = {"same": same_summary, "exact": exact_summary}


def main() -> None:
    """Answers all mixtures and prints the measures."""
    options = parse(__doc__, ["law", *SUMMARIES], 10000, own_flags)
    model = loaded(options.flags.model)
    results: dict[str, Any] = {}
    if "law" in options.parts:
        results["law"] = law(model, options)
    parts = tuple(part for part in options.parts if part in SUMMARIES)
    if parts:
        few = dataclasses.replace(options, parts=parts)
        weights = {"weights": content_hash(model.state_dict(), {})}
        sizes = dict.fromkeys(parts, min(options.size, MOST_ALONE))
        worker = Alone(options.flags.model, options.seed)
        records = records_of(few, worker, SETTINGS | weights, sizes)
        results |= {part: SUMMARIES[part](found) for part, found in records.items()}
    write_json(options, {"model": model.config.name, "prior": str(model.config.prior)}, results)


if __name__ == "__main__":
    main()
