"""Study `leaderboard`: the methods of the paper's table 1, trained alike on one task (paper, section 1.2).

A round is one method with one seed. All methods of a seed see the same signals in the same order, take the same number
of steps, and answer the same fresh signals, whichever process trains them (`task` says what they are). A core trains a
method within minutes, so that the cores of one machine are as good as a GPU: `--jobs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from slotflow.network.config import Config
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.studies.ablations.ablation import EVALUATION_BATCH
from slotflow.studies.comparators.exact_step import ExactStep
from slotflow.studies.comparators.picture import plot
from slotflow.studies.comparators.properties import properties_of
from slotflow.studies.comparators.released import Released
from slotflow.studies.comparators.scores import Method, scores_of
from slotflow.studies.comparators.table import compare
from slotflow.studies.comparators.task import task_config
from slotflow.studies.comparators.training import METHODS, train
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup, Study
from slotflow.studies.measures.means import mean_and_error
from slotflow.studies.suites.sets import suite_seed
from slotflow.studies.trainings import draw_batch, training_seed

__all__ = ["EXACT", "LEADERBOARD", "RELEASED"]

SET_NUMBER = 123
"""Tells the seeds of the fresh signals from those of other sets; never reused."""
RELEASED = "zoom"
"""The network that takes part as it is released, with a budget of its own."""
EXACT = "exact"
"""The exact step with that network's proposals."""


@dataclass(frozen=True)
class Size:
    """How much a method is trained and measured."""

    steps: int
    batch: int
    """Signals of a step."""
    seeds: int
    signals: int
    """Fresh signals."""
    draws: int
    """Draws of each of them."""
    pairs: int
    """Close pairs, and signals whose labels are permuted."""
    pair_draws: int
    """Draws of each pair."""


FULL = Size(steps=6000, batch=64, seeds=3, signals=1024, draws=200, pairs=16, pair_draws=2000)
QUICK = Size(steps=4, batch=16, seeds=1, signals=24, draws=16, pairs=2, pair_draws=64)


def _size(settings: Settings) -> Size:
    return QUICK if settings.quick else FULL


def _names(settings: Settings) -> tuple[str, ...]:
    """What takes part; a quick look does without the references."""
    return tuple(METHODS) if settings.quick else (*METHODS, RELEASED, EXACT)


def _rounds(settings: Settings) -> int:
    return _size(settings).seeds * len(_names(settings))


def _signals(settings: Settings) -> int:
    """Signals of a round, those of a training among them."""
    size = _size(settings)
    return size.steps * size.batch + size.signals


def _measure(setup: Setup, number: int) -> Data:
    """Trains one method with one seed and measures it."""
    settings, size = setup.settings, _size(setup.settings)
    which, index = divmod(number, len(_names(settings)))
    name = _names(settings)[index]
    config = task_config(size.steps, size.batch, settings.quick)
    device = torch.device(setup.device or "cpu")
    method, facts = _method(setup, name, config, which)
    first = suite_seed(SET_NUMBER, 1000 * which, settings.seed)
    whole, rest = divmod(size.signals, EVALUATION_BATCH)
    fresh = [
        draw_batch(config, n, first + i, device)
        for i, n in enumerate([EVALUATION_BATCH] * whole + [rest] * bool(rest))
    ]
    prior = config.model.prior
    return {
        "method": name,
        "seed": which,
        "training": facts,
        **scores_of(method, fresh, prior, size.draws, settings.seed),
        **properties_of(method, config.model, size.pairs, size.pair_draws, first + 500),
    }


def _method(setup: Setup, name: str, config: Config, which: int) -> tuple[Method, Data]:
    """A method after its training, and the facts of the training."""
    if name in (RELEASED, EXACT):
        network, prior = setup.network(RELEASED), config.model.prior
        assert isinstance(network, ZoomSlotFlow)
        reference = Released(network, prior) if name == RELEASED else ExactStep(network, prior)
        return reference, {"seconds": 0.0, "skipped": 0, "loss": None}
    device, seed = torch.device(setup.device or "cpu"), training_seed(which, setup.settings.seed)
    return train(name, config, _size(setup.settings).steps, seed, device)


MEANS = (
    "exact_k", "log_count", "ece", "f1", "f_error", "coverage", "log_q", "log_prior", "draws_per_second"
)  # fmt: skip
"""What is averaged over seeds."""


def _gather(rounds: Sequence[Data]) -> Data:
    """Means over seeds with their standard errors, method by method, in the order of the rounds."""
    found: Data = {}
    for name in dict.fromkeys(one["method"] for one in rounds):
        found[name] = _together([one for one in rounds if one["method"] == name])
    return found


def _together(rounds: Sequence[Data]) -> Data:
    """One method over its seeds."""
    first = rounds[0]
    works = {key: first[key] for key in ("work_draw", "work_loss", "parameters", "tolerance")}
    pairs = {
        key: [value for one in rounds for value in one["dependence"][key]]
        for key in ("largest", "found", "exact")
    }
    return {
        **{key: mean_and_error([one[key] for one in rounds]) for key in MEANS},
        **works,
        "values": {key: [one[key] for one in rounds] for key in MEANS},
        "ece_perfect": max(one["ece_perfect"][1] for one in rounds),
        "coverage_perfect": max(one["coverage_perfect"] for one in rounds),
        "coverage_at": [[*one["coverage_at"], one["coverage_sign"]] for one in rounds],
        "label_change": max(one["label_change"] for one in rounds),
        "dependence": {key: mean_and_error(values) for key, values in pairs.items()},
        "seeds": len(rounds),
        "skipped": sum(one["training"]["skipped"] for one in rounds),
        "seconds": sum(one["training"]["seconds"] for one in rounds) / len(rounds),
        "loss": [one["training"]["loss"] for one in rounds],
    }


LEADERBOARD = Study(
    name="leaderboard",
    title="The methods of table 1, trained alike",
    section="1.2, table 1",
    claim="Set Flow is equivariant but takes K as known; MONet fixes the number of its slots; CoSMIC infers K through "
    "masking at a cost of O(K_max); SlotFlow is amortized, trans-dimensional and equivariant at a cost of O(K), with "
    "slots that share a context and are independent given it.",
    caption="Every point is one seed, every cross the mean of a method; grey: the default network as it is released, "
    "with a budget of its own, and the exact step. Arrows point to what is better. Dotted: what a perfect posterior "
    "stays below with 95 % probability (ECE, coverage), the prior (ln q), the joint bound (correlation).",
    code=(
        "studies/comparators",
        "studies/ablations/ablation",
        "studies/slots",
        "studies/trainings",
        "train",
    ),
    rounds=_rounds,
    signals=_signals,
    measure=_measure,
    gather=_gather,
    compare=compare,
    plot=plot,
    networks=(RELEASED,),
)
