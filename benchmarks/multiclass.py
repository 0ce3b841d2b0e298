"""How good a network of several classes is on fresh mixtures: numbers of each kind, classes given K, coverage.

    slotflow train --preset multiclass --out runs/multiclass
    python benchmarks/multiclass.py --model runs/multiclass --size 2000 --out docs/data/multiclass.json

Signals are drawn under the prior and the gains of the model's training, from seeds that no training uses. The measures
stand in `studies/measures/classes.py`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import Any

import torch

from slotflow import SlotFlow
from slotflow.core.arrays import Array
from slotflow.core.seeds import EVALUATION_SEED
from slotflow.network.multiclass.model import MulticlassSlotFlow
from slotflow.network.multiclass.posterior import ClassPosterior
from slotflow.signal.simulation_classes import ClassSimulation, simulate_classes
from slotflow.studies.measures.calibration import deviation_of_perfect
from slotflow.studies.measures.classes import class_coverage, count_scores, right_classes
from slotflow.studies.proof.command import parse, write_json

COVERED = 500
"""Signals whose coverage is measured; draws take longer than counts."""
LOUD = 10.0
"""ρ above which the class of a component should be known."""


def truths(batch: ClassSimulation, names: tuple[str, ...], size: int) -> list[dict[str, Array]]:
    """True θ of each class by its name, (K_c, P_c), of the first signals."""
    counts, theta = batch.by_class()
    parts = [own.split(n.tolist()) for own, n in zip(theta, counts.T, strict=True)]
    return [
        {name: part[i].numpy() for name, part in zip(names, parts, strict=True)}
        for i in range(size)
    ]


def results(model: MulticlassSlotFlow, size: int, seed: int) -> dict[str, Any]:
    """All measures of a model on `size` mixtures."""
    config = model.config
    batch = simulate_classes(
        config.prior, size, config.long, config.short, gain=config.gain, seed=EVALUATION_SEED + seed
    )
    signals = [batch.observation(i) for i in range(size)]
    began = time.process_time()
    answers = list(model.infer_each(signals))
    seconds = time.process_time() - began
    probs = torch.stack([torch.as_tensor(post.mixed.probs) for post in answers])
    counts, _ = batch.by_class()
    right = right_classes(model.tables, probs, counts)
    loud = (batch.gains.masked_fill(~batch.mask, torch.inf).amin(1) > LOUD) & (batch.k > 0)
    covered = min(size, COVERED)
    curves = coverages(answers[:covered], truths(batch, model.classes, covered), seed)
    return {
        "signals": size,
        "numbers of each class": rounded(asdict(count_scores(model.tables, probs, counts))),
        "class right, K given": round(float(right.sum() / batch.k.sum()), 4),
        f"class right, K given, all above {LOUD:g}": round(
            float(right[loud].sum() / batch.k[loud].sum()), 4
        ),
        f"coverage, {covered} signals": curves,
        "cpu_milliseconds_per_signal": round(1e3 * seconds / size, 3),
    }


def coverages(
    answers: list[ClassPosterior], truth: list[dict[str, Array]], seed: int
) -> dict[str, Any]:
    """Largest deviation of coverage from its level of each class and parameter, beside what chance allows."""
    found: dict[str, Any] = {}
    for name, curve in class_coverage(answers, truth, seed=seed).items():
        names = answers[0].mixed.waveform.members[name].names
        worst = {parameter: curve.worst(i)[1] for i, parameter in enumerate(names)}
        chance = deviation_of_perfect(curve.n_tones)
        found[name] = {"components": curve.n_tones, **rounded(worst), "by chance": round(chance, 4)}
    return found


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Four digits of each value."""
    return {name: round(value, 4) for name, value in values.items()}


def own_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that only this script has."""
    parser.add_argument("--model", required=True, help="a training folder or a model file")


def main() -> None:
    """Answers all mixtures and prints the measures."""
    options = parse(__doc__, ["mixtures"], 2000, own_flags)
    model = SlotFlow.from_pretrained(options.flags.model)
    if not isinstance(model, MulticlassSlotFlow):
        raise SystemExit(f"{options.flags.model}: expected a network of several classes.")
    settings = {"model": model.config.name, "prior": str(model.config.prior)}
    write_json(options, settings, results(model, options.size, options.seed))


if __name__ == "__main__":
    main()
