"""What is measured in a round, one network with one K and one seed, and rounds put together.

A round trains a network on each of the nested sets (`trainings`). The first seed of all networks and all K comes before
the second one, so that a study that ends early has fewer seeds rather than fewer K. Rounds know what they are, and those
that are put together may be any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from slotflow.network.paper.model import PaperSlotFlow
from slotflow.studies.ablations.errors import score_of
from slotflow.studies.complexity.fixed_sets import training_set, validation_batches
from slotflow.studies.complexity.learners import LEARNERS, learner_config
from slotflow.studies.complexity.trainings import train_on_sets, validation_terms
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup
from slotflow.studies.measures.means import mean_and_error
from slotflow.studies.theory.minimum_samples import PAPER_COUNTS
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
    """K."""
    seeds: int
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
    counts=PAPER_COUNTS,
    seeds=3,
    batch=128,
    validation=(256, 256),
    checkpoints=10,
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
    return size.seeds * len(size.counts) * len(LEARNERS)


def signals(settings: Settings) -> int:
    """Different signals of a round."""
    size = _size(settings)
    return size.sizes[-1] + sum(size.validation)


def asked(settings: Settings, number: int) -> tuple[int, int, str]:
    """Seed, K and network of a round."""
    size = _size(settings)
    seed, rest = divmod(number, len(size.counts) * len(LEARNERS))
    count, network = divmod(rest, len(LEARNERS))
    return seed, size.counts[count], list(LEARNERS)[network]


def measure(setup: Setup, number: int) -> Data:
    """Trains a network on every set of a K and a seed, and keeps the validation at all checkpoints.

    Returns:
        "network", "k", "seed", "sizes", "parameters", and for each size a curve: "step", "loss" above the network's
        floor, its "flow" part, and the "score" where there is one.
    """
    size, user_seed = _size(setup.settings), setup.settings.seed
    device = torch.device(setup.device or "cpu")
    seed, k, name = asked(setup.settings, number)
    learner = LEARNERS[name]
    steps = size.steps or learner.steps
    config = learner_config(learner, steps, size.batch)
    fixed = training_set(config.model, size.sizes[-1], k, number, user_seed, device)
    fresh = validation_batches(config.model, size.validation, k, number, user_seed, device)
    checkpoints = [steps * part // size.checkpoints for part in range(1, size.checkpoints + 1)]
    curves: list[dict[str, list[float | None]]] = [
        {"step": [], "loss": [], "flow": [], "score": []} for _ in size.sizes
    ]
    parameters = 0
    for step, networks in train_on_sets(
        config, fixed, size.sizes, checkpoints, training_seed(number, user_seed)
    ):
        for curve, network in zip(curves, networks, strict=True):
            terms = validation_terms(build_objective(network, config.loss, False), fresh)
            score = None
            if learner.scored and isinstance(network, PaperSlotFlow):
                score = score_of(network, fresh[0], size.draws, user_seed)["score"]
            curve["step"].append(step)
            loss = terms[learner.classification] + terms["flow"] - learner.floor
            curve["loss"].append(_bounded(loss))
            curve["flow"].append(_bounded(terms["flow"]))
            curve["score"].append(score)
            parameters = sum(weight.numel() for weight in network.parameters())
    return {
        "network": name,
        "k": k,
        "seed": seed,
        "steps": steps,
        "batch": size.batch,
        "layers": config.model.flow.layers,
        "width": config.model.flow.hidden,
        "parameters": parameters,
        "sizes": list(size.sizes),
        "curves": curves,
    }


def gather(rounds: Sequence[Data]) -> Data:
    """Means over the seeds that are there.

    Returns:
        For each network its facts and under "counts" for each K (as text): "seeds", "sizes", and for every size mean and
        standard error of the least "loss" and of the "score" at its step, all "losses" by seed, the mean "step" of the
        least loss and the mean "last" loss.
    """
    data: Data = {}
    for name in LEARNERS:
        own = [one for one in rounds if one["network"] == name]
        if not own:
            continue
        facts = {key: own[0][key] for key in ("steps", "batch", "layers", "width", "parameters")}
        counts = sorted({one["k"] for one in own})
        data[name] = facts | {
            "counts": {str(k): _over_seeds([one for one in own if one["k"] == k]) for k in counts}
        }
    return data


def _over_seeds(rounds: Sequence[Data]) -> Data:
    """The rounds of one network and one K."""
    best = [[_least(curve) for curve in one["curves"]] for one in rounds]  # by seed and size
    places = range(len(rounds[0]["sizes"]))
    scores = [[one[i]["score"] for one in best] for i in places]
    return {
        "seeds": len(rounds),
        "sizes": rounds[0]["sizes"],
        "losses": [[found["loss"] for found in one] for one in best],
        "loss": [mean_and_error([one[i]["loss"] for one in best]) for i in places],
        "score": None if None in scores[0] else [mean_and_error(values) for values in scores],
        "step": [mean_and_error([one[i]["step"] for one in best])[0] for i in places],
        "last": [
            mean_and_error([one["curves"][i]["loss"][-1] for one in rounds])[0] for i in places
        ],
    }


def _bounded(loss: float) -> float:
    """The same loss, or the farthest that counts."""
    return min(loss, FARTHEST) if math.isfinite(loss) else FARTHEST


def _least(curve: Data) -> Data:
    """What was measured at the checkpoint with the least loss."""
    place = min(range(len(curve["loss"])), key=lambda i: curve["loss"][i])
    return {key: values[place] for key, values in curve.items()}
