"""An ablation: variants of one network, trained side by side in rounds, and what is measured of each of them.

A round is one seed: all variants begin with weights of that seed, see the same signals in the same order
(`slotflow.studies.trainings`), and answer the same fresh ones afterwards. Signals are drawn on the device, each of them
once; the paper trains for many passes over a set of the stated size.

Full sizes are meant for a few minutes of one H200, which takes 13,000 steps of a signal a second with six processes at
work, and are not meant for a CPU; batches are as large as that GPU needs to be busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from slotflow.network.config import Config
from slotflow.studies.ablations.errors import PARAMETERS, errors_of, score_of
from slotflow.studies.frame.settings import Settings
from slotflow.studies.frame.study import Data, Setup
from slotflow.studies.measures.means import mean_and_error
from slotflow.studies.suites.sets import suite_seed
from slotflow.studies.trainings import Training, draw_batch, train_together, training_seed, varied

__all__ = ["Ablation", "Size", "base_config"]

K_MAX = 5
"""Largest number of tones (paper, 5.3.1)."""
EVALUATION_BATCH = 256
"""Signals that are evaluated together, which bounds the memory of their draws."""
HIGH_QUANTILE = 0.99
"""Quantile of the gradient's norms that says how calm a training was."""


@dataclass(frozen=True)
class Size:
    """How much a variant is trained and evaluated in a round."""

    steps: int
    """Steps of each training."""
    batch: int
    """Signals of a step."""
    rounds: int
    """Seeds."""
    signals: int
    """Fresh signals of the evaluation."""
    draws: int
    """Draws of each slot."""
    checkpoints: int
    """Equal parts of the training after which loss and score are looked at."""


QUICK = Size(steps=4, batch=16, rounds=1, signals=16, draws=16, checkpoints=2)


def base_config(quick: bool, size: Size) -> Config:
    """What all variants of an ablation start from: the paper's network for up to five tones, or a tiny one.

    The recipe is that of our trainings of preset `paper` (benchmarks/paper.yaml) with half its learning rate, which
    rises over a fifth of the steps: with the whole of it after a tenth, and batches of 16 signals, the losses of the
    first steps grew. The jitter of the radius makes the target well posed.
    """
    train = {
        "batch_size": size.batch,
        "optimizer": "adamw",
        "learning_rate": 4e-4,
        "schedule": "cosine",
        "warmup_steps": size.steps // 5,
        "ema": 0.99,
        "clip_norm": 1.0,
        "bfloat16": not quick,
    }
    if quick:
        tiny_encoder = {"channels": (8, 8, 16), "context": 16, "noise": False}
        return varied(
            Config.from_preset("debug"),
            encoder=tiny_encoder,
            flow={"hidden": 16, "bins": 4},
            train=train,
        )
    config = varied(Config.from_preset("paper"), flow={"radius_jitter": 0.1}, train=train)
    prior = replace(config.model.prior, k_max=K_MAX)
    return replace(config, model=replace(config.model, prior=prior))


@dataclass(frozen=True)
class Ablation:
    """One ablation."""

    set_number: int
    """Tells the seeds of its fresh signals from those of other sets; never reused."""
    full: Size
    """Its size, if it is not a quick look."""
    variants: Callable[[Config], dict[str, Config]]
    """The configs to train, by name, from the one that they start from."""

    def size(self, settings: Settings) -> Size:
        """The size that was asked for."""
        return QUICK if settings.quick else self.full

    def rounds(self, settings: Settings) -> int:
        """Number of rounds."""
        return self.size(settings).rounds

    def signals(self, settings: Settings) -> int:
        """Signals of a round, which every variant sees."""
        size = self.size(settings)
        return size.steps * size.batch + size.signals

    def measure(self, setup: Setup, number: int) -> Data:
        """Trains and evaluates all variants with one seed."""
        size, seed = self.size(setup.settings), setup.settings.seed
        config = base_config(setup.settings.quick, size)
        device = torch.device(setup.device or "cpu")
        whole, rest = divmod(size.signals, EVALUATION_BATCH)
        fresh = [
            draw_batch(config, n, suite_seed(self.set_number, 1000 * number + i, seed), device)
            for i, n in enumerate([EVALUATION_BATCH] * whole + [rest] * bool(rest))
        ]
        parts = range(1, size.checkpoints + 1)
        steps = [size.steps * part // size.checkpoints for part in parts]
        curves: dict[str, list[Data]] = {}
        found: Data = {}
        for step, trainings in train_together(
            self.variants(config), steps, training_seed(number, seed), device
        ):
            for name, training in trainings.items():
                network = training.averaged()
                looked = {"step": step, "loss": _unweighted_loss(training)}
                looked |= score_of(network, fresh[0], size.draws, seed)
                curves.setdefault(name, []).append(looked)
                if step == size.steps:
                    errors = errors_of(network, fresh, size.draws, seed)
                    found[name] = errors | _calm(training) | {"curve": curves[name]}
        return found

    def gather(self, rounds: Sequence[Data]) -> Data:
        """Means over rounds, of single numbers with their standard errors; counts are summed."""
        names = list(rounds[0])
        return {name: _together([one[name] for one in rounds]) for name in names}


def _unweighted_loss(training: Training) -> float | None:
    """Flow loss since the last checkpoint, as if both weights were 1; None if no step was taken.

    A density of y = w u is smaller by the factor w than that of u, for each of the two coordinates of the phase and for
    the frequency.
    """
    flow, terms = training.config.model.flow, training.mean_terms()
    if not terms:
        return None
    return terms["flow"] - 2 * math.log(flow.phase_weight) - math.log(flow.frequency_weight)


def _calm(training: Training) -> Data:
    """Steps that were left out, and how much larger than usual the gradient was at times."""
    norms = training.gradient_norms
    spread = float(np.quantile(norms, HIGH_QUANTILE) / np.median(norms)) if norms else None
    return {"skipped": training.skipped, "gradient_spread": spread}


def _together(rounds: Sequence[Data]) -> Data:
    """A variant over all rounds."""
    spreads = [one["gradient_spread"] for one in rounds if one["gradient_spread"] is not None]
    return {
        **{
            kind: {name: mean_and_error([one[kind][name] for one in rounds]) for name in PARAMETERS}
            for kind in ("sd", "robust", "mean")
        },
        "histogram": {
            name: np.mean([one["histogram"][name] for one in rounds], axis=0).tolist()
            for name in PARAMETERS
        },
        "accuracy": mean_and_error([one["accuracy"] for one in rounds]),
        "confusion": np.sum([one["confusion"] for one in rounds], axis=0).tolist(),
        "score": mean_and_error([one["score"] for one in rounds]),
        "skipped": sum(one["skipped"] for one in rounds),
        "gradient_spread": mean_and_error(spreads) if spreads else None,
        "curve": {
            key: [_mean([one["curve"][i][key] for one in rounds]) for i in range(len(curve))]
            for curve in [rounds[0]["curve"]]
            for key in curve[0]
        },
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are there; None if there are none."""
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
