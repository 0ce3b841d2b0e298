"""The network for several classes: counts, classes, errors over the bound, coverage, and its time.

    python benchmarks/family_network.py --model family --size 10000 --out docs/data/family-network.json

Part `law` answers mixtures of the network's own law in batches on `--device`: K uniform in 0..6, each class as likely,
a band of 120 bins, |ḟ|T² at most 60, γT log-uniform in 1.5–30, ρ log-uniform in 5–40, known noise level. Part `same`
answers the first signals of `benchmarks/family.py`, whose noise level is unknown, one by one as a user would:
`model.infer(observation, prior=prior, method="network")`; beside it stands the search with evidence on the same
signals, `family_posterior` without the network's proposals. Times are CPU seconds of these calls.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from family import PARTS, SAMPLES, prior, share

from slotflow import Channel, Grid, Observation, SlotFlow
from slotflow.exact.family.posterior import family_posterior
from slotflow.network.family.model import FamilySlotFlow
from slotflow.signal.simulation_classes import simulate_classes
from slotflow.studies.measures.cardinality import ece
from slotflow.studies.measures.family import family_rows, family_scores
from slotflow.studies.proof.command import parse, write_json

MOST_ALONE = 60
"""Signals that are answered one by one."""
SEARCH_SECONDS, SEARCH_DRAWS = 60.0, 500
"""Time budget and draws of the search with evidence."""


def same(model: FamilySlotFlow, size: int, seed: int) -> dict[str, Any]:
    """Answers to the signals of `benchmarks/family.py`, one by one: the network's, and those of the search."""
    stated, drawn = prior(), prior(sigma=(1.0, 1.0))
    k_right, counts_right, top, seconds = [], [], [], []
    searched, search_seconds = [], []
    for index in range(size):
        words = [seed, PARTS.index("mixed"), index]
        own = int(np.random.SeedSequence(words).generate_state(1)[0])
        made = simulate_classes(drawn, 1, Grid(SAMPLES, 1.0), seed=own, is_complex=True)
        values = made.long[0].numpy().astype(np.complex128)
        observation = Observation([Channel(values, dt=1.0, trend=-1)])
        began = time.process_time()
        post: Any = model.infer(observation, prior=stated, method="network")
        seconds.append(time.process_time() - began)
        true = made.theta[0, : int(made.k[0])].numpy()
        kinds = np.bincount(post.waveform.class_of(true).astype(int), minlength=len(post.classes))
        k_right.append(post.k_map == len(true))
        top.append(float(post.k_probs.max()))
        counts_right.append(list(post.most_probable.values()) == kinds.tolist())
        began = time.process_time()
        search = family_posterior(
            observation, stated, draws=SEARCH_DRAWS, seed=index, max_seconds=SEARCH_SECONDS
        )
        search_seconds.append(time.process_time() - began)
        searched.append(search.k_map == len(true))
    calibration = ece(torch.tensor(top), torch.tensor(k_right))
    return {
        "k_right": share(k_right),
        "k_right_expected": round(float(np.mean(top)), 4),
        "ece": round(float(calibration), 4),
        "counts_of_each_class_right": share(counts_right),
        "cpu_seconds": {
            "median": round(float(np.median(seconds)), 3),
            "mean": round(float(np.mean(seconds)), 3),
        },
        "search": {
            "k_right": share(searched),
            "cpu_seconds": {
                "median": round(float(np.median(search_seconds)), 3),
                "mean": round(float(np.mean(search_seconds)), 3),
            },
        },
    }


def own_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that only this script has."""
    parser.add_argument("--model", default="family", help="weights by name, a folder or a file")
    parser.add_argument("--rows", type=Path, help="JSON file for the rows of the model's card")
    parser.add_argument("--device", default="cpu", help="where part law is computed")


def main() -> None:
    """Answers all mixtures and prints the measures."""
    options = parse(__doc__, ["law", "same"], 10000, own_flags)
    model = SlotFlow.from_pretrained(options.flags.model)
    if not isinstance(model, FamilySlotFlow):
        raise SystemExit(f"{options.flags.model}: expected a network of the family.")
    results: dict[str, Any] = {}
    if "law" in options.parts:
        model.to(options.flags.device)
        began = time.perf_counter()
        scores = family_scores(model, options.size, options.seed)
        results["law"] = scores.plain()
        results["law"]["seconds"] = round(time.perf_counter() - began, 1)
        results["law"]["device"] = options.flags.device
        if options.flags.rows is not None:
            rows = [row.to_dict() for row in family_rows(scores)]
            options.flags.rows.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if "same" in options.parts:
        torch.set_num_threads(1)
        model.to("cpu")
        results["same"] = same(model, min(options.size, MOST_ALONE), options.seed)
    write_json(options, {"model": model.config.name, "prior": str(model.config.prior)}, results)


if __name__ == "__main__":
    main()
