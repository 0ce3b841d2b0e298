"""What is measured in a round, one network with one K, and rounds put together.

A round trains a network for every size of the training set and every seed, all at the same time (`trainings`); they
cost hardly more than one of them. Seeds have weights and training sets of their own, and share the fresh signals of the
validation. A study that ends early lacks some K. Rounds know what they are, and those that are put together may be any;
the ends of the range of K come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from slotflow.network.paper.model import PaperSlotFlow
from slotflow.studies.ablations.errors import score_of
from slotflow.studies.complexity.fixed_sets import (
    nested_sets,
    training_signals,
    validation_batches,
)
from slotflow.studies.complexity.learners import LEARNERS, learner_config
from slotflow.studies.complexity.trainings import train_on_sets, validation_terms
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup
from slotflow.studies.measures.means import mean_and_error
from slotflow.studies.trainings import training_seed
from slotflow.train.objectives import build_objective

__all__ = ["FULL", "QUICK", "Size", "asked", "gather", "measure", "rounds", "signals"]

FARTHEST = 1e6
"""Losses beyond this, and those that are no numbers, count as this: a network that has diverged."""


@dataclass(frozen=True)
class Size:
    """How much is trained."""

    sizes: tuple[int, ...]
    """N of the training sets, rising."""
    counts: tuple[int, ...]
    """K, in the order of the rounds."""
    seeds: int
    """Trainings of each size."""
    batch: int
    """Signals of a step."""
    validation: tuple[int, ...]
    """Batches of fresh signals."""
    checkpoints: int
    """Equal parts of a training after which it is validated."""
    draws: int
    """Draws of each slot that place the nodes of the radial integral in the score."""
    steps: int | None = None
    """Steps of every training, if not those of the networks."""


FULL = Size(
    sizes=(100, 200, 500, 1000, 2000, 5000, 10_000),
    counts=(10, 1, 2, 4, 6, 8),
    seeds=3,
    batch=128,
    validation=(512,),
    checkpoints=8,
    draws=32,
)
QUICK = Size(
    sizes=(8, 16),
    counts=(1, 2),
    seeds=1,
    batch=6,
    validation=(8,),
    checkpoints=2,
    draws=8,
    steps=4,
)


def _size(settings: Settings) -> Size:
    return QUICK if settings.quick else FULL


def rounds(settings: Settings) -> int:
    """Number of rounds."""
    size = _size(settings)
    return len(size.counts) * len(LEARNERS)


def signals(settings: Settings) -> int:
    """Different signals of a round."""
    size = _size(settings)
    return size.seeds * size.sizes[-1] + sum(size.validation)


def asked(settings: Settings, number: int) -> tuple[int, str]:
    """K and network of a round."""
    count, network = divmod(number, len(LEARNERS))
    return _size(settings).counts[count], list(LEARNERS)[network]


def measure(setup: Setup, number: int) -> Data:
    """Trains a network of one K on sets of all sizes, with all seeds, and keeps the validation at all checkpoints.

    Returns:
        "network", "k", "sizes", facts of the network and its training, and the "curves" of each seed and size: "step",
        "loss" above the network's floor, its "flow" part, and the "score" where there is one.
    """
    size, user_seed = _size(setup.settings), setup.settings.seed
    device = torch.device(setup.device or "cpu")
    k, name = asked(setup.settings, number)
    learner = LEARNERS[name]
    steps = size.steps or learner.steps
    config = learner_config(learner, steps, size.batch)
    whole = size.seeds * size.sizes[-1]
    fixed = training_signals(config.model, whole, k, number, user_seed, device)
    fresh = validation_batches(config.model, size.validation, k, number, user_seed, device)
    sets = nested_sets(size.sizes, size.seeds)
    first = training_seed(number, user_seed)
    weight_seeds = [first + i // len(size.sizes) for i in range(len(sets))]
    checkpoints = [steps * part // size.checkpoints for part in range(1, size.checkpoints + 1)]
    curves: list[dict[str, list[float | None]]] = [
        {"step": [], "loss": [], "flow": [], "score": []} for _ in sets
    ]
    parameters = 0
    for step, networks in train_on_sets(config, fixed, sets, checkpoints, weight_seeds):
        for curve, network in zip(curves, networks, strict=True):
            terms = validation_terms(build_objective(network, config.loss, False), fresh)
            score = None
            if learner.scored and isinstance(network, PaperSlotFlow):
                score = score_of(network, fresh[0], size.draws, user_seed)["score"]
            loss = terms[learner.classification] + terms["flow"] - learner.floor
            curve["step"].append(step)
            curve["loss"].append(_bounded(loss))
            curve["flow"].append(_bounded(terms["flow"]))
            curve["score"].append(score)
            parameters = sum(weight.numel() for weight in network.parameters())
    n = len(size.sizes)
    return {
        "network": name,
        "k": k,
        "steps": steps,
        "batch": size.batch,
        "layers": config.model.flow.layers,
        "width": config.model.flow.hidden,
        "parameters": parameters,
        "sizes": list(size.sizes),
        "curves": [curves[seed * n : (seed + 1) * n] for seed in range(size.seeds)],
    }


def gather(rounds: Sequence[Data]) -> Data:
    """Means over seeds, of the rounds that are there.

    Returns:
        For each network its facts and "counts", what was found at each K (as text): "seeds", "sizes", and for every
        size mean and standard error of the least "loss" and of the "score" at its step, "losses" and "scores" by seed,
        the mean "step" of the least loss and the mean "last" loss.
    """
    data: Data = {}
    for name in LEARNERS:
        own = sorted((one for one in rounds if one["network"] == name), key=lambda one: one["k"])
        if own:
            facts = ("steps", "batch", "layers", "width", "parameters")
            data[name] = {key: own[0][key] for key in facts}
            data[name]["counts"] = {str(one["k"]): _over_seeds(one) for one in own}
    return data


def _over_seeds(found: Data) -> Data:
    """One round."""
    curves = found["curves"]  # by seed and size
    best = [[_least(curve) for curve in one] for one in curves]
    places = range(len(found["sizes"]))
    by_seed = {key: [[one[key] for one in of] for of in best] for key in ("loss", "score", "step")}
    scored = by_seed["score"][0][0] is not None

    def over(values: Sequence[Sequence[float]]) -> list[list[float | None]]:
        return [mean_and_error([of[i] for of in values]) for i in places]

    return {
        "seeds": len(curves),
        "sizes": found["sizes"],
        "losses": by_seed["loss"],
        "scores": by_seed["score"] if scored else None,
        "loss": over(by_seed["loss"]),
        "score": over(by_seed["score"]) if scored else None,
        "step": [mean for mean, _ in over(by_seed["step"])],
        "last": [mean for mean, _ in over([[one["loss"][-1] for one in of] for of in curves])],
    }


def _bounded(loss: float) -> float:
    """The same loss, or the farthest that counts."""
    return min(loss, FARTHEST) if math.isfinite(loss) else FARTHEST


def _least(curve: Data) -> Data:
    """What was measured at the checkpoint with the least loss."""
    place = min(range(len(curve["loss"])), key=lambda i: curve["loss"][i])
    return {key: values[place] for key, values in curve.items()}
